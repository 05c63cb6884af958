"""Runs: the order of weeks and its guard, re-runs, partial weeks, epochs, and the table of runs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from kb_pipeline.adapters.rolling_back import roll_back_run
from kb_pipeline.adapters.runs import (
    add_counts,
    close_run,
    default_week,
    first_entry_week,
    first_undone_week,
    latest_run,
    list_runs,
    load_counts,
    load_run,
    next_week,
    parse_week,
    refuse_future,
    run_status,
    week_start,
)
from kb_pipeline.errors import UnknownNameError, WeekError
from kb_pipeline.vocabulary import Mode, RunStatus
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, NOW, WEEK, Corpus, Decisions

ROWS: list[dict[str, Any]] = [
    {"id": "a", "created_at": "2026-01-01"},
    {"id": "b", "created_at": "2026-01-02"},
    {"id": "c", "created_at": "2026-11-18"},
]
RUNNING = date(2026, 12, 7)
"""The running week of the tests' clock, Wednesday 2026-12-09 12:00."""


@pytest.fixture
def loaded(corpus: Corpus) -> Corpus:
    corpus.load(*ROWS)
    return corpus


def weeks(corpus: Corpus) -> list[tuple[str, str]]:
    """(week, status) of all runs, oldest first."""
    return [(str(row["week"]), row["status"]) for row in list_runs(corpus.database, corpus.name).reverse().to_dicts()]


@pytest.mark.parametrize("text", ["2026-11-16", "2024-12-30", "2027-01-04"])
def test_a_week_is_named_by_its_monday(text: str) -> None:
    assert str(parse_week(text)) == text
    assert week_start(parse_week(text)).weekday() == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-11-17", "is a Tuesday; weeks are named by their Monday, here 2026-11-16"),
        ("2026-11-22", "is a Sunday; weeks are named by their Monday, here 2026-11-16"),
        ("2026-W47", "Monday"),
        ("2026-02-30", "is not a date"),
        ("last", "is not a date"),
        ("", "is not a date"),
    ],
)
def test_other_names_of_weeks_are_refused(text: str, message: str) -> None:
    if text == "2026-W47":
        assert parse_week(text) == WEEK  # an ISO week is a Monday too
        return
    with pytest.raises(WeekError, match=message) as error:
        parse_week(text)
    assert error.value.exit_code == 2


def test_the_default_week_is_the_last_complete_one_or_the_running_one(corpus: Corpus) -> None:
    corpus.load({"id": "new", "created_at": "2026-12-07T00:00:00Z"})
    assert default_week(corpus.database, corpus.name, NOW) == RUNNING
    corpus.load({"id": "old", "created_at": "2026-12-06T23:59:59Z"})
    assert default_week(corpus.database, corpus.name, NOW) == date(2026, 11, 30)
    with pytest.raises(UnknownNameError):
        default_week(corpus.database, corpus.name + "x", NOW)


def test_a_run_knows_its_week(loaded: Corpus) -> None:
    run = loaded.open(run_id=f"{loaded.name}-r1")
    assert (run.as_of, run.partial, run.epoch, run.rerun_of) == (datetime(2026, 11, 23, tzinfo=UTC), False, 0, None)
    assert load_run(loaded.database, run.run_id) == run
    assert latest_run(loaded.database, loaded.name, WEEK) == run
    assert run_status(loaded.database, run.run_id) is RunStatus.RUNNING
    with pytest.raises(WeekError, match="never begun"):
        latest_run(loaded.database, loaded.name, NEXT_WEEK)
    with pytest.raises(UnknownNameError):
        load_run(loaded.database, "no such run")
    with pytest.raises(UnknownNameError):
        Corpus(loaded.url, "nobody").open()


def test_a_future_week_is_refused(loaded: Corpus) -> None:
    with pytest.raises(WeekError, match="lies in the future; the running week is 2026-12-07"):
        loaded.open(date(2026, 12, 14))
    refuse_future(RUNNING, NOW)
    loaded.open(RUNNING)
    with pytest.raises(WeekError, match="future"):
        loaded.open(RUNNING, now=datetime(2026, 12, 6, 23, 59, 59, tzinfo=UTC))
    assert weeks(loaded) == [(str(RUNNING), "running")]


