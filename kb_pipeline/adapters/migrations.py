"""Schema of the database: numbered plain-SQL migrations, and the views that analysts read.

Belongs here: bringing a database up to the files of ``sql/migrations`` and ``sql/views``. Does not belong here: what
the tables mean. Why this is done here and not by a library: docs/decisions/0002.

Rules for the files:

* ``sql/migrations/NNNN_what_it_does.sql``: applied once each, by number, each in a transaction of its own together with
  its record in ``schema_migrations``. Once applied, a file is never edited, renamed or removed, and nothing is put
  before it: what was recorded (a SHA-256 of the text) and the files must agree, or the database is refused.
* ``sql/views/*.sql``: always show the present. When a file or the schema changed, all views are dropped and made anew,
  by file name, so a view may build on views of earlier names. They are dropped before the first pending migration (a
  table under a view cannot be altered) and made in the transaction of the last.

An advisory lock lets one process migrate at a time; it falls with its connection, also after a ``kill -9``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import psycopg2
import psycopg2.extensions
from psycopg2 import sql

from kb_pipeline.adapters.database_url import connect
from kb_pipeline.errors import MigrationError

_FILE_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")
_LOCK_KEY = 5_701_203_641_178  # any number that nobody else uses
_RECORDS = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS schema_views (
    name text PRIMARY KEY, position integer NOT NULL, materialized boolean NOT NULL, checksum text NOT NULL
);
"""

Cursor: TypeAlias = psycopg2.extensions.cursor


@dataclass(frozen=True)
class _File:
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def sql_root() -> Path:
    """Directory with ``migrations``, ``views`` and ``queries``: in the installed package, else at the project's root.

    Raises:
        MigrationError: neither is there.
    """
    package = Path(__file__).parents[1]
    for place in (package / "sql", package.parent / "sql"):
        if place.is_dir():
            return place
    raise MigrationError(f"the SQL files of kb_pipeline are missing beside {package}: install the package again.")


def migrate(url: str, root: Path | None = None) -> list[str]:
    """Applies what is pending and makes the views anew if they changed. Repeating it changes nothing.

    Args:
        url: libpq URL of the database.
        root: directory with ``migrations`` and ``views``; by default the project's own.

    Returns:
        Names of the migration files that were applied now, in order.

    Raises:
        MigrationError: names the file that was edited, vanished, came too late or failed. A file that fails leaves
            nothing behind; those before it stay applied.
        DatabaseError: the database cannot be reached.
    """
    root = root or sql_root()
    views = _files(root / "views")
    with closing(connect(url)) as connection:
        with _transaction(connection, "the tables that record migrations") as cursor:
            # The lock outlives this transaction: it belongs to the session.
            cursor.execute("SELECT pg_advisory_lock(%s)", (_LOCK_KEY,))
            cursor.execute(_RECORDS)
        todo = _pending(connection, root)
        for migration in todo:
            with _transaction(connection, migration.name) as cursor:
                if migration is todo[0]:
                    _drop_views(cursor)
                _execute(cursor, migration)
                cursor.execute(
                    "INSERT INTO schema_migrations (name, checksum) VALUES (%s, %s)",
                    (migration.name, migration.checksum),
                )
                if migration is todo[-1]:
                    _create_views(cursor, views)
        if not todo:
            with _transaction(connection, "the views") as cursor:
                if _views_checksum(views) != _recorded_views_checksum(cursor):
                    _drop_views(cursor)
                    _create_views(cursor, views)
    return [migration.name for migration in todo]


def pending(url: str, root: Path | None = None) -> list[str]:
    """Names of the migration files that ``migrate`` would apply, in order; changes nothing.

    Raises:
        MigrationError: the records of the database and the files disagree.
        DatabaseError: the database cannot be reached.
    """
    with closing(connect(url)) as connection:
        return [migration.name for migration in _pending(connection, root or sql_root())]


