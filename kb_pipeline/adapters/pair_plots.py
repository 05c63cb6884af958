"""The plot of kb eval: what became of the pairs of each stratum, drawn with matplotlib.

Belongs here: drawing and writing that one figure. Does not belong here: the numbers (stages/evaluation). The same numbers
give the same bytes: ids come from a fixed salt and no date is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kb_pipeline.adapters.report_plots import ON_PAPER
from kb_pipeline.errors import PlaceError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SUFFIXES = (".png", ".svg", ".pdf")
_PARTS: tuple[tuple[str, str, str], ...] = (
    ("merged, rightly", "right_merges", ON_PAPER.bar),
    ("merged, wrongly", "false_merges", "#c02020"),
    ("queued, duplicates", "duplicates_queued", ON_PAPER.soft),
    ("queued, others", "other_queued", "#c9cfd6"),
    ("conflict, rightly", "right_conflicts", ON_PAPER.accent),
    ("conflict, wrongly", "false_conflicts", "#e3b38f"),
    ("kept apart", "kept", "#eef1f4"),
)
"""Words, count, colour of each part of a bar, from left to right."""

_RATES = (("precision", "precision of merges"), ("recall", "recall of merges"), ("found_recall", "merged or queued"))


def check_plot_path(path: Path) -> None:
    """Tells before any work that a plot cannot be written to ``path``.

    Raises:
        UsageError: the file is of an unknown kind.
        PlaceError: its folder is not there.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"--plot: {path} is of an unknown kind: use {', '.join(_SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise PlaceError.refused_by_system(FileNotFoundError(2, "there is no such folder", str(path.parent)))


def write_pair_plot(path: Path, strata: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes the figure: left, what became of the pairs of each stratum; right, shares with their intervals.

    Args:
        path: .png, .svg or .pdf.
        strata: stratum -> counts and rates, as the evaluation stage gives them, the total last.
    """
    import matplotlib
    from matplotlib.figure import Figure

    names = list(strata) if len(strata) > 2 else list(strata)[:1]
    with matplotlib.rc_context({"svg.hashsalt": "kb_pipeline", "svg.fonttype": "none"}):
        figure = Figure(figsize=(10.5, 1.7 + 0.42 * len(names)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        _draw_outcomes(left, strata, names)
        _draw_rates(right, strata, names)
        for axes in (left, right):
            axes.tick_params(colors=ON_PAPER.muted, labelsize=8, length=0)
            for spine in axes.spines.values():
                spine.set_visible(False)
        handles, labels = left.get_legend_handles_labels()
        rates, rate_labels = right.get_legend_handles_labels()
        figure.legend(
            handles + rates, labels + rate_labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8
        )
        undated: dict[str, Any] = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        figure.savefig(path, dpi=130, facecolor="white", metadata=undated[path.suffix.lower()])


def _draw_outcomes(axes: Axes, strata: Mapping[str, Mapping[str, Any]], names: list[str]) -> None:
    """Bars of equal length, one a stratum: the shares of its pairs by what became of them."""
    at = np.arange(len(names))
    start = np.zeros(len(names))
    counted = {name: _parts(strata[name]) for name in names}
    sizes = np.array([strata[name]["pairs"] for name in names], dtype=float)
    for words, count, colour in _PARTS:
        numbers = np.array([counted[name][count] for name in names], dtype=float)
        bars = axes.barh(at, numbers / sizes, left=start, height=0.62, color=colour, label=words)
        shown = [f"{int(number)}" if number / size >= 0.03 else "" for number, size in zip(numbers, sizes, strict=True)]
        dark = colour in (ON_PAPER.bar, ON_PAPER.accent, "#c02020")
        axes.bar_label(bars, shown, label_type="center", fontsize=7, color="white" if dark else ON_PAPER.ink)
        start += numbers / sizes
    axes.set_yticks(at, [f"{name} ({strata[name]['pairs']:,})" for name in names])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the pairs", fontsize=8, color=ON_PAPER.muted)


def _draw_rates(axes: Axes, strata: Mapping[str, Mapping[str, Any]], names: list[str]) -> None:
    """Points with 95 % intervals; a rate that nothing was counted for is left out."""
    colours = (ON_PAPER.accent, ON_PAPER.bar, ON_PAPER.soft)
    for (rate, words), colour, shift in zip(_RATES, colours, (-0.2, 0.0, 0.2), strict=True):
        known = [(row, strata[name]) for row, name in enumerate(names) if strata[name][rate] is not None]
        places = np.array([row + shift for row, _ in known])
        values = np.array([numbers[rate] for _, numbers in known])
        low = values - np.array([numbers[f"{rate}_low"] for _, numbers in known])
        high = np.array([numbers[f"{rate}_high"] for _, numbers in known]) - values
        # Rounding may put an end a hair inside of the value; a bar has no negative length.
        spread = np.clip([low, high], 0.0, None) if known else None
        axes.errorbar(values, places, xerr=spread, fmt="o", markersize=4, color=colour, linewidth=1.4, label=words)
    axes.set_xlim(-0.03, 1.03)
    axes.grid(axis="x", color=ON_PAPER.grid)
    axes.set_axisbelow(True)
    axes.set_xlabel("share, with its 95 % interval", fontsize=8, color=ON_PAPER.muted)


def _parts(numbers: Mapping[str, Any]) -> dict[str, int]:
    done = numbers["merges"] + numbers["queued"] + numbers["conflicts"]
    return {
        **{name: numbers[name] for name in ("right_merges", "false_merges", "duplicates_queued", "right_conflicts")},
        "other_queued": numbers["queued"] - numbers["duplicates_queued"],
        "false_conflicts": numbers["conflicts"] - numbers["right_conflicts"],
        "kept": numbers["pairs"] - done,
    }
