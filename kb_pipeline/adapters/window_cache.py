"""What a model read and found in passes over recent entries, kept by text (P2).

Belongs here: three tables that spare a second question. They are no state: findings take effect only as the questions of
a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from kb_pipeline.adapters.database import Database, copy_in

_DUPLICATES = ("scope", "kind", "content_hash_l", "content_hash_r", "confidence", "sentence", "suggested_body")
_ISSUES = ("scope", "kind", "content_hash", "severity", "sentence")
_READS = ("scope", "kind", "content_hash")


def known_reads(database: Database, corpus: str, reader: str) -> pl.DataFrame:
    """Texts that the model has read: scope, kind, content_hash."""
    return _read(database, "window_reads", _READS, corpus, reader).cast(pl.String)


def known_findings(database: Database, corpus: str, reader: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(duplicates, issues) that the model has found, with the columns that ``keep`` takes."""
    duplicates = _read(database, "window_duplicates", _DUPLICATES, corpus, reader)
    texts = [name for name in _DUPLICATES if name != "confidence"]
    return (
        duplicates.with_columns(pl.col(texts).cast(pl.String), pl.col("confidence").cast(pl.Float64)),
        _read(database, "window_issues", _ISSUES, corpus, reader).cast(pl.String),
    )


def keep(
    database: Database, corpus: str, reader: str, reads: pl.DataFrame, duplicates: pl.DataFrame, issues: pl.DataFrame
) -> None:
    """Keeps what a reading gave, in one transaction; of what is known already the first answer stands."""
    with database.transaction() as cursor:
        for table, columns, frame in (
            ("window_reads", _READS, reads),
            ("window_duplicates", _DUPLICATES, duplicates),
            ("window_issues", _ISSUES, issues),
        ):
            if frame.is_empty():
                continue
            names = ", ".join(("corpus", "reader_fingerprint", *columns))
            own = (pl.lit(corpus).alias("corpus"), pl.lit(reader).alias("reader_fingerprint"))
            cursor.execute(f"CREATE TEMP TABLE incoming ON COMMIT DROP AS SELECT {names} FROM {table} WITH NO DATA")
            copy_in(cursor, "incoming", frame.select(*own, *columns))
            cursor.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM incoming ON CONFLICT DO NOTHING")
            cursor.execute("DROP TABLE incoming")


def _read(database: Database, table: str, columns: Sequence[str], corpus: str, reader: str) -> pl.DataFrame:
    return database.read(
        f"SELECT {', '.join(columns)} FROM {table} WHERE corpus = $1 AND reader_fingerprint = $2 ORDER BY 1, 2, 3",
        (corpus, reader),
    )
