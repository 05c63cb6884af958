"""Tokens that set a value, and whether two of them compete for one place.

Belongs here: the test that two tokens of canonical sequences are values of one sort: numbers, units, dates,
versions, weekdays, comparison signs, key=value. Does not belong here: where in a sentence they stand
(``contradiction``).

Values of identifiers, paths, flags and URLs are none: two names that differ in a digit are two things.
"""

from __future__ import annotations

import re

from kb_pipeline.text.units import UNITS
from kb_pipeline.text.wordlists import closed_list

_WEEKDAYS = frozenset(
    f"{day}{ending}"
    for day in ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
    for ending in ("", "s")
)
_MONTHS = closed_list("january february march april may june july august september october november december")
_SIGNS = frozenset((">", ">=", "<", "<=", "==", "!=", "="))
_ORDINALS = closed_list("first second third fourth fifth sixth seventh eighth ninth tenth")
_NUMERALS = frozenset("一二三四五六七八九十百千万两零")
_CLOSED_SORTS = (_WEEKDAYS, _MONTHS, _SIGNS, _ORDINALS, _NUMERALS, frozenset(UNITS.values()))
_SIGNED_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_NUMBER_PART = re.compile(
    r"(?<![\w.])[vV]?\d+(?:[.,]\d+)*(?:(?:"
    + "|".join(sorted(map(re.escape, {*UNITS, *"xkKMGTm"}), key=len, reverse=True))
    + r")(?!\w))?"
)
_KEY_VALUE = re.compile(r"([A-Za-z_][\w.]*)=([^=].*)")
_NAME = re.compile(r".*[\w)]/[\w(].*|/.*|\.{0,2}/.*|--?[A-Za-z].*|[a-z]+://.*|[#@$]\w.*|.*\\.*")
_KEBAB = re.compile(r"(?:.*[^\W\d_][-_.]|[-_.])$")
_DOCUMENT_LABELS = closed_list(
    "issue issues pr prs pep peps rfc rfcs wcag cve cwe adr adrs iso iec ieee ecma ticket bug commit"
)
_RECORD_LABELS = closed_list("pid pids tid pgid inode")


def is_reference_label(word: str, *, is_whole: bool) -> bool:
    """Whether a number behind ``word`` names a record or a document and sets no value ("pid 4711", "issue 260").

    Between whole texts that differ in nothing else, the number of a document is worth showing all the same.
    """
    return word.lower() in _RECORD_LABELS or (not is_whole and word.lower() in _DOCUMENT_LABELS)


def competes(left: str, right: str) -> bool:
    """Whether two different tokens are values of one sort, so that a text with the one contradicts the other."""
    if any(left in sort and right in sort for sort in _CLOSED_SORTS):
        return True
    if _SIGNED_NUMBER.fullmatch(left) and _SIGNED_NUMBER.fullmatch(right):
        return left.removeprefix("+") != right.removeprefix("+")
    if _NAME.fullmatch(left) or _NAME.fullmatch(right):
        return bool(_is_plain_ratio(left) and _is_plain_ratio(right))
    key_l, key_r = _KEY_VALUE.fullmatch(left), _KEY_VALUE.fullmatch(right)
    if key_l and key_r and key_l.group(1) == key_r.group(1):
        return True
    frame_l, values_l = _frame(left)
    frame_r, values_r = _frame(right)
    return frame_l == frame_r and values_l != values_r and bool(values_l)


def _is_plain_ratio(token: str) -> bool:
    return bool(re.fullmatch(r"\d+(?:[/:]\d+)+", token))


def _frame(token: str) -> tuple[str, list[str]]:
    """The token with its free-standing numbers taken out, and those numbers; digits inside a name stay."""
    values: list[str] = []

    def take(match: re.Match[str]) -> str:
        if _KEBAB.fullmatch(token[: match.start()]):
            return match.group()
        values.append(match.group())
        return "\0"

    return _NUMBER_PART.sub(take, token), values
