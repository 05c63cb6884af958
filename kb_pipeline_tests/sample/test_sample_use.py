"""Poor, stale and protected entries are what the truth says, by a calculation that owes nothing to the pipeline."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate
from typing import Any

import pytest
from scipy.special import betaincinv

from kb_pipeline.sample import FIRST_WEEK, LAST_WEEK, load_usage_plan
from kb_pipeline.sample.simulator import simulate_usage

Rows = dict[str, dict[str, Any]]

BEGIN = datetime.combine(FIRST_WEEK, time(), UTC)
WEEKS = [FIRST_WEEK + timedelta(weeks=n) for n in range(26)]
MATCHES = {"retrieved", "included", "cited"}


def hours(text: str) -> float:
    """Hours from the first Monday to an instant of the file."""
    return (datetime.fromisoformat(text) - BEGIN) / timedelta(hours=1)


def decided(rows: Rows, truth: dict[str, Any]) -> Rows:
    """The entries on which the rules on use decide: active ones and candidates once they were admitted."""
    admitted = set(truth["candidates"]["admitted"])
    return {i: row for i, row in rows.items() if row.get("state", "active") == "active" or i in admitted}


def clock_hours(rows: Rows) -> list[int]:
    """Running count of the hours in which the staleness clock ran: those with an event in the 14 days before."""
    instants = sorted(hours(use["at"]) for row in rows.values() for use in row.get("usage", []))
    runs, position = [], 0
    for hour in range(26 * 7 * 24):
        while position < len(instants) and instants[position] <= hour:
            position += 1
        last = instants[position - 1] if position else 0.0
        runs.append(int(hour - last < 14 * 24))
    return [0, *accumulate(runs)]


def first_week_stale(row: dict[str, Any], counted: list[int]) -> date | None:
    """First week whose end lies 90 clock days or more after the last match or the creation."""
    created = hours(row["created_at"])
    matches = [hours(use["at"]) for use in row.get("usage", []) if use["type"] in MATCHES]
    for week in WEEKS:
        as_of = 7 * 24 * (WEEKS.index(week) + 1)
        anchor = max([created, *(at for at in matches if at < as_of)])
        if created >= as_of:
            continue
        days = (counted[as_of] - counted[int(anchor)]) / 24
        assert not 89 < days < 91, f"{row['id']} lies at the edge in the week of {week}: {days:.1f} days"
        if days >= 90:
            return week
    return None


def first_week_poor(row: dict[str, Any]) -> date | None:
    """First week with 20 attempts or more and an upper bound below 0.40."""
    outcomes = [(hours(use["at"]), use["outcome"] == "success") for use in row.get("usage", []) if "outcome" in use]
    for n, week in enumerate(WEEKS, start=1):
        seen = [success for at, success in outcomes if at < 7 * 24 * n]
        wins = sum(seen)
        if len(seen) >= 20 and betaincinv(1 + wins, 1 + len(seen) - wins, 0.975) < 0.40:
            return week
    return None


def test_stale_entries_and_their_weeks(rows: Rows, truth: dict[str, Any]) -> None:
    counted = clock_hours(rows)
    found = {i: first_week_stale(row, counted) for i, row in decided(rows, truth).items()}
    expected = {entry["id"]: entry["due_week"] for entry in truth["stale"]}
    expected |= {p["id"]: p["due_week"] for p in truth["protected"] if p["rule"] == "retire.stale"}
    assert {i: week for i, week in found.items() if week} == expected


def test_the_idle_stretch_matters(rows: Rows, truth: dict[str, Any]) -> None:
    """Without the idle rule the spared ones would be retired: the control that makes the clock count."""
    always = list(range(26 * 7 * 24 + 1))
    spared = [s["id"] for s in truth["spared"] if s["rule"] == "retire.stale"]
    assert len(spared) >= 6
    assert all(first_week_stale(rows[i], always) for i in spared)


def test_poor_entries_and_their_weeks(rows: Rows, truth: dict[str, Any]) -> None:
    found = {i: first_week_poor(row) for i, row in decided(rows, truth).items()}
    expected = {entry["id"]: entry["due_week"] for entry in truth["poor"]}
    expected |= {p["id"]: p["due_week"] for p in truth["protected"] if p["rule"] == "retire.low_ci_upper"}
    assert {i: week for i, week in found.items() if week} == expected
    for entry in truth["poor"]:
        outcomes = [use["outcome"] for use in rows[entry["id"]]["usage"] if "outcome" in use]
        assert (len(outcomes), outcomes.count("success")) == (entry["attempts"], entry["successes"])


@pytest.mark.parametrize(("successes", "attempts", "retires"), [(3, 20, True), (4, 20, False), (2, 19, False)])
def test_the_edges_of_the_rule_occur(
    rows: Rows, truth: dict[str, Any], successes: int, attempts: int, retires: bool
) -> None:
    plan = truth["usage_plan"]["fates"]
    ids = [i for i, fate in plan.items() if (fate.get("successes"), fate.get("attempts")) == (successes, attempts)]
    assert len(ids) == 1
    outcomes = [use["outcome"] for use in rows[ids[0]]["usage"] if "outcome" in use]
    assert (len(outcomes), outcomes.count("success")) == (attempts, successes)
    assert (ids[0] in {entry["id"] for entry in truth["poor"]}) is retires


def test_protected_entries_are_protected_for_the_reasons_named(rows: Rows, truth: dict[str, Any]) -> None:
    listed = {entry["id"] for section in ("stale", "poor") for entry in truth[section]}
    for entry in truth["protected"]:
        row = rows[entry["id"]]
        reasons = {
            "pinned": row.get("pinned", False),
            "approved": row.get("review_state") == "approved",
            "kind": row["kind"] == "architecture_decision",
        }
        assert entry["because"] == [name for name, holds in reasons.items() if holds]
        assert entry["id"] not in listed
    assert {reason for entry in truth["protected"] for reason in entry["because"]} == {"pinned", "approved", "kind"}
    for entry_id in listed:
        row = rows[entry_id]
        assert not row.get("pinned")
        assert row.get("review_state") != "approved"
        assert row["kind"] not in {"decision", "architecture_decision"}


def test_an_offer_that_was_ignored_does_not_refresh_a_stale_entry(rows: Rows, truth: dict[str, Any]) -> None:
    late = [
        use
        for entry in truth["stale"]
        for use in rows[entry["id"]].get("usage", [])
        if use["type"] == "ignored" and use["at"] > "2026-09-01"
    ]
    assert len(late) >= 5


def test_the_plan_of_the_truth_gives_the_usage_of_the_file(rows: Rows) -> None:
    bare = [{k: v for k, v in row.items() if k != "usage"} for row in rows.values()]
    again, facts = simulate_usage(reversed(bare), **load_usage_plan())
    assert {row["id"]: row for row in again} == rows
    assert WEEKS[-1] == LAST_WEEK
    assert sum(fact["poor"] for fact in facts.values()) >= 10
