"""Dates and times of day as one form: ISO dates, ``5 may`` without a year, hours from 00 to 24.

Belongs here: reading one written date or time, and a date written with the name of its month. Does not belong here: which
words of a text belong together (``specifics``).

A numeric date is turned only where it has one reading: 05/06/2024 is June or May, so it stays as it is written. No
library is used: the common ones guess (dateparser reads "may" and "10" as dates and takes about a millisecond a text,
python-dateutil fills what is missing from today), and a guess here is a wrong ledger.
"""

from __future__ import annotations

import re

from kb_pipeline.text.wordlists import ordered_list

MONTHS: dict[str, int] = {
    name: number
    for number, full in enumerate(
        ordered_list("january february march april may june july august september october november december"),
        start=1,
    )
    for name in (full, full[:3])
} | {"sept": 9}
"""Names and short names of the months, lower case, and their numbers."""

_NAMES = ("", *(name for name in MONTHS if len(name) > 3 or name == "may"))
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ](\d{2}:\d{2}\S*))?")
_YEAR_LAST = re.compile(r"(\d{1,2})([/.])(\d{1,2})\2(\d{4})")
_HALF_DAY = re.compile(r"(\d{1,2})(?::(\d{2}))?([ap])\.?m\.?", re.IGNORECASE)
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_YEAR = re.compile(r"(?:19|20)\d\d")


def iso_date(written: str) -> str | None:
    """The ISO date (and time, as written) of a numeric date with one reading, else None."""
    match = _YEAR_FIRST.fullmatch(written)
    if match:
        year, _, month, day, time = match.groups()
        return _iso(year, int(month), int(day), time)
    match = _YEAR_LAST.fullmatch(written)
    if match:
        first, sign, second, year = match.groups()
        day, month = int(first), int(second)
        if sign == "/":
            if day <= 12 and month <= 12 and day != month:
                return None
            if month > 12:
                day, month = month, day
        return _iso(year, month, day, None)
    return None


def _iso(year: str, month: int, day: int, time: str | None) -> str | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return f"{year}-{month:02d}-{day:02d}" + (f" {time}" if time else "")


def time_of_day(written: str) -> str | None:
    """The time of ``8am``, ``8:30pm`` or ``8a.m``, from 00:00 to 23:59, else None."""
    match = _HALF_DAY.fullmatch(written)
    if not match:
        return None
    hour, minute = int(match.group(1)), match.group(2) or "00"
    if not 1 <= hour <= 12 or int(minute) > 59:
        return None
    return f"{hour % 12 + (12 if match.group(3) in 'pP' else 0):02d}:{minute}"


def named_date(words: list[str]) -> tuple[str, int] | None:
    """The date that begins with the first of ``words`` (lower case cores, up to four), and how many of them it takes.

    ``14 May 2027``, ``14th of May``, ``May 14, 2027``, ``May 14``, ``May 2027``. A month alone is none: it is a word as well.
    """
    first = words[0]
    month = MONTHS.get(first)
    rest = words[1:]
    if month is not None:
        if rest and _YEAR.fullmatch(rest[0]):
            return f"{rest[0]}-{month:02d}", 2
        day = _day(rest[0]) if rest else None
        return _with_year(day, month, rest[1:], 2) if day else None
    day = _day(first)
    if day is None or not rest:
        return None
    taken = 1
    if rest[0] == "of":
        taken, rest = 2, rest[1:]
    month = MONTHS.get(rest[0]) if rest else None
    return _with_year(day, month, rest[1:], taken + 1) if month else None


def _with_year(day: int, month: int, rest: list[str], taken: int) -> tuple[str, int]:
    if rest and _YEAR.fullmatch(rest[0]):
        return f"{rest[0]}-{month:02d}-{day:02d}", taken + 1
    return f"{day} {_NAMES[month]}", taken


def _day(word: str) -> int | None:
    match = _DAY.fullmatch(word)
    return int(match.group(1)) if match and 1 <= int(match.group(1)) <= 31 else None
