"""The marked difference of two texts: only what differs, in every script, short enough to read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.stages.report_diff import Piece, marked, shortened


def _texts(pieces: list[Piece], *kinds: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind in kinds)


def test_only_the_difference_is_marked() -> None:
    left, right = marked("Retry 3 times, then stop.", "Retry 5 times, then stop.")
    assert [piece for piece in left if piece.kind == "only"] == [Piece("3", "only")]
    assert [piece for piece in right if piece.kind == "only"] == [Piece("5", "only")]


@pytest.mark.parametrize(
    ("one", "other", "only"),
    [
        ("firmware v2.1 needs it", "firmware v2.2 needs it", "v2.1"),
        ("held 1,200 requests", "held 12,000 requests", "1,200"),
        ("call retry_count twice", "call retry_limit twice", "retry_count"),
        ("部署前必须测试", "部署前应测试", "必须"),
        ("מפתחות נשמרים בכספת", "מפתחות אינם נשמרים בכספת", ""),
        ("Größere Buchungen", "Kleinere Buchungen", "Größere"),
        ("नियम लागू है", "नियम लागू नहीं", "है"),
    ],
)
def test_other_scripts(one: str, other: str, only: str) -> None:
    left, _ = marked(one, other)
    assert _texts(left, "only") == only
    assert _texts(left, "same", "only") == one


@given(st.text(max_size=80), st.text(max_size=80))
@settings(max_examples=150, deadline=None)
def test_pieces_are_the_text_and_the_common_part_is_common(one: str, other: str) -> None:
    left, right = marked(one, other)
    assert one.startswith(_texts(left, "same", "only"))
    assert not one[len(_texts(left, "same", "only")) :].strip()
    assert "".join(_texts(left, "same").split()) == "".join(_texts(right, "same").split())
    assert all(piece.kind == "same" for piece in marked(one, one)[0])


def test_long_texts_are_cut_around_the_difference() -> None:
    filler = "The shard is moved and the next one waits until it has caught up. " * 60
    left, right = marked(filler + "Then ring Ada. " + filler, filler + "Then ring Bob. " + filler)
    for pieces, name in ((left, "Ada"), (right, "Bob")):
        assert _texts(pieces, "only") == name
        assert len(_texts(pieces, "same", "only")) <= 700
        assert [piece.kind for piece in pieces].count("gap") == 2
    assert "gap" not in {piece.kind for piece in marked("short", "short too")[0]}


def test_two_differences_far_apart_are_both_found() -> None:
    steps = [f"Step {number}: check that shard {number} has caught up." for number in range(300)]
    changed = [*steps]
    changed[3], changed[250] = changed[3].replace("check", "see"), changed[250].replace("has", "and its copy have")
    left, right = marked(" ".join(steps), " ".join(changed))
    assert [piece.text for piece in left if piece.kind == "only"] == ["check", "has"]
    assert [piece.text for piece in right if piece.kind == "only"] == ["see", "and its copy have"]


@pytest.mark.parametrize("text", ["a" * 5_000_000, "b " * 2_000_000, "c. " * 1_000_000, "部" * 1_000_000])
def test_huge_texts_stay_small(text: str) -> None:
    left, right = marked(text, "b. c " * 500_000)
    for pieces in (left, right):
        assert len(_texts(pieces, "same", "only")) <= 700


def test_shortened_cuts_at_a_word() -> None:
    assert shortened("one two three four", 10) == "one two …"
    assert shortened("one  two", 10) == "one two"
    assert shortened("x" * 30, 10) == "x" * 10 + " …"
