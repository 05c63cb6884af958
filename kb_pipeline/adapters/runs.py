"""Runs: which week may be curated, as of when, seeing what; and the table of runs.

Belongs here: the order of weeks (definitions, "Time") and its guard, which holds whoever starts a run - the command
line, the Dagster UI or a backfill - because it reads the database and nothing else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from kb_pipeline.adapters.database import Cursor, Database
from kb_pipeline.adapters.exporting import last_change, require_corpus
from kb_pipeline.adapters.importing import last_complete_week
from kb_pipeline.adapters.rows import canonical_json
from kb_pipeline.errors import RollbackError, UnknownNameError, WeekError
from kb_pipeline.vocabulary import ActionType, JobType, Mode, RunStatus

_WEEKLY = f"job_type = '{JobType.CURATE}'"
"""Passes over recent entries (passes) are runs too, but no weeks: they neither open nor close one."""


@dataclass(frozen=True)
class Run:
    """One run of one corpus: all that its steps need to know of it. A pass bears the week that it falls into."""

    run_id: str
    corpus: str
    week: date
    as_of: datetime
    partial: bool
    epoch: int
    profile: str
    mode: Mode
    policy_fingerprint: str
    snapshot_change_id: int
    rerun_of: str | None
    actor: str
    job_type: JobType = JobType.CURATE


def parse_week(text: str) -> date:
    """A week named by its Monday.

    Raises:
        WeekError: not a date, or not a Monday; names the Monday of that week.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise WeekError(f"week {text!r} is not a date; name a week by its Monday, as in 2026-11-16") from error
    if day.weekday() != 0:
        monday = day - timedelta(days=day.weekday())
        raise WeekError(f"week {text!r} is a {day:%A}; weeks are named by their Monday, here {monday}")
    return day


def week_start(week: date) -> datetime:
    """Monday 00:00 UTC of a week."""
    return datetime(week.year, week.month, week.day, tzinfo=UTC)


def default_week(database: Database, corpus: str, now: datetime) -> date:
    """The last complete week; the running one when the corpus holds nothing visible by then."""
    require_corpus(database, corpus)
    complete = last_complete_week(now)
    end = complete + timedelta(days=7)
    seen = database.read(
        "SELECT EXISTS (SELECT 1 FROM entry_versions WHERE corpus = $1 AND effective_at < $2) AS seen", (corpus, end)
    )
    return complete.date() if seen["seen"][0] else end.date()


def open_run(
    database: Database,
    *,
    run_id: str,
    corpus: str,
    week: date,
    profile: str,
    mode: Mode,
    policy_fingerprint: str,
    actor: str,
    now: datetime,
) -> Run:
    """Checks that the week may be curated and records the run. The caller holds the corpus lock.

    Raises:
        UnknownNameError: no such corpus.
        WeekError: the week lies in the future, or before (or under another policy at) one that was applied.
    """
    require_corpus(database, corpus)
    start = week_start(week)
    end = start + timedelta(days=7)
    refuse_future(week, now)
    partial = end > now
    as_of = now.replace(microsecond=0) if partial else end
    with database.transaction() as cursor:
        end_killed(cursor, corpus)
        finished = _finished(cursor, corpus)
        rerun = _rerun(finished, week, as_of, policy_fingerprint)
        if rerun is None:
            _refuse_going_back(finished, corpus, week, as_of)
        epoch = _epoch(cursor, corpus, week)
        run = Run(
            run_id=run_id,
            corpus=corpus,
            week=week,
            as_of=as_of,
            partial=partial,
            epoch=epoch,
            profile=profile,
            mode=mode,
            policy_fingerprint=policy_fingerprint,
            snapshot_change_id=rerun["snapshot_change_id"] if rerun else last_change(database, corpus),
            rerun_of=rerun["run_id"] if rerun else None,
            actor=actor,
        )
        cursor.execute(
            "INSERT INTO memory_maintenance_jobs (run_id, corpus, week, as_of, partial, epoch, job_type, profile, "
            "mode, status, policy_fingerprint, snapshot_change_id, rerun_of, actor_id) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
            # A step that Dagster repeats within one run finds its own row, and reads the corpus anew.
            "ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, completed_at = NULL, message = NULL, "
            "as_of = excluded.as_of, partial = excluded.partial, epoch = excluded.epoch, rerun_of = excluded.rerun_of, "
            "snapshot_change_id = excluded.snapshot_change_id",
            (
                run.run_id, corpus, week, as_of, partial, epoch, JobType.CURATE, profile, mode, RunStatus.RUNNING,
                policy_fingerprint, run.snapshot_change_id, run.rerun_of, actor,
            ),
        )  # fmt: skip
    return run


