"""Duplicate candidates: pairs of entries, found through the windows of their texts, never across blocks.

Belongs here: from rows (windows) to owners (entries), blocks of all sizes, the cap on what is kept. Does not belong
here: engines (pairs), bands and verdicts. Ledger K6.

similarity(A, B) = the best cosine of any window of A with any window of B. Blocks never meet, so they are searched one
by one: small ones by listing their pairs, middling ones in plain tiles, large ones by the engine asked for. Rows are
cut into tiles where an owner ends, so all windows of two owners come back together and memory stays bounded while
every pair of owners is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from kb_pipeline.allpairs.approximate import RecallCounts, listed_pairs, recall_counts
from kb_pipeline.allpairs.bound import FEWEST_ROWS, bound_screen
from kb_pipeline.allpairs.pairs import all_pairs, check_request
from kb_pipeline.allpairs.rows import (
    ExactScorer,
    Float32s,
    Int64s,
    PairBlock,
    joined_block,
    sorted_block,
    unit_rows,
)
from kb_pipeline.allpairs.threads import in_order, usable_threads
from kb_pipeline.allpairs.tiles import Screen, Task, aligned_cuts, plain_screen, scan, triangle_tasks
from kb_pipeline.errors import VectorError

LARGEST_LISTED_BLOCK = 32
"""Blocks up to this many rows: all their pairs are listed and scored, many blocks at a time."""
LISTED_PAIRS = 500_000
RECALL_SAMPLE_ROWS = 500
RECALL_SEED = 7


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pairs of owners at or above the threshold.

    Attributes:
        frame: l (Int64, smaller owner), r (Int64, larger owner), similarity (Float32); sorted by (l, r).
        found_count: pairs of owners found.
        dropped_count: how many of them the cap left out, the least similar first.
        recall: share of the true window pairs found, estimated on a sample (1 if the sample has none); None if every
            block was searched exactly.
    """

    frame: pl.DataFrame
    found_count: int
    dropped_count: int
    recall: float | None


class _MostSimilar:
    """Keeps the most similar pairs of owners that come by, at most ``cap``; equal ones by (l, r)."""

    def __init__(self, cap: int | None) -> None:
        self.cap = cap
        self.found_count = 0
        self._parts: list[PairBlock] = []
        self._held_count = 0
        self._last: tuple[np.float32, np.int64, np.int64] | None = None

    def add(self, pairs: PairBlock) -> None:
        self.found_count += len(pairs)
        if self._last is not None:
            least, left, right = self._last
            earlier = (pairs.i < left) | ((pairs.i == left) & (pairs.j < right))
            pairs = pairs.chosen((pairs.similarity > least) | ((pairs.similarity == least) & earlier))
        self._parts.append(pairs)
        self._held_count += len(pairs)
        if self.cap is not None and self._held_count > 2 * self.cap + LISTED_PAIRS:
            self._parts = [self._cut(joined_block(self._parts), self.cap)]
            self._held_count = self.cap

    def _cut(self, held: PairBlock, cap: int) -> PairBlock:
        """The best ``cap`` of more pairs than that; remembers the last of them."""
        if cap == 0:
            return joined_block([])
        least = np.partition(held.similarity, len(held) - cap)[len(held) - cap]
        above = np.flatnonzero(held.similarity > least)
        equal = np.flatnonzero(held.similarity == least)
        equal = equal[np.lexsort((held.j[equal], held.i[equal]))][: cap - len(above)]
        self._last = (least, held.i[equal[-1]], held.j[equal[-1]])
        return held.chosen(np.concatenate([above, equal]))

    def kept(self) -> PairBlock:
        """What is held now, cut to the cap, sorted by (l, r)."""
        held = joined_block(self._parts)
        if self.cap is not None and len(held) > self.cap:
            held = self._cut(held, self.cap)
        return sorted_block([held])


def owner_similarities(vectors: Float32s, owner: Int64s, left: Int64s, right: Int64s) -> Float32s:
    """The best cosine of any two windows of each pair of owners: float32 [P], NaN where one of them has no window.

    Args:
        vectors: float32 [N, d], unit rows.
        owner: int64 [N], ascending.
        left: int64 [P], owners on one side.
        right: int64 [P], owners on the other side.
    """
    first_left, first_right = np.searchsorted(owner, left), np.searchsorted(owner, right)
    right_counts = np.searchsorted(owner, right, "right") - first_right
    window_pairs = (np.searchsorted(owner, left, "right") - first_left) * right_counts
    best = np.full(len(left), np.nan, np.float32)
    seen = np.flatnonzero(window_pairs)
    ends = np.cumsum(window_pairs[seen])
    scorer = ExactScorer(vectors, -1.0)
    start = 0
    while start < len(seen):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + LISTED_PAIRS, "right")))
        chosen = seen[start:stop]
        starts = np.append(before, ends[start : stop - 1]) - before
        pair = np.repeat(chosen, window_pairs[chosen])
        place = np.arange(len(pair)) - np.repeat(starts, window_pairs[chosen])
        found = scorer.similarity(
            first_left[pair] + place // right_counts[pair], first_right[pair] + place % right_counts[pair]
        )
        best[chosen] = np.maximum.reduceat(found, starts)
        start = stop
    return best


