"""The review queue: what waits for a person at the end of a run.

A question waits until somebody answers it, one of its entries leaves the live states, or one of its texts changes. Whether
two entries are one is also answered by marking either as distinct. Order: conflicts first and severe ones before
others, then by value, then by age.
"""

from __future__ import annotations

from datetime import datetime

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.vocabulary import LIVE_STATES, ActionType, ReasonCode, RecommendationType, Severity


def still_waiting(queue: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    """The rows of QUEUE whose entries are all live and unchanged, without merges that a person has answered.

    Args:
        queue: QUEUE, with what was asked in earlier runs.
        entries: ENTRIES.
    """
    live = entries.filter(pl.col("state").is_in(LIVE_STATES)).select(
        pl.col("entry_id").alias("entry_ids"),
        pl.col("content_hash").alias("content_hashes"),
        pl.col("keep_distinct"),
    )
    # What a gate asks of a candidate is whether to let it in, and a mark does not answer that.
    of_merge = (pl.col("recommendation_type") == RecommendationType.MERGE) & (
        pl.col("reason") != ReasonCode.GATES_TOO_SIMILAR_DIFFERS
    )
    gone = (
        queue.select("recommendation_id", "entry_ids", "content_hashes", of_merge.alias("of_merge"))
        .explode("entry_ids", "content_hashes")
        .join(live, on=["entry_ids", "content_hashes"], how="left")
        .filter(pl.col("keep_distinct").is_null() | (pl.col("of_merge") & pl.col("keep_distinct")))
    )
    return queue.join(gone, on="recommendation_id", how="anti", maintain_order="left")


def queue_after(
    queue: pl.DataFrame, entries: pl.DataFrame, plan: pl.DataFrame, ids: list[str], *, as_of: datetime
) -> pl.DataFrame:
    """QUEUE at the end of the run, in the order in which a person should look.

    Args:
        queue: QUEUE before the run.
        entries: ENTRIES before the run.
        plan: PLAN of the run.
        ids: recommendation id of each recommend row of the plan, in its order.
        as_of: end of the week.
    """
    leaving = plan.filter(pl.col("to_state").is_in(LIVE_STATES).not_())["entry_id"]
    asked = plan.filter(pl.col("action") == ActionType.RECOMMEND).select(
        pl.Series("recommendation_id", ids, dtype=pl.String),
        "recommendation_type",
        "severity",
        pl.concat_list("entry_id", "other_entry_id").list.drop_nulls().alias("entry_ids"),
        pl.concat_list("content_hash", "other_content_hash").list.drop_nulls().alias("content_hashes"),
        "reason",
        "explanation",
        "suggested_body",
        "value",
        pl.lit(as_of).cast(schemas.Time).alias("since"),
    )
    # One question about one pair may have more than one ground; the first stands for all.
    asked = asked.unique("recommendation_id", keep="first", maintain_order=True)
    rest = entries.filter(~pl.col("entry_id").is_in(leaving.implode()))
    both = pl.concat([queue, schemas.QUEUE.select(asked)]).unique(
        "recommendation_id", keep="first", maintain_order=True
    )
    return in_order(still_waiting(both, rest))


def in_order(queue: pl.DataFrame) -> pl.DataFrame:
    """QUEUE in the order in which a person should look: conflicts, severe ones first, then by value, then by age."""
    is_conflict = pl.col("recommendation_type") == RecommendationType.CONFLICT
    return queue.sort(
        ~is_conflict,
        # A severe conflict keeps both sides out of retrieval until somebody decides.
        is_conflict & (pl.col("severity") != Severity.HIGH),
        -pl.col("value").fill_null(0.0),
        "since",
        "recommendation_id",
    )
