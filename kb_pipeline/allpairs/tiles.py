"""Tiles of the upper triangle: how N x N pairs are cut into tasks, screened cheaply and scored exactly.

Belongs here: tasks, screens in general, and the plain one. Does not belong here: how a screen bounds the cosine
(bound), the exact score (rows) and the threads (threads). Ledger K6.

A screen holds a matrix R and a limit t such that similarity(i, j) >= threshold  =>  R_i . R_j >= t.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_pipeline.allpairs.rows import ExactScorer, Float32s, Int64s, PairBlock, dot_margin, joined_block

TILE_ROWS = 512
TILE_COLUMNS = 1024
"""A tile of 4-byte products is 2 MiB: the scan still finds it in cache."""
GROUP_COLUMNS = 4 * TILE_COLUMNS
"""Columns of one task: bounds what a task returns when all rows are alike to 2 million pairs."""
DENSE_SHARE = 1 / 40
"""Share of a tile's pairs from which one product of the whole tile is cheaper than scoring them one by one."""
BATCHED_CANDIDATES = 4096
"""Candidates collected from several tiles before they are scored: fewer would be ruled by the cost of a call."""


class Task(NamedTuple):
    """Pairs (i, j) with i in the row range, j in the column range and i < j."""

    row_start: int
    row_stop: int
    column_start: int
    column_stop: int


def even_cuts(start: int, stop: int) -> Int64s:
    """Strip boundaries of one block of rows, ``TILE_ROWS`` apart: int64 [strips + 1]."""
    return np.append(np.arange(start, stop, TILE_ROWS, dtype=np.int64), np.int64(stop))


def aligned_cuts(start: int, stop: int, run_starts: Int64s) -> Int64s:
    """Like ``even_cuts``, but each boundary is one of ``run_starts``, so that no run of rows is split.

    Args:
        start: first row of the block.
        stop: row after its last.
        run_starts: ascending first rows of the runs in the block, ``start`` included.
    """
    edges = np.append(run_starts, np.int64(stop))
    cuts = [start]
    while cuts[-1] < stop:
        fitting = int(np.searchsorted(edges, cuts[-1] + TILE_ROWS, side="right")) - 1
        following = int(np.searchsorted(edges, cuts[-1], side="right"))
        cuts.append(int(edges[max(fitting, following)]))
    return np.asarray(cuts, np.int64)


def triangle_tasks(cuts: Int64s) -> Iterator[Task]:
    """Cuts the upper triangle over the strips ``cuts`` into tasks, strip by strip from the top.

    All pairs between two strips fall into one task, so what belongs to one pair of runs (``aligned_cuts``) stays
    together.
    """
    for strip in range(len(cuts) - 1):
        first = strip
        while first < len(cuts) - 1:
            last = int(np.searchsorted(cuts, cuts[first] + GROUP_COLUMNS, side="right")) - 1
            last = max(last, first + 1)
            yield Task(int(cuts[strip]), int(cuts[strip + 1]), int(cuts[first]), int(cuts[last]))
            first = last


def marked_positions(marks: npt.NDArray[np.bool_]) -> Int64s:
    """Ascending positions of the set elements of a flat mask whose length is a multiple of 8; fast when few are."""
    words = np.flatnonzero(np.not_equal(marks.view(np.uint64), 0))
    if len(words) > len(marks) // 256:
        return np.flatnonzero(marks)
    positions = (words[:, None] * 8 + np.arange(8)).reshape(-1)
    marked: Int64s = positions[marks[positions]]
    return marked


