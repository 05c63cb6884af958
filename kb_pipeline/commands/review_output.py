"""How questions of the review queue are printed: as lines for a terminal, and as values for JSON.

Texts that hold a secret or are restricted are withheld here as they are in reports, and so is what was said of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kb_pipeline.defs.review_desk import Item
from kb_pipeline.stages.report_diff import Piece, marked, shortened
from kb_pipeline.stages.report_words import QUESTIONS, reason_words
from kb_pipeline.stages.review import Subject
from kb_pipeline.stages.review_words import CHECKS, possible_answers, subject_words
from kb_pipeline.text.characters import printable
from kb_pipeline.vocabulary import ApprovalCheck, RecommendationType

_TITLE_CHARS, _TEXT_CHARS = 100, 20_000
_NAMES = "AB"


def item_values(item: Item, *, now: datetime, admit_to: str) -> dict[str, Any]:
    """A question for a list, as plain values."""
    question = item.question
    return {
        "recommendation_id": question.recommendation_id,
        "type": question.recommendation_type,
        "severity": item.severity,
        "age_days": _age(item, now),
        "since": item.since,
        "value": item.value,
        "similarity": item.similarity,
        "reason": question.reason,
        "reason_words": reason_words(question.reason),
        "entries": [
            {"entry_id": one.entry_id, "title": one.title, "content_hash": one.content_hash, "state": one.state}
            for one in question.subjects
        ],
        "effect": possible_answers(question, admit_to=admit_to),
    }


def full_values(
    item: Item, checks: dict[str, dict[ApprovalCheck, bool | None]], *, now: datetime, admit_to: str
) -> dict[str, Any]:
    """A question with its texts, as plain values; withheld texts are null and their notice says why."""
    values = item_values(item, now=now, admit_to=admit_to)
    sides = _sides(item)
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
        "suggested_body": None if item.is_withheld else item.suggested_body,
        "judge": item.judge,
        "verdict": item.verdict,
        "run_id": item.run_id,
    }


def item_lines(item: Item, *, now: datetime, admit_to: str) -> list[str]:
    """A question in a list, as lines."""
    answers = possible_answers(item.question, admit_to=admit_to)
    accepts = [(typed, words) for typed, words in answers.items() if typed.startswith("accept")]
    lines = [_head(item, now), *_titles(item), f"    {printable(reason_words(item.question.reason))}"]
    if len(accepts) == 1:
        lines.append(f"    accept: {printable('; '.join(accepts[0][1]))}")
    else:
        lines.append(f"    accept --resolution {'|'.join(typed.split()[-1] for typed, _ in accepts)}")
    return lines


def show_lines(
    item: Item, checks: dict[str, dict[ApprovalCheck, bool | None]], *, now: datetime, admit_to: str
) -> list[str]:
    """A question with its texts and the effect of each answer, as lines."""
    question = item.question
    asked = QUESTIONS[question.recommendation_type or RecommendationType.FLAG]
    lines = [_head(item, now), f"  {asked} {printable(reason_words(question.reason))}"]
    if item.explanation and not item.is_withheld:
        said = f"{item.judge} says: " if item.judge else ""
        lines.append(f"  {printable(said + item.explanation)}")
    for name, one, pieces in zip(_NAMES, question.subjects, _sides(item), strict=False):
        lines += ["", f"{name}  {one.entry_id}  ({subject_words(one)})", f"   {printable(one.title)}"]
        text = (one.notice or one.text) if pieces is None else "".join(map(_marked, pieces))
        lines += [f"   | {line}" for line in printable(text).splitlines()]
    if item.suggested_body and not item.is_withheld:
        lines += ["", "Suggested text (accept --suggested)"]
        lines += [f"   | {line}" for line in printable(item.suggested_body).splitlines()]
    lines += ["", "Answers"]
    for typed, words in possible_answers(question, admit_to=admit_to).items():
        lines.append(f"  {printable(typed):<24} {printable('; '.join(words))}")
    if len(question.subjects) == 1:
        lines += ["", "Checks of an approval"]
        marks = {True: "holds", False: "not seen to hold: look and tick it", None: "look and tick it"}
        for check, known in checks[question.subjects[0].entry_id].items():
            lines.append(f"  {check.value:<32} {CHECKS[check]}: {marks[known]}")
    return lines


def _head(item: Item, now: datetime) -> str:
    asked, age = item.question.recommendation_type, _age(item, now)
    near = "" if item.similarity is None else f"  similarity {item.similarity:.2f}"
    days = "new" if age == 0 else f"{age} day{'s' if age > 1 else ''}"
    return f"{item.question.recommendation_id}  {asked}  {item.severity}  {days}{near}"


def _titles(item: Item) -> list[str]:
    return [
        f"  {name} {one.entry_id}  {printable(shortened(one.title, _TITLE_CHARS))}"
        for name, one in zip(_NAMES, item.question.subjects, strict=False)
    ]


def _sides(item: Item) -> list[list[Piece] | None]:
    """The texts as pieces with their difference marked; None where there is nothing to compare or to show."""
    subjects: tuple[Subject, ...] = item.question.subjects
    if len(subjects) != 2 or item.is_withheld:
        # Marked differences of the other text would tell what a withheld one holds.
        return [None] * len(subjects)
    return list(marked(subjects[0].text, subjects[1].text, max_chars=_TEXT_CHARS))


def _marked(piece: Piece) -> str:
    return f"[[{piece.text}]]" if piece.kind == "only" else piece.text


def _age(item: Item, now: datetime) -> int:
    return max(0, (now - item.since).days)
