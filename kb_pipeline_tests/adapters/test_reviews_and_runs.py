"""Answers between runs and imports: what was answered stays answered, and what was built on it is undone first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb_pipeline.adapters.rolling_back import roll_back_entry, roll_back_run
from kb_pipeline.errors import KbError, ReviewError, RollbackError
from kb_pipeline.vocabulary import Mode, Resolution
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, NOW, Corpus, Decisions
from kb_pipeline_tests.fakes.desk import ASKED, ROWS, Desk

# --- weeks before and after ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "given"), [("keep", {}), ("dismiss", {})])
def test_what_was_answered_is_not_asked_again_until_a_text_changes(
    desk: Desk, action: str, given: dict[str, Any]
) -> None:
    desk.do(action, desk.question("MERGE"), **given)
    again = desk.corpus.curate(NEXT_WEEK, decided=ASKED)
    assert desk.kinds() == ["CONFLICT"]
    # Not even a judge that calls them the same merges what a person called two.
    third = NEXT_WEEK + timedelta(days=7)
    run = desk.corpus.open(third, policy="other")
    found = desk.corpus.plan(run, Decisions(merges={"a": "b"}))[1]
    assert "merge" not in found.filter(found["entry_id"] == "a")["verdict"].to_list()
    desk.corpus.load(ROWS[1] | {"body": "Try again, 3 times, please."})
    desk.corpus.curate(third, decided=ASKED)
    assert desk.kinds() == ["CONFLICT", "MERGE"]
    assert again.run_id


def test_a_dismissed_question_comes_back_with_its_undo(desk: Desk) -> None:
    name = desk.question("MERGE")
    desk.do("dismiss", name)
    assert desk.kinds() == ["CONFLICT"]
    desk.undo(name)
    assert desk.kinds() == ["CONFLICT", "MERGE"]


@pytest.mark.parametrize("resolution", [Resolution.KEEP_BOTH, Resolution.MANUAL])
def test_a_conflict_that_was_called_none_is_not_opened_again(desk: Desk, resolution: Resolution) -> None:
    desk.now = datetime(2026, 11, 24, tzinfo=UTC)
    desk.do("accept", desk.question("CONFLICT"), resolution=resolution)
    desk.corpus.curate(NEXT_WEEK, decided=ASKED)
    assert desk.corpus.rows()["a"]["conflict_state"] == "none"
    desk.corpus.load(ROWS[2] | {"body": "Retry 6 times.", "updated_at": "2026-11-25"})
    desk.corpus.curate(NEXT_WEEK + timedelta(days=7), decided=ASKED)
    assert desk.corpus.rows()["a"]["conflict_state"] == "open"


def test_a_rule_that_a_person_answered_leaves_the_entry_alone(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    desk = Desk(corpus)
    corpus.curate(decided=Decisions(retire=("d",)), mode=Mode.RECOMMEND)
    desk.do("keep", desk.question("ARCHIVE"))
    kept = corpus.entries(corpus.open(NEXT_WEEK)).filter(entry_id="d")["kept_rules"].to_list()
    assert kept == [["retire"]]


def test_an_answer_after_the_weeks_end_is_not_run_over(desk: Desk) -> None:
    """The week of NEXT_WEEK ended before the clock: its run sees what a person did since, and leaves it alone."""
    desk.do("approve", "d")
    desk.do("accept", desk.question("MERGE"))
    run = desk.corpus.open(NEXT_WEEK)
    spared = desk.corpus.entries(run).filter(entry_id="d")["kept_rules"][0].to_list()
    assert {"retire", "merge"} <= set(spared)
    other = desk.corpus.entries(run).filter(entry_id="c")["kept_rules"][0].to_list()
    assert other == []
    desk.corpus.apply(run, Decisions(scores={"d": 0.5}))
    assert desk.corpus.rows()["b"]["attempts"] == 42
    assert desk.corpus.projections_are_true()


def test_an_answer_is_seen_by_the_week_after_and_not_by_a_rerun(desk: Desk) -> None:
    first = desk.corpus.query("SELECT run_id FROM memory_maintenance_jobs WHERE corpus = %s", desk.corpus.name)
    seen = desk.corpus.entries(desk.corpus.open())
    desk.do("edit", "d", body="The pier is dry at noon.")
    desk.do("accept", desk.question("MERGE"))
    again = desk.corpus.open()
    assert again.rerun_of == first[0]["run_id"]
    assert desk.corpus.entries(again).equals(seen)
    later = desk.corpus.entries(desk.corpus.open(NEXT_WEEK + timedelta(days=14), now=NOW + timedelta(days=7)))
    assert later.filter(entry_id="d")["text"].to_list() == ["Knowledge of d\nThe pier is dry at noon."]
    assert later.filter(entry_id="a")["state"].to_list() == ["archived"]


def test_an_answer_never_takes_effect_before_the_last_week_that_was_applied(desk: Desk) -> None:
    desk.now = datetime(2026, 11, 1, tzinfo=UTC)
    done = desk.do("archive", "d")
    assert done.written.effective_at == datetime(2026, 11, 23, tzinfo=UTC)
    assert desk.corpus.rows(as_of=datetime(2026, 11, 23, tzinfo=UTC))["d"]["state"] == "active"


def test_a_run_during_which_somebody_answered_applies_nothing(desk: Desk) -> None:
    run = desk.corpus.open(NEXT_WEEK)
    desk.do("keep", desk.question("MERGE"))
    before = desk.corpus.everything()
    with pytest.raises(KbError, match="a person answered a question of corpus"):
        desk.corpus.apply(run, Decisions(retire=("d",)))
    assert desk.corpus.everything() == before
    desk.corpus.curate(NEXT_WEEK, decided=Decisions(retire=("d",)))
    assert desk.states()["d"] == "archived"


def test_a_run_that_only_asked_may_be_rolled_back_after_the_answer(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    before = corpus.export(full=True)
    run = corpus.curate(decided=Decisions(unsure=(("a", "b"),)))
    desk = Desk(corpus)
    name = desk.question("MERGE")
    desk.do("accept", name)
    roll_back_run(corpus.database, run.run_id, actor="bob")
    assert desk.states()["a"] == "archived"  # the person's answer stands
    desk.undo(name)
    assert corpus.export(full=True) == before
    with pytest.raises(ReviewError, match="taken back with the run"):
        desk.do("accept", name)


def test_a_run_on_which_a_person_built_is_rolled_back_after_the_undo(desk: Desk) -> None:
    (run,) = desk.corpus.query("SELECT run_id FROM memory_maintenance_jobs WHERE corpus = %s", desk.corpus.name)
    done = desk.do("accept", desk.question("CONFLICT"), resolution=Resolution.KEEP_A)
    call = f"kb review undo {done.written.action_id} --corpus {desk.corpus.name}"
    before = desk.corpus.everything()
    with pytest.raises(RollbackError, match=r"answer .* built on it") as error:
        roll_back_run(desk.corpus.database, run["run_id"], actor="bob")
    assert call in str(error.value)
    with pytest.raises(RollbackError, match=r"answer .* built on it"):
        roll_back_entry(desk.corpus.database, run["run_id"], "a", actor="bob")
    assert desk.corpus.everything() == before
    desk.undo(done.written.action_id)
    roll_back_run(desk.corpus.database, run["run_id"], actor="bob")


def test_an_answer_on_which_something_was_built_is_undone_last(desk: Desk) -> None:
    first = desk.do("edit", "a", body="Retry 3 times, with care.").written.action_id
    second = desk.do("edit", "a", body="Retry 3 times, with great care.").written.action_id
    with pytest.raises(ReviewError, match=f"answer {second} built on it.*kb review undo {second}"):
        desk.undo(first)
    desk.undo(second)
    assert desk.corpus.rows()["a"]["body"] == "Retry 3 times, with care."
    week = NEXT_WEEK + timedelta(days=14)
    run = desk.corpus.curate(week, now=NOW + timedelta(days=7), decided=Decisions(retire=("a",)))
    with pytest.raises(ReviewError, match=f"kb rollback {run.run_id}"):
        desk.undo(first)
    roll_back_run(desk.corpus.database, run.run_id, actor="bob")
    desk.undo(first)
    assert desk.corpus.rows()["a"]["body"] == "Retry 3 times."


# --- imports after answers -------------------------------------------------------------------------------------------


def test_an_import_takes_back_no_answer_until_the_source_says_something_else(desk: Desk) -> None:
    desk.do("edit", "a", body="Retry 3 times, with care.")
    desk.do("approve", "d")
    edited = desk.corpus.export(full=True)
    # The same rows, and the corpus's own export, say nothing new.
    assert desk.corpus.load(*ROWS).unchanged == len(ROWS)
    assert desk.corpus.load_bytes(desk.corpus.export()).unchanged == len(ROWS)
    assert desk.corpus.export(full=True) == edited
    # Use and tags of the source go in beside the edit; another text takes its place.
    desk.corpus.load(ROWS[0] | {"tags": ["x"], "attempts": 31}, ROWS[3] | {"tags": ["x"]})
    rows = desk.corpus.rows()
    assert (rows["a"]["body"], rows["a"]["attempts"], rows["a"]["tags"]) == ("Retry 3 times, with care.", 31, ["x"])
    assert rows["d"]["review_state"] == "approved"
    desk.corpus.load(ROWS[0] | {"body": "Retry 7 times."}, ROWS[3] | {"body": "No pier."})
    rows = desk.corpus.rows()
    assert rows["a"]["body"] == "Retry 7 times."
    assert "review_state" not in rows["d"]
    assert desk.corpus.projections_are_true()


# --- any mix ---------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("MERGE"), st.sampled_from(["accept", "keep", "dismiss", "archive a", "archive b", "edit a"])),
        st.tuples(st.just("CONFLICT"), st.sampled_from(["keep_a", "keep_b", "neither", "keep", "dismiss", "edit c"])),
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["edit", "approve", "archive"])),
        st.tuples(st.just("undo"), st.integers(0, 5)),
    ),
    max_size=7,
)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.integers(0, 10**9))
def test_any_mix_of_answers_and_undos_is_the_answers_that_remain(
    shared_database_url: str, steps: list[tuple[str, Any]], number: int
) -> None:
    names = [f"mix-{number}-{side}-{datetime.now(UTC).timestamp()}" for side in "xy"]
    mixed, plain = (Desk(Corpus(shared_database_url, name)) for name in names)
    for desk in (mixed, plain):
        desk.corpus.load(*ROWS)
        desk.corpus.curate(decided=ASKED)
    ids = {kind: mixed.question(kind) for kind in ("MERGE", "CONFLICT")}
    assert ids == {kind: plain.question(kind) for kind in ids}
    given_answers: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for turn, (what, detail) in enumerate(steps):
        if what == "undo":
            if given_answers:
                chosen = list(given_answers)[detail % len(given_answers)]
                try:
                    mixed.undo(chosen)
                except ReviewError:
                    continue  # something was built on it
                del given_answers[chosen]
            continue
        word, _, entry = detail.partition(" ")
        given: dict[str, Any] = {"confirmed": True}
        if word in ("keep_a", "keep_b", "neither"):
            word, given["resolution"] = "accept", Resolution(word)
        if entry:
            given["entry_id"] = entry
        if word == "edit":
            given["body"] = f"Body of turn {turn}."
        try:
            done = mixed.do(word, ids.get(what, what), **given)
        except ReviewError:
            continue
        given_answers[done.written.action_id] = (word, ids.get(what, what), given)
        assert mixed.corpus.projections_are_true()
    for word, target, given in given_answers.values():
        plain.do(word, target, **given)
    assert mixed.corpus.export(full=True) == plain.corpus.export(full=True)
    assert [i.question.recommendation_id for i in mixed.items()] == [
        i.question.recommendation_id for i in plain.items()
    ]
