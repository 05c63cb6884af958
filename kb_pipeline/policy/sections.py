"""What the sections of a policy share: ranges, and a frozen model that takes no unknown key."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]
Days = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A part of the policy: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
