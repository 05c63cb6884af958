"""Many recent entries in one question to a model: which are put together, what is asked, how the reply is read (P2, P3).

Belongs here: the pure half of the window pass - readings, prompts, and what counts of a reply. Does not belong here: the
call (adapters/judges), the cache, and what becomes of a finding (window_findings).

What a model says of many texts at once is a hint, no verdict. So:

* texts are data: they stand between tags with a mark hashed from all of them, under names that are made up for this
  reading, so that no text can name another one;
* three planted entries ride along, two that say the same and one that differs from them in one word. A reply that misses
  the pair, or takes the third for the same, is set aside as a whole (X2);
* whatever is not exactly what was asked for is dropped and counted, item by item; a reply of which nothing else remains
  is a failure. A reply is never repaired.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kb_pipeline.prompts import load_prompt
from kb_pipeline.text.fence import fenced, mark_of
from kb_pipeline.text.strict_json import strict_json
from kb_pipeline.vocabulary import ReasonCode, Severity

MAX_SENTENCE_CHARS = 600
"""A longer sentence is not the one sentence that was asked for."""

MAX_BODY_CHARS = 6_000
"""A longer merged body is not the one that was asked for; the pair counts without it."""

MAX_REPLY_CHARS = 60_000
"""A longer reply is no list of findings about a few dozen entries."""

REPLY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "duplicates": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "description": "id of the one entry"},
                    "b": {"type": "string", "description": "id of the other entry"},
                    "confidence": {"type": "number", "description": "probability that they say the same, from 0 to 1"},
                    "reason": {"type": "string", "description": "one sentence"},
                    "merged_body": {
                        "anyOf": [{"type": "string"}, {"type": "null"}],
                        "description": "one text that keeps all of both entries, or null",
                    },
                },
                "required": ["a", "b", "confidence", "reason", "merged_body"],
                "additionalProperties": False,
            },
        },
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "id of the entry"},
                    "severity": {"type": "string", "enum": [severity.value for severity in Severity]},
                    "issue": {"type": "string", "description": "one sentence"},
                },
                "required": ["id", "severity", "issue"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["duplicates", "issues"],
    "additionalProperties": False,
}
"""JSON schema of a reply. The API does not enforce ranges, so ``read_reply`` checks all of it again."""

PROMPT = load_prompt("window-1")

PROMPT_VERSION = PROMPT.version(REPLY_SCHEMA)
"""Part of a reader's fingerprint: changes whenever the wording or the reply's shape changes."""

_PLANTED: tuple[tuple[str, str, str], ...] = (
    (
        "The lighthouse generator is serviced every second Friday.",
        "Every second Friday, the generator of the lighthouse is serviced.",
        "The lighthouse generator is serviced every third Friday.",
    ),
    (
        "Visitors to the seed vault never enter without a badge.",
        "Without a badge, visitors never enter the seed vault.",
        "Visitors to the seed vault may enter without a badge.",
    ),
    (
        "The tram depot keeps spare pantographs in hall seven.",
        "Spare pantographs are kept in hall seven of the tram depot.",
        "The tram depot keeps spare windscreens in hall seven.",
    ),
)
"""A statement, the same in other words, and another one: what any model worth asking tells apart (X2)."""

_MARKUP = re.compile(r"<[a-zA-Z/!][^>]*>|&(?:#\d+|#x[0-9a-f]+|[a-z]{2,8});|\]\(\s*[a-z]+:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WindowText:
    """One text of a reading. Entries with the same text are one."""

    entry_id: str
    kind: str
    content_hash: str
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Texts of one scope that are read together, at least two with the planted ones; ``texts`` in the order of asking."""

    scope: str
    texts: tuple[WindowText, ...]


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Two texts that the model takes for the same, the smaller entry id first; ``confidence`` from 0 to 1."""

    left: WindowText
    right: WindowText
    confidence: float
    sentence: str
    body: str | None


@dataclass(frozen=True, slots=True)
class Issue:
    """What the model finds wrong with one text."""

    text: WindowText
    severity: Severity
    sentence: str


@dataclass(frozen=True, slots=True)
class WindowReply:
    """What counts of a reply. ``dropped`` says how many items did not, and why.

    With a ``failure`` nothing of the reply counts; ``detail`` says how it failed, in words that hold no entry text.
    """

    duplicates: tuple[Duplicate, ...] = ()
    issues: tuple[Issue, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    failure: ReasonCode | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Named:
    """The texts of a reading under the names that stand in the prompt, planted ones included."""

    mark: str
    texts: dict[str, WindowText]
    same: frozenset[str]
    other: tuple[frozenset[str], ...]


def build_prompt(reading: Reading) -> tuple[str, str]:
    """System text and message that put a reading to a model; equal readings give equal prompts."""
    named = _named(reading)
    quoted = (
        fenced("entry", named.mark, text.text, {"id": name, "kind": text.kind}) for name, text in named.texts.items()
    )
    return PROMPT.instructions, "\n".join((f"Mark of the tags: {named.mark}", *quoted, PROMPT.question))


def read_reply(reading: Reading, reply: str, *, min_confidence: float) -> WindowReply:
    """What counts of a model's reply to a reading.

    Args:
        reading: what was asked.
        reply: the text that came back.
        min_confidence: the planted pair must be named with at least this (0-1). Less sure duplicates are kept here, so
            that another threshold needs no other reading.
    """
    found = None if len(reply) > MAX_REPLY_CHARS else _parsed(reply)
    if found is None:
        return WindowReply(failure=ReasonCode.JUDGE_INVALID_REPLY, detail="reply outside the schema")
    named, dropped = _named(reading), Counter[str]()
    pairs: dict[frozenset[str], tuple[float, str, str | None]] = {}
    for item in found["duplicates"]:
        fault = _fault_of_pair(item, named, pairs)
        if fault is not None:
            dropped[fault] += 1
            continue
        body = item["merged_body"]
        if body is not None and (not _is_storable(body) or not 0 < len(body) <= MAX_BODY_CHARS):
            dropped["merged_body"] += 1
            body = None
        pairs[frozenset((item["a"], item["b"]))] = float(item["confidence"]), _sentence(item["reason"]) or "", body
    issues: dict[str, tuple[Severity, str]] = {}
    for item in found["issues"]:
        fault = _fault_of_issue(item, named, issues)
        if fault is not None:
            dropped[fault] += 1
            continue
        issues[item["id"]] = Severity(item["severity"]), _sentence(item["issue"]) or ""
    if not _knows_planted(named, pairs, min_confidence):
        return WindowReply(
            dropped=dropped,
            failure=ReasonCode.JUDGE_CANARY_FAILED,
            detail="set aside: the model was wrong about entries with a known answer",
        )
    own = {text.content_hash for text in reading.texts}
    duplicates = sorted(
        (
            _duplicate(named, pair, *said)
            for pair, said in pairs.items()
            if all(named.texts[name].content_hash in own for name in pair)
        ),
        key=lambda pair: -pair.confidence,
    )
    # More pairs than texts is no finding but a habit; nobody's queue should pay for it.
    if (over := len(duplicates) - len(reading.texts)) > 0:
        dropped["too_many"] += over
        del duplicates[-over:]
    told = tuple(
        Issue(named.texts[name], *said) for name, said in issues.items() if named.texts[name].content_hash in own
    )
    if dropped and not duplicates and not told:
        return WindowReply(
            dropped=dropped, failure=ReasonCode.JUDGE_INVALID_REPLY, detail="nothing in the reply was usable"
        )
    return WindowReply(tuple(duplicates), told, dropped)


def _duplicate(named: _Named, pair: frozenset[str], confidence: float, sentence: str, body: str | None) -> Duplicate:
    left, right = sorted((named.texts[name] for name in pair), key=lambda text: text.entry_id)
    return Duplicate(left, right, confidence, sentence, body)


def _named(reading: Reading) -> _Named:
    mark = mark_of((PROMPT_VERSION, *(part for text in reading.texts for part in (text.kind, text.text))))
    statement, same, other = _PLANTED[int(mark[:4], 16) % len(_PLANTED)]
    kind = reading.texts[0].kind
    planted = [
        WindowText("", kind, hashlib.sha256(f"planted {text}".encode()).hexdigest(), text)
        for text in (statement, same, other)
    ]
    texts = list(reading.texts)
    for number, text in enumerate(planted):
        texts.insert(int(mark[4 + 4 * number : 8 + 4 * number], 16) % (len(texts) + 1), text)
    names = {f"e{number}": text for number, text in enumerate(texts, start=1)}
    place = {text.content_hash: name for name, text in names.items()}
    one, again, differs = (place[text.content_hash] for text in planted)
    return _Named(mark, names, frozenset((one, again)), (frozenset((one, differs)), frozenset((again, differs))))


def _knows_planted(
    named: _Named, pairs: Mapping[frozenset[str], tuple[float, str, str | None]], min_confidence: float
) -> bool:
    sure = {pair for pair, (confidence, *_) in pairs.items() if confidence >= min_confidence}
    return named.same in sure and not any(pair in sure for pair in named.other)


def _fault_of_pair(item: Any, named: _Named, known: Mapping[frozenset[str], object]) -> str | None:
    """Why an item is no duplicate that was asked for; None when it is one."""
    if not _has_keys(item, REPLY_SCHEMA["properties"]["duplicates"]["items"]["required"]):
        return "shape"
    ids, confidence, body = (item["a"], item["b"]), item["confidence"], item["merged_body"]
    if not all(isinstance(name, str) for name in ids) or not (body is None or isinstance(body, str)):
        return "shape"
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return "confidence"
    if any(name not in named.texts for name in ids):
        return "unknown_id"
    if ids[0] == ids[1]:
        return "self_pair"
    left, right = (named.texts[name] for name in ids)
    if left.kind != right.kind:
        return "other_kind"
    if frozenset(ids) in known:
        return "named_twice"
    return _fault_of_sentence(item["reason"], left.text + right.text)


def _fault_of_issue(item: Any, named: _Named, known: Mapping[str, object]) -> str | None:
    """Why an item is no issue that was asked for; None when it is one."""
    if not _has_keys(item, REPLY_SCHEMA["properties"]["issues"]["items"]["required"]):
        return "shape"
    if not all(isinstance(item[name], str) for name in ("id", "severity")) or item["severity"] not in set(Severity):
        return "shape"
    if item["id"] not in named.texts:
        return "unknown_id"
    if item["id"] in known:
        return "named_twice"
    return _fault_of_sentence(item["issue"], named.texts[item["id"]].text)


def _fault_of_sentence(value: Any, about: str) -> str | None:
    """Why a value is not one plain sentence about a text."""
    sentence = _sentence(value)
    if sentence is None or not 0 < len(sentence) <= MAX_SENTENCE_CHARS:
        return "sentence"
    if _MARKUP.search(sentence):
        return "markup"
    return "language" if _share_of_latin(sentence) < 0.5 <= _share_of_latin(about) else None


def _sentence(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    sentence = " ".join(value.split())
    return sentence if _is_storable(sentence) else None


def _is_storable(text: str) -> bool:
    """Whether a text is without control characters, but for line ends and tabs, and without lone surrogates."""
    return not any(unicodedata.category(sign) in {"Cc", "Cs"} for sign in text if sign not in "\n\t")


def _share_of_latin(text: str) -> float:
    """Share of Latin letters among the letters of a text; 1 for a text without letters."""
    letters = [sign for sign in text if sign.isalpha()]
    latin = sum(unicodedata.name(sign, "").startswith("LATIN") for sign in letters)
    return latin / len(letters) if letters else 1.0


def _has_keys(item: Any, names: Sequence[str]) -> bool:
    return isinstance(item, dict) and set(item) == set(names)


def _parsed(reply: str) -> dict[str, list[Any]] | None:
    """The two lists of a reply; None when it is not the object that was asked for."""
    try:
        found: dict[str, list[Any]] = strict_json(reply)
    except ValueError:
        return None
    if not _has_keys(found, REPLY_SCHEMA["required"]) or not all(isinstance(value, list) for value in found.values()):
        return None
    return found
