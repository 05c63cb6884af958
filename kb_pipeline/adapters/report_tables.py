"""Report tables of a week: the rows of the files, for analysts and for the trend (D1).

Belongs here: replacing the rows of one corpus and week. Does not belong here: what the rows say (stages/report).
"""

from __future__ import annotations

from datetime import date
from typing import Protocol

import polars as pl

from kb_pipeline.adapters.database import Cursor, copy_in


class PartitionHeader(Protocol):
    """Names the partition."""

    @property
    def corpus(self) -> str:
        """The corpus."""

    @property
    def week(self) -> date:
        """Its Monday."""


class TabledWeek(Protocol):
    """A week that has rows for the report tables."""

    @property
    def header(self) -> PartitionHeader:
        """Which partition."""

    def health_rows(self) -> pl.DataFrame:
        """Rows of ``report_health``."""

    def pair_rows(self) -> pl.DataFrame:
        """Rows of ``report_pairs``."""

    def pruning_rows(self) -> pl.DataFrame:
        """Rows of ``report_pruning``."""


def write_tables(cursor: Cursor, week: TabledWeek) -> None:
    """Replaces what the report tables hold of the week's corpus and week, in the cursor's transaction."""
    tables = {
        "report_health": week.health_rows(),
        "report_pairs": week.pair_rows(),
        "report_pruning": week.pruning_rows(),
    }
    for table, rows in tables.items():
        cursor.execute(f"DELETE FROM {table} WHERE corpus = %s AND week = %s", (week.header.corpus, week.header.week))
        copy_in(cursor, table, rows)
