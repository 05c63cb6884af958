"""The report of a week (ledger D1, M17): everything that files, tables, page and summaries are made of.

Belongs here: the week with all its readings, as the one thing that assets and adapters hold. Does not belong here: what
the readings say (report_health, report_rows, report_documents, report_page) and how they are written (adapters).
All of it is pure: the same frames give the same documents, rows and page but for run id and clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from kb_pipeline.stages.report_blocks import Page
from kb_pipeline.stages.report_documents import documents
from kb_pipeline.stages.report_health import health_rows
from kb_pipeline.stages.report_page import page, plots
from kb_pipeline.stages.report_rows import pair_rows, pruning_rows
from kb_pipeline.stages.report_text import markdown_summary, summary_lines
from kb_pipeline.stages.report_week import CheckLine, ReportHeader, WeekData, states_after

__all__ = [
    "CheckLine",
    "ReportHeader",
    "WeekFrames",
    "documents",
    "health_rows",
    "markdown_summary",
    "pair_rows",
    "pruning_rows",
    "states_after",
    "summary_lines",
]


@dataclass(frozen=True)
class WeekFrames(WeekData):
    """The frames of a week with what can be read from them; adapters take it as it is and never import this module."""

    def documents(self) -> dict[str, dict[str, Any]]:
        """File name -> YAML document, ``header`` first."""
        return documents(self)

    def page(self) -> Page:
        """The health report as one page."""
        return page(self)

    def plots(self) -> dict[str, dict[str, Any]]:
        """Figure name -> its numbers."""
        return plots(self)

    def health_rows(self) -> pl.DataFrame:
        """Rows of the table ``report_health``."""
        return health_rows(self)

    def pair_rows(self) -> pl.DataFrame:
        """Rows of the table ``report_pairs``."""
        return pair_rows(self)

    def pruning_rows(self) -> pl.DataFrame:
        """Rows of the table ``report_pruning``."""
        return pruning_rows(self)
