"""Conflicts: reasons fire and spare, changes end them, and the id of a conflict hangs on the two texts alone."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kb_pipeline import schemas
from kb_pipeline.stages.conflicts import RULE_KEY, conflicts_over, record_conflicts
from kb_pipeline.vocabulary import ReasonCode
from kb_pipeline_tests.fakes.frames import cases, entries, frame, policy

TABLE = cases("conflicts")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]
FOUND = [case for case in CASES if "verdict" in case.values[0]]
ENDED = [case for case in CASES if "verdict" not in case.values[0]]
CONTRADICTION = {"verdict": "CONFLICT", "reason": "judge.contradiction"}


def verdict(left: str = "a", right: str = "b", **values: Any) -> pl.DataFrame:
    return frame(schemas.VERDICTS, [{"entry_id_l": left, "entry_id_r": right} | values])


def three(case: dict[str, Any]) -> pl.DataFrame:
    plain = ({"id": letter, "body": f"text of {letter}"} for letter in "abc")
    return entries(*(row | case.get("entries", {}).get(row["id"], {}) for row in plain))


@pytest.mark.parametrize("case", FOUND)
def test_what_becomes_a_conflict(case: dict[str, Any]) -> None:
    found = three(case)
    records = record_conflicts(found, verdict(**case["verdict"]))
    if "type" not in case:
        assert records.is_empty()
        return
    row = records.row(0, named=True)
    assert (row["conflict_type"], row["severity"], row["reason"]) == (case["type"], case["severity"], case["reason"])
    assert (row["entry_id_l"], row["entry_id_r"], row["judge"], row["similarity"]) == ("a", "b", "rule", 0.95)
    assert row["explanation"] == case.get("explanation")


@pytest.mark.parametrize("case", ENDED)
def test_what_ends_a_conflict(case: dict[str, Any]) -> None:
    is_open = record_conflicts(three({}), verdict(**CONTRADICTION))
    over = conflicts_over(is_open, three(case), case.get("leaving", []))
    assert over["reason"].to_list() == ([case["over"]] if "over" in case else [])
    assert over["conflict_id"].to_list() == is_open["conflict_id"].to_list()[: over.height]
    assert over.select("entry_id_l", "entry_id_r").rows() == [("a", "b")][: over.height]


def test_every_reason_code_fires_and_spares() -> None:
    codes = {code.value for code in ReasonCode if code.value.startswith("conflicts.")}
    assert set(TABLE) == codes
    for code in codes:
        assert {"type" in case or "over" in case for case in TABLE[code]} == {True, False}
    section, name = RULE_KEY.split(".")
    assert hasattr(getattr(policy(), section), name)


def test_the_same_two_texts_are_one_conflict_for_ever() -> None:
    first = entries({"id": "a", "body": "Backups run"}, {"id": "b", "body": "Backups do not run"})
    later = entries(
        {"id": "a", "body": "Backups run", "attempts": 9, "state": "needs_review"},
        {"id": "b", "body": "Backups do not run"},
    )
    edited = entries({"id": "a", "body": "Backups run daily"}, {"id": "b", "body": "Backups do not run"})
    one = record_conflicts(first, verdict(**CONTRADICTION))["conflict_id"].item()
    assert record_conflicts(later, verdict(**CONTRADICTION, judge="anthropic"))["conflict_id"].item() == one
    assert record_conflicts(edited, verdict(**CONTRADICTION))["conflict_id"].item() != one
    mismatch = verdict(verdict="CONFLICT", reason="judge.value_mismatch")
    assert record_conflicts(first, mismatch)["conflict_id"].item() != one


def test_the_order_of_rows_is_irrelevant() -> None:
    found = entries(*({"id": letter, "body": f"text of {letter}"} for letter in "abcd"))
    rows = [
        {"entry_id_l": left, "entry_id_r": right} | CONTRADICTION
        for left, right in [("a", "b"), ("c", "d"), ("a", "d"), ("b", "c")]
    ]
    table = frame(schemas.VERDICTS, rows)
    assert record_conflicts(found, table).equals(record_conflicts(found.reverse(), table.reverse()))
    assert record_conflicts(found, table).height == 4
    assert record_conflicts(found, schemas.VERDICTS.empty()).is_empty()
