"""Refreshing: who is asked whether an entry still holds, and when the question comes again."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kb_pipeline import schemas
from kb_pipeline.stages.refresh import RULE_KEYS, find_outdated, unasked
from kb_pipeline_tests.fakes.frames import AS_OF, cases, days_ago, entries, frame, policy

TABLE = cases("refresh")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]


def found(case: dict[str, Any], **rules: Any) -> pl.DataFrame:
    held = entries({"id": "a"} | case.get("entry", {}))
    retirement = frame(schemas.RETIREMENT, [{"entry_id": "a"} | case.get("retirement", {})])
    every = policy(refresh=case.get("policy", {}) | rules)
    made = find_outdated(held, retirement, every.refresh, every.retire, as_of=AS_OF)
    schemas.OUTDATED.check(made)
    return made


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    made = found(case)
    if case["reason"] is None:
        assert made.is_empty()
        return
    row = made.row(0, named=True)
    assert (made.height, row["reason"], row["severity"]) == (1, case["reason"], case["severity"])
    assert row["occasion"] == case.get("occasion", row["occasion"])
    assert row["explanation"]


def test_every_reason_fires_and_spares() -> None:
    assert {code.value for code in RULE_KEYS} == set(TABLE) - {"retire.stale"}
    for code, rows in TABLE.items():
        assert {case["reason"] == code for case in rows} == {True, False}
    for key in RULE_KEYS.values():
        assert hasattr(policy().refresh, key.removeprefix("refresh."))


def test_what_is_asked_already_is_not_asked_again() -> None:
    made = found(TABLE["refresh.expired"][0])
    queue = [{"recommendation_id": "r", "recommendation_type": kind, "entry_ids": ["a"], "content_hashes": ["h"]}
             for kind in ("REFRESH", "FLAG")]  # fmt: skip
    assert unasked(made, frame(schemas.QUEUE, queue[:1])).is_empty()
    assert unasked(made, frame(schemas.QUEUE, queue[1:])).equals(made)


def test_the_most_urgent_come_first() -> None:
    held = entries(
        {"id": "a", "validate_days": 10},
        {"id": "b", "expires_at": days_ago(22)},
        {"id": "c"},
    )
    stale = {"retire_reasons": ["retire.stale"], "protected_because": ["pinned"], "retire_decision": "review"}
    retirement = frame(schemas.RETIREMENT, [{"entry_id": "a"}, {"entry_id": "b"}, {"entry_id": "c"} | stale])
    made = find_outdated(held, retirement, policy().refresh, policy().retire, as_of=AS_OF)
    assert made["entry_id"].to_list() == ["b", "a", "c"]
    told = dict(made.select("entry_id", "explanation").iter_rows())
    assert told == {
        "a": "last found to hold on 2026-10-24, every 10 days",
        "b": "expires_at was 2026-11-01",
        "c": "retire.stale; protected: pinned",
    }
