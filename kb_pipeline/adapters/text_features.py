"""Features of texts that cost time: comparison keys, kinds of secret, whether a text speaks to the judge.

Belongs here: computing them once a text and keeping them in the cache. What they are stands in kb_pipeline.text and in
secrets.
"""

from __future__ import annotations

import hashlib

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.caches import in_batches, read_text_keys, write_text_keys
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.secrets import DETECTORS_FINGERPRINT, find_secrets
from kb_pipeline.text.canonical import CANONICAL_VERSION, canonical_key, exact_key
from kb_pipeline.text.injection import addresses_judge
from kb_pipeline.text.specifics import SPECIFICS_VERSION, specifics
from kb_pipeline.vocabulary import LIVE_STATES

TEXT_VERSION = f"{CANONICAL_VERSION}.{SPECIFICS_VERSION}.{DETECTORS_FINGERPRINT}"
"""Names everything that changes a feature: features of another version are computed anew."""

_BATCH_TEXTS = 5_000
_FEW_TEXTS = 500
"""Up to so many texts are looked up one by one."""


def add_text_features(database: Database, corpus: str, entries: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """ENTRIES, completed with the features of every live text, and how many texts were computed now.

    Texts that are not live any more get null keys: nothing compares them.

    Args:
        database: where the cache is.
        corpus: corpus of the entries.
        entries: ENTRIES without exact_key, merge_key, secret_kinds and addresses_judge.
    """
    live = entries.filter(pl.col("state").is_in(LIVE_STATES)).select("content_hash", "text").unique("content_hash")
    few = live["content_hash"].to_list() if live.height <= _FEW_TEXTS else None
    known = read_text_keys(database, corpus, TEXT_VERSION, few)
    missing = live.join(known, on="content_hash", how="anti").sort("content_hash")
    parts = [known]
    for batch in in_batches(missing.height, _BATCH_TEXTS):
        fresh = compute_features(missing[batch])
        write_text_keys(database, TEXT_VERSION, fresh)
        parts.append(fresh.select(known.columns).cast(dict(known.schema)))  # type: ignore[arg-type]
    return with_features(entries, pl.concat(parts).unique("content_hash")), missing.height


def with_features(entries: pl.DataFrame, features: pl.DataFrame) -> pl.DataFrame:
    """ENTRIES from entries without features and the features of their texts, each text once."""
    complete = entries.join(features, on="content_hash", how="left", maintain_order="left").with_columns(
        pl.col("secret_kinds").fill_null([]), pl.col("addresses_judge").fill_null(False)
    )
    return schemas.ENTRIES.select(complete)


def compute_features(texts: pl.DataFrame) -> pl.DataFrame:
    """content_hash, exact_key, merge_key, secret_kinds, addresses_judge of texts (columns content_hash, text)."""
    bodies = texts["text"].to_list()
    return pl.DataFrame(
        {
            "content_hash": texts["content_hash"],
            "exact_key": [exact_key(text) for text in bodies],
            "merge_key": [merge_key(text) for text in bodies],
            "secret_kinds": [list(kinds) for kinds in find_secrets(bodies)],
            "addresses_judge": [addresses_judge(text) for text in bodies],
        },
        schema={
            "content_hash": pl.String,
            "exact_key": pl.String,
            "merge_key": pl.String,
            "secret_kinds": pl.List(pl.String),
            "addresses_judge": pl.Boolean,
        },
    )


def merge_key(text: str) -> str | None:
    """Hash of the ordered canonical sequence and the specifics ledger; null for a text without tokens.

    Equal keys are all that two texts need to merge without a judge (X0, X1): the sequence leaves no residue, and the
    ledger, taken from the raw texts, is the second lock.
    """
    sequence = canonical_key(text)
    if sequence is None:
        return None
    ledger = sorted((tuple(specific), count) for specific, count in specifics(text).items())
    return hashlib.sha256(f"{sequence}\n{ledger!r}".encode()).hexdigest()
