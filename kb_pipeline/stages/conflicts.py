"""Conflicts (M8, first part): pairs of entries that say opposite things, or give different values for the same.

Belongs here: turning verdicts into conflict records, and saying which open ones are over. What counts as a contradiction
or a value difference is the judge's matter. A conflict is never a merge.
"""

from __future__ import annotations

import hashlib

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.vocabulary import LIVE_STATES, ActionType, ConflictType, ReasonCode, Severity, Verdict

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
                "content_hash_l": hashes[left],
                "content_hash_r": hashes[right],
                "similarity": pair["similarity"],
                "reason": reason.value,
                "judge": pair["judge"],
                "explanation": pair["explanation"] or _difference(pair),
            }
        )
    return schemas.CONFLICTS.build(rows).sort("conflict_id")


def conflicts_over(open_conflicts: pl.DataFrame, entries: pl.DataFrame, leaving: list[str]) -> pl.DataFrame:
    """The open conflicts that a change of one side has ended, with the reason: a side is out of use, or says another thing.

    Two new texts that still contradict each other are found again as a conflict of their own. What a person has brought
    back stays open until the text changes.

    Args:
        open_conflicts: CONFLICTS that were open before the run.
        entries: ENTRIES before the run.
        leaving: ids of entries that this run takes out of the live states.

    Returns:
        Columns conflict_id, entry_id_l, entry_id_r and reason, by conflict id.
    """
    sides = entries.select(
        "entry_id",
        text_now="content_hash",
        is_gone=~pl.col("state").is_in(LIVE_STATES) | pl.col("entry_id").is_in(leaving),
        is_kept=pl.col("kept_rules").list.contains(ActionType.CLOSE_CONFLICT.value),
    )
    return (
        open_conflicts.join(sides.rename(lambda name: f"{name}_l"), on="entry_id_l", how="left")
        .join(sides.rename(lambda name: f"{name}_r"), on="entry_id_r", how="left")
        .with_columns(
            pl.when(pl.col("is_gone_l") | pl.col("is_gone_r"))
            .then(pl.lit(ReasonCode.CONFLICTS_SIDE_GONE.value))
            .when(pl.any_horizontal(pl.col(f"content_hash_{side}") != pl.col(f"text_now_{side}") for side in "lr"))
            .then(pl.lit(ReasonCode.CONFLICTS_TEXT_CHANGED.value))
            .alias("reason")
        )
        .filter(pl.col("reason").is_not_null() & ~(pl.col("is_kept_l") | pl.col("is_kept_r")))
        .select("conflict_id", "entry_id_l", "entry_id_r", "reason")
        .sort("conflict_id")
    )


def _difference(pair: dict[str, list[str]]) -> str | None:
    left, right = ", ".join(pair["specifics_only_l"]), ", ".join(pair["specifics_only_r"])
    if not left and not right:
        return None
    return f"{left or 'nothing'} against {right or 'nothing'}"
