"""Eligibility (M13): which entries may be retrieved, and everything that speaks against the others.

One function decides for `kb eligible`, `kb search` and `kb explain`. Rules are a table of reason code and expression; rows
are annotated, never dropped. The words name states, days and other ids, never anything that an entry says.

A scope that names a tenant is met by entries of that tenant alone. A repository, module or scope field that it names is met
by entries that name the same or none: what holds for a whole repository holds in each of its modules. What a scope does not
name is not asked. Restricted entries, and entries with a list of readers, are for the readers on that list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from kb_pipeline import schemas, schemas_retrieval
from kb_pipeline.policy.model import EligibilityPolicy
from kb_pipeline.vocabulary import ConflictState, ReasonCode, ReviewState, Sensitivity, State

_COLUMNS = ("tenant", "repository", "module")


@dataclass(frozen=True)
class Asked:
    """Who asks, for where, and when.

    Attributes:
        at: the time that expiry is measured at.
        scope: field -> value; empty: everywhere.
        readers: names that whoever asks goes by; empty: nobody in particular.
    """

    at: datetime
    scope: Mapping[str, str] = field(default_factory=dict)
    readers: Collection[str] = ()


def not_active(policy: EligibilityPolicy, asked: Asked) -> pl.Expr:
    """M13: only active entries are given out."""
    del policy, asked
    return pl.col("state") != State.ACTIVE


def in_conflict(policy: EligibilityPolicy, asked: Asked) -> pl.Expr:
    """M8: a severe open conflict keeps both sides out; so does one that an import brought without its severity."""
    del policy, asked
    return (pl.col("severe_conflicts").list.len() > 0) | _imported_conflict()


def expired(policy: EligibilityPolicy, asked: Asked) -> pl.Expr:
    """M12: its own date has come."""
    del policy
    return (pl.col("expires_at") <= asked.at).fill_null(False)


def rejected(policy: EligibilityPolicy, asked: Asked) -> pl.Expr:
    """M13: a person said no to it."""
    del policy, asked
    return pl.col("review_state") == ReviewState.REJECTED


def not_permitted(policy: EligibilityPolicy, asked: Asked) -> pl.Expr:
    """M13, M20: restricted, or for certain readers, and whoever asks is none of them."""
    del policy
    guarded = (pl.col("sensitivity") == Sensitivity.RESTRICTED) | (pl.col("visible_to").list.len() > 0)
    among = pl.col("visible_to").list.set_intersection(sorted(asked.readers)).list.len() > 0
    return guarded & ~among if asked.readers else guarded


def holds_secret(policy: EligibilityPolicy, asked: Asked) -> pl.Expr:
    """M20, behaviour 24: a text with a secret is not given out."""
    del policy, asked
    return pl.col("holds_secret")


def out_of_scope(policy: EligibilityPolicy, asked: Asked) -> pl.Expr:
    """M13: it belongs elsewhere."""
    del policy
    elsewhere = [pl.lit(False)]
    for name, value in asked.scope.items():
        own = pl.col(name) if name in _COLUMNS else pl.col("extra").str.json_path_match(f"$['{name}']")
        elsewhere.append(own.ne_missing(pl.lit(value)) if name == "tenant" else (own != value).fill_null(False))
    return pl.any_horizontal(elsewhere)


def low_confidence(policy: EligibilityPolicy, asked: Asked) -> pl.Expr:
    """M13 (eligibility.min_confidence): it is not sure enough; without a confidence no rule speaks against it."""
    del asked
    return (pl.col("confidence") < policy.min_confidence).fill_null(False)


RULES = {
    ReasonCode.ELIGIBILITY_NOT_ACTIVE: not_active,
    ReasonCode.ELIGIBILITY_IN_CONFLICT: in_conflict,
    ReasonCode.ELIGIBILITY_EXPIRED: expired,
    ReasonCode.ELIGIBILITY_REJECTED: rejected,
    ReasonCode.ELIGIBILITY_NOT_PERMITTED: not_permitted,
    ReasonCode.ELIGIBILITY_HOLDS_SECRET: holds_secret,
    ReasonCode.ELIGIBILITY_OUT_OF_SCOPE: out_of_scope,
    ReasonCode.ELIGIBILITY_LOW_CONFIDENCE: low_confidence,
}
"""Reason code -> rule: what keeps an entry from being retrieved."""

RULE_KEYS = {ReasonCode.ELIGIBILITY_LOW_CONFIDENCE: "eligibility.min_confidence"}


def judge_eligibility(facts: pl.DataFrame, policy: EligibilityPolicy, asked: Asked) -> pl.DataFrame:
    """ELIGIBILITY of every entry: same rows, same order.

    Args:
        facts: RETRIEVAL_FACTS.
        policy: thresholds.
        asked: who asks, for where, and when.
    """
    holds = facts.with_columns(rule(policy, asked).alias(code.value) for code, rule in RULES.items())
    nothing = pl.lit(None, dtype=pl.String)
    told = holds.with_columns(
        pl.concat_list(pl.when(pl.col(code)).then(pl.lit(code.value)).otherwise(nothing) for code in RULES)
        .list.drop_nulls()
        .alias("reasons"),
        pl.concat_list(
            pl.when(pl.col(code)).then(words).otherwise(pl.lit([], dtype=schemas.Texts))
            for code, words in _words().items()
        ).alias("words"),
        pl.col("mild_conflicts")
        .list.eval(pl.format("it stands in an open conflict with {}", pl.element()))
        .alias("notes"),
    )
    return schemas_retrieval.ELIGIBILITY.select(
        told.with_columns((pl.col("reasons").list.len() == 0).alias("eligible"))
    )


def told_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row of ELIGIBILITY as `kb explain` tells it: eligible, and reasons in words for or against."""
    if row["eligible"]:
        conflict = "no open conflict" if not row["notes"] else f"though {'; '.join(row['notes'])}"
        return {"eligible": True, "reasons": ["active", conflict, "not expired"]}
    return {"eligible": False, "reasons": [*row["words"], *row["notes"]]}


