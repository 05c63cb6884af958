"""A week is a week, whoever runs it: kb in its own process, or Dagster in one of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from kb_pipeline.adapters.dagster_storage import dagster_instance, prepare_dagster_home
from kb_pipeline.defs.processes import CORPUS_TAG
from kb_pipeline_tests.defs.conftest import ROWS, Desk, NewDesk, failed_steps
from kb_pipeline_tests.fakes.corpus import Corpus
from kb_pipeline_tests.fakes.house import WEEK, House, HouseCorpus

BEFORE = "2026-10-19"
NAME = "team"
LATE = {
    "id": "e",
    "title": "Invoices are archived for ten years",
    "body": "The law asks for it, see the finance wiki",
    "created_at": "2026-10-28T09:00:00Z",
}
UNDECIDED = {"id": "f", "title": "Releases are announced to the support team", "created_at": "2026-10-27T09:00:00Z",
             "state": "candidate"}  # fmt: skip


@pytest.fixture
def second_house(house: House, database_url: str, empty_database_url: str, tmp_path: Path) -> House:
    """Another installation with the same encoder."""
    return House(home=tmp_path, database_url=database_url, dagster_url=empty_database_url, model=house.model)


@pytest.fixture
def corpora(house: House, second_house: House) -> Iterator[tuple[HouseCorpus, HouseCorpus]]:
    """The same rows, and the first week curated, in both."""
    both = house.corpus(NAME), second_house.corpus(NAME)
    for corpus in both:
        corpus.load(*ROWS, LATE, UNDECIDED).ok()
    yield both


def through_dagster(corpus: HouseCorpus, week: str) -> None:
    """Runs a week as Dagster's command line does: code and records are loaded by a process of Dagster's own."""
    house = corpus.house
    policy = corpus.write_policy(house.home / f"{corpus.name}.policy.yaml")
    variables = house.environment(KB_POLICY=str(policy))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        home = prepare_dagster_home()
        with dagster_instance() as instance:
            instance.add_dynamic_partitions("corpus", [corpus.name])
    words = ["-m", "dagster", "asset", "materialize", "-m", "kb_pipeline.definitions", "--select", "*"]
    done = subprocess.run(
        [sys.executable, *words, "--partition", f"{corpus.name}|{week}"],
        cwd=house.home, env=variables | {"DAGSTER_HOME": str(home)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_week_through_dagster_and_through_kb_is_the_same(corpora: tuple[HouseCorpus, HouseCorpus]) -> None:
    ours, dagsters = corpora
    ours.kb("backfill", "--from", BEFORE, "--to", WEEK).ok()
    dagsters.curate("--week", BEFORE).ok()
    through_dagster(dagsters, WEEK)
    assert ours.merged() == {"b": "a", "e": "c"}  # something happened, in both weeks
    assert dagsters.export("--full") == ours.export("--full")
    files = []
    for corpus in corpora:
        runs = corpus.runs()
        assert [(run["week"], run["status"]) for run in runs] == [(WEEK, "ok"), (BEFORE, "ok")]
        found = corpus.files(WEEK)
        assert len(found) == 7
        run_id = re.compile(f'"?{runs[0]["run_id"]}"?')  # YAML quotes one that could be taken for a number
        assert all(run_id.search(content.decode()) for content in found.values())
        files.append({name: run_id.sub("RUN", content.decode()) for name, content in found.items()})
    for name, content in files[0].items():
        assert content == files[1][name], name
    # And the other way round: kb finds the week done.
    again = dagsters.curate("--week", WEEK)
    assert again.code == 0 and "nothing was changed" in again.out


def backfill_of(desk: Desk, *weeks: str) -> dict[str, str]:
    """Tags of a backfill of these weeks, as the daemon records it."""
    from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

    backfill = PartitionBackfill(
        backfill_id=f"of-{desk.name}",
        status=BulkActionStatus.REQUESTED,
        from_failure=False,
        tags={},
        backfill_timestamp=0.0,
        partition_names=[f"{desk.name}|{week}" for week in weeks],
    )
    desk.instance.add_backfill(backfill)
    return {"dagster/backfill": backfill.backfill_id}


def curate(desk: Desk, week: str) -> None:
    """A week that took effect, however."""
    Corpus(desk.database.url, desk.name).curate(date.fromisoformat(week))


def test_the_weeks_of_a_backfill_do_not_pass_each_other(new_desk: NewDesk) -> None:
    desk = new_desk()
    tags = backfill_of(desk, WEEK, BEFORE)
    (told,) = failed_steps(desk.run(week=WEEK, tags=tags)).values()
    assert f"week {BEFORE} of corpus {desk.name!r} belongs to the same backfill and has not taken effect" in told
    assert desk.rows() == []
    # A person may pass over a week.
    assert desk.run("knowledge_entries", week=WEEK).success
    curate(desk, BEFORE)
    assert desk.run("knowledge_entries", week=WEEK, tags=tags).success


def test_a_week_that_failed_stops_its_backfill(new_desk: NewDesk) -> None:
    desk = new_desk()
    tags = {"dagster/backfill": f"of assets {desk.name}"}
    failed = {"dagster/partition": f"{desk.name}|{BEFORE}", CORPUS_TAG: desk.name}
    job = desk.defs.resolve_job_def("weekly_curation")
    desk.instance.create_run_for_job(job_def=job, tags=tags | failed, status=dg.DagsterRunStatus.FAILURE)
    (told,) = failed_steps(desk.run(week=WEEK, tags=tags)).values()
    assert f"Run week {BEFORE} first (see its run if it failed)" in told
    assert desk.run("knowledge_entries", week=WEEK, tags={"dagster/backfill": "another"}).success
    curate(desk, BEFORE)
    assert desk.run("knowledge_entries", week=WEEK, tags=tags).success
