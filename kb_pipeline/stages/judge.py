"""What a judge is asked about a pair of entries, how its answer is read, and the offline judge by rule.

Belongs here: the pure half of the judge stage (ledger K7-K9, X1, X2 fencing; behaviours 1 and 23) - requests, prompts,
the shape of a reply and its reading. Does not belong here: the wording (kb_pipeline.prompts), talking to a model
(adapters/judges), the join with frames and the cache (assets), and the veto over a proposed merge or its text
(stages/merge, stages/merge_bodies). A MERGE or SUPERSEDES of a model is a proposal, no more.

Four rules carry the stage:

* the texts of a pair are data: they stand between tags with a mark derived from both texts, so no text can contain the
  mark it will be given, and what looks like such a tag inside a text is escaped;
* whatever is not exactly the reply that was asked for is KEEP_BOTH and a failure, never a guess;
* a model's "same" and "one supersedes the other" count when it says so in both orders, the side included, and while it
  judges pairs with a known answer rightly (X2);
* a pair that must not be asked (too long, or a text that talks to the judge) is UNSURE and goes to a person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from kb_pipeline.prompts import PAIR_PROMPT, load_prompt
from kb_pipeline.stages.judge_replies import ANSWERS, MAX_EXPLANATION_CHARS, parse_reply
from kb_pipeline.text.compare import compare
from kb_pipeline.text.fence import fenced, mark_of
from kb_pipeline.text.injection import addresses_judge
from kb_pipeline.vocabulary import Band, Kind, ReasonCode, Verdict

RULE_VERSION = "rules-3"
"""Part of the rule judge's fingerprint: changes whenever a rule for pairs may decide otherwise."""

RULE_JUDGE = "rule"
"""Name under which verdicts of the offline judge are recorded."""

REPLY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {
            "type": "string",
            "enum": ["same_rule", "distinct", "conflict", "a_supersedes_b", "b_supersedes_a"],
        },
        "confidence": {"type": "number", "description": "probability that the verdict is right, from 0 to 1"},
        "reason": {"type": "string", "description": "one sentence"},
        "merged_body": {
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "description": "with same_rule, one text that keeps all of both entries; else null",
        },
    },
    "required": ["verdict", "confidence", "reason", "merged_body"],
    "additionalProperties": False,
}
"""JSON schema of a reply. Ranges are not enforced by the API, so ``read_reply`` checks all of it again."""

PROMPT = load_prompt(PAIR_PROMPT)

PROMPT_VERSION = PROMPT.version(REPLY_SCHEMA)
"""Part of a judge's fingerprint: changes whenever the wording or the reply's shape changes."""

_OTHER_SIDE = {"l": "r", "r": "l", None: None}

_CANARY_TEXTS: tuple[tuple[str, str, bool], ...] = (
    (
        "Rotate the signing key of the mail relay every ninety days.",
        "Every ninety days, the signing key of the mail relay is rotated.",
        True,
    ),
    (
        "Rotate the signing key of the mail relay every ninety days.",
        "Rotate the signing key of the mail relay every nineteen days.",
        False,
    ),
    (
        "Never restart the print spooler during a payroll run.",
        "During a payroll run, the print spooler is never to be restarted.",
        True,
    ),
    (
        "Never restart the print spooler during a payroll run.",
        "Restart the print spooler during a payroll run.",
        False,
    ),
    (
        "The archive tier keeps invoices for ten years.",
        "Invoices stay in the archive tier for ten years.",
        True,
    ),
    (
        "The archive tier keeps invoices for ten years.",
        "The archive tier keeps delivery notes for ten years.",
        False,
    ),
)
"""Two texts each, and whether they state the same rule: what any judge worth asking tells apart (X2)."""


@dataclass(frozen=True, slots=True)
class PairRequest:
    """A pair to be judged. ``similarity`` is a cosine in [-1, 1], None where the pair was found by another signal."""

    pair_id: str
    entry_id_l: str
    entry_id_r: str
    content_hash_l: str
    content_hash_r: str
    kind_l: Kind
    kind_r: Kind
    text_l: str
    text_r: str
    similarity: float | None
    band: Band


