"""How well pairs were decided, held against what readers say of them (ledger X6, K16): counts, shares, intervals.

Belongs here: arithmetic on decided pairs. Does not belong here: deciding them; the other stages do, and it is their
plan that is measured. Shares come with the 95 % Wilson interval

    (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n),  z = 1.96

because a share of few pairs means little without it: 0 wrong ones of 100 still allow 3.7 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline.vocabulary import ActionType, PairAction, PairLabel, RecommendationType

TOTAL = "total"
"""Name of the row over all strata."""

KEPT_APART = (PairLabel.KEEP_BOTH, PairLabel.SUBSET, PairLabel.SUPERSEDES)
"""Labels of pairs that a run should neither merge nor call a conflict."""

RATES: dict[str, tuple[str, str]] = {
    "precision": ("right_merges", "merges"),
    "recall": ("right_merges", "duplicates"),
    "found_recall": ("duplicates_found", "duplicates"),
    "candidate_recall": ("duplicate_candidates", "duplicates"),
    "queue_precision": ("duplicates_queued", "queued"),
    "conflict_precision": ("right_conflicts", "conflicts"),
    "conflict_recall": ("right_conflicts", "contradictions"),
    "verdict_conflict_precision": ("right_conflict_verdicts", "conflict_verdicts"),
    "verdict_conflict_recall": ("right_conflict_verdicts", "contradictions"),
    "agreement": ("agreed", "pairs"),
}
"""Rate -> (count above, count below). Precision and recall are those of automatic merges; ``verdict_`` asks the judge
about every pair, whether a run would have found it or not."""

_Z = 1.959963984540054


def wilson(hits: int, n: int) -> tuple[float, float] | None:
    """The 95 % Wilson interval of ``hits`` of ``n``, both ends in [0, 1]; None when ``n`` is 0."""
    if n == 0:
        return None
    share = hits / n
    middle = share + _Z * _Z / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    low, high = ((middle + sign * half) / (1 + _Z * _Z / n) for sign in (-1, 1))
    return (0.0 if hits == 0 else max(0.0, low)), (1.0 if hits == n else min(1.0, high))


def planned_actions(pairs: pl.DataFrame, plan: pl.DataFrame) -> pl.DataFrame:
    """``pairs`` with ``action`` (a ``PairAction``) and ``plan_reason`` added: same rows, same order.

    Of several planned actions about one pair a conflict comes first, then a merge, then a question.

    Args:
        pairs: columns entry_id_l and entry_id_r, at least.
        plan: PLAN of a run over the entries of these pairs.
    """
    asked_as = [RecommendationType.MERGE.value, RecommendationType.SUPERSEDE.value]
    asks = (pl.col("action") == ActionType.RECOMMEND) & pl.col("recommendation_type").is_in(asked_as)
    named = plan.filter(pl.col("other_entry_id").is_not_null()).select(
        pl.min_horizontal("entry_id", "other_entry_id").alias("entry_id_l"),
        pl.max_horizontal("entry_id", "other_entry_id").alias("entry_id_r"),
        pl.when(pl.col("action") == ActionType.OPEN_CONFLICT)
        .then(pl.lit(PairAction.CONFLICT.value))
        .when(pl.col("action") == ActionType.MERGE)
        .then(pl.lit(PairAction.MERGE.value))
        .when(asks)
        .then(pl.lit(PairAction.QUEUE.value))
        .alias("action"),
        pl.col("reason").alias("plan_reason"),
    )
    order = [PairAction.CONFLICT.value, PairAction.MERGE.value, PairAction.QUEUE.value]
    first = (
        named.drop_nulls("action")
        .with_columns(pl.col("action").replace_strict({name: n for n, name in enumerate(order)}).alias("rank"))
        .sort("entry_id_l", "entry_id_r", "rank", "plan_reason")
        .unique(["entry_id_l", "entry_id_r"], keep="first", maintain_order=True)
        .drop("rank")
    )
    return pairs.join(first, on=["entry_id_l", "entry_id_r"], how="left", maintain_order="left").with_columns(
        pl.col("action").fill_null(PairAction.KEEP.value)
    )


def tally(decided: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Stratum -> its counts and rates, in order of appearance, and ``total`` last.

    Each rate of RATES stands as ``name``, ``name_low`` and ``name_high`` (0-1; null where nothing was counted), each count
    as a whole number.

    Args:
        decided: columns stratum, label, is_candidate, action, verdict, lost_count (specifics that an automatic merge
            would lose).
    """
    strata = decided["stratum"].unique(maintain_order=True).to_list()
    parts = [(name, decided.filter(pl.col("stratum") == name)) for name in strata]
    return {name: _rated(_counts(part)) for name, part in [*parts, (TOTAL, decided)]}


