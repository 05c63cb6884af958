"""Entries as a page shows them: titles, texts side by side, and notices where a text must not be shown.

Belongs here: the one way from an entry id to something visible, so that no section can show what is to be withheld.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from kb_pipeline.stages.report_blocks import NOT_KNOWN, Cell, Side
from kb_pipeline.stages.report_diff import Piece, marked, shortened
from kb_pipeline.stages.report_rows import withheld_texts
from kb_pipeline.stages.report_week import WeekData
from kb_pipeline.vocabulary import ActionType, State

TITLE_CHARS = 110
SIDE_CHARS = 700


class EntryTexts:
    """Titles and texts of the week's entries, read for the entries asked for, never for the whole corpus.

    Attributes:
        shut: entry id -> notice that stands for its text.
        fates: entry id -> what the run made of it, for entries that it archived.
    """

    def __init__(self, week: WeekData) -> None:
        self.shut = withheld_texts(week.entries)
        self.fates = _fates(week)
        self._entries = week.entries.select("entry_id", "title", "text", "kind", "repository")
        self._known: dict[str, dict[str, Any]] = {}

    def load(self, entry_ids: Iterable[str]) -> None:
        """Reads the entries that will be shown."""
        wanted = sorted(set(entry_ids) - self._known.keys())
        if wanted:
            found = self._entries.filter(pl.col("entry_id").is_in(wanted))
            self._known.update({row["entry_id"]: row for row in found.iter_rows(named=True)})

    def title(self, entry_id: str) -> str:
        """Title of a loaded entry, shortened; the notice if its text is withheld, the id if it is not known."""
        if entry_id in self.shut:
            return self.shut[entry_id]
        row = self._known.get(entry_id)
        return shortened(row["title"], TITLE_CHARS) or "(no title)" if row else entry_id

    def cell(self, entry_id: str | None, note: str = "") -> Cell:
        """A table cell with title and id of a loaded entry."""
        if entry_id is None:
            return Cell(NOT_KNOWN)
        return Cell(self.title(entry_id), "entry", detail=f"{entry_id} · {note}" if note else entry_id)

    def sides(self, left: str, right: str) -> tuple[Side, Side]:
        """The texts of two loaded entries side by side, differences marked; if one is withheld, nothing is compared."""
        said = self.fates
        if left in self.shut or right in self.shut:
            # Marked differences of the other text would tell what the withheld one holds.
            return self._unmarked(left), self._unmarked(right)
        text_l, text_r = (self._known.get(entry, {}).get("text", "") for entry in (left, right))
        pieces_l, pieces_r = marked(text_l, text_r, max_chars=SIDE_CHARS)
        return (
            Side(left, self.title(left), pieces_l, said.get(left, "")),
            Side(right, self.title(right), pieces_r, said.get(right, "")),
        )

    def _unmarked(self, entry_id: str) -> Side:
        notice = self.shut.get(entry_id, "")
        text = "" if notice else shortened(self._known.get(entry_id, {}).get("text", ""), SIDE_CHARS)
        return Side(entry_id, self.title(entry_id), [Piece(text, "same")], self.fates.get(entry_id, ""), notice)


def _fates(week: WeekData) -> dict[str, str]:
    words = {ActionType.MERGE: "merged into {}", ActionType.RETIRE: "retired", ActionType.REFUSE: "refused"}
    archived = week.applied_plan.filter(pl.col("to_state") == State.ARCHIVED)
    return {
        row["entry_id"]: words[row["action"]].format(row["other_entry_id"]) for row in archived.iter_rows(named=True)
    }
