"""Rows of the report: pairs and retirements, as the tables and the files list them (D1, behaviour 24).

Belongs here: which rows there are, their order, and what is withheld from them. Does not belong here: counts
(report_health), documents, layout.

Texts of entries in which a secret is suspected never leave through a report, and neither do parts of them: specifics
and explanations of a pair are withheld as soon as one of its entries holds one. Restricted entries are treated alike.
"""

from __future__ import annotations

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.stages.report_week import WeekData
from kb_pipeline.stages.report_words import RESTRICTED_TEXT, RETIRE_RULES, SECRET_TEXT
from kb_pipeline.vocabulary import ActionType, Band, Sensitivity


def withheld_texts(entries: pl.DataFrame) -> dict[str, str]:
    """Entry id -> the notice that stands for its text, for every entry of ENTRIES whose text must not be shown."""
    notices = entries.select("entry_id", _notice().alias("notice")).drop_nulls("notice")
    return dict(notices.iter_rows())


def pair_rows(week: WeekData) -> pl.DataFrame:
    """Rows of the table ``report_pairs``: every pair, strongest band first, then by similarity, then by ids."""
    shut = week.entries.select("entry_id", _notice().alias("notice"))
    order = {band.value: rank for rank, band in enumerate(Band)}
    joined = week.verdicts.join(
        shut.rename({"notice": "notice_l"}), left_on="entry_id_l", right_on="entry_id", how="left"
    ).join(shut.rename({"notice": "notice_r"}), left_on="entry_id_r", right_on="entry_id", how="left")
    notice = pl.coalesce("notice_l", "notice_r")
    hidden = [
        pl.when(notice.is_not_null() & (pl.col(name).list.len() > 0))
        .then(pl.concat_list(notice))
        .otherwise(pl.col(name))
        .alias(name)
        for name in ("specifics_only_l", "specifics_only_r")
    ]
    return (
        joined.with_columns(hidden)
        .sort(
            pl.col("band").replace_strict(order, return_dtype=pl.Int64),
            -pl.col("similarity").fill_null(0.0),
            "entry_id_l",
            "entry_id_r",
        )
        .select(
            *_run(week),
            "entry_id_l",
            "entry_id_r",
            pl.col("similarity").round(6),
            "band",
            "verdict",
            "reason",
            "judge",
            "specifics_only_l",
            "specifics_only_r",
            pl.when(pl.col("superseded_side") == "l")
            .then("entry_id_l")
            .when(pl.col("superseded_side") == "r")
            .then("entry_id_r")
            .alias("superseded_id"),
            pl.col("word_similarity").round(6),
        )
    )


def pruning_rows(week: WeekData) -> pl.DataFrame:
    """Rows of the table ``report_pruning``: every entry that a retirement rule speaks against, by id.

    ``action`` is ``archive`` (done), ``halted`` (would have been done), ``recommend`` (a person is asked) or ``keep``
    (a protection saved it).
    """
    decided = week.retirement.filter(pl.col("retire_decision") != "keep").sort("entry_id")
    retired = week.plan.filter(pl.col("action") == ActionType.RETIRE)["entry_id"]
    saved = pl.col("retire_decision") == "review"
    reason = pl.col("retire_reasons").list.first()
    return decided.join(
        week.entries.select("entry_id", "last_matched_at", "confidence"),
        on="entry_id",
        how="left",
        maintain_order="left",
    ).select(
        *_run(week),
        "entry_id",
        pl.when(saved)
        .then(pl.lit("keep"))
        .when(~pl.col("entry_id").is_in(retired.implode()))
        .then(pl.lit("recommend"))
        .otherwise(pl.lit("halted" if week.halted else "archive"))
        .alias("action"),
        reason.replace(RETIRE_RULES).alias("rule"),
        reason.alias("reason"),
        pl.col("last_matched_at").cast(schemas.Time),
        "confidence",
        saved.alias("protected"),
    )


def _notice() -> pl.Expr:
    return (
        pl.when(pl.col("secret_kinds").list.len() > 0)
        .then(pl.lit(SECRET_TEXT))
        .when(pl.col("sensitivity") == Sensitivity.RESTRICTED)
        .then(pl.lit(RESTRICTED_TEXT))
        .otherwise(pl.lit(None, dtype=pl.String))
    )


def _run(week: WeekData) -> list[pl.Expr]:
    header = week.header
    return [
        pl.lit(header.corpus).alias("corpus"),
        pl.lit(header.week).alias("week"),
        pl.lit(header.run_id).alias("run_id"),
    ]
