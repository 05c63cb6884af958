"""Properties of keys, ledgers and comparisons over generated texts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.text.canonical import canonical_key, canonical_tokens, exact_key
from kb_pipeline.text.compare import compare
from kb_pipeline.text.normalise import exact_normal, fold
from kb_pipeline.text.specifics import ledger_difference, specifics
from kb_pipeline.text.tokens import token_sets
from kb_pipeline.vocabulary import Kind, Verdict

PIECES = (
    "the a A use do not never must 3 5 10 s seconds MB `foo_bar` --flag src/a.py cache enable disable - * ** _ . , ( ) [x] "
    "don't can't colour color show print file system v1.2 MAX_X=3 http://x.y/z \u201cq\u201d \u2705 \u5907\u4efd \uff0c # ``` "
    "10\u00b2"
)
WORDS = st.sampled_from([*PIECES.split(" "), "\n", "\r\n", "\u200b"])
TEXTS = st.one_of(st.lists(WORDS, max_size=14).map(" ".join), st.text(max_size=60))
KINDS = st.sampled_from(list(Kind))


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS, KINDS, KINDS)
def test_compare_is_symmetric(left: str, right: str, kind_l: Kind, kind_r: Kind) -> None:
    found, swapped = compare(left, right, kind_l, kind_r), compare(right, left, kind_r, kind_l)
    assert (found.verdict, found.reason) == (swapped.verdict, swapped.reason)
    assert (found.specifics_only_l, found.specifics_only_r) == (swapped.specifics_only_r, swapped.specifics_only_l)


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS)
def test_a_merge_needs_equal_keys_and_equal_ledgers_and_equal_keys_never_conflict(left: str, right: str) -> None:
    found = compare(left, right, Kind.RULE, Kind.RULE)
    equal_keys = canonical_key(left) is not None and canonical_key(left) == canonical_key(right)
    assert (found.verdict is Verdict.MERGE) == (equal_keys and specifics(left) == specifics(right))
    assert not (equal_keys and found.verdict is Verdict.CONFLICT)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_a_text_equals_itself_unless_it_has_no_tokens(text: str) -> None:
    found = compare(text, text, Kind.FACT, Kind.FACT)
    assert (found.verdict is Verdict.MERGE) == bool(canonical_tokens(text))
    assert ledger_difference(text, text) == ([], [])


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_folding_is_idempotent_and_changes_no_key(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert exact_key(fold(text)) == exact_key(text)
    assert canonical_key(fold(text)) == canonical_key(text)


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_exact_equality_is_canonical_equality(left: str, right: str) -> None:
    if exact_normal(left) == exact_normal(right):
        assert canonical_tokens(left) == canonical_tokens(right)


SENTENCE = "keep every import sorted before you push to main"
PLAIN = st.lists(st.sampled_from(SENTENCE.split()), min_size=2, max_size=9)


@settings(max_examples=100, deadline=None)
@given(PLAIN, st.sampled_from(["  {}  ", "- {}", "* {}.", "**{}**", "\ufeff{}", "{}\r\n"]))
def test_reformatting_keeps_the_exact_key(words: list[str], form: str) -> None:
    text = " ".join(words)
    assert exact_key(form.format(text)) == exact_key(text)
    assert exact_key(form.format("\n".join(words).capitalize())) == exact_key(text)


@settings(max_examples=100, deadline=None)
@given(PLAIN, st.data())
def test_another_order_or_one_word_less_is_another_key(words: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(words) - 1))
    assert canonical_key(" ".join(words)) != canonical_key(" ".join(words[:place] + words[place + 1 :]))
    if words != words[::-1]:
        assert canonical_key(" ".join(words)) != canonical_key(" ".join(words[::-1]))


MARKS = "` `` ``` ~~~ ```sql [ ] ( ) [a7]( [b8](x9) { } ** * _ __ - > # | : , . \u2026 \ue000 \ue0010 $1 --n=2 5s 1,000"
MARKUP = st.sampled_from([*MARKS.split(" "), "\n", "\n\n", "\n- ", "\n```\n"])
TANGLED = st.lists(st.one_of(WORDS, MARKUP), max_size=16).map(" ".join) | st.lists(
    st.one_of(WORDS, MARKUP), max_size=16
).map("".join)


@settings(max_examples=400, deadline=None)
@given(TANGLED, st.data())
def test_a_changed_digit_always_shows(text: str, data: st.DataObject) -> None:
    places = [place for place, char in enumerate(text) if char in "0123456789"]
    if places:
        place = data.draw(st.sampled_from(places))
        changed = text[:place] + str((int(text[place]) + 3) % 10) + text[place + 1 :]
        assert canonical_tokens(text) != canonical_tokens(changed)
        assert exact_normal(text) != exact_normal(changed)


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_token_sets_take_any_text(texts: list[str]) -> None:
    import polars as pl

    rows = token_sets(pl.Series("text", texts, dtype=pl.String))["row"]
    assert set(rows) <= set(range(len(texts)))