class Screen(ABC):
    """Marks, tile by tile, every pair that can reach the threshold, and possibly some that cannot."""

    loose = True
    """Whether most marked pairs may be expected to fail the exact score."""
    fixed_shape = False
    """Whether the product is always taken over whole tiles (kernels that are compiled for each shape)."""
    product_type: type[np.generic] = np.float32

    def __init__(self, row_count: int, limit: float) -> None:
        """A screen over ``row_count`` rows that marks products of ``limit`` and more."""
        self.row_count = row_count
        self.limit = limit
        self._local = threading.local()

    @abstractmethod
    def multiply(self, rows: slice, columns: slice, out: npt.NDArray[Any]) -> None:
        """Writes the products of the rows with the columns to ``out`` ([rows, columns], contiguous)."""

    def refine(self, i: Int64s, j: Int64s) -> tuple[Int64s, Int64s]:
        """The marked pairs without those that a second, sharper look rules out."""
        return i, j

    def tile(self, rows: slice, columns: slice) -> tuple[Int64s, Int64s]:
        """Marked (i, j) of one tile of at most ``TILE_ROWS`` x ``TILE_COLUMNS``, i < j, sorted."""
        if not hasattr(self._local, "products"):
            self._local.products = np.empty(TILE_ROWS * TILE_COLUMNS, self.product_type)
            self._local.marks = np.empty(TILE_ROWS * TILE_COLUMNS, bool)
        height, used = rows.stop - rows.start, columns.stop - columns.start
        full_height, width = height, used
        if self.fixed_shape:
            full_height = min(TILE_ROWS, self.row_count - rows.start)
            width = min(TILE_COLUMNS, self.row_count - columns.start)
        products = self._local.products[: full_height * width].reshape(full_height, width)
        self.multiply(
            slice(rows.start, rows.start + full_height), slice(columns.start, columns.start + width), products
        )
        padded = -(-height * width // 8) * 8
        flat = self._local.marks[:padded]
        flat[height * width :] = False
        marks = flat[: height * width].reshape(height, width)
        np.greater_equal(products[:height], self.limit, out=marks)
        marks[:, used:] = False
        positions = marked_positions(flat)
        i, j = np.divmod(positions, width)
        i += rows.start
        j += columns.start
        if rows.stop > columns.start:
            above = i < j
            i, j = i[above], j[above]
        return i, j


class PlainScreen(Screen):
    """The cosine itself in float32: the matrix is the vectors. Best for few rows."""

    loose = False

    def __init__(self, matrix: Float32s, limit: float) -> None:
        """Takes the rows to multiply and the least product to mark."""
        super().__init__(len(matrix), limit)
        self.matrix = matrix

    def multiply(self, rows: slice, columns: slice, out: npt.NDArray[Any]) -> None:
        """Multiplies in float32 with NumPy's BLAS."""
        np.matmul(self.matrix[rows], self.matrix[columns].T, out=out)


def plain_screen(vectors: Float32s, min_similarity: float) -> PlainScreen:
    """A screen that is as sharp as float32 allows and costs d multiplications a pair."""
    return PlainScreen(vectors, min_similarity - dot_margin(vectors.shape[1]) - 1e-7)


def scan(task: Task, screen: Screen, scorer: ExactScorer, owner: Int64s | None = None) -> PairBlock:
    """All pairs of one task that reach the threshold, sorted by (i, j).

    Args:
        task: what to look at.
        screen: finds the candidates.
        scorer: decides.
        owner: int64 [N] or None; pairs within one owner are left out.
    """
    parts: list[PairBlock] = []
    waiting: list[tuple[Int64s, Int64s]] = []
    waiting_count = 0

    def score_waiting() -> None:
        i, j = (np.concatenate(side) for side in zip(*waiting, strict=True))
        parts.append(scorer.keep(*screen.refine(i, j), loose=screen.loose))
        waiting.clear()

    for row in range(task.row_start, task.row_stop, TILE_ROWS):
        rows = slice(row, min(row + TILE_ROWS, task.row_stop))
        for column in range(task.column_start, task.column_stop, TILE_COLUMNS):
            columns = slice(column, min(column + TILE_COLUMNS, task.column_stop))
            if columns.stop <= row + 1:
                continue
            i, j = screen.tile(rows, columns)
            if owner is not None:
                foreign = owner[i] != owner[j]
                i, j = i[foreign], j[foreign]
            if len(i) > DENSE_SHARE * (rows.stop - rows.start) * (columns.stop - columns.start):
                if waiting:
                    score_waiting()
                    waiting_count = 0
                parts.append(scorer.tile(rows, columns, owner))
            elif len(i):
                waiting.append((i, j))
                waiting_count += len(i)
            if waiting_count >= BATCHED_CANDIDATES:
                score_waiting()
                waiting_count = 0
    if waiting:
        score_waiting()
    pairs = joined_block(parts)
    # Columns came in ascending order, so sorting by i alone, keeping ties in place, sorts by (i, j).
    return pairs.chosen(np.argsort(pairs.i, kind="stable"))