def _pending(connection: psycopg2.extensions.connection, root: Path) -> list[_File]:
    files = _files(root / "migrations")
    numbers: dict[str, str] = {}
    for file in files:
        match = _FILE_NAME.match(file.name)
        if match is None:
            raise MigrationError(f"migration {file.name}: the name must look like 0001_what_it_does.sql.")
        other = numbers.setdefault(match[1], file.name)
        if other != file.name:
            raise MigrationError(f"migrations {other} and {file.name} have the same number: renumber the newer one.")
    with _transaction(connection, "the record of migrations") as cursor:
        cursor.execute("SELECT to_regclass('schema_migrations') IS NOT NULL")
        applied: dict[str, str] = {}
        if cursor.fetchone() == (True,):
            cursor.execute("SELECT name, checksum FROM schema_migrations")
            applied = dict(cursor.fetchall())
    by_name = {file.name: file for file in files}
    for name, checksum in sorted(applied.items()):
        if name not in by_name:
            raise MigrationError(
                f"migration {name} was applied to this database but is not among the files of {root / 'migrations'}: "
                "bring the file back, or install the version of kb_pipeline that made the database."
            )
        if by_name[name].checksum != checksum:
            raise MigrationError(
                f"migration {name} was edited after it had been applied to this database: restore the file and put the "
                "change into a new migration."
            )
    todo = [file for file in files if file.name not in applied]
    if todo and applied and todo[0].name < max(applied):
        raise MigrationError(
            f"migration {todo[0].name} comes before {max(applied)}, which was already applied to this database: "
            "give it the next free number."
        )
    return todo


def _files(directory: Path) -> list[_File]:
    """SQL files by name. Line ends and a byte order mark, which version control may change, are no part of the text."""
    if not directory.is_dir():
        return []
    return [
        _File(path.name, path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
        for path in sorted(directory.glob("*.sql"), key=lambda path: path.name)
    ]


def _drop_views(cursor: Cursor) -> None:
    cursor.execute("SELECT name, materialized FROM schema_views ORDER BY position DESC")
    for name, materialized in cursor.fetchall():
        kind = sql.SQL("MATERIALIZED VIEW" if materialized else "VIEW")
        # A view of the user's own on top of ours is not dropped with it: PostgreSQL names it in its refusal.
        cursor.execute(sql.SQL("DROP {} IF EXISTS {}").format(kind, sql.Identifier(*name.split(".", 1))))
    cursor.execute("DELETE FROM schema_views")


def _create_views(cursor: Cursor, views: list[_File]) -> None:
    """Runs the files and records which views each of them made, whatever their names and schemas."""
    checksum = _views_checksum(views)
    position = 0
    before = _present_views(cursor)
    for file in views:
        _execute(cursor, file)
        after = _present_views(cursor)
        for view_id in sorted(after.keys() - before.keys()):
            name, materialized = after[view_id]
            position += 1
            cursor.execute(
                "INSERT INTO schema_views (name, position, materialized, checksum) VALUES (%s, %s, %s, %s)",
                (name, position, materialized, checksum),
            )
        before = after


def _present_views(cursor: Cursor) -> dict[int, tuple[str, bool]]:
    cursor.execute(
        "SELECT c.oid, n.nspname || '.' || c.relname, c.relkind = 'm' FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('v', 'm') "
        "AND n.nspname !~ '^(pg_|information_schema$)'"
    )
    return {view_id: (name, materialized) for view_id, name, materialized in cursor.fetchall()}


def _views_checksum(views: list[_File]) -> str | None:
    text = "".join(f"{file.name} {file.checksum}\n" for file in views)
    return hashlib.sha256(text.encode()).hexdigest() if views else None


def _recorded_views_checksum(cursor: Cursor) -> str | None:
    cursor.execute("SELECT min(checksum) FROM schema_views")
    row = cursor.fetchone()
    return row[0] if row else None


def _execute(cursor: Cursor, file: _File) -> None:
    """Runs a whole file as it stands: PostgreSQL itself tells its statements apart.

    Raises:
        MigrationError: the SQL is wrong (with its line), or the file ends the transaction that it runs in.
    """
    cursor.execute("SELECT pg_current_xact_id()::text")
    transaction = cursor.fetchone()
    try:
        if file.text.strip():
            cursor.execute(file.text)
        cursor.execute("SELECT pg_current_xact_id()::text")
    except psycopg2.Error as error:
        position = error.diag.statement_position
        line = f" in line {file.text.count(chr(10), 0, int(position) - 1) + 1}" if position else ""
        raise MigrationError(
            f"{file.name} failed{line}: {_reason(error)}. Nothing of it was applied; correct the file and try again."
        ) from error
    if cursor.fetchone() != transaction:
        raise MigrationError(f"{file.name} must not hold BEGIN, COMMIT or ROLLBACK: it runs in one transaction.")


@contextmanager
def _transaction(connection: psycopg2.extensions.connection, what: str) -> Iterator[Cursor]:
    try:
        with connection, connection.cursor() as cursor:
            yield cursor
    except psycopg2.Error as error:
        raise MigrationError(f"{what} could not be brought up to date: {_reason(error)}.") from error


def _reason(error: psycopg2.Error) -> str:
    """What the server says, with its detail (such as the view that stands in the way)."""
    said = [error.diag.message_primary or " ".join(str(error).split()), error.diag.message_detail]
    return " ".join(" ".join(part.split()) for part in said if part).rstrip(".")
