"""The text of a model's reply about a pair, read strictly: exactly what was asked for, or nothing (behaviour 1).

Belongs here: the form of a reply. Does not belong here: what it decides (judge).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from kb_pipeline.text.characters import fold_characters
from kb_pipeline.text.strict_json import strict_json
from kb_pipeline.vocabulary import ReasonCode, Verdict

MAX_EXPLANATION_CHARS = 600
"""A longer sentence is not the one sentence that was asked for."""

ANSWERS: dict[str, tuple[Verdict, ReasonCode, str | None]] = {
    "same_rule": (Verdict.MERGE, ReasonCode.JUDGE_SAME_RULE, None),
    "distinct": (Verdict.KEEP_BOTH, ReasonCode.JUDGE_DISTINCT, None),
    "conflict": (Verdict.CONFLICT, ReasonCode.JUDGE_CONTRADICTION, None),
    "a_supersedes_b": (Verdict.SUPERSEDES, ReasonCode.JUDGE_SUPERSEDES, "r"),
    "b_supersedes_a": (Verdict.SUPERSEDES, ReasonCode.JUDGE_SUPERSEDES, "l"),
}
"""Word of a reply -> verdict, reason, and the side that is out of date: entry A is the left one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said: the word of its verdict, 0-1, one sentence, and a text for both or what is wrong with it."""

    word: str
    confidence: float
    sentence: str
    body: str | None
    body_fault: ReasonCode | None


def parse_reply(text: str, names: Sequence[str]) -> Answer | None:
    """What a valid reply says, else None. ``names`` are its keys: verdict, confidence, reason and merged_body."""
    try:
        answer = strict_json(text)
    except ValueError:
        return None
    if not isinstance(answer, dict) or set(answer) != set(names):
        return None
    word, confidence, reason, body = (answer[name] for name in names)
    if not isinstance(word, str) or word not in ANSWERS or not isinstance(reason, str):
        return None
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return None
    sentence = " ".join(reason.split())
    if not sentence or len(sentence) > MAX_EXPLANATION_CHARS:
        return None
    # Control characters and lone surrogates cannot be stored; a reply that holds them was not written as a sentence.
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in sentence):
        return None
    if body is not None and not isinstance(body, str):
        return None
    if word != "same_rule":
        # A text for both goes with "the same" alone: whoever gives one with another verdict contradicts himself.
        return None if body is not None and body.strip() else Answer(word, float(confidence), sentence, None, None)
    fault = None if body is None else _fault_of_form(body)
    return Answer(word, float(confidence), sentence, body if fault is None else None, fault)


def _fault_of_form(body: str) -> ReasonCode | None:
    """Why a suggested text cannot even be stored: nothing to see in it, or characters that steer instead of saying."""
    if any(unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t\r" for char in body):
        return ReasonCode.MERGE_BODY_CONTROL_CHARACTERS
    return None if fold_characters(body).strip() else ReasonCode.MERGE_BODY_EMPTY
