"""The lock of a corpus: a run holds it from its first step to its last, whoever started it.

Belongs here: which partition a run is of, waiting for the corpus, and leaving it tidy. The lock itself is an advisory lock
of the database: it falls with the process.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import date
from typing import Any

import dagster as dg

from kb_pipeline.adapters.continuing import end_open_runs
from kb_pipeline.adapters.database import Database
from kb_pipeline.defs.clock import open_database
from kb_pipeline.defs.failures import recorded_failure
from kb_pipeline.defs.partitions import corpus_and_week
from kb_pipeline.defs.processes import CORPUS_TAG, PROCESS_TAG, fail_dead_runs, process_mark
from kb_pipeline.errors import CorpusBusyError, DatabaseError

_PARTITION_TAG = "dagster/partition"
_RANGE_TAGS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
_UNFINISHED = "the run ended before its actions were applied; nothing was changed"


class CorpusLock(dg.ConfigurableResource[Any]):
    """Holds the corpus of a run against other runs and imports.

    ``wait_seconds``: how long to wait for whoever works on the corpus. ``is_held``: the caller holds it for all its runs.
    """

    wait_seconds: int = 300
    is_held: bool = False

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["CorpusLock"]:
        """Takes the lock of the run's corpus. Outside of a run (a frame is looked at, say) there is nothing to hold.

        Raises:
            Failure: the run is not of exactly one partition, or somebody else holds the corpus.
        """
        if context.run is None:
            yield self
            return
        corpus = corpus_of(context.run)
        database = open_database()
        log = logging.getLogger("dagster") if context.log is None else context.log
        instance, run_id = _instance(context), context.run.run_id
        lock = nullcontext() if self.is_held else _taken(log, database, corpus, self.wait_seconds)
        with lock:
            if not self.is_held:
                # A job that is partitioned by corpus alone has not been given the tag by which Dagster limits runs.
                instance.add_run_tags(run_id, {PROCESS_TAG: process_mark(run_id), CORPUS_TAG: corpus})
                for dead in fail_dead_runs(instance, corpus):
                    log.warning(f"run {dead} of {corpus} was killed; it is recorded as failed now")
            try:
                yield self
            finally:
                _record_end(log, database, corpus, recorded_failure(instance, run_id) or _UNFINISHED)


def corpus_of(run: dg.DagsterRun) -> str:
    """Corpus of a run, be it of a week or of a job that is partitioned by corpus alone.

    Raises:
        Failure: the run is of several partitions, or of none.
    """
    key = run.tags.get(_PARTITION_TAG)
    return key if key is not None and "|" not in key else partition_of(run)[0]


def partition_of(run: dg.DagsterRun) -> tuple[str, date]:
    """Corpus and week of a run.

    Raises:
        Failure: the run is of several partitions, or of none.
    """
    key = run.tags.get(_PARTITION_TAG)
    if key is not None:
        return corpus_and_week(key)
    first, last = (run.tags.get(tag) for tag in _RANGE_TAGS)
    what = f"This run is of all weeks from {first} to {last}" if first else "This run is of no week"
    raise dg.Failure(
        f"{what}, and a run curates one week of one corpus: each week needs what the week before has changed. Start "
        "one run for each partition (a backfill does so by itself), or use kb backfill.",
        allow_retries=False,
    )


@contextmanager
def _taken(log: logging.Logger, database: Database, corpus: str, wait_seconds: int) -> Iterator[None]:
    """Holds the lock; the wait is told once."""
    give_up_at = time.monotonic() + wait_seconds
    is_held = is_told = False
    with ExitStack() as held:
        while not is_held:
            try:
                held.enter_context(database.corpus_lock(corpus))
                is_held = True
            except CorpusBusyError as busy:
                if time.monotonic() >= give_up_at:
                    raise dg.Failure(f"{busy} This run waited {wait_seconds} seconds.", allow_retries=False) from busy
                if not is_told:
                    log.info(f"another run or import works on {corpus}; waiting up to {wait_seconds} seconds")
                is_told = True
                time.sleep(1)
        yield


def _record_end(log: logging.Logger, database: Database, corpus: str, message: str) -> None:
    """Leaves no run of the corpus that claims to be running: one that is still open was not applied."""
    try:
        end_open_runs(database, corpus, message)
    except DatabaseError as error:  # the next run of the corpus does it
        log.warning(f"the end of the run could not be recorded: {error}")


def _instance(context: dg.InitResourceContext) -> dg.DagsterInstance:
    assert context.instance is not None  # noqa: S101 - a run has an instance
    return context.instance
