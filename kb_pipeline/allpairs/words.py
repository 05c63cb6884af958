"""Nearest neighbours by shared words: exact, block by block, never N x N in memory.

Belongs here: sparse rows of word weights, and each row's most similar rows. Does not belong here: what a word is and
which pairs are wanted (stages). Ledger K6.

similarity(i, j) = the dot product of two unit rows of non-negative weights: 1 for the same words, 0 for none in
common. Most products of two rows come from a few words that half of all texts have, and these weigh little. So in a
large block the ``COMMON_WORDS`` most frequent ones stand apart, in a dense matrix U; the rest is L:

    x . y  =  L_x . L_y + U_x . U_y  <=  L_x . L_y + |U_x| |U_y|

Only pairs with L_x . L_y >= floor - |U_x| |U_y| are looked at again. A pair without a rarer word in common can reach the
floor only if |U_x| and |U_y| both do; these few rows are compared in U alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from kb_pipeline.allpairs.rows import GATHERED_NUMBERS, Int64s, PairBlock, joined_block, sorted_block
from kb_pipeline.allpairs.threads import in_order, usable_threads
from kb_pipeline.errors import VectorError

Float64s = npt.NDArray[np.float64]

COMMON_WORDS = 32
"""Words of a large block that are kept apart."""
FEWEST_ROWS = 2000
"""Blocks below it are multiplied as they are."""
JOINED_ROWS = 512
"""Small blocks are multiplied together up to so many rows, and what lies between two of them is left out."""
TASK_PRODUCTS = 3_000_000
"""Products of two weights in one task: bounds what it holds to about 200 MB."""
TASK_ROWS = 512
_MARGIN = 1e-9
"""More than the rounding error of a float64 dot product of two unit rows of some ten thousand words."""
_SHORT_MARGIN = 1e-4
"""More than that of a float32 dot product over the common words."""


class Neighbours(NamedTuple):
    """Found pairs of one span, from the view of their first row: ``row`` finds ``other`` (int64) at ``similarity``."""

    row: Int64s
    other: Int64s
    similarity: Float64s


def word_rows(row: Int64s, word: Int64s, weight: Float64s, row_count: int) -> Any:
    """Unit rows of word weights: a float64 CSR matrix [row_count, words]; a row without words stays empty.

    Args:
        row: int64 [P], from 0 to ``row_count`` - 1.
        word: int64 [P], number of the word, from 0; each (row, word) once.
        weight: float64 [P], above 0.
        row_count: how many rows there are.
    """
    word_count = int(word.max()) + 1 if len(word) else 1
    squares = np.bincount(row, weight * weight, minlength=row_count)
    order = np.lexsort((word, row))
    return sparse.csr_array(
        (
            (weight / np.sqrt(squares[row]))[order],
            word[order].astype(np.int32 if word_count < 2**31 else np.int64),
            np.concatenate([[0], np.cumsum(np.bincount(row, minlength=row_count))]),
        ),
        shape=(row_count, word_count),
    )


def word_neighbours(
    rows: Any, block: Int64s, neighbour_count: int, min_similarity: float, *, threads: int | None = None
) -> PairBlock:
    """Pairs of rows of one block of which one is among the most similar of the other, sorted by (i, j), each once.

    Args:
        rows: CSR matrix [N, words] of unit rows (or empty ones), see ``word_rows``.
        block: int64 [N]; rows of different blocks never meet.
        neighbour_count: how many rows each row may find; of equally similar ones those with the lower number.
        min_similarity: above 0 up to 1, inclusive: less similar rows are never found.
        threads: worker threads; None takes all processors that the process may use.

    Raises:
        VectorError: lengths that differ, or a floor out of range.
    """
    where = "word_neighbours"
    if len(block) != rows.shape[0]:
        raise VectorError.lengths_differ(where, rows.shape[0], {"block": len(block)})
    if not 0 < min_similarity <= 1:
        raise VectorError.threshold_out_of_range(where, min_similarity)
    if neighbour_count < 1:
        return joined_block([])
    worker_count = usable_threads(threads)
    order = np.lexsort((np.arange(len(block)), block))
    parts = []
    for start, stop in _spans(block[order]):
        numbers = order[start:stop]
        span = _Span(rows[numbers], block[numbers], neighbour_count, min_similarity)
        for found in in_order(span.search, span.tasks(), worker_count if stop - start > TASK_ROWS else 1):
            one, other = numbers[found.row], numbers[found.other]
            parts.append(PairBlock(np.minimum(one, other), np.maximum(one, other), found.similarity.astype(np.float32)))
    pairs = sorted_block(parts)
    first = np.ones(len(pairs), bool)
    first[1:] = (pairs.i[1:] != pairs.i[:-1]) | (pairs.j[1:] != pairs.j[:-1])
    return pairs.chosen(first)


def _spans(block: Int64s) -> Iterator[tuple[int, int]]:
    """Ranges of rows that are multiplied together: large blocks alone, small neighbouring ones joined.

    Args:
        block: int64 [N], ascending.
    """
    if not len(block):
        return
    edges = np.flatnonzero(np.concatenate([[True], block[1:] != block[:-1], [True]])).tolist()
    start = 0
    for end, following in zip(edges[1:], [*edges[2:], None], strict=True):
        if following is None or following - start > JOINED_ROWS:
            yield start, end
            start = end


class _Span:
    """Blocks of rows that are searched together."""

    def __init__(self, rows: Any, block: Int64s, neighbour_count: int, min_similarity: float) -> None:
        self.block = block
        self.neighbour_count = neighbour_count
        self.min_similarity = min_similarity
        self.row_count = rows.shape[0]
        self.one_block = bool((block == block[:1]).all())
        self.common = np.zeros((self.row_count, 0))
        self.rare = rows
        if self.row_count >= FEWEST_ROWS:
            frequency = np.bincount(rows.indices, minlength=rows.shape[1])
            common = np.sort(np.argsort(-frequency, kind="stable")[:COMMON_WORDS])
            self.common = rows[:, common].toarray()
            place = np.isin(rows.indices, common)
            lengths = np.concatenate([[0], np.cumsum(~place)])[rows.indptr]
            self.rare = sparse.csr_array((rows.data[~place], rows.indices[~place], lengths), shape=rows.shape)
        self.short = self.common.astype(np.float32)
        self.common_norms = np.sqrt(np.einsum("ij,ij->i", self.common, self.common))
        self.commonplace = np.flatnonzero(self.common_norms >= min_similarity - _MARGIN)
        self.columns = self.rare.T.tocsr()

    def tasks(self) -> Iterator[slice]:
        """Ranges of rows whose products with all rows fit into memory together."""
        frequency = np.diff(self.columns.indptr)
        work = np.concatenate([[0], np.cumsum(frequency[self.rare.indices])])[self.rare.indptr]
        start = 0
        while start < self.row_count:
            stop = int(np.searchsorted(work, work[start] + TASK_PRODUCTS, side="right")) - 1
            stop = min(max(stop, start + 1), start + TASK_ROWS, self.row_count)
            yield slice(start, stop)
            start = stop

    def search(self, task: slice) -> Neighbours:
        """The nearest rows of some rows."""
        products = self.rare[task] @ self.columns
        row = np.repeat(np.arange(task.start, task.stop), np.diff(products.indptr))
        other = products.indices.astype(np.int64)
        norms = self.common_norms
        kept = products.data >= self.min_similarity - _MARGIN - norms[row] * norms[other]
        found = [self._whole(row[kept], other[kept], products.data[kept]), *self._of_common_words(task)]
        row, other, similarity = (np.concatenate(column) for column in zip(*found, strict=True))
        # Float32 is what a pair reports: rows that differ in less than that are equally near.
        similarity = similarity.astype(np.float32).astype(np.float64)
        kept = (similarity >= np.float32(self.min_similarity)) & (row != other)
        if not self.one_block:
            kept &= self.block[row] == self.block[other]
        return self._nearest(row[kept], other[kept], similarity[kept])

    def _whole(self, row: Int64s, other: Int64s, rare: Float64s) -> Neighbours:
        """Adds the products of the common words."""
        similarity = rare.copy()
        size = max(16, GATHERED_NUMBERS // max(1, self.common.shape[1]))
        if self.common.shape[1]:
            for start in range(0, len(row), size):
                place = slice(start, start + size)
                similarity[place] += np.vecdot(self.common[row[place]], self.common[other[place]])
        return Neighbours(row, other, np.minimum(similarity, 1.0))

    def _of_common_words(self, task: slice) -> Iterator[Neighbours]:
        """Pairs whose common words alone reach the floor; what they share beside these is added where they share it."""
        first, last = np.searchsorted(self.commonplace, [task.start, task.stop])
        mine = self.commonplace[first:last]
        if not len(mine):
            return
        for start in range(0, len(self.commonplace), 4096):
            others = self.commonplace[start : start + 4096]
            near = self.short[mine] @ self.short[others].T >= self.min_similarity - _SHORT_MARGIN
            i, j = np.divmod(np.flatnonzero(near), len(others))
            yield self._whole(mine[i], others[j], np.zeros(len(i)))

    def _nearest(self, row: Int64s, other: Int64s, similarity: Float64s) -> Neighbours:
        """The most similar ones of each row; a pair that was found in both ways counts once, at its whole similarity."""
        order = np.lexsort((-similarity, other, row))
        row, other, similarity = row[order], other[order], similarity[order]
        first = np.ones(len(row), bool)
        first[1:] = (row[1:] != row[:-1]) | (other[1:] != other[:-1])
        row, other, similarity = row[first], other[first], similarity[first]
        order = np.lexsort((other, -similarity, row))
        row, other, similarity = row[order], other[order], similarity[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        kept = rank < self.neighbour_count
        return Neighbours(row[kept], other[kept], similarity[kept])
