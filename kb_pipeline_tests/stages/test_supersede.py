"""Supersession by rule: what one entry says of another is a question, within one scope, and never in two directions."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.supersede import RULE_KEYS, find_replaced
from kb_pipeline_tests.fakes.frames import cases, days_ago, entries, policy

TABLE = cases("supersede")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]


def found(rows: list[dict[str, Any]], **rules: Any) -> list[list[str]]:
    made = find_replaced(entries(*rows), policy(supersede=rules).supersede)
    schemas.REPLACED.check(made)
    return [list(row) for row in made.select("entry_id", "superseded_by").iter_rows()]


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    assert found(case["entries"]) == case["found"]


def test_every_reason_fires_spares_and_can_be_switched_off() -> None:
    assert set(TABLE) == {code.value for code in RULE_KEYS}
    for code, key in RULE_KEYS.items():
        rows = TABLE[code.value]
        assert {bool(case["found"]) for case in rows} == {True, False}
        name = key.removeprefix("supersede.")
        for case in rows:
            made = find_replaced(entries(*case["entries"]), policy().supersede)
            assert set(made["reason"]) <= {code.value}
            assert found(case["entries"], **{name: False}) == []


def test_what_is_declared_comes_first() -> None:
    rows = [
        {"id": "a", "title": "Limit", "body": "It is 3."},
        {"id": "b", "title": "Limit", "body": "This replaces the old limit.", "updated_at": days_ago(14)},
        {"id": "y"},
        {"id": "z", "supersedes": ["y"]},
    ]
    made = find_replaced(entries(*rows), policy().supersede)
    assert made.select("entry_id", "superseded_by", "value").rows() == [("y", "z", 0.9), ("a", "b", 0.7)]


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "supersedes": st.lists(st.sampled_from("abcdef"), max_size=3),
            "title": st.sampled_from(["Limit", "limit.", "Another"]),
            "body": st.sampled_from(["It is 3.", "This replaces the old limit."]),
            "updated_at": st.sampled_from([days_ago(21), days_ago(14)]),
            "state": st.sampled_from(["active", "active", "active", "archived", "candidate"]),
            "tenant": st.sampled_from([None, None, "t"]),
        }
    ),
    min_size=6,
    max_size=6,
)


@settings(max_examples=80, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_any_entries(rows: list[dict[str, Any]], random: Any) -> None:
    held = entries(*({"id": letter} | row for letter, row in zip("abcdef", rows, strict=True)))
    made = find_replaced(held, policy().supersede)
    facts = {row["entry_id"]: row for row in held.iter_rows(named=True)}
    pairs = list(made.select("entry_id", "superseded_by").iter_rows())
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    for old, new in pairs:
        assert old != new and facts[old]["scope"] == facts[new]["scope"]
        assert facts[old]["state"] == facts[new]["state"] == "active"
    mixed = list(range(6))
    random.shuffle(mixed)
    assert find_replaced(held[mixed], policy().supersede).equals(made)
    assert isinstance(made, pl.DataFrame)
