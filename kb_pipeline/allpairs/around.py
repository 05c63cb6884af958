"""Pairs around some owners: each of a few against all others of its block; work grows with the few, not with the square.

Belongs here: the search for what is near to recent rows, by cosine and by words. Does not belong here: which rows are
recent, bands and verdicts. The similarity of a pair is the one that the search for all pairs reports. Ledger K6, P2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kb_pipeline.allpairs.candidates import best_of_owners
from kb_pipeline.allpairs.rows import (
    ExactScorer,
    Float32s,
    Int64s,
    PairBlock,
    dot_margin,
    joined_block,
    sorted_block,
    unit_rows,
)
from kb_pipeline.errors import VectorError

_ROWS_AT_ONCE = 256


def pairs_around(vectors: Float32s, owner: Int64s, block: Int64s, around: Int64s, min_similarity: float) -> PairBlock:
    """Pairs of owners of one block, one of them in ``around``, with a window pair of cosine ``min_similarity`` or more.

    Args:
        vectors: float32 [N, d], unit rows; one row a window.
        owner: int64 [N], whose window it is; all windows of one owner stand in one block.
        block: int64 [N]; rows of different blocks never meet.
        around: int64 [A], owners; those without a row find nothing.
        min_similarity: from -1 to 1, inclusive.

    Returns:
        Pairs (i < j) of owners, sorted, each once, with their best cosine.

    Raises:
        VectorError: rows that are not unit rows, or lengths that differ.
    """
    where = "pairs_around"
    if len(owner) != len(vectors) or len(block) != len(vectors):
        raise VectorError.lengths_differ(where, len(vectors), {"owner": len(owner), "block": len(block)})
    rows = unit_rows(vectors, where)
    asking = np.flatnonzero(np.isin(owner, around))
    asking = asking[np.argsort(block[asking], kind="stable")]
    scorer = ExactScorer(rows, min_similarity)
    limit = np.float32(min_similarity - dot_margin(rows.shape[1]) - 1e-7)
    parts = []
    for number in np.unique(block[asking]):
        others = np.flatnonzero(block == number)
        mine = asking[block[asking] == number]
        columns = rows[others].T
        for start in range(0, len(mine), _ROWS_AT_ONCE):
            some = mine[start : start + _ROWS_AT_ONCE]
            i, j = np.nonzero(rows[some] @ columns >= limit)
            i, j = some[i], others[j]
            foreign = owner[i] != owner[j]
            kept = scorer.keep(i[foreign], j[foreign], loose=False)
            is_turned = owner[kept.i] > owner[kept.j]
            turned = PairBlock(
                np.where(is_turned, kept.j, kept.i), np.where(is_turned, kept.i, kept.j), kept.similarity
            )
            parts.append(best_of_owners(turned, owner, one_row_each=False))
    return _each_once(parts)


def words_around(
    rows: Any, block: Int64s, around: Int64s, neighbour_count: int, min_similarity: float, group: Int64s
) -> PairBlock:
    """Pairs of rows of one block: each row of ``around`` with its most similar ones, and with those of its group.

    Args:
        rows: CSR matrix [N, words] of unit rows (or empty ones), see ``words.word_rows``.
        block: int64 [N]; rows of different blocks never meet.
        around: int64 [A], rows.
        neighbour_count: how many rows each may find; of equally similar ones those with the lower number.
        min_similarity: above 0 up to 1, inclusive: less similar rows are not found.
        group: int64 [N]; rows of one group (0 or more) find each other at any similarity above 0; -1: no group.

    Returns:
        Pairs (i < j), sorted, each once.

    Raises:
        VectorError: lengths that differ, or a floor out of range.
    """
    where = "words_around"
    if len(block) != rows.shape[0] or len(group) != rows.shape[0]:
        raise VectorError.lengths_differ(where, rows.shape[0], {"block": len(block), "group": len(group)})
    if not 0 < min_similarity <= 1:
        raise VectorError.threshold_out_of_range(where, min_similarity)
    columns = rows.T.tocsr()
    asking = np.unique(around)
    parts = []
    for start in range(0, len(asking), _ROWS_AT_ONCE):
        some = asking[start : start + _ROWS_AT_ONCE]
        products = (rows[some] @ columns).tocsr()
        row = some[np.repeat(np.arange(len(some)), np.diff(products.indptr))]
        other = products.indices.astype(np.int64)
        similarity = np.minimum(products.data, 1.0).astype(np.float32)
        met = (row != other) & (block[row] == block[other]) & (similarity > 0)
        row, other, similarity = row[met], other[met], similarity[met]
        order = np.lexsort((other, -similarity, row))
        row, other, similarity = row[order], other[order], similarity[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        is_near = (rank < neighbour_count) & (similarity >= np.float32(min_similarity))
        kept = is_near | ((group[row] >= 0) & (group[row] == group[other]))
        one, two = row[kept], other[kept]
        parts.append(PairBlock(np.minimum(one, two), np.maximum(one, two), similarity[kept]))
    return _each_once(parts)


def _each_once(parts: list[PairBlock]) -> PairBlock:
    """The pairs of several blocks, sorted, each once."""
    pairs = sorted_block(parts) if parts else joined_block([])
    first = np.ones(len(pairs), bool)
    first[1:] = (pairs.i[1:] != pairs.i[:-1]) | (pairs.j[1:] != pairs.j[:-1])
    return pairs.chosen(first)
