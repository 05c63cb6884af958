"""The specifics ledger of a text (ledger X1): the multiset of what a merge must not lose.

Belongs here: walking the raw text piece by piece, the meaning that needs neighbours (units set apart, negations and
their reach, modals, number words, weekdays, check marks), and the difference of two ledgers. Does not belong here:
the form of a single piece (``named_things``), or what follows from a difference (``compare``).

A ledger is a ``Counter`` of ``Specific(type, value, polarity)``; two ledgers agree only when they are equal as
multisets. Polarity is ``-`` for what stands in the reach of a negation ("do not use 5"), else ``+``. Types: number,
date, version, identifier, path, url, flag, env, mark, negation, modal.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from kb_pipeline.text.chunks import prepare
from kb_pipeline.text.markup import CODE_CLOSE, CODE_MARK, CODE_OPEN, LINK_TARGET, LINK_TEXT, Code
from kb_pipeline.text.named_things import classify, core_of
from kb_pipeline.text.units import NUMBER_WORDS, UNITS
from kb_pipeline.text.wordlists import closed_list, ordered_list

SPECIFICS_VERSION = "1"
"""Raised with every change of a rule or list: stored ledgers of another version are not compared."""


class Specific(NamedTuple):
    """One thing a text pins down: its type, its canonical value, and ``+`` or ``-`` for the reach of a negation."""

    type: str
    value: str
    polarity: str


_MONTHS = {
    name: full
    for full in ordered_list("january february march april may june july august september october november december")
    for name in (full, full[:3])
} | {"sept": "september"}
_WEEKDAYS = {
    form: day
    for day in ordered_list("monday tuesday wednesday thursday friday saturday sunday")
    for form in (day, f"{day}s")
}
_NEGATIONS: dict[str, str] = dict.fromkeys(
    ordered_list("not never no none nobody nothing nowhere neither nor avoid avoids avoiding"), "not"
) | {"without": "without", "unless": "unless", "except": "except"}
_MODALS: dict[str, str] = {
    "must": "must",
    "shall": "must",
    "should": "should",
    "ought": "should",
    "may": "may",
    "might": "may",
    "can": "can",
    "could": "can",
    "always": "always",
    "only": "only",
}
_MARKS = dict.fromkeys("✅✓✔☑", "yes") | dict.fromkeys("❌✗✘✖🚫⛔", "no") | {"⚠": "warning", "☐": "open"}
_BOX = re.compile(r"\[( |x|X|-)\]")
_BOX_STATES = {" ": "open", "x": "done", "X": "done", "-": "dropped"}
_MNEMONIC = re.compile(r"(?<![^\s\"'(A-Za-z])\[([A-Za-z])\](?=[a-z])")
_HYPHENED = re.compile(r"[\"'(]*[^\W\d_][^\W\d_A-Z]*(?:-[^\W\d_][^\W\d_A-Z]*)+(?:'s)?[\"'),.;:!?]*")
_CONTRACTED = re.compile(r"(\W*)([a-z]+)(?:n't|(?<=can)not)(\W*)", re.IGNORECASE)
_FULL_VERBS = {"ca": "can", "wo": "will", "sha": "shall"}
_BARE_NUMBER = re.compile(r"[~≈<>=^]*\d+(?:\.\d+)?")
_STOPS = closed_list("but instead if when unless because rather otherwise")
_UNCOUNTED = closed_list("a an the example instance")
_REACH = 6
"""How many words behind a negation stand in its reach; what reformatting adds or drops is not counted."""


class _Piece(NamedTuple):
    """A white-space piece: its core, the specific it is by its form, and whether a clause ends behind it."""

    core: str
    found: tuple[str, str] | None
    ends: bool


@lru_cache(maxsize=50_000)
def _piece(piece: str) -> _Piece:
    core, ends = core_of(piece)
    return _Piece(core, classify(core), ends)


def _pieces(text: str) -> list[_Piece]:
    """The pieces of the raw text, emphasis, bullets and marks of code taken off."""
    prepared, codes = prepare(_MNEMONIC.sub(r"\1", text) if "[" in text else text)
    prepared = prepared.replace("…", "...").replace(LINK_TARGET, "").replace(LINK_TEXT, "")
    if codes:

        def back(match: re.Match[str]) -> str:
            code: Code = codes[int(match.group(1))]
            return f"\n{code.text}\n" if code.fenced else code.text.strip()

        # A mark that touches a letter is a word with an ending ("`id`s"); anything else stands for itself.
        spaced = re.sub(f"{CODE_CLOSE}(?=[^\\W_])", f"{CODE_CLOSE} ", prepared)
        prepared = CODE_MARK.sub(back, re.sub(f"(?<=[^\\W_]){CODE_OPEN}", f" {CODE_OPEN}", spaced))
    return [_piece(part) for chunk in prepared.split() for part in _expand(chunk)]


def _expand(chunk: str) -> tuple[str, ...]:
    """Cut contracted negations ("don't") and hyphened words ("read-only") into their words; the rest stays whole."""
    if "-" in chunk and _HYPHENED.fullmatch(chunk):
        return tuple(chunk.split("-"))
    match = _CONTRACTED.fullmatch(chunk)
    if not match:
        return (chunk,)
    verb = match.group(2)
    return (match.group(1) + _FULL_VERBS.get(verb.lower(), verb), "not" + match.group(3))


def specifics(text: str) -> Counter[Specific]:
    """Return the ledger of ``text``, a multiset of ``Specific``.

    Values are canonical: ``10 seconds`` and ``10s`` are ``10 s``; digits are kept as text.
    """
    ledger: Counter[Specific] = Counter()
    for box in _BOX.findall(text):
        ledger[Specific("mark", _BOX_STATES[box], "+")] += 1
    for char in text:
        if char > "\u2000" and char in _MARKS:
            ledger[Specific("mark", _MARKS[char], "+")] += 1
    pieces = _pieces(text)
    reach = 0
    modal: str | None = None
    unit_taken = False
    for index, piece in enumerate(pieces):
        following = pieces[index + 1].core if index + 1 < len(pieces) and not piece.ends else ""
        word = piece.core.lower()
        negation = _NEGATIONS.get(word)
        if modal is not None:
            ledger[Specific("modal", modal, "-" if negation == "not" else "+")] += 1
            modal = None
        is_unit, unit_taken = unit_taken, False
        found = None if is_unit else piece.found or _worded(word, following, pieces[index - 1].core if index else "")
        if found:
            kind, value = found
            unit = UNITS.get(following) if kind == "number" and _BARE_NUMBER.fullmatch(value) else None
            unit_taken = unit is not None
            ledger[Specific(kind, f"{value} {unit}" if unit else value, "-" if reach else "+")] += 1
        else:
            modal = _modal(word, following)
        if negation:
            ledger[Specific("negation", negation, "+")] += 1
        if piece.ends or word in _STOPS:
            reach = 0
        elif negation in ("not", "without"):
            reach = _REACH
        elif word not in _UNCOUNTED and any(map(str.isalnum, word)):
            reach = max(0, reach - 1)
    if modal is not None:
        ledger[Specific("modal", modal, "+")] += 1
    return ledger


def _worded(word: str, following: str, before: str) -> tuple[str, str] | None:
    """The number or date that a plain word stands for ("three", "Sunday", "May 5")."""
    number = NUMBER_WORDS.get(word)
    if number is not None:
        return ("number", number) if before.lower() != "no" else None
    if word in _WEEKDAYS:
        return ("date", _WEEKDAYS[word])
    if word in _MONTHS and (following[:1].isdigit() or before[:1].isdigit()):
        return ("date", _MONTHS[word])
    return None


def _modal(word: str, following: str) -> str | None:
    """The modal that ``word`` carries; its polarity follows from the next word, or from its own ending."""
    if word in ("have", "has"):
        return "must" if following.lower() == "to" else None
    return _MODALS.get(word)


def _readable(specific: Specific) -> str:
    return f"{specific.type} {specific.value}" + (" (negated)" if specific.polarity == "-" else "")


def difference(ledger_l: Counter[Specific], ledger_r: Counter[Specific]) -> tuple[list[str], list[str]]:
    """Return what each ledger holds beyond the other, readable and sorted, repeated as often as it is missing."""
    only_l = sorted(map(_readable, (ledger_l - ledger_r).elements()))
    only_r = sorted(map(_readable, (ledger_r - ledger_l).elements()))
    return only_l, only_r


def ledger_difference(a: str, b: str) -> tuple[list[str], list[str]]:
    """Return the specifics only in ``a`` and only in ``b``, as sorted readable strings ("number 3 times")."""
    return difference(specifics(a), specifics(b))
