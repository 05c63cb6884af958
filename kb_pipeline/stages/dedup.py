"""Duplicate candidates (K6-K8, X0): which pairs of active entries may say the same.

Two signals, both within one scope, kind and state only:

- equal merge keys (ordered canonical sequence and specifics ledger), found by hash. A group of n equal texts gives n - 1
  pairs with its smallest id, and only that one goes on to the second signal, so that clones do not explode.
- cosine of the vectors, by the all-pairs engine: band ``merge`` from the model's merge threshold, else ``borderline``.

Entries marked keep_distinct are never candidates; they are counted as shielded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline import schemas
from kb_pipeline.allpairs.candidates import duplicate_candidates
from kb_pipeline.policy.model import DedupPolicy, Thresholds
from kb_pipeline.vocabulary import Band, State


@dataclass(frozen=True)
class DuplicateSearch:
    """PAIRS with what a reader must know of the search.

    ``shielded_count`` entries were left out as keep_distinct; ``dropped_count`` pairs fell off at max_pairs;
    ``recall`` is measured when the search was approximate, else None; ``unseen_count`` entries have no vectors.
    """

    pairs: pl.DataFrame
    searched_count: int
    shielded_count: int
    dropped_count: int
    unseen_count: int
    recall: float | None


def find_duplicates(
    entries: pl.DataFrame,
    retirement: pl.DataFrame,
    vectors: npt.NDArray[np.float32],
    owner: npt.NDArray[np.int64],
    policy: DedupPolicy,
    thresholds: Thresholds,
) -> DuplicateSearch:
    """PAIRS of entries that stay active in this run, sorted by ids.

    Args:
        entries: ENTRIES, sorted by id.
        retirement: RETIREMENT of the same entries in the same order; what it retires is no candidate.
        vectors: float32 [W, d], unit rows: the windows of the entries' texts.
        owner: int64 [W], row of ``entries`` each window belongs to.
        policy: engine and limits.
        thresholds: calibrated similarities of the model.
    """
    staying = entries.select(
        "entry_id", "scope", "kind", "merge_key", "keep_distinct", pl.col("state") == State.ACTIVE
    ).with_columns((pl.col("state") & (retirement["retire_decision"] != "retire")).alias("state"))
    staying = staying.with_row_index("row").filter("state")
    eligible = staying.filter(~pl.col("keep_distinct"))
    shielded_count = staying.height - eligible.height

    firsts = eligible.with_columns(
        pl.when(pl.col("merge_key").is_null())
        .then(pl.col("row"))
        .otherwise(pl.col("row").min().over("scope", "kind", "merge_key"))
        .alias("first")
    )
    exact = firsts.filter(pl.col("first") != pl.col("row")).select(
        l=pl.col("first").cast(pl.Int64), r=pl.col("row").cast(pl.Int64)
    )
    representatives = firsts.filter(pl.col("first") == pl.col("row")).with_columns(
        pl.struct("scope", "kind").rank("dense").cast(pl.Int64).alias("block")
    )

    block_of = np.full(entries.height, -1, dtype=np.int64)
    block_of[representatives["row"].to_numpy()] = representatives["block"].to_numpy()
    wanted = block_of[owner] >= 0
    approximate = policy.engine == "faiss_ivf"
    found = duplicate_candidates(
        vectors[wanted],
        owner[wanted],
        block_of[owner[wanted]],
        thresholds.min_borderline_similarity,
        engine="bounded" if approximate else policy.engine,
        approximate_above=policy.approximate_above_rows if approximate else None,
        max_pairs=policy.max_pairs,
    )
    close = found.frame.with_columns(
        pl.when(pl.col("similarity") >= thresholds.min_merge_similarity)
        .then(pl.lit(Band.MERGE.value))
        .otherwise(pl.lit(Band.BORDERLINE.value))
        .alias("band")
    )
    equal = exact.with_columns(
        pl.Series("similarity", best_windows(vectors, owner, exact["l"].to_list(), exact["r"].to_list()), pl.Float64),
        pl.lit(Band.EXACT.value).alias("band"),
    )
    ids = entries["entry_id"]
    columns = ["l", "r", "similarity", "band"]
    both = pl.concat(
        [part.select(columns).cast({"l": pl.Int64, "r": pl.Int64, "similarity": pl.Float64}) for part in (equal, close)]
    ).sort("l", "r")
    pairs = both.select(
        ids.gather(both["l"]).alias("entry_id_l"),
        ids.gather(both["r"]).alias("entry_id_r"),
        # float32 noise in the last digits would make equal runs look different on another machine
        pl.col("similarity").clip(-1.0, 1.0).round(5),
        "band",
    )
    seen = np.zeros(entries.height, dtype=bool)
    seen[owner] = True
    return DuplicateSearch(
        pairs=schemas.PAIRS.select(pairs),
        searched_count=representatives.height,
        shielded_count=shielded_count,
        dropped_count=found.dropped_count,
        unseen_count=int((~seen[eligible["row"].to_numpy()]).sum()),
        recall=found.recall,
    )


def best_windows(
    vectors: npt.NDArray[np.float32], owner: npt.NDArray[np.int64], left: list[int], right: list[int]
) -> list[float | None]:
    """The best cosine of any two windows for each pair of rows; null where a text has no vectors.

    Args:
        vectors: float32 [W, d].
        owner: int64 [W], ascending.
        left: rows on one side.
        right: rows on the other side.
    """
    similarities: list[float | None] = []
    for one, other in zip(left, right, strict=True):
        a = vectors[np.searchsorted(owner, one) : np.searchsorted(owner, one, "right")]
        b = vectors[np.searchsorted(owner, other) : np.searchsorted(owner, other, "right")]
        similarities.append(float((a @ b.T).max()) if len(a) and len(b) else None)
    return similarities
