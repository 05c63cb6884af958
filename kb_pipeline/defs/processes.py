"""Processes: the mark that tells whose work a run is, and the end of runs whose process was killed.

A process that is killed leaves its run as started in Dagster's records, and the limit of one run a corpus would then hold
up every later week. Runs therefore bear the mark of their process; who holds the corpus knows that nobody else works on it.
"""

import os
import socket
from pathlib import Path

import dagster as dg

PROCESS_TAG = ".dagster/kb_process"
"""The prefix keeps it out of what the UI shows of a run."""
CORPUS_TAG = "dagster/partition/corpus"
UNFINISHED = [
    status
    for status in dg.DagsterRunStatus
    if status not in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
]
"""Where a run stands that is at work or waits for its turn."""
_PROC = Path("/proc")


def process_mark(run_id: str) -> str:
    """Mark of a run in this process: host, boot, process id, when the process began (ids come again), and the run.

    A run that is executed again takes over the tags of the one before, so a mark counts for its own run alone.
    """
    return ":".join((socket.gethostname(), _boot(), str(os.getpid()), _began(os.getpid()) or "", run_id))


def may_be_gone(mark: str) -> bool:
    """False when the process of a mark lives; of a process of another host or boot nobody here can tell."""
    host, boot, number, began, _ = mark.rsplit(":", 4)
    if (host, boot) != (socket.gethostname(), _boot()):
        return True
    return _began(int(number)) != (began or None)


def started_runs(instance: dg.DagsterInstance, corpus: str | None = None) -> list[dg.DagsterRun]:
    """Runs of a corpus, or of all, that are started by the records and whose process may be gone."""
    wanted = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING],
        tags={CORPUS_TAG: corpus} if corpus is not None else None,
    )
    marks = [(run, run.tags.get(PROCESS_TAG, "")) for run in instance.get_runs(wanted)]
    return [run for run, mark in marks if mark.endswith(f":{run.run_id}") and may_be_gone(mark)]


def fail_dead_runs(instance: dg.DagsterInstance, corpus: str) -> list[str]:
    """Records runs of the corpus as failed whose process is gone. The caller holds the corpus lock.

    Returns:
        Their run ids.
    """
    dead = started_runs(instance, corpus)
    for run in dead:
        instance.report_run_failed(
            run, "The process of this run ended before the run did. What it had not applied, nobody will."
        )
    return [run.run_id for run in dead]


def _boot() -> str:
    file = _PROC / "sys/kernel/random/boot_id"
    return file.read_text(encoding="ascii").strip() if file.is_file() else ""


def _began(number: int) -> str | None:
    """When a process began, in ticks since boot ("" where the system does not say); None when there is none."""
    try:
        # The second field, a name in brackets, may hold anything; the time is the 20th after it.
        state, *rest = (
            (_PROC / str(number) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        if (_PROC / "self").exists():
            return None
    else:
        return None if state == "Z" else rest[18]
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return ""
    return ""
