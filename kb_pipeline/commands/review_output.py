"""How questions of the review queue are printed as lines for a terminal.

Texts that hold a secret or are restricted are withheld here as they are in reports, and so is what was said of them.
"""

from __future__ import annotations

from datetime import datetime

from kb_pipeline.defs.review_desk import Item
from kb_pipeline.defs.review_values import age_days, ground, marked_sides, spoken, suggestion_pieces
from kb_pipeline.stages.report_diff import Piece, shortened
from kb_pipeline.stages.report_words import QUESTIONS
from kb_pipeline.stages.review_words import CHECKS, possible_answers, role_words, subject_words
from kb_pipeline.text.characters import printable
from kb_pipeline.vocabulary import ApprovalCheck, RecommendationType

_TITLE_CHARS = 100
_NAMES = "AB"


def item_lines(item: Item, *, now: datetime, admit_to: str) -> list[str]:
    """A question in a list, as lines."""
    answers = possible_answers(item.question, admit_to=admit_to, suggested_body=item.shown_suggestion)
    accepts = [(typed, words) for typed, words in answers.items() if typed.startswith("accept")]
    lines = [_head(item, now), *_titles(item), f"    {printable(ground(item))}"]
    if item.question.recommendation_type is not RecommendationType.CONFLICT:
        lines += [f"    {typed}: {printable('; '.join(words))}" for typed, words in accepts]
    else:
        lines.append(f"    accept --resolution {'|'.join(typed.split()[-1] for typed, _ in accepts)}")
    return lines


def show_lines(
    item: Item, checks: dict[str, dict[ApprovalCheck, bool | None]], *, now: datetime, admit_to: str
) -> list[str]:
    """A question with its texts and the effect of each answer, as lines."""
    question = item.question
    asked = QUESTIONS[question.recommendation_type or RecommendationType.FLAG]
    lines = [_head(item, now), f"  {asked} {printable(ground(item))}"]
    if (sentence := spoken(item)) is not None:
        said = f"{item.judge} says: " if item.judge else ""
        lines.append(f"  {printable(said + sentence)}")
    sides = zip(_NAMES, question.subjects, role_words(question), marked_sides(item), strict=False)
    for name, one, role, pieces in sides:
        words = subject_words(one) + (f"; {role}" if role else "")
        lines += ["", f"{name}  {one.entry_id}  ({words})", f"   {printable(one.title)}"]
        text = (one.notice or one.text) if pieces is None else "".join(map(_marked, pieces))
        lines += [f"   | {line}" for line in printable(text).splitlines()]
    if (suggested := suggestion_pieces(item)) is not None:
        lines += ["", "Suggested text for both (accept --suggested), [[new]] to the entry that would stay"]
        lines += [f"   | {line}" for line in printable("".join(map(_marked, suggested))).splitlines()]
    lines += ["", "Answers"]
    answers = possible_answers(question, admit_to=admit_to, suggested_body=item.shown_suggestion)
    for typed, effects in answers.items():
        lines.append(f"  {printable(typed):<24} {printable('; '.join(effects))}")
    if len(question.subjects) == 1:
        lines += ["", "Checks of an approval"]
        marks = {True: "holds", False: "not seen to hold: look and tick it", None: "look and tick it"}
        for check, known in checks[question.subjects[0].entry_id].items():
            lines.append(f"  {check.value:<32} {CHECKS[check]}: {marks[known]}")
    return lines


def _head(item: Item, now: datetime) -> str:
    asked, age = item.question.recommendation_type, age_days(item, now)
    near = "" if item.similarity is None else f"  similarity {item.similarity:.2f}"
    days = "new" if age == 0 else f"{age} day{'s' if age > 1 else ''}"
    return f"{item.question.recommendation_id}  {asked}  {item.severity}  {days}{near}"


def _titles(item: Item) -> list[str]:
    return [
        f"  {name} {one.entry_id}  {printable(shortened(one.title, _TITLE_CHARS))}"
        for name, one in zip(_NAMES, item.question.subjects, strict=False)
    ]


def _marked(piece: Piece) -> str:
    return f"[[{piece.text}]]" if piece.kind == "only" else piece.text
