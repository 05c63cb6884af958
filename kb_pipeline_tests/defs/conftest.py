"""What the tests of the Dagster wiring share: corpora of the house, and single assets run in this process."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import export_lines
from kb_pipeline.definitions import build_defs
from kb_pipeline.defs.corpus_lock import CorpusLock
from kb_pipeline.defs.frames import read_frame
from kb_pipeline.defs.io_managers import FrameIOManager
from kb_pipeline.defs.partitions import partition_key
from kb_pipeline_tests.fakes.house import House, HouseCorpus

_numbers = itertools.count(1)
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass
class Desk:
    """One corpus of the house, and Dagster around it with records of its own."""

    corpus: HouseCorpus
    instance: dg.DagsterInstance
    defs: dg.Definitions = field(default_factory=build_defs)

    @property
    def name(self) -> str:
        return self.corpus.name

    @property
    def database(self) -> Database:
        return self.corpus.house.database

    @property
    def policy_path(self) -> Path:
        return self.corpus.house.home / f"{self.name}.policy.yaml"

    def set_policy(self, policy: dict[str, Any]) -> None:
        """Edits the policy file."""
        self.corpus.policy = policy
        self.corpus.write_policy(self.policy_path)

    @contextmanager
    def inside(self, **variables: str) -> Iterator[None]:
        """This process has the environment of the house, with the policy of the corpus."""
        own = {name: value for name, value in self.corpus.house.environment().items() if name.startswith("KB_")}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**own, "KB_POLICY": str(self.policy_path), **variables}.items():
                patch.setenv(name, value)
            yield

    def run(
        self,
        *assets: str,
        week: str,
        config: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        **variables: str,
    ) -> dg.ExecuteInProcessResult:
        """Runs these assets of a week (all of the weekly job without any), as the Dagster UI would."""
        self.instance.add_dynamic_partitions("corpus", [self.name])
        job = self.defs.resolve_job_def("weekly_curation")
        if assets:
            job = self.defs.resolve_implicit_global_asset_job_def()
        with self.inside(**variables):
            return job.execute_in_process(
                instance=self.instance,
                partition_key=partition_key(self.name, date.fromisoformat(week)),
                asset_selection=[dg.AssetKey(name) for name in assets] or None,
                run_config=_QUIET | ({"resources": {"curation": {"config": dict(config)}}} if config else {}),
                tags=dict(tags or {}),
                raise_on_error=False,
            )

    def frame(self, name: str, week: str) -> pl.DataFrame:
        """A frame that the last run of a week left."""
        with self.inside():
            return read_frame(name, self.name, date.fromisoformat(week))

    def state(self) -> list[str]:
        """All that the corpus holds, as a full export has it."""
        return list(export_lines(self.database, self.name, full=True))

    def merged(self) -> dict[str, str]:
        """Loser to winner of every merge that counts."""
        found = self.corpus.query(
            "SELECT entry_id, merged_into FROM entries WHERE corpus = %s AND merged_into IS NOT NULL", self.name
        )
        return {row["entry_id"]: row["merged_into"] for row in found}

    def rows(self) -> list[dict[str, Any]]:
        """Runs of the corpus in the table of runs, newest first."""
        return self.corpus.query(
            "SELECT * FROM memory_maintenance_jobs WHERE corpus = %s ORDER BY started_at DESC", self.name
        )

    def last(self) -> tuple[str, str | None]:
        """(status, message) of the newest run."""
        row = self.rows()[0]
        return row["status"], row["message"]


NewDesk = Callable[..., Desk]


@pytest.fixture(scope="session")
def new_desk(house: House) -> Iterator[NewDesk]:
    """Makes a desk with a new corpus: rows, and policy values over the shipped ones."""
    with dg.DagsterInstance.ephemeral() as instance:

        def make(policy: Mapping[str, Any] | None = None, *rows: Mapping[str, Any], wait_seconds: int = 0) -> Desk:
            corpus = house.corpus(f"desk{next(_numbers)}", policy)
            corpus.load(*(rows or ROWS)).ok()
            lock = CorpusLock(wait_seconds=wait_seconds)
            return Desk(corpus, instance, build_defs(io_manager=FrameIOManager(corpus_lock=lock)))

        yield make


ROWS: tuple[Mapping[str, Any], ...] = (
    {"id": "a", "title": "Deploys of the shop begin with a dry run", "body": "The dry run shows what would change."},
    {"id": "b", "title": "Deploys of the shop begin with a dry run", "body": "The dry run shows what would change"},
    {"id": "c", "title": "Invoices are archived for ten years", "body": "The law asks for it, see the finance wiki."},
    {"id": "d", "title": "The queue is drained before a release", "body": "Otherwise old workers read new messages."},
)
"""Four entries, two of which say the same: their merge is what a week changes."""


def failed_steps(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """Step -> what an operator reads of its failure."""
    found = {}
    for event in result.all_events:
        if event.event_type is dg.DagsterEventType.STEP_FAILURE:
            data = event.step_failure_data
            described = data.user_failure_data.description if data.user_failure_data else None
            found[str(event.step_key)] = described or str(data.error)
    return found


def environment_of(house: House, **variables: str) -> dict[str, str]:
    """The environment of a command of its own process."""
    return {**house.environment(), "PATH": os.environ["PATH"], **variables}
