"""Small frames for tests of stages: rows say what matters, everything else has a plain value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.load import load_policy, overlay, read_mapping
from kb_pipeline.policy.model import Policy
from kb_pipeline.text.normalise import content_hash, entry_text, entry_title

AS_OF = datetime(2026, 11, 23, tzinfo=UTC)
"""End of the week of 2026-11-16."""

CASES = Path(__file__).parents[1] / "cases"

_PLAIN: dict[str, dict[str, Any]] = {
    "knowledge_entries": {
        "kind": "fact", "tenant": None, "repository": None, "module": None, "confidence": None, "pinned": False,
        "keep_distinct": False, "review_state": "unreviewed", "sensitivity": "internal",
        "created_at": AS_OF - timedelta(days=30),
        "updated_at": None, "expires_at": None, "last_validated_at": None,
        "state": "active", "state_reason": None, "merged_into": None,
        "conflict_state": "none", "attempts": 0, "successes": 0, "retrievals": 0, "last_matched_at": None,
        "evidence_count": 0, "has_title": True, "has_rationale": False, "step_count": 0, "supersedes": [], "generated_from": [],
        "kept_rules": [], "exact_key": None, "merge_key": None, "secret_kinds": [],
        "addresses_judge": False,
    },
    "distinctiveness_scores": {"token_count": 9, "distinctiveness": 0.9},
    "quality_scores": {
        "performance_ci_lower": 0.0, "performance_ci_upper": 1.0, "freshness": 0.5, "staleness_days": None,
    },
    "replaced_entries": {}, "outdated_entries": {},
    "quality_flags": {"flag_reasons": [], "gone_references": []},
    "retirement_decisions": {"retire_reasons": [], "protected_because": [], "retire_decision": "keep"},
    "gate_results": {"name_chars": 40, "gate_reasons": []},
    "duplicate_pairs": {"similarity": 0.95, "band": "merge"},
    "judge_verdicts": {
        "similarity": 0.95, "band": "merge", "verdict": "MERGE", "reason": "judge.same_rule", "judge": "rule",
        "judge_confidence": None, "explanation": None, "failed": False, "from_cache": False,
        "specifics_only_l": [], "specifics_only_r": [],
    },
    "merge_plan": {
        "similarity": 0.95, "verdict": "MERGE", "judge": "rule", "reason": "judge.same_rule", "merge_decision": "merge",
    },
    "conflict_records": {
        "conflict_type": "contradiction", "severity": "high", "similarity": 0.9,
        "reason": "conflicts.contradiction", "judge": "rule", "explanation": None,
        "content_hash_l": "text l", "content_hash_r": "text r",
    },
    "curation_plan": {"rule": "judge.name", "content_hash": "h"},
    "review_queue": {
        "recommendation_type": "MERGE", "severity": "medium", "reason": "judge.residue", "value": 0.5,
        "since": AS_OF - timedelta(days=7),
    },
}  # fmt: skip


def frame(schema: schemas.FrameSchema, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """A frame of a schema: rows over the plain values. Whatever has neither is null."""
    plain = _PLAIN[schema.name]
    return schema.build([dict.fromkeys(schema.columns) | plain | dict(row) for row in rows])


def entries(*rows: Mapping[str, Any]) -> pl.DataFrame:
    """ENTRIES, sorted by id: ``id`` (or ``entry_id``), ``title`` and ``body`` as in an import row, else by column."""
    built = []
    for row in rows:
        values = dict(row)
        entry_id = values.pop("id", None) or values["entry_id"]
        body = values.pop("body", None)
        title = values.pop("title", None) or (None if body else f"Knowledge of entry number {entry_id}")
        created_at = values.get("created_at", AS_OF - timedelta(days=30))
        plain = {
            "entry_id": entry_id,
            "title": entry_title(title, body),
            "text": entry_text(title, body),
            "content_hash": content_hash(title, body),
            "scope": repr([values.get(name) for name in ("tenant", "repository", "module")]),
            "first_effective_at": created_at or AS_OF - timedelta(days=30),
            "state_changed_at": created_at or AS_OF - timedelta(days=30),
        }
        built.append(plain | values)
    return frame(schemas.ENTRIES, built).sort("entry_id")


def policy(**sections: Mapping[str, Any]) -> Policy:
    """The shipped weekly policy with some values laid over it."""
    return Policy.model_validate(overlay(_shipped(), sections))


@cache
def _shipped() -> dict[str, Any]:
    return load_policy("weekly").model_dump(mode="json")


def cases(name: str) -> dict[str, Any]:
    """A table of rule cases."""
    return read_mapping(CASES / f"{name}.yaml")


def days_ago(days: float) -> datetime:
    """A time before AS_OF."""
    return AS_OF - timedelta(days=days)
