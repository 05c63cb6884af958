"""What every plan is made against, be it of a week or of a pass: what waits, what people answered, what is in conflict.

Belongs here: reading it, and handing it on to the plan stage. Nothing here knows Dagster, and nothing is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.runs import Run
from kb_pipeline.adapters.snapshots import load_answered, load_open_conflicts, load_queue
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages import conflicts, flags, gates, merge, merge_bodies, refresh, retire, supersede
from kb_pipeline.stages.plan import recommendation_id
from kb_pipeline.stages.queue import still_waiting
from kb_pipeline.vocabulary import ReasonCode, RecommendationType

RULE_KEYS: dict[str, str] = {
    **{code.value: key for code, key in gates.RULE_KEYS.items()},
    **{code.value: key for code, key in retire.RULE_KEYS.items()},
    **{code.value: key for stage in (flags, supersede, refresh, merge_bodies) for code, key in stage.RULE_KEYS.items()},
    ReasonCode.CONFLICTS_CONTRADICTION.value: conflicts.RULE_KEY,
    ReasonCode.CONFLICTS_VALUE_MISMATCH.value: conflicts.RULE_KEY,
    ReasonCode.CONFLICTS_TEXT_CHANGED.value: conflicts.RULE_KEY,
    ReasonCode.CONFLICTS_SIDE_GONE.value: conflicts.RULE_KEY,
    ReasonCode.MERGE_CHAIN.value: merge.RULE_KEY,
    ReasonCode.MERGE_SPECIFICS_DIFFER.value: merge.RULE_KEY,
}
"""Reason code -> policy key of its rule."""


@dataclass(frozen=True)
class Standing:
    """A corpus before a run. ``queue`` is QUEUE, ``answered`` are ids of questions, ``open_conflicts`` is CONFLICTS."""

    queue: pl.DataFrame
    answered: list[str]
    open_conflicts: pl.DataFrame

    def unasked(self, found: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
        """The rows of FLAGS to which nobody has given an answer yet."""
        return found.filter(~pl.Series(_flag_questions(found, entries), dtype=pl.String).is_in(self.answered))

    def of_plan(self, policy: Policy, entries: pl.DataFrame) -> dict[str, Any]:
        """The arguments of ``build_plan`` that follow from all this and the policy."""
        return {
            "max_new": {
                "flags": policy.flags.max_new_per_run,
                "supersede": policy.supersede.max_new_per_run,
                "refresh": policy.refresh.max_new_per_run,
            },
            "queue": self.queue,
            "open_conflicts": set(self.open_conflicts["conflict_id"]),
            "conflicts_over": partial(conflicts.conflicts_over, self.open_conflicts, entries),
            "admit_to": policy.gates.admit_to,
            "rule_keys": RULE_KEYS,
            "answered": self.answered,
        }


def load_standing(database: Database, run: Run, entries: pl.DataFrame) -> Standing:
    """What a run finds: ``entries`` are the ENTRIES that it sees."""
    return Standing(
        still_waiting(load_queue(database, run), entries),
        load_answered(database, run),
        load_open_conflicts(database, run),
    )


def _flag_questions(found: pl.DataFrame, entries: pl.DataFrame) -> list[str]:
    """Id of the question that each flagged entry would be, in the order of ``found``."""
    texts = found.join(entries.select("entry_id", "content_hash"), on="entry_id", how="left", maintain_order="left")
    asked = {"recommendation_type": RecommendationType.FLAG.value, "other_entry_id": None, "other_content_hash": None}
    return [
        recommendation_id(asked | {"entry_id": entry, "content_hash": text})
        for entry, text in texts.select("entry_id", "content_hash").iter_rows()
    ]
