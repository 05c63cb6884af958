"""Retirement (K11, K12, K15, K17): which active entries have had their time.

An entry is retired when a rule speaks against it and nothing protects it. What a protection saves goes to a person. Rules
are a table of reason code and expression; rows are annotated, never dropped.
"""

from __future__ import annotations

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.model import RetirePolicy
from kb_pipeline.vocabulary import ReasonCode, ReviewState, State


def low_ci_upper(policy: RetirePolicy) -> pl.Expr:
    """K11 (retire.min_attempts, retire.max_ci_upper): enough attempts, and even the optimistic rate is poor."""
    return (pl.col("attempts") >= policy.min_attempts) & (pl.col("performance_ci_upper") < policy.max_ci_upper)


def stale(policy: RetirePolicy) -> pl.Expr:
    """K12 (retire.max_unmatched_days): nobody matched it for so long; no clock, no verdict."""
    return (pl.col("staleness_days") >= policy.max_unmatched_days).fill_null(False)


RULES = {ReasonCode.RETIRE_LOW_CI_UPPER: low_ci_upper, ReasonCode.RETIRE_STALE: stale}
"""Reason code -> rule. The policy key of a rule stands in its docstring."""

RULE_KEYS = {
    ReasonCode.RETIRE_LOW_CI_UPPER: "retire.max_ci_upper",
    ReasonCode.RETIRE_STALE: "retire.max_unmatched_days",
}


def protections(policy: RetirePolicy) -> dict[str, pl.Expr]:
    """K17: what keeps an entry from being retired by rule, by the word that reports use."""
    return {
        "pinned": pl.col("pinned"),
        "approved": pl.col("review_state") == ReviewState.APPROVED,
        "protected_kind": pl.col("kind").is_in([kind.value for kind in policy.protected_kinds]),
        "kept_by_person": pl.col("kept_rules").list.contains("retire"),
    }


def decide_retirement(entries: pl.DataFrame, quality: pl.DataFrame, policy: RetirePolicy) -> pl.DataFrame:
    """RETIREMENT of every entry: same rows, same order. Only active entries are ever retired or reviewed.

    Args:
        entries: ENTRIES.
        quality: QUALITY of the same entries in the same order.
        policy: thresholds and protections.
    """
    joined = entries.hstack(quality.drop("entry_id"))
    active = pl.col("state") == State.ACTIVE
    reasons = _words({reason.value: active & rule(policy) for reason, rule in RULES.items()})
    shields = _words({word: shield & active for word, shield in protections(policy).items()})
    decided = joined.with_columns(reasons.alias("retire_reasons"), shields.alias("protected_because")).with_columns(
        pl.when(pl.col("retire_reasons").list.len() == 0)
        .then(pl.lit("keep"))
        .when(pl.col("protected_because").list.len() == 0)
        .then(pl.lit("retire"))
        .otherwise(pl.lit("review"))
        .alias("retire_decision")
    )
    return schemas.RETIREMENT.select(decided)


def _words(flags: dict[str, pl.Expr]) -> pl.Expr:
    """The words whose expression holds, as one list column."""
    return pl.concat_list(
        pl.when(flag).then(pl.lit(word)).otherwise(pl.lit(None, dtype=pl.String)) for word, flag in flags.items()
    ).list.drop_nulls()
