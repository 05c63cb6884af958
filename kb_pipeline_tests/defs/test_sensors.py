"""The sensor: new corpora, missed weeks in order, and who waits for a person."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg
import pytest

from kb_pipeline.adapters.continuing import week_in_turn
from kb_pipeline.adapters.rolling_back import roll_back_run
from kb_pipeline.definitions import build_defs
from kb_pipeline.defs.processes import CORPUS_TAG, PROCESS_TAG
from kb_pipeline.defs.sensors import missing_weeks
from kb_pipeline_tests.defs.test_corpus_lock import dead_mark, idle, process_mark
from kb_pipeline_tests.fakes.corpus import Corpus, Decisions

ROWS = ({"id": "a", "created_at": "2026-01-01"}, {"id": "b", "created_at": "2026-01-02"})
NOW = "2030-01-09T12:00:00+00:00"
"""A Wednesday far ahead of the clock by which corpora are made; the week of 2029-12-31 is the last complete one."""


@dataclass
class Daemon:
    """What the daemon keeps: its records, and the ticks of the sensor."""

    instance: dg.DagsterInstance
    url: str

    def tick(self) -> tuple[list[str], str]:
        """(run keys requested, what the tick says instead). Partitions are added as the daemon adds them."""
        context = dg.build_sensor_context(instance=self.instance, definitions=build_defs(), sensor_name="missing_weeks")
        result = missing_weeks(context)
        assert isinstance(result, dg.SensorResult)
        for request in result.dynamic_partitions_requests or ():
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        said = result.skip_reason.skip_message if isinstance(result.skip_reason, dg.SkipReason) else ""
        requests = list(result.run_requests or ())
        assert all(str(request.partition_key) == str(request.run_key).partition("#")[0] for request in requests)
        return [str(request.run_key) for request in requests], said or ""

    def launch(self, run_key: str, status: dg.DagsterRunStatus) -> str:
        """A run as the daemon makes it of a request."""
        corpus = run_key.partition("|")[0]
        tags = {"dagster/run_key": run_key, CORPUS_TAG: corpus, "dagster/sensor_name": "missing_weeks"}
        return self.instance.create_run_for_job(job_def=idle, run_id=str(uuid.uuid4()), tags=tags, status=status).run_id

    def corpus(self, name: str) -> Corpus:
        corpus = Corpus(self.url, name)
        corpus.load(*ROWS)
        return corpus

    def set_created(self, corpus: Corpus, day: str) -> None:
        corpus.query("UPDATE corpora SET created_at = %s WHERE corpus = %s", day, corpus.name)


@pytest.fixture
def daemon(database_url: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setenv("KB_HOME", str(tmp_path))
    monkeypatch.setenv("KB_DATABASE_URL", database_url)
    monkeypatch.setenv("KB_NOW", "2026-12-09T12:00:00+00:00")
    with dg.DagsterInstance.ephemeral() as instance:
        yield Daemon(instance, database_url)


SUCCESS, FAILURE, STARTED, STARTING = (
    dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING,
)  # fmt: skip
FIRST, SECOND, THIRD = "2026-11-16", "2026-11-23", "2026-11-30"


def curate(corpus: Corpus, week: str, **options: object) -> str:
    from datetime import date

    return corpus.curate(date.fromisoformat(week), **options).run_id  # type: ignore[arg-type]


def test_without_a_corpus_nothing_is_due(daemon: Daemon) -> None:
    assert daemon.tick() == ([], "there is no corpus yet: kb import")


def test_a_new_corpus_is_taken_in_and_due_when_its_first_week_is_over(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    daemon.set_created(acme, "2026-12-08T10:00:00Z")
    requested, said = daemon.tick()
    assert requested == []
    assert "acme: not curated yet" in said and "kb backfill --corpus acme" in said and "2026-12-07 is in turn" in said
    assert daemon.instance.get_dynamic_partitions("corpus") == ["acme"]
    daemon.set_created(acme, "2026-11-18T10:00:00Z")
    assert daemon.tick()[0] == [f"acme|{FIRST}#0"]


def test_missed_weeks_are_handed_out_in_order_one_at_a_time(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    daemon.set_created(acme, "2026-11-17")
    for week in (FIRST, SECOND, THIRD):
        requested, _ = daemon.tick()
        assert requested == [f"acme|{week}#0"]
        for status in (STARTING, STARTED):
            run_id = daemon.launch(requested[0], status)
            waiting, said = daemon.tick()
            assert waiting == [] and f"acme: run {run_id} is at work or waits for its turn" in said
            daemon.instance.report_run_failed(daemon.instance.get_run_by_id(run_id))  # type: ignore[arg-type]
            daemon.instance.delete_run(run_id)
        curate(acme, week)
        daemon.launch(requested[0], SUCCESS)
    assert daemon.tick() == ([], "acme: up to date; the week of 2026-12-07 is in turn when it is over")


def test_a_corpus_whose_week_failed_stalls_alone(daemon: Daemon) -> None:
    acme, beta = daemon.corpus("acme"), daemon.corpus("beta")
    for corpus in (acme, beta):
        daemon.set_created(corpus, "2026-11-17")
    requested, _ = daemon.tick()
    assert requested == [f"acme|{FIRST}#0", f"beta|{FIRST}#0"]
    failed = daemon.launch(requested[0], FAILURE)
    curate(beta, FIRST)
    daemon.launch(requested[1], SUCCESS)
    for _ in range(3):  # it is not tried again and again
        assert daemon.tick()[0] == [f"beta|{SECOND}#0"]
    curate(beta, SECOND)
    curate(beta, THIRD)
    requested, said = daemon.tick()
    assert requested == []
    assert f"acme: the week of {FIRST} did not end well (run {failed})" in said
    assert f"kb curate --corpus acme --week {FIRST}" in said
    # A person mends it and runs the week; the sensor goes on.
    curate(acme, FIRST)
    assert daemon.tick()[0] == [f"acme|{SECOND}#0"]


def test_what_a_person_tried_in_vain_does_not_count(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    daemon.set_created(acme, "2026-11-17")
    daemon.instance.create_run_for_job(
        job_def=idle, tags={CORPUS_TAG: "acme", "dagster/partition": f"acme|{FIRST}"}, status=FAILURE
    )
    assert daemon.tick()[0] == [f"acme|{FIRST}#0"]


def test_a_week_that_was_rolled_back_is_not_run_again_by_itself(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    curate(acme, SECOND)
    run_id = curate(acme, THIRD, decided=Decisions(retire=("a",)))
    roll_back_run(acme.database, run_id, actor="ann")
    requested, said = daemon.tick()
    assert requested == []
    assert f"the week of {THIRD} was rolled back and is not run again by itself" in said
    assert "the week of 2026-12-07 is in turn when it is over" in said


def test_the_week_after_one_that_was_rolled_back_is_run(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = daemon.corpus("acme")
    run_id = curate(acme, THIRD, decided=Decisions(retire=("a",)))
    roll_back_run(acme.database, run_id, actor="ann")
    monkeypatch.setenv("KB_NOW", "2026-12-14T00:00:00+00:00")
    assert daemon.tick()[0] == ["acme|2026-12-07#1"]
    # Once a person has run the week again, it is a week like any other.
    curate(acme, THIRD)
    assert week_in_turn(acme.database, "acme").is_passed_over is False
    assert daemon.tick()[0] == ["acme|2026-12-07#1"]


def test_a_partial_week_is_completed_when_it_is_over(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = daemon.corpus("acme")
    curate(acme, "2026-12-07")
    assert daemon.tick()[0] == []
    monkeypatch.setenv("KB_NOW", "2026-12-14T00:00:00+00:00")
    assert daemon.tick()[0] == ["acme|2026-12-07#0"]


def test_weeks_before_the_first_partition_are_left_out(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = daemon.corpus("acme")
    curate(acme, "2026-01-05")
    monkeypatch.setenv("KB_FIRST_WEEK", THIRD)
    assert daemon.tick()[0] == [f"acme|{THIRD}#0"]


def test_runs_of_killed_processes_are_cleared_away(daemon: Daemon) -> None:
    acme, beta = daemon.corpus("acme"), daemon.corpus("beta")
    for corpus in (acme, beta):
        daemon.set_created(corpus, "2026-11-17")
    runs = {}
    for name, mark in (("acme", dead_mark), ("beta", process_mark)):
        run_id = str(uuid.uuid4())
        tags = {CORPUS_TAG: name, PROCESS_TAG: mark(run_id)}
        daemon.instance.create_run_for_job(job_def=idle, run_id=run_id, tags=tags, status=STARTED)
        runs[name] = run_id
    with acme.database.corpus_lock("acme"):  # somebody works on it after all
        assert daemon.tick()[0] == []
    assert daemon.instance.get_run_by_id(runs["acme"]).status is STARTED  # type: ignore[union-attr]
    assert daemon.tick()[0] == [f"acme|{FIRST}#0"]
    assert daemon.instance.get_run_by_id(runs["acme"]).status is FAILURE  # type: ignore[union-attr]
    assert daemon.instance.get_run_by_id(runs["beta"]).status is STARTED  # type: ignore[union-attr]
