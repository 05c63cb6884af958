"""Whole runs that ask whether one entry replaces another, and whether an entry still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kb_pipeline_tests.fakes.house import HouseCorpus, NewCorpus

Row = dict[str, Any]
LATER, MUCH_LATER = "2026-11-09T08:00:00+00:00", "2026-12-07T08:00:00+00:00"

ROWS: tuple[Row, ...] = (
    {"id": "mast-old", "module": "mast", "body": "The mast light burns from dusk to dawn."},
    {"id": "mast-new", "module": "mast", "body": "Mast lights burn as long as a ship is moored.", "supersedes": ["mast-old"]},
    {"id": "buoy-old", "module": "buoy", "title": "How long a buoy is lit", "body": "Six hours every night."},
    {
        "id": "buoy-new", "module": "buoy", "title": "How long a buoy is lit", "created_at": "2026-10-12T09:00:00Z",
        "body": "This replaces the previous rule. As long as it is dark.",
    },
    {"id": "gate-other", "module": "gate", "body": "The gate opens at high tide.", "supersedes": ["mast-old"]},
    {"id": "quay-1", "module": "quay", "body": "Berth nine is closed for repairs.", "expires_at": "2026-10-20T00:00:00Z"},
    {"id": "quay-2", "module": "quay", "body": "Crane four is closed as well.", "expires_at": "2027-01-20T00:00:00Z"},
    {"id": "quay-3", "module": "dock", "body": "The dry dock is let to the navy.", "expires_at": "2026-10-21T00:00:00Z"},
    {
        "id": "rope-1", "module": "rope", "kind": "convention", "body": "Ropes are coiled clockwise on this pier.",
        "invalidation_policy": ["source_changed", {"validateAfterDays": 20}],
    },
)  # fmt: skip


@dataclass(frozen=True)
class Weeks:
    """The queue of the first week, and what people answered then."""

    corpus: HouseCorpus
    queue: dict[tuple[str, ...], Row]
    next_queue: dict[tuple[str, ...], Row]
    last_queue: dict[tuple[str, ...], Row]
    rows: dict[str, Row]


@pytest.fixture(scope="module")
def weeks(new_corpus: NewCorpus) -> Iterator[Weeks]:
    corpus = new_corpus()
    corpus.load(*ROWS).ok()
    corpus.curate().ok()
    queue = corpus.queue()
    answers = {("rope-1",): "keep", ("quay-1",): "dismiss", ("quay-3",): "keep", ("mast-old", "mast-new"): "accept"}
    for ids, word in answers.items():
        corpus.kb("review", word, queue[ids]["recommendationId"]).ok()
    corpus.curate(KB_NOW=LATER).ok()
    next_queue = corpus.queue("2026-11-02")
    corpus.curate(KB_NOW=MUCH_LATER).ok()
    yield Weeks(corpus, queue, next_queue, corpus.queue("2026-11-30"), corpus.rows())


def test_what_is_asked_and_why(weeks: Weeks) -> None:
    told = {ids: (row["type"], row["severity"], row["reason"]) for ids, row in weeks.queue.items()}
    assert told == {
        ("mast-old", "mast-new"): ("SUPERSEDE", "medium", "supersede.declared"),
        ("buoy-old", "buoy-new"): ("SUPERSEDE", "medium", "supersede.same_title"),
        ("quay-1",): ("REFRESH", "medium", "refresh.expired"),
        ("quay-3",): ("REFRESH", "medium", "refresh.expired"),
        ("rope-1",): ("REFRESH", "medium", "refresh.unvalidated"),
    }


def test_nothing_is_done_without_a_person(weeks: Weeks) -> None:
    assert {action["action"] for action in weeks.corpus.actions()} == {"recommend"}


def test_what_was_answered_is_not_asked_again(weeks: Weeks) -> None:
    assert weeks.rows["mast-old"]["state"] == "superseded"
    assert weeks.rows["mast-old"]["superseded_by"] == "mast-new"
    assert list(weeks.next_queue) == [("buoy-old", "buoy-new")]
    assert {weeks.rows[entry]["state"] for entry in ("quay-1", "quay-3")} == {"active"}
    # A validation does not move the date: the same question would come for ever.
    assert weeks.rows["quay-3"]["last_validated_at"].startswith("2026-11-02")


def test_what_a_person_found_to_hold_is_asked_about_when_its_time_has_run_down(weeks: Weeks) -> None:
    assert weeks.rows["rope-1"]["last_validated_at"].startswith("2026-11-02")
    first, again = weeks.queue["rope-1",], weeks.last_queue["rope-1",]
    assert (again["type"], again["reason"]) == ("REFRESH", "refresh.unvalidated")
    assert again["recommendationId"] != first["recommendationId"]
    assert "2026-11-02" in again["explanation"]
    assert set(weeks.last_queue) == {("buoy-old", "buoy-new"), ("rope-1",)}


def test_a_run_asks_a_bounded_number_and_says_what_it_left(new_corpus: NewCorpus) -> None:
    corpus = new_corpus({"refresh": {"max_new_per_run": 1}, "supersede": {"max_new_per_run": 1}})
    corpus.load(*ROWS).ok()
    corpus.curate().ok()
    assert set(corpus.queue()) == {("mast-old", "mast-new"), ("quay-1",)}
    left = corpus.report("memory-health-report.yaml")["header"]["coverage"]["not_looked_at"]
    assert left["questions over supersede.max_new_per_run or refresh.max_new_per_run, asked later"] == 3
    corpus.curate(KB_NOW=LATER).ok()
    assert set(corpus.queue("2026-11-02")) == {
        ("mast-old", "mast-new"), ("quay-1",), ("buoy-old", "buoy-new"), ("quay-3",),
    }  # fmt: skip
