"""Weeks in order: one by one or as a backfill, partial and completed, skipped, repeated, and never backwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline_tests.acceptance.sample_run import without_run_and_time
from kb_pipeline_tests.fakes.house import Done, House, HouseCorpus, NewCorpus

Row = dict[str, Any]
FIRST, SECOND, THIRD = "2026-10-12", "2026-10-19", "2026-10-26"
WEEKS = (FIRST, SECOND, THIRD)
LATER = "2026-11-16"
IN_LATER_WEEKS = "2026-11-23T08:00:00+00:00"


def rows() -> list[Row]:
    """Every week has something to do, and the second and third build on the one before."""
    copy = {"body": "The pilot boards at buoy four when the swell is low.", "repository": "port"}
    once = {"body": "Berth nine is closed for ships with a draught over 12 m.", "repository": "port", "kind": "rule"}
    used = [
        {
            "id": f"u{n}",
            "type": "included",
            "at": f"2026-10-{13 + n // 2:02}T{8 + n % 2:02}:00:00Z",
            "outcome": "failure",
        }
        for n in range(24)
    ]
    return [
        {"id": "copy-1", "created_at": "2026-10-12T09:00:00Z", "attempts": 5, "successes": 2} | copy,
        {"id": "copy-2", "created_at": "2026-10-13T09:00:00Z"} | copy,
        {"id": "copy-3", "created_at": "2026-10-27T09:00:00Z", "attempts": 4, "successes": 1} | copy,
        {"id": "closed", "created_at": "2026-10-14T09:00:00Z"} | once,
        {"id": "closed-too", "created_at": "2026-10-27T09:00:00Z"} | once
        | {"body": "Berth nine is closed for ships with a draught over 14 m."},
        {"id": "failing", "created_at": "2026-10-12T10:00:00Z", "title": "Try the winch by hand first", "usage": used},
        {
            "id": "new", "created_at": "2026-10-21T09:00:00Z", "state": "candidate", "kind": "lesson",
            "title": "Ask the harbour master before the tugs are booked", "body": "They were sent away twice.",
        },
    ]  # fmt: skip


@dataclass(frozen=True)
class TwoWays:
    """The same rows curated week by week in one house, and by one backfill in another."""

    single: HouseCorpus
    backfilled: HouseCorpus
    backfill: Done
    exports: dict[str, tuple[bytes, bytes]]
    files: dict[str, tuple[dict[str, bytes], dict[str, bytes]]]


@pytest.fixture(scope="module")
def two_ways(house: House, other_house: House) -> TwoWays:
    single, backfilled = (place.corpus("ports") for place in (house, other_house))
    for corpus in (single, backfilled):
        corpus.load(*rows()).ok()
    for week in WEEKS:
        single.curate("--week", week).ok()
    backfill = backfilled.kb("backfill")
    return TwoWays(
        single=single,
        backfilled=backfilled,
        backfill=backfill,
        exports={words: (single.export(*words.split()), backfilled.export(*words.split())) for words in ("", "--full")},
        files={week: (single.files(week), backfilled.files(week)) for week in WEEKS},
    )


def test_a_backfill_gives_what_single_weeks_give(two_ways: TwoWays) -> None:
    assert two_ways.backfill.code == 0
    assert [line[:10] for line in two_ways.backfill.out.splitlines()[:3]] == list(WEEKS)
    for one, other in two_ways.exports.values():
        assert one == other
    exported = two_ways.single.rows()
    assert {entry: row["state"] for entry, row in exported.items() if row["state"] != "active"} == {
        "copy-2": "archived", "copy-3": "archived", "failing": "archived",
    }  # fmt: skip
    assert exported["copy-1"]["attempts"] == 9
    assert exported["closed"]["conflict_state"] == "open"


def test_a_backfill_writes_the_files_of_single_weeks(two_ways: TwoWays) -> None:
    run_ids = [{run["week"]: run["run_id"] for run in way.runs()} for way in (two_ways.single, two_ways.backfilled)]
    for week, (one, other) in two_ways.files.items():
        assert len(one) == 7 and one != other
        cleaned = [without_run_and_time(files, ids[week]) for files, ids in zip((one, other), run_ids, strict=True)]
        assert cleaned[0] == cleaned[1], week


def test_a_past_week_again_gives_its_files_and_late_rows_count_from_the_next_run_on(two_ways: TwoWays) -> None:
    corpus = two_ways.single
    before, run_id = corpus.export(), next(run["run_id"] for run in corpus.runs() if run["week"] == FIRST)
    late = {"id": "late", "created_at": "2026-10-12T12:00:00Z", "repository": "port"}
    corpus.load(late | {"body": "The pilot boards at buoy four when the swell is low."}).ok()
    with_late = corpus.export()
    assert with_late != before
    repeated = corpus.curate("--week", FIRST, "--json").ok().json
    assert (repeated["entries"], repeated["texts_encoded"], repeated["pairs_judged"]) == (4, 0, 0)
    assert corpus.export() == with_late
    old, new = two_ways.files[FIRST][0], corpus.files(FIRST)
    assert without_run_and_time(new, repeated["run_id"]) == without_run_and_time(old, run_id)

    skipped = corpus.curate("--week", LATER, "--json", KB_NOW=IN_LATER_WEEKS).ok().json
    assert skipped["entries"] == 8
    assert corpus.rows()["late"]["merged_into"] == "copy-1"
    back = corpus.curate("--week", "2026-11-09", KB_NOW=IN_LATER_WEEKS)
    assert back.code == 2 and "Weeks go forward" in back.err and LATER in back.err


def test_a_past_week_under_another_policy_is_refused(two_ways: TwoWays) -> None:
    corpus = two_ways.backfilled
    before = corpus.export("--full")
    for week in (FIRST, THIRD):
        done = corpus.kb("curate", "--week", week, KB_POLICY=_policy(corpus, {"retire": {"max_ci_upper": 0.2}}))
        assert done.code == 2, week
        assert "policy" in done.err and len(done.err.strip().splitlines()) == 1
    assert corpus.export("--full") == before
    assert corpus.curate("--week", SECOND).code == 0


def test_a_backfill_goes_on_where_the_last_one_ended(two_ways: TwoWays) -> None:
    corpus = two_ways.backfilled
    before = corpus.export("--full")
    again = corpus.kb("backfill").ok()
    assert [line[:10] for line in again.out.splitlines() if line.startswith("2026-")] == [THIRD]
    assert corpus.export("--full") == before
    further = corpus.kb("backfill", "--to", "2026-11-02", KB_NOW=IN_LATER_WEEKS).ok()
    assert [line[:10] for line in further.out.splitlines() if line.startswith("2026-")] == ["2026-11-02"]


def test_the_running_week_is_partial_and_completed_by_the_run_after_its_end(new_corpus: NewCorpus) -> None:
    corpus = new_corpus()
    copy = {"body": "The lock keeper answers on channel twelve only."}
    corpus.load(
        copy | {"id": "tuesday", "created_at": "2026-10-27T09:00:00Z"},
        copy | {"id": "tuesday-too", "created_at": "2026-10-27T10:00:00Z"},
        copy | {"id": "friday", "created_at": "2026-10-30T09:00:00Z"},
    ).ok()
    wednesday = {"KB_NOW": "2026-10-28T12:30:00.5+00:00"}
    # Nothing lies in the last complete week, so the running one is meant.
    partial = corpus.curate("--json", **wednesday).ok().json
    header = corpus.report("memory-health-report.yaml")["header"]
    assert (partial["week"], partial["entries"], header["partial"]) == (THIRD, 2, True)
    assert header["as_of"] == "2026-10-28T12:30:00Z"
    assert corpus.states() == {"tuesday": "active", "tuesday-too": "archived", "friday": "active"}
    done = corpus.curate("--json").ok().json
    header = corpus.report("memory-health-report.yaml")["header"]
    assert (done["week"], done["entries"], header["partial"], header["as_of"]) == (
        THIRD,
        3,
        False,
        "2026-11-02T00:00:00Z",
    )
    assert corpus.merged() == {"tuesday-too": "tuesday", "friday": "tuesday"}


def _policy(corpus: HouseCorpus, values: Row) -> str:
    other = HouseCorpus(corpus.house, corpus.name, corpus.policy | values)
    path = Path(corpus.house.home / f"{corpus.name}.other.yaml")
    other.write_policy(path)
    return str(path)
