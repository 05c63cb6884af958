"""Report tables: the rows of a week, replaced when the week is run again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kb_pipeline import schemas
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.report_tables import write_tables
from kb_pipeline_tests.stages.week_frames import HEADER, SECRET_WORD, WEEK, empty_week, week_frames


@pytest.fixture
def database(database_url: str) -> Database:
    found = Database(database_url)
    with found.transaction() as cursor:
        cursor.execute("INSERT INTO corpora (corpus) VALUES ('harbor'), ('other')")
    return found


def write(database: Database, week: Any) -> None:
    with database.transaction() as cursor:
        write_tables(cursor, week)


def rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    with database.transaction() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def test_rows_of_a_week_are_replaced(database: Database) -> None:
    write(database, week_frames())
    write(database, week_frames(header=replace(HEADER, corpus="other")))
    write(database, week_frames(header=replace(HEADER, week=WEEK - timedelta(weeks=1))))
    tables = {"h": "report_health", "p": "report_pairs", "r": "report_pruning"}
    kept = " UNION ".join(f"SELECT '{letter}', count(*) FROM {table}" for letter, table in tables.items())
    before = sorted(rows(database, kept))
    assert before == [("h", 9), ("p", 24), ("r", 9)]
    write(database, week_frames(header=replace(HEADER, run_id="run-again")))
    assert sorted(rows(database, kept)) == before
    runs = rows(database, f"SELECT DISTINCT run_id FROM report_pairs WHERE corpus = 'harbor' AND week = '{WEEK}'")
    assert runs == [("run-again",)]
    write(database, week_frames(verdicts=schemas.VERDICTS.empty()))
    assert rows(database, f"SELECT count(*) FROM report_pairs WHERE corpus = 'harbor' AND week = '{WEEK}'") == [(0,)]


def test_sums_are_the_numbers_of_the_corpus(database: Database) -> None:
    write(database, week_frames())
    totals = rows(database, "SELECT entry_count, active, conflicted, queue_length, retired, merged FROM health_trend")
    assert totals == [(24, 16, 4, 7, 2, 1)]
    assert rows(database, "SELECT sum(not_looked_at) FROM report_health") == [(2,)]


def test_values_travel_whole(database: Database) -> None:
    write(database, week_frames())
    found = rows(database, "SELECT specifics_only_l, similarity FROM report_pairs WHERE entry_id_l = 'e05'")
    assert found == [(["2"], 0.9874)]
    assert rows(database, "SELECT similarity, word_similarity FROM report_pairs WHERE band = 'lexical'") == [
        (None, 0.5217)
    ]
    hidden = rows(database, "SELECT specifics_only_l::text FROM report_pairs WHERE entry_id_l = 'e12'")
    assert SECRET_WORD not in hidden[0][0]
    kept = rows(database, "SELECT action, protected, rule FROM report_pruning WHERE entry_id = 'e11'")
    assert kept == [("keep", True, "retire.max_unmatched_days")]


def test_week_without_entries_leaves_a_trace(database: Database) -> None:
    write(database, empty_week())
    assert rows(database, "SELECT entry_count, evidence_coverage, queue_oldest_days FROM report_health") == [
        (0, None, None)
    ]