def _counts(part: pl.DataFrame) -> dict[str, int]:
    is_duplicate = pl.col("label") == PairLabel.MERGE
    is_conflict = pl.col("label") == PairLabel.CONFLICT
    is_old = pl.col("label") == PairLabel.SUPERSEDES
    merged, asked = pl.col("action") == PairAction.MERGE, pl.col("action") == PairAction.QUEUE
    # Whether one replaces the other is no question about a duplicate.
    asked_old = asked & (pl.col("verdict") == PairLabel.SUPERSEDES)
    queued = asked & ~asked_old
    opened = pl.col("action") == PairAction.CONFLICT
    said = pl.col("verdict") == PairLabel.CONFLICT
    is_subset = pl.col("label") == PairLabel.SUBSET
    agreed = (
        (is_duplicate & (merged | queued))
        | (is_conflict & opened)
        | (pl.col("label").is_in(list(KEPT_APART)) & (pl.col("action") == PairAction.KEEP))
        | (is_subset & queued)
        | (is_old & asked_old)
    )
    counted = {
        "pairs": pl.lit(True),
        "duplicates": is_duplicate,
        "contradictions": is_conflict,
        "candidates": pl.col("is_candidate"),
        "duplicate_candidates": is_duplicate & pl.col("is_candidate"),
        "merges": merged,
        "right_merges": merged & is_duplicate,
        "false_merges": merged & ~is_duplicate,
        "merges_with_loss": merged & (pl.col("lost_count") > 0),
        "queued": queued,
        "duplicates_queued": queued & is_duplicate,
        "duplicates_found": (queued | merged) & is_duplicate,
        "supersessions": is_old,
        "supersessions_asked": asked_old,
        "right_supersessions_asked": asked_old & is_old,
        "conflicts": opened,
        "right_conflicts": opened & is_conflict,
        "conflict_verdicts": said,
        "right_conflict_verdicts": said & is_conflict,
        "agreed": agreed,
    }
    numbers = part.select(
        (expression & pl.lit(True)).cast(pl.Int64).sum().alias(name) for name, expression in counted.items()
    )
    return {name: int(number) for name, number in zip(numbers.columns, numbers.row(0), strict=True)} | {
        "pairs": part.height
    }


def _rated(counts: Mapping[str, int]) -> dict[str, Any]:
    rated: dict[str, Any] = dict(counts)
    for name, (above, below) in RATES.items():
        hits, n = counts[above], counts[below]
        interval = wilson(hits, n)
        rated[name] = None if interval is None else round(hits / n, 4)
        rated[f"{name}_low"], rated[f"{name}_high"] = (
            (None, None) if interval is None else (round(interval[0], 4), round(interval[1], 4))
        )
    return rated


def threshold_as_rare(similarities: npt.NDArray[np.float64], count: int) -> float | None:
    """The cosine at or above which no more than ``count`` of these pairs lie: halfway to the next pair below it.

    Args:
        similarities: cosines of pairs that are not duplicates; NaN for a pair without vectors.
        count: how many of them another model lets pass, at least 1.

    Returns:
        A cosine in (0, 1], rounded to four digits; None when no threshold holds so many of them back.
    """
    known = np.sort(similarities[~np.isnan(similarities)])[::-1]
    if known.size <= count:
        halfway = float(known[-1]) if known.size else 1.0
    else:
        halfway = (float(known[count - 1]) + float(known[count])) / 2
    threshold = round(halfway, 4)
    if int((known >= threshold).sum()) > count:
        # Several pairs share the cosine at the border: all of them stay below.
        threshold = round(math.floor(float(known[count]) * 10_000 + 1) / 10_000, 4)
    return threshold if 0 < threshold <= 1 else None