def best_of_owners(pairs: PairBlock, owner: Int64s, *, one_row_each: bool) -> PairBlock:
    """The most similar pair of rows for each pair of owners.

    Args:
        pairs: pairs of rows, with owner[i] < owner[j].
        owner: int64 [N].
        one_row_each: whether no owner has two rows, so that there is nothing to choose.

    Returns:
        Owners in place of rows, each pair of them once.
    """
    entries = PairBlock(owner[pairs.i], owner[pairs.j], pairs.similarity)
    if one_row_each:
        return entries
    entries = entries.chosen(np.lexsort((-entries.similarity, entries.j, entries.i)))
    first = np.ones(len(entries), bool)
    first[1:] = (entries.i[1:] != entries.i[:-1]) | (entries.j[1:] != entries.j[:-1])
    return entries.chosen(first)


def duplicate_candidates(
    vectors: Float32s,
    owner: Int64s,
    block: Int64s,
    min_similarity: float,
    *,
    engine: str = "bounded",
    approximate_above: int | None = None,
    max_pairs: int | None = None,
    threads: int | None = None,
) -> Candidates:
    """Pairs of owners in the same block with a window pair of cosine ``min_similarity`` or more.

    Args:
        vectors: float32 [N, d], unit rows; one row a window. Rows sorted by (block, owner) spare a copy.
        owner: int64 [N], whose window it is; all windows of one owner stand in one block.
        block: int64 [N]; rows of different blocks never meet.
        min_similarity: from -1 to 1, inclusive.
        engine: for blocks of ``FEWEST_ROWS`` rows and more: ``bounded`` (exact, memory bounded), ``faiss_flat``
            (exact) or ``faiss_ivf`` (approximate); the latter two hold all pairs of a block at once.
        approximate_above: ``faiss_ivf`` leaves blocks of up to so many rows to ``bounded``; None: no further limit.
        max_pairs: keeps the most similar pairs of owners, at most so many; None: all.
        threads: worker threads; None takes all processors that the process may use.

    Raises:
        VectorError: rows that are not unit rows, lengths that differ, an owner in two blocks.
        UnknownNameError: an engine that does not exist.
    """
    where = "duplicate_candidates"
    check_request(where, min_similarity, engine)
    if len(owner) != len(vectors) or len(block) != len(vectors):
        raise VectorError.lengths_differ(where, len(vectors), {"owner": len(owner), "block": len(block)})
    rows = unit_rows(vectors, where)
    order = np.lexsort((owner, block))
    if np.any(order[1:] < order[:-1]):
        rows, owner, block = rows[order], owner[order], block[order]
    runs = _run_starts(owner, block)
    _check_owners(where, owner[runs])
    search = _BlockSearch(rows, owner, runs, min_similarity, usable_threads(threads))
    collected = _MostSimilar(max_pairs)
    recalls: list[RecallCounts] = []

    starts = np.flatnonzero(np.append(True, block[1:] != block[:-1])[: len(block)])
    spans = np.column_stack([starts, np.append(starts, len(rows))[1 : len(starts) + 1]])
    sizes = spans[:, 1] - spans[:, 0]
    for pairs in search.listed(spans[sizes <= LARGEST_LISTED_BLOCK]):
        collected.add(pairs)
    for pairs in search.tiled(spans[(sizes > LARGEST_LISTED_BLOCK) & (sizes < FEWEST_ROWS)]):
        collected.add(pairs)
    for start, stop in spans[sizes >= FEWEST_ROWS].tolist():
        if engine == "faiss_ivf" and (approximate_above is None or stop - start > approximate_above):
            pairs, counts = search.approximate(start, stop)
            collected.add(pairs)
            recalls.append(counts)
        elif engine == "faiss_flat":
            collected.add(search.flat(start, stop))
        else:
            for pairs in search.bounded(start, stop):
                collected.add(pairs)

    kept = collected.kept()
    frame = pl.DataFrame({"l": kept.i, "r": kept.j, "similarity": kept.similarity})
    return Candidates(frame, collected.found_count, collected.found_count - len(kept), _recall(recalls))


def _recall(counts: list[RecallCounts]) -> float | None:
    if not counts:
        return None
    true_count = sum(count.true_count for count in counts)
    return sum(count.found_count for count in counts) / true_count if true_count else 1.0


