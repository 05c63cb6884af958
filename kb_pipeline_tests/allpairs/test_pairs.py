"""All pairs and nearest neighbours: every exact engine gives the pairs of brute force, whatever the data look like."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.allpairs.bound import (
    Layout,
    bound_screen,
    eigenbasis,
    integers_multiply_well,
    layout_basis,
    layout_screen,
    rotation_margin,
    shorten,
    whole_numbers,
)
from kb_pipeline.allpairs.pairs import ENGINES, all_pairs, estimate_recall, nearest_neighbours
from kb_pipeline.allpairs.rows import ExactScorer, PairBlock, sorted_block
from kb_pipeline.allpairs.tiles import even_cuts, scan, triangle_tasks
from kb_pipeline.errors import UnknownNameError, VectorError

EDGE = 2e-6
"""Pairs this close to the threshold may fall on either side in float32."""
SHAPES = ("noise", "clones", "clusters", "low_rank", "one_direction")


def unit(rows: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    scaled: npt.NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def made_rows(shape: str, count: int, width: int, seed: int) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((count, width))
    if shape == "noise":
        return unit(noise)
    if shape == "clones":
        return unit(noise[rng.integers(0, max(1, count // 4), count)])
    if shape == "clusters":
        centres = rng.standard_normal((max(1, count // 12), width))
        return unit(centres[rng.integers(0, len(centres), count)] + noise * rng.uniform(0.0, 0.6, (count, 1)))
    if shape == "low_rank":
        rank = min(3, width)
        return unit(rng.standard_normal((count, rank)) @ rng.standard_normal((rank, width)) + 1e-3 * noise)
    return unit(10 * rng.standard_normal((1, width)) + noise)


def found(blocks: list[PairBlock]) -> dict[tuple[int, int], float]:
    pairs = {
        (int(i), int(j)): float(s)
        for block in blocks
        for i, j, s in zip(block.i, block.j, block.similarity, strict=True)
    }
    assert len(pairs) == sum(len(block) for block in blocks), "a pair was reported twice"
    return pairs


def assert_is_brute_force(pairs: dict[tuple[int, int], float], rows: npt.NDArray[np.float32], threshold: float) -> None:
    cosines = np.triu(rows.astype(np.float64) @ rows.astype(np.float64).T, 1)
    upper = np.triu(np.ones(cosines.shape, bool), 1)
    surely = set(zip(*(x.tolist() for x in np.nonzero(upper & (cosines >= threshold + EDGE))), strict=True))
    possibly = set(zip(*(x.tolist() for x in np.nonzero(upper & (cosines >= threshold - EDGE))), strict=True))
    assert surely <= pairs.keys() <= possibly
    for (i, j), similarity in pairs.items():
        assert abs(similarity - cosines[i, j]) < EDGE


def screened(
    rows: npt.NDArray[np.float32], layout: Layout, threshold: float, threads: int = 2
) -> dict[tuple[int, int], float]:
    screen = layout_screen(rows, eigenbasis(rows), layout, threshold, threads)
    scorer = ExactScorer(rows, threshold)
    return found([scan(task, screen, scorer) for task in triangle_tasks(even_cuts(0, len(rows)))])


@settings(max_examples=15, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    count=st.integers(0, 90),
    width=st.sampled_from([1, 2, 7, 48, 384]),
    threshold=st.sampled_from([-1.0, 0.0, 0.5, 0.85, 0.99]),
    seed=st.integers(0, 1000),
)
def test_every_engine_gives_the_pairs_of_brute_force(
    shape: str, count: int, width: int, threshold: float, seed: int
) -> None:
    rows = made_rows(shape, count, width, seed)
    bounded = found(list(all_pairs(rows, threshold, engine="bounded", threads=2)))
    assert_is_brute_force(bounded, rows, threshold)
    assert found(list(all_pairs(rows, threshold, engine="faiss_flat", threads=2))) == bounded
    # With fewer rows than two lists hold, the approximate engine looks at all pairs.
    assert found(list(all_pairs(rows, threshold, engine="faiss_ivf", threads=2))) == bounded


@settings(max_examples=15, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    count=st.sampled_from([2, 17, 129, 300, 513, 514]),
    kept_groups_width=st.sampled_from([(1, 1, 8), (8, 4, 48), (16, 8, 64), (48, 16, 384), (64, 0, 64)]),
    threshold=st.sampled_from([0.5, 0.7, 0.85, 0.92]),
    integer=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_no_bound_loses_a_pair(
    shape: str, count: int, kept_groups_width: tuple[int, int, int], threshold: float, integer: bool, seed: int
) -> None:
    kept, groups, width = kept_groups_width
    if integer and not integers_multiply_well():
        pytest.skip("this processor has no 8-bit dot products")
    rows = made_rows(shape, count, width, seed)
    pairs = screened(rows, Layout(kept, groups, integer), threshold)
    assert pairs == found(list(all_pairs(rows, threshold, engine="faiss_flat")))


@settings(max_examples=12, deadline=None)
@given(shape=st.sampled_from(SHAPES), kept_groups=st.sampled_from([(4, 1), (8, 8), (40, 8)]), seed=st.integers(0, 1000))
def test_the_bound_is_never_below_the_cosine(shape: str, kept_groups: tuple[int, int], seed: int) -> None:
    rows = made_rows(shape, 200, 96, seed)
    cosines = rows.astype(np.float64) @ rows.astype(np.float64).T
    for integer in (False, True):
        layout = Layout(*kept_groups, integer)
        shortened = shorten(rows, layout_basis(eigenbasis(rows), layout), layout)
        bound = shortened.astype(np.float64) @ shortened.astype(np.float64).T
        assert np.all(bound >= cosines - rotation_margin(96))
        if integer:
            numbers, at_zero = whole_numbers(shortened, layout.kept, 96, 0.0)
            _, at_thousand = whole_numbers(shortened, layout.kept, 96, 1000.0)
            products = numbers.astype(np.int64) @ numbers.astype(np.int64).T
            assert np.all(products >= at_zero + cosines * (at_thousand - at_zero) / 1000 - 2)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_norms_are_rounded_up_in_whole_numbers(seed: int) -> None:
    """Equal rows whose kept coordinates are nought: the bound is as tight as it can be, and must hold all the same."""
    shortened = np.zeros((50, 20), np.float32)
    shortened[:, 4:] = np.abs(made_rows("noise", 50, 16, seed))
    numbers, limit = whole_numbers(shortened, 4, 64, 1.0)
    assert np.all(np.square(numbers.astype(np.int64)).sum(axis=1) >= limit)


@pytest.mark.parametrize("shape", ["noise", "clusters", "low_rank"])
@pytest.mark.parametrize("pair_count", [1, 10**10], ids=["few_pairs", "many_pairs"])
def test_many_rows_give_the_pairs_of_the_flat_engine(shape: str, pair_count: int) -> None:
    rows = made_rows("clusters", 5500, 96, 3) if shape == "clusters" else made_rows(shape, 5500, 96, 3)
    threshold = 0.9999 if shape == "low_rank" else 0.85
    screen = bound_screen(rows, threshold, pair_count, 2)
    scorer = ExactScorer(rows, threshold)
    expected = sorted_block(list(all_pairs(rows, threshold, engine="faiss_flat")))
    pairs = sorted_block([scan(task, screen, scorer) for task in triangle_tasks(even_cuts(0, len(rows)))])
    assert np.array_equal(pairs.i, expected.i)
    assert np.array_equal(pairs.j, expected.j)
    assert np.array_equal(pairs.similarity, expected.similarity)
    assert len(pairs) > 0 or shape == "noise"


def test_blocks_come_in_the_same_order_with_the_same_floats_for_any_number_of_threads() -> None:
    rows = made_rows("clusters", 6000, 64, 5)
    one, again, three = (list(all_pairs(rows, 0.8, threads=threads)) for threads in (1, 1, 3))
    assert len(one) > 5
    for other in (again, three):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert np.array_equal(a.i, b.i)
            assert np.array_equal(a.j, b.j)
            assert np.array_equal(a.similarity, b.similarity)
    for block in one:
        assert np.all(np.diff(block.i * len(rows) + block.j) > 0)
        assert [str(x.dtype) for x in (block.i, block.j, block.similarity)] == ["int64", "int64", "float32"]


@settings(max_examples=15, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 1000))
def test_the_order_of_rows_is_irrelevant(shape: str, seed: int) -> None:
    rows = made_rows(shape, 120, 32, seed)
    order = np.random.default_rng(seed).permutation(len(rows))
    plain = found(list(all_pairs(rows, 0.8)))
    shuffled = found(list(all_pairs(rows[order], 0.8)))
    back = {(min(order[i], order[j]), max(order[i], order[j])): s for (i, j), s in shuffled.items()}
    assert back == plain


@settings(max_examples=15, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 1000), low=st.floats(-1, 1), high=st.floats(-1, 1))
def test_raising_the_threshold_never_adds_a_pair(shape: str, seed: int, low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    rows = made_rows(shape, 80, 24, seed)
    wide, narrow = found(list(all_pairs(rows, low))), found(list(all_pairs(rows, high)))
    assert narrow.keys() <= wide.keys()
    assert narrow == {pair: s for pair, s in wide.items() if np.float32(s) >= np.float32(high)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_few_rows(engine: str, count: int) -> None:
    rows = np.zeros((count, 4), np.float32)
    rows[:, 0] = 1
    pairs = found(list(all_pairs(rows, 1.0, engine=engine)))
    assert pairs == {(i, j): 1.0 for j in range(count) for i in range(j)}


def test_opposite_rows_are_a_pair_only_at_the_lowest_threshold() -> None:
    rows = np.array([[1, 0], [-1, 0]], np.float32)
    assert found(list(all_pairs(rows, -1.0))) == {(0, 1): -1.0}
    assert found(list(all_pairs(rows, -0.999))) == {}


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, 3.0])
def test_rows_that_are_not_unit_rows_are_refused(bad: float) -> None:
    rows = made_rows("noise", 5000, 8, 1)
    assert sum(len(block) for block in all_pairs(rows, 0.9)) > 0
    rows[4711] = 0
    rows[4711, 2] = bad
    with pytest.raises(VectorError, match="row 4711 has length"):
        all_pairs(rows, 0.9)
    with pytest.raises(VectorError, match="row 4711"):
        nearest_neighbours(rows, rows)


def test_wrong_requests_are_refused() -> None:
    rows = made_rows("noise", 5, 8, 1)
    with pytest.raises(VectorError, match=r"float32 vectors of shape \[rows, dimensions\], got float64"):
        all_pairs(rows.astype(np.float64), 0.9)
    with pytest.raises(VectorError, match="got float32 of shape"):
        all_pairs(rows[0], 0.9)
    with pytest.raises(UnknownNameError, match="Did you mean 'bounded'"):
        all_pairs(rows, 0.9, engine="boundet")
    for threshold in (1.01, -2.0, float("nan")):
        with pytest.raises(VectorError, match="from -1 to 1"):
            all_pairs(rows, threshold)


def test_the_limit_on_blas_threads_is_lifted_when_the_stream_is_closed_early() -> None:
    from threadpoolctl import threadpool_info

    def blas_threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas_threads()
    stream = all_pairs(made_rows("clones", 3000, 16, 2), 0.9, threads=2)
    assert len(next(iter(stream))) > 0
    stream.close()  # type: ignore[attr-defined]
    assert blas_threads() == before


def test_lists_miss_little_and_the_estimate_of_recall_says_how_much() -> None:
    rows = made_rows("clusters", 6000, 64, 9)
    exact = found(list(all_pairs(rows, 0.85)))
    blocks = list(all_pairs(rows, 0.85, engine="faiss_ivf"))
    approximate = found(blocks)
    assert approximate.items() <= exact.items()
    recall = len(approximate) / len(exact)
    assert recall > 0.9
    assert estimate_recall(rows, blocks, 0.85, sample_rows=len(rows), seed=1) == pytest.approx(recall)
    assert estimate_recall(rows, blocks, 0.85, sample_rows=1500, seed=1) == pytest.approx(recall, abs=0.05)
    assert estimate_recall(rows, [], 0.85, sample_rows=1500, seed=1) == 0.0
    half = [PairBlock(b.i[::2], b.j[::2], b.similarity[::2]) for b in all_pairs(rows, 0.85)]
    assert estimate_recall(rows, half, 0.85, sample_rows=1500, seed=1) == pytest.approx(0.5, abs=0.05)


def test_recall_of_nothing_to_find_is_one() -> None:
    assert estimate_recall(np.eye(5, dtype=np.float32), [], 0.85, sample_rows=5, seed=0) == 1.0


@settings(max_examples=20, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    query_count=st.integers(0, 20),
    base_count=st.integers(0, 40),
    k=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_nearest_neighbours_are_those_of_brute_force(
    shape: str, query_count: int, base_count: int, k: int, seed: int
) -> None:
    queries, base = made_rows(shape, query_count, 16, seed), made_rows(shape, base_count, 16, seed + 1)
    index, similarity = nearest_neighbours(queries, base, k)
    assert index.shape == similarity.shape == (query_count, k)
    assert (str(index.dtype), str(similarity.dtype)) == ("int64", "float32")
    cosines = queries.astype(np.float64) @ base.astype(np.float64).T
    best = -np.sort(-cosines, axis=1)[:, :k]
    reachable = min(k, base_count)
    assert np.allclose(similarity[:, :reachable], best, atol=EDGE)
    assert np.all(index[:, reachable:] == -1)
    assert np.all(np.isneginf(similarity[:, reachable:]))
    for row in range(query_count):
        assert len(set(index[row, :reachable])) == reachable
        assert np.allclose(cosines[row, index[row, :reachable]], similarity[row, :reachable], atol=EDGE)
