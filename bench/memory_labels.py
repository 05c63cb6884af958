"""Recall over labelled pairs of agent memories at all levels of similarity, from ``labels/agent_memory_pairs.csv``.

The pairs are a stratified sample of all that the search compares, so recall is a ratio of two sums of weights
(Horvitz and Thompson), and its interval comes from drawing the sampled strata again; strata read whole do not vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

LABELS = Path(__file__).parent / "labels" / "agent_memory_pairs.csv"
WANTED = ("same", "partial", "conflict")
_DRAWS = 2000


def memory_labels() -> pl.DataFrame:
    """The labelled pairs with ``is_wanted``: what a curator wants to see."""
    return pl.read_csv(LABELS).with_columns(pl.col("label").is_in(WANTED).alias("is_wanted"))


def weighted_recall(labels: pl.DataFrame, pairs: pl.DataFrame) -> tuple[float, float, float]:
    """Share of the wanted pairs that are among ``pairs``, with the bounds of its 95 % bootstrap interval.

    Args:
        labels: as ``memory_labels`` gives them, or a part.
        pairs: columns entry_id_l and entry_id_r.
    """
    found = labels.join(
        pairs.select("entry_id_l", "entry_id_r", pl.lit(True).alias("is_found")),
        on=["entry_id_l", "entry_id_r"],
        how="left",
        maintain_order="left",
    ).with_columns(pl.col("is_found").fill_null(False))
    generator = np.random.default_rng(7)
    fixed = found.filter(pl.col("weight") == 1)
    top, bottom = np.full(_DRAWS, _sum(fixed, "is_found")), np.full(_DRAWS, _sum(fixed, "is_wanted"))
    for _, stratum in found.filter(pl.col("weight") > 1).sort("stratum").group_by("stratum", maintain_order=True):
        weight = float(stratum["weight"][0])
        wanted = stratum["is_wanted"].to_numpy()
        caught = wanted & stratum["is_found"].to_numpy()
        drawn = generator.integers(0, stratum.height, (_DRAWS, stratum.height))
        top += weight * caught[drawn].sum(axis=1)
        bottom += weight * wanted[drawn].sum(axis=1)
    low, high = np.quantile(top / bottom, [0.025, 0.975])
    return _sum(found, "is_found") / _sum(found, "is_wanted"), float(low), float(high)


def agreement(first: Sequence[str], second: Sequence[str]) -> tuple[float, float]:
    """Share of equal labels, and Cohen's kappa."""
    names, codes = np.unique([first, second], return_inverse=True)
    one, two = np.asarray(codes).reshape(2, -1)
    shares = [np.bincount(side, minlength=len(names)) / len(one) for side in (one, two)]
    equal, by_chance = float((one == two).mean()), float((shares[0] * shares[1]).sum())
    return equal, (equal - by_chance) / (1 - by_chance)


def report_agreement(labels: pl.DataFrame) -> None:
    """Print how far the two readings agree."""
    for words, sides in (
        ("five labels", [labels[name].to_list() for name in ("first", "second")]),
        ("wanted or not", [[str(one in WANTED) for one in labels[name]] for name in ("first", "second")]),
    ):
        equal, kappa = agreement(*sides)
        print(f"{labels.height} pairs read twice, {words}: agreement {equal:.3f}, kappa {kappa:.3f}")


def _sum(frame: pl.DataFrame, column: str) -> float:
    chosen: npt.NDArray[np.bool_] = frame["is_wanted"].to_numpy() & frame[column].to_numpy()
    return float(frame["weight"].to_numpy()[chosen].sum())
