"""Scores of use and age: the Beta interval of the success rate (K11), the staleness clock (K12), freshness (K18).

Performance: with s successes in n attempts the rate has the posterior Beta(1 + s, 1 + n - s); the bounds are its
equal-tailed quantiles, which betaincinv gives directly.

Staleness clock: calendar days since the later of last match and creation, without idle time. Idle is the part beyond
``max_idle_days`` of a stretch in which nobody used the tenant's corpus; a corpus that was never used has no clock.

Freshness: 0.5 ** (days since the latest of match, validation and update / half-life of the kind).
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.model import RetirePolicy, ScorePolicy

_DAY_US = 86_400_000_000

Floats = npt.NDArray[np.float64]


def score_quality(
    entries: pl.DataFrame, activity: pl.DataFrame, policy: ScorePolicy, retire: RetirePolicy, *, as_of: datetime
) -> pl.DataFrame:
    """QUALITY of every entry: same rows, same order.

    Args:
        entries: ENTRIES.
        activity: when each tenant's corpus was used: columns tenant (String, nullable) and used_at (UTC).
        policy: interval mass and half-lives.
        retire: ``max_idle_days``.
        as_of: end of the week.
    """
    lower, upper = performance_interval(
        entries["attempts"].to_numpy(), entries["successes"].to_numpy(), policy.interval_mass
    )
    half_life = pl.col("kind").replace_strict(
        {kind.value: days for kind, days in policy.half_life_days_by_kind.items()},
        default=policy.half_life_days,
        return_dtype=pl.Float64,
    )
    touched = pl.max_horizontal(
        "last_matched_at", "last_validated_at", pl.coalesce("updated_at", "created_at", "first_effective_at")
    )
    age_days = ((pl.lit(as_of).cast(schemas.Time) - touched).dt.total_microseconds() / _DAY_US).clip(lower_bound=0)
    scored = entries.select(
        "entry_id",
        pl.Series("performance_ci_lower", lower),
        pl.Series("performance_ci_upper", upper),
        (0.5 ** (age_days / half_life)).alias("freshness"),
        pl.Series("staleness_days", staleness_days(entries, activity, retire.max_idle_days, as_of=as_of)),
    )
    return schemas.QUALITY.select(scored)


def performance_interval(
    attempts: npt.NDArray[np.int64], successes: npt.NDArray[np.int64], mass: float
) -> tuple[Floats, Floats]:
    """Bounds of the equal-tailed Beta interval of the success rate (K11), each float64 of the input's shape, 0-1.

    Args:
        attempts: uses with an outcome, >= 0.
        successes: successful ones, 0 to attempts.
        mass: mass of the interval, 0.95 say.
    """
    from scipy.special import betaincinv

    # Real corpora hold few different (attempts, successes): the quantile is taken once for each.
    counts, where = np.unique(np.column_stack([attempts, successes]), axis=0, return_inverse=True)
    a, b = 1.0 + counts[:, 1], 1.0 + np.maximum(counts[:, 0] - counts[:, 1], 0)
    tail = (1.0 - mass) / 2.0
    index = where.reshape(-1)
    return betaincinv(a, b, tail)[index], betaincinv(a, b, 1.0 - tail)[index]


def staleness_days(
    entries: pl.DataFrame, activity: pl.DataFrame, max_idle_days: float, *, as_of: datetime
) -> pl.Series:
    """Days on the staleness clock of each entry (K12), float64; null where the tenant's corpus was never used.

    Args:
        entries: frame with tenant, last_matched_at, created_at, first_effective_at.
        activity: columns tenant and used_at.
        max_idle_days: longer stretches without use count only so many days.
        as_of: end of the week.
    """
    since = entries.select(
        pl.max_horizontal("last_matched_at", pl.coalesce("created_at", "first_effective_at")).dt.epoch("us").alias("us")
    )["us"].to_numpy()
    now = _us(as_of)
    days = np.full(entries.height, np.nan)
    rows_of = dict(entries.select("tenant").with_row_index("row").group_by("tenant").agg("row").iter_rows())
    used = activity.select("tenant", pl.col("used_at").dt.epoch("us").alias("us"))
    for (tenant,), times in used.group_by("tenant"):
        mine = np.array(rows_of.get(tenant, []), dtype=np.int64)
        if mine.size:
            start = since[mine]
            idle = _idle_before(np.sort(times["us"].to_numpy()), int(start.min()), now, max_idle_days)
            elapsed = np.maximum(now - start, 0)
            days[mine] = np.maximum(elapsed - (idle(np.full(1, now)) - idle(start)), 0) / _DAY_US
    return pl.Series(days).fill_nan(None)


def _idle_before(times: npt.NDArray[np.int64], first: int, now: int, max_idle_days: float):  # type: ignore[no-untyped-def]
    """A function t -> idle microseconds of the corpus before t: piecewise linear, so numpy interpolates it."""
    allowed = int(timedelta(days=max_idle_days) / timedelta(microseconds=1))
    edges = np.concatenate([[min(first, int(times[0]))], times, [max(now, int(times[-1]))]])
    begins = np.minimum(edges[:-1] + allowed, edges[1:])
    knots = np.column_stack([begins, edges[1:]]).reshape(-1)
    grown = np.column_stack([np.zeros(len(begins)), (edges[1:] - begins).astype(float)]).reshape(-1).cumsum()
    return lambda at: np.interp(at, knots, grown, left=0.0)


def _us(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000 + time.microsecond
