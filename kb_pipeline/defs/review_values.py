"""Questions of the review queue as plain values: what command line, API and pages show.

Texts that hold a secret or are restricted are withheld here as they are in reports, and so is what was said of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kb_pipeline.defs.review_desk import Item
from kb_pipeline.stages.report_diff import MAX_TEXT_CHARS, Piece, marked
from kb_pipeline.stages.report_words import ground_words
from kb_pipeline.stages.review import Subject, merge_sides
from kb_pipeline.stages.review_words import possible_answers, role_words
from kb_pipeline.vocabulary import ApprovalCheck

_TEXT_CHARS = 20_000


def item_values(item: Item, *, now: datetime, admit_to: str) -> dict[str, Any]:
    """A question for a list, as plain values."""
    question = item.question
    return {
        "recommendation_id": question.recommendation_id,
        "type": question.recommendation_type,
        "severity": item.severity,
        "age_days": age_days(item, now),
        "since": item.since,
        "value": item.value,
        "similarity": item.similarity,
        "reason": question.reason,
        "reason_words": ground(item),
        "entries": [
            {"entry_id": one.entry_id, "title": one.title, "content_hash": one.content_hash, "state": one.state}
            | {"role": role}
            for one, role in zip(question.subjects, role_words(question), strict=True)
        ],
        "effect": possible_answers(question, admit_to=admit_to, suggested_body=item.shown_suggestion),
    }


def full_values(
    item: Item, checks: dict[str, dict[ApprovalCheck, bool | None]], *, now: datetime, admit_to: str
) -> dict[str, Any]:
    """A question with its texts, as plain values; withheld texts are null and their notice says why."""
    values = item_values(item, now=now, admit_to=admit_to)
    sides = marked_sides(item)
    for entry, one, pieces in zip(values["entries"], item.question.subjects, sides, strict=True):
        entry |= {
            "kind": one.kind,
            "text": None if one.notice else one.text,
            "withheld": one.notice,
            "marked": None if pieces is None else [{"text": piece.text, "kind": piece.kind} for piece in pieces],
            "checks": {check.value: known for check, known in checks[one.entry_id].items()},
        }
    return values | {
        "explanation": None if item.is_withheld else item.explanation,
        "suggested_body": item.shown_suggestion,
        "judge": item.judge,
        "verdict": item.verdict,
        "run_id": item.run_id,
    }


def marked_sides(item: Item) -> list[list[Piece] | None]:
    """The texts as pieces with their difference marked; None where there is nothing to compare or to show."""
    subjects: tuple[Subject, ...] = item.question.subjects
    if len(subjects) != 2 or item.is_withheld:
        # Marked differences of the other text would tell what a withheld one holds.
        return [None] * len(subjects)
    return list(marked(subjects[0].text, subjects[1].text, max_chars=_TEXT_CHARS))


def suggestion_pieces(item: Item) -> list[Piece] | None:
    """The entry that stays as it would read with the suggested body, whole, marked where it reads otherwise today.

    None where nothing is suggested.
    """
    if item.shown_suggestion is None:
        return None
    stays, _ = merge_sides(item.question.subjects)
    after = stays.with_body(item.shown_suggestion).text
    if max(len(after), len(stays.text)) > MAX_TEXT_CHARS:
        return [Piece(after, "same")]
    return marked(stays.text, after, max_chars=MAX_TEXT_CHARS)[1]


def ground(item: Item) -> str:
    """Why it is asked, in words: of a question about one entry every ground with its details, if they may be told."""
    question = item.question
    explanation = None if item.is_withheld or len(question.subjects) > 1 else item.explanation
    return ground_words(question.reason, explanation)


def spoken(item: Item) -> str | None:
    """What a judge said of a question about two entries, in its own words; None where that must not be shown."""
    return None if item.is_withheld or len(item.question.subjects) == 1 else item.explanation


def age_days(item: Item, now: datetime) -> int:
    """Whole days since a question was first asked."""
    return max(0, (now - item.since).days)
