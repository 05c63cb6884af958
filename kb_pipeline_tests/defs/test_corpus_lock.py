"""The lock of a corpus: one run at a time, of one week, whose end is recorded, also when its process is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import dagster as dg
import pytest

from kb_pipeline.adapters.dagster_storage import dagster_instance
from kb_pipeline.defs.corpus_lock import partition_of
from kb_pipeline.defs.processes import (
    CORPUS_TAG,
    PROCESS_TAG,
    fail_dead_runs,
    may_be_gone,
    process_mark,
    started_runs,
)
from kb_pipeline_tests.defs.conftest import Desk, NewDesk, failed_steps
from kb_pipeline_tests.fakes.house import WEEK
from kb_pipeline_tests.fakes.messages_api import MessagesApi, verdict


@dg.op
def nothing() -> None:
    """No work."""


@dg.job
def idle() -> None:
    """A job to have runs of."""
    nothing()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        yield found


def started(instance: dg.DagsterInstance, corpus: str, mark: str | None, run_id: str | None = None) -> str:
    """A run of a corpus that is started by the records."""
    tags = {CORPUS_TAG: corpus} | ({PROCESS_TAG: mark} if mark is not None else {})
    run_id = run_id or str(uuid.uuid4())
    return instance.create_run_for_job(
        job_def=idle, run_id=run_id, tags=tags, status=dg.DagsterRunStatus.STARTED
    ).run_id


def dead_mark(run_id: str) -> str:
    """The mark of a run whose process is gone."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    host, boot, *_ = process_mark(run_id).split(":")
    return f"{host}:{boot}:{child.pid}:1:{run_id}"


def statuses(instance: dg.DagsterInstance) -> dict[str, str]:
    return {run.run_id: run.status.value for run in instance.get_runs()}


def test_a_mark_tells_a_living_process_from_a_dead_one() -> None:
    mine = process_mark("r1")
    assert mine.endswith(":r1") and mine.startswith(socket.gethostname())
    assert not may_be_gone(mine)
    dead = dead_mark("r1")
    assert dead.split(":")[:2] == mine.split(":")[:2]
    assert may_be_gone(dead)
    # A process id that came again, another boot, another host.
    host, boot, number, began, run_id = mine.split(":")
    assert may_be_gone(f"{host}:{boot}:{number}:{int(began or 0) + 1}:{run_id}")
    assert may_be_gone(f"{host}:other:{number}:{began}:{run_id}")
    assert may_be_gone(f"elsewhere:{boot}:{number}:{began}:{run_id}")


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    while "Z" not in subprocess.run(["ps", "-o", "stat=", "-p", str(child.pid)], capture_output=True, text=True).stdout:
        time.sleep(0.05)
    host, boot, _, _, _ = process_mark("r").split(":")
    assert may_be_gone(f"{host}:{boot}:{child.pid}:1:r")
    child.wait()


def test_runs_of_dead_processes_are_recorded_as_failed_and_no_others(instance: dg.DagsterInstance) -> None:
    killed = str(uuid.uuid4())
    started(instance, "acme", dead_mark(killed), killed)
    living = str(uuid.uuid4())
    started(instance, "acme", process_mark(living), living)
    unmarked = started(instance, "acme", None)
    # Executed again, a run takes over the mark of the one before: it says nothing of this run.
    inherited = started(instance, "acme", dead_mark(killed))
    other = str(uuid.uuid4())
    started(instance, "other", dead_mark(other), other)
    assert {run.run_id for run in started_runs(instance)} == {killed, other}
    assert fail_dead_runs(instance, "acme") == [killed]
    assert statuses(instance) == {
        killed: "FAILURE", living: "STARTED", unmarked: "STARTED", inherited: "STARTED", other: "STARTED",
    }  # fmt: skip
    assert fail_dead_runs(instance, "acme") == []


def test_a_busy_corpus_refuses_a_second_run(new_desk: NewDesk) -> None:
    desk = new_desk()
    with desk.database.corpus_lock(desk.name):
        result = desk.run(week=WEEK)
    assert not result.success
    text = " ".join(
        str(event.message) + str(event.event_specific_data) for event in result.all_events if event.is_failure
    )
    assert f"corpus '{desk.name}' is being worked on by another run or import; nothing was changed" in text
    assert desk.rows() == []
    assert desk.run(week=WEEK).success