def test_weeks_go_forward_and_may_be_skipped(loaded: Corpus) -> None:
    loaded.curate(date(2026, 9, 7))
    loaded.curate(date(2026, 9, 14))
    loaded.curate(WEEK)
    for week in (date(2026, 9, 21), date(2026, 11, 9)):
        with pytest.raises(WeekError, match=f"week {week} .* lies before {WEEK}") as error:
            loaded.open(week)
        assert error.value.exit_code == 2
        assert "kb rollback" in str(error.value)
    assert [week for week, _ in weeks(loaded)] == ["2026-09-07", "2026-09-14", "2026-11-16"]
    loaded.curate(NEXT_WEEK)


def test_a_first_run_may_start_at_any_week(loaded: Corpus) -> None:
    assert loaded.curate(date(2026, 1, 5)).epoch == 0
    assert loaded.entries(loaded.open(date(2026, 1, 12)))["entry_id"].to_list() == ["a", "b"]


def test_a_past_week_may_be_run_again_under_the_same_policy_and_applies_nothing(loaded: Corpus) -> None:
    first = loaded.curate(WEEK, decided=Decisions(retire=("a",)))
    second = loaded.curate(NEXT_WEEK, decided=Decisions(retire=("b",)))
    before = loaded.everything()
    for run in (first, second):
        again = loaded.open(run.week)
        assert again.rerun_of == run.run_id
        assert (again.as_of, again.epoch, again.snapshot_change_id) == (run.as_of, run.epoch, run.snapshot_change_id)
        done = loaded.apply(again, Decisions(retire=("a" if run is first else "b",), scores={"a": 0.5}))
        assert (done.action_count, done.transition_count) == (0, 0)
        assert run_status(loaded.database, again.run_id) is RunStatus.OK
    assert loaded.everything() == before
    # What is repeated does not count as applied: the next week is still the next week.
    assert next_week(loaded.database, loaded.name, WEEK)[0] == date(2026, 11, 30)


def test_another_policy_for_a_week_that_changed_something_is_refused(loaded: Corpus) -> None:
    first = loaded.curate(WEEK, decided=Decisions(retire=("a",)))
    with pytest.raises(WeekError, match=f"under another policy .*kb rollback {first.run_id}"):
        loaded.open(WEEK, policy="other")
    roll_back_run(loaded.database, first.run_id, actor="ann")
    assert loaded.open(WEEK, policy="other").rerun_of is None


def test_another_policy_after_a_run_that_only_opened_a_conflict_is_refused(loaded: Corpus) -> None:
    first = loaded.curate(WEEK, decided=Decisions(conflicts=(("a", "b"),)))
    with pytest.raises(WeekError, match=f"run {first.run_id}, 1 actions.*kb rollback {first.run_id}"):
        loaded.open(WEEK, policy="other")


def test_the_first_week_that_is_not_done(loaded: Corpus) -> None:
    first = first_undone_week(loaded.database, loaded.name)
    assert first == first_entry_week(loaded.database, loaded.name)
    loaded.curate(WEEK)
    assert first_undone_week(loaded.database, loaded.name) == NEXT_WEEK
    run = loaded.curate(NEXT_WEEK)
    roll_back_run(loaded.database, run.run_id, actor="ann")
    assert first_undone_week(loaded.database, loaded.name) == NEXT_WEEK


def test_another_policy_after_a_run_that_changed_nothing_is_taken(loaded: Corpus) -> None:
    loaded.curate(WEEK, mode=Mode.RECOMMEND, decided=Decisions(retire=("a",)))
    assert loaded.rows()["a"]["state"] == "active"
    run = loaded.curate(WEEK, policy="other", decided=Decisions(retire=("a",)))
    assert run.rerun_of is None
    assert loaded.rows()["a"]["state"] == "archived"


