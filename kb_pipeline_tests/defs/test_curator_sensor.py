"""The sensor of passes: who is due, who is not and why, and the job that it starts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from kb_pipeline.adapters.passes import MAX_RETRIES, last_pass, open_pass, recent_texts, why_due
from kb_pipeline.adapters.rolling_back import roll_back_run
from kb_pipeline.adapters.runs import add_counts, default_week, latest_run, list_runs
from kb_pipeline.definitions import build_defs, defs
from kb_pipeline.defs.corpus_lock import CorpusLock, corpus_of
from kb_pipeline.defs.curator_job import as_curator, curator_passes
from kb_pipeline.defs.processes import CORPUS_TAG
from kb_pipeline.defs.resources import Curation
from kb_pipeline.errors import UsageError
from kb_pipeline.vocabulary import JobType, RunStatus
from kb_pipeline_tests.defs.test_corpus_lock import idle
from kb_pipeline_tests.fakes.corpus import Corpus
from kb_pipeline_tests.fakes.house import House, HouseCorpus

NOW = datetime(2026, 12, 9, 12, tzinfo=UTC)
ROWS = ({"id": "a", "created_at": "2026-01-01T00:00:00Z"}, {"id": "b", "created_at": "2026-12-08T00:00:00Z"})


@dataclass
class Daemon:
    """What the daemon keeps, and the ticks of the sensor."""

    instance: dg.DagsterInstance
    url: str

    def tick(self) -> tuple[list[str], str]:
        """(corpora for which a pass is requested, what the tick says instead)."""
        context = dg.build_sensor_context(
            instance=self.instance, definitions=build_defs(), sensor_name="curator_passes"
        )
        result = curator_passes(context)
        assert isinstance(result, dg.SensorResult)
        for request in result.dynamic_partitions_requests or ():
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        said = result.skip_reason.skip_message if isinstance(result.skip_reason, dg.SkipReason) else ""
        requests = list(result.run_requests or ())
        assert all(request.tags[CORPUS_TAG] == request.partition_key for request in requests)
        return [str(request.partition_key) for request in requests], said or ""

    def corpus(self, name: str) -> Corpus:
        corpus = Corpus(self.url, name)
        corpus.load(*ROWS)
        return corpus


@pytest.fixture
def daemon(database_url: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setenv("KB_HOME", str(tmp_path))
    monkeypatch.setenv("KB_DATABASE_URL", database_url)
    monkeypatch.setenv("KB_NOW", NOW.isoformat())
    with dg.DagsterInstance.ephemeral() as instance:
        yield Daemon(instance, database_url)


def passed(corpus: Corpus, *, status: RunStatus = RunStatus.OK, waiting: int = 0, now: datetime = NOW) -> str:
    """A pass that took effect and asked nothing."""
    from kb_pipeline_tests.fakes.corpus import Decisions

    run = open_pass(
        corpus.database, run_id=str(uuid.uuid4()), corpus=corpus.name, profile="curator", policy_fingerprint="p",
        actor="tester", now=now,
    )  # fmt: skip
    add_counts(corpus.database, run.run_id, texts_waiting=waiting)
    corpus.apply(run, Decisions(unsure=(("a", "b"),)))
    corpus.query("UPDATE memory_maintenance_jobs SET status = %s WHERE run_id = %s", status.value, run.run_id)
    return run.run_id


def test_without_a_corpus_nothing_is_due(daemon: Daemon) -> None:
    assert daemon.tick() == ([], "there is no corpus yet: kb import")


def test_a_pass_is_due_where_something_came_since_the_last(daemon: Daemon) -> None:
    acme, beta = daemon.corpus("acme"), daemon.corpus("beta")
    assert daemon.tick()[0] == ["acme", "beta"]
    assert sorted(daemon.instance.get_dynamic_partitions("corpus")) == ["acme", "beta"]
    passed(acme)
    assert daemon.tick()[0] == ["beta"]
    passed(beta)
    nothing = "nothing new since the last pass"
    assert daemon.tick() == ([], f"acme: {nothing}; beta: {nothing}")
    acme.load({"id": "c", "created_at": "2026-12-09T00:00:00Z"})
    assert daemon.tick()[0] == ["acme"]
    passed(acme)
    # A week changes what a pass sees; a pass, and its rollback, do not.
    acme.curate(now=NOW, week=default_week(acme.database, "acme", NOW))
    assert daemon.tick()[0] == ["acme"]
    roll_back_run(acme.database, passed(acme), actor="ann")
    assert daemon.tick() == ([], f"acme: {nothing}; beta: {nothing}")


def test_what_a_pass_left_is_due_again_and_a_failing_judge_not_for_ever(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    passed(acme, waiting=7)
    assert why_due(acme.database, "acme") == "7 texts were left over by the last pass"
    for _ in range(MAX_RETRIES):
        passed(acme, status=RunStatus.DEGRADED)
    assert daemon.tick()[0] == ["acme"]
    passed(acme, status=RunStatus.DEGRADED)
    assert daemon.tick() == ([], "acme: nothing new since the last pass")
    acme.load({"id": "c", "created_at": "2026-12-09T00:00:00Z"})
    assert daemon.tick()[0] == ["acme"]


def test_a_corpus_that_is_worked_on_is_left_for_the_next_time(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    with acme.database.corpus_lock("acme"):
        assert daemon.tick() == ([], "acme: a command works on it")
    tags = {CORPUS_TAG: "acme", "dagster/partition": "acme|2026-11-30"}
    run = daemon.instance.create_run_for_job(job_def=idle, tags=tags, status=dg.DagsterRunStatus.STARTED)
    assert daemon.tick() == ([], f"acme: run {run.run_id} is at work or waits for its turn")
    daemon.instance.report_run_failed(run)
    assert daemon.tick()[0] == ["acme"]


def test_a_failed_pass_does_not_count(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    for _ in range(2):
        open_pass(
            acme.database, run_id=str(uuid.uuid4()), corpus="acme", profile="curator", policy_fingerprint="p",
            actor="tester", now=NOW,
        )  # fmt: skip
    assert list_runs(acme.database)["status"].to_list() == ["running", "failed"]
    assert last_pass(acme.database, "acme") is None and daemon.tick()[0] == ["acme"]


def test_a_pass_is_no_week(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    week = default_week(acme.database, "acme", NOW)
    run = acme.curate(now=NOW, week=week)
    passed(acme)
    assert latest_run(acme.database, "acme", week).run_id == run.run_id
    later = acme.open(now=NOW, week=week)
    assert later.rerun_of == run.run_id
    newest = list_runs(acme.database).filter(job_type=JobType.CURATOR_PASS.value)
    assert (newest["week"][0].isoformat(), newest["mode"][0]) == ("2026-12-07", "recommend")


def test_two_passes_of_one_second_are_two_times(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    passed(acme)
    passed(acme)
    assert len(set(list_runs(acme.database)["as_of"])) == 2
    # The second asked the same question, saw that it waits, and did not ask it again.
    assert acme.count("recommendations") == 1


def test_recent_is_what_was_written_or_came_lately(daemon: Daemon) -> None:
    acme = daemon.corpus("acme")
    passed(acme)
    acme.load({"id": "c", "created_at": "2025-01-01T00:00:00Z"}, {"id": "d", "created_at": "2026-12-09T11:00:00Z"})
    run = acme.database
    opened = open_pass(
        run, run_id="now", corpus="acme", profile="curator", policy_fingerprint="p", actor="tester", now=NOW
    )
    week_ago = datetime(2026, 12, 2, tzinfo=UTC)
    assert recent_texts(run, opened, week_ago, last_pass(run, "acme"))["entry_id"].to_list() == ["d", "b", "c"]
    assert recent_texts(run, opened, week_ago, None)["entry_id"].to_list() == ["d", "b"]


def test_the_sensor_is_on_and_its_job_is_of_a_corpus() -> None:
    sensor = defs.resolve_sensor_def("curator_passes")
    assert (sensor.default_status, sensor.minimum_interval_seconds) == (dg.DefaultSensorStatus.RUNNING, 1800)
    job = defs.resolve_job_def("curator_pass")
    assert job.partitions_def.name == "corpus" and job.executor_def.name == "in_process"
    assert corpus_of(dg.DagsterRun(job_name="j", tags={"dagster/partition": "acme"})) == "acme"
    assert corpus_of(dg.DagsterRun(job_name="j", tags={"dagster/partition": "acme|2026-05-04"})) == "acme"


def test_a_pass_applies_nothing_whatever_it_is_asked() -> None:
    assert (
        as_curator(Curation()).profile == as_curator(Curation(profile="curator", mode="recommend")).profile == "curator"
    )
    for asked in (Curation(mode="apply"), Curation(profile="steward")):
        with pytest.raises(UsageError):
            as_curator(asked)


def run_pass(corpus: HouseCorpus, instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    """The job as the Dagster UI starts it."""
    job = build_defs(corpus_lock=CorpusLock(wait_seconds=0)).resolve_job_def("curator_pass")
    instance.add_dynamic_partitions("corpus", [corpus.name])
    policy = corpus.write_policy(corpus.house.home / f"{corpus.name}.policy.yaml")
    own = {name: value for name, value in corpus.house.environment().items() if name.startswith("KB_")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**own, "KB_POLICY": str(policy)}.items():
            patch.setenv(name, value)
        return job.execute_in_process(
            instance=instance,
            partition_key=corpus.name,
            run_config={
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                "resources": {"curation": {"config": config}},
            },
            raise_on_error=False,
        )


def test_the_job_runs_and_honours_the_lock(house: House) -> None:
    corpus = house.corpus("curator-job", {"apply": {"mode": "apply"}})
    text = "The pilot boat leaves at first light"
    corpus.load(
        *({"id": name, "title": text, "body": "Be there.", "created_at": "2026-11-01T00:00:00Z"} for name in "ab")
    ).ok()
    with dg.DagsterInstance.ephemeral() as instance:
        with corpus.house.database.corpus_lock(corpus.name):
            assert not run_pass(corpus, instance).success
        assert corpus.runs() == [] or corpus.name not in {run["corpus"] for run in corpus.runs()}
        result = run_pass(corpus, instance)
        assert result.success
        run = instance.get_run_by_id(result.run_id)
        assert run is not None and run.tags[CORPUS_TAG] == corpus.name
        assert not run_pass(corpus, instance, mode="apply").success
    (recorded,) = [run for run in corpus.runs() if run["corpus"] == corpus.name]
    assert (recorded["run_id"], recorded["status"], recorded["mode"]) == (result.run_id, "ok", "recommend")
    # Two equal texts, which a week would merge, are a question here.
    assert corpus.merged() == {} and [row["action"] for row in corpus.actions()] == ["recommend"]


def test_a_week_is_not_run_under_the_profile_of_passes(house: House) -> None:
    from kb_pipeline_tests.defs.conftest import Desk, failed_steps

    corpus = house.corpus("curator-week")
    corpus.load({"id": "a", "body": "The pilot boat leaves at first light."}).ok()
    with dg.DagsterInstance.ephemeral() as instance:
        desk = Desk(corpus, instance)
        desk.set_policy(corpus.policy)
        result = desk.run(week="2026-10-26", config={"profile": "curator"})
    assert "run the job curator_pass" in failed_steps(result)["knowledge_entries"]