def test_a_run_waits_for_its_corpus(new_desk: NewDesk) -> None:
    desk = new_desk(wait_seconds=60)
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with desk.database.corpus_lock(desk.name):
            entered.set()
            leave.wait(60)

    other = threading.Thread(target=work)
    other.start()
    entered.wait(60)
    timer = threading.Timer(1.5, leave.set)
    timer.start()
    assert desk.run(week=WEEK).success
    assert leave.is_set()
    other.join()


def test_a_run_of_several_weeks_is_refused(new_desk: NewDesk) -> None:
    run = dg.DagsterRun(
        job_name="weekly_curation",
        tags={
            "dagster/asset_partition_range_start": "acme|2026-05-04",
            "dagster/asset_partition_range_end": "acme|2026-05-18",
        },
    )
    with pytest.raises(
        dg.Failure, match=r"all weeks from acme\|2026-05-04 to acme\|2026-05-18.*one run for each partition"
    ):
        partition_of(run)
    with pytest.raises(dg.Failure, match="This run is of no week"):
        partition_of(dg.DagsterRun(job_name="weekly_curation"))
    assert (
        str(partition_of(dg.DagsterRun(job_name="j", tags={"dagster/partition": "acme|2026-05-04"}))[1]) == "2026-05-04"
    )
    # As Dagster runs it: nothing is loaded, nothing changes.
    desk = new_desk()
    desk.instance.add_dynamic_partitions("corpus", [desk.name])
    with desk.inside():
        result = desk.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=desk.instance,
            asset_selection=[dg.AssetKey("knowledge_entries")],
            tags={tag: f"{desk.name}|{week}" for tag, week in zip(run.tags, ("2026-10-19", WEEK), strict=True)},
            raise_on_error=False,
        )
    assert not result.success
    text = " ".join(str(event.event_specific_data) for event in result.all_events if event.is_failure)
    assert "a run curates one week of one corpus" in text
    assert desk.rows() == []


def test_a_killed_command_holds_nothing_up(new_desk: NewDesk) -> None:
    asked = threading.Event()

    def hang(body: object) -> object:
        asked.set()
        time.sleep(60)
        return verdict("distinct")

    with MessagesApi(hang) as api:  # type: ignore[arg-type]
        desk: Desk = new_desk(
            {"judge": {"name": "anthropic", "api_key_env": "DESK_KEY", "base_url": api.url, "timeout_seconds": 90}},
            {"id": "a", "title": "Deploys of the shop begin with a dry run of the whole plan", "created_at": "2026-10-01"},
            {"id": "b", "title": "Deploys of the shop begin with a dry run of the entire plan", "created_at": "2026-10-02"},
        )  # fmt: skip
        house = desk.corpus.house
        variables = house.environment(KB_POLICY=str(desk.policy_path), DESK_KEY="secret")
        script = "from kb_pipeline.cli import main; main()"
        words = [sys.executable, "-c", script, "curate", "--corpus", desk.name, "--week", WEEK]
        command = subprocess.Popen(words, cwd=house.home, env=variables, stderr=subprocess.PIPE, text=True)
        try:
            assert asked.wait(90), command.communicate()
        finally:
            os.kill(command.pid, signal.SIGKILL)
            command.wait()
    assert desk.last() == ("running", None)
    assert desk.merged() == {}
    desk.set_policy({key: value for key, value in desk.corpus.policy.items() if key != "judge"})
    assert desk.corpus.curate("--week", WEEK).ok()
    assert [row["status"] for row in desk.rows()] == ["ok", "failed"]
    with desk.inside(), dagster_instance() as records:
        runs = records.get_runs(dg.RunsFilter(tags={CORPUS_TAG: desk.name}))
    assert [run.status.value for run in runs] == ["SUCCESS", "FAILURE"]
    # Who was killed is not tried again behind the operator's back.
    assert runs[1].tags["dagster/will_retry"] == "false"


def test_what_failed_is_recorded_with_its_step(new_desk: NewDesk) -> None:
    desk = new_desk({"encoder": {"model": "/nowhere/at/all"}})
    result = desk.run(week=WEEK)
    told = failed_steps(result)["entry_embeddings"]
    assert "/nowhere/at/all" in told
    assert desk.last() == ("failed", f"step entry_embeddings failed: {told}")
    # What only a person can mend is not tried again.
    assert [event.event_type.value for event in result.all_events].count("STEP_UP_FOR_RETRY") == 0
