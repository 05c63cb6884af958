"""The flags of the example week, and what its entries plainly say in the fields that flags read."""

from __future__ import annotations

from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline_tests.fakes.frames import frame

PLAIN_FIELDS: dict[str, Any] = {
    "attempts": 0, "successes": 0, "retrievals": 0, "evidence_count": 0, "has_rationale": False, "step_count": 0,
    "supersedes": [], "generated_from": [],
}  # fmt: skip

FLAGGED: dict[str, tuple[list[str], str, float, list[str]]] = {
    "e18": (["load.addresses_judge"], "medium", 0.9, []),
    "e07": (["flags.no_steps", "flags.several_topics"], "high", 0.74, []),
    "e05": (["flags.gone_reference"], "low", 0.31, ["kb-07 (unknown)"]),
    "e14": (["flags.vague_fact"], "medium", 0.5, []),
}


def week_flags(ids: list[str]) -> pl.DataFrame:
    """FLAGS of these entries, in their order."""
    names = ("flag_reasons", "flag_severity", "flag_value", "gone_references")
    nothing: tuple[Any, ...] = ([], None, None, [])
    return frame(
        schemas.FLAGS,
        [{"entry_id": entry} | dict(zip(names, FLAGGED.get(entry, nothing), strict=True)) for entry in ids],
    )
