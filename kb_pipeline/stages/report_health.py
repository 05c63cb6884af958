"""Health of the corpus after the run, for all entries and for each repository (ledger M17, K18).

Belongs here: the counts that the health file, the table ``report_health`` and the page share.
Does not belong here: single rows of pairs or retirements (report_rows), layout.

    evidence coverage = active entries with evidence / active entries
    high value = active entries whose retrievals + successes are above 0 and in the corpus's top decile
    oldest question = whole days between ``as_of`` and the day it was first asked

Repositories are told apart by their name alone; null stands for entries without one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.stages.report_week import MOVES, WeekData
from kb_pipeline.vocabulary import RecommendationType, Severity, State

TABLE_COLUMNS = (
    "corpus", "week", "as_of", "run_id", "repository", "entry_count", "active", "candidates", "approved",
    "needs_review", "stale", "invalidated", "superseded", "expired", "archived", "blocked", "conflicted",
    "queue_length", "queue_oldest_days", "evidence_coverage", "retired", "merged", "mean_distinctiveness",
    "not_looked_at",
)  # fmt: skip
"""Columns of the table ``report_health``."""


def health_counts(week: WeekData) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Counts over all entries, and one dictionary for each repository: null first (always there), then by name.

    Keys: repository, entry_count, the ten states (``candidates`` for candidate), conflicted, high_value, retired,
    merged, admitted, refused, unproven_high_value (much used, but without evidence), evidence_coverage and
    mean_distinctiveness (0-1 or None), queue_length, queue_oldest_days (None without a queue), conflict_count and
    high_conflict_count; other_questions and other_oldest_days leave out questions about conflicts.
    """
    after = week.after
    place = dict(after.select("entry_id", "repository").iter_rows())
    questions = week.queue.select("recommendation_type", _place(pl.col("entry_ids").list.first(), place), "since")
    contested = week.conflicts.select(_place(pl.col("entry_id_l"), place), "severity")
    as_of = week.header.as_of

    def counted(entries: pl.DataFrame, asked: pl.DataFrame, disputes: pl.DataFrame) -> dict[str, Any]:
        return entries.select(_counts()).row(0, named=True) | _waiting(asked, disputes, as_of)

    rows = []
    for name in [None, *after["repository"].drop_nulls().unique().sort()]:
        here = pl.col("repository").eq_missing(pl.lit(name, dtype=pl.String))
        rows.append({"repository": name} | counted(after.filter(here), questions.filter(here), contested.filter(here)))
    return {"repository": None} | counted(after, questions, contested), rows


def health_rows(week: WeekData) -> pl.DataFrame:
    """Rows of the table ``report_health``: one for each repository and always one for null.

    The row without a repository also carries what was not looked at, which belongs to the corpus as a whole: so sums
    over the rows of a week are the numbers of the corpus, and a week without entries has a row too.
    """
    header = week.header
    _, counted = health_counts(week)
    same = {"corpus": header.corpus, "week": header.week, "as_of": header.as_of, "run_id": header.run_id}
    missed = sum(week.not_looked_at.values())
    rows = [row | same | {"not_looked_at": missed if row["repository"] is None else 0} for row in counted]
    types: dict[str, pl.DataType | type[pl.DataType]] = {
        "week": pl.Date,
        "as_of": schemas.Time,
        **dict.fromkeys(("corpus", "run_id", "repository"), pl.String),
        **dict.fromkeys(("evidence_coverage", "mean_distinctiveness"), pl.Float64),
    }
    return pl.DataFrame(rows, schema={name: types.get(name, pl.Int64) for name in TABLE_COLUMNS})


def actions_required(week: WeekData, counts: dict[str, Any]) -> list[str]:
    """What a person should do next, most urgent first, from the counts of the corpus or of one repository.

    Args:
        week: whether the run was halted, and which of its checks failed.
        counts: one dictionary of ``health_counts``.
    """
    sentences = []
    if week.halted:
        failed = ", ".join(check.name for check in week.checks if check.blocking and not check.passed)
        sentences.append(
            f"Look at what the run planned: a check stopped it and nothing was changed ({failed or 'see checks'})."
        )
    if week.degraded:
        sentences.append(
            "Find out why the judge failed; pairs it did not answer were kept and are asked again next time."
        )
    if total := counts["conflict_count"]:
        high = f", {counts['high_conflict_count']:,} of high severity" if counts["high_conflict_count"] else ""
        sentences.append(f"Decide {plural(total, 'open conflict')}{high}: both sides cannot be right.")
    if other := counts["other_questions"]:
        days = counts["other_oldest_days"]
        age = f"; the oldest waits for {plural(days, 'day')}" if days else ""
        sentences.append(f"Answer {plural(other, 'more question' if total else 'question')} in the review queue{age}.")
    if counts["needs_review"]:
        sentences.append(f"Look at {plural(counts['needs_review'], 'entry', 'entries')} marked as needing review.")
    if counts["unproven_high_value"]:
        many = plural(counts["unproven_high_value"], "much-used entry", "much-used entries")
        sentences.append(f"Add evidence to {many} without any.")
    return sentences


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 pair``, ``1,204 pairs``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _counts() -> list[pl.Expr]:
    active = pl.col("state") == State.ACTIVE
    states = {state: "candidates" if state is State.CANDIDATE else state.value for state in State}
    return [
        pl.len().cast(pl.Int64).alias("entry_count"),
        *((pl.col("state") == state).sum().cast(pl.Int64).alias(name) for state, name in states.items()),
        *(pl.col(name).sum().cast(pl.Int64) for name in ("conflicted", "high_value", *MOVES)),
        pl.col("has_evidence").filter(active).mean().alias("evidence_coverage"),
        pl.col("distinctiveness").mean().alias("mean_distinctiveness"),
        (pl.col("high_value") & ~pl.col("has_evidence")).sum().cast(pl.Int64).alias("unproven_high_value"),
    ]


def _waiting(questions: pl.DataFrame, contested: pl.DataFrame, as_of: datetime) -> dict[str, Any]:
    others = questions.filter(pl.col("recommendation_type") != RecommendationType.CONFLICT)
    return {
        "queue_length": questions.height,
        "queue_oldest_days": _oldest_days(questions, as_of),
        "other_questions": others.height,
        "other_oldest_days": _oldest_days(others, as_of),
        "conflict_count": contested.height,
        "high_conflict_count": contested.filter(pl.col("severity") == Severity.HIGH).height,
    }


def _oldest_days(questions: pl.DataFrame, as_of: datetime) -> int | None:
    oldest = questions["since"].min()
    return (as_of - oldest).days if isinstance(oldest, datetime) else None


def _place(entry: pl.Expr, places: dict[str, str | None]) -> pl.Expr:
    return entry.replace_strict(places, default=None, return_dtype=pl.String).alias("repository")
