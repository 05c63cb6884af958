"""More weak entries than a run asks about: the rest is counted, asked later, and what was answered is neither."""

from __future__ import annotations

from typing import Any

from kb_pipeline_tests.fakes.house import WEEK, HouseCorpus, NewCorpus

LATER = "2026-11-23"
IN_LATER_WEEKS = "2026-12-01T08:00:00+00:00"
DECISIONS = [
    {
        "id": f"weak-{word}",
        "kind": "decision",
        "module": word,
        "title": f"We take the {word} berth",
        "body": f"The {word} berth it is.",
    }
    for word in ("north", "south", "east")
]


def left(corpus: HouseCorpus, week: str) -> int:
    """How many flagged entries the report of a week says are asked about later."""
    header: dict[str, Any] = corpus.report("memory-health-report.yaml", week)["header"]
    return sum(
        count for what, count in header["coverage"]["not_looked_at"].items() if what.startswith("flagged entries")
    )


def flagged(corpus: HouseCorpus, week: str) -> set[str]:
    return {ids[0] for ids, row in corpus.queue(week).items() if row["type"] == "FLAG"}


def test_an_answered_flag_is_neither_left_nor_asked_again(new_corpus: NewCorpus) -> None:
    corpus = new_corpus({"flags": {"max_new_per_run": 1}})
    corpus.load(*DECISIONS).ok()
    corpus.curate("--week", WEEK).ok()
    first = flagged(corpus, WEEK)
    assert len(first) == 1
    assert left(corpus, WEEK) == 2
    listed = corpus.kb("review", "list", "--json").ok().json["questions"]
    (asked,) = [question for question in listed if question["type"] == "FLAG"]
    corpus.kb("review", "dismiss", asked["recommendation_id"]).ok()
    corpus.curate("--week", LATER, KB_NOW=IN_LATER_WEEKS).ok()
    second = flagged(corpus, LATER)
    assert len(second) == 1 and not first & second
    assert left(corpus, LATER) == 1
