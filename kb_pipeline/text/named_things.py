"""What one white-space piece of a raw text pins down by its form alone: a number, a path, a name or a flag.

Belongs here: the patterns of the ledger's types and the classification of a single piece. Does not belong here: what
needs the pieces around it: units set apart, negations, modals (``specifics``).

The order of the tests is the order of what is surest: a URL is no path, a date is no range, a version is no number.
"""

from __future__ import annotations

import re

from kb_pipeline.text.amounts import one_amount, shortened
from kb_pipeline.text.moments import iso_date, time_of_day
from kb_pipeline.text.units import GROUPED_NUMBER, HYPHENED_UNIT, NUMBER, NUMBER_WITH_UNIT, UNITS, plain_number
from kb_pipeline.text.wordlists import closed_list

MAX_NAME_CHARS = 300
"""A longer piece without white space is taken whole: it is data, not a word."""

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+", re.IGNORECASE)
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*(?:=.*)?")
_ENV = re.compile(r"\$\{?[A-Za-z_]\w*\}?|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}(?:[T ]?\d{2}:\d{2}\S*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{4}-\d{2}")
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_VERSION = re.compile(
    r"[vV]\d+(?:\.\d+)*[\w.+-]*|\d+(?:\.\d+){2,}[\w.+-]*|\d+(?:\.\d+)+(?:[-+][\w.]+|rc\d+|[ab]\d+)|\d+\.x"
)
_COMPARED = re.compile(r"([<>]=?|[=!]=|[~^])(\d.*)")
_MONEY = re.compile(r"([$€£¥])(\d.*)")
_RANGE = re.compile(r"\d[\d.,]*(?:[-–]\d[\d.,]*)+\S*|\d+(?:st|nd|rd|th)|\d[\d,.]*[A-Za-z]{1,3}")
_FILE = re.compile(
    r"[\w.*@+-]*\.(?:md|mdx|py|pyi|ts|tsx|js|jsx|mjs|cjs|json|jsonl|yaml|yml|toml|txt|sh|bash|zsh|rs|go|rb|java|kt|c|h|"
    r"cc|cpp|hpp|cs|css|scss|html|htm|xml|sql|db|sqlite|cfg|conf|ini|env|lock|log|csv|tsv|parquet|png|jpg|jpeg|svg|"
    r"gif|pdf|zip|gz|tar|tgz|service|proto|gradle|tf|vue|svelte|php|pl|lua|swift|ipynb)"
)
_SLASHED_WORDS = re.compile(r"[^\W\d_]+(?:/[^\W\d_]+)+")
_HYPHENED_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_REFERENCE = re.compile(r"#\d+|X-[A-Z][A-Za-z]*(?:-[A-Z][A-Za-z]*)*")
_NAME = re.compile(
    r"(?=.*[^\W\d])"  # a letter or underscore somewhere, and one sign of a name:
    r"(?:.*_.*|.*[a-z0-9].*[A-Z].*|[A-Z]{2,}.*|.*\d.*|.*[^\W\d_][.:]{1,2}[^\W\d_].*|.*\(.*|[@#$%&].+|.*[=<>\\{}|^~].*)"
)
_SHOUTED = closed_list(
    "MUST NOT NEVER ALWAYS ONLY DO ALL ANY NO SHOULD SHALL MAY CAN OR AND IF IS ARE THE A IN ON TO OF FOR BEFORE AFTER "
    "IMPORTANT CRITICAL WARNING NOTE REQUIRED OPTIONAL RECOMMENDED EVERY WITHOUT DON'T EXACTLY FIRST MANDATORY"
)
_OTHER_END = {")": "(", "]": "[", "}": "{"}


def core_of(piece: str) -> tuple[str, bool]:
    """Return the piece without the signs around it, and whether a clause ends behind it."""
    ends = piece[-1] in ",.;:!?)"
    if len(piece) > MAX_NAME_CHARS or (piece.startswith("<") and piece.endswith(">") and "://" not in piece):
        return piece, ends
    core = piece.lstrip("\"'([{<*~¿¡").rstrip("\"'>*~,;:!?")
    while core:
        last = core[-1]
        is_stop = last == "." and not core.endswith(("..", "/."))
        if is_stop or (last in _OTHER_END and core.count(last) > core.count(_OTHER_END[last])):
            core = core[:-1]
        else:
            stripped = core.rstrip("\"'*~,;:!?")
            if stripped == core:
                break
            core = stripped
    return core, ends


def classify(core: str) -> tuple[str, str] | None:
    """Return the type and the canonical value of a core, or None for a plain word.

    Types: url, number, date, time, version, flag, env, path, identifier. Names of known languages and tools are plain
    words here (``known_names``).
    """
    if len(core) > MAX_NAME_CHARS:
        return ("identifier", core)
    if core.isalpha() and (len(core) < 2 or core[1:] == core[1:].lower() or core in _SHOUTED):
        return None
    if core.lower() in ("e.g", "i.e"):
        return None
    if _URL.match(core):
        return ("url", core)
    if core[:1].isdigit() or core[:1] in "+-<>=!~^$€£¥vV":
        amount = _amount(core)
        if amount:
            return amount
    if _FLAG.fullmatch(core):
        return ("flag", core)
    if _ENV.fullmatch(core):
        return ("env", core)
    if _FILE.fullmatch(core):
        return ("path", core)
    if "/" in core and any(map(str.isalnum, core)):
        return None if _SLASHED_WORDS.fullmatch(core) and core == core.lower() else ("path", core)
    if (
        not core.startswith("X-")
        and _HYPHENED_WORDS.fullmatch(core)
        and all(part[1:] == part[1:].lower() for part in core.split("-"))
    ):
        return None
    if _RANGE.fullmatch(core):
        return ("number", core)
    if core.endswith("'s"):
        return classify(core[:-2])
    if _REFERENCE.fullmatch(core) or _NAME.fullmatch(core):
        return ("identifier", core)
    return None


def amount(number: str, unit: str) -> str:
    """The one way to write so much of a unit: ``10 s`` for 10 seconds, ``2 min`` for 120 s."""
    return " ".join(one_amount(plain_number(number), unit))


def _amount(core: str) -> tuple[str, str] | None:
    """The number, date or version that ``core`` is, or None."""
    if NUMBER.fullmatch(core) or GROUPED_NUMBER.fullmatch(core):
        return ("number", plain_number(core))
    if _DATE.fullmatch(core):
        return ("date", iso_date(core) or core)
    if _TIME.fullmatch(core):
        return ("time", core)
    time = time_of_day(core)
    if time:
        return ("time", time)
    if _VERSION.fullmatch(core):
        return ("version", core[1:] if core[0] in "vV" else core)
    match = NUMBER_WITH_UNIT.fullmatch(core)
    if match:
        return ("number", amount(match.group(1), UNITS[match.group(2)]))
    match = HYPHENED_UNIT.fullmatch(core)
    if match:
        unit = UNITS.get(match.group(2))
        return ("number", amount(match.group(1), unit) if unit else plain_number(match.group(1)))
    short = shortened(core)
    if short:
        return ("number", short)
    match = _COMPARED.fullmatch(core) or _MONEY.fullmatch(core)
    inner = classify(match.group(2)) if match else None
    return (inner[0], match.group(1) + inner[1]) if match and inner else None