def _imported_conflict() -> pl.Expr:
    known = pl.col("severe_conflicts").list.len() + pl.col("mild_conflicts").list.len()
    return (pl.col("conflict_state") == ConflictState.OPEN) & (known == 0)


def _words() -> dict[ReasonCode, pl.Expr]:
    """Reason code -> sentences, one list each."""
    severe = pl.col("severe_conflicts").list.eval(
        pl.format("it stands in an open conflict with {} (severity high)", pl.element())
    )
    imported = pl.lit(["it was imported with an open conflict"], dtype=schemas.Texts)
    return {
        ReasonCode.ELIGIBILITY_NOT_ACTIVE: _one(pl.format("its state is {}", "state")),
        ReasonCode.ELIGIBILITY_IN_CONFLICT: pl.when(_imported_conflict()).then(imported).otherwise(severe),
        ReasonCode.ELIGIBILITY_EXPIRED: _one(
            pl.format("it expired on {}", pl.col("expires_at").dt.strftime("%Y-%m-%d").fill_null(""))
        ),
        ReasonCode.ELIGIBILITY_REJECTED: _one(pl.lit("a person rejected it")),
        ReasonCode.ELIGIBILITY_NOT_PERMITTED: _one(pl.lit("it is for certain readers only")),
        ReasonCode.ELIGIBILITY_HOLDS_SECRET: _one(pl.lit("its text seems to hold a secret")),
        ReasonCode.ELIGIBILITY_OUT_OF_SCOPE: _one(pl.lit("it belongs to another scope")),
        ReasonCode.ELIGIBILITY_LOW_CONFIDENCE: _one(
            pl.format("its confidence is {}", pl.col("confidence").round(2).cast(pl.String).fill_null(""))
        ),
    }


def _one(sentence: pl.Expr) -> pl.Expr:
    return pl.concat_list(sentence)
