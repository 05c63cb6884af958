"""Rollback: a run undone gives back the same bytes, one entry undone is a keep, and nothing is ever deleted."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from kb_pipeline.adapters.rolling_back import roll_back_entry, roll_back_run
from kb_pipeline.adapters.runs import list_runs, load_run, run_status
from kb_pipeline.adapters.snapshots import load_open_conflicts, load_queue
from kb_pipeline.errors import CorpusBusyError, RollbackError, UnknownNameError
from kb_pipeline.vocabulary import Mode, RunStatus
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, NOW, WEEK, Corpus, Decisions

ROWS: list[dict[str, Any]] = [
    {"id": "w", "created_at": "2026-01-01", "attempts": 30, "successes": 21, "evidence": [{"ref": "e1"}],
     "quality_score": 0.5, "distinctiveness": 0.75},
    {"id": "l", "created_at": "2026-01-02", "attempts": 12, "review_state": "approved", "supersedes": ["old"],
     "evidence": [{"ref": "e2"}, {"ref": "e3"}],
     "usage": [{"id": "u1", "type": "cited", "at": "2026-02-01", "outcome": {"tests": "passed"}, "used_in": "doc"}]},
    {"id": "x", "created_at": "2026-01-03", "evidence": [{"ref": "e2"}]},
    {"id": "y", "created_at": "2026-01-04"},
    {"id": "c", "created_at": "2026-01-05", "state": "candidate", "evidence": [{"ref": "e5"}]},
    {"id": "d", "created_at": "2026-01-06", "state": "candidate"},
]  # fmt: skip
EVERYTHING = Decisions(
    merges={"l": "w", "x": "w"},
    retire=("y",),
    admit=("d",),
    strengthen={"c": "w"},
    conflicts=(("w", "y"),),
    unsure=(("l", "y"),),
    scores={"w": 0.5, "y": 0.125},
)
THIRD_WEEK = date(2026, 11, 30)


@pytest.fixture
def loaded(corpus: Corpus) -> Corpus:
    corpus.load(*ROWS)
    return corpus


def state(corpus: Corpus, entry_id: str) -> str:
    return str(corpus.rows()[entry_id]["state"])


def refs(corpus: Corpus, entry_id: str) -> list[str]:
    return sorted(piece["ref"] for piece in corpus.rows()[entry_id].get("evidence", []))


# --- a whole run -----------------------------------------------------------------------------------------------------


def test_a_run_undone_gives_back_the_same_bytes(loaded: Corpus) -> None:
    before, plain = loaded.export(full=True), loaded.export()
    run = loaded.curate(decided=EVERYTHING)
    after = loaded.export()
    assert after != plain
    done = roll_back_run(loaded.database, run.run_id, actor="ann")
    assert loaded.export(full=True) == before
    assert loaded.export() == plain
    assert done.corpus == loaded.name
    assert done.entry_ids == ("c", "d", "l", "x", "y")
    assert done.action_count == 9
    assert loaded.projections_are_true()
    assert run_status(loaded.database, run.run_id) is RunStatus.ROLLED_BACK
    assert load_queue(loaded.database, loaded.open(NEXT_WEEK)).is_empty()
    assert load_open_conflicts(loaded.database, loaded.open(NEXT_WEEK)).is_empty()
    # Doing it again gives what it gave before.
    loaded.curate(decided=EVERYTHING)
    assert loaded.export() == after


def test_nothing_is_deleted_by_a_rollback(loaded: Corpus) -> None:
    run = loaded.curate(decided=EVERYTHING)
    before = loaded.everything()
    roll_back_run(loaded.database, run.run_id, actor="ann")
    after = loaded.everything()
    for table in before.keys() - {"entries"}:
        assert set(before[table]) <= set(after[table]), table
    assert len(after["event_voids"]) == 9 + 1  # the actions, and the scores as one
    (change,) = loaded.query("SELECT * FROM changes WHERE corpus = %s AND change_type = 'rollback'", loaded.name)
    assert (change["actor_type"], change["actor_id"], change["run_id"]) == ("person", "ann", run.run_id)


def test_runs_are_undone_latest_first(loaded: Corpus) -> None:
    start = loaded.export(full=True)
    first = loaded.curate(decided=Decisions(merges={"l": "w"}))
    middle = loaded.export(full=True)
    second = loaded.curate(NEXT_WEEK, decided=Decisions(retire=("y",)))
    before = loaded.everything()
    with pytest.raises(RollbackError, match=f"run {second.run_id} .*built on it") as error:
        roll_back_run(loaded.database, first.run_id, actor="ann")
    assert error.value.exit_code == 2
    assert f"kb rollback {second.run_id}" in str(error.value)
    assert loaded.everything() == before
    roll_back_run(loaded.database, second.run_id, actor="ann")
    assert loaded.export(full=True) == middle
    roll_back_run(loaded.database, first.run_id, actor="ann")
    assert loaded.export(full=True) == start


def test_a_rollback_after_a_later_import_keeps_what_was_imported(loaded: Corpus) -> None:
    run = loaded.curate(decided=Decisions(merges={"l": "w"}, retire=("y",)))
    loaded.load({"id": "new", "created_at": "2026-02-01"}, ROWS[0] | {"title": "Edited", "attempts": 33})
    roll_back_run(loaded.database, run.run_id, actor="ann")
    rows = loaded.rows()
    assert (rows["w"]["title"], rows["w"]["attempts"], rows["w"]["state"]) == ("Edited", 33, "active")
    assert "new" in rows and rows["l"]["state"] == rows["y"]["state"] == "active"


def test_the_week_can_be_done_again_and_may_decide_the_same(loaded: Corpus) -> None:
    run = loaded.curate(decided=EVERYTHING)
    roll_back_run(loaded.database, run.run_id, actor="ann")
    again = loaded.open()
    assert (again.epoch, again.rerun_of) == (run.epoch + 1, None)
    assert loaded.apply(again, EVERYTHING).transition_count == 5
    assert state(loaded, "l") == "archived"
    # It carries no judgement: no keep was written.
    assert loaded.count("person_decisions") == 0
    assert roll_back_run(loaded.database, again.run_id, actor="ann").action_count == 9


def test_a_week_that_was_skipped_over_can_be_done_after_a_rollback(loaded: Corpus) -> None:
    loaded.curate(WEEK)
    third = loaded.curate(THIRD_WEEK)
    roll_back_run(loaded.database, third.run_id, actor="ann")
    assert loaded.curate(NEXT_WEEK).rerun_of is None


def test_what_cannot_be_undone_is_refused_with_the_reason(loaded: Corpus) -> None:
    run = loaded.curate(decided=Decisions(retire=("y",)))
    again = loaded.open()
    loaded.apply(again, Decisions(retire=("y",)))
    unfinished = loaded.open(NEXT_WEEK)
    before = loaded.everything()
    for run_id, error, message in (
        (again.run_id, RollbackError, f"repeated run {run.run_id} and changed nothing"),
        (unfinished.run_id, RollbackError, "ended as running and changed nothing"),
        (run.run_id + "x", UnknownNameError, "kb runs lists them"),
        ("", UnknownNameError, "unknown run"),
    ):
        with pytest.raises(error, match=message):
            roll_back_run(loaded.database, run_id, actor="ann")
        with pytest.raises(error, match=message):
            roll_back_entry(loaded.database, run_id, "y", actor="ann")
    assert loaded.everything() == before
    roll_back_run(loaded.database, run.run_id, actor="ann")
    with pytest.raises(RollbackError, match="was rolled back already"):
        roll_back_run(loaded.database, run.run_id, actor="ann")


def test_a_run_that_changed_nothing_can_be_undone_too(loaded: Corpus) -> None:
    before = loaded.export(full=True)
    run = loaded.curate(mode=Mode.RECOMMEND, decided=Decisions(unsure=(("w", "x"),)))
    assert loaded.count("recommendations") == 1
    done = roll_back_run(loaded.database, run.run_id, actor="ann")
    assert (done.action_count, done.entry_ids) == (1, ())
    assert loaded.export(full=True) == before
    assert load_queue(loaded.database, loaded.open(NEXT_WEEK)).is_empty()


def test_a_rollback_needs_the_corpus_for_itself(loaded: Corpus) -> None:
    run = loaded.curate(decided=EVERYTHING)
    with loaded.database.corpus_lock(loaded.name), pytest.raises(CorpusBusyError):
        roll_back_run(loaded.database, run.run_id, actor="ann")
    with loaded.database.corpus_lock(loaded.name), pytest.raises(CorpusBusyError):
        roll_back_entry(loaded.database, run.run_id, "l", actor="ann")
    assert state(loaded, "l") == "archived"


def test_a_partial_run_is_undone_like_any_other(loaded: Corpus) -> None:
    before = loaded.export(full=True)
    run = loaded.curate(date(2026, 12, 7), now=NOW, decided=EVERYTHING)
    assert run.partial
    roll_back_run(loaded.database, run.run_id, actor="ann")
    assert loaded.export(full=True) == before
    assert load_run(loaded.database, run.run_id) == run
    assert list_runs(loaded.database, loaded.name)["status"].to_list() == ["rolled_back"]


# --- one entry -------------------------------------------------------------------------------------------------------


def kept(corpus: Corpus, week: date) -> dict[str, list[str]]:
    found = corpus.entries(corpus.open(week)).select("entry_id", "kept_rules")
    return {entry: sorted(rules) for entry, rules in found.iter_rows() if rules}


def test_one_entry_is_undone_and_the_rest_stays(loaded: Corpus) -> None:
    run = loaded.curate(decided=Decisions(merges={"l": "w", "x": "w"}, retire=("y",)))
    assert (loaded.rows()["w"]["attempts"], refs(loaded, "w")) == (42, ["e1", "e2", "e3"])
    done = roll_back_entry(loaded.database, run.run_id, "l", actor="ann")
    assert (done.action_count, done.entry_ids) == (1, ("l",))
    rows = loaded.rows()
    assert [rows[name]["state"] for name in "lxyw"] == ["active", "archived", "archived", "active"]
    assert (rows["l"]["merged_into"], rows["l"]["state_reason"]) == (None, None)
    # x brought the same piece of evidence as l, and still does.
    assert (rows["w"]["attempts"], refs(loaded, "w")) == (30, ["e1", "e2"])
    assert loaded.projections_are_true()
    with pytest.raises(RollbackError, match="changed nothing about entry 'l'"):
        roll_back_entry(loaded.database, run.run_id, "l", actor="ann")


def test_a_keep_holds_until_the_text_changes(loaded: Corpus) -> None:
    run = loaded.curate(decided=Decisions(merges={"l": "w"}, retire=("y",)))
    roll_back_entry(loaded.database, run.run_id, "l", actor="ann")
    roll_back_entry(loaded.database, run.run_id, "y", actor="bob")
    assert kept(loaded, NEXT_WEEK) == {"l": ["merge"], "y": ["retire"]}
    # Use, evidence and other columns are no text.
    loaded.load(ROWS[1] | {"tags": ["new"], "confidence": 0.5, "attempts": 99})
    assert kept(loaded, NEXT_WEEK) == {"l": ["merge"], "y": ["retire"]}
    loaded.load(ROWS[1] | {"body": "Another body"})
    assert kept(loaded, NEXT_WEEK) == {"y": ["retire"]}
    # And when the old text comes back, so does what was said of it.
    loaded.load(ROWS[1])
    assert kept(loaded, NEXT_WEEK) == {"l": ["merge"], "y": ["retire"]}


def test_a_rerun_of_the_week_does_not_see_the_keep(loaded: Corpus) -> None:
    run = loaded.curate(decided=Decisions(retire=("y",)))
    roll_back_entry(loaded.database, run.run_id, "y", actor="ann")
    again = loaded.open()
    assert again.rerun_of == run.run_id
    assert loaded.entries(again)["kept_rules"].list.len().sum() == 0
    assert loaded.apply(again, Decisions(retire=("y",))).transition_count == 0
    assert state(loaded, "y") == "active"


def test_an_admission_and_a_refusal_are_undone(loaded: Corpus) -> None:
    run = loaded.curate(decided=Decisions(admit=("d",), strengthen={"c": "w"}))
    assert refs(loaded, "w") == ["e1", "e5"]
    assert roll_back_entry(loaded.database, run.run_id, "d", actor="ann").entry_ids == ("d",)
    # With the refusal goes what it gave to the other entry.
    assert roll_back_entry(loaded.database, run.run_id, "c", actor="ann").action_count == 2
    assert (state(loaded, "c"), state(loaded, "d")) == ("candidate", "candidate")
    assert refs(loaded, "w") == ["e1"]
    assert "last_matched_at" not in loaded.rows()["w"]
    assert kept(loaded, NEXT_WEEK) == {"c": ["refuse", "strengthen"], "d": ["admit"]}


@pytest.mark.parametrize("side", ["w", "y"])
def test_a_conflict_is_undone_from_either_side(loaded: Corpus, side: str) -> None:
    run = loaded.curate(decided=Decisions(conflicts=(("w", "y"),)))
    assert loaded.rows()["w"]["conflict_state"] == loaded.rows()["y"]["conflict_state"] == "open"
    done = roll_back_entry(loaded.database, run.run_id, side, actor="ann")
    assert done.action_count == 1
    assert loaded.rows()["w"]["conflict_state"] == loaded.rows()["y"]["conflict_state"] == "none"
    assert kept(loaded, NEXT_WEEK) == {side: ["open_conflict"]}
    assert load_open_conflicts(loaded.database, loaded.open(NEXT_WEEK)).is_empty()


def test_a_conflict_ends_with_the_entry_and_comes_back_with_it(loaded: Corpus) -> None:
    first = loaded.curate(decided=Decisions(conflicts=(("w", "y"),)))
    second = loaded.curate(NEXT_WEEK, decided=Decisions(retire=("y",)))
    assert loaded.rows()["w"]["conflict_state"] == loaded.rows()["y"]["conflict_state"] == "none"
    assert loaded.projections_are_true()
    history = "SELECT status, reason, run_id FROM conflicts WHERE corpus = $1 ORDER BY change_id"
    assert loaded.database.read(history, (loaded.name,)).rows() == [
        ("open", "conflicts.contradiction", first.run_id),
        ("resolved", "conflicts.side_gone", second.run_id),
    ]
    roll_back_entry(loaded.database, second.run_id, "y", actor="ann")
    assert loaded.rows()["w"]["conflict_state"] == loaded.rows()["y"]["conflict_state"] == "open"
    assert loaded.projections_are_true()
    # What a person brought back is not closed again, and is still the conflict that it was.
    third = loaded.open(THIRD_WEEK)
    assert loaded.plan(third, Decisions())[1].is_empty()
    assert load_open_conflicts(loaded.database, third).height == 1


def test_a_conflict_ends_when_a_text_changes(loaded: Corpus) -> None:
    loaded.curate(decided=Decisions(conflicts=(("w", "y"),)))
    loaded.load(
        {"id": "y", "body": "It says something else now.", "created_at": "2026-01-04", "updated_at": "2026-11-25"}
    )
    second = loaded.curate(NEXT_WEEK, decided=Decisions(conflicts=(("w", "y"),)))
    assert loaded.rows()["w"]["conflict_state"] == loaded.rows()["y"]["conflict_state"] == "open"
    history = "SELECT status, reason, run_id = $2 FROM conflicts WHERE corpus = $1 ORDER BY change_id, status"
    assert loaded.database.read(history, (loaded.name, second.run_id)).rows() == [
        ("open", "conflicts.contradiction", False),
        ("open", "conflicts.contradiction", True),
        ("resolved", "conflicts.text_changed", True),
    ]
    assert load_open_conflicts(loaded.database, loaded.open(THIRD_WEEK)).height == 1


def test_an_entry_on_which_a_later_run_built_is_refused(loaded: Corpus) -> None:
    first = loaded.curate(decided=Decisions(merges={"l": "w"}, retire=("y",)))
    second = loaded.curate(NEXT_WEEK, decided=Decisions(merges={"w": "x"}, unsure=(("x", "w"),)))
    before = loaded.everything()
    with pytest.raises(RollbackError, match=f"run {second.run_id} built on it"):
        roll_back_entry(loaded.database, first.run_id, "l", actor="ann")
    assert loaded.everything() == before
    # Nobody built on the other one.
    roll_back_entry(loaded.database, first.run_id, "y", actor="ann")
    assert state(loaded, "y") == "active"
    roll_back_run(loaded.database, second.run_id, actor="ann")
    roll_back_entry(loaded.database, first.run_id, "l", actor="ann")
    assert state(loaded, "l") == "active"


def test_an_entry_that_the_run_did_nothing_to_is_refused(loaded: Corpus) -> None:
    run = loaded.curate(decided=Decisions(merges={"l": "w"}, unsure=(("x", "y"),)))
    for entry in ("w", "y", "nobody"):
        with pytest.raises(RollbackError, match=f"changed nothing about entry '{entry}'"):
            roll_back_entry(loaded.database, run.run_id, entry, actor="ann")


def test_a_run_may_be_undone_after_one_of_its_entries_was(loaded: Corpus) -> None:
    before = loaded.export(full=True)
    run = loaded.curate(decided=EVERYTHING)
    roll_back_entry(loaded.database, run.run_id, "l", actor="ann")
    roll_back_entry(loaded.database, run.run_id, "y", actor="ann")
    done = roll_back_run(loaded.database, run.run_id, actor="ann")
    assert done.entry_ids == ("c", "d", "x")
    assert loaded.export(full=True) == before
    # The keeps of the entries stay: they are a person's.
    assert kept(loaded, NEXT_WEEK) == {"l": ["merge"], "y": ["open_conflict", "retire"]}


def test_corpora_do_not_touch_each_other(loaded: Corpus) -> None:
    other = Corpus(loaded.url, loaded.name + "-other")
    other.load(*ROWS)
    other.curate(decided=EVERYTHING)
    before = other.everything()
    run = loaded.curate(decided=EVERYTHING)
    roll_back_entry(loaded.database, run.run_id, "l", actor="ann")
    roll_back_run(loaded.database, run.run_id, actor="ann")
    assert other.everything() == before