@dataclass(frozen=True, slots=True)
class PairReply:
    """What a judge said of a pair.

    ``judge_confidence`` is in [0, 1] and None for rules and failures. ``failed`` means that a configured judge did not
    give a usable answer: the run is degraded. ``cacheable`` replies may be reused while texts and judge stay the same.
    ``superseded_side`` is ``l`` or ``r`` with SUPERSEDES: the text that is out of date. ``suggested_body`` is a text for
    both that nobody has checked yet; ``body_fault`` says why a suggested one is not even handed on.
    """

    pair_id: str
    verdict: Verdict
    reason: ReasonCode
    judge: str
    judge_confidence: float | None
    explanation: str | None
    model: str | None
    failed: bool
    cacheable: bool
    superseded_side: str | None = None
    suggested_body: str | None = None
    body_fault: ReasonCode | None = None


def _canary(number: int, left: str, right: str) -> PairRequest:
    return PairRequest(
        pair_id=f"canary-{number}",
        entry_id_l=f"canary-{number}-l",
        entry_id_r=f"canary-{number}-r",
        content_hash_l=hashlib.sha256(left.encode()).hexdigest(),
        content_hash_r=hashlib.sha256(right.encode()).hexdigest(),
        kind_l=Kind.RULE,
        kind_r=Kind.RULE,
        text_l=left,
        text_r=right,
        similarity=None,
        band=Band.MERGE,
    )


CANARIES: tuple[tuple[PairRequest, bool], ...] = tuple(
    (_canary(number, left, right), is_same) for number, (left, right, is_same) in enumerate(_CANARY_TEXTS)
)
"""Pairs with a known answer, and whether it is "the same". They alternate: one that is, one that is not."""


def swapped(request: PairRequest) -> PairRequest:
    """The same pair, asked in the other order."""
    return replace(
        request,
        entry_id_l=request.entry_id_r,
        entry_id_r=request.entry_id_l,
        content_hash_l=request.content_hash_r,
        content_hash_r=request.content_hash_l,
        kind_l=request.kind_r,
        kind_r=request.kind_l,
        text_l=request.text_r,
        text_r=request.text_l,
    )


def needs_other_order(reply: PairReply) -> bool:
    """Whether a reply counts only when the model says it of the swapped pair too (X2)."""
    return reply.verdict in (Verdict.MERGE, Verdict.SUPERSEDES)


def agreed_reply(first: PairReply, second: PairReply) -> PairReply:
    """What a model said of a pair in both orders: the same, or UNSURE where the orders disagree; a failure stays one.

    ``second`` is the reply to the swapped pair, so the side that it names is the other one here. Of two suggested texts
    the first is taken; a model that contradicts itself suggests none.
    """
    if second.failed:
        return second
    if second.verdict is first.verdict and _OTHER_SIDE[second.superseded_side] == first.superseded_side:
        confidences = [reply.judge_confidence for reply in (first, second) if reply.judge_confidence is not None]
        spoke = first if first.suggested_body is not None or first.body_fault is not None else second
        return replace(
            first,
            judge_confidence=min(confidences, default=None),
            suggested_body=spoke.suggested_body,
            body_fault=spoke.body_fault,
        )
    return replace(
        first,
        verdict=Verdict.UNSURE,
        reason=ReasonCode.JUDGE_ORDER_DISAGREES,
        explanation=f"In the other order it said: {second.explanation}"[:MAX_EXPLANATION_CHARS],
        superseded_side=None,
        suggested_body=None,
        body_fault=None,
    )


def is_right(is_same: bool, reply: PairReply) -> bool:
    """Whether a model judged a canary as it must: what is not the same may be anything else."""
    return not reply.failed and (reply.verdict is Verdict.MERGE) == is_same


def rule_replies(requests: Sequence[PairRequest]) -> list[PairReply]:
    """One reply per request, same order, by rule alone (X0): no model, no network, never a failure."""
    replies = []
    for request in requests:
        seen = compare(request.text_l, request.text_r, request.kind_l, request.kind_r)
        replies.append(
            PairReply(
                pair_id=request.pair_id,
                verdict=seen.verdict,
                reason=seen.reason,
                judge=RULE_JUDGE,
                judge_confidence=None,
                explanation=seen.detail or None,
                model=None,
                failed=False,
                cacheable=True,
            )
        )
    return replies


def withheld_reason(request: PairRequest, max_text_chars: int) -> ReasonCode | None:
    """Why this pair must not be put to a model, or None (policy ``judge.max_text_chars``, code points of each text)."""
    if max(len(request.text_l), len(request.text_r)) > max_text_chars:
        return ReasonCode.JUDGE_TOO_LONG
    if addresses_judge(request.text_l) or addresses_judge(request.text_r):
        return ReasonCode.JUDGE_ADDRESSED
    return None