def _run_starts(owner: Int64s, block: Int64s) -> Int64s:
    """First rows of the runs of one owner in one block."""
    changes = (owner[1:] != owner[:-1]) | (block[1:] != block[:-1])
    return np.flatnonzero(np.append(True, changes)[: len(owner)])


def _check_owners(where: str, owner_of_runs: Int64s) -> None:
    owners, run_counts = np.unique(owner_of_runs, return_counts=True)
    split = owners[run_counts > 1]
    if len(split):
        raise VectorError.owner_in_two_blocks(where, int(split[0]))


class _BlockSearch:
    """The ways to search blocks of rows that are sorted by (block, owner)."""

    def __init__(self, rows: Float32s, owner: Int64s, runs: Int64s, min_similarity: float, threads: int) -> None:
        self.rows = rows
        self.owner = owner
        self.runs = runs
        self.min_similarity = min_similarity
        self.threads = threads
        self.scorer = ExactScorer(rows, min_similarity)
        self.one_row_each = len(runs) == len(rows)

    def _best(self, pairs: PairBlock, owner: Int64s) -> PairBlock:
        return best_of_owners(pairs, owner, one_row_each=self.one_row_each)

    def listed(self, spans: Int64s) -> Iterator[PairBlock]:
        """Small blocks: all pairs of many blocks of one size at a time."""

        def score(starts_and_size: tuple[Int64s, int]) -> PairBlock:
            starts, size = starts_and_size
            upper_i, upper_j = np.triu_indices(size, 1)
            i = (starts[:, None] + upper_i).reshape(-1)
            j = (starts[:, None] + upper_j).reshape(-1)
            foreign = self.owner[i] != self.owner[j]
            return self._best(self.scorer.keep(i[foreign], j[foreign], loose=True), self.owner)

        def batches() -> Iterator[tuple[Int64s, int]]:
            sizes = spans[:, 1] - spans[:, 0]
            for size in range(2, LARGEST_LISTED_BLOCK + 1):
                starts = spans[sizes == size, 0]
                step = LISTED_PAIRS // (size * size)
                for first in range(0, len(starts), step):
                    yield starts[first : first + step], size

        return in_order(score, batches(), self.threads)

    def _scanned(self, tasks: Iterator[Task], screen: Screen, scorer: ExactScorer, first: int) -> Iterator[PairBlock]:
        owner = self.owner[first : first + len(scorer.matrix)]

        def search(task: Task) -> PairBlock:
            return self._best(scan(task, screen, scorer, owner), owner)

        return in_order(search, tasks, self.threads)

    def tiled(self, spans: Int64s) -> Iterator[PairBlock]:
        """Middling blocks: plain tiles over all of them, on one pool."""
        tasks = (task for start, stop in spans.tolist() for task in triangle_tasks(self._cuts(start, stop, 0)))
        return self._scanned(tasks, plain_screen(self.rows, self.min_similarity), self.scorer, 0)

    def bounded(self, start: int, stop: int) -> Iterator[PairBlock]:
        """One large block by the exact bound."""
        rows = self.rows[start:stop]
        size = stop - start
        screen = bound_screen(rows, self.min_similarity, size * (size - 1) // 2, self.threads)
        tasks = triangle_tasks(self._cuts(start, stop, start))
        return self._scanned(tasks, screen, ExactScorer(rows, self.min_similarity), start)

    def _cuts(self, start: int, stop: int, first: int) -> Int64s:
        """Boundaries of the strips of rows start … stop, counted from row ``first``."""
        inside = self.runs[np.searchsorted(self.runs, start) : np.searchsorted(self.runs, stop)]
        return aligned_cuts(start - first, stop - first, inside - first)

    def flat(self, start: int, stop: int) -> PairBlock:
        """One large block by FAISS's exhaustive search."""
        owner = self.owner[start:stop]
        parts = []
        for pairs in all_pairs(self.rows[start:stop], self.min_similarity, engine="faiss_flat", threads=self.threads):
            foreign = owner[pairs.i] != owner[pairs.j]
            parts.append(pairs.chosen(foreign))
        return self._best(joined_block(parts), owner)

    def approximate(self, start: int, stop: int) -> tuple[PairBlock, RecallCounts]:
        """One large block within k-means lists, and what a sample says of its recall."""
        rows, owner = self.rows[start:stop], self.owner[start:stop]
        parts = list(listed_pairs(rows, self.min_similarity, self.threads, owner))
        counts = recall_counts(rows, parts, self.min_similarity, RECALL_SAMPLE_ROWS, RECALL_SEED, owner)
        return self._best(joined_block(parts), owner), counts
