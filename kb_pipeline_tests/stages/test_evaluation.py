"""Counts, shares and intervals of decided pairs, and thresholds that let as few pass as another model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.evaluation import RATES, planned_actions, tally, threshold_as_rare, wilson
from kb_pipeline_tests.fakes.frames import frame


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    # From published tables of the interval.
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (0, 871, 0.0, 0.0044),
    ],
)
def test_the_interval_of_wilson(hits: int, n: int, low: float, high: float) -> None:
    found = wilson(hits, n)
    assert found is not None
    assert found == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_share_and_mirrors(pair: tuple[int, int]) -> None:
    hits, n = pair
    low, high = wilson(hits, n) or (1.0, 0.0)
    assert 0 <= low <= hits / n <= high <= 1
    mirrored = wilson(n - hits, n) or (0.0, 0.0)
    assert (1 - high, 1 - low) == pytest.approx(mirrored)
    wider = wilson(10 * hits, 10 * n) or (0.0, 0.0)
    assert wider[1] - wider[0] < high - low


def test_nothing_counted_has_no_interval() -> None:
    assert wilson(0, 0) is None


def decided(*rows: tuple[str, str, str, str, bool, int]) -> pl.DataFrame:
    columns = ("stratum", "label", "action", "verdict", "is_candidate", "lost_count")
    return pl.DataFrame(rows, schema=columns, orient="row")


PAIRS = decided(
    ("exact", "MERGE", "merge", "MERGE", True, 0),
    ("exact", "MERGE", "merge", "MERGE", True, 0),
    ("exact", "KEEP_BOTH", "merge", "MERGE", True, 2),
    ("exact", "MERGE", "keep", "UNSURE", False, 0),
    ("related", "MERGE", "queue", "UNSURE", True, 0),
    ("related", "SUBSET", "queue", "UNSURE", True, 1),
    ("related", "KEEP_BOTH", "queue", "UNSURE", True, 0),
    ("related", "KEEP_BOTH", "keep", "KEEP_BOTH", False, 3),
    ("related", "CONFLICT", "conflict", "CONFLICT", True, 2),
    ("related", "CONFLICT", "keep", "CONFLICT", False, 2),
    ("related", "KEEP_BOTH", "conflict", "CONFLICT", True, 2),
)


def test_counts_and_rates_by_stratum_and_in_all() -> None:
    strata = tally(PAIRS)
    assert list(strata) == ["exact", "related", "total"]
    exact, related, total = strata.values()
    assert [exact[n] for n in ("pairs", "candidates", "merges", "false_merges", "merges_with_loss")] == [4, 3, 3, 1, 1]
    assert (exact["precision"], exact["recall"]) == (0.6667, 0.6667)
    assert (exact["candidate_recall"], exact["conflicts"], exact["conflict_precision"]) == (0.6667, 0, None)
    assert [related[n] for n in ("queued", "duplicates_queued", "conflicts", "right_conflicts")] == [3, 1, 2, 1]
    assert (related["precision"], related["precision_low"], related["precision_high"]) == (None, None, None)
    assert (related["recall"], related["found_recall"], related["queue_precision"]) == (0.0, 1.0, 0.3333)
    assert (related["conflict_precision"], related["conflict_recall"]) == (0.5, 0.5)
    # The judge saw a conflict that the run did not look at.
    assert (related["verdict_conflict_recall"], related["verdict_conflict_precision"]) == (1.0, 0.6667)
    assert (total["agreed"], total["agreement"]) == (2 + 4, 0.5455)
    for name in ("pairs", "merges", "queued", "conflicts", "agreed", "duplicates"):
        assert total[name] == exact[name] + related[name]
    for name in RATES:
        if total[name] is not None:
            assert total[f"{name}_low"] <= total[name] <= total[f"{name}_high"]


def test_no_pairs_have_no_rates() -> None:
    (total,) = tally(PAIRS.clear()).values()
    assert total["pairs"] == total["merges"] == total["agreed"] == 0
    assert {total[name] for name in RATES} == {None}


def plan(*rows: dict[str, Any]) -> pl.DataFrame:
    return frame(schemas.PLAN, [{"action_id": f"id{n}", "reason": f"r{n}"} | row for n, row in enumerate(rows)])


def test_the_action_of_a_pair_is_what_the_plan_does_with_it() -> None:
    pairs = pl.DataFrame({"entry_id_l": ["a", "b", "c", "d", "e"], "entry_id_r": ["a2", "b2", "c2", "d2", "e2"]})
    asks = {"action": "recommend", "recommendation_type": "MERGE"}
    made = plan(
        {"action": "merge", "entry_id": "a2", "other_entry_id": "a"},
        asks | {"entry_id": "b", "other_entry_id": "b2"},
        {"action": "recommend", "recommendation_type": "CONFLICT", "entry_id": "c", "other_entry_id": "c2"},
        {"action": "open_conflict", "entry_id": "c", "other_entry_id": "c2"},
        # A question about one entry is none about its pair; a merge that is asked beside a conflict comes second.
        {"action": "recommend", "recommendation_type": "FLAG", "entry_id": "d", "other_entry_id": None},
        asks | {"entry_id": "c", "other_entry_id": "c2"},
        {"action": "merge", "entry_id": "x", "other_entry_id": "y"},
    )
    found = planned_actions(pairs, made)
    assert found["action"].to_list() == ["merge", "queue", "conflict", "keep", "keep"]
    assert found["plan_reason"].to_list() == ["r0", "r1", "r3", None, None]


def test_a_threshold_lies_halfway_between_the_last_that_passes_and_the_next() -> None:
    cosines = np.array([0.95, 0.93, 0.91, 0.5, np.nan])
    assert threshold_as_rare(cosines, 2) == 0.92
    assert threshold_as_rare(cosines, 3) == 0.705
    assert threshold_as_rare(cosines, 4) == threshold_as_rare(cosines, 9) == 0.5


def test_pairs_of_one_cosine_stay_below_together() -> None:
    cosines = np.array([0.95, 0.9, 0.9, 0.9, 0.4])
    assert threshold_as_rare(cosines, 2) == 0.9001
    assert threshold_as_rare(np.array([1.0] * 5), 2) is None
    assert threshold_as_rare(np.array([-0.2, -0.3]), 1) is None


@given(
    st.lists(st.floats(0.001, 1.0).map(lambda value: round(value, 5)), min_size=2, max_size=60),
    st.integers(1, 60),
)
def test_no_threshold_lets_more_pass_than_allowed_and_more_may_pass_under_a_lower_one(
    values: list[float], count: int
) -> None:
    cosines = np.array(values)
    threshold = threshold_as_rare(cosines, count)
    if threshold is not None:
        assert (cosines >= threshold).sum() <= count or len(values) <= count
        more = threshold_as_rare(cosines, count + 1)
        assert more is not None and more <= threshold
