"""A cheap upper bound of every cosine: few rotated coordinates, norms of the rest, and optionally 8-bit integers.

Belongs here: the bound, its error analysis and the choice of its width. Does not belong here: tiles, threads and the
exact score (tiles). Ledger K6.

Rotate the rows by the eigenvectors of the second-moment matrix of a sample, keep the m leading coordinates u and cut
the rest into g groups r_1 … r_g. By Cauchy-Schwarz on each group

    x . y  <=  u_x . u_y + sum_k |r_xk| |r_yk|  =  R_x . R_y,        R = (u, |r_1|, …, |r_g|),

so one product of width m + g screens d dimensions and cannot miss a pair. In whole numbers, with u = q/s + e (q = s u
rounded) and the norms rounded up to n/s,

    x . y  <=  (q_x . q_y + n_x . n_y) / s^2 + 2 A E + E^2,          A = max |q/s|, E = max |e|,

which a CPU with 8-bit dot products evaluates three to four times faster than float32, and without rounding. The kept
coordinates are mixed by a random rotation first: it leaves all products alone and evens out their sizes, which makes E
small. Which of the layouts is used depends on a sample of pairs; the result never does.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kb_pipeline.allpairs.rows import Float32s, GatheredDot, Int64s, dot_margin
from kb_pipeline.allpairs.threads import ONE_BLAS_THREAD, in_order
from kb_pipeline.allpairs.tiles import PlainScreen, Screen, plain_screen

SEED = 20_000
MOMENT_ROWS = 4096
"""Rows whose second moments give the rotation."""
TRIAL_ROWS = 1536
"""Rows whose pairs show how many candidates a layout leaves: 1.2 million pairs."""
PROJECTED_ROWS = 4096
"""Rows rotated at a time."""
FEWEST_ROWS = 5000
"""Below it, choosing and building a bound costs more than it saves."""
PAIRS_WORTH_TORCH = 2_000_000_000
"""Loading torch takes about a second; from this many pairs on, integers win that back."""
LARGEST_STEP = 126.9
"""Largest size of a scaled number: rounding it, up or to nearest, stays within 127."""

FLOAT_CANDIDATE_COST = 500.0
INTEGER_CANDIDATE_COST = 250.0
"""Cost of one candidate, in the unit of the costs of one screened pair below (about a nanosecond). Rows come from far
in memory; what integers let through is looked at in the short float rows first, so it costs less."""


def _float_cost(width: int) -> float:
    return 0.15 + 0.0215 * width


def _integer_cost(width: int) -> float:
    return 0.16 + 0.0046 * width


@dataclass(frozen=True, slots=True)
class Layout:
    """How a row is shortened: ``kept`` coordinates, norms of ``groups`` groups of the rest, floats or integers."""

    kept: int
    groups: int
    integer: bool

    @property
    def pair_cost(self) -> float:
        """Cost of screening one pair."""
        width = self.kept + self.groups
        return _integer_cost(width) if self.integer else _float_cost(width)

    @property
    def candidate_cost(self) -> float:
        """Cost of one pair that the screen does not rule out."""
        return INTEGER_CANDIDATE_COST if self.integer else FLOAT_CANDIDATE_COST


FLOAT_SIZES = ((32, 8), (48, 8), (64, 8), (96, 8), (128, 8))
INTEGER_SIZES = ((32, 16), (48, 16), (64, 16), (80, 16), (112, 16), (176, 16))


def layouts(dimension_count: int, *, integer: bool) -> list[Layout]:
    """Layouts that shorten rows of ``dimension_count`` dimensions, narrowest first."""
    sizes = INTEGER_SIZES if integer else FLOAT_SIZES
    fitting = [Layout(kept, groups, integer) for kept, groups in sizes if kept + groups <= dimension_count // 2]
    if integer:
        fitting.append(Layout(dimension_count, 0, integer))
    return fitting


def rotation_margin(dimension_count: int) -> float:
    """An upper bound of what float32 can take from the bound of two unit rows, by the worst case of every rounding.

    A rotated coordinate is off by at most gamma_d = d * 2^-24 (times the norms), a row of d of them by sqrt(d) times
    that, a pair by twice that; the basis is orthonormal up to its own rounding; then come norms and the product.
    """
    unit = 2.0**-24
    return float(unit * (2.2 * dimension_count**1.5 + 8 * dimension_count + 64))


class FloatBound(PlainScreen):
    """The bound in float32."""

    loose = True

    def __init__(self, shortened: Float32s, dimension_count: int, min_similarity: float) -> None:
        """Takes the shortened rows, their width before and the threshold."""
        super().__init__(shortened, min_similarity - rotation_margin(dimension_count))


def whole_numbers(
    shortened: Float32s, kept: int, dimension_count: int, min_similarity: float
) -> tuple[npt.NDArray[np.int8], int]:
    """Scales shortened rows to 8 bits.

    Args:
        shortened: float32 [N, kept + groups].
        kept: how many columns are coordinates; the others are norms and are rounded up.
        dimension_count: of the rows before they were shortened.
        min_similarity: the threshold.

    Returns:
        int8 [N, kept + groups] from -127 to 127, and the least whole product of two of its rows that can belong to a
        pair at or above the threshold.
    """
    largest = max(float(shortened.max(initial=0.0)), -float(shortened.min(initial=0.0)), 1e-6)
    scale = np.float32(LARGEST_STEP / largest)
    numbers = np.empty(shortened.shape, np.int8)
    error, size = 0.0, 0.0
    for start in range(0, len(shortened), PROJECTED_ROWS):
        rows = shortened[start : start + PROJECTED_ROWS]
        steps = rows * scale
        np.rint(steps[:, :kept], out=steps[:, :kept])
        np.ceil(steps[:, kept:], out=steps[:, kept:])
        numbers[start : start + PROJECTED_ROWS] = steps
        coarse = steps[:, :kept] / scale
        rest = rows[:, :kept] - coarse
        error = max(error, float(np.einsum("ij,ij->i", rest, rest).max()) ** 0.5)
        size = max(size, float(np.einsum("ij,ij->i", coarse, coarse).max()) ** 0.5)
    error = error * 1.001 + 1e-6
    slack = 2 * size * 1.001 * error + error * error + rotation_margin(dimension_count)
    return numbers, int(np.floor((min_similarity - slack) * float(scale) ** 2))


class IntegerBound(Screen):
    """The bound in 8-bit integers, multiplied by torch: exact, and several times the speed of float32."""

    fixed_shape = True
    product_type = np.int32

    def __init__(self, numbers: npt.NDArray[np.int8], limit: int, shortened: Float32s, float_limit: float) -> None:
        """Takes the rows in whole numbers and in floats, each with the least product that may belong to a pair."""
        import torch

        super().__init__(len(numbers), limit)
        self._shortened = GatheredDot(shortened)
        self._float_limit = float_limit
        self._numbers = torch.from_numpy(numbers)
        self._multiply = torch._int_mm
        self._from_numpy = torch.from_numpy

    def multiply(self, rows: slice, columns: slice, out: npt.NDArray[Any]) -> None:
        """Multiplies int8 to int32."""
        self._multiply(self._numbers[rows], self._numbers[columns].t(), out=self._from_numpy(out))

    def refine(self, i: Int64s, j: Int64s) -> tuple[Int64s, Int64s]:
        """Drops what the bound in float32 rules out: it lacks the error of rounding to 8 bits."""
        return self._shortened.reaching(i, j, self._float_limit)


@lru_cache(maxsize=1)
def integers_multiply_well() -> bool:
    """Whether torch has a fast 8-bit product on this machine and gets a hard case right. Loads torch."""
    import torch

    has_instructions = getattr(torch.cpu, "_is_vnni_supported", lambda: False)
    if not (hasattr(torch, "_int_mm") and has_instructions()):
        return False
    numbers = np.random.default_rng(SEED).choice(np.array([-127, -1, 0, 3, 126, 127], np.int8), (64, 96))
    numbers[:8] = 127
    numbers[8:16] = -127
    products = np.empty((64, 64), np.int32)
    IntegerBound(numbers, 0, numbers.astype(np.float32), 0.0).multiply(slice(0, 64), slice(0, 64), products)
    wide = numbers.astype(np.int32)
    return bool(np.array_equal(products, wide @ wide.T))


def integers_pay(pair_count: int) -> bool:
    """Whether integers are worth it: torch is there already or ``pair_count`` is large, and the machine can."""
    return ("torch" in sys.modules or pair_count >= PAIRS_WORTH_TORCH) and integers_multiply_well()


def eigenbasis(rows: Float32s) -> npt.NDArray[np.float64]:
    """Eigenvectors of the uncentred second moments, largest first: float64 [d, d], orthonormal columns."""
    with ONE_BLAS_THREAD:
        _, vectors = np.linalg.eigh((rows.T @ rows).astype(np.float64))
    return np.ascontiguousarray(vectors[:, ::-1])


def layout_basis(eigenvectors: npt.NDArray[np.float64], layout: Layout) -> Float32s:
    """The rotation of one layout: the eigenvectors, the kept ones mixed if the layout rounds them; float32 [d, d]."""
    basis = eigenvectors.copy()
    if layout.integer:
        mixing, _ = np.linalg.qr(np.random.default_rng(SEED).standard_normal((layout.kept, layout.kept)))
        basis[:, : layout.kept] = eigenvectors[:, : layout.kept] @ mixing
    return basis.astype(np.float32)


def shorten(rows: Float32s, basis: Float32s, layout: Layout) -> Float32s:
    """Rotates rows and keeps what ``layout`` says: float32 [N, kept + groups]."""
    dimension_count = rows.shape[1]
    rotated = rows @ basis
    shortened = np.empty((len(rows), layout.kept + layout.groups), np.float32)
    shortened[:, : layout.kept] = rotated[:, : layout.kept]
    edges = np.linspace(layout.kept, dimension_count, layout.groups + 1).astype(int)
    for group in range(layout.groups):
        part = rotated[:, edges[group] : edges[group + 1]]
        shortened[:, layout.kept + group] = np.sqrt(np.einsum("ij,ij->i", part, part))
    shortened[:, layout.kept :] *= np.float32(1 + dot_margin(dimension_count))
    return shortened


def candidate_share(shortened: Float32s, layout: Layout, dimension_count: int, min_similarity: float) -> float:
    """The share of the pairs of these shortened rows that the bound cannot rule out, from 0 to 1."""
    if layout.integer:
        numbers, limit = whole_numbers(shortened, layout.kept, dimension_count, min_similarity)
        # Sums of up to 384 products of 8-bit numbers are whole numbers that float32 holds exactly.
        left, least = numbers.astype(np.float32), float(limit)
    else:
        left, least = shortened, min_similarity - rotation_margin(dimension_count)
    above = int(np.count_nonzero(left @ left.T >= least))
    row_count = len(left)
    return max(0, above - row_count) / max(1, row_count * (row_count - 1))


def sampled_rows(vectors: Float32s, count: int) -> Float32s:
    """At most ``count`` different rows, drawn with a fixed seed, in their order."""
    chosen = np.random.default_rng(SEED).choice(len(vectors), min(count, len(vectors)), replace=False)
    return vectors[np.sort(chosen)]


def choose_layout(
    trial: Float32s, eigenvectors: npt.NDArray[np.float64], min_similarity: float, *, integer: bool
) -> Layout | None:
    """The layout with the least expected cost on the rows ``trial``, or None if plain tiles are cheaper."""
    dimension_count = trial.shape[1]
    best, best_cost = None, _float_cost(dimension_count)
    for layout in layouts(dimension_count, integer=integer):
        if layout.pair_cost >= best_cost:
            break
        shortened = shorten(trial, layout_basis(eigenvectors, layout), layout)
        share = candidate_share(shortened, layout, dimension_count, min_similarity)
        cost = layout.pair_cost + share * layout.candidate_cost
        if cost < best_cost:
            best, best_cost = layout, cost
    return best


def layout_screen(
    vectors: Float32s,
    eigenvectors: npt.NDArray[np.float64],
    layout: Layout,
    min_similarity: float,
    threads: int,
) -> Screen:
    """The screen of one layout over all rows.

    Args:
        vectors: float32 [N, d], unit rows.
        eigenvectors: float64 [d, d], orthonormal columns.
        layout: how rows are shortened.
        min_similarity: the threshold.
        threads: worker threads for the rotation.
    """
    basis = layout_basis(eigenvectors, layout)
    shortened = np.empty((len(vectors), layout.kept + layout.groups), np.float32)

    def fill(start: int) -> None:
        stop = start + PROJECTED_ROWS
        shortened[start:stop] = shorten(vectors[start:stop], basis, layout)

    for _ in in_order(fill, range(0, len(vectors), PROJECTED_ROWS), threads):
        pass
    if not layout.integer:
        return FloatBound(shortened, vectors.shape[1], min_similarity)
    numbers, limit = whole_numbers(shortened, layout.kept, vectors.shape[1], min_similarity)
    return IntegerBound(numbers, limit, shortened, min_similarity - rotation_margin(vectors.shape[1]))


def bound_screen(vectors: Float32s, min_similarity: float, pair_count: int, threads: int) -> Screen:
    """The cheapest screen for these rows that misses nothing.

    Args:
        vectors: float32 [N, d], unit rows.
        min_similarity: the threshold.
        pair_count: how many pairs will be screened.
        threads: worker threads for the rotation.

    Returns:
        A bound, or plain tiles when there are few rows or the spectrum is so flat that a bound rules out too little.
    """
    if len(vectors) < FEWEST_ROWS:
        return plain_screen(vectors, min_similarity)
    integer = integers_pay(pair_count)
    eigenvectors = eigenbasis(sampled_rows(vectors, MOMENT_ROWS))
    with ONE_BLAS_THREAD:
        layout = choose_layout(sampled_rows(vectors, TRIAL_ROWS), eigenvectors, min_similarity, integer=integer)
    if layout is None:
        return plain_screen(vectors, min_similarity)
    return layout_screen(vectors, eigenvectors, layout, min_similarity, threads)
