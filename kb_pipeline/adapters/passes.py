"""Passes over recent entries: when one is due, what it may see, and which entries are recent (P2).

Belongs here: the record of a pass and its window. A pass is a run of its own sort: its ``as_of`` is the moment it begins,
it only asks, and so it stands in no order with weeks - neither holds the other back, and neither undoes the other. The
week it bears is the one it falls into. Does not belong here: what a pass does (defs).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import last_change, require_corpus
from kb_pipeline.adapters.runs import Run, end_killed
from kb_pipeline.vocabulary import JobType, Mode, RunStatus

_OF_PASSES = f"job_type = '{JobType.CURATOR_PASS}'"
MAX_RETRIES = 3
"""A pass whose judge failed is tried so many times again while nothing new comes."""


@dataclass(frozen=True)
class LastPass:
    """The last pass that took effect, rolled back or not. ``waiting_count`` texts were left for the next one."""

    run_id: str
    snapshot_change_id: int
    status: RunStatus
    waiting_count: int


def open_pass(
    database: Database,
    *,
    run_id: str,
    corpus: str,
    profile: str,
    policy_fingerprint: str,
    actor: str,
    now: datetime,
) -> Run:
    """Records a pass that begins now. The caller holds the corpus lock.

    Raises:
        UnknownNameError: no such corpus.
    """
    require_corpus(database, corpus)
    with database.transaction() as cursor:
        end_killed(cursor, corpus)
        cursor.execute(
            "SELECT max(as_of) FROM memory_maintenance_jobs WHERE corpus = %s AND applied_change_id IS NOT NULL",
            (corpus,),
        )
        (before,) = cursor.fetchone() or (None,)
        as_of = now.replace(microsecond=0)
        if before is not None and before >= as_of:
            # What took effect at a run's as_of is seen by what comes after it; two runs of one second are two times.
            as_of = before + timedelta(seconds=1)
        run = Run(
            run_id=run_id,
            corpus=corpus,
            week=_week_of(as_of),
            as_of=as_of,
            partial=False,
            epoch=0,
            profile=profile,
            mode=Mode.RECOMMEND,
            policy_fingerprint=policy_fingerprint,
            snapshot_change_id=last_change(database, corpus),
            rerun_of=None,
            actor=actor,
            job_type=JobType.CURATOR_PASS,
        )
        cursor.execute(
            "INSERT INTO memory_maintenance_jobs (run_id, corpus, week, as_of, partial, epoch, job_type, profile, mode, "
            "status, policy_fingerprint, snapshot_change_id, actor_id) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
            # A run that Dagster tries again finds its own row, and reads the corpus anew.
            "ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, completed_at = NULL, message = NULL, "
            "as_of = excluded.as_of, week = excluded.week, epoch = excluded.epoch, "
            "snapshot_change_id = excluded.snapshot_change_id",
            (
                run_id, corpus, run.week, as_of, run.partial, run.epoch, run.job_type, profile, run.mode, RunStatus.RUNNING,
                policy_fingerprint, run.snapshot_change_id, actor,
            ),
        )  # fmt: skip
    return run


def last_pass(database: Database, corpus: str) -> LastPass | None:
    """The last pass of a corpus that took effect; None before the first. One that was rolled back is not done again."""
    frame = database.read(
        f"""
        SELECT run_id, snapshot_change_id, status, coalesce((counts ->> 'texts_waiting')::bigint, 0) AS waiting
        FROM memory_maintenance_jobs
        WHERE corpus = $1 AND {_OF_PASSES} AND applied_change_id IS NOT NULL
        ORDER BY applied_change_id DESC LIMIT 1
        """,
        (corpus,),
    )
    if frame.is_empty():
        return None
    run_id, snapshot, status, waiting = frame.row(0)
    return LastPass(run_id, snapshot, RunStatus(status), waiting)


def why_due(database: Database, corpus: str) -> str | None:
    """Why a pass of the corpus is due, in words; None when it would find nothing new.

    What passes did themselves, and their rollback, is nothing new.
    """
    last = last_pass(database, corpus)
    if last is None:
        return "no pass yet"
    frame = database.read(
        f"""
        SELECT coalesce(max(c.change_id), 0) AS change,
               (SELECT count(*) FROM memory_maintenance_jobs p WHERE p.corpus = $1 AND p.{_OF_PASSES}
                AND p.applied_change_id IS NOT NULL AND p.status = '{RunStatus.DEGRADED}'
                AND p.snapshot_change_id >= coalesce(max(c.change_id), 0)) AS failed
        FROM changes c LEFT JOIN memory_maintenance_jobs j ON j.run_id = c.run_id
        WHERE c.corpus = $1 AND coalesce(j.job_type, '') <> '{JobType.CURATOR_PASS}'
        """,
        (corpus,),
    )
    change, failed_count = frame.row(0)
    if change > last.snapshot_change_id:
        return "something came or changed since the last pass"
    if last.waiting_count:
        return f"{last.waiting_count} texts were left over by the last pass"
    if last.status is RunStatus.DEGRADED and failed_count <= MAX_RETRIES:
        return "the judge failed in the last pass"
    return None


def recent_texts(database: Database, run: Run, since: datetime, last: LastPass | None) -> pl.DataFrame:
    """Entries whose text took effect from ``since`` on, or came after the last pass: entry_id, text_at; the newest first.

    Args:
        database: where from.
        run: the pass; what it does not see is not there.
        since: earliest time of a recent text.
        last: the pass before; without one, only time counts.
    """
    after = "NULL" if last is None else str(last.snapshot_change_id)
    frame = database.read(
        f"""
        SELECT t.entry_id, max(t.effective_at) AS text_at
        FROM (
            SELECT entry_id, effective_at, change_id FROM entry_versions WHERE corpus = $1
            UNION ALL
            SELECT entry_id, effective_at, change_id FROM entry_edits WHERE corpus = $1
        ) t
        WHERE t.effective_at < '{run.as_of.isoformat()}' AND t.change_id <= {run.snapshot_change_id}
        GROUP BY t.entry_id
        HAVING max(t.effective_at) >= '{since.isoformat()}' OR max(t.change_id) > {after}::bigint
        ORDER BY text_at DESC, t.entry_id COLLATE "C"
        """,
        (run.corpus,),
    )
    return frame.cast({"entry_id": pl.String})


def _week_of(time: datetime) -> date:
    day = time.date()
    return day - timedelta(days=day.weekday())
