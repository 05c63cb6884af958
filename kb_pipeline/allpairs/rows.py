"""Rows of a matrix: checked once, and compared pair by pair with the one definition of similarity.

Belongs here: what a pair is, the exact score of single pairs and the margins of float32. Does not belong here: which
pairs to look at (tiles). Ledger K6.

similarity(i, j) = the dot product summed in float64 and rounded to float32, within [-1, 1]. It depends neither on the
engine that found the pair nor on the machine's BLAS. A pair belongs to a result iff similarity >= float32(threshold).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kb_pipeline.errors import VectorError

Float32s = npt.NDArray[np.float32]
Int64s = npt.NDArray[np.int64]

GATHERED_NUMBERS = 98_304
"""Numbers that are gathered at a time on each side of single pairs: more would leave the cache."""
NORM_TOLERANCE = 1e-3
CHECKED_ROWS = 4096


@dataclass(frozen=True, slots=True)
class PairBlock:
    """Some pairs of rows: ``i`` < ``j`` (int64 [P]) and ``similarity`` (float32 [P], from -1 to 1)."""

    i: Int64s
    j: Int64s
    similarity: Float32s

    def __len__(self) -> int:
        """The number of pairs in the block."""
        return len(self.i)

    def chosen(self, which: npt.NDArray[Any]) -> PairBlock:
        """The pairs that a mask or an index array ``which`` selects."""
        return PairBlock(self.i[which], self.j[which], self.similarity[which])


def unit_rows(vectors: Float32s, where: str) -> Float32s:
    """The vectors as a contiguous matrix, after checking that every row is finite and of length 1 within 0.001.

    Args:
        vectors: float32 [N, d].
        where: what asks, for the error.

    Raises:
        VectorError: not a float32 matrix, or a row that is not a unit row.
    """
    if vectors.ndim != 2 or vectors.dtype != np.float32:
        raise VectorError.not_a_matrix(where, vectors.shape, vectors.dtype)
    rows = np.ascontiguousarray(vectors)
    for start in range(0, len(rows), CHECKED_ROWS):
        part = rows[start : start + CHECKED_ROWS]
        norms = np.sqrt(np.einsum("ij,ij->i", part, part))
        wrong = np.flatnonzero(~(np.abs(norms - 1) <= NORM_TOLERANCE))
        if len(wrong):
            raise VectorError.not_unit(where, start + int(wrong[0]), float(norms[wrong[0]]))
    return rows


def dot_margin(dimension_count: int) -> float:
    """An upper bound of the rounding error of a float32 dot product of two unit rows, whatever the order of sums."""
    return (dimension_count + 8) * 2.0**-23


class GatheredDot:
    """Float32 dot products of single pairs of rows, a few at a time in buffers of each thread's own.

    Args:
        matrix: float32 [N, d].
        other: float32 [M, d] that the second row of a pair is taken from; None: the same matrix.
    """

    def __init__(self, matrix: Float32s, other: Float32s | None = None) -> None:
        """Takes the rows; buffers are made by each thread that asks."""
        self.matrix = matrix
        self.other = matrix if other is None else other
        self.pairs_at_once = max(16, GATHERED_NUMBERS // max(1, matrix.shape[1]))
        self._local = threading.local()

    def _buffers(self) -> tuple[Float32s, Float32s]:
        if not hasattr(self._local, "buffers"):
            self._local.buffers = tuple(np.empty((2, self.pairs_at_once, self.matrix.shape[1]), np.float32))
        left, right = self._local.buffers
        return left, right

    def gathered(self, i: Int64s, j: Int64s) -> Iterator[tuple[slice, Float32s, Float32s]]:
        """Rows i and rows j, some pairs at a time, with their place; the buffers are used again."""
        left, right = self._buffers()
        for start in range(0, len(i), self.pairs_at_once):
            place = slice(start, min(start + self.pairs_at_once, len(i)))
            size = place.stop - start
            np.take(self.matrix, i[place], axis=0, out=left[:size], mode="clip")
            np.take(self.other, j[place], axis=0, out=right[:size], mode="clip")
            yield place, left[:size], right[:size]

    def reaching(self, i: Int64s, j: Int64s, limit: float) -> tuple[Int64s, Int64s]:
        """The pairs whose product is at least ``limit``, in the order given."""
        reached = np.empty(len(i), bool)
        for place, left, right in self.gathered(i, j):
            np.greater_equal(np.vecdot(left, right), np.float32(limit), out=reached[place])
        return i[reached], j[reached]


class ExactScorer(GatheredDot):
    """The similarity that is reported, and the decision whether a pair reaches the threshold. Threads may share it.

    Args:
        matrix: float32 [N, d], unit rows.
        min_similarity: pairs at or above it are kept.
        other: float32 [M, d], unit rows that the second row of a pair is taken from; None: the same matrix.
    """

    def __init__(self, matrix: Float32s, min_similarity: float, other: Float32s | None = None) -> None:
        """Takes the rows and the threshold."""
        super().__init__(matrix, other)
        self.threshold = np.float32(min_similarity)
        self.surely_below = min_similarity - dot_margin(matrix.shape[1]) - 1e-7

    def similarity(self, i: Int64s, j: Int64s) -> Float32s:
        """Similarity of the pairs (i, j): float32 [P] from -1 to 1."""
        result = np.empty(len(i), np.float32)
        for place, left, right in self.gathered(i, j):
            result[place] = np.vecdot(left.astype(np.float64), right.astype(np.float64))
        return np.clip(result, np.float32(-1), np.float32(1), out=result)

    def keep(self, i: Int64s, j: Int64s, *, loose: bool) -> PairBlock:
        """The pairs that reach the threshold, in the order given.

        Args:
            i: int64 [P].
            j: int64 [P].
            loose: most of the pairs are expected to fail, so a float32 pass goes first.
        """
        if loose:
            i, j = self.reaching(i, j, self.surely_below)
        similarity = self.similarity(i, j)
        kept = similarity >= self.threshold
        return PairBlock(i[kept], j[kept], similarity[kept])

    def tile(self, rows: slice, columns: slice, owner: Int64s | None = None) -> PairBlock:
        """All pairs i < j of a tile that reach the threshold, sorted by (i, j): better where most of them do.

        Args:
            rows: range of i.
            columns: range of j.
            owner: int64 [N] or None; pairs within one owner are left out.
        """
        left, right = self.matrix[rows].astype(np.float64), self.other[columns].astype(np.float64)
        similarity = (left @ right.T).astype(np.float32)
        reached = similarity >= self.threshold
        if owner is not None:
            reached &= owner[rows][:, None] != owner[columns]
        i, j = np.nonzero(np.triu(reached, rows.start + 1 - columns.start))
        block = PairBlock(i + rows.start, j + columns.start, similarity[i, j])
        np.clip(block.similarity, np.float32(-1), np.float32(1), out=block.similarity)
        return block


def joined_block(parts: list[PairBlock]) -> PairBlock:
    """One block of the pairs of several, in the order given."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return PairBlock(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    return PairBlock(
        np.concatenate([part.i for part in parts]),
        np.concatenate([part.j for part in parts]),
        np.concatenate([part.similarity for part in parts]),
    )


def sorted_block(parts: list[PairBlock]) -> PairBlock:
    """One block of the pairs of several, sorted by (i, j)."""
    pairs = joined_block(parts)
    return pairs.chosen(np.lexsort((pairs.j, pairs.i)))
