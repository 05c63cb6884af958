"""Conflicts (M8, first part): pairs of entries that say opposite things, or give different values for the same.

Belongs here: turning verdicts into conflict records. What counts as a contradiction or a value difference is the judge's
matter. A conflict is never a merge.
"""

from __future__ import annotations

import hashlib

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.vocabulary import ActionType, ConflictType, ReasonCode, Severity, Verdict

RULE_KEY = "judge.name"

_TYPES = {
    ReasonCode.JUDGE_CONTRADICTION: (ConflictType.CONTRADICTION, Severity.HIGH, ReasonCode.CONFLICTS_CONTRADICTION),
    ReasonCode.JUDGE_VALUE_MISMATCH: (
        ConflictType.VALUE_MISMATCH,
        Severity.MEDIUM,
        ReasonCode.CONFLICTS_VALUE_MISMATCH,
    ),
}
_DEFAULT = (ConflictType.CONTRADICTION, Severity.MEDIUM, ReasonCode.CONFLICTS_CONTRADICTION)


def record_conflicts(entries: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """CONFLICTS of a run, by id. The id is derived from ids and texts: the same two texts are one conflict forever.

    Args:
        entries: ENTRIES.
        verdicts: VERDICTS of the run's pairs.
    """
    hashes = dict(entries.select("entry_id", "content_hash").iter_rows())
    kept = entries.filter(pl.col("kept_rules").list.contains(ActionType.OPEN_CONFLICT.value))["entry_id"].implode()
    found = verdicts.filter(
        (pl.col("verdict") == Verdict.CONFLICT) & ~pl.col("entry_id_l").is_in(kept) & ~pl.col("entry_id_r").is_in(kept)
    )
    rows = []
    for pair in found.iter_rows(named=True):
        conflict_type, severity, reason = next(
            (value for code, value in _TYPES.items() if code == pair["reason"]), _DEFAULT
        )
        left, right = pair["entry_id_l"], pair["entry_id_r"]
        parts = [conflict_type.value, left, right, hashes[left], hashes[right]]
        rows.append(
            {
                "conflict_id": "conf_" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24],
                "conflict_type": conflict_type.value,
                "severity": severity.value,
                "entry_id_l": left,
                "entry_id_r": right,
                "similarity": pair["similarity"],
                "reason": reason.value,
                "judge": pair["judge"],
                "explanation": pair["explanation"] or _difference(pair),
            }
        )
    return schemas.CONFLICTS.build(rows).sort("conflict_id")


def _difference(pair: dict[str, list[str]]) -> str | None:
    left, right = ", ".join(pair["specifics_only_l"]), ", ".join(pair["specifics_only_r"])
    if not left and not right:
        return None
    return f"{left or 'nothing'} against {right or 'nothing'}"
