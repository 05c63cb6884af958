"""Refreshing (P4, K17, M12): entries of which somebody should say whether they still hold.

Three grounds: a date of its own has passed, nobody found it to hold for as long as its kind or its own invalidation policy
allows, or nobody has needed it for a long time and a protection saves it from being retired. A ground is a question, never
a change. A person who keeps the entry has validated it: the clocks start anew, and the question may come again when they
have run down, so its id holds the day of the last validation, or the date that has passed.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.model import RefreshPolicy, RetirePolicy
from kb_pipeline.vocabulary import ReasonCode, RecommendationType, Severity, State

RULE_KEYS = {
    ReasonCode.REFRESH_EXPIRED: "refresh.find_expired",
    ReasonCode.REFRESH_UNVALIDATED: "refresh.validate_days_by_kind",
}
"""Reason code -> policy key of its rule."""

_KEPT = ["refresh", "recommend"]


def find_outdated(
    entries: pl.DataFrame,
    retirement: pl.DataFrame,
    policy: RefreshPolicy,
    retire_policy: RetirePolicy,
    *,
    as_of: datetime,
) -> pl.DataFrame:
    """OUTDATED of the active entries, the most urgent first; of several grounds the first of this page stands.

    Args:
        entries: ENTRIES.
        retirement: RETIREMENT of the same entries in the same order.
        policy: which grounds count, and how long a validation lasts.
        retire_policy: the days without a match after which an entry counts as unused.
        as_of: end of the week.
    """
    at = pl.lit(as_of).cast(schemas.Time)
    validated = pl.max_horizontal("last_validated_at", pl.col("created_at").fill_null(pl.col("first_effective_at")))
    days = (at - validated).dt.total_seconds() / 86_400
    by_kind = {kind.value: allowed for kind, allowed in policy.validate_days_by_kind.items()}
    of_kind = pl.col("kind").replace_strict(by_kind, default=None, return_dtype=pl.Float64)
    allowed = pl.min_horizontal("validate_days", of_kind)
    unused = protected_and_unused(retire_policy, as_of=as_of)
    expired = pl.lit(policy.find_expired) & (pl.col("expires_at") <= at)
    unvalidated = days >= allowed
    active = (pl.col("state") == State.ACTIVE) & (pl.col("kept_rules").list.set_intersection(_KEPT).list.len() == 0)
    joined = entries.hstack(retirement.drop("entry_id"))
    reason = (
        pl.when(expired)
        .then(pl.lit(ReasonCode.REFRESH_EXPIRED.value))
        .when(unvalidated)
        .then(pl.lit(ReasonCode.REFRESH_UNVALIDATED.value))
        .when(unused)
        .then(pl.lit(ReasonCode.RETIRE_STALE.value))
    )
    since, last = pl.col("expires_at").dt.strftime("%Y-%m-%d"), validated.dt.strftime("%Y-%m-%d")
    # A date of its own does not move with a validation: about each it is asked once.
    occasion = pl.when(expired).then(pl.format("expires {}", since.fill_null(""))).otherwise(last)
    told = {
        ReasonCode.REFRESH_EXPIRED: pl.format("expires_at was {}", since.fill_null("")),
        ReasonCode.REFRESH_UNVALIDATED: pl.format(
            "last found to hold on {}, every {} days",
            last,
            allowed.fill_null(0).round(0).cast(pl.Int64),
        ),
        ReasonCode.RETIRE_STALE: pl.format(
            "{}; protected: {}", pl.col("retire_reasons").list.join("; "), pl.col("protected_because").list.join(", ")
        ),
    }  # fmt: skip
    return schemas.OUTDATED.select(
        joined.filter(active)
        .with_columns(reason.alias("reason"), occasion.alias("occasion"))
        .drop_nulls("reason")
        .with_columns(
            pl.coalesce(pl.when(pl.col("reason") == code.value).then(words) for code, words in told.items()).alias(
                "explanation"
            ),
            pl.when(pl.col("reason") == ReasonCode.RETIRE_STALE)
            .then(pl.lit(Severity.LOW.value))
            .otherwise(pl.lit(Severity.MEDIUM.value))
            .alias("severity"),
            pl.col("reason")
            .replace_strict(
                {ReasonCode.REFRESH_EXPIRED.value: 0.6, ReasonCode.REFRESH_UNVALIDATED.value: 0.4}, default=0.0
            )
            .alias("value"),
        )
        .sort(-pl.col("value"), "occasion", "entry_id")
    )


def protected_and_unused(policy: RetirePolicy, *, as_of: datetime) -> pl.Expr:
    """K17 (retire.max_unmatched_days): only a protection saves it from being retired as unused, and no validation is as young.

    What is protected and does badly is a question of retirement: a validation does not make it useful.
    """
    recent = pl.col("last_validated_at") > as_of - timedelta(days=policy.max_unmatched_days)
    only_unused = pl.col("retire_reasons") == [ReasonCode.RETIRE_STALE.value]
    kept = pl.col("protected_because") == ["kept_by_person"]
    return (pl.col("retire_decision") == "review") & only_unused & ~kept & ~recent.fill_null(False)


def unasked(outdated: pl.DataFrame, queue: pl.DataFrame) -> pl.DataFrame:
    """The rows of OUTDATED about whose entries no such question is open; same order.

    Args:
        outdated: OUTDATED.
        queue: QUEUE of questions that were asked about texts as they are now.
    """
    asked = queue.filter(pl.col("recommendation_type") == RecommendationType.REFRESH).select(
        pl.col("entry_ids").list.first().alias("entry_id")
    )
    return outdated.join(asked, on="entry_id", how="anti", maintain_order="left")
