"""Plots of a week, drawn with matplotlib: inline SVG for the page, small PNGs for the Dagster UI (M17).

Belongs here: drawing. Does not belong here: which numbers are drawn (stages/report). SVG colours are variables of the
page's style sheet, so that a plot follows the light or dark scheme; SVG text stays text. The same numbers always give
the same bytes: ids come from a fixed salt, and no date is written.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from kb_pipeline.errors import UnknownNameError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Plots = Mapping[str, Mapping[str, Any]]

_DPI = 110
_WIDTH_INCHES, _HEIGHT_INCHES = 4.9, 2.35
_CHARACTER_INCHES, _LABEL_INCHES = 0.072, 0.18
_MAX_TICKS = 6
# Not from the locale: the same week gives the same bytes everywhere.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True)
class Colours:
    """Colours of one medium."""

    ink: str
    muted: str
    grid: str
    bar: str
    accent: str
    soft: str


ON_PAPER = Colours("#1d2733", "#5a6675", "#dfe4ea", "#3b78b0", "#b4531a", "#8fa9c4")
# Each stands for a variable of the style sheet; nothing else is drawn in these.
_VARIABLES = {
    "#010101": "--ink",
    "#020202": "--muted",
    "#030303": "--line",
    "#040404": "--bar",
    "#050505": "--accent",
    "#060606": "--soft",
}
_IN_PAGE = Colours(*_VARIABLES)


class PlottedWeek(Protocol):
    """A week that has numbers to draw."""

    def plots(self) -> dict[str, dict[str, Any]]:
        """Figure name -> its numbers."""


def plot_svg(plots: Plots, name: str) -> str:
    """One figure as an SVG element for a page; its ids begin with the figure's name.

    Args:
        plots: figure name -> numbers.
        name: a key of FIGURES.

    Raises:
        UnknownNameError: there is no such figure.
    """
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "kb_pipeline", "svg.fonttype": "none"}):
        figure = _figure(plots, name, _IN_PAGE)
        figure.savefig(
            buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\sid="|url\(#|href="#)', rf"\1{name}-", svg)
    svg = re.sub(
        r'<svg ([^>]*?)width="[^"]*" ?',
        r"<svg \1",
        re.sub(r'(<svg [^>]*?)height="[^"]*" ?', r"\1", svg, count=1),
        count=1,
    )
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg.strip()


def plot_png(week: PlottedWeek, name: str) -> bytes:
    """One figure of a week as a PNG on white.

    Args:
        week: the week.
        name: ``distinctiveness``, ``similarity``, ``states``, or another key of FIGURES.

    Raises:
        UnknownNameError: there is no such figure.
    """
    buffer = io.BytesIO()
    _figure(week.plots(), name, ON_PAPER).savefig(
        buffer, format="png", dpi=_DPI, facecolor="white", metadata={"Software": None}
    )
    return buffer.getvalue()


def distinctiveness(axes: Axes, numbers: Mapping[str, Any], colours: Colours) -> None:
    """How many entries have which distinctiveness, with the limit of the gate."""
    _shares(axes, numbers["values"], colours, "Distinctiveness", "entries")
    _limit(axes, numbers["limit"], "limit for new entries", colours)


def confidence(axes: Axes, numbers: Mapping[str, Any], colours: Colours) -> None:
    """How many active entries have which confidence."""
    _shares(axes, numbers["values"], colours, "Confidence", "active entries")


def similarity(axes: Axes, numbers: Mapping[str, Any], colours: Colours) -> None:
    """How many pairs have which similarity, with the limits of the bands."""
    values = np.clip(numbers["values"], 0.0, 1.0)
    known = [limit for limit in (numbers["merge"], numbers["borderline"]) if limit is not None]
    low = np.floor(min([0.84, *known, *([values.min()] if values.size else [])]) * 50) / 50
    edges = np.arange(round(low * 100), 101) / 100
    _histogram(axes, values, edges, colours, "Similarity (1 = same meaning)", "pairs")
    _limit(axes, numbers["borderline"], "similar", colours)
    _limit(axes, numbers["merge"], "very similar", colours, line=1)


def states(axes: Axes, numbers: Mapping[str, Any], colours: Colours) -> None:
    """Entries by state, before and after the run."""
    names: Sequence[str] = numbers["names"]
    rows = np.arange(len(names))
    axes.barh(rows - 0.2, numbers["before"], height=0.36, color=colours.soft, label="before the run")
    bars = axes.barh(rows + 0.2, numbers["after"], height=0.36, color=colours.bar, label="after the run")
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, color=colours.ink, fontsize=8)
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("entries")
    axes.legend(frameon=False, fontsize=8, labelcolor=colours.muted)
    _whole_numbers(axes.xaxis)
    axes.grid(axis="x", color=colours.grid)


def _over_weeks(key: str, label: str) -> Callable[[Axes, Mapping[str, Any], Colours], None]:
    def draw(axes: Axes, numbers: Mapping[str, Any], colours: Colours) -> None:
        values = np.array([np.nan if value is None else value for value in numbers[key]], dtype=float)
        axes.plot(np.arange(values.size), values, marker="o", markersize=3.5, linewidth=1.6, color=colours.bar)
        _week_axis(axes, numbers["weeks"], np.nanmax(values, initial=0), label, colours)

    return draw


def left(axes: Axes, numbers: Mapping[str, Any], colours: Colours) -> None:
    """How many entries were retired and merged in each week."""
    at = np.arange(len(numbers["weeks"]))
    highest = 0.0
    for offset, key, colour in ((-0.2, "retired", colours.bar), (0.2, "merged", colours.accent)):
        values = np.array([value or 0 for value in numbers[key]], dtype=float)
        axes.bar(at + offset, values, width=0.36, color=colour, label=key)
        highest = max(highest, values.max(initial=0))
    _week_axis(axes, numbers["weeks"], highest, "entries", colours)
    axes.legend(frameon=False, fontsize=8, labelcolor=colours.muted, loc="upper left", ncols=2)


def _week_axis(axes: Axes, weeks: Sequence[date], highest: float, label: str, colours: Colours) -> None:
    at = np.arange(len(weeks))
    step = max(1, -(-len(weeks) // _MAX_TICKS))
    ticks = at[::-1][::step][::-1]
    axes.set_xticks(ticks, [f"{weeks[i].day} {_MONTHS[weeks[i].month - 1]}" for i in ticks])
    axes.set_ylim(0, max(1.0, highest * 1.25))
    axes.set_ylabel(label)
    axes.grid(axis="y", color=colours.grid)
    _whole_numbers(axes.yaxis)


FIGURES: dict[str, tuple[str, Callable[[Axes, Mapping[str, Any], Colours], None]]] = {
    "distinctiveness": ("distinctiveness", distinctiveness),
    "confidence": ("confidence", confidence),
    "similarity": ("similarity", similarity),
    "states": ("states", states),
    "trend_active": ("trend", _over_weeks("active", "entries")),
    "trend_queue": ("trend", _over_weeks("queue_length", "questions")),
    "trend_conflicted": ("trend", _over_weeks("conflicted", "entries")),
    "trend_left": ("trend", left),
}
"""Figure name -> (key of its numbers, how it is drawn)."""


def _figure(plots: Plots, name: str, colours: Colours) -> Figure:
    """A new figure with one set of axes; no global state of matplotlib is touched."""
    from matplotlib.figure import Figure

    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    source, draw = FIGURES[name]
    figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES))
    axes = figure.add_subplot()
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(colours.muted)
    axes.set_axisbelow(True)
    draw(axes, plots[source], colours)
    axes.tick_params(colors=colours.muted, labelsize=8, length=0)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(colours.muted)
        label.set_fontsize(8)
    _make_room(figure, axes)
    return figure


def _make_room(figure: Figure, axes: Axes) -> None:
    """Margins for the labels that the axes have. An engine that measures every text takes as long as all the drawing."""
    names = [label.get_text() for label in axes.get_yticklabels()] if axes.yaxis_inverted() else []
    longest = max(map(len, names), default=len(f"{axes.get_ylim()[1]:,.0f}"))
    figure.subplots_adjust(
        left=(0.1 + _CHARACTER_INCHES * longest + (_LABEL_INCHES if axes.get_ylabel() else 0)) / _WIDTH_INCHES,
        right=1 - 0.14 / _WIDTH_INCHES,
        bottom=(0.22 + (_LABEL_INCHES if axes.get_xlabel() else 0)) / _HEIGHT_INCHES,
        top=1 - 0.07 / _HEIGHT_INCHES,
    )


def _shares(axes: Axes, values: Floats, colours: Colours, label: str, counted: str) -> None:
    _histogram(axes, np.clip(values, 0.0, 1.0), np.linspace(0.0, 1.0, 26), colours, label, counted)


def _histogram(axes: Axes, values: Floats, edges: Floats, colours: Colours, label: str, counted: str) -> None:
    # A value on an edge belongs above it whatever the last bit of its float says.
    counts, _ = np.histogram(np.round(values, 6), bins=np.round(edges, 6))
    axes.bar(edges[:-1], counts, width=np.diff(edges) * 0.9, align="edge", color=colours.bar)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, max(1.0, counts.max(initial=0) * 1.22))
    axes.set_xlabel(label)
    axes.set_ylabel(counted)
    axes.grid(axis="y", color=colours.grid)
    _whole_numbers(axes.yaxis)


def _limit(axes: Axes, limit: float | None, words: str, colours: Colours, *, line: int = 0) -> None:
    """A limit with its words; of two that stand close, the words of one go on the next line."""
    if limit is None:
        return
    axes.axvline(limit, color=colours.accent, linewidth=1.2, linestyle=(0, (4, 2)))
    to_left = limit > sum(axes.get_xlim()) / 2
    axes.annotate(
        f"{words} {limit:.2f}",
        (limit, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if to_left else 4, -2 - 11 * line),
        textcoords="offset points",
        ha="right" if to_left else "left",
        va="top",
        color=colours.accent,
        fontsize=8,
    )


def _whole_numbers(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
