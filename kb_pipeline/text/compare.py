"""What is decided about a pair of texts without a judge (ledger X0, X1, M8).

Belongs here: the offline rule for a pair. Does not belong here: which pairs are looked at (stages), what a verdict
leads to (plan), or similarity.

The rule, in this order:

1. equal exact keys and equal ledgers: MERGE, ``judge.exact``;
2. equal canonical keys and equal ledgers: MERGE, ``judge.canonical``;
3. equal but for a negation, an opposite or a check mark: CONFLICT, ``judge.contradiction``; but for a number, unit, date
   or version: CONFLICT, ``judge.value_mismatch``; long texts sentence by sentence, shared sentences taken out first;
4. one sentence with two parts that changed places: CONFLICT, ``judge.contradiction``, where an order is stated, else
   KEEP_BOTH, ``judge.parts_swapped``; with another thing in one place: KEEP_BOTH, ``judge.other_thing``;
5. equal evidence in the ledgers: UNSURE, ``judge.residue``;
6. other evidence in two records of machine runs: KEEP_BOTH, ``judge.specifics_differ``;
7. the evidence of one strictly holds that of the other: UNSURE, ``judge.subset``;
8. they share half of the smaller one, and two at least: UNSURE, ``judge.specifics_overlap``;
9. else KEEP_BOTH, ``judge.specifics_differ``.

Evidence are the distinct numbers, names, paths and the like of a text, whether denied or not: rewording repeats them, turns
"do not do X" into "X is to be avoided", and adds modals and quantifiers. A merge asks for equal ledgers in full.

The rule is symmetric: swapping the texts swaps the sides of the result and changes nothing else.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from kb_pipeline.text.canonical import canonical_tokens
from kb_pipeline.text.contradiction import Clash, find_clash
from kb_pipeline.text.cues import MARKS
from kb_pipeline.text.frames import tell_apart
from kb_pipeline.text.normalise import exact_normal
from kb_pipeline.text.phrases import is_event_record
from kb_pipeline.text.specifics import EVIDENCE, Specific, difference, specifics
from kb_pipeline.vocabulary import Kind, ReasonCode, Verdict


class Comparison(NamedTuple):
    """The offline decision on a pair, with what only one side holds and a sentence that says why."""

    verdict: Verdict
    reason: ReasonCode
    specifics_only_l: tuple[str, ...]
    specifics_only_r: tuple[str, ...]
    detail: str


def compare(text_l: str, text_r: str, kind_l: str, kind_r: str) -> Comparison:
    """Decide a pair by rule. Kinds are values of ``Kind``; both texts are raw entry texts."""
    tokens_l, ledger_l = _read(text_l)
    tokens_r, ledger_r = _read(text_r)
    listed_l, listed_r = difference(ledger_l, ledger_r)
    only_l, only_r = tuple(listed_l), tuple(listed_r)

    def decide(verdict: Verdict, reason: ReasonCode, detail: str) -> Comparison:
        return Comparison(verdict, reason, only_l, only_r, detail)

    if tokens_l and tokens_l == tokens_r:
        if ledger_l != ledger_r:
            return decide(Verdict.KEEP_BOTH, ReasonCode.JUDGE_SPECIFICS_DIFFER, "same words, but specifics differ")
        if exact_normal(text_l) == exact_normal(text_r):
            return decide(Verdict.MERGE, ReasonCode.JUDGE_EXACT, "equal after normalisation")
        return decide(Verdict.MERGE, ReasonCode.JUDGE_CANONICAL, "equal word for word in canonical form")
    clash = _find_conflict(text_l, text_r, tokens_l, tokens_r, {kind_l, kind_r})
    if clash:
        reason = ReasonCode.JUDGE_VALUE_MISMATCH if clash.is_value else ReasonCode.JUDGE_CONTRADICTION
        return decide(Verdict.CONFLICT, reason, f"{clash.left!r} against {clash.right!r}")
    evidence_l, evidence_r = _evidence(ledger_l), _evidence(ledger_r)
    holds_l, holds_r = evidence_r <= evidence_l, evidence_l <= evidence_r
    are_commands = Kind.SKILL in (kind_l, kind_r) or _are_commands(text_l, text_r, kind_l, kind_r)
    apart = tell_apart(tokens_l, tokens_r, are_commands=are_commands)
    if apart:
        detail = f"{apart.left!r} against {apart.right!r}"
        if apart.is_conflict and not are_commands:
            return decide(Verdict.CONFLICT, ReasonCode.JUDGE_CONTRADICTION, detail)
        if not holds_l and not holds_r:
            return decide(Verdict.KEEP_BOTH, ReasonCode.JUDGE_SPECIFICS_DIFFER, detail)
        reason = ReasonCode.JUDGE_PARTS_SWAPPED if apart.is_swap else ReasonCode.JUDGE_OTHER_THING
        return decide(Verdict.KEEP_BOTH, reason, detail)
    if holds_l and holds_r:
        return decide(Verdict.UNSURE, ReasonCode.JUDGE_RESIDUE, "same specifics, other words")
    if is_event_record(text_l) and is_event_record(text_r):
        return decide(Verdict.KEEP_BOTH, ReasonCode.JUDGE_SPECIFICS_DIFFER, "records of two occasions")
    if holds_l or holds_r:
        more = "left" if holds_l else "right"
        return decide(
            Verdict.UNSURE, ReasonCode.JUDGE_SUBSET, f"the {more} text holds all specifics of the other and more"
        )
    shared = len(evidence_l & evidence_r)
    if shared >= _MIN_SHARED and shared >= _MIN_SHARED_PART * min(len(evidence_l), len(evidence_r)):
        detail = f"{shared} shared specifics, others on both sides"
        return decide(Verdict.UNSURE, ReasonCode.JUDGE_SPECIFICS_OVERLAP, detail)
    return decide(Verdict.KEEP_BOTH, ReasonCode.JUDGE_SPECIFICS_DIFFER, "each text holds specifics the other lacks")


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[tuple[str, ...], Counter[Specific]]:
    """Canonical sequence and ledger of a text: one text stands in many pairs. Neither result may be changed."""
    return canonical_tokens(text), specifics(text)


_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_COMMAND_TITLE = re.compile(r"[a-z0-9][\w@./+-]*(?: [\w@./+-]+){0,3}: [\[A-Z]")
_COMMAND_LINE = re.compile(r"\n`[^`\n]+`\s*\Z")
_LIST_NUMBER = re.compile(r"\s*\(?\d+[.)]\s")
_COMMAND_KINDS = frozenset({Kind.SKILL, Kind.FACT})
_MIN_SENTENCE_TOKENS = 4
_TELLING_SENTENCE_TOKENS = 7
_MIN_TITLE_OVERLAP = 0.5


_MIN_SHARED = 2
_MIN_SHARED_PART = 0.5


def _evidence(ledger: Counter[Specific]) -> frozenset[tuple[str, str]]:
    return frozenset((specific.type, specific.value) for specific in ledger if specific.type in EVIDENCE)


def _are_commands(text_l: str, text_r: str, kind_l: str, kind_r: str) -> bool:
    """Whether both texts list a command with its description, as skills and facts do."""
    return {kind_l, kind_r} <= _COMMAND_KINDS and all(map(_lists_a_command, (text_l, text_r)))


def _find_conflict(
    text_l: str, text_r: str, tokens_l: tuple[str, ...], tokens_r: tuple[str, ...], kinds: set[str]
) -> Clash | None:
    clash = _mark_clash(text_l, text_r) or find_clash(tokens_l, tokens_r)
    listed = kinds <= _COMMAND_KINDS and all(map(_lists_a_command, (text_l, text_r)))
    if clash is None:
        # Descriptions of two commands are bound to share sentences but for a word.
        return None if listed else _clash_in_sentences(text_l, text_r, kinds)
    if clash.is_value and clash.position == 0 and _LIST_NUMBER.match(text_l) and _LIST_NUMBER.match(text_r):
        return None
    if clash.is_opposite and (listed or _differ_in_first_verb(text_l, text_r, clash, kinds)):
        return None
    return clash


_MARK = re.compile(r"\[[ xX-]\]|[" + "".join(MARKS) + "]")


def _mark_clash(text_l: str, text_r: str) -> Clash | None:
    """The texts differ in nothing but a check mark or a box: yes against no, done against open."""
    marks_l, marks_r = _MARK.findall(text_l), _MARK.findall(text_r)
    if not marks_l or len(marks_l) != len(marks_r) or marks_l == marks_r:
        return None
    if canonical_tokens(_MARK.sub(" ", text_l)) != canonical_tokens(_MARK.sub(" ", text_r)):
        return None
    signs_l, signs_r = ([MARKS.get(mark, mark.lower()) for mark in marks] for marks in (marks_l, marks_r))
    if signs_l == signs_r:
        return None
    place = next(place for place, (own, other) in enumerate(zip(signs_l, signs_r, strict=True)) if own != other)
    return Clash(False, False, marks_l[place], marks_r[place], 0)


def _lists_a_command(text: str) -> bool:
    """Whether a text reads like a command with its description: ``tool: Do this``, or a last line of code."""
    return bool(_COMMAND_TITLE.match(text) or _COMMAND_LINE.search(text))


def _differ_in_first_verb(text_l: str, text_r: str, clash: Clash, kinds: set[str]) -> bool:
    """Whether the opposite is the first verb of two commands ("tool: Start it", "tool: Stop it")."""
    if Kind.SKILL in kinds and clash.position == 0:
        return True
    titled = all(map(_COMMAND_TITLE.match, (text_l, text_r)))
    return titled and clash.position <= len(text_l.split(":", 1)[0].split())


def _clash_in_sentences(text_l: str, text_r: str, kinds: set[str]) -> Clash | None:
    """The first clash between sentences that the texts do not share; texts of one sentence have none here."""
    sentences_l, sentences_r = _sentences(text_l), _sentences(text_r)
    if len(sentences_l) < 2 and len(sentences_r) < 2:
        return None
    shared = Counter(sentences_l) & Counter(sentences_r)
    rest_l = sorted((Counter(sentences_l) - shared).keys())
    rest_r = sorted((Counter(sentences_r) - shared).keys())
    for left in rest_l:
        for right in rest_r:
            if min(len(left), len(right)) < _MIN_SENTENCE_TOKENS or abs(len(left) - len(right)) > _MIN_SENTENCE_TOKENS:
                continue
            clash = find_clash(left, right, is_whole=False)
            if clash is None or (clash.is_opposite and kinds <= _COMMAND_KINDS):
                continue
            if not clash.is_value or _have_one_subject(sentences_l[0], sentences_r[0], left, right):
                return clash
    return None


def _have_one_subject(
    title_l: tuple[str, ...], title_r: tuple[str, ...], left: tuple[str, ...], right: tuple[str, ...]
) -> bool:
    """Whether texts with these first sentences speak of one thing, so that another value contradicts.

    Titles with other numbers ("Python 3.12 release", "Python 3.13 release") name two things, unless that number is
    all they differ in. Titles without are taken as one subject when they agree, or when the sentence is telling.
    """
    if title_l == title_r or (title_l == left and title_r == right):
        return True
    values_l, values_r = ({token for token in title if any(map(str.isdigit, token))} for title in (title_l, title_r))
    if values_l != values_r:
        clash = find_clash(title_l, title_r, is_whole=False)
        return clash is not None and clash.is_value
    words_l, words_r = set(title_l), set(title_r)
    if len(left) >= _TELLING_SENTENCE_TOKENS:
        return True
    return len(words_l & words_r) >= _MIN_TITLE_OVERLAP * len(words_l | words_r)


@lru_cache(maxsize=4096)
def _sentences(text: str) -> tuple[tuple[str, ...], ...]:
    """Canonical sequences of the sentences and lines of a text, without fenced code."""
    prose = _FENCED.sub("", text) if "```" in text or "~~~" in text else text
    return tuple(tokens for part in _SENTENCE_END.split(prose) if (tokens := canonical_tokens(part)))
