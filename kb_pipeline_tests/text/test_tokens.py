"""Token sets for corpus statistics."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.text.tokens import token_sets


def tokens(text: str | None) -> set[str]:
    return set(token_sets(pl.Series("text", [text], dtype=pl.String))["token"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello hello WORLD", {"hello", "world"}),
        ("Don’t use foo_bar, v1.2!", {"don't", "use", "foo_bar", "v1.2"}),
        ("Straße ΣΟΦΟΣ", {"strasse", "σοφοσ"}),
        ("备份每周", {"备份", "份每", "每周"}),
        ("日 kana テスト", {"日", "kana", "テス", "スト"}),
        ("Python开发", {"python", "开发"}),
        ("ภาษา", {"ภา", "าษ", "ษา"}),
        ("Привет, мир", {"привет", "мир"}),
        ("مرحبا بالعالم", {"مرحبا", "بالعالم"}),
        ("हिन्दी शब्द", {"हिन्दी", "शब्द"}),
        ("cafe\u0301", {"caf\u00e9"}),
        ("... !!! 🎉", set()),
        ("", set()),
        (None, set()),
    ],
)
def test_tokens(text: str | None, expected: set[str]) -> None:
    assert tokens(text) == expected


def test_frame() -> None:
    frame = token_sets(pl.Series(["b a b", "", "备份", None, "a"]))
    assert frame.schema == {"row": pl.UInt32, "token": pl.String}
    assert sorted(frame.rows()) == [(0, "a"), (0, "b"), (2, "备份"), (4, "a")]
    assert token_sets(pl.Series([], dtype=pl.String)).schema == frame.schema


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=8))
def test_each_pair_once_and_rows_independent(texts: list[str]) -> None:
    frame = token_sets(pl.Series("text", texts, dtype=pl.String))
    assert frame.is_unique().all()
    for row, text in enumerate(texts):
        assert set(frame.filter(pl.col("row") == row)["token"]) == tokens(text)
