"""The specifics ledger of a text (ledger X1): the multiset of what a merge must not lose.

Belongs here: walking the raw text piece by piece, the meaning that needs neighbours (units set apart, dates in words,
negations and their reach, phrases), and the difference of two ledgers. Does not belong here: the form of a single piece
(``named_things``, ``moments``, ``amounts``), the lists (``cues``, ``known_names``), or what follows from a difference
(``compare``).

A ledger is a ``Counter`` of ``Specific(type, value, polarity)``; two ledgers agree only when they are equal as
multisets. Polarity is ``-`` for what stands in the reach of a negation ("do not use 5"), else ``+``.

Types of EVIDENCE, whose difference says that two texts may speak of different things: number, date, time, version,
identifier, path, url, flag, env, mark. Types that lock a merge and are shown, and prove nothing by themselves because
rewording adds and drops them: negation, name (of a language or tool), modal, quantifier, bound, order, stance, ordinal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from kb_pipeline.text.amounts import MULTIPLIERS, times_power
from kb_pipeline.text.characters import SPACELESS
from kb_pipeline.text.chunks import prepare
from kb_pipeline.text.cues import (
    BOUND_WORDS,
    BOUNDS,
    CONTEXT_NEGATIONS,
    MARKS,
    MODALS,
    NEGATION_PHRASES,
    NEGATIONS,
    ORDER_PHRASES,
    ORDERS,
    ORDINALS,
    QUANTIFIER_PHRASES,
    QUANTIFIERS,
    SPACELESS_ENDINGS,
    SPACELESS_NEGATIONS,
    SPACELESS_NO_NEGATION,
    STANCES,
)
from kb_pipeline.text.known_names import known_name
from kb_pipeline.text.markup import CODE_CLOSE, CODE_MARK, CODE_OPEN, LINK_TARGET, LINK_TEXT, Code
from kb_pipeline.text.moments import MONTHS, named_date, time_of_day
from kb_pipeline.text.named_things import amount, classify, core_of
from kb_pipeline.text.units import NUMBER_WORDS, ORDINAL_FORMS, UNITS
from kb_pipeline.text.wordlists import closed_list, ordered_list

SPECIFICS_VERSION = "2"
"""Raised with every change of a rule or list: stored ledgers of another version are not compared."""

EVIDENCE = closed_list("number date time version identifier path url flag env mark")
TURNING = closed_list("number date time version negation stance")
"""Types whose difference makes it unlikely that two texts say the same, whatever their similarity."""


class Specific(NamedTuple):
    """One thing a text pins down: its type, its canonical value, and ``+`` or ``-`` for the reach of a negation."""

    type: str
    value: str
    polarity: str


_WEEKDAYS = {
    form: day
    for day in ordered_list("monday tuesday wednesday thursday friday saturday sunday")
    for form in (day, f"{day}s")
}
_SHOWN: dict[str, tuple[str, str]] = {
    word: (kind, value)
    for kind, words in (
        ("quantifier", QUANTIFIERS), ("bound", BOUND_WORDS), ("order", ORDERS), ("stance", STANCES), ("ordinal", ORDINALS),
    )
    for word, value in words.items()
}  # fmt: skip
_PHRASES: dict[str, dict[str, tuple[str, str]]] = {}
for _kind, _table in (
    ("negation", NEGATION_PHRASES), ("bound", BOUNDS), ("order", ORDER_PHRASES), ("quantifier", QUANTIFIER_PHRASES),
):  # fmt: skip
    for (_first, _second), _value in _table.items():
        _PHRASES.setdefault(_first, {})[_second] = (_kind, _value)
_MARKS = re.compile("[" + "".join(MARKS) + "]")
_BOX = re.compile(r"\[( |x|X|-)\]")
_BOX_STATES = {" ": "open", "x": "done", "X": "done", "-": "dropped"}
_MNEMONIC = re.compile(r"(?<![^\s\"'(A-Za-z])\[([A-Za-z])\](?=[a-z])")
_HYPHENED = re.compile(r"(?![\"'(]*X-)[\"'(]*[^\W\d_][^\W\d_A-Z]*(?:-[^\W\d_][^\W\d_A-Z]*)+(?:'s)?[\"'),.;:!?]*")
_CONTRACTED = re.compile(r"(\W*)([a-z]+)(?:n't|(?<=can)not)(\W*)", re.IGNORECASE)
_FULL_VERBS = {"ca": "can", "wo": "will", "sha": "shall"}
_ELIDED = re.compile(r"n'(?=[^\W\d_])", re.IGNORECASE)
_HAN = re.compile(f"[{SPACELESS}]+")
_NO_NEGATION = re.compile("|".join(sorted(SPACELESS_NO_NEGATION, key=len, reverse=True)))
_DENIED = re.compile(f"[{SPACELESS_NEGATIONS}]|(?:{'|'.join(SPACELESS_ENDINGS)})")
_BARE_NUMBER = re.compile(r"[~≈<>=^]*\d+(?:\.\d+)?")
_PLAIN_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_HOUR = re.compile(r"\d{1,2}(?::\d{2})?")
_SMALL = re.compile(r"[1-9]")
_TENS = closed_list("20 30 40 50 60 70 80 90")
_PERIODS = closed_list(
    "second minute hour day night morning evening week month quarter year workday weekday weekend spring summer autumn winter"
)
_STOPS = closed_list("but if when unless because otherwise")
_UNCOUNTED = closed_list("a an the example instance")
_REACH = 6
"""How many words behind a negation stand in its reach; what reformatting adds or drops is not counted."""
_NEAR = 3


class _Piece(NamedTuple):
    """A white-space piece: its core, the core in lower case, and what it is by itself.

    ``found`` is the specific that it is by its form or by a list, ``shown`` a word that is only shown, ``negation`` what
    it negates with, ``modal`` the modal it carries. ``ends`` says that a clause ends behind it, ``stops`` that a sentence
    does, ``closes`` that no negation reaches beyond it, ``counts`` that it is one of the words by which a reach is
    measured, ``is_plain`` that nothing but its reach is to be noted.
    """

    core: str
    word: str
    found: tuple[str, str] | None
    shown: tuple[str, str] | None
    negation: str | None
    modal: str | None
    ends: bool
    stops: bool
    closes: bool
    counts: bool
    is_plain: bool


@lru_cache(maxsize=100_000)
def _piece(piece: str) -> _Piece:
    core, ends = core_of(piece)
    word = core.lower()
    name = known_name(core, opens_clause=False)
    found = ("name", name) if name else classify(core)
    if core in ORDINAL_FORMS:
        found = ("ordinal", ORDINALS[ORDINAL_FORMS[core]])
    elif word in NUMBER_WORDS:
        found = ("number", NUMBER_WORDS[word])
    elif word in _WEEKDAYS:
        found = ("date", _WEEKDAYS[word])
    negation, modal, shown = NEGATIONS.get(word), MODALS.get(word), None if found else _SHOWN.get(word)
    starts = word in _PHRASES or word in CONTEXT_NEGATIONS or word in MONTHS or word in ("have", "has")
    return _Piece(
        core,
        word,
        found,
        shown,
        negation,
        modal,
        ends,
        piece[-1] in ".!?:;",
        ends or word in _STOPS,
        word not in _UNCOUNTED and any(map(str.isalnum, word)),
        not (found or shown or negation or modal or starts or _HAN.search(core)),
    )


def _pieces(text: str) -> list[_Piece]:
    """The pieces of the raw text, emphasis, bullets and marks of code taken off."""
    prepared, codes = prepare(_MNEMONIC.sub(r"\1", text) if "[" in text else text)
    if not prepared.isascii():
        prepared = prepared.replace("…", "...").replace(LINK_TARGET, "").replace(LINK_TEXT, "")
    if codes:

        def back(match: re.Match[str]) -> str:
            code: Code = codes[int(match.group(1))]
            return f"\n{code.text}\n" if code.fenced else code.text.strip()

        # A mark that touches a letter is a word with an ending ("`id`s"); anything else stands for itself.
        spaced = re.sub(f"{CODE_CLOSE}(?=[^\\W_])", f"{CODE_CLOSE} ", prepared)
        prepared = CODE_MARK.sub(back, re.sub(f"(?<=[^\\W_]){CODE_OPEN}", f" {CODE_OPEN}", spaced))
    return [piece for chunk in prepared.split() for piece in _expand(chunk)]


@lru_cache(maxsize=100_000)
def _expand(chunk: str) -> tuple[_Piece, ...]:
    """The pieces of a chunk: contracted negations ("don't"), hyphened words ("read-only") and scripts are parted."""
    if "-" in chunk and _HYPHENED.fullmatch(chunk):
        return tuple(map(_piece, chunk.split("-")))
    if "'" in chunk or "not" in chunk or "NOT" in chunk:
        match = _CONTRACTED.fullmatch(chunk)
        if match:
            verb = match.group(2)
            return (_piece(match.group(1) + _FULL_VERBS.get(verb.lower(), verb)), _piece("not" + match.group(3)))
        if _ELIDED.match(chunk):
            return (_piece("ne"), _piece(chunk[2:]))
    if not chunk.isascii() and _HAN.search(chunk):
        return tuple(_piece(part) for part in re.split(f"([{SPACELESS}]+)", chunk) if part)
    return (_piece(chunk),)


def specifics(text: str) -> Counter[Specific]:
    """Return the ledger of ``text``, a multiset of ``Specific``.

    Values are canonical: ``10 seconds`` and ``10s`` are ``10 s``, ``May 5, 2024`` is ``2024-05-05``; digits are kept as
    text.
    """
    found: list[tuple[str, str, str]] = [("mark", _BOX_STATES[box], "+") for box in _BOX.findall(text)]
    if not text.isascii():
        found.extend(("mark", MARKS[char], "+") for char in _MARKS.findall(text))
    found.extend(_walk(_pieces(text)))
    return Counter(map(Specific._make, found))


def _walk(pieces: list[_Piece]) -> list[tuple[str, str, str]]:
    """Type, value and polarity of all that the pieces hold."""
    ledger: list[tuple[str, str, str]] = []
    reach, skip, count = 0, 0, len(pieces)
    modal: str | None = None
    for index, piece in enumerate(pieces):
        if piece.is_plain and modal is None and not skip:
            if reach:
                reach = 0 if piece.closes else reach - piece.counts
            continue
        word = piece.word
        following = pieces[index + 1] if index + 1 < count and not piece.ends else None
        negation = piece.negation
        sign = "-" if reach else "+"
        if modal is not None:
            ledger.append(("modal", modal, "-" if negation == "not" else "+"))
            modal = None
        if skip:
            skip -= 1
        else:
            taken = _phrase(pieces, index, following)
            if taken:
                kind, value, skip = taken
                if kind == "negation":
                    negation = value
                else:
                    ledger.append((kind, value, sign))
                    negation = None
            elif piece.found:
                opens = index == 0 or pieces[index - 1].stops
                if piece.found[0] != "name" or known_name(piece.core, opens_clause=opens):
                    kind, value, skip = _with_unit(piece, pieces, index, following)
                    if kind:
                        ledger.append((kind, value, sign))
            elif piece.shown:
                if not (word in ("every", "each") and following and _is_period(following)):
                    ledger.append((*piece.shown, sign))
            else:
                modal = piece.modal
                if modal is None and word in ("have", "has") and following and following.word == "to":
                    modal = "must"
            negation = negation or _in_context(pieces, index)
            if negation:
                ledger.append(("negation", negation, "+"))
            denied = _denials(piece.core)
            ledger.extend([("negation", "not", "+")] * denied)
        if piece.closes:
            reach = 0
        elif negation in ("not", "without", "no longer", "instead of"):
            reach = _REACH + skip
        elif reach:
            reach -= piece.counts
    if modal is not None:
        ledger.append(("modal", modal, "+"))
    return ledger


def _is_period(piece: _Piece) -> bool:
    """Whether "every" before this piece says how often: "every Sunday", "every night", "every 5 minutes"."""
    return piece.word in _PERIODS or bool(piece.found and piece.found[0] in ("date", "number"))


def _phrase(pieces: list[_Piece], index: int, following: _Piece | None) -> tuple[str, str, int] | None:
    """Type and value of the phrase or worded date that starts here, and how many pieces behind this one it takes."""
    piece = pieces[index]
    if following is None:
        return None
    seconds = _PHRASES.get(piece.word)
    pair = seconds.get(following.word) if seconds else None
    if pair:
        is_bound = pair != ("bound", "at most") or piece.word != "up"
        counted = pieces[index + 2].found if index + 2 < len(pieces) else None
        if is_bound or (counted and counted[0] == "number"):
            return (*pair, 1)
    if piece.word in MONTHS or piece.core[:1].isdigit():
        words = [piece.word]
        for other, before in zip(pieces[index + 1 : index + 4], pieces[index : index + 3], strict=False):
            # A comma inside "May 14, 2027" ends no clause; any other sign does.
            if before.ends and not (other.word.isdigit() and len(other.word) == 4):
                break
            words.append(other.word)
        dated = named_date(words) if len(words) > 1 else None
        if dated:
            return "date", dated[0], dated[1] - 1
    return None


def _with_unit(piece: _Piece, pieces: list[_Piece], index: int, following: _Piece | None) -> tuple[str, str, int]:
    """Type and value of what a piece is together with the unit, the multiplier or half of the day behind it."""
    kind, value = piece.found or ("", "")
    if kind == "name":
        return kind, value, 0
    before = pieces[index - 1].word if index else ""
    if piece.word == "one" and before == "no":
        return "", "", 0
    if following is None or kind not in ("number", "time"):
        return kind, value, 0
    taken = 0
    if (
        kind == "number"
        and value in _TENS
        and _SMALL.fullmatch((following.found or ("", ""))[1])
        and piece.core.isalpha()
    ):
        if following.core.isalpha():
            value, taken = value[0] + (following.found or ("", ""))[1], 1
    elif _HOUR.fullmatch(value) and following.word in ("am", "pm", "a.m", "p.m"):
        time = time_of_day(piece.core + following.word.replace(".", ""))
        if time:
            return "time", time, 1
    if kind == "number" and _PLAIN_NUMBER.fullmatch(value):
        following = _at(pieces, index + taken)
        while following and following.word in MULTIPLIERS:
            value, taken = times_power(value, MULTIPLIERS[following.word]), taken + 1
            following = _at(pieces, index + taken)
    if kind == "number" and _BARE_NUMBER.fullmatch(value) and following:
        if following.word == "per" and (second := _at(pieces, index + taken + 1)) and second.word == "cent":
            return kind, f"{value} %", taken + 2
        unit = UNITS.get(following.core)
        if unit is not None:
            return kind, amount(value, unit), taken + 1
    return kind, value, taken


def _at(pieces: list[_Piece], index: int) -> _Piece | None:
    """The piece behind ``index``, unless a clause ends there."""
    return pieces[index + 1] if index + 1 < len(pieces) and not pieces[index].ends else None


def _in_context(pieces: list[_Piece], index: int) -> str | None:
    """What a word negates with that does so in its own language only ("sin" in Spanish)."""
    known = CONTEXT_NEGATIONS.get(pieces[index].word)
    if known is None:
        return None
    value, context = known
    near = pieces[max(0, index - _NEAR) : index] + pieces[index + 1 : index + 1 + _NEAR]
    return value if any(piece.word in context for piece in near) else None


def _denials(core: str) -> int:
    """How often a run of Chinese or Japanese denies something."""
    if core.isascii() or not _HAN.search(core):
        return 0
    return len(_DENIED.findall(_NO_NEGATION.sub("", core)))


def _readable(specific: Specific) -> str:
    return f"{specific.type} {specific.value}" + (" (negated)" if specific.polarity == "-" else "")


def difference(ledger_l: Counter[Specific], ledger_r: Counter[Specific]) -> tuple[list[str], list[str]]:
    """Return what each ledger holds beyond the other, readable and sorted, repeated as often as it is missing."""
    only_l = sorted(map(_readable, (ledger_l - ledger_r).elements()))
    only_r = sorted(map(_readable, (ledger_r - ledger_l).elements()))
    return only_l, only_r


def is_turned(listed: Iterable[str]) -> bool:
    """Whether specifics that only one text has (readable, see ``difference``) make it unlikely that both say the same."""
    return any(line.partition(" ")[0] in TURNING for line in listed)


def ledger_difference(a: str, b: str) -> tuple[list[str], list[str]]:
    """Return the specifics only in ``a`` and only in ``b``, as sorted readable strings ("number 3 times")."""
    return difference(specifics(a), specifics(b))
