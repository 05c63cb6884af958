"""The offline judge: rules alone, no model, no network (ledger X0). The default when no key is set.

Belongs here: the rules of the judge stage in the shape of a judge. The rules themselves stand in the stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from kb_pipeline.adapters.judges import Script

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


class RuleJudge(Generic[RequestT, ReplyT]):
    """Decides every pair by rule; never fails and never leaves the machine."""

    is_network = False
    judges_open_pairs = False
    usage: Mapping[str, int] = MappingProxyType({})
    estimate: Mapping[str, float | None] = MappingProxyType({})
    cost_usd: float | None = None

    def __init__(self, script: Script[RequestT, ReplyT]) -> None:
        self._script = script
        self.name = script.RULE_JUDGE
        self.fingerprint = f"{self.name}/{script.RULE_VERSION}"

    def decide(self, requests: Sequence[RequestT]) -> Iterator[ReplyT]:
        """One reply per request, in their order."""
        yield from self._script.rule_replies(requests)
