"""One small corpus that was curated once, for all tests of commands."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kb_pipeline_tests.fakes.house import Done, House, HouseCorpus

TEXT = {"body": "The watch officer logs the barometer every four hours.", "module": "bridge"}
ROWS = (
    {"id": "log-a", "attempts": 4, "successes": 3, "evidence": [{"type": "file", "path": "docs/log.md"}]} | TEXT,
    {"id": "log-b", "attempts": 2, "successes": 2} | TEXT,
    {"id": "horn-a", "kind": "rule", "body": "The horn must be tested on Mondays."},
    {"id": "horn-b", "kind": "rule", "body": "The horn must not be tested on Mondays."},
    {"id": "poor-a", "kind": "lesson", "body": "Hit the radar until it turns.", "attempts": 40, "successes": 1},
    {"id": "plain-a", "kind": "decision", "body": "We log in UTC because crews change zones.", "pinned": True},
)


@dataclass(frozen=True)
class Curated:
    """The corpus and what its import and its one run printed."""

    corpus: HouseCorpus
    imported: Done
    done: Done
    run_id: str

    @property
    def house(self) -> House:
        return self.corpus.house


@pytest.fixture(scope="session")
def curated(house: House) -> Curated:
    corpus = house.corpus("bridge")
    imported = corpus.load(*ROWS).ok()
    done = corpus.curate().ok()
    return Curated(corpus, imported, done, corpus.runs()[0]["run_id"])
