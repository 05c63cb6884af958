"""Caches keyed by text: vectors, text keys and verdicts. Written as they are made; dropping a row only costs time.

Belongs here: asking only for what is missing. A text is never encoded, keyed or judged twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline.adapters.database import Cursor, Database, copy_in, one_of
from kb_pipeline.adapters.rows import canonical_json

_OF_CORPUS = (
    "SELECT v.content_hash FROM entry_versions v WHERE v.corpus = $1 "
    "UNION ALL SELECT d.content_hash FROM entry_edits d WHERE d.corpus = $1"
)


def read_text_keys(
    database: Database, corpus: str, text_version: str, content_hashes: Sequence[str] | None = None
) -> pl.DataFrame:
    """Known features of the corpus's texts: content_hash, exact_key, merge_key, secret_kinds, addresses_judge.

    Args:
        database: where from.
        corpus: the corpus.
        text_version: what the features were made with.
        content_hashes: these texts instead; for a few of them.
    """
    wanted, of = f"IN ({_OF_CORPUS})", corpus
    if content_hashes is not None:
        wanted, of = one_of(1), canonical_json(sorted(content_hashes))
    frame = database.read(
        "SELECT k.content_hash, k.exact_key, k.merge_key, k.secret_kinds::text AS secret_kinds, k.addresses_judge "
        f"FROM text_keys k WHERE k.text_version = $2 AND k.content_hash {wanted}",
        (of, text_version),
    )
    return frame.with_columns(pl.col("secret_kinds").cast(pl.String).str.json_decode(pl.List(pl.String)))


def write_text_keys(database: Database, text_version: str, frame: pl.DataFrame) -> None:
    """Adds features of texts: content_hash, exact_key, merge_key, secret_kinds, addresses_judge."""
    with database.transaction() as cursor:
        _insert_new(cursor, "text_keys", frame.with_columns(pl.lit(text_version).alias("text_version")))


def known_vectors(database: Database, corpus: str, model_fingerprint: str) -> pl.DataFrame:
    """How many vectors each text of the corpus has under a model: content_hash, window_count (0: nothing to encode)."""
    return database.read(
        "SELECT e.content_hash, count(e.vector)::bigint AS window_count FROM embeddings e "
        f"WHERE e.model_fingerprint = $2 AND e.content_hash IN ({_OF_CORPUS}) GROUP BY e.content_hash",
        (corpus, model_fingerprint),
    )


def write_vectors(
    database: Database,
    model_fingerprint: str,
    content_hashes: list[str],
    vectors: npt.NDArray[np.float32],
    owner: npt.NDArray[np.int64],
) -> None:
    """Adds vectors: float32 [W, d] rows, each belonging to ``content_hashes[owner]``.

    A text without a row gets a marker, so that it is not encoded again.
    """
    position = np.zeros(len(owner), dtype=np.int64)
    order = np.argsort(owner, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(owner[order]) != 0]) if len(owner) else np.empty(0, dtype=np.int64)
    lengths = np.diff(np.r_[starts, len(owner)])
    position[order] = np.arange(len(owner)) - np.repeat(starts, lengths)
    little = np.ascontiguousarray(vectors, dtype="<f4")
    rows = pl.DataFrame(
        {
            "content_hash": [content_hashes[i] for i in owner],
            "window_number": position,
            "vector": pl.Series([row.tobytes() for row in little], dtype=pl.Binary),
        },
        schema={"content_hash": pl.String, "window_number": pl.Int64, "vector": pl.Binary},
    )
    empty = sorted(set(range(len(content_hashes))) - set(owner.tolist()))
    markers = pl.DataFrame(
        {"content_hash": [content_hashes[i] for i in empty], "window_number": [0] * len(empty)},
        schema={"content_hash": pl.String, "window_number": pl.Int64},
    ).with_columns(pl.lit(None, dtype=pl.Binary).alias("vector"))
    with database.transaction() as cursor:
        frame = pl.concat([rows, markers]).with_columns(pl.lit(model_fingerprint).alias("model_fingerprint"))
        _insert_new(cursor, "embeddings", frame)


def read_vectors(
    database: Database, corpus: str, model_fingerprint: str, content_hashes: pl.Series
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The vectors of texts.

    Args:
        database: where from.
        corpus: corpus whose texts they are.
        model_fingerprint: model that made them: vectors of different models never meet.
        content_hashes: one text per position; texts may repeat.

    Returns:
        float32 [W, d] unit rows, and int64 [W]: the position in ``content_hashes`` that each row belongs to, ascending.
    """
    frame = database.read(
        "SELECT e.content_hash, e.window_number, e.vector FROM embeddings e WHERE e.model_fingerprint = $2 "
        f"AND e.vector IS NOT NULL AND e.content_hash IN ({_OF_CORPUS})",
        (corpus, model_fingerprint),
    )
    wanted = pl.DataFrame({"content_hash": content_hashes}).with_row_index("position")
    joined = wanted.join(frame, on="content_hash").sort("position", "window_number")
    owner = joined["position"].cast(pl.Int64).to_numpy()
    if joined.is_empty():
        return np.empty((0, 1), dtype=np.float32), owner
    joined_bytes = b"".join(joined["vector"].to_list())
    return np.frombuffer(joined_bytes, dtype="<f4").reshape(joined.height, -1).astype(np.float32), owner


def read_verdicts(database: Database, corpus: str, judge_fingerprint: str) -> pl.DataFrame:
    """Verdicts of a judge on pairs of the corpus's texts."""
    frame = database.read(
        "SELECT j.content_hash_l, j.content_hash_r, j.kind_l, j.kind_r, j.verdict, j.reason, j.judge, j.judge_confidence, "
        "j.explanation, j.specifics_only_l::text AS specifics_only_l, j.specifics_only_r::text AS specifics_only_r "
        f"FROM judge_verdicts j WHERE j.judge_fingerprint = $2 AND j.content_hash_l IN ({_OF_CORPUS})",
        (corpus, judge_fingerprint),
    )
    return with_specifics(frame)


def with_specifics(frame: pl.DataFrame) -> pl.DataFrame:
    """Replies as they came from the database, with lists for their JSON and types for what may be null throughout."""
    return frame.with_columns(
        pl.col("specifics_only_l", "specifics_only_r").cast(pl.String).str.json_decode(pl.List(pl.String)),
        pl.col("judge_confidence").cast(pl.Float64),
        pl.col("explanation").cast(pl.String),
    )


def write_verdicts(database: Database, judge_fingerprint: str, frame: pl.DataFrame) -> None:
    """Adds verdicts, columns as ``read_verdicts`` gives them."""
    with database.transaction() as cursor:
        _insert_new(cursor, "judge_verdicts", frame.with_columns(pl.lit(judge_fingerprint).alias("judge_fingerprint")))


def in_batches(count: int, size: int) -> Iterator[slice]:
    """Slices of at most ``size`` that cover ``count`` items."""
    for start in range(0, count, size):
        yield slice(start, start + size)


def _insert_new(cursor: Cursor, table: str, frame: pl.DataFrame) -> None:
    if frame.is_empty():
        return
    columns = ", ".join(frame.columns)
    cursor.execute(f"CREATE TEMP TABLE incoming ON COMMIT DROP AS SELECT {columns} FROM {table} WITH NO DATA")
    copy_in(cursor, "incoming", frame)
    cursor.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM incoming ON CONFLICT DO NOTHING")
    cursor.execute("DROP TABLE incoming")
