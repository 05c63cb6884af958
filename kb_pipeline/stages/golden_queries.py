"""The golden-query probe (X7): how well the eligible view answers queries whose answers are known.

hit rate at k = share of the queries with an expected entry among the first k
MRR           = mean of 1 / rank of the first expected entry (0 when none was found)

An expected entry that was merged into another one is found when that other one is: what it says lives on there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class GoldenQuery:
    """A query and the entries that answer it, any of them."""

    query: str
    expected_ids: tuple[str, ...]


@dataclass(frozen=True)
class ProbeResult:
    """What the probe measured.

    Attributes:
        query_count: queries that were asked.
        within: k, the first so many answers count as a hit.
        hit_rate: 0-1 within the first k; None without queries.
        mrr: mean reciprocal rank, 0-1; None without queries.
        first_ranks: rank of the first expected entry of each query, from 1; None where none was found.
    """

    query_count: int
    within: int
    hit_rate: float | None
    mrr: float | None
    first_ranks: tuple[int | None, ...]

    def fall_since(self, before: ProbeResult) -> float:
        """How much the number that fell most fell since ``before``; 0 when neither did."""
        pairs = ((before.hit_rate, self.hit_rate), (before.mrr, self.mrr))
        return max([0.0, *(round(old - new, 9) for old, new in pairs if old is not None and new is not None)])

    def worse_since(self, before: ProbeResult) -> list[int]:
        """Queries, numbered from 1, whose answer stands later than in ``before``, or is gone."""
        last = float("inf")
        pairs = zip(before.first_ranks, self.first_ranks, strict=True)
        return [at for at, (old, new) in enumerate(pairs, start=1) if (new or last) > (old or last)]


def probe(
    queries: Sequence[GoldenQuery],
    search: Callable[[str], Sequence[str]],
    *,
    within: int,
    successors: Mapping[str, str] | None = None,
) -> ProbeResult:
    """Asks every query and measures.

    Args:
        queries: with at least one expected id each.
        search: the ids that answer a query, best first.
        within: k, the first so many answers count as a hit.
        successors: merged entry -> the entry it went into.
    """
    ranks: list[int | None] = []
    for golden in queries:
        expected = {last_of(entry, successors or {}) for entry in golden.expected_ids} | {*golden.expected_ids}
        ranks.append(next((at for at, found in enumerate(search(golden.query), start=1) if found in expected), None))
    if not ranks:
        return ProbeResult(0, within, None, None, ())
    hits = sum(rank is not None and rank <= within for rank in ranks)
    reciprocal = sum(1 / rank for rank in ranks if rank is not None)
    return ProbeResult(len(ranks), within, hits / len(ranks), reciprocal / len(ranks), tuple(ranks))


def last_of(entry_id: str, successors: Mapping[str, str]) -> str:
    """The entry that holds what ``entry_id`` said: itself, or the end of its chain of merges."""
    passed = {entry_id}
    while (following := successors.get(entry_id)) is not None and following not in passed:
        passed.add(following)
        entry_id = following
    return entry_id
