"""Answers in plain words: what each would do, told before it is given and after.

Belongs here: sentences for reviewers, and what the list of an approval knows by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from kb_pipeline.errors import ReviewError
from kb_pipeline.stages.review import ALLOWED, Answer, Effects, Question, Subject, decide, merge_sides
from kb_pipeline.vocabulary import ApprovalCheck, ConflictState, RecommendationType, Resolution, ReviewAction, State

CHECKS: dict[ApprovalCheck, str] = {
    ApprovalCheck.STATEMENT_CORRECT: "what it says is correct",
    ApprovalCheck.EVIDENCE_SUFFICIENT: "its evidence is enough",
    ApprovalCheck.SCOPE_CORRECT: "it stands in the right scope",
    ApprovalCheck.NO_SECRET: "it holds no secret",
    ApprovalCheck.USEFUL: "it is useful",
    ApprovalCheck.NOT_DUPLICATE: "no other entry says the same",
    ApprovalCheck.NOT_CONFLICTING: "it contradicts no other entry",
    ApprovalCheck.INVALIDATION_POLICY_REASONABLE: "what would make it invalid is said reasonably",
}
"""Check of an approval -> what a person makes sure of (ledger M5)."""


def effect_words(effects: Effects) -> list[str]:
    """What an answer does, one sentence each; that nothing changes is a sentence too."""
    words = []
    for move in effects.moves:
        if move.merged_into:
            words.append(
                f"{move.entry_id} is archived and merged into {move.merged_into}, which takes over its use and evidence"
            )
        elif move.superseded_by:
            words.append(f"{move.entry_id} is superseded by {move.superseded_by}")
        else:
            words.append(f"{move.entry_id} goes from {move.from_state} to {move.to_state}")
    words += [f"{entry.entry_id} gets a new text, as a new version" for entry in effects.edits]
    words += [f"{entry} counts as approved while its text stays" for entry in effects.approved]
    words += [f"{entry} counts as validated" for entry in effects.validated if entry not in effects.approved]
    if effects.resolution is not None:
        words.append(f"their conflict is resolved ({effects.resolution})")
    if effects.settles == "all":
        words.append("the two are kept apart and not asked about again until a text changes")
    elif effects.settles == "merge":
        words.append("their merge is not proposed again until a text changes")
    words += [f"rule {rule} leaves {entry} alone until its text changes" for entry, rule in effects.spares]
    return words or ["nothing changes, and this is not asked again until a text changes"]


def possible_answers(question: Question, *, admit_to: str, suggested_body: str | None = None) -> dict[str, list[str]]:
    """Every answer that can be given without a text of one's own, as it would be typed, and what it would do.

    Args:
        question: what is asked.
        admit_to: state of a candidate that is let in.
        suggested_body: the text for both that a judge suggests; None where there is none.
    """
    found: dict[str, list[str]] = {}
    for action in ReviewAction:
        if action not in ALLOWED[question.recommendation_type]:
            continue
        if action is ReviewAction.EDIT:
            found["edit --body FILE"] = ["an entry gets a new text, and this question ends with the old one"]
            continue
        for typed, answer in _ways(question, action, suggested_body):
            try:
                found[typed] = effect_words(decide(question, answer, admit_to=admit_to))
            except ReviewError as refused:
                found[typed] = [f"not possible: {refused}"]
    return found


def _ways(question: Question, action: ReviewAction, suggested_body: str | None) -> list[tuple[str, Answer]]:
    is_conflict = question.recommendation_type is RecommendationType.CONFLICT
    if action is ReviewAction.ACCEPT and is_conflict:
        return [(f"accept --resolution {how}", Answer(action, resolution=how)) for how in Resolution]
    if action is ReviewAction.ACCEPT and suggested_body is not None:
        suggested = Answer(action, body=suggested_body)
        return [(action.value, Answer(action)), (f"{action.value} --suggested", suggested)]
    if action is ReviewAction.ARCHIVE and len(question.subjects) > 1:
        return [(f"archive --entry {one.entry_id}", Answer(action, entry_id=one.entry_id)) for one in question.subjects]
    return [(action.value, Answer(action))]


def computed_checks(subject: Subject, *, has_open_merge: bool) -> dict[ApprovalCheck, bool | None]:
    """The list of an approval as far as it can be known: true, false, or None where only a person can say.

    Args:
        subject: the entry.
        has_open_merge: somebody is asked whether it says the same as another entry.
    """
    return {
        ApprovalCheck.STATEMENT_CORRECT: None,
        ApprovalCheck.EVIDENCE_SUFFICIENT: None if subject.evidence_count else False,
        ApprovalCheck.SCOPE_CORRECT: None,
        ApprovalCheck.NO_SECRET: not subject.secret_kinds,
        ApprovalCheck.USEFUL: None,
        ApprovalCheck.NOT_DUPLICATE: not has_open_merge,
        ApprovalCheck.NOT_CONFLICTING: subject.conflict_state != ConflictState.OPEN,
        ApprovalCheck.INVALIDATION_POLICY_REASONABLE: None if subject.has_invalidation_policy else False,
    }


def ticked(
    computed: Mapping[ApprovalCheck, bool | None], ticks: frozenset[ApprovalCheck]
) -> dict[str, dict[str, bool | None]]:
    """The list as it is stored: for each check, what was computed and whether the person ticked it.

    What was computed as true needs no tick of a person.

    Raises:
        ReviewError: a check is neither known to hold nor ticked.
    """
    missing = [check for check in ApprovalCheck if check not in ticks and computed[check] is not True]
    if missing:
        asked = "; ".join(f"{check} ({CHECKS[check]})" for check in missing)
        raise ReviewError(f"an approval needs every check; tick what you have looked at with --tick NAME: {asked}")
    return {check.value: {"computed": computed[check], "ticked": check in ticks} for check in ApprovalCheck}


def role_words(question: Question) -> tuple[str | None, ...]:
    """What becomes of each entry of a question about two if it is accepted; None where the question names no sides."""
    asked, subjects = question.recommendation_type, question.subjects
    if len(subjects) == 2 and asked is RecommendationType.SUPERSEDE:
        return ("would be replaced", "would stand for it")
    if len(subjects) == 2 and asked is RecommendationType.MERGE:
        stays, _ = merge_sides(subjects)
        return tuple("would stay" if one is stays else "would go into the other" for one in subjects)
    return (None,) * len(subjects)


def subject_words(subject: Subject) -> str:
    """One line on where an entry stands."""
    marks = [subject.kind, subject.state.value]
    if subject.state is State.ACTIVE and subject.conflict_state == ConflictState.OPEN:
        marks.append("in conflict")
    if subject.review_state == "approved":
        marks.append("approved")
    return ", ".join(marks)
