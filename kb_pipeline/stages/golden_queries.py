"""The golden-query probe (X7): how well the eligible view answers queries whose answers are known.

hit rate at k = share of the queries with an expected entry among the first k
MRR           = mean of 1 / rank of the first expected entry (0 when none was found)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

HITS_WITHIN = 10
MAX_LOSS = 0.01
"""Neither number may fall by more than this from before a run to after it (X7)."""


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
        hit_rate: 0-1 at ``HITS_WITHIN``; None without queries.
        mrr: mean reciprocal rank, 0-1; None without queries.
        first_ranks: rank of the first expected entry of each query, from 1; None where none was found.
    """

    query_count: int
    hit_rate: float | None
    mrr: float | None
    first_ranks: tuple[int | None, ...]

    def is_worse_than(self, before: ProbeResult) -> bool:
        """Whether one of the numbers fell by more than ``MAX_LOSS`` since ``before``."""
        pairs = ((before.hit_rate, self.hit_rate), (before.mrr, self.mrr))
        return any(old is not None and new is not None and round(old - new, 9) > MAX_LOSS for old, new in pairs)


def probe(queries: Sequence[GoldenQuery], search: Callable[[str], Sequence[str]]) -> ProbeResult:
    """Asks every query and measures.

    Args:
        queries: with at least one expected id each.
        search: the ids that answer a query, best first.
    """
    ranks: list[int | None] = []
    for golden in queries:
        expected = set(golden.expected_ids)
        ranks.append(next((at for at, found in enumerate(search(golden.query), start=1) if found in expected), None))
    if not ranks:
        return ProbeResult(0, None, None, ())
    hits = sum(rank is not None and rank <= HITS_WITHIN for rank in ranks)
    reciprocal = sum(1 / rank for rank in ranks if rank is not None)
    return ProbeResult(len(ranks), hits / len(ranks), reciprocal / len(ranks), tuple(ranks))
