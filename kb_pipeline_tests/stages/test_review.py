"""What answers do, as pure decisions: every question can be answered, and nothing is decided by the order of entries."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kb_pipeline import schemas
from kb_pipeline.errors import ReviewError
from kb_pipeline.stages.review import ALLOWED, Answer, Question, Subject, decide, lost_specifics, merge_sides
from kb_pipeline.stages.review_answers import answered_by_people, without_settled
from kb_pipeline.stages.review_words import computed_checks, possible_answers, role_words, ticked
from kb_pipeline.text.normalise import content_hash
from kb_pipeline.transitions import TRANSITIONS
from kb_pipeline.vocabulary import LIVE_STATES, ApprovalCheck, RecommendationType, ReviewAction, State
from kb_pipeline_tests.fakes.frames import entries, frame

PAIRS = {RecommendationType.MERGE, RecommendationType.CONFLICT, RecommendationType.SUPERSEDE}


def subject(name: str, *, state: State = State.ACTIVE, rank: int = 0, **values: Any) -> Subject:
    plain: dict[str, Any] = {
        "kind": "fact", "scope": "{}", "title": name, "raw_title": name, "body": f"Text of {name}.", "rationale": None,
        "alternatives": (), "steps": (), "text": f"{name}\nText of {name}.", "content_hash": f"hash {name}",
        "source_hash": f"hash {name}", "review_state": "unreviewed", "conflict_state": "none", "evidence_count": 0,
        "secret_kinds": (), "notice": None, "has_invalidation_policy": False,
    }  # fmt: skip
    return Subject(**(plain | {"entry_id": name, "state": state, "rank": rank} | values))


@pytest.mark.parametrize("state", LIVE_STATES)
@pytest.mark.parametrize("asked", RecommendationType)
def test_every_answer_makes_allowed_moves_or_is_refused_in_words(asked: RecommendationType, state: State) -> None:
    others = (subject("b", rank=1),) if asked in PAIRS else ()
    question = Question((subject("a", state=state), *others), "rec_1", asked, "load.addresses_judge")
    answers = possible_answers(question, admit_to="active")
    assert {typed.split()[0] for typed in answers} == {action.value for action in ALLOWED[asked]}
    assert all(words and all(words) for words in answers.values())
    assert answers["dismiss"][0].endswith("until a text changes") or "leaves a alone" in answers["dismiss"][0]
    for action in ALLOWED[asked] - {ReviewAction.EDIT}:
        try:
            effects = decide(question, Answer(action, entry_id="a"), admit_to="active")
        except ReviewError:
            continue
        for move in effects.moves:
            assert move.to_state in TRANSITIONS[State(move.from_state)]
        assert effects.changes_entries or action in (ReviewAction.DISMISS, ReviewAction.KEEP)


def test_the_entry_that_stays_is_the_one_in_use_then_the_first_by_rank() -> None:
    a, b, new = subject("a", rank=1), subject("b", rank=0), subject("n", state=State.CANDIDATE, rank=0)
    assert merge_sides((a, b)) == merge_sides((b, a)) == (b, a)
    assert merge_sides((new, a)) == (a, new)
    both_new = Question((new, subject("m", state=State.CANDIDATE, rank=1)), "r", RecommendationType.MERGE)
    with pytest.raises(ReviewError, match="is a candidate and cannot take another entry in"):
        decide(both_new, Answer(ReviewAction.ACCEPT), admit_to="active")


def test_a_dismissed_merge_of_a_candidate_leaves_it_waiting() -> None:
    question = Question((subject("a"), subject("n", state=State.CANDIDATE)), "r", RecommendationType.MERGE)
    dismissed = decide(question, Answer(ReviewAction.DISMISS), admit_to="active")
    assert (dismissed.spares, dismissed.settles, dismissed.moves) == ((("n", "strengthen"),), "merge", ())
    kept = decide(question, Answer(ReviewAction.KEEP), admit_to="approved")
    assert [(move.entry_id, move.to_state) for move in kept.moves] == [("n", State.APPROVED)]


def test_what_ran_out_by_its_date_expires_and_anything_else_may_be_stale() -> None:
    for reason, state in (
        ("refresh.expired", State.EXPIRED),
        ("refresh.unvalidated", State.STALE),
        ("retire.stale", State.STALE),
    ):
        question = Question((subject("a"),), "r", RecommendationType.REFRESH, reason)
        (move,) = decide(question, Answer(ReviewAction.ACCEPT), admit_to="active").moves
        assert move.to_state is state
        assert decide(question, Answer(ReviewAction.KEEP), admit_to="active").validated == ("a",)


def test_a_candidate_replaces_nothing() -> None:
    question = Question((subject("a"), subject("n", state=State.CANDIDATE)), "r", RecommendationType.SUPERSEDE)
    with pytest.raises(ReviewError, match="n is a candidate and cannot replace another entry"):
        decide(question, Answer(ReviewAction.ACCEPT), admit_to="active")


def test_a_suggested_text_is_an_answer_of_its_own() -> None:
    question = Question((subject("a"), subject("b", rank=1)), "r", RecommendationType.MERGE)
    answers = possible_answers(question, admit_to="active", suggested_body="One text for both.")
    assert answers["accept --suggested"] == [*answers["accept"], "a gets a new text, as a new version"]
    assert "accept --suggested" not in possible_answers(question, admit_to="active")
    assert role_words(question) == ("would stay", "would go into the other")
    one = Question((subject("a"),), "r", RecommendationType.FLAG)
    assert "accept --suggested" not in possible_answers(one, admit_to="active") and role_words(one) == (None,)


def test_a_secret_is_never_approved() -> None:
    with pytest.raises(ReviewError, match="seems to hold a secret"):
        decide(
            Question((subject("a", secret_kinds=("AWS Access Key",)),)), Answer(ReviewAction.APPROVE), admit_to="active"
        )


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (["Retry 3 times."], "Retry 3 times, then stop.", []),
        (["Retry 3 times.", "Retry 5 times."], "Retry 3 times.", ["number 5 times"]),
        (["Wait 10 seconds."], "Wait 10s.", []),
        (["Never use `/etc/a.conf`."], "Use `/etc/a.conf`.", ["negation not", "path /etc/a.conf (negated)"]),
        (["Use 3 and 3."], "Use 3.", ["number 3"]),
    ],
)
def test_what_a_new_body_loses(before: list[str], after: str, lost: list[str]) -> None:
    assert lost_specifics(before, after) == lost


def test_the_list_of_an_approval() -> None:
    found = computed_checks(subject("a", evidence_count=1, conflict_state="open"), has_open_merge=True)
    assert found[ApprovalCheck.NOT_CONFLICTING] is False and found[ApprovalCheck.NOT_DUPLICATE] is False
    assert found[ApprovalCheck.NO_SECRET] is True and found[ApprovalCheck.EVIDENCE_SUFFICIENT] is None
    needed = {check for check, known in found.items() if known is not True}
    assert ticked(found, frozenset(needed))["no_secret"] == {"computed": True, "ticked": False}
    for check in needed:
        with pytest.raises(ReviewError, match=check.value):
            ticked(found, frozenset(needed - {check}))


def test_pairs_that_a_person_called_two_are_kept_while_their_texts_stay() -> None:
    found = entries(*({"id": name, "body": f"text {name}"} for name in "abcd"))
    hashes = dict(found.select("entry_id", "content_hash").iter_rows())
    verdicts = frame(
        schemas.VERDICTS,
        [
            {"entry_id_l": "a", "entry_id_r": "b", "verdict": "MERGE"},
            {"entry_id_l": "a", "entry_id_r": "c", "verdict": "CONFLICT"},
            {"entry_id_l": "a", "entry_id_r": "d", "verdict": "CONFLICT"},
            {"entry_id_l": "b", "entry_id_r": "c", "verdict": "UNSURE", "failed": True},
            {"entry_id_l": "b", "entry_id_r": "d", "verdict": "MERGE"},
            {"entry_id_l": "c", "entry_id_r": "d", "verdict": "MERGE"},
        ],
    )
    decided = [("a", "b", "merge"), ("a", "c", "merge"), ("a", "d", "all"), ("b", "c", "all"), ("c", "d", "all")]
    settled = pl.DataFrame(
        [
            {"entry_id_l": x, "entry_id_r": y, "content_hash_l": hashes[x], "content_hash_r": hashes[y], "covers": how}
            for x, y, how in decided
        ]
    ).with_columns(
        content_hash_r=pl.when(pl.col("entry_id_l") == "c")
        .then(pl.lit(content_hash("old", "")))
        .otherwise("content_hash_r")
    )
    after = answered_by_people(verdicts, found, settled)
    assert after["verdict"].to_list() == ["KEEP_BOTH", "CONFLICT", "KEEP_BOTH", "KEEP_BOTH", "MERGE", "MERGE"]
    assert after["judge"].to_list() == ["person", "rule", "person", "person", "rule", "rule"]
    assert after["reason"][0] == "judge.dismissed_by_person" and after["reason"][2] == "judge.kept_by_person"
    assert not after["failed"].any()
    assert after.select("entry_id_l", "entry_id_r").equals(verdicts.select("entry_id_l", "entry_id_r"))
    assert answered_by_people(verdicts, found, settled.clear()).equals(verdicts)
    sent = without_settled(settled.drop("covers"), settled)
    assert sent.select("entry_id_l", "entry_id_r").rows() == [("a", "b"), ("a", "c")]