def test_another_policy_for_an_earlier_week_is_refused(loaded: Corpus) -> None:
    loaded.curate(WEEK)
    loaded.curate(NEXT_WEEK)
    with pytest.raises(WeekError, match="lies before"):
        loaded.open(WEEK, policy="other")


def test_a_partial_week_is_completed_later(loaded: Corpus) -> None:
    loaded.load({"id": "monday", "created_at": "2026-12-07"}, {"id": "friday", "created_at": "2026-12-11"})
    half = loaded.open(RUNNING, now=NOW.replace(microsecond=250000))
    assert (half.partial, half.as_of) == (True, NOW)
    assert "monday" in loaded.entries(half)["entry_id"]
    assert "friday" not in loaded.entries(half)["entry_id"]
    loaded.apply(half, Decisions(retire=("a",)))
    later = loaded.curate(RUNNING, now=NOW + timedelta(hours=1), decided=Decisions(retire=("b",)))
    assert (later.partial, later.rerun_of) == (True, None)
    with pytest.raises(WeekError, match="lies before"):
        loaded.open(RUNNING, now=NOW + timedelta(minutes=5))  # the clock does not go back
    assert loaded.open(RUNNING, now=NOW).rerun_of == half.run_id
    assert next_week(loaded.database, loaded.name, RUNNING)[0] == RUNNING
    after = datetime(2026, 12, 15, tzinfo=UTC)
    whole = loaded.open(RUNNING, now=after)
    assert (whole.partial, whole.as_of, whole.rerun_of) == (False, datetime(2026, 12, 14, tzinfo=UTC), None)
    states = dict(loaded.entries(whole).select("entry_id", "state").iter_rows())
    assert states == {"a": "archived", "b": "archived", "c": "active", "monday": "active", "friday": "active"}
    loaded.apply(whole, Decisions(retire=("friday",)))
    assert loaded.open(RUNNING, now=after).rerun_of == whole.run_id
    assert next_week(loaded.database, loaded.name, RUNNING)[0] == date(2026, 12, 14)


def test_a_partial_week_that_was_overtaken_is_not_completed(loaded: Corpus) -> None:
    loaded.curate(RUNNING)
    loaded.curate(date(2026, 12, 14), now=datetime(2026, 12, 15, tzinfo=UTC))
    with pytest.raises(WeekError, match="lies before"):
        loaded.open(RUNNING, now=datetime(2026, 12, 15, tzinfo=UTC))


def test_a_rollback_raises_the_epoch_and_the_week_can_be_done_again(loaded: Corpus) -> None:
    decided = Decisions(retire=("a",))
    first = loaded.curate(WEEK, decided=decided)
    ids = {
        row["action_id"]
        for row in loaded.query("SELECT action_id FROM curation_actions WHERE run_id = %s", first.run_id)
    }
    for epoch in (1, 2):
        roll_back_run(loaded.database, latest_run(loaded.database, loaded.name, WEEK).run_id, actor="ann")
        assert loaded.rows()["a"]["state"] == "active"
        run = loaded.curate(WEEK, decided=decided)
        assert (run.epoch, run.rerun_of) == (epoch, None)
        assert loaded.rows()["a"]["state"] == "archived"
        new = {
            row["action_id"]
            for row in loaded.query("SELECT action_id FROM curation_actions WHERE run_id = %s", run.run_id)
        }
        assert new and new.isdisjoint(ids)
        ids |= new
    # Another week has its own count.
    assert loaded.curate(NEXT_WEEK).epoch == 0


def test_a_run_that_was_killed_or_failed_does_not_count(loaded: Corpus) -> None:
    loaded.open(NEXT_WEEK)
    run = loaded.open(WEEK)  # an earlier week: nothing was applied yet
    close_run(loaded.database, run.run_id, RunStatus.HALTED, message="too many changes")
    assert weeks(loaded) == [(str(NEXT_WEEK), "failed"), (str(WEEK), "halted")]
    messages = list_runs(loaded.database, loaded.name)["message"].to_list()
    assert messages == ["too many changes", "the process ended before the run did; nothing was applied"]
    assert loaded.curate(date(2026, 11, 9)).rerun_of is None


