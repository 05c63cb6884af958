"""Texts that a judge suggests for two entries: held against both, refused whole or shown whole, never applied by rule."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.prompts import PAIR_PROMPT, load_prompt
from kb_pipeline.stages.merge import plan_merges
from kb_pipeline.stages.merge_bodies import RULE_KEYS, checked_bodies
from kb_pipeline.text.specifics import specifics
from kb_pipeline.vocabulary import ReasonCode
from kb_pipeline_tests.fakes.frames import cases, entries, frame, policy

TABLE = cases("merge_bodies")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]
LIMIT = policy().load.max_body_chars
ONE, OTHER = "Backups lie in the vault of the yard.", "In the vault of the yard the backups lie."


def checked(a: str | pl.DataFrame, b: str = "", body: str | None = None, **changes: Any) -> dict[str, Any]:
    """The row of VERDICTS about entries a and b after the check."""
    found = a if isinstance(a, pl.DataFrame) else entries({"id": "a", "body": a}, {"id": "b", "body": b})
    if not isinstance(a, pl.DataFrame):
        found = found.with_columns(has_title=pl.lit(False))
    limit = changes.pop("max_body_chars", LIMIT)
    rules = policy(merge=changes.pop("merge", {})).merge
    row = {"entry_id_l": "a", "entry_id_r": "b", "suggested_body": body, "judge": "anthropic"} | changes
    made = checked_bodies(found, frame(schemas.VERDICTS, [row]), rules, max_body_chars=limit)
    schemas.VERDICTS.check(made)
    return made.row(0, named=True)


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    row = checked(case["a"], case["b"], case["body"], explanation="They agree.")
    assert row["body_fault"] == case["fault"]
    assert row["suggested_body"] == (None if case["fault"] else case["body"])
    assert row["verdict"] == "MERGE"
    if case["fault"] is None:
        assert row["explanation"] == "They agree."
    else:
        detail = f": {case['detail']}" if "detail" in case else ""
        told = f"They agree. Its text for both was refused ({case['fault']}{detail}"
        assert row["explanation"].startswith(told)


def test_every_reason_fires_and_spares() -> None:
    for code in TABLE:
        fired = {case["fault"] == code for case in TABLE[code]}
        # There is no text that is nearly empty.
        assert fired == ({True} if code == "merge.body_empty" else {True, False}), code
    of_bodies = {code for code in ReasonCode if code.startswith("merge.body_")} | {
        ReasonCode.MERGE_SPECIFICS_LOST,
        ReasonCode.MERGE_SPECIFICS_INVENTED,
    }
    elsewhere = {ReasonCode.MERGE_BODY_SECRET, ReasonCode.MERGE_BODY_CONTROL_CHARACTERS}  # before anything is stored
    assert of_bodies - elsewhere == set(TABLE)
    for key in RULE_KEYS.values():
        assert hasattr(policy().merge, key.removeprefix("merge."))


def test_the_prompt_is_no_text_for_anybody() -> None:
    prompt = load_prompt(PAIR_PROMPT)
    for told in [prompt.question, *(line for line in prompt.instructions.splitlines() if len(line) > 90)]:
        row = checked(ONE * 20, OTHER * 20, told)
        assert row["body_fault"] == "merge.body_addresses_judge", told
    # What the entries say themselves may be said of them.
    quoting = checked(f"{ONE} {prompt.question}", f"{OTHER} {prompt.question}", f"{ONE} {prompt.question}")
    assert quoting["body_fault"] is None


def test_nothing_is_cut_to_fit() -> None:
    body = f"{ONE} {OTHER}"
    assert checked(ONE, OTHER, body)["body_fault"] == "merge.body_too_long"  # a space more than both
    assert checked(ONE, OTHER, body, merge={"max_body_share": 1.1})["suggested_body"] == body
    refused = checked(ONE, OTHER, body, merge={"max_body_share": 1.1}, max_body_chars=len(body) - 1)
    assert (refused["suggested_body"], refused["body_fault"]) == (None, "merge.body_too_long")
    assert checked(ONE, OTHER, "vault " * 20_000)["body_fault"] == "merge.body_too_long"


def test_bounds_are_a_policy() -> None:
    short = "Backups lie in the vault."
    assert checked(ONE, OTHER, short)["body_fault"] is None
    assert checked(ONE, OTHER, short, merge={"min_body_share": 0.9})["body_fault"] == "merge.body_too_short"
    strange = "Backups sleep in the vault of the yard."
    assert checked(ONE, OTHER, strange)["body_fault"] is None
    assert checked(ONE, OTHER, strange, merge={"max_new_word_share": 0.0})["body_fault"] == "merge.body_strange"


def test_the_title_of_the_entry_that_stays_counts_for_its_text() -> None:
    rows = {"a": {"title": "Retry 3 times", "body": "Uploads that fail are tried again."},
            "b": {"title": "Uploads that fail", "body": "They are tried again, 3 times in all."}}  # fmt: skip
    body = "Uploads that fail are tried again, in all."
    # a stays: its title holds the number. The other way round nothing would.
    stays_a = entries({"id": "a", "pinned": True} | rows["a"], {"id": "b"} | rows["b"])
    assert checked(stays_a, body=body)["body_fault"] is None
    stays_b = entries({"id": "a"} | rows["a"], {"id": "b", "pinned": True} | rows["b"])
    assert checked(stays_b, body=body)["body_fault"] == "merge.specifics_lost"
    # A title that is but the first line of the body goes with the body.
    first_line = stays_a.with_columns(has_title=pl.lit(False))
    assert checked(first_line, body=body)["body_fault"] == "merge.specifics_lost"


def test_a_fault_from_before_is_told_and_nothing_else_changes() -> None:
    row = checked(ONE, OTHER, None, body_fault="merge.body_secret", explanation=None)
    assert (row["body_fault"], row["suggested_body"]) == ("merge.body_secret", None)
    assert row["explanation"] == "Its text for both was refused (merge.body_secret)."
    plain = checked(ONE, OTHER, None, explanation="Different matters.", verdict="KEEP_BOTH")
    assert (plain["body_fault"], plain["explanation"]) == (None, "Different matters.")


FOUND = entries(
    *({"id": letter, "body": f"{text} ({letter})"} for letter, text in zip("abc", (ONE, OTHER, ONE), strict=True))
)


def merges(*rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    built = frame(schemas.VERDICTS, [{"judge": "anthropic"} | row for row in rows])
    made = plan_merges(FOUND, built, policy().merge)
    names = ("loser_id", "winner_id", "merge_decision", "reason", "suggested_body")
    return list(made.select(names).iter_rows())


def test_a_refused_text_keeps_the_pair_and_asks_a_person() -> None:
    pair = {"entry_id_l": "a", "entry_id_r": "b"}
    fault = {"body_fault": "merge.specifics_lost"}
    assert merges(pair | fault) == [("b", "a", "review", "merge.specifics_lost", None)]
    # Where the two differ as well, what the text loses says more.
    assert merges(pair | fault | {"specifics_only_l": ["number 3"]}) == [
        ("b", "a", "review", "merge.specifics_lost", None)
    ]
    # The control: without a fault the same pair merges, and the winner keeps its own text.
    assert merges(pair | {"suggested_body": "One text."}) == [("b", "a", "merge", "judge.same_rule", "One text.")]


def test_a_text_goes_with_the_pair_that_it_was_written_for() -> None:
    differs = {"entry_id_l": "a", "entry_id_r": "b", "specifics_only_l": ["number 3"], "suggested_body": "One text."}
    assert merges(differs) == [("b", "a", "review", "merge.specifics_differ", "One text.")]
    # b goes into a by way of its copy c, and the text for b and c is none for b and a.
    copies = {"entry_id_l": "a", "entry_id_r": "c", "band": "exact"}
    near = {"entry_id_l": "b", "entry_id_r": "c", "suggested_body": "For b and c."}
    rows = {row[0]: row for row in merges(copies, near)}
    assert rows["b"][1:] == ("a", "merge", "judge.same_rule", None)


THINGS = ("vault", "yard", "3", "5", "10s", "v2.1", "not", "must", "/etc/a.conf", "reset_index", "the", "lie", "in")
WORDS = st.sampled_from(THINGS)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_what_may_be_suggested_holds_all_that_either_pins_down_and_no_more(a: str, b: str, body: str) -> None:
    row = checked(a, b, body)
    if row["suggested_body"] is None:
        return
    held, both = specifics(body), specifics(a) | specifics(b)
    assert not both - held
    assert set(held) == set(both)


def test_a_text_of_either_may_always_stand_for_two_equal_ones() -> None:
    for text in (ONE, "Retry 3 times, never 5.", "Use `/etc/a.conf`."):
        assert checked(text, text, text)["suggested_body"] == text
