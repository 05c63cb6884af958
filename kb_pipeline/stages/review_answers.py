"""What people's answers mean for the pairs of a week: a pair that a person called two is not merged and not asked about.

Belongs here: laying the decisions of people over the verdicts of judges. Does not belong here: what one answer does to
the entries it is about (review).
"""

from __future__ import annotations

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.vocabulary import ReasonCode, Verdict

_OF_THE_JUDGE = (
    "judge_confidence", "explanation", "superseded_side", "suggested_body", "body_fault",
)  # fmt: skip
_PAIR = ("entry_id_l", "entry_id_r", "content_hash_l", "content_hash_r")


def answered_by_people(verdicts: pl.DataFrame, entries: pl.DataFrame, settled: pl.DataFrame) -> pl.DataFrame:
    """VERDICTS, same rows and order; pairs that a person called two have the verdict KEEP_BOTH.

    A merge that was turned down stays open to a conflict; a pair that was kept as two does not. A decision holds for the
    two texts it was made about.

    Args:
        verdicts: VERDICTS.
        entries: ENTRIES.
        settled: entry_id_l, entry_id_r, content_hash_l, content_hash_r, covers (``all`` or ``merge``).
    """
    if settled.is_empty():
        return verdicts
    texts = entries.select("entry_id", "content_hash")
    found = (
        verdicts.join(texts.rename({"content_hash": "content_hash_l"}), left_on="entry_id_l", right_on="entry_id")
        .join(texts.rename({"content_hash": "content_hash_r"}), left_on="entry_id_r", right_on="entry_id")
        .join(settled, on=_PAIR)
        .select("entry_id_l", "entry_id_r", "covers")
    )
    is_kept = pl.col("covers") == "all"
    is_dismissed = (pl.col("covers") == "merge") & pl.col("verdict").is_in([Verdict.MERGE, Verdict.UNSURE])
    decided = (is_kept | is_dismissed).fill_null(False)
    return schemas.VERDICTS.select(
        verdicts.join(found, on=["entry_id_l", "entry_id_r"], how="left", maintain_order="left").with_columns(
            pl.when(decided).then(pl.lit(Verdict.KEEP_BOTH.value)).otherwise("verdict").alias("verdict"),
            pl.when(decided)
            .then(
                pl.when(is_kept)
                .then(pl.lit(ReasonCode.JUDGE_KEPT_BY_PERSON.value))
                .otherwise(pl.lit(ReasonCode.JUDGE_DISMISSED_BY_PERSON.value))
            )
            .otherwise("reason")
            .alias("reason"),
            pl.when(decided).then(pl.lit("person")).otherwise("judge").alias("judge"),
            *(pl.when(decided).then(None).otherwise(name).alias(name) for name in _OF_THE_JUDGE),
            (pl.col("failed") & ~decided).alias("failed"),
        )
    )


def without_settled(pairs: pl.DataFrame, settled: pl.DataFrame) -> pl.DataFrame:
    """The pairs that no person has kept as two; same order. Columns as ``judge_frames.with_texts`` gives them."""
    kept = settled.filter(pl.col("covers") == "all").select(_PAIR)
    return pairs.join(kept, on=_PAIR, how="anti", maintain_order="left")
