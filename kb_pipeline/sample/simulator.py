"""A seeded simulator of usage histories, so that rules on use can be measured where the truth is known.

Belongs here: the generation of ``usage`` rows for entries of any corpus, and the truth behind them. Real corpora carry
almost no usage, so the rules on performance and staleness (ledger K11, K12, M11, S3, S4) could not be measured on real
texts without it. Does not belong here: any rule of the pipeline; nothing of it is imported, and the staleness in the
truth is counted by a calculation of its own.

The model of use stands in ``histories``. Each entry has a random stream of its own that depends on the seed and the
entry's id alone; in ``idle_weeks`` nothing happens in the whole corpus.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from kb_pipeline.sample.histories import Fate, Model, Row, history, instant, utc_text

IDLE_AFTER_DAYS = 14
USED_STATES = frozenset({"active", "approved", "needs_review", "stale"})
TOTALS = ("attempts", "successes", "retrievals", "last_matched_at", "last_retrieved_at")


def simulate_usage(
    entries: Iterable[Mapping[str, Any]],
    *,
    weeks: int,
    start: date,
    seed: int,
    poor_share: float = 0.03,
    abandoned_share: float = 0.06,
    mean_matches_per_week: float = 0.75,
    idle_weeks: Collection[int] = (),
    max_quiet_weeks: int = 6,
    ordinary_rates: tuple[float, float] = (0.55, 0.95),
    poor_rates: tuple[float, float] = (0.04, 0.16),
    stale_after_days: int = 90,
    fates: Mapping[str, Fate] | None = None,
) -> tuple[list[Row], dict[str, Row]]:
    """Gives every entry a usage history and returns the rows together with the truth.

    Args:
        entries: import rows with at least ``id``; ``state`` and ``created_at`` are respected where they stand. Rows
            that were created before ``start`` are in use from its first week on, rows without ``created_at`` get the
            start as theirs, because a use cannot come before the creation.
        weeks: length of the history in weeks.
        start: its first day, a Monday; weeks begin at 00:00 UTC.
        seed: any integer; the same seed and id give the same history, whatever the order or the rest of the corpus.
        poor_share: share of the entries that are poor, 0 to 1.
        abandoned_share: share of the entries that are abandoned, 0 to 1.
        mean_matches_per_week: mean of the popularity over entries.
        idle_weeks: numbers of the weeks (1 = the first) in which the whole corpus rests.
        max_quiet_weeks: longest silence of a living entry, in weeks that are not idle.
        ordinary_rates: range of the true success rate of ordinary entries.
        poor_rates: range of the true success rate of poor entries.
        stale_after_days: days on the staleness clock after which ``stale_since`` is set.
        fates: what is to happen to single entries.

    Returns:
        The rows, same order, with ``usage`` replaced and totals (``attempts`` and the like) left out, since these would
        enter as a baseline and blur the truth; and by id ``{poor, abandoned, true_success_rate, attempts, successes,
        matches, last_match_at, stale_since}``. ``stale_since`` is the date on which the staleness clock reached
        ``stale_after_days`` within the history, or None; the clock leaves out idle periods of the corpus, that is the
        part beyond 14 days of a stretch without any event. Rows that get no usage (candidates without a fate, archived
        ones, those created after the end) are left out of the truth.

    Raises:
        ValueError: ``start`` is no Monday, a share is out of range, or an id is missing or stands twice.
    """
    if start.weekday() != 0:
        raise ValueError(f"simulate_usage: start {start.isoformat()} is no Monday; give the first day of a week")
    if min(poor_share, abandoned_share) < 0 or poor_share + abandoned_share > 1:
        raise ValueError(
            f"simulate_usage: poor_share {poor_share} and abandoned_share {abandoned_share} must be >= 0 "
            "and at most 1 together"
        )
    begin = datetime.combine(start, time(), UTC)
    model = Model(
        seed=seed,
        start=begin,
        end=begin + timedelta(weeks=weeks),
        active_weeks=tuple(w for w in range(weeks) if w + 1 not in idle_weeks),
        poor_share=poor_share,
        abandoned_share=abandoned_share,
        mean_matches_per_week=mean_matches_per_week,
        max_quiet_weeks=max_quiet_weeks,
        ordinary_rates=ordinary_rates,
        poor_rates=poor_rates,
    )
    rows: list[Row] = []
    truth: dict[str, Row] = {}
    seen: set[str] = set()
    anchors: dict[str, datetime] = {}
    for entry in entries:
        entry_id = entry.get("id")
        if not isinstance(entry_id, str) or not entry_id or entry_id in seen:
            raise ValueError(f"simulate_usage: id {entry_id!r} is missing or stands twice; ids must be unique texts")
        seen.add(entry_id)
        row = {k: v for k, v in entry.items() if k not in TOTALS and k != "usage"}
        row.setdefault("created_at", utc_text(begin))
        fate = (fates or {}).get(entry_id)
        created = instant(row["created_at"])
        used = row.get("state", "active") in USED_STATES or (fate is not None and fate.used_from is not None)
        if used and created < model.end:
            row["usage"], truth[entry_id] = history(entry_id, created, model, fate or Fate())
            anchors[entry_id] = created
        rows.append(row)
    events = sorted(instant(u["at"]) for row in rows for u in row.get("usage", ()))
    idle = _idle_periods(events, model.end)
    for entry_id, facts in truth.items():
        last = facts["last_match_at"]
        anchor = max(anchors[entry_id], instant(last)) if last else anchors[entry_id]
        facts["stale_since"] = _stale_since(anchor, idle, stale_after_days, model.end)
    return rows, truth


def write_simulated(
    path_in: Path, path_out: Path, truth_out: Path, *, weeks: int, start: date, seed: int, **options: Any
) -> int:
    """Reads a JSONL corpus, writes it with a simulated usage history, and the truth as JSON beside it.

    Args:
        path_in: import rows, one JSON object a line.
        path_out: the same rows with ``usage``.
        truth_out: one JSON object, id to truth, dates as ISO 8601.
        weeks: as in :func:`simulate_usage`.
        start: as in :func:`simulate_usage`.
        seed: as in :func:`simulate_usage`.
        **options: the other arguments of :func:`simulate_usage`.

    Returns:
        The number of usage events written.
    """
    with path_in.open(encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines if line.strip()]
    rows, truth = simulate_usage(entries, weeks=weeks, start=start, seed=seed, **options)
    with path_out.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    truth_out.write_text(json.dumps(truth, ensure_ascii=False, indent=1, sort_keys=True, default=str) + "\n", "utf-8")
    return sum(len(row.get("usage", ())) for row in rows)


def _idle_periods(events: list[datetime], end: datetime) -> list[tuple[datetime, datetime]]:
    """The parts beyond 14 days of every stretch without an event, up to ``end``; events sorted."""
    tolerance = timedelta(days=IDLE_AFTER_DAYS)
    stretches = zip(events, [*events[1:], end], strict=True)
    return [(left + tolerance, right) for left, right in stretches if right - left > tolerance]


def _stale_since(anchor: datetime, idle: list[tuple[datetime, datetime]], days: int, end: datetime) -> date | None:
    """Date on which ``days`` have passed on the staleness clock since ``anchor``, None if not before ``end``."""
    due = anchor + timedelta(days=days)
    for left, right in idle:
        if anchor < right and max(left, anchor) < due:
            due += right - max(left, anchor)
    return due.date() if due <= end else None
