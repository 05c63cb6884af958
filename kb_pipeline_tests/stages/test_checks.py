"""The checks between plan and apply: a sound plan passes, and each kind of unsound one is stopped by its own check."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.checks import (
    BLOCKING,
    WARNING,
    CheckResult,
    check_health,
    check_plan,
    gold_precision,
    golden_queries,
    severity_of,
)
from kb_pipeline.transitions import BY_PERSON_ONLY, TRANSITIONS
from kb_pipeline.vocabulary import Severity, State
from kb_pipeline_tests.fakes.frames import entries, frame, policy

ENTRIES = entries(
    *({"id": letter, "body": f"text of {letter}"} for letter in "abd"),
    {"id": "c", "body": "text of c", "state": "candidate"},
    {"id": "o", "body": "text of o", "repository": "other"},
    {"id": "k", "body": "text of k", "kind": "rule"},
)
MERGE = {"action": "merge", "entry_id": "b", "other_entry_id": "a", "from_state": "active", "to_state": "archived"}
RETIRE = {"action": "retire", "entry_id": "d", "from_state": "active", "to_state": "archived"}
ADMIT = {"action": "admit", "entry_id": "c", "from_state": "candidate", "to_state": "active"}
STRENGTHEN = {"action": "strengthen", "entry_id": "a", "other_entry_id": "c"}
AGREE = [{"entry_id_l": "a", "entry_id_r": "b"}]


def plan(*rows: dict[str, Any]) -> pl.DataFrame:
    return frame(schemas.PLAN, [{"action_id": f"id{n}", "reason": "judge.exact"} | row for n, row in enumerate(rows)])


def check(
    *rows: dict[str, Any],
    found: pl.DataFrame = ENTRIES,
    verdicts: list[dict[str, Any]] = AGREE,
    expected: int | None = None,
    allow: bool = False,
    **sections: Any,
) -> dict[str, CheckResult]:
    results = check_plan(
        policy(**sections),
        found,
        plan(*rows),
        frame(schemas.VERDICTS, verdicts),
        expected_count=found.height if expected is None else expected,
        allow_large_change=allow,
    )
    # ``schema``, ``gold_precision`` and ``golden_queries`` are asked elsewhere
    assert tuple(result.name for result in results) == BLOCKING[1:-2]
    assert all(result.blocking for result in results)
    return {result.name: result for result in results}


def failed(results: dict[str, CheckResult]) -> set[str]:
    return {name for name, result in results.items() if not result.passed}


def test_a_sound_plan_passes() -> None:
    results = check(MERGE, RETIRE, ADMIT, STRENGTHEN)
    assert failed(results) == set()
    assert results["one_transition_per_entry"].numbers == {"transitions": 3}
    assert results["no_entry_lost"].numbers == {"entries": 6}
    assert failed(check()) == set()
    assert failed(check(found=schemas.ENTRIES.empty(), verdicts=[])) == set()


def test_entries_that_were_lost_or_do_not_exist() -> None:
    results = check(RETIRE, expected=7)
    assert failed(results) == {"no_entry_lost"}
    assert results["no_entry_lost"].sentence == "6 entries were read, the database holds 7"
    results = check({"action": "recommend", "entry_id": "nobody"})
    assert failed(results) == {"no_entry_lost"}
    assert "['nobody']" in results["no_entry_lost"].sentence
    assert failed(check({"action": "recommend", "entry_id": "a", "other_entry_id": "nobody"})) == {"no_entry_lost"}


def test_an_entry_that_changes_twice() -> None:
    results = check(MERGE, RETIRE | {"entry_id": "b"})
    assert failed(results) == {"one_transition_per_entry"}
    assert "['b']" in results["one_transition_per_entry"].sentence
    # A question about an entry is no change of it.
    assert failed(check(MERGE, {"action": "recommend", "entry_id": "b"})) == set()


@pytest.mark.parametrize("old", list(State))
def test_only_allowed_transitions_pass(old: State) -> None:
    found = ENTRIES.with_columns(state=pl.when(pl.col("entry_id") == "d").then(pl.lit(old.value)).otherwise("state"))
    for new in State:
        results = check(RETIRE | {"from_state": old.value, "to_state": new.value}, found=found)
        allowed = new in TRANSITIONS[old] and (old, new) not in BY_PERSON_ONLY
        assert ("allowed_transitions" in failed(results)) != allowed
        if not allowed:
            assert f"d {old} -> {new}" in results["allowed_transitions"].sentence


def test_a_transition_from_a_state_that_the_entry_is_not_in() -> None:
    results = check(RETIRE | {"from_state": "stale"})
    assert failed(results) == {"allowed_transitions"}
    assert "d is active and not stale" in results["allowed_transitions"].sentence


def test_winners_that_do_not_stay() -> None:
    results = check(MERGE, RETIRE | {"entry_id": "a"})
    assert failed(results) == {"winners_stay"}
    assert "['a']" in results["winners_stay"].sentence
    # A winner that is itself merged away, or no longer active.
    verdicts = [*AGREE, {"entry_id_l": "a", "entry_id_r": "d"}, {"entry_id_l": "b", "entry_id_r": "d"}]
    assert failed(check(MERGE, MERGE | {"entry_id": "a", "other_entry_id": "d"}, verdicts=verdicts)) == {"winners_stay"}
    archived = ENTRIES.with_columns(
        state=pl.when(pl.col("entry_id") == "a").then(pl.lit("archived")).otherwise("state")
    )
    assert failed(check(MERGE, found=archived)) == {"winners_stay"}


@pytest.mark.parametrize("other", ["o", "k"])
def test_scope_and_kind_are_never_crossed(other: str) -> None:
    verdicts = [{"entry_id_l": min("b", other), "entry_id_r": max("b", other)}]
    results = check(MERGE | {"other_entry_id": other}, verdicts=verdicts)
    assert failed(results) == {"scope_not_crossed"}
    assert f"b and {other} differ in scope or kind" in results["scope_not_crossed"].sentence
    assert failed(check(STRENGTHEN | {"entry_id": other})) == {"scope_not_crossed"}
    refused = {"action": "refuse", "entry_id": "c", "from_state": "candidate", "to_state": "archived"}
    assert failed(check(refused | {"other_entry_id": "a"})) == set()
    # A conflict may lie across scopes.
    assert failed(check({"action": "open_conflict", "entry_id": "b", "other_entry_id": other})) == set()


@pytest.mark.parametrize(
    "verdicts",
    [
        [{"entry_id_l": "a", "entry_id_r": "b", "specifics_only_l": ["3"]}],
        [{"entry_id_l": "a", "entry_id_r": "b", "specifics_only_r": ["/etc/b.conf"]}],
        [{"entry_id_l": "a", "entry_id_r": "b", "verdict": "KEEP_BOTH"}],
        [{"entry_id_l": "a", "entry_id_r": "b", "verdict": "UNSURE"}],
        [{"entry_id_l": "a", "entry_id_r": "d"}],
        [],
    ],
    ids=["left", "right", "kept", "unsure", "about another pair", "nobody judged"],
)
def test_a_merge_without_an_agreeing_verdict(verdicts: list[dict[str, Any]]) -> None:
    results = check(MERGE, verdicts=verdicts)
    assert failed(results) == {"specifics_equal"}
    assert "a" in results["specifics_equal"].sentence and "b" in results["specifics_equal"].sentence


def test_copies_of_one_text_may_rest_on_the_pair_with_their_first() -> None:
    into = {"other_entry_id": "b"}
    rows = [MERGE | into | {"entry_id": "a"}, MERGE | into | {"entry_id": "d"}]
    exact = [
        {"entry_id_l": "a", "entry_id_r": "b", "band": "exact"},
        {"entry_id_l": "a", "entry_id_r": "d", "band": "exact"},
    ]
    assert failed(check(*rows, verdicts=exact)) == set()
    assert failed(check(*rows, verdicts=exact[:1])) == {"specifics_equal"}
    assert failed(check(*rows, verdicts=exact[1:])) == {"specifics_equal"}


def many(count: int, changing: int, **values: Any) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    found = entries(*({"id": f"e{n:04d}", "body": f"text {n}"} | values for n in range(count)))
    return found, [RETIRE | {"entry_id": f"e{n:04d}"} for n in range(changing)]


def test_blast_radius_is_the_larger_of_a_number_and_a_share() -> None:
    for count, changing, passes in ((30, 20, True), (30, 21, False), (400, 40, True), (400, 41, False)):
        found, rows = many(count, changing)
        results = check(*rows, found=found, verdicts=[])
        assert ("blast_radius" not in failed(results)) == passes
        assert results["blast_radius"].numbers["largest_change"] == changing
    found, rows = many(100, 12)
    limits: dict[str, Any] = {"apply": {"min_changed_entries": 0, "max_changed_share": 0.05}}
    results = check(*rows, found=found, verdicts=[], **limits)
    assert failed(results) == {"blast_radius"}
    assert "12 of 100 active entries would change, 5 are allowed" in results["blast_radius"].sentence


def test_an_operator_may_allow_a_large_change() -> None:
    found, rows = many(30, 21)
    result = check(*rows, found=found, verdicts=[], allow=True)["blast_radius"]
    assert result.passed
    assert result.sentence.startswith("allowed by the operator: ")
    assert result.numbers["places_over_limit"] == 1
    # Nothing else becomes allowed by it.
    assert failed(check(MERGE, verdicts=[], allow=True)) == {"specifics_equal"}


def test_blast_radius_is_counted_in_each_tenant_and_repository() -> None:
    one, rows = many(200, 25)
    found = one.with_columns(
        tenant=pl.when(pl.int_range(pl.len()) < 100).then(pl.lit("t")),
        repository=pl.when(pl.int_range(pl.len()) < 50).then(pl.lit("r")),
    )
    results = check(*rows, found=found, verdicts=[])
    assert failed(results) == {"blast_radius"}  # 25 of 200 would be too many anyway
    assert results["blast_radius"].sentence.startswith("t/r: 25 of 50 active entries")
    spread = [row | {"entry_id": f"e{n * 8:04d}"} for n, row in enumerate(rows)]
    assert failed(check(*spread, found=found, verdicts=[])) == set()


def test_only_what_leaves_the_active_entries_counts() -> None:
    found, _ = many(30, 0)
    found = found.with_columns(state=pl.lit("candidate"))
    refused = [
        {"action": "refuse", "entry_id": f"e{n:04d}", "from_state": "candidate", "to_state": "archived"}
        for n in range(30)
    ]
    assert failed(check(*refused, found=found, verdicts=[])) == set()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.floats(0, 1), st.floats(0, 1), st.integers(0, 30))
def test_a_lower_limit_never_lets_more_pass(count: int, changing: int, low: float, high: float, least: int) -> None:
    found, rows = many(count, min(count, changing))

    def passes(share: float) -> bool:
        limits: dict[str, Any] = {"apply": {"min_changed_entries": least, "max_changed_share": share}}
        return "blast_radius" not in failed(check(*rows, found=found, verdicts=[], **limits))

    assert passes(max(low, high)) or not passes(min(low, high))


def health(**values: Any) -> dict[str, CheckResult]:
    given_: dict[str, Any] = {
        "scores": [0.5, 0.7],
        "previous": None,
        "verdicts": [],
        "queue": [],
        "not_looked_at": {},
        "sections": {},
    } | values
    scores = [{"entry_id": f"e{n}", "distinctiveness": score} for n, score in enumerate(given_["scores"])]
    results = check_health(
        policy(**given_["sections"]),
        frame(schemas.DISTINCTIVENESS, scores),
        given_["previous"],
        frame(schemas.VERDICTS, given_["verdicts"]),
        frame(schemas.QUEUE, given_["queue"]),
        not_looked_at=given_["not_looked_at"],
    )
    assert tuple(result.name for result in results) == WARNING
    assert not any(result.blocking for result in results)
    return {result.name: result for result in results}


def test_health_without_anything_to_say() -> None:
    assert failed(health()) == set()
    assert failed(health(scores=[])) == set()
    assert failed(health(scores=[None], previous=0.5)) == set()


def test_what_was_not_looked_at_is_told() -> None:
    results = health(not_looked_at={"newer": 3, "without vectors": 0, "pairs over the limit": 2})
    assert failed(results) == {"coverage"}
    assert results["coverage"].sentence == "not looked at: 3 newer, 2 pairs over the limit"
    assert results["coverage"].numbers == {"newer": 3, "pairs over the limit": 2}


def test_drift_of_distinctiveness() -> None:
    assert failed(health(previous=0.7)) == set()
    assert failed(health(previous=0.5)) == set()
    results = health(previous=0.71)
    assert failed(results) == {"distinctiveness_drift"}
    assert results["distinctiveness_drift"].numbers == {"mean": 0.6}
    assert failed(health(previous=0.4)) == {"distinctiveness_drift"}


def test_backlog_of_borderline_pairs() -> None:
    rows = [
        {"entry_id_l": "a", "entry_id_r": f"b{n}", "band": band, "verdict": verdict, "reason": "judge.residue"}
        for n, (band, verdict) in enumerate([("borderline", "UNSURE"), ("borderline", "UNSURE"), ("merge", "UNSURE")])
    ]
    waits = [
        {"recommendation_id": f"r{n}", "entry_ids": ["a", f"b{n}"], "content_hashes": ["h", "h"]} for n in range(4)
    ]
    one = {"checks": {"max_borderline_backlog": 1}}
    two = {"checks": {"max_borderline_backlog": 2}}
    results = health(verdicts=rows, queue=waits, sections=one)
    assert failed(results) == {"borderline_backlog"}
    assert results["borderline_backlog"].numbers == {"waiting": 2}
    assert failed(health(verdicts=rows, queue=waits, sections=two)) == set()
    assert failed(health(verdicts=rows, queue=waits[1:], sections=one)) == set()


def test_a_judge_that_failed() -> None:
    rows = [
        {"entry_id_l": "a", "entry_id_r": f"b{n}", "failed": n > 0, "verdict": "KEEP_BOTH", "reason": "judge.timeout"}
        for n in range(3)
    ]
    results = health(verdicts=rows)
    assert failed(results) == {"judge_degraded"}
    assert results["judge_degraded"].numbers == {"failed": 2}


GOLD = {"pairs": 300, "merges": 80, "false_merges": 0, "precision": 1.0}


@pytest.mark.parametrize(
    ("measured", "limit", "passes"),
    [
        ({}, 1.0, True),
        ({"false_merges": 1, "precision": 0.9875}, 1.0, False),
        ({"false_merges": 1, "precision": 0.9875}, 0.98, True),
        # Rounded, this precision is 1; the counts know better.
        ({"merges": 100_000, "false_merges": 1, "precision": 1.0}, 1.0, False),
        ({"merges": 0, "precision": None}, 1.0, True),
    ],
)
def test_merges_on_the_gold_set(measured: dict[str, Any], limit: float, passes: bool) -> None:
    result = gold_precision(policy(judge={"min_gold_precision": limit}), GOLD | measured)
    assert (result.name, result.passed, result.blocking) == ("gold_precision", passes, True)
    assert passes or ("1 of " in result.sentence and "judge.min_gold_precision = 1" in result.sentence)


def test_severity_is_that_of_the_policy_else_by_kind() -> None:
    for name in (*BLOCKING, *WARNING):
        result = CheckResult(name, True, "", blocking=name in BLOCKING)
        assert severity_of(policy(), result) == (Severity.HIGH if name in BLOCKING else Severity.LOW)
    coverage = CheckResult("coverage", False, "", blocking=False)
    assert severity_of(policy(checks={"severity": {"coverage": "error"}}), coverage) == Severity.HIGH


GOLDEN = {
    "queries": 8, "within": 10, "hit_rate_before": 1.0, "hit_rate_after": 1.0, "mrr_before": 0.9, "mrr_after": 0.9,
    "fall": 0.0, "worse": [],
}  # fmt: skip


@pytest.mark.parametrize(("fall", "limit", "passes"), [(0.0, 0.0, True), (0.01, 0.01, True), (0.011, 0.01, False)])
def test_golden_queries_may_fall_so_much_and_no_more(fall: float, limit: float, passes: bool) -> None:
    result = golden_queries(policy(search={"max_golden_drop": limit}), GOLDEN | {"fall": fall, "worse": [2, 7]})
    assert (result.name, result.passed, result.blocking) == ("golden_queries", passes, True)
    assert ("queries 2, 7" in result.sentence) is not passes
    assert ("search.max_golden_drop = 0.01" in result.sentence) is not passes
    assert result.numbers["hit_rate_before"] == 1.0 and "0.9 before and 0.9 after" in result.sentence


def test_without_golden_queries_the_check_says_so() -> None:
    result = golden_queries(policy(), None)
    assert result.passed and "no golden queries are set" in result.sentence and not result.numbers


def test_many_worse_queries_are_not_all_listed() -> None:
    worse = list(range(1, 40))
    result = golden_queries(policy(), GOLDEN | {"fall": 0.5, "worse": worse})
    assert "9, 10, …" in result.sentence and "11" not in result.sentence.rpartition("queries")[2]
