"""The ordered canonical sequence of a text and its keys (ledger X0): equal keys are the only way to merge unasked.

Belongs here: phrases, articles and units over the tokens of ``chunks``, and the two hashes. Does not belong here: the
specifics ledger, the second lock (``specifics``).

Nothing may be left over: two texts have one key when their whole sequences agree in order. Stems, plurals, dropped
words, thesaurus synonyms and moved clauses are differences.
"""

from __future__ import annotations

import hashlib
import re

from kb_pipeline.text.chunks import CODE, plain, split
from kb_pipeline.text.normalise import exact_normal
from kb_pipeline.text.synonyms import ARTICLES_KEPT_BEFORE, FUNCTION_WORDS, LABEL_NOUNS, PHRASE_STARTS
from kb_pipeline.text.units import UNITS

CANONICAL_VERSION = "1"
"""Raised with every change of a rule or list: stored keys of another version are not compared."""

_AMOUNT = re.compile(r"[~≈<>=+-]*\d+(?:\.\d+)?")
_SPECIAL = frozenset(PHRASE_STARTS) | {"a", "an", "the", "A", "The", "An"}


def canonical_tokens(text: str) -> tuple[str, ...]:
    """Return the ordered canonical sequence of ``text``; empty when the text has no words or signs."""
    raw = split(text)
    out: list[str] = []
    position, count = 0, len(raw)
    while position < count:
        word = raw[position]
        if word in _SPECIAL:
            if word in ("a", "A", "an", "the"):
                if _is_article(raw, position):
                    position += 1
                    continue
                if word == "A" and position + 1 < count and raw[position + 1] in ARTICLES_KEPT_BEFORE:
                    raw[position] = word = "a"
            matched = _phrase(raw, position)
            if matched:
                length, replacement = matched
                out.extend(replacement)
                position += length
                continue
        out.append(word)
        position += 1
        if word[-1].isdigit() and position < count:
            unit = UNITS.get(raw[position])
            if unit is not None and _AMOUNT.fullmatch(word):
                out.append(unit)
                position += 1
    return tuple(map(plain, out))


def _is_article(raw: list[str], position: int) -> bool:
    word = raw[position]
    if word == "the":
        # "the most users" is not "most users", while "the most recently used" is "most recently used".
        return raw[position + 1 : position + 2] != ["most"] or "".join(raw[position + 2 : position + 3]).endswith("ly")
    if position + 1 >= len(raw):
        return False
    following = raw[position + 1]
    first = following[1:2] if following[0] == CODE else following[0]
    if not (first.isalnum() or following in "\"'(["):
        return False
    if word == "an":
        return True
    if following in ARTICLES_KEPT_BEFORE:
        return False
    if following in FUNCTION_WORDS and raw[position + 1 : position + 3] != ["to", "do"]:
        return False
    if len(following) == 1 and following.isalpha():
        return False
    return position == 0 or raw[position - 1] not in LABEL_NOUNS


def _phrase(raw: list[str], position: int) -> tuple[int, tuple[str, ...]] | None:
    for phrase, replacement in PHRASE_STARTS.get(raw[position], ()):
        if tuple(raw[position : position + len(phrase)]) == phrase:
            return len(phrase), replacement
    return None


def exact_key(text: str) -> str:
    """Return the SHA-256 (hex) of the exact normal form of ``text``."""
    return hashlib.sha256(exact_normal(text).encode("utf-8", "surrogatepass")).hexdigest()


def canonical_key(text: str) -> str | None:
    """Return the SHA-256 (hex) of the canonical sequence, or None without tokens: empty texts never equal."""
    tokens = canonical_tokens(text)
    if not tokens:
        return None
    return hashlib.sha256("\x1f".join(tokens).encode("utf-8", "surrogatepass")).hexdigest()
