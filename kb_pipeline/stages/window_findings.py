"""What becomes of what a model said about many recent texts at once (P2-P4).

Belongs here: from texts back to entries, and where such a hint stands beside the verdicts on single pairs. It never
outweighs one: what the rules or a model have decided of a pair alone stays as it is. Where nobody could decide, it makes a
question for a person, and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.stages.window import Reading, WindowReply
from kb_pipeline.vocabulary import LIVE_STATES, ReasonCode, State, Verdict

DUPLICATE_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "scope": pl.String,
    "kind": pl.String,
    "content_hash_l": pl.String,
    "content_hash_r": pl.String,
    "confidence": pl.Float64,
    "sentence": pl.String,
    "suggested_body": pl.String,
}
"""Two texts that a model named as the same, the smaller hash first: what the cache holds, in its order."""

ISSUE_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "scope": pl.String,
    "kind": pl.String,
    "content_hash": pl.String,
    "severity": pl.String,
    "sentence": pl.String,
}
"""What a model found wrong with a text: what the cache holds, in its order."""


def without_secrets(
    duplicates: pl.DataFrame, issues: pl.DataFrame, find_secrets: Callable[[list[str]], Iterable[Collection[str]]]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same findings without those whose sentence tells a secret; a merged body that tells one is left out.

    Args:
        duplicates: DUPLICATE_SCHEMA.
        issues: ISSUE_SCHEMA.
        find_secrets: kinds of secret in each text, empty where there is none.
    """

    def tells(texts: pl.Series) -> pl.Series:
        return pl.Series([bool(kinds) for kinds in find_secrets(texts.fill_null("").to_list())], dtype=pl.Boolean)

    body = pl.when(~tells(duplicates["suggested_body"])).then("suggested_body")
    plain = duplicates.with_columns(body.alias("suggested_body")).filter(~tells(duplicates["sentence"]))
    return plain, issues.filter(~tells(issues["sentence"]))


_BY_PEOPLE = [ReasonCode.JUDGE_KEPT_BY_PERSON.value, ReasonCode.JUDGE_DISMISSED_BY_PERSON.value]
_PAIR = ["entry_id_l", "entry_id_r"]


def finding_frames(told: Iterable[tuple[Reading, WindowReply]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(DUPLICATE_SCHEMA, ISSUE_SCHEMA) of all replies, each pair of texts and each text once."""
    duplicates, issues = [], []
    for reading, reply in told:
        for pair in reply.duplicates:
            left, right = sorted((pair.left, pair.right), key=lambda text: text.content_hash)
            duplicates.append(
                (
                    reading.scope,
                    left.kind,
                    left.content_hash,
                    right.content_hash,
                    pair.confidence,
                    pair.sentence,
                    pair.body,
                )
            )
        for issue in reply.issues:
            issues.append(
                (reading.scope, issue.text.kind, issue.text.content_hash, issue.severity.value, issue.sentence)
            )
    return (
        pl.DataFrame(duplicates, schema=DUPLICATE_SCHEMA, orient="row").unique(
            ["scope", "kind", "content_hash_l", "content_hash_r"], keep="first", maintain_order=True
        ),
        pl.DataFrame(issues, schema=ISSUE_SCHEMA, orient="row").unique(
            ["scope", "kind", "content_hash"], keep="first", maintain_order=True
        ),
    )


def named_pairs(entries: pl.DataFrame, duplicates: pl.DataFrame, *, min_confidence: float) -> pl.DataFrame:
    """Pairs of active entries that a model took for the same: entry_id_l, entry_id_r, confidence, sentence, suggested_body.

    Sorted by ids. Entries that are marked keep_distinct are never among them; of entries with one text the smallest id
    stands for all.

    Args:
        entries: ENTRIES.
        duplicates: DUPLICATE_SCHEMA.
        min_confidence: less sure ones are left out (curator.min_confidence, 0-1).
    """
    active = (
        entries.filter((pl.col("state") == State.ACTIVE) & ~pl.col("keep_distinct"))
        .group_by("scope", "kind", "content_hash")
        .agg(pl.col("entry_id").min())
    )
    found = duplicates.filter(pl.col("confidence") >= min_confidence)
    for side in ("l", "r"):
        found = found.join(
            active.rename({"entry_id": f"id_{side}", "content_hash": f"content_hash_{side}"}),
            on=["scope", "kind", f"content_hash_{side}"],
        )
    return (
        found.with_columns(
            pl.min_horizontal("id_l", "id_r").alias("entry_id_l"), pl.max_horizontal("id_l", "id_r").alias("entry_id_r")
        )
        .filter(pl.col("entry_id_l") != pl.col("entry_id_r"))
        .select(*_PAIR, "confidence", "sentence", "suggested_body")
        .sort(_PAIR)
    )


def named_issues(entries: pl.DataFrame, issues: pl.DataFrame, window: pl.Series) -> pl.DataFrame:
    """What a model found wrong with live entries of the window: entry_id, severity, sentence; by id.

    Args:
        entries: ENTRIES.
        issues: ISSUE_SCHEMA.
        window: ids of the recent entries.
    """
    live = entries.filter(pl.col("state").is_in(LIVE_STATES) & pl.col("entry_id").is_in(window.implode()))
    return (
        live.select("entry_id", "scope", "kind", "content_hash")
        .join(issues, on=["scope", "kind", "content_hash"])
        .select("entry_id", "severity", "sentence")
        .sort("entry_id")
    )


def with_named_pairs(verdicts: pl.DataFrame, named: pl.DataFrame, *, judge: str) -> pl.DataFrame:
    """VERDICTS, same rows and order: a named pair that nobody decided is UNSURE, with what the model said of it.

    A pair that the rules merge or see in conflict, that a model has read alone, or that a person has called two, is left
    as it is.

    Args:
        verdicts: VERDICTS.
        named: see ``named_pairs``.
        judge: under which name the model speaks.
    """
    hints = named.rename({"suggested_body": "body_of_hint"})
    joined = verdicts.join(hints, on=_PAIR, how="left", maintain_order="left")
    is_hint = (
        pl.col("confidence").is_not_null()
        & pl.col("verdict").is_in([Verdict.UNSURE, Verdict.KEEP_BOTH])
        & pl.col("judge_confidence").is_null()
        & ~pl.col("reason").is_in(_BY_PEOPLE)
    )
    told = {
        "verdict": pl.lit(Verdict.UNSURE.value),
        "reason": pl.lit(ReasonCode.WINDOW_DUPLICATE.value),
        "judge": pl.lit(judge),
        "judge_confidence": pl.col("confidence"),
        "explanation": pl.col("sentence"),
        "suggested_body": pl.col("body_of_hint"),
    }
    return schemas.VERDICTS.select(
        joined.with_columns(pl.when(is_hint).then(value).otherwise(name).alias(name) for name, value in told.items())
    )
