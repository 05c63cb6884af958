"""Amounts that are equal though they are written in other units: 60 s and 1 min, 1.5k and 1500.

Belongs here: exact arithmetic on digits as text (never through a float: 1774102666653 would lose its last digit). Does
not belong here: kB and KB, whose step is 1000 to some and 1024 to others, and months, which differ in length.

No library is used: pint and quantulum3 read more units, at some 0.1 to 1 ms an amount, and take "5 m" or "3 in" for
lengths where texts of this kind mean minutes or nothing; the units here are those of ``units``.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

_LADDERS: tuple[tuple[tuple[str, int], ...], ...] = (
    # Each unit and how many of it make one of the next.
    (("ns", 1000), ("us", 1000), ("ms", 1000), ("s", 60), ("min", 60), ("h", 24), ("d", 7), ("wk", 1)),
    (("mo", 12), ("yr", 1)),
    (("KiB", 1024), ("MiB", 1024), ("GiB", 1024), ("TiB", 1)),
    (("Hz", 1000), ("kHz", 1000), ("MHz", 1000), ("GHz", 1)),
    (("kbps", 1000), ("Mbps", 1000), ("Gbps", 1)),
    (("mm", 10), ("cm", 1)),
)
_PLACES = {unit: (ladder, step) for ladder in _LADDERS for step, (unit, _) in enumerate(ladder)}
_PLAIN = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_SHORT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(?:k|[eE]\+?(\d{1,2}))")
_MAX_EXPONENT = 15

MULTIPLIERS: dict[str, int] = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9}
"""Words that multiply the number before them, as powers of ten."""


@lru_cache(maxsize=4096)
def one_amount(number: str, unit: str) -> tuple[str, str]:
    """The number and unit that stand for all equal amounts: the largest unit of which the amount is a whole number.

    1500 ms stays, 1.5 s becomes 1500 ms, 120 s becomes 2 min. What has no other form comes back as it is.
    """
    place = _PLACES.get(unit)
    if place is None or not _PLAIN.fullmatch(number):
        return number, unit
    ladder, step = place
    amount = Decimal(number)
    while amount != amount.to_integral_value() and step > 0:
        step -= 1
        amount *= ladder[step][1]
    if amount != amount.to_integral_value():
        return number, unit
    while amount and step + 1 < len(ladder) and amount % ladder[step][1] == 0:
        amount /= ladder[step][1]
        step += 1
    return _digits(amount), ladder[step][0]


def times_power(number: str, power: int) -> str:
    """The plain digits of ``number`` times ten to the ``power``."""
    return _digits(Decimal(number).scaleb(power))


def shortened(written: str) -> str | None:
    """The plain digits of ``1.5k`` or ``2e3``, else None."""
    match = _SHORT.fullmatch(written)
    if not match:
        return None
    power = int(match.group(2)) if match.group(2) else 3
    return times_power(match.group(1), power) if power <= _MAX_EXPONENT else None


def _digits(amount: Decimal) -> str:
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
