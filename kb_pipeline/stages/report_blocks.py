"""What a report page is built of: sections of words, tables, pairs of texts and figures.

Belongs here: shapes, and the way numbers and dates are written. Does not belong here: what a page says (report_page and
report_sections), markup and drawing (adapters).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from kb_pipeline.stages.report_diff import Piece

NOT_KNOWN = "\u2013"
"""Stands where there is no value."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: what it says.
        kind: ``text``, ``number``, ``entry`` (an entry's title with its id), ``code`` or ``mark`` (a coloured word).
        detail: second line, smaller: an id, or what was measured.
        share: 0-1 draws a bar behind a number; None draws none.
        tone: ``good``, ``warn``, ``bad`` or empty, for marks.
    """

    text: str
    kind: str = "text"
    detail: str = ""
    share: float | None = None
    tone: str = ""


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str
    tone: str = ""
    form: str = "words"


@dataclass(frozen=True)
class Table:
    """A table; ``more`` says what is not listed, ``empty`` stands instead of no rows, ``folded`` hides it at first."""

    caption: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    empty: str = ""
    more: str = ""
    folded: bool = False
    form: str = "table"


@dataclass(frozen=True)
class Side:
    """One text of a pair. ``note`` says what becomes of it (stays, archived), ``withheld`` replaces the text."""

    entry_id: str
    title: str
    pieces: Sequence[Piece]
    note: str = ""
    withheld: str = ""


@dataclass(frozen=True)
class Pair:
    """Two texts side by side with what was decided and why."""

    left: Side
    right: Side
    verdict: str
    tone: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Pairs:
    """Pairs of texts under one heading; ``unfolded`` shows them at once."""

    caption: str
    pairs: Sequence[Pair]
    unfolded: bool = False
    more: str = ""
    empty: str = ""
    form: str = "pairs"


@dataclass(frozen=True)
class Figure:
    """A plot, drawn by the adapter from the numbers of its name; ``summary`` says in words what it shows."""

    name: str
    caption: str
    summary: str
    form: str = "figure"


Block = Words | Table | Pairs | Figure


@dataclass(frozen=True)
class Section:
    """A part of the page. ``word`` is the stage it reports on."""

    word: str
    title: str
    lead: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Task:
    """Something to do next, with the command that does it where there is one."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Tile:
    """A key number: ``change`` against the week before, in words."""

    label: str
    number: str
    change: str = ""


@dataclass(frozen=True)
class Page:
    """All of a health report.

    Attributes:
        title: heading.
        subtitle: which week.
        status: ``ok``, ``halted`` or ``degraded``.
        status_words: what that means for this run.
        summary: the week in a few sentences.
        tasks: what to do next, most urgent first.
        tiles: key numbers.
        trend: figures over the weeks, or words when there is one week alone.
        notes: what a reader must know.
        sections: stage by stage.
        header: facts of the run; the only place for run id and clock.
        plots: figure name -> its numbers.
    """

    title: str
    subtitle: str
    status: str
    status_words: str
    summary: Sequence[str]
    tasks: Sequence[Task]
    tiles: Sequence[Tile]
    trend: Sequence[Block]
    notes: Sequence[str]
    sections: Sequence[Section]
    header: Sequence[tuple[str, str]]
    plots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def number(value: int | float | None, digits: int = 0) -> str:
    """``1,204`` or ``0.87``; a dash when not known."""
    return NOT_KNOWN if value is None else f"{value:,.{digits}f}"


def percent(share: float | None) -> str:
    """``87.3%``, rounded down so that 100% means all; a dash when not known."""
    return NOT_KNOWN if share is None else f"{math.floor(round(share * 1000, 6)) / 10:g}%"


def signed(change: int) -> str:
    """``+3``, or ``-3`` with a real minus sign."""
    return f"{change:+,}".replace("-", "\u2212")


def day(moment: date | datetime | None) -> str:
    """``16 Nov 2026``; a dash when not known."""
    return NOT_KNOWN if moment is None else f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def moment(value: datetime) -> str:
    """``23 Nov 2026, 00:00 UTC``."""
    return f"{day(value)}, {value:%H:%M} UTC"


def counted(value: int | None, share: float | None = None) -> Cell:
    """A number cell, with a bar of ``share`` (0-1) behind it if given."""
    return Cell(number(value), "number", share=share)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
