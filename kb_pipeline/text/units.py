"""Numbers and units as words: what may stand for the same amount.

Belongs here: the closed table of units and of number words, and the patterns of written numbers. Does not belong
here: what a number means in a text (``specifics``) or whether two differ (``contradiction``).

Digits stay text: a number that goes through a float comes back changed (1774102666653 is one that did). Units keep
their case where the case carries meaning: MB is not Mb, and m is neither min nor M.
"""

from __future__ import annotations

import re

from kb_pipeline.text.wordlists import ordered_list

_UNIT_FORMS: dict[str, str] = {
    "ns": "ns nanosecond nanoseconds",
    "us": "us µs μs microsecond microseconds",
    "ms": "ms msec msecs millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "wk": "wk week weeks",
    "mo": "month months",
    "yr": "yr yrs year years",
    "B": "B byte bytes",
    "bit": "bit bits",
    "kB": "kB",
    "KB": "KB kilobyte kilobytes",
    "MB": "MB megabyte megabytes",
    "GB": "GB gigabyte gigabytes",
    "TB": "TB terabyte terabytes",
    "KiB": "KiB kibibyte kibibytes",
    "MiB": "MiB mebibyte mebibytes",
    "GiB": "GiB gibibyte gibibytes",
    "TiB": "TiB tebibyte tebibytes",
    "kb": "kb",
    "Kb": "Kb kilobit kilobits",
    "mb": "mb",
    "Mb": "Mb megabit megabits",
    "gb": "gb",
    "Gb": "Gb gigabit gigabits",
    "kbps": "kbps",
    "Mbps": "Mbps",
    "Gbps": "Gbps",
    "Hz": "Hz hertz",
    "kHz": "kHz kilohertz",
    "MHz": "MHz megahertz",
    "GHz": "GHz gigahertz",
    "px": "px pixel pixels",
    "pt": "pt",
    "em": "em",
    "rem": "rem",
    "vh": "vh",
    "vw": "vw",
    "fps": "fps",
    "rpm": "rpm",
    "dpi": "dpi",
    "mm": "mm millimeter millimeters",
    "cm": "cm centimeter centimeters",
    "km": "km kilometer kilometers",
    "kg": "kg kilogram kilograms",
    "W": "W watt watts",
    "V": "V volt volts",
    "%": "% percent",
    "°C": "°C",
    "°F": "°F",
    "times": "times",
}

UNITS: dict[str, str] = {form: unit for unit, forms in _UNIT_FORMS.items() for form in forms.split()}
"""Every written form of a unit and its canonical form. Word forms are lower case."""

_ATTACHABLE = sorted((form for form in UNITS if form != "times"), key=len, reverse=True)

NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
GROUPED_NUMBER = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
NUMBER_WITH_UNIT = re.compile(
    r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(" + "|".join(map(re.escape, _ATTACHABLE)) + ")"
)
HYPHENED_UNIT = re.compile(r"((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)-([^\W\d_]{2,})")

_UP_TO_TWENTY = ordered_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBER_WORDS: dict[str, str] = {word: str(value) for value, word in enumerate(_UP_TO_TWENTY)} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
}
"""Number words with one plain value. "a hundred" and the like stay words: they are often no count."""

ORDINAL_FORMS: dict[str, str] = {"1st": "first", "2nd": "second", "3rd": "third"}


def plain_number(written: str) -> str:
    """Take the thousands commas out of a grouped number; any other text comes back as it is."""
    return written.replace(",", "") if GROUPED_NUMBER.fullmatch(written) else written
