"""Vectors for a corpus: encodes what the cache does not hold, and says which texts have vectors.

Belongs here: the meeting of encoder and cache. A text is never encoded twice for one model.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.caches import in_batches, known_vectors, write_vectors
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.encoder import Encoder
from kb_pipeline.vocabulary import LIVE_STATES

_BATCH_TEXTS = 2_048


def encode_missing(
    database: Database,
    corpus: str,
    entries: pl.DataFrame,
    encoder: Encoder,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[pl.DataFrame, int]:
    """EMBEDDINGS of the live entries, in the order of ``entries``, and how many texts were encoded now.

    Args:
        database: where the cache is.
        corpus: corpus of the entries.
        entries: ENTRIES.
        encoder: model in force.
        progress: told (texts done, texts to do) after each batch.
    """
    live = entries.filter(pl.col("state").is_in(LIVE_STATES)).select("entry_id", "content_hash", "text")
    known = known_vectors(database, corpus, encoder.fingerprint)
    missing = live.unique("content_hash").join(known, on="content_hash", how="anti").sort("content_hash")
    for batch in in_batches(missing.height, _BATCH_TEXTS):
        part = missing[batch]
        vectors, owner = encoder.encode(part["text"].to_list())
        write_vectors(database, encoder.fingerprint, part["content_hash"].to_list(), vectors, owner)
        if progress:
            progress(min(batch.stop, missing.height), missing.height)
    if missing.height:
        known = known_vectors(database, corpus, encoder.fingerprint)
    frame = live.join(known, on="content_hash", how="left", maintain_order="left").with_columns(
        pl.col("window_count").fill_null(0)
    )
    return schemas.EMBEDDINGS.select(frame), missing.height
