"""Duplicate candidates (K6-K8, X0): which pairs of active entries may say the same.

Three signals, all within one scope, kind and state only:

- equal merge keys (ordered canonical sequence and specifics ledger), found by hash. A group of n equal texts gives n - 1
  pairs with its smallest id, and only that one goes on to the other signals, so that clones do not explode.
- cosine of the vectors, by the all-pairs engine: band ``merge`` from the model's merge threshold, else ``borderline``.
- shared words (dedup_words): band ``lexical``, for pairs that the other two did not find.

Entries marked keep_distinct are never candidates; they are counted as shielded.

A pass over recent entries looks for the pairs around them alone: what it finds is a part of what the whole search finds,
and pairs that share a title beside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline import schemas
from kb_pipeline.allpairs.around import pairs_around
from kb_pipeline.allpairs.candidates import Candidates, duplicate_candidates, owner_similarities
from kb_pipeline.policy.model import DedupPolicy, Thresholds
from kb_pipeline.stages.dedup_words import pairs_by_words
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
    *,
    around: pl.Series | None = None,
) -> DuplicateSearch:
    """PAIRS of entries that stay active in this run, sorted by ids.

    Args:
        entries: ENTRIES, sorted by id.
        retirement: RETIREMENT of the same entries in the same order; what it retires is no candidate.
        vectors: float32 [W, d], unit rows: the windows of the entries' texts.
        owner: int64 [W], row of ``entries`` each window belongs to.
        policy: engine and limits.
        thresholds: calibrated similarities of the model.
        around: ids of entries; only pairs with one of them are looked for, by their own neighbours. None: all pairs.
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
    places = None if around is None else np.flatnonzero(entries["entry_id"].is_in(around.implode()).to_numpy())
    rows = (vectors[wanted], owner[wanted], block_of[owner[wanted]])
    found = _close_pairs(*rows, places, policy, thresholds)
    if places is not None:
        exact = exact.filter(pl.col("l").is_in(places) | pl.col("r").is_in(places))
    close = found.frame.with_columns(
        pl.when(pl.col("similarity") >= thresholds.min_merge_similarity)
        .then(pl.lit(Band.MERGE.value))
        .otherwise(pl.lit(Band.BORDERLINE.value))
        .alias("band")
    )

    def cosines(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return owner_similarities(vectors, owner, left, right).astype(np.float64)

    by_words, cut_count = pairs_by_words(
        entries, representatives, close.select("l", "r"), policy, cosines, around=places
    )
    of_equals = pl.Series(cosines(exact["l"].to_numpy(), exact["r"].to_numpy()), dtype=pl.Float64).fill_nan(None)
    columns = {"l": pl.Int64, "r": pl.Int64, "similarity": pl.Float64, "band": pl.String, "word_similarity": pl.Float64}
    parts = (
        exact.with_columns(similarity=of_equals, band=pl.lit(Band.EXACT.value), word_similarity=None),
        by_words.with_columns(band=pl.lit(Band.LEXICAL.value)),
        close.with_columns(word_similarity=None),
    )
    found_pairs = pl.concat([part.select(pl.col(name).cast(kind) for name, kind in columns.items()) for part in parts])
    found_pairs = found_pairs.sort("l", "r")
    ids = entries["entry_id"]
    pairs = found_pairs.select(
        ids.gather(found_pairs["l"]).alias("entry_id_l"),
        ids.gather(found_pairs["r"]).alias("entry_id_r"),
        # float32 noise in the last digits would make equal runs look different on another machine
        pl.col("similarity").clip(-1.0, 1.0).round(5),
        "band",
        pl.col("word_similarity").round(5),
    )
    seen = np.zeros(entries.height, dtype=bool)
    seen[owner] = True
    return DuplicateSearch(
        pairs=schemas.PAIRS.select(pairs),
        searched_count=representatives.height,
        shielded_count=shielded_count,
        dropped_count=found.dropped_count + cut_count,
        unseen_count=int((~seen[eligible["row"].to_numpy()]).sum()),
        recall=found.recall,
    )


def _close_pairs(
    vectors: npt.NDArray[np.float32],
    owner: npt.NDArray[np.int64],
    block: npt.NDArray[np.int64],
    around: npt.NDArray[np.int64] | None,
    policy: DedupPolicy,
    thresholds: Thresholds,
) -> Candidates:
    """Pairs of owners from the borderline similarity on: all of them, or those with an owner in ``around``."""
    least = thresholds.min_borderline_similarity
    if around is None:
        approximate = policy.engine == "faiss_ivf"
        return duplicate_candidates(
            vectors,
            owner,
            block,
            least,
            engine="bounded" if approximate else policy.engine,
            approximate_above=policy.approximate_above_rows if approximate else None,
            max_pairs=policy.max_pairs,
        )
    near = pairs_around(vectors, owner, block, around, least)
    pairs = pl.DataFrame({"l": near.i, "r": near.j, "similarity": near.similarity})
    kept = pairs.sort("similarity", "l", "r", descending=[True, False, False]).head(policy.max_pairs).sort("l", "r")
    return Candidates(kept, pairs.height, pairs.height - kept.height, None)