def test_a_run_that_is_over_keeps_its_end(loaded: Corpus) -> None:
    run = loaded.curate(WEEK)
    close_run(loaded.database, run.run_id, RunStatus.FAILED, message="too late")
    (row,) = list_runs(loaded.database, loaded.name).to_dicts()
    assert (row["status"], row["message"]) == ("ok", None)
    assert row["completed_at"] >= row["started_at"]


def test_a_step_that_is_repeated_within_a_run_finds_its_own_row(loaded: Corpus) -> None:
    name = f"{loaded.name}-r1"
    first = loaded.open(RUNNING, run_id=name)
    loaded.load({"id": "between", "created_at": "2026-02-01"})
    again = loaded.open(RUNNING, run_id=name, now=NOW + timedelta(minutes=5))
    assert again.as_of > first.as_of
    assert load_run(loaded.database, name) == again
    assert "between" in loaded.entries(again)["entry_id"]
    assert len(weeks(loaded)) == 1


def test_a_repeated_apply_within_a_run_does_nothing_more(loaded: Corpus) -> None:
    decided = Decisions(retire=("a",), scores={"b": 0.5})
    run = loaded.open()
    found, plan, _ = loaded.plan(run, decided)
    assert (plan.height, found.height) == (1, 3)
    assert loaded.apply(run, decided).transition_count == 1
    before = loaded.everything()
    assert loaded.apply(run, decided).action_count == 0
    assert loaded.everything() == before
    (row,) = list_runs(loaded.database, loaded.name).to_dicts()
    assert (row["status"], row["updated_count"], row["selected_count"]) == ("ok", 1, 3)


def test_numbers_of_a_run_add_up(loaded: Corpus) -> None:
    run = loaded.open()
    add_counts(loaded.database, run.run_id, newer=1, model_fingerprint="m")
    add_counts(loaded.database, run.run_id, pairs=3)
    assert load_counts(loaded.database, run.run_id) == {"newer": 1, "model_fingerprint": "m", "pairs": 3}
    loaded.apply(run, Decisions())
    assert load_counts(loaded.database, run.run_id)["pairs"] == 3
    assert load_counts(loaded.database, run.run_id)["entries"] == 3


def test_runs_are_listed_newest_first_by_corpus_or_all(loaded: Corpus) -> None:
    other = Corpus(loaded.url, loaded.name + "-other")
    other.load(*ROWS)
    mine = [loaded.curate(WEEK), loaded.curate(NEXT_WEEK)]
    theirs = other.curate(WEEK)
    listed = list_runs(loaded.database, loaded.name)
    assert listed["run_id"].to_list() == [mine[1].run_id, mine[0].run_id]
    row = listed.row(0, named=True)
    assert (row["corpus"], row["week"], row["profile"]) == (loaded.name, NEXT_WEEK, "weekly")
    assert (row["mode"], row["status"], row["actor_id"]) == ("apply", "ok", "tester")
    everything = list_runs(loaded.database)["run_id"].to_list()
    assert everything[:3] == [theirs.run_id, mine[1].run_id, mine[0].run_id]
    assert list_runs(loaded.database, "nobody").is_empty()


def test_the_next_and_the_first_week_of_a_corpus(loaded: Corpus) -> None:
    assert first_entry_week(loaded.database, loaded.name) == date(2025, 12, 29)
    assert next_week(loaded.database, loaded.name, date(2026, 11, 30)) == (date(2026, 11, 30), 0)
    run = loaded.curate(WEEK, decided=Decisions(retire=("a",)))
    assert next_week(loaded.database, loaded.name, date(2026, 11, 30)) == (NEXT_WEEK, 0)
    roll_back_run(loaded.database, run.run_id, actor="ann")
    assert next_week(loaded.database, loaded.name, date(2026, 11, 30)) == (date(2026, 11, 30), 1)
