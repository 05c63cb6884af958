"""The golden-query probe: hit rate and mean reciprocal rank, what counts as found, and what fell (X7)."""

from __future__ import annotations

import pytest

from kb_pipeline.stages.golden_queries import GoldenQuery, ProbeResult, last_of, probe

ANSWERS = {"one": ["a", "b"], "late": [f"x{n}" for n in range(10)] + ["a"], "none": ["x"]}


def asked(*queries: GoldenQuery, within: int = 10, successors: dict[str, str] | None = None) -> ProbeResult:
    return probe(queries, ANSWERS.__getitem__, within=within, successors=successors)


def result(hit_rate: float | None, mrr: float | None, *ranks: int | None) -> ProbeResult:
    return ProbeResult(9, 10, hit_rate, mrr, ranks)


def test_it_counts_hits_within_ten_and_averages_reciprocal_ranks() -> None:
    found = asked(GoldenQuery("one", ("b", "z")), GoldenQuery("late", ("a",)), GoldenQuery("none", ("a",)))
    assert found.first_ranks == (2, 11, None)
    assert (found.query_count, found.within, found.hit_rate) == (3, 10, pytest.approx(1 / 3))
    assert found.mrr == pytest.approx((1 / 2 + 1 / 11) / 3)


def test_how_many_answers_count_is_asked() -> None:
    late = GoldenQuery("late", ("a",))
    assert (asked(late, within=11).hit_rate, asked(late, within=10).hit_rate) == (1.0, 0.0)


def test_any_expected_entry_counts_and_the_first_is_taken() -> None:
    assert asked(GoldenQuery("one", ("b", "a"))).first_ranks == (1,)


def test_a_merged_entry_is_found_in_the_one_that_it_went_into() -> None:
    query = GoldenQuery("one", ("gone",))
    assert asked(query).first_ranks == (None,)
    assert asked(query, successors={"gone": "b"}).first_ranks == (2,)
    assert asked(query, successors={"gone": "went", "went": "b"}).first_ranks == (2,)
    # Before a merge is applied, the entry itself is what is found.
    assert asked(GoldenQuery("one", ("a",)), successors={"a": "elsewhere"}).first_ranks == (1,)


def test_chains_end_even_when_they_bite_their_tail() -> None:
    assert last_of("a", {"a": "b", "b": "c"}) == "c"
    assert last_of("a", {"a": "b", "b": "a"}) == "b"
    assert last_of("a", {"a": "a"}) == "a" == last_of("a", {})


def test_without_queries_there_is_no_number() -> None:
    assert asked() == ProbeResult(0, 10, None, None, ())


def test_the_number_that_fell_most_is_the_fall() -> None:
    before = result(0.9, 0.7)
    assert result(0.89, 0.69).fall_since(before) == 0.01
    assert result(0.88, 0.7).fall_since(before) == 0.02
    assert result(0.95, 0.68).fall_since(before) == 0.02
    assert result(1.0, 1.0).fall_since(before) == 0
    assert result(None, None).fall_since(before) == 0


def test_the_queries_that_got_worse_are_numbered() -> None:
    before, after = result(1, 1, 1, 2, None, None, 3), result(1, 1, 1, 4, None, 2, None)
    assert after.worse_since(before) == [2, 5]
    assert before.worse_since(before) == []
