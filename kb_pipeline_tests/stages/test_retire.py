"""Retirement: every reason fires and spares, protections save, and only active entries are touched."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.retire import RULE_KEYS, RULES, decide_retirement, protections
from kb_pipeline.stages.score import score_quality
from kb_pipeline.vocabulary import State
from kb_pipeline_tests.fakes.frames import AS_OF, cases, days_ago, entries, frame, policy

TABLE = cases("retire")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]


def decide(case: dict[str, Any]) -> dict[str, Any]:
    """The row of RETIREMENT for the entry of a case, scored as in a run."""
    unmatched = case.get("unmatched_days", 1)
    found = entries(
        {
            "id": "e",
            "attempts": case.get("attempts", 0),
            "successes": case.get("successes", 0),
            "created_at": days_ago(case.get("age_days", 900)),
            "last_matched_at": None if unmatched is None else days_ago(unmatched),
        }
        | case.get("entry", {})
    )
    idle = case.get("idle_days", 0)
    uses = [] if case.get("never_used") else [days_ago(idle + day / 2) for day in range(2000)]
    used = pl.DataFrame(
        {"tenant": [None] * len(uses), "used_at": uses}, schema={"tenant": pl.String, "used_at": schemas.Time}
    )
    quality = score_quality(found, used, policy().score, policy().retire, as_of=AS_OF)
    return decide_retirement(found, quality, policy().retire).row(0, named=True)


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    row = decide(case)
    assert row["retire_reasons"] == case["reasons"]
    assert row["retire_decision"] == case["decision"]
    if "because" in case:
        assert row["protected_because"] == case["because"]


def test_every_rule_fires_and_spares_and_names_its_policy_key() -> None:
    assert RULES.keys() == RULE_KEYS.keys()
    for code, rule in RULES.items():
        assert {code in case["reasons"] for case in TABLE[code]} == {True, False}
        assert rule.__doc__ and rule.__doc__.startswith("K")
        section, name = RULE_KEYS[code].split(".")
        assert hasattr(getattr(policy(), section), name)
    words = {word for case in TABLE["protections"] for word in case["because"]}
    assert words == set(protections(policy().retire))


@pytest.mark.parametrize("state", list(State))
def test_only_active_entries_are_retired_or_reviewed(state: State) -> None:
    worst = {"attempts": 100, "successes": 0, "unmatched_days": 500}
    row = decide(worst | {"entry": {"state": state.value}})
    assert (row["retire_decision"] == "retire") == (state is State.ACTIVE)
    row = decide(worst | {"entry": {"state": state.value, "pinned": True}})
    assert (row["retire_decision"] == "review") == (state is State.ACTIVE)
    assert (row["protected_because"] == ["pinned"]) == (state is State.ACTIVE)


STATES = st.sampled_from([State.ACTIVE, State.ACTIVE, State.CANDIDATE, State.ARCHIVED])
ROWS = st.lists(
    st.tuples(st.integers(0, 60), st.floats(0, 1), st.none() | st.floats(0, 400), STATES, st.booleans()),
    min_size=1,
    max_size=12,
)


def built(rows: list[tuple[int, float, float | None, State, bool]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    found = entries(
        *(
            {"id": f"e{n:02d}", "attempts": attempts, "state": state.value, "pinned": pinned}
            for n, (attempts, _, _, state, pinned) in enumerate(rows)
        )
    )
    quality = frame(
        schemas.QUALITY,
        [
            {"entry_id": f"e{n:02d}", "performance_ci_upper": upper, "staleness_days": days}
            for n, (_, upper, days, _, _) in enumerate(rows)
        ],
    )
    return found, quality


@settings(max_examples=30, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant_and_kept(rows: list[Any], random: Any) -> None:
    found, quality = built(rows)
    straight = decide_retirement(found, quality, policy().retire)
    assert straight["entry_id"].to_list() == found["entry_id"].to_list()
    order = list(range(len(rows)))
    random.shuffle(order)
    mixed = decide_retirement(found[order], quality[order], policy().retire)
    assert mixed["entry_id"].to_list() == found[order]["entry_id"].to_list()
    assert mixed.sort("entry_id").equals(straight)


@settings(max_examples=30, deadline=None)
@given(ROWS, st.integers(0, 60), st.floats(0, 1), st.floats(1, 400))
def test_milder_thresholds_never_retire_more(rows: list[Any], attempts: int, upper: float, days: float) -> None:
    found, quality = built(rows)
    strict = policy(retire={"min_attempts": attempts, "max_ci_upper": upper, "max_unmatched_days": days}).retire
    mild = policy(
        retire={"min_attempts": attempts + 1, "max_ci_upper": upper * 0.9, "max_unmatched_days": days + 1}
    ).retire

    def retired(limits: Any) -> set[str]:
        result = decide_retirement(found, quality, limits)
        return set(result.filter(pl.col("retire_decision") == "retire")["entry_id"])

    assert retired(mild) <= retired(strict)
    pinned_or_not_active = found.filter(pl.col("pinned") | (pl.col("state") != "active"))["entry_id"]
    assert not retired(strict) & set(pinned_or_not_active)
