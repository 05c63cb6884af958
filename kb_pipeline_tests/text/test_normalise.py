"""Entry text, hashes and exact normalisation."""

from __future__ import annotations

import pytest

from kb_pipeline.text.normalise import content_hash, entry_text, entry_title, exact_normal, fold


def test_fold_takes_off_what_makes_no_new_version() -> None:
    assert fold("\ufeffa\r\nb\rc cafe\u0301") == "a\nb\nc caf\u00e9"
    assert fold("A  b") == "A  b"


@pytest.mark.parametrize(
    ("title", "body", "expected"),
    [
        ("Keep it", "Keep it simple", "Keep it simple"),
        ("**Keep** it.", "keep it, always", "keep it, always"),
        ("Keep", "Keeping it", "Keep\nKeeping it"),
        ("Keep it", "Other", "Keep it\nOther"),
        ("Keep it", None, "Keep it"),
        (None, "Other", "Other"),
        ("Keep it", "", "Keep it"),
        ("“Use” it", '"use" it now', '"use" it now'),
        (None, None, ""),
    ],
)
def test_title_is_joined_unless_the_body_starts_with_it(title: str | None, body: str | None, expected: str) -> None:
    assert entry_text(title, body) == expected


def test_entry_text_joins_all_fields_in_order() -> None:
    assert entry_text("T", "B", "R", ["A1", "A2"], ["S1"]) == "T\nB\nR\nA1\nA2\nS1"
    assert entry_text("T", "B", "", [" "], None) == "T\nB"


def test_title_is_the_first_line_of_the_body_when_there_is_none() -> None:
    assert entry_title("T", "B") == "T"
    assert entry_title(None, "\n  first \nsecond") == "first"
    assert entry_title(" ", "") == ""


def test_content_hash_is_blind_to_invisible_differences_only() -> None:
    base = content_hash("T", "a\nb caf\u00e9", "R", ["x"], ["y"])
    assert content_hash("\ufeffT", "a\r\nb cafe\u0301", "R", ["x"], ["y"]) == base
    others = [
        content_hash("T", "a b caf\u00e9", "R", ["x"], ["y"]),
        content_hash("t", "a\nb caf\u00e9", "R", ["x"], ["y"]),
        content_hash("T", "a\nb caf\u00e9", "R", ["x", "y"], []),
        content_hash("T", "a\nb caf\u00e9", "R", ["xy"], [""]),
        content_hash("T", "a\nb caf\u00e9\nR", "", ["x"], ["y"]),
    ]
    assert base not in others and len(set(others)) == len(others)
    assert content_hash(None, "b") == content_hash("", "b", "", [], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Use\n TABS  here. ", "use TABS here"),
        ("- **Bold** and _soft_", "bold and soft"),
        ("Call `Foo` and Foo", "call `Foo` and foo"),
        ("Wait...", "wait..."),
        ("git add .", "git add ."),
        ("f(Foo, Bar) And Baz", "f(Foo, Bar) and baz"),
        ("``a`b`` C3 dE _x", "`a`b` C3 dE _x"),
        ("ａｂｃ，ｄ Ｅｆ", "abc,d ef"),
        ("2 * 3 * 4 *.py **kwargs", "2 * 3 * 4 *.py **kwargs"),
    ],
)
def test_exact_normal(text: str, expected: str) -> None:
    assert exact_normal(text) == expected
    assert exact_normal(expected) == expected
