"""Connections: reads that outlive a restart, COPY that changes no value, transactions and corpus locks."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime
from typing import Any

import polars as pl
import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.adapters.database import Database, copy_in
from kb_pipeline.errors import CorpusBusyError, DatabaseError


@pytest.fixture
def database(shared_database_url: str) -> Database:
    return Database(shared_database_url)


def test_reads_take_parameters_and_keep_types(database: Database) -> None:
    frame = database.read("SELECT $1::text AS t, $2::bigint AS n, $3::text IS NULL AS gone", ("é", 2**40, None))
    assert frame.rows() == [("é", 2**40, True)]
    frame = database.read("SELECT timestamptz '2026-01-02 03:04:05.678901+00' AS at, NULL::float8 AS nothing")
    assert frame["at"].to_list() == [datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)]
    assert database.read("SELECT 1 AS n WHERE false").is_empty()


def test_a_read_sees_what_was_committed_a_moment_ago(database: Database) -> None:
    assert database.read("SELECT 1 AS n").height == 1
    with database.transaction() as cursor:
        cursor.execute("CREATE TABLE seen (n int)")
        cursor.execute("INSERT INTO seen VALUES (1)")
    assert database.read("SELECT n FROM seen").height == 1
    with database.transaction() as cursor:
        cursor.execute("INSERT INTO seen VALUES (2)")
    assert database.read("SELECT n FROM seen").height == 2
    with database.transaction() as cursor:
        cursor.execute("DROP TABLE seen")


def test_a_read_outlives_a_lost_connection(database: Database) -> None:
    pid = database.read("SELECT pg_backend_pid() AS pid")["pid"][0]
    with database.transaction() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", (pid,))
    again = database.read("SELECT pg_backend_pid() AS pid")["pid"][0]
    assert again != pid
    assert database.read("SELECT pg_backend_pid() AS pid")["pid"][0] == again
    with pytest.raises(DatabaseError, match="did not answer"):
        database.read("SELECT pg_terminate_backend(pg_backend_pid())")
    assert database.read("SELECT 1 AS n").height == 1


def test_threads_read_through_connections_of_their_own(database: Database) -> None:
    pids: list[int] = []

    def read() -> None:
        pids.extend(database.read("SELECT pg_backend_pid() AS pid")["pid"])

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read()
    assert len(set(pids)) == 4


def test_a_server_that_is_not_there(database: Database) -> None:
    nowhere = Database("postgresql://kb:secret-word@127.0.0.1:1/none")
    for attempt in (lambda: nowhere.read("SELECT 1"), lambda: nowhere.transaction().__enter__()):
        with pytest.raises(DatabaseError) as error:
            attempt()
        assert "secret-word" not in str(error.value)
        assert "\n" not in str(error.value)
    assert database.read("SELECT 1 AS n").height == 1


def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    with database.transaction() as cursor:
        cursor.execute("CREATE TABLE whole (n int PRIMARY KEY)")
    with pytest.raises(ZeroDivisionError), database.transaction() as cursor:
        cursor.execute("INSERT INTO whole VALUES (1)")
        _ = 1 / 0
    with pytest.raises(psycopg2.IntegrityError), database.transaction() as cursor:
        cursor.execute("INSERT INTO whole VALUES (1), (1)")
    with pytest.raises(DatabaseError), database.transaction() as cursor:
        cursor.execute("INSERT INTO whole VALUES (1)")
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert database.read("SELECT n FROM whole").is_empty()
    with database.transaction() as cursor:
        cursor.execute("INSERT INTO whole VALUES (1)")
    assert database.read("SELECT n FROM whole").height == 1
    with database.transaction() as cursor:
        cursor.execute("DROP TABLE whole")


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12) | st.sampled_from(
    ["\\N", "", "\\.", '"', "\\", "\r\n", "null", "NaN", ",", "\ufeff", "{}"]
)
ROW = st.fixed_dictionaries(
    {
        "t": st.none() | TEXT,
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False),
        "b": st.none() | st.booleans(),
        "at": st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
        "bytes": st.none() | st.binary(max_size=8),
        "texts": st.none() | st.lists(TEXT, max_size=3),
    }
)
SCHEMA: dict[str, Any] = {
    "t": pl.String, "n": pl.Int64, "x": pl.Float64, "b": pl.Boolean, "at": schemas.Time, "bytes": pl.Binary,
    "texts": pl.List(pl.String),
}  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, max_size=5))
def test_copy_changes_no_value(database: Database, rows: list[dict[str, Any]]) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA).with_row_index("row")
    with database.transaction() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE kept (row int, t text, n bigint, x float8, b boolean, at timestamptz, bytes bytea, "
            "texts json)"
        )
        assert copy_in(cursor, "kept", frame) == len(rows)
        cursor.execute("SELECT t, n, x, b, at, bytes, texts FROM kept ORDER BY row")
        back = cursor.fetchall()
    for row, (t, n, x, b, at, raw, texts) in zip(rows, back, strict=True):
        assert (t, n, x, b, at) == (row["t"], row["n"], row["x"], row["b"], row["at"])
        assert (None if raw is None else bytes(raw)) == row["bytes"]
        assert texts == row["texts"]


HOLDER = """
import sys, time
from kb_pipeline.adapters.database import Database
with Database(sys.argv[1]).corpus_lock(sys.argv[2]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_corpus_is_held_by_one_and_freed_by_a_killed_process(database: Database) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, database.url, "red"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(CorpusBusyError, match="'red'") as error, database.corpus_lock("red"):
            pass
        assert error.value.exit_code == 1
        with database.corpus_lock("blue"):  # another corpus is free
            pass
        process.kill()
        process.wait()
        with database.corpus_lock("red", wait=True), pytest.raises(CorpusBusyError), database.corpus_lock("red"):
            pass
        with database.corpus_lock("red"):
            pass
    finally:
        process.kill()
        process.wait()


def test_a_lock_is_free_at_once_when_its_block_ends(database: Database) -> None:
    for _ in range(200):
        with database.corpus_lock("red"):
            pass


def test_a_lock_is_freed_when_its_work_fails(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.corpus_lock("red"):
        _ = 1 / 0
    with database.corpus_lock("red"):
        pass


def test_a_lock_can_be_waited_for(database: Database) -> None:
    order: list[str] = []
    ready = threading.Event()

    def second() -> None:
        ready.set()
        with database.corpus_lock("red", wait=True):
            order.append("second")

    with database.corpus_lock("red"):
        thread = threading.Thread(target=second)
        thread.start()
        ready.wait()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_queries_are_planned_with_their_arguments(database: Database) -> None:
    # Else the projections, called for the sixth time on one connection, join in nested loops.
    for _ in range(7):
        setting = database.read("SELECT current_setting('plan_cache_mode') AS mode")["mode"]
        assert setting.to_list() == ["force_custom_plan"]
    with database.transaction() as cursor:
        cursor.execute("SHOW plan_cache_mode")
        assert cursor.fetchone() == ("force_custom_plan",)
