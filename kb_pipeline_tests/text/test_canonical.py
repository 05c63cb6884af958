"""Canonical and exact keys: what is one text, and what must stay apart."""

from __future__ import annotations

import pytest

from kb_pipeline.text.canonical import canonical_key, canonical_tokens, exact_key
from kb_pipeline_tests.text.table_cases import table

KEYS = table("keys")


@pytest.mark.parametrize(("left", "right"), KEYS["same"])
def test_same_key(left: str, right: str) -> None:
    assert canonical_tokens(left) == canonical_tokens(right)
    sentence = "Always remember: {} (in every case)."
    assert (
        canonical_key(sentence.format(left)) == canonical_key(sentence.format(right))
        or "\n" in left + right
        or "*" in left
    )


@pytest.mark.parametrize(("left", "right"), KEYS["apart"])
def test_keys_apart(left: str, right: str) -> None:
    assert canonical_tokens(left) != canonical_tokens(right)
    assert canonical_key(left) != canonical_key(right)
    assert exact_key(left) != exact_key(right)


def test_tokens_in_order_without_residue() -> None:
    text = "Don't show the config for 10 seconds, e.g. in `foo_bar()`!"
    assert canonical_tokens(text) == (
        *("do", "not", "display", "configuration", "for", "10", "s", "for\u203fexample", "in", "foo_bar()", "!"),
    )


@pytest.mark.parametrize("text", ["", "  \n ", "\ufeff", "\u200b", ", ,"])
def test_a_text_without_tokens_has_no_key(text: str) -> None:
    assert canonical_tokens(text) == ()
    assert canonical_key(text) is None


def test_keys_are_sha256() -> None:
    key = canonical_key("Keep imports sorted")
    assert key is not None and len(key) == len(exact_key("x")) == 64
    assert set(key) <= set("0123456789abcdef")


def test_a_text_cannot_bring_the_marks_of_masked_code() -> None:
    assert canonical_tokens("a \ue0000\ue001 b") == canonical_tokens("a 0 b")


def test_a_fence_that_is_never_closed_is_code_to_the_end() -> None:
    assert canonical_tokens("Run:\n```sh\nLs -A, now\n The end") == ("run", "sh", "Ls -A, now", " The end")


def test_a_stray_back_quote_hides_no_fenced_block() -> None:
    text = "A stray ` mark:\n```sql\nselect 1 > 0\n```\nand ` another"
    assert "select 1 > 0" in canonical_tokens(text)
    assert exact_key(text) != exact_key(text.replace(">", "<"))
