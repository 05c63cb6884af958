"""Duplicate candidates: best window pair of two owners, only within a block, the most similar under a cap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.allpairs.candidates import duplicate_candidates, owner_similarities
from kb_pipeline.errors import UnknownNameError, VectorError

Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def made_windows(owner_count: int, block_count: int, seed: int, width: int = 24, centre_count: int = 6) -> Arrays:
    """Windows of owners in blocks, in no order; owners of a block lie around a few centres."""
    rng = np.random.default_rng(seed)
    block_of = rng.integers(0, block_count, owner_count) * 10 - 5
    owner = np.repeat(rng.permutation(owner_count) * 3, rng.integers(1, 5, owner_count)).astype(np.int64)
    owner = owner[rng.permutation(len(owner))]
    centres = rng.standard_normal((centre_count, width))
    rows = centres[rng.integers(0, centre_count, len(owner))] + 0.35 * rng.standard_normal((len(owner), width))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), owner, block_of[owner // 3].astype(np.int64)


def brute_force(
    vectors: npt.NDArray[np.float32], owner: npt.NDArray[np.int64], block: npt.NDArray[np.int64]
) -> dict[tuple[int, int], float]:
    """Best cosine of each pair of owners in one block."""
    cosines = vectors.astype(np.float64) @ vectors.astype(np.float64).T
    best: dict[tuple[int, int], float] = {}
    for i in range(len(owner)):
        for j in range(len(owner)):
            if owner[i] < owner[j] and block[i] == block[j]:
                key = (int(owner[i]), int(owner[j]))
                best[key] = max(best.get(key, -2.0), float(cosines[i, j]))
    return best


def as_dict(frame: pl.DataFrame) -> dict[tuple[int, int], float]:
    assert frame.schema == {"l": pl.Int64, "r": pl.Int64, "similarity": pl.Float32}
    assert frame.sort("l", "r").equals(frame)
    pairs = {(left, right): similarity for left, right, similarity in frame.iter_rows()}
    assert len(pairs) == frame.height
    return pairs


@settings(max_examples=20, deadline=None)
@given(owner_count=st.integers(0, 60), block_count=st.integers(1, 8), seed=st.integers(0, 1000))
def test_the_best_window_pair_of_each_two_owners_in_a_block(owner_count: int, block_count: int, seed: int) -> None:
    vectors, owner, block = made_windows(owner_count, block_count, seed)
    found = duplicate_candidates(vectors, owner, block, 0.85)
    pairs = as_dict(found.frame)
    expected = brute_force(vectors, owner, block)
    surely = {key for key, value in expected.items() if value >= 0.85 + 2e-6}
    assert surely <= pairs.keys() <= {key for key, value in expected.items() if value >= 0.85 - 2e-6}
    for key, similarity in pairs.items():
        assert similarity == pytest.approx(expected[key], abs=2e-6)
    assert (found.found_count, found.dropped_count, found.recall) == (len(pairs), 0, None)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_rows_is_irrelevant(seed: int) -> None:
    vectors, owner, block = made_windows(120, 3, seed)
    order = np.random.default_rng(seed).permutation(len(owner))
    shuffled = duplicate_candidates(vectors[order], owner[order], block[order], 0.8).frame
    assert shuffled.equals(duplicate_candidates(vectors, owner, block, 0.8).frame)


def test_blocks_never_meet() -> None:
    vectors = np.tile(np.array([[1, 0, 0]], np.float32), (6, 1))
    owner = np.arange(6)
    apart = duplicate_candidates(vectors, owner, np.array([0, 0, 1, 1, 2, 3]), 0.85)
    assert as_dict(apart.frame) == {(0, 1): 1.0, (2, 3): 1.0}
    together = duplicate_candidates(vectors, owner, np.zeros(6, np.int64), 0.85)
    assert together.found_count == 15


def test_windows_of_one_owner_are_no_pair() -> None:
    vectors = np.tile(np.array([[0, 1]], np.float32), (5, 1))
    alone = duplicate_candidates(vectors, np.zeros(5, np.int64), np.zeros(5, np.int64), 0.85)
    assert alone.frame.is_empty()
    two = duplicate_candidates(vectors, np.array([7, 7, 3, 7, 3]), np.zeros(5, np.int64), 0.85)
    assert as_dict(two.frame) == {(3, 7): 1.0}


@pytest.mark.parametrize("engine", ["bounded", "faiss_flat"])
def test_blocks_of_every_size_with_owners_across_tile_edges(engine: str) -> None:
    """One block for each way of searching; long owners straddle every multiple of a tile if tiles let them."""
    rng = np.random.default_rng(11)
    sizes = {1: 5600, 2: 900, 3: 31, 4: 1}
    block = np.repeat(list(sizes), list(sizes.values())).astype(np.int64)
    owner = np.cumsum((rng.random(len(block)) < 0.2) | (np.diff(block, prepend=0) > 0), dtype=np.int64)
    centres = rng.standard_normal((900, 40))
    rows = centres[rng.integers(0, 900, len(block))] + 0.25 * rng.standard_normal((len(block), 40))
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    found = duplicate_candidates(vectors, owner, block, 0.85, engine=engine)
    pairs = as_dict(found.frame)
    assert found.found_count == len(pairs) > 1000

    cosines = vectors @ vectors.T
    i, j = np.nonzero(cosines >= 0.85)
    wanted = (owner[i] < owner[j]) & (block[i] == block[j])
    keys = owner[i[wanted]].astype(np.int64) * 100_000 + owner[j[wanted]]
    expected = np.unique(keys)
    got = np.array(sorted(left * 100_000 + right for left, right in pairs))
    assert len(np.setxor1d(expected, got)) <= 2, "only pairs at the threshold may differ from float32"


def test_an_owner_with_more_windows_than_a_tile_has_rows() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((1500, 16))
    rows[1499] = rows[700]
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    owner = np.array([1] * 1400 + [2] * 99 + [3])
    found = duplicate_candidates(vectors, owner, np.zeros(1500, np.int64), 0.99)
    assert as_dict(found.frame) == {(1, 3): 1.0}


@pytest.mark.parametrize("cap", [0, 1, 7, 200])
def test_a_cap_keeps_the_most_similar_and_counts_the_rest(cap: int) -> None:
    vectors, owner, block = made_windows(150, 2, 4)
    everything = duplicate_candidates(vectors, owner, block, 0.8)
    capped = duplicate_candidates(vectors, owner, block, 0.8, max_pairs=cap)
    assert everything.found_count > 200
    best = everything.frame.sort(["similarity", "l", "r"], descending=[True, False, False]).head(cap).sort("l", "r")
    assert capped.frame.equals(best)
    assert capped.found_count == everything.found_count
    assert capped.dropped_count == everything.found_count - cap


@pytest.mark.parametrize("spread", [0.2, 0.0], ids=["all_different", "all_equal"])
def test_a_cap_holds_while_more_pairs_stream_by_than_are_held_at_once(spread: float) -> None:
    rng = np.random.default_rng(6)
    noise = np.ones((1300, 8)) + spread * rng.standard_normal((1300, 8))
    vectors = (noise / np.linalg.norm(noise, axis=1, keepdims=True)).astype(np.float32)
    owner, block = rng.permutation(1300), np.zeros(1300, np.int64)
    everything = duplicate_candidates(vectors, owner, block, 0.5)
    assert everything.found_count == 1300 * 1299 // 2
    capped = duplicate_candidates(vectors, owner, block, 0.5, max_pairs=1000)
    assert (capped.found_count, capped.dropped_count) == (everything.found_count, everything.found_count - 1000)
    assert capped.frame.equals(
        everything.frame.sort(["similarity", "l", "r"], descending=[True, False, False]).head(1000).sort("l", "r")
    )


def test_large_blocks_may_be_searched_approximately_and_recall_is_measured() -> None:
    vectors, owner, block = made_windows(2600, 1, 8, width=48, centre_count=600)
    small_vectors, small_owner, small_block = made_windows(40, 1, 9, width=48)
    vectors = np.concatenate([vectors, small_vectors])
    owner = np.concatenate([owner, small_owner + 100_000])
    block = np.concatenate([block, small_block + 1])
    exact = as_dict(duplicate_candidates(vectors, owner, block, 0.85).frame)
    found = duplicate_candidates(vectors, owner, block, 0.85, engine="faiss_ivf", approximate_above=5000)
    approximate = as_dict(found.frame)
    assert found.recall is not None
    assert 0.8 < found.recall <= 1.0
    assert len(approximate) / len(exact) == pytest.approx(found.recall, abs=0.1)
    assert approximate.keys() <= exact.keys()
    assert {pair for pair in exact if pair[0] >= 100_000} <= approximate.keys()
    unlimited = duplicate_candidates(vectors, owner, block, 0.85, engine="faiss_ivf")
    assert unlimited.frame.equals(found.frame)
    below_the_limit = duplicate_candidates(vectors, owner, block, 0.85, engine="faiss_ivf", approximate_above=10**6)
    assert below_the_limit.recall is None
    assert as_dict(below_the_limit.frame) == exact


def test_an_owner_in_two_blocks_and_wrong_lengths_are_refused() -> None:
    vectors = np.eye(3, dtype=np.float32)
    with pytest.raises(VectorError, match="owner 5 has windows in more than one block"):
        duplicate_candidates(vectors, np.array([5, 4, 5]), np.array([0, 0, 1]), 0.85)
    with pytest.raises(VectorError, match="there are 3 vectors, but owner has 2, block has 3"):
        duplicate_candidates(vectors, np.array([5, 4]), np.array([0, 0, 1]), 0.85)
    with pytest.raises(VectorError, match="row 1 has length 2"):
        duplicate_candidates(vectors * np.array([[1], [2], [1]], np.float32), np.arange(3), np.zeros(3, int), 0.85)
    with pytest.raises(UnknownNameError, match="pair engine"):
        duplicate_candidates(vectors, np.arange(3), np.zeros(3, np.int64), 0.85, engine="annoy")


@settings(max_examples=20, deadline=None)
@given(owner_count=st.integers(2, 40), seed=st.integers(0, 1000))
def test_the_best_windows_of_given_owners(owner_count: int, seed: int) -> None:
    vectors, owner, _ = made_windows(owner_count, 1, seed)
    order = np.argsort(owner, kind="stable")
    vectors, owner = vectors[order], owner[order]
    expected = brute_force(vectors, owner, np.zeros(len(owner), np.int64))
    asked = np.random.default_rng(seed).integers(0, owner_count + 1, (60, 2)) * 3
    found = owner_similarities(vectors, owner, asked[:, 0], asked[:, 1])
    for (left, right), similarity in zip(asked.tolist(), found.tolist(), strict=True):
        if left == right:
            assert np.isnan(similarity) == (left not in owner)
        else:
            wanted = expected.get((min(left, right), max(left, right)))
            assert np.isnan(similarity) if wanted is None else similarity == pytest.approx(wanted, abs=2e-6)


def test_the_best_windows_of_many_owners_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, owner, _ = made_windows(30, 1, 3)
    order = np.argsort(owner, kind="stable")
    pairs = np.array([(left * 3, right * 3) for left in range(30) for right in range(left)], np.int64)
    whole = owner_similarities(vectors[order], owner[order], pairs[:, 0], pairs[:, 1])
    monkeypatch.setattr("kb_pipeline.allpairs.candidates.LISTED_PAIRS", 5)
    assert np.array_equal(owner_similarities(vectors[order], owner[order], pairs[:, 0], pairs[:, 1]), whole)
    assert not len(owner_similarities(vectors[order], owner[order], pairs[:0, 0], pairs[:0, 1]))
