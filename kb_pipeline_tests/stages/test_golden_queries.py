"""The golden-query probe: hit rate and mean reciprocal rank, and when they have fallen too far (X7)."""

from __future__ import annotations

import pytest

from kb_pipeline.stages.golden_queries import GoldenQuery, ProbeResult, probe

ANSWERS = {"one": ["a", "b"], "late": [f"x{n}" for n in range(10)] + ["a"], "none": ["x"]}


def result(hit_rate: float | None, mrr: float | None) -> ProbeResult:
    return ProbeResult(9, hit_rate, mrr, ())


def test_it_counts_hits_within_ten_and_averages_reciprocal_ranks() -> None:
    queries = [GoldenQuery("one", ("b", "z")), GoldenQuery("late", ("a",)), GoldenQuery("none", ("a",))]
    found = probe(queries, ANSWERS.__getitem__)
    assert found.first_ranks == (2, 11, None)
    assert (found.query_count, found.hit_rate) == (3, pytest.approx(1 / 3))
    assert found.mrr == pytest.approx((1 / 2 + 1 / 11) / 3)


def test_any_expected_entry_counts_and_the_first_is_taken() -> None:
    assert probe([GoldenQuery("one", ("b", "a"))], ANSWERS.__getitem__).first_ranks == (1,)


def test_without_queries_there_is_no_number() -> None:
    assert probe([], ANSWERS.__getitem__) == ProbeResult(0, None, None, ())


def test_a_fall_of_more_than_a_hundredth_is_worse() -> None:
    before = result(0.9, 0.7)
    assert not result(0.89, 0.69).is_worse_than(before)
    assert result(0.88, 0.7).is_worse_than(before)
    assert result(0.95, 0.68).is_worse_than(before)
    assert not result(1.0, 1.0).is_worse_than(before)
    assert not result(None, None).is_worse_than(before)
