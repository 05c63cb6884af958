"""Plots: drawn for every figure, the same every time, in the page's own colours."""

from __future__ import annotations

import re

import pytest

from kb_pipeline.adapters.report_plots import FIGURES, plot_png, plot_svg
from kb_pipeline.errors import UsageError
from kb_pipeline_tests.stages.week_frames import empty_week, week_frames


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_svg_follows_the_page(name: str) -> None:
    svg = plot_svg(week_frames().plots(), name)
    assert svg.startswith("<svg")
    assert svg.endswith("</svg>")
    assert "var(--ink)" in svg or "var(--muted)" in svg
    assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) <= {"#000000"}
    assert all(found.startswith(f"{name}-") for found in re.findall(r'\sid="([^"]*)"', svg))
    assert "<text" in svg
    assert "<metadata" not in svg
    assert svg == plot_svg(week_frames().plots(), name)


@pytest.mark.parametrize("name", ["distinctiveness", "similarity", "states"])
def test_png_is_small_and_the_same_every_time(name: str) -> None:
    png = plot_png(week_frames(), name)
    assert png.startswith(b"\x89PNG")
    assert 2_000 < len(png) < 60_000
    assert png == plot_png(week_frames(), name)
    assert png != plot_png(empty_week(), name)


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_nothing_to_draw_is_no_error(name: str) -> None:
    assert plot_svg(empty_week().plots(), name).startswith("<svg")


def test_unknown_figure_is_named() -> None:
    with pytest.raises(UsageError, match=r"similarty.*similarity"):
        plot_png(week_frames(), "similarty")
