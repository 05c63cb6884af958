"""The usage history of one entry, drawn from a documented model.

Belongs here: the model of one entry's use and its random draws. Does not belong here: what concerns a corpus as a whole
(its idle periods, the staleness of its entries), see ``simulator``.

The model, entry by entry, each with a random stream of its own that depends on the seed and the entry's id alone:

* Popularity: matches a week follow a Poisson law of rate ``mean_matches_per_week * exp(0.9 z - 0.405)``, z normal.
  A living entry that was quiet for ``max_quiet_weeks`` active weeks is matched once: it is never stale by accident.
* A match is retrieved (45 %), included (35 %) or cited (20 %). Four of five included or cited ones have an outcome,
  which is a success with the entry's true success rate.
* Fate: with ``poor_share`` an entry is poor (true rate within ``poor_rates``, popular enough for about 32 attempts),
  with ``abandoned_share`` it is abandoned (no match after a date drawn from the first 60 % of its time), else it is
  ordinary (true rate within ``ordinary_rates``). :class:`Fate` sets any of it by hand.
* An entry that was abandoned is still offered now and then: such ``ignored`` events are usage, but no matches.
* In weeks that are not active nothing happens.

Python's ``random.Random`` is used because its streams are the same in every version; only ``random()`` and plain
arithmetic over it are called.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

Row = dict[str, Any]

MATCHES: tuple[tuple[str, float], ...] = (("retrieved", 0.45), ("included", 0.35), ("cited", 0.20))
OUTCOME_SHARE = 0.8
POOR_ATTEMPTS = 32.0
MAX_POOR_RATE = 8.0
IGNORED_PER_WEEK = 0.08
USED_IN = ("code change", "incident", "review", "planning", "support", "question")


@dataclass(frozen=True)
class Fate:
    """What is to happen to one entry, instead of what the seed would choose.

    An entry with a fate is abandoned only if the fate says so; ``poor`` None leaves that to the seed.

    Attributes:
        poor: whether the true success rate is drawn from the poor or the ordinary range.
        last_match_on: day of the last match, outside of idle weeks; abandoned afterwards.
        never: no usage at all.
        attempts: exact number of uses with an outcome.
        successes: how many of these succeed; needs ``attempts``.
        used_from: day of the first possible use (a candidate cannot be used before it was admitted).
    """

    poor: bool | None = None
    last_match_on: date | None = None
    never: bool = False
    attempts: int | None = None
    successes: int | None = None
    used_from: date | None = None


@dataclass(frozen=True)
class Model:
    """What the histories of a corpus have in common; ``active_weeks`` count from 0, ``end`` is exclusive."""

    seed: int
    start: datetime
    end: datetime
    active_weeks: tuple[int, ...]
    poor_share: float
    abandoned_share: float
    mean_matches_per_week: float
    max_quiet_weeks: int
    ordinary_rates: tuple[float, float]
    poor_rates: tuple[float, float]


def history(entry_id: str, created: datetime, model: Model, fate: Fate) -> tuple[list[Row], Row]:
    """The usage rows of one entry, oldest first, and its truth without ``stale_since``."""
    rng = random.Random(f"{model.seed}:{entry_id}")  # noqa: S311 - a simulation needs to be repeatable, not secret
    lot, popularity, rate_draw, life_draw = rng.random(), _normal(rng), rng.random(), rng.random()
    poor = fate.poor if fate.poor is not None else lot < model.poor_share
    first = max(created, model.start)
    if fate.used_from is not None:
        first = max(first, datetime.combine(fate.used_from, time(), UTC))
    last_day = fate.last_match_on
    drawn_to_leave = model.poor_share <= lot < model.poor_share + model.abandoned_share
    if fate == Fate() and drawn_to_leave:
        last_day = _active_day((first + (model.end - first) * 0.6 * life_draw).date(), model)
    low, high = model.poor_rates if poor else model.ordinary_rates
    success_rate = low + (high - low) * rate_draw
    stop = model.end if last_day is None else datetime.combine(last_day, time(), UTC) + timedelta(days=1)
    weeks = [
        w
        for w in model.active_weeks
        if first < model.start + timedelta(weeks=w + 1) and model.start + timedelta(weeks=w) < stop
    ]
    rate = model.mean_matches_per_week * math.exp(0.9 * popularity - 0.405)
    if poor and weeks:
        share_with_outcome = OUTCOME_SHARE * (1 - MATCHES[0][1])
        rate = max(rate, min(MAX_POOR_RATE, POOR_ATTEMPTS / share_with_outcome / len(weeks)))
    times = [] if fate.never else _match_times(rng, weeks, rate, first, stop, model, created < model.start)
    while weeks and len(times) < (fate.attempts or 0):
        monday = model.start + timedelta(weeks=weeks[int(rng.random() * len(weeks))])
        extra = _working_time(rng, (monday + timedelta(days=_weekday(rng))).date())
        times += [extra] if first <= extra < stop else []
    if last_day is not None and not fate.never:
        last = max(first, _working_time(rng, last_day))
        times = [t for t in times if t.date() < last_day] + ([last] if last < stop else [])
    matches = [(t, _draw(rng, MATCHES)) for t in times]
    outcomes = _outcomes(rng, matches, success_rate, fate)
    events: list[tuple[datetime, str, str | None]] = [(t, kind, outcomes.get(n)) for n, (t, kind) in enumerate(matches)]
    if last_day is not None and not fate.never:
        events += [(t, "ignored", None) for t in _offers(rng, stop, model)]
    events.sort(key=lambda event: event[0])
    usage = [_usage_row(rng, f"{entry_id}-u{n:03d}", *event) for n, event in enumerate(events, start=1)]
    truth: Row = {
        "poor": poor,
        "abandoned": last_day is not None or fate.never,
        "true_success_rate": round(success_rate, 4),
        "attempts": len(outcomes),
        "successes": sum(o == "success" for o in outcomes.values()),
        "matches": len(matches),
        "last_match_at": utc_text(max(times)) if times else None,
    }
    return usage, truth


def _active_day(day: date, model: Model) -> date:
    """The day itself, or the last one before it that lies in no idle week."""
    week = (day - model.start.date()).days // 7
    earlier = [w for w in model.active_weeks if w < week]
    if week in model.active_weeks or not earlier:
        return day
    return model.start.date() + timedelta(days=7 * earlier[-1] + 6)


def _match_times(
    rng: random.Random, weeks: list[int], rate: float, first: datetime, stop: datetime, model: Model, old: bool
) -> list[datetime]:
    """Instants of the matches within [first, stop), unsorted; ``old`` entries are in use from the first week on."""
    times: list[datetime] = []
    quiet = model.max_quiet_weeks - 1 if old else 0
    for week in weeks:
        monday = model.start + timedelta(weeks=week)
        drawn = [
            _working_time(rng, (monday + timedelta(days=_weekday(rng))).date()) for _ in range(_poisson(rng, rate))
        ]
        found = [t for t in drawn if first <= t < stop]
        if not found and quiet + 1 >= model.max_quiet_weeks:
            late = max(first, monday) + (min(stop, monday + timedelta(weeks=1)) - max(first, monday)) * rng.random()
            found = [late.replace(second=0, microsecond=0) + timedelta(minutes=1)]
            found = [t for t in found if t < min(stop, monday + timedelta(weeks=1))]
        quiet = 0 if found else quiet + 1
        times += found
    return times


def _outcomes(
    rng: random.Random, matches: list[tuple[datetime, str]], success_rate: float, fate: Fate
) -> dict[int, str]:
    """Position of a match to its outcome; exact numbers in the fate are met (``history`` saw to enough matches)."""
    if fate.attempts is None:
        return {
            n: "success" if rng.random() < success_rate else "failure"
            for n, (_, kind) in enumerate(matches)
            if kind != "retrieved" and rng.random() < OUTCOME_SHARE
        }
    order = sorted(range(len(matches)), key=lambda _: rng.random())[: fate.attempts]
    wins = fate.successes if fate.successes is not None else round(success_rate * fate.attempts)
    for position in order:
        instant, kind = matches[position]
        matches[position] = (instant, "included" if kind == "retrieved" else kind)
    return {position: "success" if n < wins else "failure" for n, position in enumerate(order)}


def _offers(rng: random.Random, stop: datetime, model: Model) -> list[datetime]:
    """Instants after ``stop`` at which an abandoned entry was offered and not taken."""
    times = [
        _working_time(rng, (model.start + timedelta(weeks=week, days=_weekday(rng))).date())
        for week in model.active_weeks
        for _ in range(_poisson(rng, IGNORED_PER_WEEK))
    ]
    return [t for t in times if stop <= t < model.end]


def _usage_row(rng: random.Random, usage_id: str, at: datetime, kind: str, outcome: str | None) -> Row:
    """One usage row; what is not known is left out."""
    row: Row = {
        "id": usage_id,
        "type": kind,
        "at": utc_text(at),
        "workflow_run": f"wf-{at:%m%d}-{at.hour:02d}{int(rng.random() * 4)}",
    }
    if kind == "included":
        row["context_pack"] = f"cp-{at:%m%d}-{int(rng.random() * 60):02d}"
    if kind == "cited":
        row["used_in"] = USED_IN[int(rng.random() * len(USED_IN))]
    if outcome is not None:
        row["outcome"] = outcome
    return row


def instant(value: str | datetime) -> datetime:
    """An aware instant from ISO 8601; without a zone it is UTC."""
    parsed = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def utc_text(instant: datetime) -> str:
    """ISO 8601 in UTC with a Z, to the second."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _poisson(rng: random.Random, rate: float) -> int:
    """A Poisson number by counting exponential waits; rates here are small."""
    count, waited = 0, -math.log(1.0 - rng.random())
    while waited < rate:
        count, waited = count + 1, waited - math.log(1.0 - rng.random())
    return count


def _normal(rng: random.Random) -> float:
    """A standard normal number (Box and Muller)."""
    return math.sqrt(-2.0 * math.log(1.0 - rng.random())) * math.cos(2.0 * math.pi * rng.random())


def _weekday(rng: random.Random) -> int:
    """Day of a use, 0 = Monday; one use in twenty falls on a weekend."""
    return 5 + int(rng.random() * 2) if rng.random() < 0.05 else int(rng.random() * 5)


def _working_time(rng: random.Random, day: date) -> datetime:
    """A minute between 06:00 and 19:59 UTC of the day."""
    return datetime.combine(day, time(), UTC) + timedelta(minutes=360 + int(rng.random() * 840))


def _draw(rng: random.Random, shares: tuple[tuple[str, float], ...]) -> str:
    """One of the names with the given shares, which add up to 1."""
    lot = rng.random()
    for name, share in shares:
        lot -= share
        if lot < 0:
            return name
    return shares[-1][0]
