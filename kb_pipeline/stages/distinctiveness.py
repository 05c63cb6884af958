"""Distinctiveness (K5): what share of an entry's words the rest of its corpus does not use all the time.

    distinctiveness = |unique tokens of the entry - common tokens| / |unique tokens of the entry|

Common are the tokens that occur in most live entries of the tenant: at most ``max_common_tokens`` and at most
``max_common_share`` of the vocabulary, by document frequency descending, then token ascending by code point. Statistics
never cross a tenant.
"""

from __future__ import annotations

import hashlib

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.model import DistinctivenessPolicy
from kb_pipeline.text.tokens import token_sets
from kb_pipeline.vocabulary import LIVE_STATES, ReasonCode


def score_distinctiveness(entries: pl.DataFrame, policy: DistinctivenessPolicy) -> pl.DataFrame:
    """DISTINCTIVENESS of every entry: same rows, same order.

    Entries that are not live get no score; live ones without tokens get null and the reason.

    Args:
        entries: ENTRIES.
        policy: how many tokens count as common.
    """
    live = entries.with_row_index("row").filter(pl.col("state").is_in(LIVE_STATES)).select("row", "tenant", "text")
    tokens = (
        token_sets(live["text"])
        .rename({"row": "place"})
        .join(
            live.with_row_index("place").select("place", "row", pl.col("tenant").fill_null("\x00")),
            on="place",
        )
    )
    frequency = tokens.group_by("tenant", "token").len("document_frequency")
    common = (
        frequency.sort("tenant", "document_frequency", "token", descending=[False, True, False])
        .with_columns(
            pl.int_range(pl.len()).over("tenant").alias("rank"),
            # A product such as 100 * 0.29 lies a hair below the whole number it means.
            (pl.len().over("tenant") * policy.max_common_share + 1e-9).floor().alias("share_limit"),
        )
        .filter(pl.col("rank") < pl.min_horizontal(pl.lit(policy.max_common_tokens), pl.col("share_limit")))
        .select("tenant", "token")
        .with_columns(pl.lit(True).alias("is_common"))
    )
    scores = (
        tokens.join(common, on=["tenant", "token"], how="left")
        .group_by("row")
        .agg(
            pl.len().cast(pl.Int64).alias("token_count"),
            pl.col("is_common").is_null().mean().alias("distinctiveness"),
        )
    )
    is_live = pl.col("state").is_in(LIVE_STATES)
    result = (
        entries.select("entry_id", "state")
        .with_row_index("row")
        .join(scores, on="row", how="left", maintain_order="left")
        .with_columns(
            pl.col("token_count").fill_null(0),
            pl.when(is_live & pl.col("distinctiveness").is_null())
            .then(pl.lit(ReasonCode.DISTINCTIVENESS_NO_TOKENS.value))
            .alias("distinctiveness_reason"),
        )
    )
    return schemas.DISTINCTIVENESS.select(result)


def corpus_version(entries: pl.DataFrame) -> str:
    """Hash that names exactly the live texts the scores rest on: first 16 hex digits of a SHA-256."""
    hashes = entries.filter(pl.col("state").is_in(LIVE_STATES))["content_hash"].sort()
    return hashlib.sha256("\n".join(hashes.to_list()).encode()).hexdigest()[:16]
