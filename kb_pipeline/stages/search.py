"""Search (X7): eligible entries in the order in which they answer a query, the better kept ones a little earlier.

Two rankings are joined by the ranks that they give, because a cosine and a word score have no common scale (reciprocal rank
fusion, Cormack, Clarke and Buettcher 2009):

    score = (1 / (offset + rank by similarity) + 1 / (offset + rank by words)) * (1 + weight * (2 * quality - 1))

    similarity = best cosine of the query with any window of the text
    words      = BM25 with k1 = 1.2, b = 0.75 over distinct tokens: each word of the query counts once a text
                 sum of idf(t) (k1 + 1) / (1 + k1 (1 - b + b n / mean n)),  idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))

A text that shares no word with the query has no rank by words, one without vectors none by similarity. Equal values share a
rank; equal scores stand in the order of ids. ``quality`` is the entry's quality score (0 to 1, M15); an entry without one
counts as 0.5, which changes nothing. The weight bounds what quality can do: it settles what is about equally near.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline import schemas_retrieval
from kb_pipeline.policy.model import SearchPolicy
from kb_pipeline.text.tokens import token_sets

_K1, _B = 1.2, 0.75
_NEUTRAL_QUALITY = 0.5


def rank_entries(
    entries: pl.DataFrame,
    query: str,
    similarity: npt.NDArray[np.float64] | None,
    policy: SearchPolicy,
    tokens: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """SEARCH over all entries that answer the query at all, best first.

    Args:
        entries: columns entry_id, text and quality_score (0-1, null without one).
        query: what is looked for.
        similarity: float64 [N], best cosine of each entry with the query, NaN without vectors; None: words alone.
        policy: how ranks are joined, and what quality weighs.
        tokens: columns row and token, the distinct tokens of the texts, for a caller that asks more than once.
    """
    cosine = np.full(entries.height, np.nan) if similarity is None else similarity
    words = token_sets(entries["text"]) if tokens is None else tokens
    scored = entries.select("entry_id", "quality_score").with_columns(
        pl.Series("similarity", cosine, dtype=pl.Float64).fill_nan(None).round(5),
        word_scores(words, entries.height, query).round(5).alias("word_score"),
    )
    by_words = pl.when(pl.col("word_score") > 0).then("word_score")
    ranks = (column.rank("min", descending=True) for column in (pl.col("similarity"), by_words))
    answers = pl.sum_horizontal((1 / (policy.rank_offset + rank)).fill_null(0.0) for rank in ranks)
    kept_well = 1 + policy.quality_weight * (2 * pl.col("quality_score").fill_null(_NEUTRAL_QUALITY) - 1)
    found = scored.with_columns((answers * kept_well).alias("score")).filter(pl.col("score") > 0)
    return schemas_retrieval.SEARCH.select(found.sort(-pl.col("score"), "entry_id"))


def best_windows(
    vectors: npt.NDArray[np.float32], owner: npt.NDArray[np.int64], query: npt.NDArray[np.float32], count: int
) -> npt.NDArray[np.float64]:
    """float64 [count]: best cosine of any query row with any window of each text, NaN for a text without windows.

    Args:
        vectors: float32 [W, d] unit rows.
        owner: int64 [W], the text each row belongs to, from 0 to ``count`` - 1.
        query: float32 [Q, d] unit rows, the windows of the query.
        count: number of texts.
    """
    best = np.full(count, -np.inf)
    if len(vectors) and len(query):
        np.maximum.at(best, owner, (vectors @ query.T).max(axis=1).astype(np.float64))
    return np.where(np.isneginf(best), np.nan, best)


def word_scores(tokens: pl.DataFrame, count: int, query: str) -> pl.Series:
    """BM25 of each text for the words of a query: Float64 [count], 0 without a shared word.

    Args:
        tokens: columns row (UInt32, from 0 to ``count`` - 1) and token, the distinct tokens of the texts.
        count: number of texts.
        query: what is looked for.
    """
    lengths = tokens.group_by("row").len("length")
    mean = lengths["length"].mean()
    wanted = token_sets(pl.Series([query]))["token"]
    shared = tokens.filter(pl.col("token").is_in(wanted.implode()))
    frequency = pl.len().over("token")
    weighted = shared.with_columns((1 + (count - frequency + 0.5) / (frequency + 0.5)).log().alias("idf")).join(
        lengths, on="row"
    )
    part = pl.col("idf") * (_K1 + 1) / (1 + _K1 * (1 - _B + _B * pl.col("length") / pl.lit(mean, pl.Float64)))
    sums = weighted.group_by("row").agg(part.sort_by("token").sum().alias("score"))
    rows = pl.DataFrame({"row": pl.Series(range(count), dtype=pl.UInt32)})
    return rows.join(sums, on="row", how="left", maintain_order="left")["score"].fill_null(0.0)
