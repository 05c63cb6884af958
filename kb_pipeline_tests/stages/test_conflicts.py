"""Conflicts: reasons fire and spare, and the id of a conflict hangs on the two texts alone."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kb_pipeline import schemas
from kb_pipeline.stages.conflicts import RULE_KEY, record_conflicts
from kb_pipeline.vocabulary import ReasonCode
from kb_pipeline_tests.fakes.frames import cases, entries, frame, policy

TABLE = cases("conflicts")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]
CONTRADICTION = {"verdict": "CONFLICT", "reason": "judge.contradiction"}


def verdict(left: str = "a", right: str = "b", **values: Any) -> pl.DataFrame:
    return frame(schemas.VERDICTS, [{"entry_id_l": left, "entry_id_r": right} | values])


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    found = entries(*({"id": letter} | case.get("entries", {}).get(letter, {}) for letter in "abc"))
    records = record_conflicts(found, verdict(**case["verdict"]))
    if "type" not in case:
        assert records.is_empty()
        return
    row = records.row(0, named=True)
    assert (row["conflict_type"], row["severity"], row["reason"]) == (case["type"], case["severity"], case["reason"])
    assert (row["entry_id_l"], row["entry_id_r"], row["judge"], row["similarity"]) == ("a", "b", "rule", 0.95)
    assert row["explanation"] == case.get("explanation")


def test_every_reason_code_fires_and_spares() -> None:
    codes = {code.value for code in ReasonCode if code.value.startswith("conflicts.")}
    assert set(TABLE) == codes
    for code in codes:
        assert {"type" in case for case in TABLE[code]} == {True, False}
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
