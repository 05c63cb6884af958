"""Scores: the Beta interval, the staleness clock with its idle periods, and freshness."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.score import performance_interval, score_quality, staleness_days
from kb_pipeline_tests.fakes.frames import AS_OF, days_ago, entries, policy


def activity(*uses: tuple[str | None, float]) -> pl.DataFrame:
    """Uses of the corpus: (tenant, days ago)."""
    rows = [{"tenant": tenant, "used_at": days_ago(days)} for tenant, days in uses]
    return pl.DataFrame(rows, schema={"tenant": pl.String, "used_at": schemas.Time})


def clock(matched: float | None, *uses: float, created: float = 1000, tenant: str | None = None) -> float | None:
    """The staleness clock of an entry matched and created so many days ago, in a corpus used so many days ago."""
    found = entries(
        {
            "id": "e",
            "tenant": tenant,
            "created_at": days_ago(created),
            "last_matched_at": None if matched is None else days_ago(matched),
        }
    )
    days: float | None = staleness_days(found, activity(*((tenant, use) for use in uses)), 14, as_of=AS_OF)[0]
    return days


EVERY_DAY = [float(day) for day in range(1, 400)]


@pytest.mark.parametrize(
    ("attempts", "successes", "lower", "upper"),
    [
        # Checked against the regularised incomplete beta function tabulated for these quantiles.
        (20, 3, 0.05446, 0.36342),
        (20, 4, 0.08218, 0.41907),
        (0, 0, 0.025, 0.975),
        (1, 1, 0.15811, 0.98742),
        (100, 0, 0.00025, 0.03587),
    ],
)
def test_bounds_of_the_success_rate(attempts: int, successes: int, lower: float, upper: float) -> None:
    low, high = performance_interval(np.array([attempts]), np.array([successes]), 0.95)
    assert low[0] == pytest.approx(lower, abs=2e-5)
    assert high[0] == pytest.approx(upper, abs=2e-5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=20), st.floats(0.5, 0.99))
def test_bounds_are_ordered_in_range_and_row_by_row(counts: list[tuple[int, int]], mass: float) -> None:
    attempts = np.array([max(pair) for pair in counts])
    successes = np.array([min(pair) for pair in counts])
    low, high = performance_interval(attempts, successes, mass)
    rate = (successes + 1) / (attempts + 2)
    assert ((low >= 0) & (low < rate) & (rate < high) & (high <= 1)).all()
    back = performance_interval(attempts[::-1], successes[::-1], mass)
    assert (back[0][::-1] == low).all() and (back[1][::-1] == high).all()
    more = performance_interval(attempts, np.minimum(successes + 1, attempts), mass)
    assert (more[1] >= high).all()


def test_the_clock_runs_from_the_last_match_or_the_creation_whichever_is_later() -> None:
    assert clock(90, *EVERY_DAY) == 90
    assert clock(None, *EVERY_DAY, created=33) == 33
    assert clock(200, *EVERY_DAY, created=80) == 80
    assert clock(80, *EVERY_DAY, created=200) == 80


def test_an_entry_without_a_creation_time_counts_from_when_the_corpus_first_held_it() -> None:
    found = entries({"id": "e", "created_at": None, "first_effective_at": days_ago(21)})
    assert staleness_days(found, activity((None, 3.0), (None, 12.0)), 14, as_of=AS_OF)[0] == 21


def test_a_corpus_that_was_never_used_has_no_clock() -> None:
    assert clock(None, created=900) is None
    assert clock(None, 899.0, created=900) is not None


@pytest.mark.parametrize(
    ("matched", "uses", "days"),
    [
        (70, [70], 14),  # idle since the match: only 14 days count
        (75, [75, 70], 5 + 14),
        (90, [90, 76, 62, 48, 34, 20, 6], 90),  # stretches of 14 days are no idle time
        (90, [90, 75, 60, 45, 30, 15], 6 * 14),  # each stretch of 15 days loses one
        (100, [100, 50, 25], 14 * 3),
        (30, [100, 30, 20], 10 + 14),  # what was idle before the match does not count for it
        (0, [50, 0.0001], 0),
    ],
)
def test_idle_periods_of_the_corpus_do_not_count(matched: float, uses: list[float], days: float) -> None:
    assert clock(matched, *uses) == pytest.approx(days, abs=1e-6)


def test_a_week_without_use_inside_an_idle_period_makes_nothing_older() -> None:
    # The entry came in the middle of a long silence: no day since then counts.
    assert clock(None, 100.0, created=60) == 0
    assert clock(None, 100.0, created=95) == pytest.approx(9)


def test_idle_time_is_that_of_the_entrys_own_tenant() -> None:
    found = entries(
        *(
            {"id": f"e{n}", "tenant": tenant, "created_at": days_ago(70)}
            for n, tenant in enumerate([None, "a", "b", "a"])
        ),
        {"id": "e9", "tenant": "nobody", "created_at": days_ago(70)},
    )
    used = activity((None, 70.0), *(("a", float(day)) for day in range(70, 0, -1)), ("b", 70.0), ("b", 30.0))
    assert staleness_days(found, used, 14, as_of=AS_OF).to_list() == [14, 70, 28, 70, None]


def test_freshness_halves_with_the_half_life_of_the_kind() -> None:
    found = entries(
        {"id": "a", "kind": "fact", "created_at": days_ago(90)},
        {"id": "b", "kind": "skill", "created_at": days_ago(180)},
        {"id": "c", "kind": "decision", "created_at": days_ago(730)},
        {"id": "d", "kind": "fact", "created_at": days_ago(900), "updated_at": days_ago(90)},
        {"id": "e", "kind": "fact", "created_at": days_ago(900), "last_validated_at": days_ago(180)},
        {"id": "f", "kind": "fact", "created_at": days_ago(900), "last_matched_at": days_ago(0)},
        {"id": "g", "kind": "fact", "created_at": AS_OF + timedelta(days=3)},
        {"id": "h", "kind": "fact", "created_at": None, "first_effective_at": days_ago(90)},
    )
    scored = score_quality(found, activity(), policy().score, policy().retire, as_of=AS_OF)
    assert scored["freshness"].to_list() == [0.5, 0.5, 0.25, 0.5, 0.25, 1.0, 1.0, 0.5]
    assert scored["staleness_days"].null_count() == 8


def test_an_empty_corpus() -> None:
    assert score_quality(
        schemas.ENTRIES.empty(), activity((None, 1.0)), policy().score, policy().retire, as_of=AS_OF
    ).is_empty()


DAYS = st.floats(0, 500, allow_nan=False)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(DAYS, st.none() | DAYS, st.sampled_from([None, "a", "b"])), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from([None, "a"]), DAYS), max_size=8),
    st.randoms(use_true_random=False),
)
def test_scores_stay_in_range_and_the_order_of_rows_is_irrelevant(
    made: list[tuple[float, float | None, str | None]], uses: list[tuple[str | None, float]], random: Any
) -> None:
    found = entries(
        *(
            {
                "id": f"e{n}",
                "tenant": tenant,
                "created_at": days_ago(created),
                "last_matched_at": None if matched is None else days_ago(matched),
            }
            for n, (created, matched, tenant) in enumerate(made)
        )
    )
    used = activity(*uses)

    def score(rows: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
        return score_quality(rows, times, policy().score, policy().retire, as_of=AS_OF)

    result = score(found, used)
    assert result["freshness"].is_between(0, 1).all()
    tenants = {tenant for tenant, _ in uses}
    for (created, matched, tenant), days in zip(made, result["staleness_days"], strict=True):
        since = created if matched is None else min(created, matched)
        assert (days is None) == (tenant not in tenants)
        # The clock never runs faster than the calendar.
        assert days is None or -1e-9 <= days <= since + 1e-6
    order = list(range(len(made)))
    random.shuffle(order)
    assert score(found[order], used.reverse()).sort("entry_id").equals(result)


@settings(max_examples=40, deadline=None)
@given(DAYS, st.lists(DAYS, min_size=1, max_size=6), DAYS)
def test_more_use_of_the_corpus_never_slows_the_clock(matched: float, uses: list[float], one_more: float) -> None:
    # A match is a use of the corpus like any other.
    before, after = clock(matched, matched, *uses), clock(matched, matched, *uses, one_more)
    assert before is not None and after is not None
    assert after >= before - 1e-6 and not math.isnan(after)


def test_a_moment_before_and_after_ninety_days() -> None:
    second = timedelta(seconds=1)
    for moment, stale in ((days_ago(90), True), (days_ago(90) + second, False), (days_ago(90) - second, True)):
        days = at(moment)
        assert (days >= 90) == stale


def at(moment: datetime) -> float:
    """The clock of an entry matched at this moment, in a corpus used every day."""
    found = entries({"id": "e", "created_at": days_ago(300), "last_matched_at": moment})
    days: float = staleness_days(found, activity(*((None, d) for d in EVERY_DAY)), 14, as_of=AS_OF)[0]
    return days
