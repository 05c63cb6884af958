"""Runs a week, or a pass over recent entries, in this process, and says how it ended.

Belongs here: what ``kb curate`` and ``kb backfill`` share with nobody else: an instance, a run of the job, and the error
that made a step fail, as the error it was. The run is recorded in the same place as those of the UI.
"""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg

from kb_pipeline.adapters.dagster_storage import dagster_instance
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.runs import load_counts
from kb_pipeline.definitions import build_defs
from kb_pipeline.defs.corpus_lock import CorpusLock
from kb_pipeline.defs.failures import cause_of
from kb_pipeline.defs.io_managers import FrameIOManager
from kb_pipeline.defs.partitions import partition_key
from kb_pipeline.defs.processes import PROCESS_TAG, fail_dead_runs, process_mark
from kb_pipeline.vocabulary import RunStatus


@dataclass(frozen=True)
class RunRequest:
    """What was asked for; empty strings leave the choice to profile, environment or login."""

    profile: str = "weekly"
    mode: str = ""
    policy_file: str = ""
    allow_large_change: bool = False
    out: str = ""
    actor: str = ""

    def config(self) -> dict[str, Any]:
        """As run configuration of the resource ``curation``."""
        return {
            "profile": self.profile,
            "mode": self.mode,
            "policy_file": str(Path(self.policy_file).resolve()) if self.policy_file else "",
            "allow_large_change": self.allow_large_change,
            "out": self.out,
            "actor": self.actor,
        }


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    run_id: str
    status: RunStatus
    counts: dict[str, Any]
    message: str | None


class Runner:
    """Runs weeks and passes one after another on one Dagster instance."""

    def __init__(self, instance: dg.DagsterInstance, database: Database, held: ExitStack) -> None:
        """Runs on this instance and database; each corpus that is worked on is held until ``held`` is closed."""
        self._instance = instance
        self._database = database
        self._held = held
        self._corpora: set[str] = set()
        held_by_us = CorpusLock(is_held=True)
        defs = build_defs(corpus_lock=held_by_us, io_manager=FrameIOManager(corpus_lock=held_by_us))
        self._week = defs.resolve_job_def("weekly_curation")
        self._pass = defs.resolve_job_def("curator_pass")

    def run_week(self, corpus: str, week: date, request: RunRequest) -> RunResult:
        """Curates one week of one corpus.

        Raises:
            KbError: a step failed with it; nothing was applied. A halted run is a result, not an error.
            CorpusBusyError: another run or import works on the corpus.
        """
        return self._run(self._week, corpus, partition_key(corpus, week), request)

    def run_pass(self, corpus: str, request: RunRequest) -> RunResult:
        """Looks at the recent entries of one corpus; nothing but questions comes of it.

        Raises:
            KbError: the pass failed with it; nothing was asked. A halted pass is a result, not an error.
            CorpusBusyError: another run or import works on the corpus.
        """
        return self._run(self._pass, corpus, corpus, request)

    def _run(self, job: dg.JobDefinition, corpus: str, key: str, request: RunRequest) -> RunResult:
        self._hold(corpus)
        run_id = str(uuid.uuid4())
        try:
            job.execute_in_process(
                instance=self._instance,
                partition_key=key,
                run_id=run_id,
                run_config={
                    "resources": {"curation": {"config": request.config()}},
                    "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                },
                # Who started this run sees how it ends: the daemon does not try it again behind their back.
                tags={PROCESS_TAG: process_mark(run_id), "dagster/max_retries": "0"},
                raise_on_error=True,
            )
        except dg.DagsterExecutionInterruptedError as stopped:
            raise KeyboardInterrupt from stopped
        except Exception as error:
            result = self._result(run_id)
            if result is not None and result.status is RunStatus.HALTED:
                return result
            raise cause_of(error) from error
        finished = self._result(run_id)
        assert finished is not None  # noqa: S101 - a run that ended well has recorded itself
        return finished

    def _hold(self, corpus: str) -> None:
        """Takes the corpus for all weeks to come: nobody slips in between two of them."""
        if corpus in self._corpora:
            return
        self._held.enter_context(self._database.corpus_lock(corpus))
        self._corpora.add(corpus)
        fail_dead_runs(self._instance, corpus)
        if corpus not in self._instance.get_dynamic_partitions("corpus"):
            self._instance.add_dynamic_partitions("corpus", [corpus])

    def _result(self, run_id: str) -> RunResult | None:
        frame = self._database.read("SELECT status, message FROM memory_maintenance_jobs WHERE run_id = $1", (run_id,))
        if frame.is_empty():
            return None
        status, message = frame.row(0)
        return RunResult(run_id, RunStatus(status), load_counts(self._database, run_id), message)


@contextmanager
def runner(database: Database) -> Iterator[Runner]:
    """A runner on the project's instance."""
    with dagster_instance(capture_output=False) as instance, ExitStack() as held:
        yield Runner(instance, database, held)
