"""The ledger: what a text pins down, and the difference of two texts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kb_pipeline.text.specifics import Specific, ledger_difference, specifics
from kb_pipeline_tests.text.table_cases import table


@pytest.mark.parametrize("case", table("specifics"), ids=lambda case: case["text"])
def test_cases(case: dict[str, Any]) -> None:
    assert ledger_difference(case["text"], "") == (case["ledger"], [])
    assert ledger_difference("", case["text"]) == ([], case["ledger"])


def test_a_ledger_is_a_multiset_with_polarity() -> None:
    assert specifics("Use 5, not 5 here") == Counter(
        {Specific("number", "5", "+"): 1, Specific("number", "5", "-"): 1, Specific("negation", "not", "+"): 1}
    )
    assert specifics("5 and 5 here")[Specific("number", "5", "+")] == 2
    assert ledger_difference("5 and 5 here", "5 here") == (["number 5"], [])


def test_scope_of_a_negation_ends_with_its_clause() -> None:
    assert specifics("Do not wait; use 5")[Specific("number", "5", "+")] == 1
    assert specifics("Do not wait for 5")[Specific("number", "5", "-")] == 1
    assert specifics("not one two three four five six seven 8")[Specific("number", "8", "+")] == 1


def test_a_unit_slot_swallows_no_identifier() -> None:
    assert ledger_difference("Use 2 sBuffers", "") == (["identifier sBuffers", "number 2"], [])
    assert ledger_difference("Use 2, s is free", "") == (["number 2"], [])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Wait 10 seconds", "Wait 10s"),
        ("Keep 1,000 rows", "Keep 1000 rows"),
        ("Don't use `5`", "Do not use **5**"),
        ("three days", "3 d"),
        ("You cannot push", "You can't push"),
        ("You have to push", "You must push"),
        ("a 30-day limit", "a 30 day limit"),
    ],
)
def test_other_forms_of_one_thing_have_one_ledger(left: str, right: str) -> None:
    assert specifics(left) == specifics(right)


def test_a_very_long_piece_is_taken_whole() -> None:
    blob = "aB3/" * 500
    assert specifics(blob) == Counter({Specific("identifier", blob, "+"): 1})
