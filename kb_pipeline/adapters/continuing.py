"""Continuing: which run a step of a week belongs to, and how a run ends that nobody finishes.

Belongs here: what holds when steps of a week are run apart from each other - a run taken up from where it failed, one
asset materialized anew, a process that was killed. Does not belong here: the order of weeks (runs).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.runs import Run, latest_run, next_week
from kb_pipeline.errors import WeekError
from kb_pipeline.vocabulary import RunStatus


def continue_run(database: Database, corpus: str, week: date, *, frames_of: str, policy_fingerprint: str) -> Run:
    """The run that a step of this week belongs to: the last one that was opened. The caller holds the corpus lock.

    A run that failed before it took effect is running again from here on. One that is over stays as it ended: steps of
    it may be repeated, and find what they found.

    Args:
        database: where runs are recorded.
        corpus: the corpus.
        week: the week.
        frames_of: the run that the frames at hand were made by.
        policy_fingerprint: policy in force.

    Raises:
        WeekError: the week was never begun or was rolled back, the frames are of another run, or the policy is another.
    """
    run = latest_run(database, corpus, week)
    again = f"run the week from its beginning (kb curate --corpus {corpus} --week {week}, or all assets in Dagster)"
    if frames_of != run.run_id:
        raise WeekError(
            f"the frames of week {week} of corpus {corpus!r} at hand are of run {frames_of}, and the last run of the week "
            f"is {run.run_id}: steps of two runs do not mix; {again}"
        )
    if run.policy_fingerprint != policy_fingerprint:
        raise WeekError(
            f"run {run.run_id} of week {week} of corpus {corpus!r} began under policy {run.policy_fingerprint[:12]}, and "
            f"{policy_fingerprint[:12]} is in force now: steps of two policies do not mix; {again}, or bring the policy back"
        )
    status, is_applied, is_undone = database.read(
        "SELECT status, applied_change_id IS NOT NULL AS applied, rolled_back_by IS NOT NULL AS undone "
        "FROM memory_maintenance_jobs WHERE run_id = $1",
        (run.run_id,),
    ).row(0)
    if is_undone:
        raise WeekError(
            f"run {run.run_id} of week {week} of corpus {corpus!r} was rolled back; to do it again, {again}"
        )
    if status == RunStatus.FAILED and not is_applied:
        with database.transaction() as cursor:
            cursor.execute(
                "UPDATE memory_maintenance_jobs SET status = %s, completed_at = NULL, message = NULL WHERE run_id = %s",
                (RunStatus.RUNNING, run.run_id),
            )
    return run


def end_open_runs(database: Database, corpus: str, message: str) -> int:
    """Records runs of the corpus that still claim to be running as failed. The caller holds the corpus lock.

    Returns:
        How many there were: none after a run that was applied, halted, or failed with a reason of its own.
    """
    with database.transaction() as cursor:
        cursor.execute(
            "UPDATE memory_maintenance_jobs SET status = %s, completed_at = now(), message = %s "
            "WHERE corpus = %s AND status = %s",
            (RunStatus.FAILED, message, corpus, RunStatus.RUNNING),
        )
        return int(cursor.rowcount)


@dataclass(frozen=True)
class Turn:
    """The week of a corpus that is run by itself next; ``undone_count`` tells a week that is done again from its first time.

    ``is_first``: no week of the corpus was ever curated. ``is_passed_over``: the week before was rolled back, and nobody
    ran it again.
    """

    week: date
    undone_count: int
    is_first: bool
    is_passed_over: bool


def week_in_turn(database: Database, corpus: str) -> Turn:
    """The week that is in turn, whether or not it is over.

    It is the one after the last that took effect; a partial week comes again as a whole. A corpus that was never curated
    begins with the week in which it was first imported: what lies before is history, which a person backfills or lets be.
    A week that was rolled back is not run again by itself, because somebody undid it on purpose: the next one is in turn.
    """
    frame = database.read(
        """
        SELECT (SELECT date_trunc('week', created_at AT TIME ZONE 'UTC')::date FROM corpora WHERE corpus = $1) AS created,
               max(week) FILTER (WHERE partial AND applied_change_id IS NOT NULL AND rolled_back_by IS NULL) AS begun,
               max(week) FILTER (WHERE NOT partial AND rolled_back_by IS NOT NULL) AS undone,
               count(applied_change_id) = 0 AS is_first
        FROM memory_maintenance_jobs WHERE corpus = $1 AND job_type = 'curate'
        """,
        (corpus,),
    )
    created, begun, undone, is_first = frame.row(0)
    week, undone_count = next_week(database, corpus, max(created, begun or created))
    if undone is None or undone < week:
        return Turn(week, undone_count, is_first, is_passed_over=False)
    return Turn(undone + timedelta(days=7), undone_count, is_first, is_passed_over=True)
