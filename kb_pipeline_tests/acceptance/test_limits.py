"""How much one run may change, that nothing is overlooked, and that an idle corpus does not empty itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_pipeline_tests.fakes.house import Done, HouseCorpus, NewCorpus

Row = dict[str, Any]
AS_OF = datetime(2026, 11, 2, tzinfo=UTC)
POOR = {"attempts": 30, "successes": 1}


def days_ago(days: float) -> str:
    return (AS_OF - timedelta(days=days)).isoformat()


@dataclass(frozen=True)
class LargeChange:
    """A week that was halted, and the same week with the operator's leave."""

    corpus: HouseCorpus
    before: bytes
    halted: Done
    after_halt: bytes
    halted_report: Row
    halted_plan: Row
    halted_run: Row
    allowed: Done
    states: dict[str, str]


@pytest.fixture(scope="module")
def large_change(new_corpus: NewCorpus) -> LargeChange:
    corpus = new_corpus({"apply": {"max_changed_share": 0.05, "min_changed_entries": 0}})
    rows: list[Row] = [
        {"id": f"e{n:03}", "title": f"Berth {n} is measured by surveyor number {n * 7}", "repository": "big"}
        | (POOR if n < 12 else {})
        for n in range(98)
    ]
    rows += [
        {"id": "pinned", "title": "The pinned advice about lashing rods", "repository": "big", "pinned": True} | POOR,
        {"id": "approved", "title": "The approved advice about twist locks", "repository": "big"}
        | {"review_state": "approved"} | POOR,
        *({"id": f"small-{n}", "title": f"Shed {n} keeps paint of batch {n * 3}", "repository": "small"} for n in range(30)),
        {"id": "small-poor", "title": "A poor advice about the small shed", "repository": "small"} | POOR,
    ]  # fmt: skip
    corpus.load(*rows).ok()
    before = corpus.export("--full")
    halted = corpus.curate()
    after_halt, report, plan = (
        corpus.export("--full"),
        corpus.report("memory-health-report.yaml"),
        corpus.report("memory-pruning-plan.yaml"),
    )
    run = corpus.runs()[0]
    allowed = corpus.curate("--allow-large-change", KB_ACTOR="ida")
    return LargeChange(
        corpus=corpus,
        before=before,
        halted=halted,
        after_halt=after_halt,
        halted_report=report,
        halted_plan=plan,
        halted_run=run,
        allowed=allowed,
        states=corpus.states(),
    )


def test_a_change_beyond_the_limit_halts_before_anything_is_applied(large_change: LargeChange) -> None:
    assert large_change.halted.code == 4
    assert large_change.after_halt == large_change.before
    assert large_change.halted_run["status"] == "halted"
    assert "blast_radius" in large_change.halted_run["message"]
    assert f"    {large_change.halted_run['message']}" in large_change.corpus.kb("runs").ok().out.splitlines()


def test_a_halted_run_reports_what_it_would_have_done(large_change: LargeChange) -> None:
    assert large_change.halted_report["header"]["status"] == "halted"
    assert [row["name"] for row in large_change.halted_report["checks"] if not row["passed"]] == ["blast_radius"]
    listed = {row["memoryId"]: row["action"] for row in large_change.halted_plan["prune"]}
    assert set(listed.values()) == {"halted"} and len(listed) == 13
    assert {row["memoryId"] for row in large_change.halted_plan["kept"]} == {"pinned", "approved"}
    assert "allow-large-change" in large_change.halted.out + large_change.halted.err


def test_the_operator_lets_it_pass_and_is_named(large_change: LargeChange) -> None:
    assert large_change.allowed.code == 0
    retired = {entry for entry, state in large_change.states.items() if state == "archived"}
    assert retired == {f"e{n:03}" for n in range(12)} | {"small-poor"}
    change = large_change.corpus.query(
        "SELECT c.actor_id, c.details::text AS details FROM changes c JOIN memory_maintenance_jobs j "
        "ON j.applied_change_id = c.change_id WHERE j.corpus = %s",
        large_change.corpus.name,
    )
    assert [(row["actor_id"], row["details"]) for row in change] == [("ida", '{"allow_large_change":true}')]


@dataclass(frozen=True)
class Clock:
    """One week of three tenants: a large one with old entries at its end, an idle one, and one in use."""

    states: dict[str, str]
    health: Row
    explained: str


@pytest.fixture(scope="module")
def clock(new_corpus: NewCorpus) -> Clock:
    corpus = new_corpus()
    used: list[Row] = []
    for n in range(1200):
        old = n >= 1190
        used.append(
            {
                "id": f"x{n:04}",
                "title": f"Container {n} stands in row {n % 37} of stack {n // 37} with seal {n * 13}",
                "tenant": "large",
                "created_at": days_ago(200 + n / 10 if old else 150),
                "last_matched_at": days_ago(120 if old else n % 80 + 1),
            }
        )
    for tenant in ("idle", "busy"):
        used += [
            {"id": f"{tenant}-{n}", "title": f"Locker {n} of the {tenant} crew holds vest {n * 5}", "tenant": tenant}
            | {"created_at": days_ago(200), "last_matched_at": days_ago(95 + n)}
            for n in range(5)
        ]
    weekly = [{"id": f"use-{n}", "type": "retrieved", "at": days_ago(7 * n + 1)} for n in range(25)]
    used.append({"id": "busy-used", "title": "The busy crew reads this every week", "tenant": "busy", "usage": weekly})
    corpus.load(*used, {"id": "newer", "title": "Written after the week", "created_at": "2026-11-02T07:00:00Z"}).ok()
    corpus.curate().ok()
    return Clock(corpus.states(), corpus.report("memory-health-report.yaml"), corpus.kb("explain", "idle-0").ok().out)


def test_the_last_of_many_are_seen_too(clock: Clock) -> None:
    retired = {entry for entry, state in clock.states.items() if state == "archived" and entry.startswith("x")}
    assert retired == {f"x{n:04}" for n in range(1190, 1200)}


def test_coverage_says_what_was_left_out(clock: Clock) -> None:
    coverage = clock.health["header"]["coverage"]
    assert coverage["entries"] == 1211
    assert coverage["not_looked_at"] == {"entries newer than the week": 1}
    assert next(row for row in clock.health["checks"] if row["name"] == "coverage")["passed"]


def test_an_idle_tenant_does_not_empty_itself_and_one_in_use_does(clock: Clock) -> None:
    assert {clock.states[f"idle-{n}"] for n in range(5)} == {"active"}
    assert {clock.states[f"busy-{n}"] for n in range(5)} == {"archived"}
    assert clock.states["busy-used"] == "active"
