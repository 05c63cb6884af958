"""What earlier runs reported, read back from the report tables.

Belongs here: questions about reported weeks. Writing the tables stands in report_tables.
"""

from __future__ import annotations

from datetime import date

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.errors import WeekError


def load_trend(database: Database, corpus: str, before: date) -> pl.DataFrame:
    """Health numbers of the weeks before, all repositories together, oldest first."""
    return database.read(
        """
        SELECT week, sum(entry_count)::bigint AS entry_count, sum(active)::bigint AS active,
               sum(candidates)::bigint AS candidates, sum(needs_review)::bigint AS needs_review,
               sum(archived)::bigint AS archived, sum(conflicted)::bigint AS conflicted,
               sum(queue_length)::bigint AS queue_length, sum(retired)::bigint AS retired,
               sum(merged)::bigint AS merged,
               sum(mean_distinctiveness * entry_count) / nullif(sum(entry_count), 0) AS mean_distinctiveness
        FROM report_health
        WHERE corpus = $1 AND week < $2
        GROUP BY week ORDER BY week
        """,
        (corpus, before),
    )


def last_reported_week(database: Database, corpus: str, asked: date | None) -> date:
    """The week whose report rows are meant: the asked one, else the last that was curated.

    Raises:
        WeekError: the week (or the corpus) was never curated.
    """
    frame = database.read("SELECT DISTINCT week FROM report_health WHERE corpus = $1 ORDER BY week DESC", (corpus,))
    known: list[date] = frame["week"].to_list()
    if not known:
        raise WeekError(f"corpus {corpus!r} was never curated; start with: kb curate --corpus {corpus}")
    if asked is not None and asked not in known:
        raise WeekError(f"week {asked} of corpus {corpus!r} was never curated; the last one is {known[0]}")
    return asked or known[0]


def read_pairs(database: Database, corpus: str, week: date) -> pl.DataFrame:
    """The duplicate candidates of a week as ``kb pairs`` prints them, by ids."""
    frame = database.read(
        """
        SELECT entry_id_l, entry_id_r, similarity, band, verdict, reason, judge,
               specifics_only_l::text AS specifics_only_l, specifics_only_r::text AS specifics_only_r,
               word_similarity, superseded_id
        FROM report_pairs WHERE corpus = $1 AND week = $2
        ORDER BY entry_id_l COLLATE "C", entry_id_r COLLATE "C"
        """,
        (corpus, week),
    )
    return frame.with_columns(
        pl.col("specifics_only_l", "specifics_only_r").cast(pl.String).str.json_decode(pl.List(pl.String)),
        pl.col("superseded_id").cast(pl.String),
    )
