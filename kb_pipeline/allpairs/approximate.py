"""All pairs, approximately: rows are compared only within k-means lists, and what that misses is measured.

Belongs here: the lists and the estimate of recall. Does not belong here: the exact engines (pairs). Ledger K6.

Each row stands in its ``LISTS_A_ROW`` nearest lists; two rows meet iff they share one. A pair that shares several is
reported by the first, so each pair comes once. The similarities are exact; only the set of pairs may lack some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kb_pipeline.allpairs.rows import (
    ExactScorer,
    Float32s,
    Int64s,
    PairBlock,
    dot_margin,
    sorted_block,
    unit_rows,
)
from kb_pipeline.allpairs.threads import in_order
from kb_pipeline.allpairs.tiles import TILE_COLUMNS, Task, even_cuts, triangle_tasks

LISTS_A_ROW = 4
ROWS_A_LIST = 500
"""Rows for each k-means centre; a list then holds about four times as many."""
TRAINING_ROWS_A_LIST = 64
KMEANS_ROUNDS = 10
KMEANS_SEED = 1
SEARCHED_ROWS = 256
"""Sampled rows whose pairs are searched at a time."""


class ListTask(NamedTuple):
    """Part of one list: the pairs of some of its members with some of the others."""

    number: int
    task: Task


class RecallCounts(NamedTuple):
    """What a sample says of a set of pairs: how many true pairs it touches, and how many of these were found."""

    true_count: int
    found_count: int


def nearest_lists(vectors: Float32s, threads: int) -> Int64s:
    """The lists that each row stands in: int64 [N, up to 4], ascending in each row; the same for the same input."""
    import faiss
    from threadpoolctl import threadpool_limits

    list_count = max(1, len(vectors) // ROWS_A_LIST)
    if list_count == 1:
        return np.zeros((len(vectors), 1), np.int64)
    with threadpool_limits(threads):
        centres = faiss.Kmeans(
            vectors.shape[1],
            list_count,
            niter=KMEANS_ROUNDS,
            spherical=True,
            max_points_per_centroid=TRAINING_ROWS_A_LIST,
            seed=KMEANS_SEED,
        )
        centres.train(vectors)
        _, lists = centres.index.search(vectors, min(LISTS_A_ROW, list_count))
    return np.sort(lists, axis=1).astype(np.int64)


def listed_pairs(
    vectors: Float32s, min_similarity: float, threads: int, owner: Int64s | None = None
) -> Iterator[PairBlock]:
    """Streams the pairs at or above ``min_similarity`` that share a k-means list, each once.

    Args:
        vectors: float32 [N, d], unit rows.
        min_similarity: the threshold.
        threads: worker threads.
        owner: int64 [N] or None; pairs within one owner are left out.

    Returns:
        Blocks sorted by (i, j); list after list, so the stream as a whole is not sorted.
    """
    if len(vectors) < 2:
        return
    lists = nearest_lists(vectors, threads)
    by_list = np.argsort(lists.reshape(-1), kind="stable")
    members = by_list // lists.shape[1]
    edges = np.searchsorted(lists.reshape(-1)[by_list], np.arange(int(lists.max()) + 2))
    scorer = ExactScorer(vectors, min_similarity)
    limit = np.float32(scorer.surely_below)

    def tasks() -> Iterator[ListTask]:
        for number in range(len(edges) - 1):
            for task in triangle_tasks(even_cuts(int(edges[number]), int(edges[number + 1]))):
                yield ListTask(number, task)

    def search(list_task: ListTask) -> PairBlock:
        number, task = list_task
        parts: list[PairBlock] = []
        rows = members[task.row_start : task.row_stop]
        left = vectors[rows]
        for start in range(task.column_start, task.column_stop, TILE_COLUMNS):
            columns = members[start : min(start + TILE_COLUMNS, task.column_stop)]
            row, column = np.nonzero(left @ vectors[columns].T >= limit)
            i, j = rows[row], columns[column]
            wanted = i < j
            if owner is not None:
                wanted &= owner[i] != owner[j]
            i, j = i[wanted], j[wanted]
            shared = np.where((lists[i][:, :, None] == lists[j][:, None, :]).any(axis=2), lists[i], len(edges))
            first = shared.min(axis=1, initial=len(edges)) == number
            parts.append(scorer.keep(i[first], j[first], loose=False))
        return sorted_block(parts)

    for block in in_order(search, tasks(), threads):
        if len(block):
            yield block


def recall_counts(
    vectors: Float32s,
    pairs: Iterable[PairBlock],
    min_similarity: float,
    sample_rows: int,
    seed: int,
    owner: Int64s | None = None,
) -> RecallCounts:
    """Counts the true pairs that touch a sample of rows, and those of them that ``pairs`` holds.

    Args:
        vectors: float32 [N, d], unit rows.
        pairs: what was found.
        min_similarity: the threshold it was found with.
        sample_rows: how many rows to compare with all others.
        seed: of the sample.
        owner: int64 [N] or None; pairs within one owner do not count.
    """
    import faiss

    row_count = len(vectors)
    sample = np.sort(np.random.default_rng(seed).choice(row_count, min(sample_rows, row_count), replace=False))
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    scorer = ExactScorer(vectors, min_similarity)
    true_keys = [np.empty(0, np.int64)]
    for start in range(0, len(sample), SEARCHED_ROWS):
        asked = sample[start : start + SEARCHED_ROWS]
        limits, _, near = index.range_search(vectors[asked], min_similarity - 2 * dot_margin(vectors.shape[1]))
        one, other = np.repeat(asked, np.diff(limits).astype(np.int64)), near.astype(np.int64)
        wanted = one != other
        if owner is not None:
            wanted &= owner[one] != owner[other]
        i, j = np.minimum(one, other)[wanted], np.maximum(one, other)[wanted]
        kept = scorer.keep(i, j, loose=False)
        true_keys.append(kept.i * row_count + kept.j)
    true = np.unique(np.concatenate(true_keys))
    found = np.zeros(len(true), bool)
    for block in pairs:
        found |= np.isin(true, block.i * row_count + block.j)
    return RecallCounts(len(true), int(np.count_nonzero(found)))


def estimate_recall(
    vectors: Float32s, pairs: Iterable[PairBlock], min_similarity: float, sample_rows: int, seed: int
) -> float:
    """The share of the true pairs touching a sample of rows that ``pairs`` holds, from 0 to 1; 1 if there are none.

    Args:
        vectors: float32 [N, d], unit rows: those that were searched.
        pairs: the blocks that the search returned.
        min_similarity: the threshold it was given.
        sample_rows: how many rows are compared with all others, exactly.
        seed: of the sample; the same seed gives the same estimate.

    Raises:
        VectorError: vectors that are not unit rows.
    """
    counts = recall_counts(unit_rows(vectors, "estimate_recall"), pairs, min_similarity, sample_rows, seed)
    return counts.found_count / counts.true_count if counts.true_count else 1.0
