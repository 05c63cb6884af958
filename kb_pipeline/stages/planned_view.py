"""The retrieval view as a plan would leave it (X7): what is decided is looked at before it is done.

Belongs here: states, merges and conflicts after a plan. Does not belong here: which entries are then eligible
(eligibility), and how well they answer (golden_queries).
"""

from __future__ import annotations

import polars as pl

from kb_pipeline import schemas_retrieval
from kb_pipeline.vocabulary import ActionType, ConflictState, Severity


def facts_after(facts: pl.DataFrame, plan: pl.DataFrame, is_open: pl.DataFrame) -> pl.DataFrame:
    """RETRIEVAL_FACTS as they would be once the plan was applied: same rows, same order.

    ``mild_conflicts`` keep nobody out and stay as they are.

    Args:
        facts: RETRIEVAL_FACTS before the run.
        plan: PLAN; questions change nothing.
        is_open: CONFLICTS that would be open then.
    """
    moved = plan.filter(pl.col("to_state").is_not_null()).unique("entry_id", keep="first", maintain_order=True)
    gone_into = moved.filter(pl.col("action").is_in([ActionType.MERGE, ActionType.REFUSE])).select(
        "entry_id", pl.col("other_entry_id").alias("taken_by")
    )
    sides = _both_sides(is_open)
    severe = (
        sides.filter(pl.col("severity") == Severity.HIGH)
        .select("entry_id", "other")
        .unique()
        .sort("entry_id", "other")
        .group_by("entry_id", maintain_order=True)
        .agg(pl.col("other").alias("severe_then"))
    )
    ended = _both_sides(plan.filter(pl.col("action") == ActionType.CLOSE_CONFLICT).rename(_PLAN_SIDES))
    over = ended.select("entry_id").unique().join(sides, on="entry_id", how="anti")["entry_id"]
    after = (
        facts.join(moved.select("entry_id", "to_state"), on="entry_id", how="left", maintain_order="left")
        .join(gone_into, on="entry_id", how="left", maintain_order="left")
        .join(severe, on="entry_id", how="left", maintain_order="left")
    )
    return schemas_retrieval.RETRIEVAL_FACTS.select(
        after.with_columns(
            pl.coalesce("to_state", "state").alias("state"),
            pl.coalesce("taken_by", "merged_into").alias("merged_into"),
            pl.col("severe_then").fill_null([]).alias("severe_conflicts"),
            pl.when(pl.col("entry_id").is_in(over.implode()))
            .then(pl.lit(ConflictState.RESOLVED.value))
            .otherwise("conflict_state")
            .alias("conflict_state"),
        )
    )


_PLAN_SIDES = {"entry_id": "entry_id_l", "other_entry_id": "entry_id_r"}


def _both_sides(pairs: pl.DataFrame) -> pl.DataFrame:
    """Columns entry_id, other and severity: each pair from the view of both its entries."""
    return pl.concat(
        pairs.select(pl.col(own).alias("entry_id"), pl.col(other).alias("other"), "severity")
        for own, other in (("entry_id_l", "entry_id_r"), ("entry_id_r", "entry_id_l"))
    )
