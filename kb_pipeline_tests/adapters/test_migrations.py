"""Migrations: order, checksums, failures, concurrency, and views that follow the schema."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline.adapters.database_url import connect
from kb_pipeline.adapters.migrations import migrate, pending, sql_root
from kb_pipeline.errors import MigrationError

Query = Callable[[str], list[tuple[Any, ...]]]

ENTRIES = """\
CREATE TABLE entries (entry_id text PRIMARY KEY, title text NOT NULL);
CREATE FUNCTION shout(text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN upper($1) || ';';  -- a semicolon and 100 % sign inside
END;
$$;
CREATE FUNCTION twice(integer) RETURNS integer LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT $1 * 2; END;
SELECT 'printed nowhere';
"""
TITLES = "CREATE VIEW titles AS SELECT title FROM entries;"


@pytest.fixture
def query(empty_database_url: str) -> Query:
    def run(statement: str) -> list[tuple[Any, ...]]:
        with closing(connect(empty_database_url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("migrations", "views"):
        (tmp_path / name).mkdir()
    (tmp_path / "migrations/0001_entries.sql").write_text(ENTRIES)
    (tmp_path / "views/titles.sql").write_text(TITLES)
    return tmp_path


def test_applies_in_order_once(
    empty_database_url: str, root: Path, query: Query, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "migrations/0010_last.sql").write_text("INSERT INTO entries VALUES ('b', 'second');")
    (root / "migrations/0002_first.sql").write_text("INSERT INTO entries VALUES ('a', 'first');")
    names = ["0001_entries.sql", "0002_first.sql", "0010_last.sql"]
    assert pending(empty_database_url, root) == names
    assert migrate(empty_database_url, root) == names
    assert pending(empty_database_url, root) == []
    assert migrate(empty_database_url, root) == []
    assert query("SELECT title FROM titles ORDER BY 1") == [("first",), ("second",)]
    assert query("SELECT shout('a'), twice(4)") == [("A;", 8)]
    assert capsys.readouterr().out == ""


def test_looking_at_what_is_pending_changes_nothing(empty_database_url: str, root: Path, query: Query) -> None:
    count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    pending(empty_database_url, root)
    assert query(count) == [(0,)]
    migrate(empty_database_url, root)
    assert query(count) == [(3,)]


@pytest.mark.parametrize("operation", [migrate, pending])
def test_refuses_an_edited_file(empty_database_url: str, root: Path, operation: Callable[..., Any]) -> None:
    migrate(empty_database_url, root)
    file = root / "migrations/0001_entries.sql"
    file.write_text(ENTRIES + "-- one more thought\n")
    with pytest.raises(MigrationError, match=r"0001_entries\.sql was edited .*: restore the file"):
        operation(empty_database_url, root)
    file.write_text(ENTRIES)
    operation(empty_database_url, root)


def test_line_ends_and_byte_order_mark_are_no_edit(empty_database_url: str, root: Path) -> None:
    migrate(empty_database_url, root)
    file = root / "migrations/0001_entries.sql"
    file.write_bytes(b"\xef\xbb\xbf" + ENTRIES.replace("\n", "\r\n").encode())
    assert migrate(empty_database_url, root) == []


def test_refuses_a_vanished_file(empty_database_url: str, root: Path) -> None:
    (root / "migrations/0002_more.sql").write_text("SELECT 1;")
    migrate(empty_database_url, root)
    (root / "migrations/0002_more.sql").rename(root / "migrations/0002_renamed.sql")
    with pytest.raises(MigrationError, match=r"0002_more\.sql was applied .* not among the files"):
        migrate(empty_database_url, root)


def test_refuses_a_file_that_comes_too_late(empty_database_url: str, root: Path) -> None:
    (root / "migrations/0003_third.sql").write_text("SELECT 1;")
    migrate(empty_database_url, root)
    (root / "migrations/0002_second.sql").write_text("SELECT 1;")
    with pytest.raises(MigrationError, match=r"0002_second\.sql comes before 0003_third\.sql"):
        migrate(empty_database_url, root)


@pytest.mark.parametrize(
    ("name", "said"),
    [("0001_other.sql", "0001_entries.sql and 0001_other.sql have the same number"), ("2_short.sql", "must look like")],
)
def test_refuses_wrong_names(empty_database_url: str, root: Path, query: Query, name: str, said: str) -> None:
    (root / "migrations" / name).write_text("SELECT 1;")
    with pytest.raises(MigrationError, match=said):
        migrate(empty_database_url, root)
    assert query("SELECT to_regclass('entries')") == [(None,)]


def test_a_failing_file_leaves_nothing_and_is_located(empty_database_url: str, root: Path, query: Query) -> None:
    bad = root / "migrations/0002_bad.sql"
    bad.write_text("CREATE TABLE half ();\n\nSELECT nonsense FROM half;\n")
    with pytest.raises(MigrationError, match=r'0002_bad\.sql failed in line 3: column "nonsense" does not exist\.'):
        migrate(empty_database_url, root)
    assert query("SELECT to_regclass('half'), to_regclass('entries')::text") == [(None, "entries")]
    bad.write_text("CREATE TABLE half ();")
    assert migrate(empty_database_url, root) == ["0002_bad.sql"]
    assert query("SELECT title FROM titles") == []


def test_refuses_a_file_that_ends_its_transaction(empty_database_url: str, root: Path) -> None:
    (root / "migrations/0002_own.sql").write_text("CREATE TABLE escaped (); COMMIT; BEGIN; SELECT 1;")
    with pytest.raises(MigrationError, match=r"0002_own\.sql must not hold BEGIN, COMMIT"):
        migrate(empty_database_url, root)


def test_views_are_made_anew_when_they_changed(empty_database_url: str, root: Path, query: Query) -> None:
    (root / "views/upper_titles.sql").write_text(
        "CREATE VIEW upper_titles AS SELECT upper(title) AS title FROM titles;"
    )
    migrate(empty_database_url, root)
    identity = "SELECT 'titles'::regclass::oid"
    before = query(identity)
    migrate(empty_database_url, root)
    assert query(identity) == before
    (root / "views/titles.sql").write_text(TITLES.replace("title FROM", "title, entry_id FROM"))
    migrate(empty_database_url, root)
    assert query(identity) != before
    assert query("SELECT entry_id FROM titles") == []
    (root / "views/upper_titles.sql").unlink()
    migrate(empty_database_url, root)
    assert query("SELECT to_regclass('upper_titles'), to_regclass('titles')::text") == [(None, "titles")]


def test_a_column_under_a_view_can_be_altered(empty_database_url: str, root: Path, query: Query) -> None:
    (root / "views/folded.sql").write_text("CREATE MATERIALIZED VIEW folded AS SELECT lower(title) FROM entries;")
    migrate(empty_database_url, root)
    (root / "migrations/0002_alter.sql").write_text("ALTER TABLE entries ALTER title TYPE varchar(99);")
    assert migrate(empty_database_url, root) == ["0002_alter.sql"]
    assert query("SELECT title FROM titles") == query("SELECT * FROM folded") == []


def test_a_failing_migration_keeps_the_views(empty_database_url: str, root: Path, query: Query) -> None:
    migrate(empty_database_url, root)
    (root / "migrations/0002_bad.sql").write_text("SELECT nonsense;")
    with pytest.raises(MigrationError):
        migrate(empty_database_url, root)
    assert query("SELECT title FROM titles") == []


def test_a_view_of_the_users_own_is_not_dropped(empty_database_url: str, root: Path, query: Query) -> None:
    migrate(empty_database_url, root)
    query("CREATE VIEW mine AS SELECT * FROM titles")
    (root / "views/titles.sql").write_text(TITLES + "\n-- changed")
    with pytest.raises(MigrationError, match="view mine depends on view titles"):
        migrate(empty_database_url, root)
    query("DROP VIEW mine")
    assert migrate(empty_database_url, root) == []


def test_several_at_once_apply_each_file_once(empty_database_url: str, root: Path, query: Query) -> None:
    (root / "migrations/0002_slow.sql").write_text("SELECT pg_sleep(0.3); CREATE TABLE slow ();")
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(migrate(empty_database_url, root))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[], [], [], ["0001_entries.sql", "0002_slow.sql"]]


def test_a_killed_migration_is_done_again(empty_database_url: str, root: Path, query: Query) -> None:
    slow = root / "migrations/0002_slow.sql"
    slow.write_text("CREATE TABLE slow (); SELECT pg_sleep(60);")
    program = "import sys; from pathlib import Path; from kb_pipeline.adapters.migrations import migrate; "
    program += "migrate(sys.argv[1], Path(sys.argv[2]))"
    victim = subprocess.Popen([sys.executable, "-c", program, empty_database_url, str(root)])
    while query("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE TABLE slow%'") == [(0,)]:
        assert victim.poll() is None
    victim.kill()
    victim.wait()
    slow.write_text("CREATE TABLE slow ();")
    # The server notices a vanished client only now and then; its session is ended here to save the time.
    query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE TABLE slow%'")
    assert migrate(empty_database_url, root) == ["0002_slow.sql"]


def test_the_projects_own_files_apply(empty_database_url: str) -> None:
    files = sorted(path.name for path in (sql_root() / "migrations").glob("*.sql"))
    assert files
    assert migrate(empty_database_url) == files
    assert migrate(empty_database_url) == []
