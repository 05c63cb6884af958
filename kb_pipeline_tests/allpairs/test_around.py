"""Pairs around some owners: those that the whole search finds, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from kb_pipeline.allpairs.around import pairs_around, words_around
from kb_pipeline.allpairs.candidates import duplicate_candidates
from kb_pipeline.allpairs.words import word_neighbours, word_rows
from kb_pipeline.errors import VectorError


def rows(seed: int, owners: int = 300, blocks: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(40, 16))
    owner = np.sort(draw.integers(0, owners, 2 * owners))
    vectors = centres[draw.integers(0, 40, len(owner))] + 0.4 * draw.normal(size=(len(owner), 16))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return vectors, owner, (owner * 7) % blocks


@pytest.mark.parametrize("seed", range(4))
def test_they_are_the_part_of_all_pairs_that_touches_them(seed: int) -> None:
    vectors, owner, block = rows(seed)
    whole = duplicate_candidates(vectors, owner, block, 0.85).frame
    around = np.array([3, 4, 17, 120, 299, 999], dtype=np.int64)
    expected = [row for row in whole.rows() if row[0] in around or row[1] in around]
    found = pairs_around(vectors, owner, block, around, 0.85)
    assert list(zip(found.i.tolist(), found.j.tolist(), found.similarity.tolist(), strict=True)) == expected
    assert 0 < len(expected) < whole.height


def test_nobody_asks_and_nothing_is_found() -> None:
    vectors, owner, block = rows(1)
    assert len(pairs_around(vectors, owner, block, np.empty(0, np.int64), 0.85)) == 0
    with pytest.raises(VectorError):
        pairs_around(vectors, owner[:-1], block, np.array([1]), 0.85)


def words(seed: int, count: int = 80) -> tuple[object, np.ndarray]:
    draw = np.random.default_rng(seed)
    row, word = np.nonzero(draw.random((count, 60)) < 0.1)
    weight = draw.random(60)[word] + 0.1
    return word_rows(row, word, weight, count), np.arange(count) % 3


def test_a_row_finds_the_neighbours_that_it_finds_in_the_whole_search() -> None:
    matrix, block = words(5)
    around = np.array([7, 40, 3], dtype=np.int64)
    nobody = np.full(len(block), -1, dtype=np.int64)
    found = words_around(matrix, block, around, 2, 0.2, nobody)
    pairs = set(zip(found.i.tolist(), found.j.tolist(), strict=True))
    whole = word_neighbours(matrix, block, 2, 0.2)
    of_whole = {
        (i, j): s for i, j, s in zip(whole.i.tolist(), whole.j.tolist(), whole.similarity.tolist(), strict=True)
    }
    assert pairs and pairs <= of_whole.keys()
    assert [
        of_whole[pair] for pair in zip(found.i.tolist(), found.j.tolist(), strict=True)
    ] == found.similarity.tolist()
    dense = matrix.toarray() @ matrix.toarray().T  # type: ignore[attr-defined]
    for one in around.tolist():
        near = [
            j
            for j in np.argsort(-dense[one], kind="stable")
            if j != one and block[j] == block[one] and dense[one, j] >= 0.2
        ]
        assert {tuple(sorted((one, int(j)))) for j in near[:2]} <= pairs


def test_rows_of_one_group_find_each_other_below_the_floor() -> None:
    matrix, block = words(6)
    dense = matrix.toarray() @ matrix.toarray().T  # type: ignore[attr-defined]
    one, other = next(
        (i, j) for i, j in zip(*np.nonzero((dense > 0) & (dense < 0.15)), strict=True) if block[i] == block[j]
    )
    group = np.full(len(block), -1, dtype=np.int64)
    group[[one, other]] = 0

    def pairs(group: np.ndarray) -> set[tuple[int, int]]:
        found = words_around(matrix, block, np.array([one]), 1, 0.99, group)
        return set(zip(found.i.tolist(), found.j.tolist(), strict=True))

    assert pairs(group) == {tuple(sorted((one, other)))}
    assert pairs(np.full(len(block), -1, dtype=np.int64)) == set()
