"""Nearest neighbours by shared words: exact against brute force, never across blocks, the same in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.allpairs import words
from kb_pipeline.allpairs.words import word_neighbours, word_rows
from kb_pipeline.errors import VectorError

Int64s = npt.NDArray[np.int64]


def made_rows(row_count: int, seed: int, word_count: int = 300) -> Any:
    """Unit rows whose words follow Zipf's law: a few stand in most rows; some rows are empty, some equal."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, word_count + 1) ** 0.9
    held = rng.random((row_count, word_count)) < np.minimum(0.7, 2.5 * chance)
    held[rng.random(row_count) < 0.05] = False
    if row_count > 4:
        held[rng.integers(0, row_count, row_count // 4)] = held[rng.integers(0, row_count, row_count // 4)]
    row, word = np.nonzero(held)
    weight = np.log((1 + row_count) / (1 + held.sum(axis=0))) + 1
    shuffled = rng.permutation(len(row))
    return word_rows(row[shuffled], word[shuffled], weight[word[shuffled]], row_count)


def brute_force(rows: Any, block: Int64s, neighbour_count: int, floor: float) -> dict[tuple[int, int], float]:
    """The nearest of each row from a full matrix, ties by row number."""
    dense = rows.toarray()
    cosines = np.minimum(dense @ dense.T, 1).astype(np.float32)
    found = {}
    for i in range(len(block)):
        near = [j for j in range(len(block)) if j != i and block[i] == block[j] and cosines[i, j] >= np.float32(floor)]
        for j in sorted(near, key=lambda j: (-cosines[i, j], j))[:neighbour_count]:
            found[min(i, j), max(i, j)] = float(cosines[i, j])
    return found


def as_dict(pairs: words.PairBlock) -> dict[tuple[int, int], float]:
    keys = list(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))
    assert keys == sorted(set(keys)) and all(i < j for i, j in keys)
    return dict(zip(keys, pairs.similarity.tolist(), strict=True))


def same(found: dict[tuple[int, int], float], expected: dict[tuple[int, int], float], floor: float) -> None:
    """Equal, but for what lies within the rounding of the last digit of the floor or of a neighbour."""
    differing = found.keys() ^ expected.keys()
    assert len(differing) <= max(1, len(expected) // 200), differing
    for key in found.keys() & expected.keys():
        assert found[key] == pytest.approx(expected[key], abs=1e-6)
    assert all(value >= np.float32(floor) for value in found.values())


@settings(max_examples=40, deadline=None)
@given(
    row_count=st.integers(0, 70),
    block_count=st.integers(1, 6),
    neighbour_count=st.integers(1, 4),
    floor=st.sampled_from([0.1, 0.35, 0.6, 1.0]),
    seed=st.integers(0, 1000),
)
def test_the_nearest_of_each_row_within_its_block(
    row_count: int, block_count: int, neighbour_count: int, floor: float, seed: int
) -> None:
    rows = made_rows(row_count, seed)
    block = np.random.default_rng(seed).integers(-2, block_count - 2, row_count)
    same(
        as_dict(word_neighbours(rows, block, neighbour_count, floor)),
        brute_force(rows, block, neighbour_count, floor),
        floor,
    )


@pytest.mark.parametrize("common_words", [0, 3, 40, 300])
@pytest.mark.parametrize("floor", [0.15, 0.35, 0.7])
def test_keeping_common_words_apart_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, common_words: int, floor: float
) -> None:
    rows, block = made_rows(400, 5), np.zeros(400, np.int64)
    plain = word_neighbours(rows, block, 2, floor)
    monkeypatch.setattr(words, "FEWEST_ROWS", 1)
    monkeypatch.setattr(words, "COMMON_WORDS", common_words)
    monkeypatch.setattr(words, "TASK_PRODUCTS", 5_000)
    apart = word_neighbours(rows, block, 2, floor)
    same(as_dict(apart), as_dict(plain), floor)
    same(as_dict(apart), brute_force(rows, block, 2, floor), floor)
    assert len(plain) > 50


def test_a_large_block_is_searched_exactly() -> None:
    rows = made_rows(words.FEWEST_ROWS + 300, 8, word_count=1500)
    dense = rows.toarray()
    cosines = (dense @ dense.T).astype(np.float32)
    np.fill_diagonal(cosines, -1)
    found = as_dict(word_neighbours(rows, np.zeros(len(dense), np.int64), 2, 0.35))
    second = np.sort(cosines, axis=1)[:, -2]
    surely = np.argwhere((cosines > second[:, None] + 1e-6) & (cosines >= 0.35 + 1e-6))
    assert {(min(i, j), max(i, j)) for i, j in surely.tolist()} <= found.keys()
    assert len(found) > 300
    for (i, j), similarity in found.items():
        assert similarity == pytest.approx(cosines[i, j], abs=1e-6)
        assert cosines[i, j] >= min(second[i], second[j]) - 1e-6


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_order_of_rows_and_number_of_threads_are_irrelevant(seed: int) -> None:
    rows = made_rows(150, seed)
    rng = np.random.default_rng(seed)
    block = rng.integers(0, 3, 150)
    # Equal rows are told apart by their number, which another order changes: only the others are compared.
    _, groups, sizes = np.unique(rows.toarray().round(9), axis=0, return_inverse=True, return_counts=True)
    single = np.flatnonzero(sizes[groups] == 1)
    rows, block = rows[single], block[single]
    order = rng.permutation(len(single))
    found = as_dict(word_neighbours(rows, block, 2, 0.3, threads=1))
    assert found == as_dict(word_neighbours(rows, block, 2, 0.3, threads=3))
    moved = as_dict(word_neighbours(rows[order], block[order], 2, 0.3))
    back = {(min(order[i], order[j]), max(order[i], order[j])): value for (i, j), value in moved.items()}
    same(back, found, 0.3)


def test_blocks_never_meet_however_they_are_joined() -> None:
    """Equal rows, in blocks of one, of two, and of more rows than are multiplied together."""
    sizes = [1, 2, 1, words.JOINED_ROWS + 5, 2, 1]
    block = np.repeat(np.arange(len(sizes)), sizes)
    count = len(block)
    rows = word_rows(np.arange(count), np.zeros(count, np.int64), np.ones(count), count)
    shuffled = np.random.default_rng(1).permutation(count)
    pairs = word_neighbours(rows, block[shuffled], 3, 0.5)
    assert (block[shuffled][pairs.i] == block[shuffled][pairs.j]).all()
    assert set(block[shuffled][pairs.i].tolist()) == {1, 3, 4}
    together = word_neighbours(rows, np.zeros(count, np.int64), 3, 0.5)
    assert len(together) == 3 * (count - 4) + 6


def test_equal_neighbours_are_taken_by_number_and_each_row_has_its_say() -> None:
    rows = word_rows(np.arange(5), np.zeros(5, np.int64), np.ones(5), 5)
    assert as_dict(word_neighbours(rows, np.zeros(5, np.int64), 1, 1.0)) == {
        (0, 1): 1.0, (0, 2): 1.0, (0, 3): 1.0, (0, 4): 1.0,
    }  # fmt: skip


def test_the_floor_is_inclusive() -> None:
    rows = word_rows(np.array([0, 1, 1, 1, 1]), np.array([0, 0, 1, 2, 3]), np.ones(5), 2)
    assert as_dict(word_neighbours(rows, np.zeros(2, np.int64), 1, 0.5)) == {(0, 1): 0.5}
    assert not len(word_neighbours(rows, np.zeros(2, np.int64), 1, 0.5001))


def test_nothing_comes_of_nothing() -> None:
    nothing = np.empty(0, np.int64)
    for row_count in (0, 3):
        rows = word_rows(nothing, nothing, np.empty(0), row_count)
        assert not len(word_neighbours(rows, np.zeros(row_count, np.int64), 2, 0.3))
    assert not len(word_neighbours(made_rows(20, 1), np.zeros(20, np.int64), 0, 0.3))


def test_what_cannot_be_asked_is_refused() -> None:
    rows = made_rows(4, 1)
    with pytest.raises(VectorError, match="there are 4 vectors, but block has 3"):
        word_neighbours(rows, np.zeros(3, np.int64), 2, 0.3)
    for floor in (0.0, -0.1, 1.01, float("nan")):
        with pytest.raises(VectorError, match="word_neighbours"):
            word_neighbours(rows, np.zeros(4, np.int64), 2, floor)
