"""Sensors: what starts weeks by itself.

One sensor takes in new corpora and hands out, for each, the oldest complete week that is missing. The next week of a
corpus is in turn when the one before has taken effect, so missed weeks are caught up in order, and a corpus whose week
failed or was halted waits for a person without holding up the others. It looks every minute and needs no plan of its own: a
corpus is due from Monday 00:00 UTC, and whatever was missed while nothing ran is handed out when something runs again.
"""

from dataclasses import dataclass
from datetime import date, timedelta

import dagster as dg

from kb_pipeline.adapters.continuing import week_in_turn
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import known_corpora
from kb_pipeline.adapters.importing import last_complete_week
from kb_pipeline.defs.clock import now, open_database
from kb_pipeline.defs.jobs import weekly_curation
from kb_pipeline.defs.partitions import corpora, first_week, partition_key
from kb_pipeline.defs.processes import CORPUS_TAG, UNFINISHED, fail_dead_runs, started_runs
from kb_pipeline.errors import CorpusBusyError

_EVERY_SECONDS = 60
_RUN_KEY_TAG = "dagster/run_key"


@dataclass(frozen=True)
class _Turn:
    """What a corpus is due: a week to start, or why there is none."""

    corpus: str
    week: date
    run_key: str
    waits_because: str | None


@dg.sensor(
    job=weekly_curation,
    minimum_interval_seconds=_EVERY_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Takes in new corpora and starts each corpus's oldest complete week that is missing, in order. A week that failed, "
        "was halted or was rolled back is not started again by itself: a person runs it again, then the sensor goes on."
    ),
)
def missing_weeks(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """One run request for every corpus that has a week to catch up."""
    database = open_database()
    last = last_complete_week(now()).date()
    names = known_corpora(database)
    _fail_killed_runs(context, database)
    turns = [_turn(context.instance, database, corpus, last) for corpus in names]
    waiting = [f"{turn.corpus}: {turn.waits_because}" for turn in turns if turn.waits_because is not None]
    for line in waiting:
        context.log.info(line)
    known = set(context.instance.get_dynamic_partitions("corpus"))
    added = [name for name in names if name not in known]
    requests = [
        dg.RunRequest(run_key=turn.run_key, partition_key=partition_key(turn.corpus, turn.week))
        for turn in turns
        if turn.waits_because is None
    ]
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[corpora.build_add_request(added)] if added else [],
        skip_reason=None if requests else dg.SkipReason("; ".join(waiting) or "there is no corpus yet: kb import"),
    )


def _turn(instance: dg.DagsterInstance, database: Database, corpus: str, last: date) -> _Turn:
    turn = week_in_turn(database, corpus)
    week = max(turn.week, first_week())
    key = f"{partition_key(corpus, week)}#{turn.undone_count}"
    if week > last:
        state = "up to date"
        if turn.is_first:
            state = f"not curated yet (its history: kb backfill --corpus {corpus})"
        elif turn.is_passed_over:
            state = f"the week of {week - timedelta(days=7)} was rolled back and is not run again by itself"
        return _Turn(corpus, week, key, f"{state}; the week of {week} is in turn when it is over")
    working = instance.get_runs(dg.RunsFilter(tags={CORPUS_TAG: corpus}, statuses=UNFINISHED), limit=1)
    if working:
        return _Turn(corpus, week, key, f"run {working[0].run_id} is at work or waits for its turn")
    # Of its own requests only: what a person tried by hand is that person's.
    own = instance.get_runs(dg.RunsFilter(tags={_RUN_KEY_TAG: key, CORPUS_TAG: corpus}), limit=1)
    if not own:
        return _Turn(corpus, week, key, None)
    return _Turn(
        corpus,
        week,
        key,
        f"the week of {week} did not end well (run {own[0].run_id}); see why, then run it again: re-execute it here, or "
        f"kb curate --corpus {corpus} --week {week}",
    )


def _fail_killed_runs(context: dg.SensorEvaluationContext, database: Database) -> None:
    """Runs whose process was killed would hold back their corpus's queue for a day."""
    for corpus in sorted({run.tags[CORPUS_TAG] for run in started_runs(context.instance) if CORPUS_TAG in run.tags}):
        try:
            with database.corpus_lock(corpus):
                for run_id in fail_dead_runs(context.instance, corpus):
                    context.log.info(f"run {run_id} of {corpus} was killed; it is recorded as failed now")
        except CorpusBusyError:  # of a process elsewhere, which lives
            continue
