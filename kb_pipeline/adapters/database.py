"""Connections to the project's Postgres: bulk reads as Arrow, bulk writes by COPY, transactions and corpus locks.

Belongs here: how rows travel. Does not belong here: what they mean (snapshots, runs, applying, ...) nor where the
server is (database_url).
"""

from __future__ import annotations

import atexit
import io
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl
import psycopg2
import psycopg2.errors
import psycopg2.extensions

from kb_pipeline.adapters.database_url import connect
from kb_pipeline.errors import CorpusBusyError, DatabaseError

Cursor: TypeAlias = psycopg2.extensions.cursor

_CHUNK_ROWS = 50_000

_KNOWN_ARGUMENTS = "SET plan_cache_mode = force_custom_plan"
"""Without it, a function that was called five times is planned without its arguments: the projections then expect one
row, join in nested loops, and take minutes for what takes a second."""


@dataclass(frozen=True)
class Database:
    """The project's database under one libpq URL."""

    url: str

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """A cursor in one transaction: committed at the end, rolled back on any error.

        Raises:
            DatabaseError: the server went away or cannot be reached.
        """
        connection = connect(self.url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(_KNOWN_ARGUMENTS)
                yield cursor
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise DatabaseError(_one_sentence(error)) from error
        finally:
            connection.close()

    def read(self, query: str, parameters: Sequence[Any] = ()) -> pl.DataFrame:
        """Rows of a query (parameters as ``$1``, ``$2``, ...) as a Polars frame, moved as Arrow batches.

        Raises:
            DatabaseError: the server went away or cannot be reached.
        """
        import adbc_driver_postgresql.dbapi as adbc

        is_used = _reader.held is not None
        try:
            with _reader.connection(self.url).cursor() as cursor:
                cursor.execute(query, tuple(parameters) or None)
                table = cursor.fetch_arrow_table()
        except adbc.OperationalError as error:
            _reader.drop()
            if is_used:  # the server may have been started anew since the last query
                return self.read(query, parameters)
            raise DatabaseError(_one_sentence(error)) from error
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table always becomes a frame
        return frame

    @contextmanager
    def corpus_lock(self, corpus: str, *, wait: bool = False, wait_seconds: float = 0) -> Iterator[None]:
        """Holds the corpus against other runs and imports for as long as the block lasts.

        The lock belongs to the session of its own connection, so that a killed process frees it.

        Args:
            corpus: corpus to hold.
            wait: wait for the present holder instead of refusing.
            wait_seconds: wait so long before refusing.

        Raises:
            CorpusBusyError: somebody else holds the corpus and ``wait`` is false.
        """
        connection = connect(self.url)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                if wait_seconds:
                    cursor.execute("SELECT set_config('lock_timeout', %s, false)", (f"{int(wait_seconds * 1000)}ms",))
                if wait or wait_seconds:
                    try:
                        cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 4021))", (corpus,))
                    except psycopg2.errors.LockNotAvailable as error:
                        raise CorpusBusyError(corpus) from error
                else:
                    cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 4021))", (corpus,))
                    row = cursor.fetchone()
                    if row is None or not row[0]:
                        raise CorpusBusyError(corpus)
            yield
        finally:
            # The server notices a closed connection a moment later: without this, whoever comes next may be refused.
            # A connection that was lost has lost its lock.
            with suppress(psycopg2.OperationalError, psycopg2.InterfaceError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock_all()")
            connection.close()


class _Reader(threading.local):
    """The connection for reads of one thread, kept open: a new one costs more than most queries.

    Every query is a transaction of its own, so nothing is held between two of them.
    """

    held: tuple[str, int, Any] | None = None

    def connection(self, url: str) -> Any:
        """An open ADBC connection to this URL, of this process."""
        import adbc_driver_postgresql.dbapi as adbc

        if self.held is None or self.held[:2] != (url, os.getpid()):
            self.drop()
            connection = adbc.connect(url, autocommit=True)
            with connection.cursor() as cursor:
                cursor.execute(_KNOWN_ARGUMENTS)
            self.held = (url, os.getpid(), connection)
        return self.held[2]

    def drop(self) -> None:
        """Closes the connection. One of the process that this one was forked from stays open: it is in use there."""
        if self.held is not None and self.held[1] == os.getpid():
            self.held[2].close()
        elif self.held is not None:
            _inherited.append(self.held[2])
        self.held = None


_inherited: list[Any] = []
_reader = _Reader()
atexit.register(_reader.drop)


def one_of(parameter: int) -> str:
    """SQL of "is one of": a parameter of ``Database.read`` by its number, a JSON list of a few names.

    Behind IN, the server would take the list for so many names that it reads the whole table instead of looking them up.
    """
    return f"= ANY (ARRAY(SELECT m.value FROM json_array_elements_text(${parameter}::json) m))"


def copy_in(cursor: Cursor, table: str, frame: pl.DataFrame) -> int:
    """Appends a frame to a table by COPY; columns go by name, lists and structs as JSON. Returns the number of rows."""
    if frame.is_empty():
        return 0
    frame = frame.with_columns(
        pl.Series(name, [None if v is None else _json(v) for v in frame[name].to_list()], dtype=pl.String)
        for name, dtype in frame.schema.items()
        if dtype.is_nested()
    ).with_columns(
        ("\\x" + pl.col(name).bin.encode("hex")).alias(name)
        for name, dtype in frame.schema.items()
        if dtype == pl.Binary
    )
    columns = ", ".join(f'"{name}"' for name in frame.columns)
    statement = f"COPY {table} ({columns}) FROM STDIN (FORMAT csv, NULL '\\N')"
    for start in range(0, frame.height, _CHUNK_ROWS):
        buffer = io.BytesIO()
        # Strings are always quoted, so that an empty string and a string of \N are never taken for null.
        frame[start : start + _CHUNK_ROWS].write_csv(
            buffer, include_header=False, null_value="\\N", quote_style="non_numeric"
        )
        buffer.seek(0)
        cursor.copy_expert(statement, buffer)
    return frame.height


def _json(value: Any) -> str:
    from kb_pipeline.adapters.rows import canonical_json

    return canonical_json(value)


def _one_sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"the database did not answer as it should: {text}. Check that it runs and try again."
