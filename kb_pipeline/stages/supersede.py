"""Supersession (P2, P4): entries that another one says it takes the place of, found by rule.

Two signs count: an entry names another in its field ``supersedes``, or two entries have one title and the later one says in
words that it replaces what was before. A sign is a question to a person, never a change: the old entry is what others
still find, and only a person knows whether the new one covers all of it. Both entries are in use and of one scope.

    value = 0.9 declared, 0.7 by title
"""

from __future__ import annotations

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.model import SupersedePolicy
from kb_pipeline.text.normalise import exact_normal
from kb_pipeline.text.phrases import REPLACES
from kb_pipeline.vocabulary import ReasonCode, State

RULE_KEYS = {
    ReasonCode.SUPERSEDE_DECLARED: "supersede.find_declared",
    ReasonCode.SUPERSEDE_SAME_TITLE: "supersede.find_same_title",
}
"""Reason code -> policy key of its rule."""

_DECLARED, _BY_TITLE = 0.9, 0.7
_KEPT = ["supersede", "recommend"]


def find_replaced(entries: pl.DataFrame, policy: SupersedePolicy) -> pl.DataFrame:
    """REPLACED of the entries in use, the surest first; of two that name each other, the later one replaces.

    Args:
        entries: ENTRIES.
        policy: which signs are looked for.
    """
    active = entries.filter(
        (pl.col("state") == State.ACTIVE) & (pl.col("kept_rules").list.set_intersection(_KEPT).list.len() == 0)
    ).select(
        "entry_id",
        "kind",
        "scope",
        "title",
        "text",
        "has_title",
        "supersedes",
        pl.max_horizontal("created_at", "updated_at", "first_effective_at").alias("at"),
    )
    found = pl.concat([declared(active, policy), same_title(active, policy)])
    later = active.select(pl.col("entry_id").alias("superseded_by"), "at")
    return schemas.REPLACED.select(
        found.join(later, on="superseded_by", how="left")
        .sort(-pl.col("value"), pl.col("at"), "entry_id", "superseded_by", descending=[False, True, False, False])
        .with_columns(_pair())
        .unique("pair", keep="first", maintain_order=True)
    )


def declared(active: pl.DataFrame, policy: SupersedePolicy) -> pl.DataFrame:
    """P2 (supersede.find_declared): an entry names another one of its scope in ``supersedes``.

    Columns of REPLACED.

    Args:
        active: entries in use.
        policy: whether the sign is looked for.
    """
    names = (
        active.filter(pl.lit(policy.find_declared))
        .select(pl.col("entry_id").alias("superseded_by"), "scope", pl.col("supersedes").alias("entry_id"))
        .explode("entry_id")
        .drop_nulls("entry_id")
    )
    return _found(
        names.join(active.select("entry_id", "scope"), on=["entry_id", "scope"]),
        ReasonCode.SUPERSEDE_DECLARED,
        _DECLARED,
    )


def same_title(active: pl.DataFrame, policy: SupersedePolicy) -> pl.DataFrame:
    """P2 (supersede.find_same_title): one title in normal form, one kind, and the later text says that it replaces.

    A title that stands in its own field: a first line is the statement itself, and two equal ones are duplicates. The
    newest text that says so is set against each older one. Columns of REPLACED.

    Args:
        active: entries in use.
        policy: whether the sign is looked for.
    """
    titled = active.filter(pl.lit(policy.find_same_title) & pl.col("has_title"))
    # Few titles are alike but for case and signs and have a text that says so; only these are brought to their normal form.
    rough = pl.col("title").str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]", "")
    titled = titled.with_columns(rough.alias("rough"))
    titled = titled.with_columns(
        pl.col("text").str.contains("|".join(f"(?:{sign})" for sign in REPLACES)).alias("says")
    )
    group = ("scope", "kind", "rough")
    shared = titled.filter((pl.len().over(group) > 1) & pl.col("says").any().over(group))
    shared = shared.with_columns(
        pl.Series("same", [exact_normal(title).casefold() for title in shared["title"]], dtype=pl.String)
    ).filter(pl.col("same") != "")
    newest = (
        shared.filter("says")
        .sort("at", "entry_id", descending=[True, False])
        .unique(["scope", "kind", "same"], keep="first", maintain_order=True)
        .select("scope", "kind", "same", pl.col("entry_id").alias("superseded_by"), pl.col("at").alias("later"))
    )
    older = shared.join(newest, on=["scope", "kind", "same"]).filter(pl.col("at") < pl.col("later"))
    return _found(older, ReasonCode.SUPERSEDE_SAME_TITLE, _BY_TITLE)


def _pair() -> pl.Expr:
    """The two ids as one text, whichever of them replaces the other."""
    sides = ("entry_id", "superseded_by")
    return pl.concat_str(pl.min_horizontal(sides), pl.max_horizontal(sides), separator="\x1f").alias("pair")


def _found(pairs: pl.DataFrame, reason: ReasonCode, value: float) -> pl.DataFrame:
    return schemas.REPLACED.select(
        pairs.filter(pl.col("entry_id") != pl.col("superseded_by"))
        .select("entry_id", "superseded_by", pl.lit(reason.value).alias("reason"), pl.lit(value).alias("value"))
        .unique(["entry_id", "superseded_by"], keep="first", maintain_order=True)
    )
