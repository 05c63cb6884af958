"""The specifics ledger of a text (ledger X1): the multiset of what a merge must not lose.

Belongs here: numbers with units, versions, dates, identifiers, paths, URLs, flags, environment variables, marks,
negations and modals, taken from the raw text by rule, and the difference of two ledgers. Does not belong here: what
follows from a difference (``compare``).

A ledger is a ``Counter`` of ``Specific(type, value, polarity)``; two ledgers agree only when they are equal as
multisets. Polarity is ``-`` for what stands in the reach of a negation ("do not use 5"), else ``+``.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from kb_pipeline.text.chunks import prepare
from kb_pipeline.text.markup import CODE_CLOSE, CODE_MARK, CODE_OPEN, LINK_TARGET, LINK_TEXT, Code
from kb_pipeline.text.units import (
    GROUPED_NUMBER,
    HYPHENED_UNIT,
    NUMBER,
    NUMBER_WITH_UNIT,
    NUMBER_WORDS,
    UNITS,
    plain_number,
)

SPECIFICS_VERSION = "1"
"""Raised with every change of a rule or list: stored ledgers of another version are not compared."""


class Specific(NamedTuple):
    """One thing a text pins down: its type, its canonical value, and ``+`` or ``-`` for the reach of a negation."""

    type: str
    value: str
    polarity: str


_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+", re.IGNORECASE)
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*(?:=.*)?")
_ENV = re.compile(r"\$\{?[A-Za-z_]\w*\}?|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_DATE = re.compile(
    r"\d{4}[-/]\d{1,2}[-/]\d{1,2}(?:[T ]?\d{2}:\d{2}\S*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{4}-\d{2}"
    r"|\d{1,2}:\d{2}(?::\d{2})?"
)
_VERSION = "1"
"""Raised with every change of a rule or list: stored ledgers of another version are not compared."""


class Specific(NamedTuple):
    """One thing a text pins down: its type, its canonical value, and ``+`` or ``-`` for the reach of a negation."""

    type: str
    value: str
    polarity: str


_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+", re.IGNORECASE)
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*(?:=.*)?")
_ENV = re.compile(r"\$\{?[A-Za-z_]\w*\}?|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_DATE = re.compile(
    r"\d{4}[-/]\d{1,2}[-/]\d{1,2}(?:[T ]?\d{2}:\d{2}\S*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{4}-\d{2}|\d{1,2}:\d{2}(?::\d{2})?"
)
_VERSION = re.compile(
    r"[vV]\d+(?:\.\d+)*[\w.+-]*|\d+(?:\.\d+){2,}[\w.+-]*|\d+(?:\.\d+)+(?:[-+][\w.]+|rc\d+|[ab]\d+)|\d+\.x"
)
_COMPARED = re.compile(r"([<>]=?|[=!]=|[~^])(\d.*)")
_MONEY = re.compile(r"([$€£¥])(\d.*)")
_EXTENSION = re.compile(
    r"[\w.*@+-]*\.(?:md|mdx|py|pyi|ts|tsx|js|jsx|mjs|cjs|json|jsonl|yaml|yml|toml|txt|sh|bash|zsh|rs|go|rb|java|kt|c|h|cc|"
    r"cpp|hpp|cs|css|scss|html|htm|xml|sql|db|sqlite|cfg|conf|ini|env|lock|log|csv|tsv|parquet|png|jpg|jpeg|svg|gif|"
    r"pdf|zip|gz|tar|tgz|service|proto|gradle|tf|vue|svelte|php|pl|lua|swift|ipynb)"
)
_SLASHED_WORDS = re.compile(r"[^\W\d_]+(?:/[^\W\d_]+)+")
_IDENTIFIER = re.compile(
    r"(?=.*[^\W\d])(?:.*_.*|.*[a-z0-9].*[A-Z].*|[A-Z]{2,}.*|.*\d.*|.*[^\W\d_][.:]{1,2}[^\W\d_].*|.*\(.*|[@#$%&].+|.*[=<>\\{}|^~].*)"
)
_SHOUTED = frozenset(
    [
        "MUST",
        "NOT",
        "NEVER",
        "ALWAYS",
        "ONLY",
        "DO",
        "ALL",
        "ANY",
        "NO",
        "SHOULD",
        "SHALL",
        "MAY",
        "CAN",
        "OR",
        "AND",
        "IF",
        "IS",
        "ARE",
        "THE",
        "A",
        "IN",
        "ON",
        "TO",
        "OF",
        "FOR",
        "BEFORE",
        "AFTER",
        "IMPORTANT",
        "CRITICAL",
        "WARNING",
        "NOTE",
        "REQUIRED",
        "OPTIONAL",
        "RECOMMENDED",
        "EVERY",
        "WITHOUT",
        "DON'T",
        "EXACTLY",
        "FIRST",
        "MANDATORY",
    ]
)
_MONTHS = {
    name: full
    for full in (
        [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ]
    )
    for name in (full, full[:3])
} | {"sept": "september"}
_WEEKDAYS = {
    form: day
    for day in ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
    for form in (day, f"{day}s")
}
_NEGATIONS: dict[str, str] = dict.fromkeys(
    ["not", "never", "no", "none", "nobody", "nothing", "nowhere", "neither", "nor", "avoid", "avoids", "avoiding"],
    "not",
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
_MARKS = {
    "✅": "yes",
    "✓": "yes",
    "✔": "yes",
    "☑": "yes",
    "❌": "no",
    "✗": "no",
    "✘": "no",
    "✖": "no",
    "🚫": "no",
    "⛔": "no",
    "⚠": "warning",
    "☐": "open",
}
_BOX = re.compile(r"\[( |x|X|-)\]")
_MNEMONIC = re.compile(r"(?<![^\s\"'(A-Za-z])\[([A-Za-z])\](?=[a-z])")
_CONTRACTED = re.compile(r"(\W*)([a-z]+)(?:n['’]t|(?<=can)not)(\W*)", re.IGNORECASE)
_HYPHENED = re.compile(r"[\"'(]*[^\W\d_][^\W\d_A-Z]*(?:-[^\W\d_][^\W\d_A-Z]*)+(?:'s)?[\"'),.;:!?]*")
_FULL_VERBS = {"ca": "can", "wo": "will", "sha": "shall"}
_BARE_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_REFERENCE = re.compile(r"#\d+")
_REACH = 6
_MAX_NAME_CHARS = 300
_STOPS = frozenset(["but", "instead", "if", "when", "unless", "because", "use", "rather", "otherwise"])
_ARTICLES = frozenset(("a", "an", "the"))


def _pieces(text: str) -> list[str]:
    """White-space pieces of the raw text, emphasis and bullets off, code put back in its place."""
    prepared, codes = prepare(text)
    prepared = prepared.replace("…", "...").replace(LINK_TARGET, "").replace(LINK_TEXT, "")
    if not codes:
        return prepared.split()

    def back(match: re.Match[str]) -> str:
        code: Code = codes[int(match.group(1))]
        return f"\n{code.text}\n" if code.fenced else code.text.strip()

    # A mark that touches a letter is a word with an ending ("`id`s"); anything else stands for itself.
    spaced = re.sub(f"{CODE_CLOSE}(?=[^\\W_])", f"{CODE_CLOSE} ", prepared)
    return CODE_MARK.sub(back, re.sub(f"(?<=[^\\W_]){CODE_OPEN}", f" {CODE_OPEN}", spaced)).split()


def _core(piece: str) -> tuple[str, bool]:
    """The piece without wrapping signs, and whether a clause ends behind it."""
    ends = piece[-1] in ",.;:!?)"
    if len(piece) > _MAX_NAME_CHARS:
        return piece, ends
    core = piece.lstrip("\"'([{<*~¿¡")
    core = core.rstrip("\"'>*~,;:!?")
    while core:
        if (core.endswith(".") and not core.endswith(("..", "/."))) or (
            core[-1] in ")]}" and core.count(core[-1]) > core.count({")": "(", "]": "[", "}": "{"}[core[-1]])
        ):
            core = core[:-1]
        else:
            stripped = core.rstrip("\"'*~,;:!?")
            if stripped == core:
                break
            core = stripped
    if piece.startswith("<") and piece.endswith(">"):
        core = piece
    return core, ends


def _classify(core: str) -> list[tuple[str, str]]:
    """Types and values of one piece; an empty list for a plain word."""
    if len(core) > _MAX_NAME_CHARS:
        return [("identifier", core)]
    if core.isalpha() and (len(core) < 2 or core[1:] == core[1:].lower() or core in _SHOUTED):
        return []
    if core.lower() in ("e.g", "i.e"):
        return []
    if _URL.match(core):
        return [("url", core)]
    if NUMBER.fullmatch(core) or GROUPED_NUMBER.fullmatch(core):
        return [("number", plain_number(core))]
    if _DATE.fullmatch(core):
        return [("date", core)]
    if _VERSION.fullmatch(core):
        return [("version", core)]
    match = NUMBER_WITH_UNIT.fullmatch(core)
    if match:
        return [("number", f"{plain_number(match.group(1))} {UNITS[match.group(2)]}")]
    match = HYPHENED_UNIT.fullmatch(core)
    if match:
        unit = UNITS.get(match.group(2))
        return [("number", plain_number(match.group(1)) + (f" {unit}" if unit else ""))]
    match = _COMPARED.fullmatch(core) or _MONEY.fullmatch(core)
    if match:
        return [(kind, match.group(1) + value) for kind, value in _classify(match.group(2))]
    if _FLAG.fullmatch(core):
        return [("flag", core)]
    if _ENV.fullmatch(core):
        return [("env", core)]
    if _EXTENSION.fullmatch(core):
        return [("path", core)]
    if "/" in core and any(char.isalnum() for char in core):
        return [] if _SLASHED_WORDS.fullmatch(core) and core == core.lower() else [("path", core)]
    if (
        "-" in core
        and core.replace("-", "").isalpha()
        and not any(part[1:].lower() != part[1:] for part in core.split("-"))
    ):
        return []
    if re.fullmatch(r"\d[\d.,]*(?:[-–]\d[\d.,]*)+\S*|\d+(?:st|nd|rd|th)|\d[\d,.]*[A-Za-z]{1,3}", core):
        return [("number", core)]
    if core.endswith("'s"):
        return _classify(core[:-2])
    if _REFERENCE.fullmatch(core) or _IDENTIFIER.fullmatch(core):
        return [("identifier", core)]
    return []


def _expand(piece: str) -> tuple[str, ...]:
    """Cut contracted negations ("don't") and hyphened words ("read-only") into their words; the rest stays whole."""
    if "-" in piece and _HYPHENED.fullmatch(piece):
        return tuple(piece.split("-"))
    match = _CONTRACTED.fullmatch(piece)
    if not match:
        return (piece,)
    verb = match.group(2)
    return (match.group(1) + _FULL_VERBS.get(verb.lower(), verb), "not" + match.group(3))


class _Piece(NamedTuple):
    """A white-space piece: its core, the specifics in it, and whether a clause ends behind it."""

    core: str
    found: tuple[tuple[str, str], ...]
    ends: bool


@lru_cache(maxsize=50_000)
def _piece(piece: str) -> _Piece:
    core, ends = _core(piece)
    return _Piece(core, tuple(_classify(core)), ends)


def specifics(text: str) -> Counter[Specific]:
    """Return the ledger of ``text``, a multiset of ``Specific``.

    Values are canonical: ``10 seconds`` and ``10s`` are ``10 s``; digits are kept as text.
    """
    ledger: Counter[Specific] = Counter()
    for box in _BOX.findall(text):
        ledger[Specific("mark", "open" if box == " " else "done" if box in "xX" else box, "+")] += 1
    for char in text:
        if char > "\u2000" and char in _MARKS:
            ledger[Specific("mark", _MARKS[char], "+")] += 1
    plain = _MNEMONIC.sub(r"\1", text) if "[" in text else text
    pieces = [_piece(part) for piece in _pieces(plain) for part in _expand(piece)]
    reach = 0
    modal: str | None = None
    unit_taken = False
    for index, piece in enumerate(pieces):
        following = pieces[index + 1].core if index + 1 < len(pieces) and not piece.ends else ""
        word = piece.core.lower()
        negation = _NEGATIONS.get(word)
        if modal is not None:
            ledger[Specific("modal", modal, "-" if negation == "not" else "+")] += 1
        modal = _modal(word, following)
        polarity = "-" if reach > 0 else "+"
        is_unit, unit_taken = unit_taken, False
        for kind, value in () if is_unit else piece.found:
            unit = UNITS.get(following) if kind == "number" and _BARE_NUMBER.fullmatch(value) else None
            unit_taken = unit_taken or unit is not None
            ledger[Specific(kind, f"{value} {unit}" if unit else value, polarity)] += 1
        if not piece.found and not is_unit:
            unit_taken = _count_word(ledger, word, following, pieces[index - 1].core if index else "", polarity)
        if negation:
            ledger[Specific("negation", negation, "+")] += 1
        if piece.ends or word in _STOPS:
            reach = 0
        elif negation in ("not", "without"):
            reach = _REACH
        elif word not in _ARTICLES and any(map(str.isalnum, word)):
            reach = max(0, reach - 1)
    if modal is not None:
        ledger[Specific("modal", modal, "+")] += 1
    return ledger


def _modal(word: str, following: str) -> str | None:
    """The modal that ``word`` carries; its polarity follows from the next word, or from its own ending."""
    if word in ("have", "has"):
        return "must" if following.lower() == "to" else None
    return _MODALS.get(word)


def _count_word(ledger: Counter[Specific], word: str, following: str, before: str, polarity: str) -> bool:
    """Count a plain word that stands for a number or a date; return whether it took ``following`` as its unit."""
    number = NUMBER_WORDS.get(word)
    if number is not None and before.lower() != "no":
        unit = UNITS.get(following)
        ledger[Specific("number", f"{number} {unit}" if unit else number, polarity)] += 1
        return unit is not None
    if word in _WEEKDAYS:
        ledger[Specific("date", _WEEKDAYS[word], polarity)] += 1
    elif word in _MONTHS and (following[:1].isdigit() or before[:1].isdigit()):
        ledger[Specific("date", _MONTHS[word], polarity)] += 1
    return False


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
