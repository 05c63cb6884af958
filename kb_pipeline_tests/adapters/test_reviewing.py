"""Answers of people: what each does, that its undo gives back the same bytes, and that nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb_pipeline.adapters.rolling_back import roll_back_entry, roll_back_run
from kb_pipeline.adapters.story import load_story, story_lines
from kb_pipeline.defs.review_desk import Done, Item, answer, find_item, open_questions, undo
from kb_pipeline.errors import CorpusBusyError, ReviewError, RollbackError, UnknownNameError
from kb_pipeline.policy.load import load_policy
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.review import Answer
from kb_pipeline.vocabulary import ApprovalCheck, Mode, RecommendationType, Resolution, ReviewAction
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, NOW, Corpus, Decisions

ROWS: list[dict[str, Any]] = [
    {"id": "a", "body": "Retry 3 times.", "created_at": "2026-01-01", "attempts": 30, "successes": 21,
     "evidence": [{"ref": "e1"}], "distinctiveness": 0.75},
    {"id": "b", "body": "Try again, 3 times.", "created_at": "2026-01-02", "attempts": 12, "review_state": "approved",
     "evidence": [{"ref": "e2"}], "usage": [{"id": "u1", "type": "retrieved", "at": "2026-02-01"}]},
    {"id": "c", "body": "Retry 5 times.", "created_at": "2026-01-03"},
    {"id": "d", "body": "The pier is dry.", "created_at": "2026-01-04", "kind": "decision"},
    {"id": "n", "body": "A new entry.", "created_at": "2026-01-05", "state": "candidate"},
]  # fmt: skip
ASKED = Decisions(unsure=(("a", "b"),), conflicts=(("a", "c"),))
ALL_CHECKS = frozenset(ApprovalCheck)


@cache
def policy() -> Policy:
    return load_policy()


@dataclass
class Desk:
    """The review desk of one corpus."""

    corpus: Corpus
    now: datetime = NOW

    def question(self, kind: str) -> str:
        """Id of the one open question of a type."""
        (found,) = [i for i in self.items() if i.question.recommendation_type == kind]
        assert found.question.recommendation_id is not None
        return found.question.recommendation_id

    def items(self) -> tuple[Item, ...]:
        return open_questions(self.corpus.database, self.corpus.name, policy()).items

    def kinds(self) -> list[str]:
        return [str(item.question.recommendation_type) for item in self.items()]

    def do(self, action: str, target: str, *, ticks: frozenset[ApprovalCheck] = ALL_CHECKS, **given: Any) -> Done:
        who = given.pop("actor", "ann")
        shown = given.pop("shown_hash", None)
        given_answer = Answer(ReviewAction(action), **given)
        return answer(
            self.corpus.database, self.corpus.name, policy(), target, given_answer,
            actor=who, now=self.now, ticks=ticks, shown_hash=shown,
        )  # fmt: skip

    def undo(self, target: str) -> None:
        undo(self.corpus.database, self.corpus.name, target, actor="bob")

    def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in self.corpus.rows().items()}

    def ask(self, kind: RecommendationType, *entry_ids: str, reason: str = "load.addresses_judge") -> str:
        """Puts a question of a type to people that no stage of these tests asks by itself."""
        rows = self.corpus.rows()
        name = f"rec_{kind.lower()}{''.join(entry_ids)}".ljust(28, "0")
        self.corpus.query(
            "INSERT INTO recommendations (recommendation_id, corpus, recommendation_type, severity, entry_ids, "
            "content_hashes, reason, value, action_id, change_id, effective_at) SELECT %s, %s, %s, 'low', "
            "to_json(%s::text[]), to_json(%s::text[]), %s, 0.5, %s, max(change_id), '2026-11-20' FROM changes "
            "WHERE corpus = %s",
            name, self.corpus.name, kind.value, list(entry_ids), [rows[e]["content_hash"] for e in entry_ids], reason,
            f"asked {name}", self.corpus.name,
        )  # fmt: skip
        return name


@pytest.fixture
def desk(corpus: Corpus) -> Desk:
    corpus.load(*ROWS)
    corpus.curate(decided=ASKED)
    return Desk(corpus)


# --- every answer and its undo ---------------------------------------------------------------------------------------

ANSWERS: list[tuple[str, str, dict[str, Any], dict[str, dict[str, Any]]]] = [
    # question, action, what is given, what the export then says
    ("MERGE", "accept", {}, {
        "a": {"state": "archived", "merged_into": "b", "state_reason": "review.merged", "attempts": 30},
        "b": {"state": "active", "attempts": 42, "retrievals": 1}, "c": {"conflict_state": "none"}}),
    ("MERGE", "accept", {"body": "Retry 3 times, and then tell somebody."}, {
        "a": {"state": "archived", "body": "Retry 3 times."},
        "b": {"body": "Retry 3 times, and then tell somebody.", "attempts": 42}}),
    ("MERGE", "edit", {"entry_id": "a", "body": "Retry 3 times, not more."}, {
        "a": {"body": "Retry 3 times, not more.", "conflict_state": "none"}, "c": {"conflict_state": "none"}}),
    ("MERGE", "keep", {}, {"a": {"state": "active", "conflict_state": "open"}, "b": {"state": "active"}}),
    ("MERGE", "archive", {"entry_id": "b"}, {"b": {"state": "archived", "state_reason": "review.archived"},
                                             "a": {"attempts": 30}}),
    ("MERGE", "dismiss", {}, {"a": {"state": "active"}, "b": {"state": "active"}}),
    ("CONFLICT", "accept", {"resolution": Resolution.KEEP_A}, {
        "a": {"state": "active", "conflict_state": "none"},
        "c": {"state": "archived", "conflict_state": "none", "state_reason": "review.conflict_decided"}}),
    ("CONFLICT", "accept", {"resolution": Resolution.KEEP_B}, {"a": {"state": "archived"}, "c": {"state": "active"}}),
    ("CONFLICT", "accept", {"resolution": Resolution.NEITHER}, {"a": {"state": "archived"}, "c": {"state": "archived"}}),
    ("CONFLICT", "accept", {"resolution": Resolution.KEEP_BOTH}, {
        "a": {"state": "active", "conflict_state": "none"}, "c": {"state": "active", "conflict_state": "none"}}),
    ("CONFLICT", "accept", {"resolution": Resolution.MANUAL}, {"a": {"state": "active", "conflict_state": "none"}}),
    ("CONFLICT", "keep", {}, {"c": {"state": "active", "conflict_state": "none"}}),
    ("CONFLICT", "archive", {"entry_id": "c"}, {"c": {"state": "archived"}, "a": {"conflict_state": "none"}}),
    ("CONFLICT", "edit", {"entry_id": "c", "body": "Retry 3 times here.", "confirmed": True}, {
        "c": {"body": "Retry 3 times here.", "conflict_state": "none"}, "a": {"conflict_state": "none"}}),
    ("CONFLICT", "dismiss", {}, {"a": {"conflict_state": "open"}, "c": {"conflict_state": "open"}}),
    ("ARCHIVE", "accept", {}, {"d": {"state": "archived", "state_reason": "retire.stale"}}),
    ("ARCHIVE", "keep", {}, {"d": {"state": "active"}}),
    ("ARCHIVE", "approve", {}, {"d": {"state": "active", "review_state": "approved"}}),
    ("FLAG", "accept", {}, {"d": {"state": "needs_review", "state_reason": "review.flagged"}}),
    ("FLAG", "edit", {"body": "The pier is dry at noon."}, {"d": {"body": "The pier is dry at noon."}}),
    ("FLAG", "keep", {}, {"d": {"state": "active"}}),
    ("FLAG", "archive", {}, {"d": {"state": "archived", "state_reason": "review.archived"}}),
    ("ADMIT", "accept", {}, {"n": {"state": "active", "state_reason": "review.admitted"}}),
    ("ADMIT", "approve", {}, {"n": {"state": "active", "review_state": "approved"}}),
    ("ADMIT", "archive", {}, {"n": {"state": "archived"}}),
    ("ADMIT", "dismiss", {}, {"n": {"state": "candidate"}}),
    ("REFRESH", "accept", {}, {"d": {"state": "stale", "state_reason": "review.out_of_date"}}),
    ("REFRESH", "keep", {}, {"d": {"state": "active", "last_validated_at": "2026-12-09T12:00:00Z"}}),
    ("SUPERSEDE", "accept", {}, {"a": {"state": "superseded", "superseded_by": "d"}, "d": {"state": "active"}}),
    ("SUPERSEDE", "keep", {}, {"a": {"state": "active"}, "d": {"state": "active"}}),
]  # fmt: skip
ABOUT = {
    RecommendationType.ARCHIVE: ("d",),
    RecommendationType.FLAG: ("d",),
    RecommendationType.ADMIT: ("n",),
    RecommendationType.REFRESH: ("d",),
    RecommendationType.SUPERSEDE: ("a", "d"),
}


@pytest.mark.parametrize(
    ("kind", "action", "given", "expected"),
    ANSWERS,
    ids=[f"{kind}-{action}-{'-'.join(map(str, given.values()))[:16]}" for kind, action, given, _ in ANSWERS],
)
def test_an_answer_does_what_it_says_and_its_undo_gives_back_the_same_bytes(
    desk: Desk, kind: str, action: str, given: dict[str, Any], expected: Mapping[str, dict[str, Any]]
) -> None:
    asked = RecommendationType(kind)
    reason = "retire.stale" if asked is RecommendationType.ARCHIVE else "load.addresses_judge"
    name = desk.ask(asked, *ABOUT[asked], reason=reason) if asked in ABOUT else desk.question(kind)
    before, histories = desk.corpus.export(full=True), desk.corpus.everything()
    done = desk.do(action, name, **given)
    rows = desk.corpus.rows()
    for entry, values in expected.items():
        assert {key: rows[entry].get(key) for key in values} == values, entry
    assert desk.corpus.projections_are_true()
    assert name not in {item.question.recommendation_id for item in desk.items()}
    # Nothing was overwritten, and nobody can answer again.
    after = desk.corpus.everything()
    assert all(set(histories[table]) <= set(after[table]) for table in after.keys() - {"entries"})
    with pytest.raises(ReviewError, match="ann .* on 2026-12-09.*kb review undo"):
        desk.do(action, name, actor="bob", **given)
    assert desk.corpus.everything() == after
    desk.undo(done.written.action_id)
    assert desk.corpus.export(full=True) == before
    assert desk.corpus.projections_are_true()
    assert name in {item.question.recommendation_id for item in desk.items()}
    with pytest.raises(ReviewError, match="taken back already"):
        desk.undo(done.written.action_id)
    # And what was taken back may be answered anew.
    desk.do(action, name, **given)


def test_a_merge_brings_evidence_and_approval_is_not_inherited(desk: Desk) -> None:
    desk.do("accept", desk.question("MERGE"), body="Retry 3 times, always.")
    row = desk.corpus.rows()["b"]
    assert [piece["ref"] for piece in row["evidence"]] == ["e2", "e1"]
    assert row["review_state"] == "approved"  # b itself was imported so
    desk.undo(desk.corpus.query("SELECT action_id FROM review_actions WHERE corpus = %s", desk.corpus.name)[0]["action_id"])
    desk.do("approve", "a")
    desk.do("edit", "a", body="Retry 3 times, and wait.")
    # What was approved is a text, not an entry.
    assert "review_state" not in desk.corpus.rows()["a"]


def test_a_resolution_is_recorded_with_the_conflict(desk: Desk) -> None:
    desk.do("accept", desk.question("CONFLICT"), resolution=Resolution.KEEP_A)
    rows = desk.corpus.query(
        "SELECT status, resolution, reason FROM conflicts WHERE corpus = %s ORDER BY change_id", desk.corpus.name
    )
    assert [tuple(row.values()) for row in rows] == [
        ("open", None, "conflicts.contradiction"),
        ("resolved", "keep_a", "review.conflict_decided"),
    ]


# --- what is refused -------------------------------------------------------------------------------------------------

KEY = "AKIA" + "Q3EGRT7YHBVC2XZN"
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("MERGE", "accept", {"body": ""}, "new body is empty"),
    ("MERGE", "accept", {"body": " \n\t"}, "new body is empty"),
    ("MERGE", "edit", {"entry_id": "a", "body": "\ufeff \u200b\r\n"}, "new body is empty"),
    ("MERGE", "edit", {"entry_id": "a", "body": "a\x00b", "confirmed": True}, "NUL"),
    ("MERGE", "edit", {"entry_id": "a", "body": f"Use {KEY} and retry 3 times."}, "seems to hold a secret"),
    ("MERGE", "edit", {"entry_id": "a", "body": "Retry 3 times. " * 600_000}, "load.max_body_chars"),
    ("MERGE", "edit", {"entry_id": "a", "body": "Retry 3 times."}, "reads like that already"),
    ("MERGE", "edit", {"entry_id": "a", "body": "Retry often."}, "loses: number 3 times.*--yes"),
    ("MERGE", "accept", {"body": "Retry often."}, "loses: number 3 times.*--yes"),
    ("MERGE", "edit", {"body": "Retry 3 times more."}, "--entry: a or b"),
    ("MERGE", "edit", {"entry_id": "d", "body": "Retry 3 times more."}, "'d' is not asked about"),
    ("MERGE", "edit", {"entry_id": "a"}, "an edit needs the new body"),
    ("MERGE", "archive", {}, "--entry: a or b"),
    ("MERGE", "approve", {}, "approve does not answer MERGE"),
    ("MERGE", "accept", {"resolution": Resolution.KEEP_A}, "decides a CONFLICT"),
    ("CONFLICT", "accept", {}, "keep_a, keep_b, keep_both, neither, manual"),
    ("CONFLICT", "accept", {"resolution": Resolution.KEEP_A, "body": "x"}, "a body goes with accepting a MERGE"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "action", "given", "sentence"), REFUSED, ids=lambda value: str(value)[:24])
def test_an_answer_that_cannot_be_given_changes_nothing(
    desk: Desk, kind: str, action: str, given: dict[str, Any], sentence: str
) -> None:
    before = desk.corpus.everything()
    with pytest.raises(ReviewError, match=sentence) as error:
        desk.do(action, desk.question(kind), **given)
    assert error.value.exit_code == 2
    assert KEY not in str(error.value)
    assert desk.corpus.everything() == before


def test_a_loss_that_is_meant_passes_and_is_recorded(desk: Desk) -> None:
    done = desk.do("accept", desk.question("MERGE"), body="Retry often.", confirmed=True)
    assert done.lost == ("number 3 times",)
    (row,) = desk.corpus.query("SELECT details FROM review_actions WHERE corpus = %s", desk.corpus.name)
    assert row["details"] == {"lost": ["number 3 times"]}


def test_an_approval_needs_every_check_and_stores_the_ticks(desk: Desk) -> None:
    with pytest.raises(ReviewError, match="statement_correct .*evidence_sufficient"):
        desk.do("approve", "d", ticks=frozenset())
    # a waits to be compared with b and stands in a conflict, so neither goes by itself.
    most = ALL_CHECKS - {ApprovalCheck.NOT_DUPLICATE, ApprovalCheck.NOT_CONFLICTING}
    with pytest.raises(ReviewError, match="not_duplicate .*not_conflicting"):
        desk.do("approve", "a", ticks=most)
    desk.do("approve", "d", ticks=most)
    (row,) = desk.corpus.query("SELECT details FROM review_actions WHERE corpus = %s", desk.corpus.name)
    assert row["details"]["checks"]["statement_correct"] == {"computed": None, "ticked": True}
    assert row["details"]["checks"]["not_duplicate"] == {"computed": True, "ticked": False}
    assert len(row["details"]["checks"]) == 8


def test_what_is_not_there_or_not_open_any_more_is_told(desk: Desk) -> None:
    merge, conflict = desk.question("MERGE"), desk.question("CONFLICT")
    with pytest.raises(UnknownNameError, match="unknown question"):
        desk.do("keep", "rec_000000000000000000000000")
    with pytest.raises(UnknownNameError, match="unknown entry or question"):
        desk.do("archive", "nobody")
    with pytest.raises(UnknownNameError, match="unknown answer"):
        desk.undo("nothing")
    with pytest.raises(UnknownNameError, match="unknown corpus"):
        answer(
            desk.corpus.database, "elsewhere", policy(), merge, Answer(ReviewAction.KEEP), actor="ann", now=NOW
        )
    desk.corpus.load(ROWS[0] | {"body": "Retry 4 times."})
    for name in (merge, conflict):
        with pytest.raises(ReviewError, match="the text of a has changed since it was asked"):
            desk.do("keep", name)
    # The text as it was brings the question back.
    desk.corpus.load(ROWS[0])
    assert find_item(desk.corpus.database, desk.corpus.name, policy(), merge[:12]).question.recommendation_id == merge
    desk.do("archive", "b")
    with pytest.raises(ReviewError, match="b is archived by now"):
        desk.do("keep", merge)
    with pytest.raises(ReviewError, match="entry b is archived"):
        desk.do("archive", "b")


def test_an_entry_that_reads_otherwise_than_it_was_shown_is_left_alone(desk: Desk) -> None:
    seen = desk.corpus.rows()["d"]["content_hash"]
    desk.corpus.load(ROWS[3] | {"body": "The pier is wet."})
    with pytest.raises(ReviewError, match="has changed since you looked at it"):
        desk.do("archive", "d", shown_hash=seen)
    desk.do("archive", "d", shown_hash=desk.corpus.rows()["d"]["content_hash"])
    assert desk.states()["d"] == "archived"


def test_entries_of_two_scopes_are_not_merged_by_a_person_either(desk: Desk) -> None:
    merge = desk.question("MERGE")
    desk.corpus.load(ROWS[1] | {"module": "elsewhere"})
    with pytest.raises(ReviewError, match="differ in scope or kind"):
        desk.do("accept", merge)
    desk.do("keep", merge)


def test_two_people_at_once_one_is_told(desk: Desk) -> None:
    name, gate = desk.question("MERGE"), threading.Barrier(2)
    told: list[BaseException | Done] = []

    def act(action: str, who: str) -> None:
        gate.wait()
        try:
            told.append(desk.do(action, name, actor=who))
        except ReviewError as error:
            told.append(error)

    both = [threading.Thread(target=act, args=args) for args in (("accept", "ann"), ("accept", "bob"))]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted(type(one).__name__ for one in told) == ["Done", "ReviewError"]
    (error,) = [one for one in told if isinstance(one, ReviewError)]
    assert "was answered already" in str(error)
    assert desk.corpus.count("review_actions") == 1
    assert desk.corpus.rows()["b"]["attempts"] == 42


def test_while_a_run_holds_the_corpus_nobody_answers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_pipeline.defs.review_desk._WAIT_SECONDS", 0.05)
    name = desk.question("MERGE")
    with desk.corpus.database.corpus_lock(desk.corpus.name), pytest.raises(CorpusBusyError):
        desk.do("keep", name)
    desk.do("keep", name)


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
    with pytest.raises(RollbackError, match="answer .* built on it") as error:
        roll_back_run(desk.corpus.database, run["run_id"], actor="bob")
    assert call in str(error.value)
    with pytest.raises(RollbackError, match="answer .* built on it"):
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


# --- what is shown and told ------------------------------------------------------------------------------------------


def test_the_queue_is_in_the_order_of_the_report_and_in_pages(desk: Desk) -> None:
    desk.ask(RecommendationType.FLAG, "d")
    assert desk.kinds() == ["CONFLICT", "MERGE", "FLAG"]
    page = open_questions(desk.corpus.database, desk.corpus.name, policy(), limit=1, offset=1)
    assert (page.open_count, [i.question.recommendation_type for i in page.items]) == (3, ["MERGE"])
    desk.do("dismiss", desk.question("MERGE"))
    assert desk.kinds() == ["CONFLICT", "FLAG"]


def test_texts_that_must_not_be_shown_are_withheld_in_the_queue(corpus: Corpus) -> None:
    corpus.load(
        {"id": "r", "body": "Nobody may read 4711.", "sensitivity": "restricted"},
        {"id": "s", "body": f"Log in with {KEY}."},
        {"id": "t", "body": "Anybody may."},
    )
    corpus.curate(decided=Decisions(unsure=(("r", "t"), ("s", "t"))))
    items = Desk(corpus).items()
    notices = {one.entry_id: one.notice for item in items for one in item.question.subjects}
    assert "restricted" in str(notices["r"]) and "secret" in str(notices["s"]) and notices["t"] is None
    assert all(item.is_withheld for item in items)
    name = next(i.question.recommendation_id for i in items if i.question.subjects[0].entry_id == "r")
    with pytest.raises(ReviewError) as error:
        Desk(corpus).do("edit", str(name), entry_id="r", body="Nobody may.")
    assert "4711" not in str(error.value)


def test_the_story_tells_answers_and_undos(desk: Desk) -> None:
    name = desk.question("MERGE")
    desk.do("accept", name)
    desk.undo(name)
    desk.do("keep", name, actor="eve")
    story = load_story(desk.corpus.database, desk.corpus.name, "a", now=NOW)
    told = "\n".join(story_lines(story))
    assert "active -> archived, merged into b: review.merged (rule review), by ann - rolled back" in told
    assert "ann answered accept to MERGE with b" in told and "taken back by bob" in told
    assert "eve answered keep to MERGE with b" in told


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
