"""The YAML files of a week as plain documents: dictionaries, lists, texts, numbers and null (D1, M17, M24).

Belongs here: file names, keys and their order. Does not belong here: how a document becomes a file (adapters), and any
number that another report shows too (report_health, report_rows).

Times are ISO 8601 texts, numbers are rounded to six digits, and nothing in a document depends on the clock or on the
run but ``run_id`` and ``generated_at`` in its header.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from kb_pipeline.stages.report_health import actions_required, health_counts
from kb_pipeline.stages.report_rows import pair_rows, pruning_rows, withheld_texts
from kb_pipeline.stages.report_week import WeekData, iso_time
from kb_pipeline.stages.report_words import (
    QUALITY_BANDS_REASON,
    RETIRE_RULES,
    REVALIDATION_REASON,
    measured_retirement,
    reason_words,
)
from kb_pipeline.vocabulary import ActionType

HEALTH_FILE = "memory-health-report.yaml"
REVALIDATION_FILE = "memory-revalidation-report.yaml"
CONFLICTS_FILE = "memory-conflicts.yaml"
PRUNING_FILE = "memory-pruning-plan.yaml"
QUEUE_FILE = "memory-review-queue.yaml"
PAIRS_FILE = "duplicate-pairs.yaml"

ALL_REPOSITORIES = "(all)"
"""``repositoryId`` of the totals; entries without a repository have null."""

Document = dict[str, Any]


def documents(week: WeekData) -> dict[str, Document]:
    """File name -> document, each with ``header`` first. The same frames always give the same documents."""
    shut = withheld_texts(week.entries)
    bodies = {
        HEALTH_FILE: _health(week),
        REVALIDATION_FILE: {"computed": False, "reason": REVALIDATION_REASON, "revalidations": []},
        CONFLICTS_FILE: _conflicts(week, shut),
        PRUNING_FILE: _pruning(week),
        QUEUE_FILE: _queue(week, shut),
        PAIRS_FILE: _pairs(week),
    }
    return {name: {"header": _header(week)} | body for name, body in bodies.items()}


def _header(week: WeekData) -> Document:
    header = week.header
    return {
        "corpus": header.corpus,
        "week": header.week.isoformat(),
        "as_of": iso_time(header.as_of),
        "partial": header.partial,
        "run_id": header.run_id,
        "generated_at": iso_time(header.generated_at),
        "profile": header.profile,
        "policy_fingerprint": header.policy_fingerprint,
        "model_fingerprint": header.model_fingerprint,
        "judge": header.judge,
        "mode": str(header.mode),
        "status": str(header.status),
        "coverage": {
            "entries": week.entries.height,
            "not_looked_at": {reason: count for reason, count in sorted(week.not_looked_at.items()) if count},
        },
    }


def _health(week: WeekData) -> Document:
    total, by_repository = health_counts(week)
    listed = [_memory_health(week, total, ALL_REPOSITORIES)]
    listed += [_memory_health(week, row, row["repository"]) for row in by_repository if row["entry_count"]]
    return {
        "repositories": listed,
        "checks": [
            {"name": check.name, "passed": check.passed, "blocking": check.blocking, "sentence": check.sentence}
            for check in week.checks
        ],
        "trend": [
            {key: _plain(value) for key, value in row.items()} for row in week.earlier_weeks.iter_rows(named=True)
        ],
        "judge": {name: dict(sorted(numbers.items())) for name, numbers in sorted(week.judge_costs.items()) if numbers},
        "notes": list(week.notes),
    }


def _memory_health(week: WeekData, counts: Mapping[str, Any], repository: str | None) -> Document:
    return {
        "memoryHealth": {
            "repositoryId": repository,
            "entries": counts["entry_count"],
            "active": counts["active"],
            "candidatesPending": counts["candidates"],
            "approved": counts["approved"],
            "needsReview": counts["needs_review"],
            "stale": counts["stale"],
            "conflicted": counts["conflicted"],
            "invalidated": counts["invalidated"],
            "superseded": counts["superseded"],
            "expired": counts["expired"],
            "archived": counts["archived"],
            "blocked": counts["blocked"],
            "highValue": counts["high_value"],
            "evidenceCoverage": _plain(counts["evidence_coverage"]),
            "meanDistinctiveness": _plain(counts["mean_distinctiveness"]),
            "queue": {"length": counts["queue_length"], "oldestDays": counts["queue_oldest_days"]},
            "qualityBands": {"computed": False, "reason": QUALITY_BANDS_REASON},
            "thisRun": {name: counts[name] for name in ("admitted", "refused", "retired", "merged")},
            "actionRequired": actions_required(week, dict(counts)),
        }
    }


def _conflicts(week: WeekData, shut: Mapping[str, str]) -> Document:
    named = pl.concat([week.conflicts["entry_id_l"], week.conflicts["entry_id_r"]]).unique()
    facts = {
        row["entry_id"]: row
        for row in week.entries.filter(pl.col("entry_id").is_in(named.implode()))
        .select("entry_id", "tenant", "repository", "module")
        .iter_rows(named=True)
    }
    opened = set(
        week.applied_plan.filter(pl.col("action") == ActionType.OPEN_CONFLICT)
        .select(pl.concat_list("entry_id", "other_entry_id"))
        .to_series()
        .list.join("\x1f")
        .to_list()
    )
    order = {"high": 0, "medium": 1, "low": 2}
    rows = []
    for row in week.conflicts.sort(pl.col("severity").replace_strict(order, default=3), "conflict_id").iter_rows(
        named=True
    ):
        pair = [row["entry_id_l"], row["entry_id_r"]]
        place = facts.get(pair[0], {})
        rows.append(
            {
                "conflictId": row["conflict_id"],
                "type": row["conflict_type"],
                "severity": row["severity"],
                "scope": {key: place.get(key) for key in ("tenant", "repository", "module")},
                "memories": pair,
                "status": "open",
                "action": "a person decides which side holds",
                "reason": row["reason"],
                "explanation": _unless_withheld(row["explanation"], pair, shut),
                "similarity": _plain(row["similarity"]),
                "openedThisRun": "\x1f".join(pair) in opened,
            }
        )
    return {"conflicts": rows}


def _pruning(week: WeekData) -> Document:
    measured = {
        row["entry_id"]: row
        for row in week.entries.select("entry_id", "attempts", "successes")
        .join(week.quality, on="entry_id", how="left")
        .join(week.retirement.filter(pl.col("retire_decision") != "keep"), on="entry_id", maintain_order="left")
        .iter_rows(named=True)
    }
    prune, kept = [], []
    for row in pruning_rows(week).iter_rows(named=True):
        facts = measured[row["entry_id"]]
        why = {
            "ruleId": row["rule"],
            "reason": row["reason"],
            "explanation": measured_retirement(row["reason"], facts, week.thresholds),
        }
        if row["protected"]:
            kept.append({"memoryId": row["entry_id"], "because": ", ".join(facts["protected_because"])} | why)
        else:
            last = row["last_matched_at"]
            prune.append(
                {"memoryId": row["entry_id"], "action": row["action"]}
                | why
                | {"lastMatchedAt": _plain(last), "confidence": _plain(row["confidence"]), "protected": False}
            )
    others = week.applied_plan.filter(pl.col("action").is_in([ActionType.MERGE, ActionType.REFUSE])).sort("entry_id")
    return {
        "prune": prune,
        "kept": kept,
        "archivedOtherwise": [
            {
                "memoryId": row["entry_id"],
                "action": row["action"],
                "ruleId": row["rule"],
                "reason": row["reason"],
                "explanation": reason_words(row["reason"]),
                "mergedInto": row["other_entry_id"] if row["action"] == ActionType.MERGE else None,
                "nearest": row["other_entry_id"],
            }
            for row in others.iter_rows(named=True)
        ],
        "rules": [{"reason": reason, "ruleId": rule} for reason, rule in RETIRE_RULES.items()],
    }


def _queue(week: WeekData, shut: Mapping[str, str]) -> Document:
    return {
        "queue": [
            {
                "recommendationId": row["recommendation_id"],
                "type": row["recommendation_type"],
                "severity": row["severity"],
                "memories": row["entry_ids"],
                "reason": row["reason"],
                "explanation": _unless_withheld(row["explanation"], row["entry_ids"], shut),
                "suggestedBody": None if set(row["entry_ids"]) & shut.keys() else row["suggested_body"],
                "since": _plain(row["since"]),
                "ageDays": (week.header.as_of - row["since"]).days,
                "value": _plain(row["value"]),
            }
            for row in week.queue.iter_rows(named=True)
        ]
    }


def _pairs(week: WeekData) -> Document:
    rows = pair_rows(week)
    listed = rows.head(week.max_listed_pairs).drop("corpus", "week", "run_id")
    counts = rows.group_by("band", "verdict", maintain_order=True).len()
    return {
        "total": rows.height,
        "listed": listed.height,
        "counts": [{"band": band, "verdict": verdict, "count": count} for band, verdict, count in counts.iter_rows()],
        "pairs": [{key: _plain(value) for key, value in row.items()} for row in listed.iter_rows(named=True)],
    }


def _unless_withheld(text: str | None, entry_ids: list[str], shut: Mapping[str, str]) -> str | None:
    """``text``, or the notice of the first entry whose text is withheld: an explanation may quote it."""
    if text is None:
        return None
    return next((shut[entry_id] for entry_id in entry_ids if entry_id in shut), text)


def _plain(value: Any) -> Any:
    """A value as a document holds it: times and dates as text, floats rounded to six digits."""
    if isinstance(value, datetime):
        return iso_time(value)
    if isinstance(value, float):
        return round(value, 6)
    return value.isoformat() if hasattr(value, "isoformat") else value