def end_killed(cursor: Cursor, corpus: str) -> None:
    """Records runs of the corpus that still claim to be running as failed. The lock is the caller's: they were killed."""
    cursor.execute(
        "UPDATE memory_maintenance_jobs SET status = %s, completed_at = now(), message = %s "
        "WHERE corpus = %s AND status = %s",
        (RunStatus.FAILED, "the process ended before the run did; nothing was applied", corpus, RunStatus.RUNNING),
    )


def load_run(database: Database, run_id: str) -> Run:
    """The run as it was recorded.

    Raises:
        UnknownNameError: no such run.
    """
    frame = database.read(
        "SELECT run_id, corpus, week, as_of, partial, epoch, profile, mode, policy_fingerprint, snapshot_change_id, "
        "rerun_of, actor_id AS actor, job_type FROM memory_maintenance_jobs WHERE run_id = $1",
        (run_id,),
    )
    if frame.is_empty():
        raise UnknownNameError("run", run_id, [], "kb runs lists them.")
    row = frame.row(0, named=True)
    return Run(**(row | {"mode": Mode(row["mode"]), "job_type": JobType(row["job_type"])}))


def latest_run(database: Database, corpus: str, week: date) -> Run:
    """The run that the frames of this partition belong to: the last one that was opened.

    Raises:
        WeekError: the week was never begun.
    """
    frame = database.read(
        f"SELECT run_id FROM memory_maintenance_jobs WHERE corpus = $1 AND week = $2 AND {_WEEKLY} "
        "ORDER BY started_at DESC LIMIT 1",
        (corpus, week),
    )
    if frame.is_empty():
        raise WeekError(f"week {week} of corpus {corpus!r} was never begun; materialize knowledge_entries first")
    return load_run(database, frame["run_id"][0])


def add_counts(database: Database, run_id: str, **numbers: Any) -> None:
    """Records what a step of the run counted. A run that is over keeps its numbers, whatever is looked at again."""
    with database.transaction() as cursor:
        cursor.execute(
            "UPDATE memory_maintenance_jobs SET counts = counts || %s::jsonb WHERE run_id = %s AND status = %s",
            (canonical_json(numbers), run_id, RunStatus.RUNNING),
        )


def load_counts(database: Database, run_id: str) -> dict[str, Any]:
    """What the steps of a run have counted so far."""
    frame = database.read("SELECT counts::text AS counts FROM memory_maintenance_jobs WHERE run_id = $1", (run_id,))
    counts: dict[str, Any] = json.loads(frame["counts"][0]) if frame.height else {}
    return counts


def close_run(database: Database, run_id: str, status: RunStatus, *, message: str | None = None) -> None:
    """Records how a run ended. A run that is over keeps its first end."""
    with database.transaction() as cursor:
        cursor.execute(
            "UPDATE memory_maintenance_jobs SET status = %s, completed_at = now(), message = %s "
            "WHERE run_id = %s AND status = %s",
            (status, message, run_id, RunStatus.RUNNING),
        )


def list_runs(database: Database, corpus: str | None = None) -> pl.DataFrame:
    """All runs, newest first."""
    return database.read(
        """
        SELECT run_id, corpus, job_type, week, as_of, partial, profile, mode, status, policy_fingerprint, model_fingerprint,
               selected_count, updated_count, counts::text AS counts, message, rerun_of, actor_id, started_at,
               completed_at
        FROM memory_maintenance_jobs
        WHERE $1::text IS NULL OR corpus = $1::text
        ORDER BY started_at DESC, run_id
        """,
        (corpus,),
    )


def _finished(cursor: Cursor, corpus: str) -> list[dict[str, Any]]:
    """Runs that took effect and were not rolled back, newest first."""
    cursor.execute(
        f"""
        SELECT run_id, week, as_of, partial, policy_fingerprint, snapshot_change_id,
               (SELECT count(*) FROM curation_actions a WHERE a.run_id = j.run_id AND a.action <> %s) AS did
        FROM memory_maintenance_jobs j
        WHERE corpus = %s AND applied_change_id IS NOT NULL AND rolled_back_by IS NULL AND {_WEEKLY}
        ORDER BY as_of DESC, applied_change_id DESC
        """,
        (ActionType.RECOMMEND, corpus),
    )
    names = ("run_id", "week", "as_of", "partial", "policy_fingerprint", "snapshot_change_id", "did")
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _rerun(
    finished: list[dict[str, Any]], week: date, as_of: datetime, policy_fingerprint: str
) -> dict[str, Any] | None:
    """The run that this one repeats: same week, same end, same policy."""
    for run in finished:
        if run["week"] == week and run["as_of"] == as_of and run["policy_fingerprint"] == policy_fingerprint:
            return run
    return None


