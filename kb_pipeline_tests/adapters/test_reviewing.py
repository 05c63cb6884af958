"""Answers of people: what each does, that its undo gives back the same bytes, and that nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from kb_pipeline.adapters.story import load_story, story_lines
from kb_pipeline.defs.retrieval import open_view
from kb_pipeline.defs.review_desk import Done, Waiting, answer, find_item, open_questions, waiting_questions
from kb_pipeline.errors import CorpusBusyError, ReviewError, UnknownNameError
from kb_pipeline.stages.review import Answer
from kb_pipeline.vocabulary import ApprovalCheck, RecommendationType, Resolution, ReviewAction
from kb_pipeline_tests.fakes.corpus import NOW, Corpus, Decisions
from kb_pipeline_tests.fakes.desk import ALL_CHECKS, ROWS, Desk, policy

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
    known = waiting_questions(desk.corpus.database, desk.corpus.name)
    done = desk.do(action, name, **given)
    known = _same_as_read_anew(desk, known)
    rows = desk.corpus.rows()
    for entry, values in expected.items():
        assert {key: rows[entry].get(key) for key in values} == values, entry
    assert desk.corpus.projections_are_true()
    assert name not in {item.question.recommendation_id for item in desk.items()}
    # Nothing was overwritten, and nobody can answer again.
    after = desk.corpus.everything()
    assert all(set(histories[table]) <= set(after[table]) for table in after.keys() - {"entries"})
    with pytest.raises(ReviewError, match=r"ann .* on 2026-12-09.*kb review undo"):
        desk.do(action, name, actor="bob", **given)
    assert desk.corpus.everything() == after
    desk.undo(done.written.action_id)
    _same_as_read_anew(desk, known)
    assert desk.corpus.export(full=True) == before
    assert desk.corpus.projections_are_true()
    assert name in {item.question.recommendation_id for item in desk.items()}
    with pytest.raises(ReviewError, match="taken back already"):
        desk.undo(done.written.action_id)
    # And what was taken back may be answered anew.
    desk.do(action, name, **given)


def _same_as_read_anew(desk: Desk, known: Waiting) -> Waiting:
    """The queue, carried on from what was known before; it must be what a whole reading gives, in the same order."""
    carried_on = waiting_questions(desk.corpus.database, desk.corpus.name, known)
    anew = waiting_questions(desk.corpus.database, desk.corpus.name)
    assert carried_on.view == anew.view
    assert_frame_equal(carried_on.waiting, anew.waiting)
    assert_frame_equal(carried_on.asked, anew.asked, check_row_order=False)
    return carried_on


def test_a_queue_is_read_whole_again_after_anything_but_an_answer(desk: Desk) -> None:
    known = waiting_questions(desk.corpus.database, desk.corpus.name)
    desk.do("dismiss", desk.question("MERGE"))
    desk.corpus.load({"id": "c", "body": "Retry 7 times.", "created_at": "2026-01-03"})
    after = _same_as_read_anew(desk, known)
    assert known.waiting.height == 2
    assert after.waiting.is_empty()


def test_a_merge_brings_evidence_and_approval_is_not_inherited(desk: Desk) -> None:
    desk.do("accept", desk.question("MERGE"), body="Retry 3 times, always.")
    row = desk.corpus.rows()["b"]
    assert [piece["ref"] for piece in row["evidence"]] == ["e2", "e1"]
    assert row["review_state"] == "approved"  # b itself was imported so
    desk.undo(
        desk.corpus.query("SELECT action_id FROM review_actions WHERE corpus = %s", desk.corpus.name)[0]["action_id"]
    )
    desk.do("approve", "a")
    desk.do("edit", "a", body="Retry 3 times, and wait.")
    # What was approved is a text, not an entry.
    assert "review_state" not in desk.corpus.rows()["a"]


def test_a_resolution_is_recorded_with_the_conflict(desk: Desk) -> None:
    name = desk.question("CONFLICT")
    desk.do("archive", name, entry_id="a")
    (row,) = desk.corpus.query("SELECT resolution FROM review_actions WHERE corpus = %s", desk.corpus.name)
    assert row["resolution"] == "keep_b"
    desk.undo(name)
    desk.do("accept", name, resolution=Resolution.KEEP_A)
    rows = desk.corpus.query(
        "SELECT status, resolution, reason FROM conflicts WHERE corpus = %s ORDER BY change_id", desk.corpus.name
    )
    assert [tuple(row.values()) for row in rows] == [
        ("open", None, "conflicts.contradiction"),
        ("resolved", "keep_b", "review.conflict_decided"),
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
    with pytest.raises(ReviewError, match=r"statement_correct .*evidence_sufficient"):
        desk.do("approve", "d", ticks=frozenset())
    # a waits to be compared with b and stands in a conflict, so neither goes by itself.
    most = ALL_CHECKS - {ApprovalCheck.NOT_DUPLICATE, ApprovalCheck.NOT_CONFLICTING}
    with pytest.raises(ReviewError, match=r"not_duplicate .*not_conflicting"):
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
        answer(desk.corpus.database, "elsewhere", policy(), merge, Answer(ReviewAction.KEEP), actor="ann", now=NOW)
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
        {"id": "r", "body": "Nobody may read 4711.", "sensitivity": "restricted", "created_at": "2026-01-01"},
        {"id": "s", "body": f"Log in with {KEY}.", "created_at": "2026-01-01"},
        {"id": "t", "body": "Anybody may.", "created_at": "2026-01-01"},
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
    view = open_view(desk.corpus.database, desk.corpus.name, policy(), now=NOW, entry_ids=["a"])
    story = load_story(desk.corpus.database, desk.corpus.name, "a") | {"retrieval": view.told("a")}
    told = "\n".join(story_lines(story))
    assert "active -> archived, merged into b: review.merged (rule review), by ann - rolled back" in told
    assert "ann answered accept to MERGE with b" in told and "taken back by bob" in told
    assert "eve answered keep to MERGE with b" in told
