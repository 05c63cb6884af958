"""Merges: reasons fire and spare, the winner's order is total, and every cluster is a clique."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.merge import RULE_KEY, longest_chain, plan_merges, winner_rank
from kb_pipeline.vocabulary import ReasonCode
from kb_pipeline_tests.fakes.frames import cases, days_ago, entries, frame, policy

TABLE = cases("merge")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]
LETTERS = "abcdef"
ORDER = ["pinned", "approved", "confidence", "usage", "older", "smaller_id"]


def verdicts(rows: list[dict[str, Any]]) -> pl.DataFrame:
    built = []
    for row in rows:
        left, right = sorted(row["pair"].split())
        built.append({"entry_id_l": left, "entry_id_r": right} | {k: v for k, v in row.items() if k != "pair"})
    return frame(schemas.VERDICTS, built)


def outcome(merges: pl.DataFrame) -> tuple[dict[str, str], dict[str, str]]:
    merged = merges.filter(pl.col("merge_decision") == "merge")
    review = merges.filter(pl.col("merge_decision") == "review")
    return (
        dict(merged.select("loser_id", "winner_id").iter_rows()),
        {
            f"{loser}/{winner}": why
            for loser, winner, why in review.select("loser_id", "winner_id", "reason").iter_rows()
        },
    )


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    found = entries(*({"id": letter} | case.get("entries", {}).get(letter, {}) for letter in LETTERS))
    rules = policy(merge={"winner_order": case.get("order", ORDER)}).merge
    merged, review = outcome(plan_merges(found, verdicts(case["verdicts"]), rules))
    assert merged == case["merged"]
    assert review == case.get("review", {})


def test_every_reason_code_fires_and_spares() -> None:
    for code in set(TABLE) & {code.value for code in ReasonCode}:
        assert code.startswith("merge.")
        assert {code in case["review"].values() for case in TABLE[code]} == {True, False}
    section, name = RULE_KEY.split(".")
    assert hasattr(getattr(policy(), section), name)


def test_a_merge_says_what_spoke_for_it() -> None:
    found = entries(*({"id": letter} for letter in LETTERS), {"id": "z", "pinned": True})
    table = verdicts(
        [
            {"pair": "a b", "band": "exact", "similarity": 1.0, "reason": "judge.exact", "explanation": "the same"},
            {"pair": "a z", "similarity": 0.93, "judge": "anthropic", "explanation": "nearly"},
            {"pair": "c d", "specifics_only_l": ["3"], "similarity": 0.99, "explanation": "a number"},
        ]
    )
    rows = {row["loser_id"]: row for row in plan_merges(found, table, policy().merge).iter_rows(named=True)}
    assert (rows["a"]["similarity"], rows["a"]["judge"], rows["a"]["explanation"]) == (0.93, "anthropic", "nearly")
    # b was never compared with z: the pair with its own text speaks for it.
    assert (rows["b"]["winner_id"], rows["b"]["similarity"], rows["b"]["reason"]) == ("z", 1.0, "judge.exact")
    assert (rows["d"]["merge_decision"], rows["d"]["explanation"]) == ("review", "a number")


def test_many_copies_of_one_text() -> None:
    ids = [f"e{n:05d}" for n in range(3000)]
    found = entries(*({"id": i, "pinned": i == ids[1500]} for i in ids))
    table = verdicts([{"pair": f"{ids[0]} {i}", "band": "exact"} for i in ids[1:]])
    merged, review = outcome(plan_merges(found, table, policy().merge))
    assert merged == {i: ids[1500] for i in ids if i != ids[1500]}
    assert review == {}


def test_the_longest_chain_of_merges_is_counted() -> None:
    none = plan_merges(entries({"id": "a"}), verdicts([]), policy().merge)
    assert longest_chain(entries({"id": "a"}), none) == 0
    found = entries(
        *({"id": letter} for letter in "aef"),
        {"id": "b", "state": "archived", "merged_into": "a"},
        {"id": "c", "state": "archived", "merged_into": "b"},
    )
    assert longest_chain(found, none) == 2
    # c went into b, b into a, and now a goes into e.
    merges = plan_merges(found, verdicts([{"pair": "a e", "band": "exact"}]), policy().merge)
    assert outcome(merges)[0] == {"e": "a"}
    assert longest_chain(found, merges) == 2
    pinned = found.with_columns(pinned=pl.col("entry_id") == "e")
    merges = plan_merges(pinned, verdicts([{"pair": "a e", "band": "exact"}]), policy().merge)
    assert outcome(merges)[0] == {"a": "e"}
    assert longest_chain(pinned, merges) == 3


def test_nothing_to_merge() -> None:
    assert plan_merges(entries({"id": "a"}), verdicts([]), policy().merge).is_empty()


ENTRY = st.fixed_dictionaries(
    {
        "pinned": st.booleans(),
        "review_state": st.sampled_from(["unreviewed", "approved", "rejected"]),
        "confidence": st.sampled_from([None, 0.0, 0.5, 0.5, 1.0]),
        "attempts": st.integers(0, 2),
        "retrievals": st.integers(0, 2),
        "created_at": st.sampled_from([None, days_ago(3), days_ago(3), days_ago(9)]),
    }
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ENTRY, min_size=1, max_size=8), st.permutations(ORDER[:-1]), st.randoms(use_true_random=False))
def test_the_winners_order_is_total(made: list[dict[str, Any]], order: list[str], random: Any) -> None:
    rules = policy(merge={"winner_order": [*order, "smaller_id"]}).merge
    found = entries(*({"id": f"e{n}"} | values for n, values in enumerate(made)))
    rank = dict(winner_rank(found, rules).iter_rows())
    assert sorted(rank.values()) == list(range(len(made)))  # nobody ties
    mixed = list(range(len(made)))
    random.shuffle(mixed)
    assert dict(winner_rank(found[mixed], rules).iter_rows()) == rank
    # Who stands before another in the whole stands before it in every part: so a cluster has one winner.
    for left, right in combinations(sorted(rank), 2):
        two = dict(winner_rank(found.filter(pl.col("entry_id").is_in([left, right])), rules).iter_rows())
        assert (two[left] < two[right]) == (rank[left] < rank[right])


PAIRS = list(combinations(LETTERS, 2))
GRAPH = st.lists(
    st.tuples(
        st.sampled_from(PAIRS),
        st.sampled_from(["MERGE", "MERGE", "MERGE", "KEEP_BOTH", "UNSURE"]),
        st.sampled_from([0.92, 0.93, 0.93, 0.99, None]),
        st.booleans(),
    ),
    max_size=15,
    unique_by=lambda row: row[0],
)


@settings(max_examples=80, deadline=None)
@given(GRAPH, st.lists(ENTRY, min_size=6, max_size=6), st.randoms(use_true_random=False))
def test_clusters_have_all_pairs_and_the_order_of_rows_is_irrelevant(
    graph: list[tuple[tuple[str, str], str, float | None, bool]], made: list[dict[str, Any]], random: Any
) -> None:
    found = entries(*({"id": letter} | values for letter, values in zip(LETTERS, made, strict=True)))
    rows = [
        {"pair": " ".join(pair), "verdict": verdict, "similarity": cosine, "specifics_only_l": ["3"] if differs else []}
        for pair, verdict, cosine, differs in graph
    ]
    merges = plan_merges(found, verdicts(rows), policy().merge)
    merged, review = outcome(merges)
    good = {pair for pair, verdict, _, differs in graph if verdict == "MERGE" and not differs}
    clusters: dict[str, set[str]] = {}
    for loser, winner in merged.items():
        clusters.setdefault(winner, {winner}).add(loser)
    rank = dict(winner_rank(found, policy().merge).iter_rows())
    for winner, members in clusters.items():
        assert winner not in merged  # a winner is never merged away
        assert set(combinations(sorted(members), 2)) <= good
        assert all(rank[winner] < rank[member] for member in members - {winner})
    assert len(merged) == sum(len(members) - 1 for members in clusters.values())
    # Every pair that a judge wants merged is either merged or asked about.
    wanted = {pair for pair, verdict, _, _ in graph if verdict == "MERGE"}
    inside = {pair for members in clusters.values() for pair in combinations(sorted(members), 2)}
    asked = {tuple(sorted(key.split("/"))) for key in review}
    assert wanted == inside | asked
    assert not inside & asked
    random.shuffle(rows)
    mixed = list(range(6))
    random.shuffle(mixed)
    assert plan_merges(found[mixed], verdicts(rows), policy().merge).equals(merges)


def test_every_triangle_of_verdicts() -> None:
    found = entries(*({"id": letter} for letter in "abc"))
    pairs = ["a b", "a c", "b c"]
    for kinds in set(permutations(["MERGE", "MERGE", "MERGE", "KEEP_BOTH", "CONFLICT", "UNSURE"], 3)):
        rows = [{"pair": pair, "verdict": kind} for pair, kind in zip(pairs, kinds, strict=True)]
        merged, _ = outcome(plan_merges(found, verdicts(rows), policy().merge))
        assert len(merged) == {3: 2, 2: 1, 1: 1, 0: 0}[kinds.count("MERGE")]