def _refuse_going_back(finished: list[dict[str, Any]], corpus: str, week: date, as_of: datetime) -> None:
    if not finished:
        return
    last = finished[0]
    if as_of < last["as_of"] or week < last["week"]:
        raise WeekError(
            f"week {week} of corpus {corpus!r} lies before {last['week']}, the last one that was applied "
            f"(run {last['run_id']}). Weeks go forward; roll later runs back first (kb rollback), or run this week "
            "under the policy it was first run with, which changes nothing."
        )
    if week == last["week"] and as_of == last["as_of"] and last["did"]:
        raise WeekError(
            f"week {week} of corpus {corpus!r} was applied under another policy (run {last['run_id']}, "
            f"{last['did']} actions). Roll that run back first: kb rollback {last['run_id']}"
        )


def _epoch(cursor: Cursor, corpus: str, week: date) -> int:
    cursor.execute(
        "SELECT count(*) FROM memory_maintenance_jobs "
        f"WHERE corpus = %s AND week = %s AND rolled_back_by IS NOT NULL AND {_WEEKLY}",
        (corpus, week),
    )
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def require_rollback_target(database: Database, run_id: str) -> dict[str, Any]:
    """The recorded run, if it can be rolled back at all.

    Raises:
        UnknownNameError: no such run.
        RollbackError: the run changed nothing, or was rolled back already.
    """
    runs = list_runs(database)
    frame = database.read(
        "SELECT run_id, corpus, week, as_of, applied_change_id, rolled_back_by, rerun_of, status, job_type "
        "FROM memory_maintenance_jobs WHERE run_id = $1",
        (run_id,),
    )
    if frame.is_empty():
        raise UnknownNameError("run", run_id, runs["run_id"].to_list(), "kb runs lists them.")
    row = frame.row(0, named=True)
    if row["rolled_back_by"] is not None:
        raise RollbackError(f"run {run_id} was rolled back already")
    if row["rerun_of"] is not None:
        raise RollbackError(f"run {run_id} repeated run {row['rerun_of']} and changed nothing; roll that one back")
    if row["applied_change_id"] is None:
        raise RollbackError(f"run {run_id} ended as {row['status']} and changed nothing; there is nothing to roll back")
    return row


def next_week(database: Database, corpus: str, last_complete: date) -> tuple[date, int]:
    """The week a corpus should be curated for next, and how often its weeks were rolled back.

    It is the week after the last one that was applied (the same week again, if that run was partial), and the last
    complete week for a corpus that was never curated.
    """
    frame = database.read(
        f"""
        SELECT max(week) FILTER (WHERE applied_change_id IS NOT NULL AND rolled_back_by IS NULL AND NOT partial) AS week,
               count(*) FILTER (WHERE rolled_back_by IS NOT NULL) AS undone
        FROM memory_maintenance_jobs WHERE corpus = $1 AND {_WEEKLY}
        """,
        (corpus,),
    )
    week, undone = frame.row(0)
    return (last_complete if week is None else week + timedelta(days=7)), int(undone)


def refuse_future(week: date, now: datetime) -> None:
    """Raises WeekError when a week has not begun."""
    if week_start(week) > now:
        running = last_complete_week(now).date() + timedelta(days=7)
        raise WeekError(f"week {week} lies in the future; the running week is {running}")


def first_entry_week(database: Database, corpus: str) -> date:
    """The first week at whose end the corpus holds an entry.

    Raises:
        UnknownNameError: no such corpus.
        WeekError: the corpus is empty.
    """
    require_corpus(database, corpus)
    frame = database.read("SELECT min(effective_at) AS first FROM entry_versions WHERE corpus = $1", (corpus,))
    first = frame["first"][0]
    if first is None:
        raise WeekError(f"corpus {corpus!r} holds no entries; there is no week to begin with")
    day: date = first.date()
    return day - timedelta(days=day.weekday())


def first_undone_week(database: Database, corpus: str) -> date:
    """The week after the last one that took effect, else the first at whose end the corpus holds an entry.

    Raises:
        UnknownNameError: no such corpus.
        WeekError: the corpus is empty.
    """
    first, done = first_entry_week(database, corpus), last_applied_week(database, corpus)
    return first if done is None else done + timedelta(days=7)


def run_status(database: Database, run_id: str) -> RunStatus:
    """How a run stands."""
    frame = database.read("SELECT status FROM memory_maintenance_jobs WHERE run_id = $1", (run_id,))
    return RunStatus(frame["status"][0])


def last_applied_week(database: Database, corpus: str) -> date | None:
    """The last complete week that took effect and was not rolled back; None before the first."""
    frame = database.read(
        "SELECT max(week) AS week FROM memory_maintenance_jobs WHERE corpus = $1 AND applied_change_id IS NOT NULL "
        f"AND rolled_back_by IS NULL AND NOT partial AND {_WEEKLY}",
        (corpus,),
    )
    week: date | None = frame["week"][0]
    return week
