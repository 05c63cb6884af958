"""The sample's 26 weeks as a user runs them, and everything that the tests hold against the truth, read once.

Belongs here: running and reading. What is true stands in the sample's truth file, what must hold in the tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kb_pipeline.sample import FIRST_WEEK, LAST_WEEK, load_truth, sample_path
from kb_pipeline_tests.fakes.house import Done, House, HouseCorpus, query

HEADER_LINES = re.compile(rb"^  (run_id|generated_at): .*$", re.MULTILINE)

CORPUS = "sample"
LAST = LAST_WEEK.isoformat()

Files = dict[str, dict[str, bytes]]
"""Week -> file name -> content."""


@dataclass(frozen=True)
class SampleRun:
    """What the weeks left behind. ``before`` and ``after`` are full exports around the last week."""

    house: House
    said: tuple[Done, ...]
    before: bytes
    after: bytes
    rows: dict[str, dict[str, Any]]
    imported: dict[str, dict[str, Any]]
    actions: list[dict[str, Any]]
    conflicts: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    files: Files

    @property
    def corpus(self) -> HouseCorpus:
        return sample_corpus(self.house)

    @cached_property
    def truth(self) -> dict[str, Any]:
        """The sample's truth."""
        return load_truth()

    def report(self, name: str, week: str = LAST) -> dict[str, Any]:
        """One YAML file of a week."""
        document: dict[str, Any] = YAML(typ="safe").load(self.files[week][name])
        return document

    def done_to(self, entry_id: str, *names: str) -> list[dict[str, Any]]:
        """Actions about an entry, as the entry or as the other one of a pair."""
        return [
            action
            for action in self.actions
            if entry_id in (action["entry_id"], action["other_entry_id"]) and (not names or action["action"] in names)
        ]

    def merged_to(self, entry_id: str) -> str:
        """Where an entry ended: itself, or the one it was merged into, step by step."""
        while (into := self.rows[entry_id]["merged_into"]) is not None:
            entry_id = into
        return entry_id


def sample_corpus(house: House) -> HouseCorpus:
    """The corpus under the shipped policy, so with the real encoder."""
    return HouseCorpus(house, CORPUS, {}, {"KB_POLICY": None})


def run_sample(house: House) -> SampleRun:
    """Imports the sample and curates all its weeks, with a full export before and after the last one."""
    corpus = sample_corpus(house)
    week_before = LAST_WEEK.fromordinal(LAST_WEEK.toordinal() - 7).isoformat()
    said = [
        corpus.kb("import", sample_path()),
        corpus.kb("backfill", "--from", FIRST_WEEK.isoformat(), "--to", week_before),
    ]
    before = corpus.export("--full")
    said.append(corpus.kb("curate"))
    return SampleRun(
        house=house,
        said=tuple(done.ok() for done in said),
        before=before,
        after=corpus.export("--full"),
        rows=corpus.rows(),
        imported={row["id"]: row for row in _json_lines(sample_path())},
        actions=corpus.actions(),
        conflicts=corpus.query("SELECT * FROM conflicts WHERE corpus = %s ORDER BY conflict_id", CORPUS),
        pairs=corpus.query(
            "SELECT * FROM report_pairs WHERE corpus = %s ORDER BY week, entry_id_l, entry_id_r", CORPUS
        ),
        runs=corpus.runs(),
        files=read_files(house),
    )


def read_files(house: House) -> Files:
    """All files of all weeks."""
    return {
        folder.name: {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        for folder in sorted((house.reports / CORPUS).iterdir())
    }


def without_run_and_time(files: dict[str, bytes], run_id: str) -> dict[str, bytes]:
    """The files of a week without run id and time of writing, which stand in the YAML headers and on the page."""
    written = re.search(rb"generated_at: \"?([^\"\n]+)", files["memory-health-report.yaml"])
    assert written is not None
    return {
        name: content.replace(run_id.encode(), b"RUN").replace(written[1], b"THEN")
        if name.endswith(".html")
        else HEADER_LINES.sub(rb"  \1", content, count=2)
        for name, content in files.items()
    }


def dagster_events(house: House, text: str) -> int:
    """Number of events in Dagster's records that hold a text."""
    rows = query(house.dagster_url, "SELECT count(*) AS n FROM event_logs WHERE position(%s in event) > 0", text)
    return int(rows[0]["n"])


def _json_lines(path: Path) -> list[dict[str, Any]]:
    import json

    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
