"""Cosines of all pairs at or above a threshold, and nearest neighbours: exact, streamed, never N x N in memory.

Belongs here: the engines and the checks of their input. Does not belong here: tiles and the exact score
(tiles), the bound (bound), the approximate engine (approximate), pairs of entries rather than rows
(candidates). Ledger K4 (nearest neighbours) and K6 (all pairs).

Engines: ``bounded`` screens pairs by an upper bound of the cosine and scores what is left exactly; ``faiss_flat`` is
FAISS's exhaustive range search; ``faiss_ivf`` looks only within k-means lists and may miss pairs. All three report the
same float32 for the same pair.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kb_pipeline.allpairs.approximate import estimate_recall, listed_pairs
from kb_pipeline.allpairs.bound import bound_screen
from kb_pipeline.allpairs.rows import (
    ExactScorer,
    Float32s,
    Int64s,
    PairBlock,
    dot_margin,
    sorted_block,
    unit_rows,
)
from kb_pipeline.allpairs.threads import in_order, usable_threads
from kb_pipeline.allpairs.tiles import even_cuts, scan, triangle_tasks
from kb_pipeline.errors import UnknownNameError, VectorError

__all__ = ["ENGINES", "PairBlock", "all_pairs", "check_request", "estimate_recall", "nearest_neighbours"]

ENGINES = ("bounded", "faiss_flat", "faiss_ivf")
FLAT_QUERIES = 1024
"""Rows that FAISS searches at a time: bounds what one search can return."""


def check_request(where: str, min_similarity: float, engine: str) -> None:
    """Refuses an unknown engine and a threshold that is not from -1 to 1."""
    if engine not in ENGINES:
        raise UnknownNameError("pair engine", engine, ENGINES)
    if not -1 <= min_similarity <= 1:
        raise VectorError.threshold_out_of_range(where, min_similarity)


def all_pairs(
    vectors: Float32s, min_similarity: float, *, engine: str = "bounded", threads: int | None = None
) -> Iterator[PairBlock]:
    """Streams all pairs of rows whose cosine is at least ``min_similarity``.

    Args:
        vectors: float32 [N, d], unit rows; any N and d.
        min_similarity: from -1 to 1, inclusive, compared as float32.
        engine: ``bounded`` or ``faiss_flat`` (both exact), or ``faiss_ivf`` (approximate, see ``estimate_recall``).
        threads: worker threads; None takes all processors that the process may use.

    Returns:
        Blocks of pairs, each sorted by (i, j) and of at most about 2 million pairs (``faiss_flat``: what 1,024 rows
        have); each pair once. Blocks and floats are the same in each run, whatever the threads do. Until the iterator
        is exhausted or closed, BLAS in this process works with one thread.

    Raises:
        VectorError: vectors that are not unit rows, or a threshold out of range.
        UnknownNameError: an engine that does not exist.
    """
    check_request("all_pairs", min_similarity, engine)
    rows = unit_rows(vectors, "all_pairs")
    worker_count = usable_threads(threads)
    if engine == "faiss_flat":
        return _flat_pairs(rows, min_similarity, worker_count)
    if engine == "faiss_ivf":
        return listed_pairs(rows, min_similarity, worker_count)
    return _bounded_pairs(rows, min_similarity, worker_count)


def _bounded_pairs(vectors: Float32s, min_similarity: float, threads: int) -> Iterator[PairBlock]:
    row_count = len(vectors)
    if row_count < 2:
        return
    screen = bound_screen(vectors, min_similarity, row_count * (row_count - 1) // 2, threads)
    scorer = ExactScorer(vectors, min_similarity)
    tasks = triangle_tasks(even_cuts(0, row_count))
    for block in in_order(lambda task: scan(task, screen, scorer), tasks, threads):
        if len(block):
            yield block


def _flat_pairs(vectors: Float32s, min_similarity: float, threads: int) -> Iterator[PairBlock]:
    import faiss
    from threadpoolctl import threadpool_limits

    if len(vectors) < 2:
        return
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    scorer = ExactScorer(vectors, min_similarity)
    radius = min_similarity - 2 * dot_margin(vectors.shape[1])
    for start in range(0, len(vectors), FLAT_QUERIES):
        with threadpool_limits(threads):
            limits, _, found = index.range_search(vectors[start : start + FLAT_QUERIES], radius)
        i = np.repeat(np.arange(len(limits) - 1), np.diff(limits).astype(np.int64)) + start
        above = i < found
        block = sorted_block([scorer.keep(i[above], found[above].astype(np.int64), loose=False)])
        if len(block):
            yield block


def nearest_neighbours(queries: Float32s, base: Float32s, k: int = 1) -> tuple[Int64s, Float32s]:
    """The k most similar rows of ``base`` for each query, by exhaustive search.

    Args:
        queries: float32 [Q, d], unit rows.
        base: float32 [B, d], unit rows.
        k: how many neighbours, at least 1.

    Returns:
        Row numbers in ``base`` (int64 [Q, k]) and cosines (float32 [Q, k], the same floats that ``all_pairs`` gives),
        most similar first, the lower row number first among equals. Where ``base`` has fewer than k rows: -1 and -inf.

    Raises:
        VectorError: rows that are not unit rows, or queries and base of different width.
    """
    import faiss

    asked = unit_rows(queries, "nearest_neighbours, queries")
    stored = unit_rows(base, "nearest_neighbours, base")
    found = np.full((len(asked), k), -1, np.int64)
    similarity = np.full((len(asked), k), -np.inf, np.float32)
    reachable = min(k, len(stored))
    if reachable == 0 or len(asked) == 0:
        return found, similarity
    if asked.shape[1] != stored.shape[1]:
        raise VectorError.not_a_matrix("nearest_neighbours, queries against base", asked.shape, asked.dtype)
    index = faiss.IndexFlatIP(stored.shape[1])
    index.add(stored)
    _, near = index.search(asked, reachable)
    query = np.repeat(np.arange(len(asked)), reachable)
    scores = ExactScorer(asked, -1.0, stored).similarity(query, near.reshape(-1)).reshape(near.shape)
    order = np.lexsort((near, -scores), axis=1)
    found[:, :reachable] = np.take_along_axis(near, order, axis=1)
    similarity[:, :reachable] = np.take_along_axis(scores, order, axis=1)
    return found, similarity