def build_prompt(request: PairRequest) -> tuple[str, str]:
    """The system text and the user message that ask about ``request``; equal requests give equal prompts."""
    mark = mark_of((PROMPT_VERSION, request.content_hash_l, request.content_hash_r, request.text_l, request.text_r))
    user = "\n".join(
        (
            f"Mark of the tags: {mark}",
            f"Entry A is a {request.kind_l}, entry B is a {request.kind_r}.",
            fenced("entry_a", mark, request.text_l),
            fenced("entry_b", mark, request.text_r),
            PROMPT.question,
        )
    )
    return PROMPT.instructions, user


def read_reply(request: PairRequest, text: str, *, judge: str, model: str | None, min_confidence: float) -> PairReply:
    """The reply in ``text``, or a failure when it is not exactly what ``REPLY_SCHEMA`` asks for.

    A verdict below ``min_confidence`` (0-1, inclusive above) becomes UNSURE: a person decides.
    """
    if not text.strip():
        return failed_reply(request, ReasonCode.JUDGE_INVALID_REPLY, judge=judge, model=model, detail="empty reply")
    answer = parse_reply(text, REPLY_SCHEMA["required"])
    if answer is None:
        return failed_reply(
            request, ReasonCode.JUDGE_INVALID_REPLY, judge=judge, model=model, detail="reply outside the schema"
        )
    verdict, reason, superseded_side = ANSWERS[answer.word]
    if answer.confidence < min_confidence:
        verdict, reason, superseded_side = Verdict.UNSURE, ReasonCode.JUDGE_LOW_CONFIDENCE, None
    return PairReply(
        pair_id=request.pair_id,
        verdict=verdict,
        reason=reason,
        judge=judge,
        judge_confidence=answer.confidence,
        explanation=answer.sentence,
        model=model,
        failed=False,
        cacheable=True,
        superseded_side=superseded_side,
        suggested_body=answer.body,
        body_fault=answer.body_fault,
    )


def failed_reply(request: PairRequest, reason: ReasonCode, *, judge: str, model: str | None, detail: str) -> PairReply:
    """KEEP_BOTH for a pair on which the judge failed. ``detail`` says how, in words that hold no entry text."""
    return PairReply(
        pair_id=request.pair_id,
        verdict=Verdict.KEEP_BOTH,
        reason=reason,
        judge=judge,
        judge_confidence=None,
        explanation=detail,
        model=model,
        failed=True,
        cacheable=False,
    )


def unasked_reply(request: PairRequest, reason: ReasonCode, *, judge: str) -> PairReply:
    """UNSURE for a pair that was not put to the judge on purpose; no failure, and asked again when the reason goes."""
    return PairReply(
        pair_id=request.pair_id,
        verdict=Verdict.UNSURE,
        reason=reason,
        judge=judge,
        judge_confidence=None,
        explanation=None,
        model=None,
        failed=False,
        cacheable=False,
    )


_RECORDED_WORDS: dict[str, Callable[[str], Any]] = {"verdict": Verdict, "reason": ReasonCode, "body_fault": ReasonCode}
"""Fields of a recorded reply that hold a word of the vocabulary."""


def recorded_reply(request: PairRequest, recorded: Mapping[str, Any]) -> PairReply:
    """The verdict on a pair as it was recorded, by whichever judge.

    Raises:
        ValueError: a word outside the vocabulary or a value of a wrong type; says which field, never the text.
    """
    values: dict[str, Any] = {}
    for field in fields(PairReply):
        if field.name in ("pair_id", "failed", "cacheable"):
            continue
        value = recorded.get(field.name)
        if value is None:
            if field.name in ("verdict", "reason", "judge"):
                raise ValueError(f"{field.name}: is missing")
        elif field.name == "judge_confidence":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"{field.name}: must be a number from 0 to 1")
            value = float(value)
        elif not isinstance(value, str):
            raise ValueError(f"{field.name}: must be a text")
        values[field.name] = value
    for name, words in _RECORDED_WORDS.items():
        if values.get(name) is None:
            continue
        try:
            values[name] = words(values[name])
        except ValueError as error:
            raise ValueError(f"{name}: is none that this version knows") from error
    return PairReply(pair_id=request.pair_id, failed=False, cacheable=True, **values)
