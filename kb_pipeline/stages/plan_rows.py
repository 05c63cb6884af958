"""Rows of a plan from the decisions of each stage: an action, or a question to a person.

Belongs here: one function a stage. Does not belong here: what becomes of the rows together (plan).
"""

from __future__ import annotations

from typing import Any

import polars as pl

from kb_pipeline.text.specifics import is_turned
from kb_pipeline.vocabulary import LIVE_STATES, ActionType, ReasonCode, RecommendationType, Severity, State, Verdict

_ASKED_AS = {
    ActionType.ADMIT: RecommendationType.ADMIT,
    ActionType.REFUSE: RecommendationType.ARCHIVE,
    ActionType.STRENGTHEN: RecommendationType.MERGE,
    ActionType.RETIRE: RecommendationType.ARCHIVE,
    ActionType.MERGE: RecommendationType.MERGE,
    ActionType.OPEN_CONFLICT: RecommendationType.CONFLICT,
}

_URGENCY = [Severity.LOW, Severity.MEDIUM, Severity.HIGH]
_ISSUE_VALUES = {Severity.LOW: 0.3, Severity.MEDIUM: 0.5, Severity.HIGH: 0.7}
"""Order of what a model found wrong: that of flags by rule, without their share for use."""


def from_gates(gates: pl.DataFrame, admit_to: str, winner_of: dict[str, str]) -> list[dict[str, Any]]:
    """Candidates that are let in, refused, or strengthen another entry, and what the gates leave to a person."""
    rows: list[dict[str, Any]] = []
    for gate in gates.filter(pl.col("gate_decision").is_not_null()).iter_rows(named=True):
        row = {"entry_id": gate["entry_id"], "similarity": gate["max_similarity"]}
        reason = gate["gate_reasons"][0] if gate["gate_reasons"] else ReasonCode.GATES_PASSED.value
        match gate["gate_decision"]:
            case "admit":
                rows.append(row | {"action": ActionType.ADMIT, "to_state": admit_to, "reason": reason})
            case "refuse":
                rows.append(
                    row
                    | {
                        "action": ActionType.REFUSE,
                        "to_state": State.ARCHIVED,
                        "reason": reason,
                        "explanation": "; ".join(gate["gate_reasons"]),
                    }
                )
            case "strengthen":
                # An entry that is merged away in this run hands what it receives on to the one that stays.
                nearest = winner_of.get(gate["nearest_id"], gate["nearest_id"])
                refused = {"action": ActionType.REFUSE, "to_state": State.ARCHIVED, "reason": reason}
                rows.append(row | refused | {"other_entry_id": nearest})
                rows.append(
                    {
                        "action": ActionType.STRENGTHEN,
                        "entry_id": nearest,
                        "other_entry_id": gate["entry_id"],
                        "similarity": gate["max_similarity"],
                        "reason": reason,
                    }
                )
            case _:
                rows.append(
                    row
                    | question(RecommendationType.MERGE, Severity.MEDIUM, gate["max_similarity"])
                    | {"other_entry_id": gate["nearest_id"], "reason": reason}
                )
    return rows


def from_retirement(retirement: pl.DataFrame, strengthened: set[str]) -> list[dict[str, Any]]:
    """What is retired, and what a protection spares: that is asked about."""
    rows: list[dict[str, Any]] = []
    for decided in retirement.filter(pl.col("retire_decision") != "keep").iter_rows(named=True):
        if decided["entry_id"] in strengthened and decided["retire_reasons"] == [ReasonCode.RETIRE_STALE]:
            # A candidate has just said it again: archiving both would lose what they say.
            continue
        reason = decided["retire_reasons"][0]
        row = {"entry_id": decided["entry_id"], "reason": reason, "explanation": "; ".join(decided["retire_reasons"])}
        if decided["retire_decision"] == "retire":
            rows.append(row | {"action": ActionType.RETIRE, "to_state": State.ARCHIVED})
        elif decided["protected_because"] != ["kept_by_person"] and reason != ReasonCode.RETIRE_STALE:
            # A person has answered this already when the only protection is that person's keep. Whether what is merely
            # unused still holds is asked elsewhere (refresh).
            spared = ", ".join(decided["protected_because"])
            rows.append(
                row
                | question(RecommendationType.ARCHIVE, Severity.LOW, 0.0)
                | {"explanation": f"{row['explanation']}; protected: {spared}"}
            )
    return rows


def from_merges(merges: pl.DataFrame) -> list[dict[str, Any]]:
    """Merges, and proposed ones that a person decides."""
    rows: list[dict[str, Any]] = []
    for merge in merges.iter_rows(named=True):
        row = {
            "entry_id": merge["loser_id"],
            "other_entry_id": merge["winner_id"],
            "similarity": merge["similarity"],
            "verdict": merge["verdict"],
            "judge": merge["judge"],
            "reason": merge["reason"],
            "explanation": merge["explanation"],
            "suggested_body": merge["suggested_body"],
        }
        if merge["merge_decision"] == "merge":
            rows.append(row | {"action": ActionType.MERGE, "to_state": State.ARCHIVED})
        elif merge["reason"] != ReasonCode.MERGE_KEPT_BY_PERSON:
            rows.append(row | question(RecommendationType.MERGE, Severity.MEDIUM, merge["similarity"]))
    return rows


def from_conflicts(conflicts: pl.DataFrame, open_conflicts: set[str]) -> list[dict[str, Any]]:
    """Conflicts that are opened, each with its question."""
    rows: list[dict[str, Any]] = []
    for conflict in conflicts.sort("conflict_id").iter_rows(named=True):
        row = {
            "entry_id": conflict["entry_id_l"],
            "other_entry_id": conflict["entry_id_r"],
            "similarity": conflict["similarity"],
            "verdict": Verdict.CONFLICT,
            "judge": conflict["judge"],
            "reason": conflict["reason"],
            "explanation": conflict["explanation"],
            "severity": conflict["severity"],
        }
        if conflict["conflict_id"] not in open_conflicts:
            rows.append(row | {"action": ActionType.OPEN_CONFLICT, "conflict_id": conflict["conflict_id"]})
        # Whoever opens a conflict asks a person about it; one that waits already is left out by its id.
        rows.append(row | question(RecommendationType.CONFLICT, Severity(conflict["severity"]), conflict["similarity"]))
    return rows


def closed(conflict: dict[str, Any]) -> dict[str, Any]:
    """A conflict that is over."""
    return {
        "action": ActionType.CLOSE_CONFLICT,
        "conflict_id": conflict["conflict_id"],
        "entry_id": conflict["entry_id_l"],
        "other_entry_id": conflict["entry_id_r"],
        "reason": conflict["reason"],
    }


def from_verdicts(verdicts: pl.DataFrame) -> list[dict[str, Any]]:
    """What the judge could not settle, and what it takes for out of date, as questions."""
    rows: list[dict[str, Any]] = []
    for pair in verdicts.filter(pl.col("verdict").is_in([Verdict.UNSURE, Verdict.SUPERSEDES])).iter_rows(named=True):
        said = {name: pair[name] for name in ("similarity", "verdict", "judge", "reason", "explanation")}
        left, right = pair["entry_id_l"], pair["entry_id_r"]
        if pair["verdict"] == Verdict.SUPERSEDES:
            old, new = (left, right) if pair["superseded_side"] == "l" else (right, left)
            rows.append(
                said
                | {"entry_id": old, "other_entry_id": new}
                | question(RecommendationType.SUPERSEDE, Severity.MEDIUM, pair["similarity"])
            )
            continue
        differs = is_turned([*pair["specifics_only_l"], *pair["specifics_only_r"]])
        value = (pair["similarity"] or 0.0) - (0.1 if differs else 0.0)
        rows.append(
            said
            | {"entry_id": left, "other_entry_id": right, "suggested_body": pair["suggested_body"]}
            | question(RecommendationType.MERGE, Severity.LOW if differs else Severity.MEDIUM, value)
        )
    return rows


def from_replaced(replaced: pl.DataFrame) -> list[dict[str, Any]]:
    """The old entry first, then the one that would stand for it."""
    return [
        {"entry_id": row["entry_id"], "other_entry_id": row["superseded_by"], "reason": row["reason"]}
        | question(RecommendationType.SUPERSEDE, Severity.MEDIUM, row["value"])
        for row in replaced.iter_rows(named=True)
    ]


def from_outdated(outdated: pl.DataFrame) -> list[dict[str, Any]]:
    """Questions whether entries still hold."""
    return [
        {name: row[name] for name in ("entry_id", "reason", "explanation", "occasion")}
        | question(RecommendationType.REFRESH, Severity(row["severity"]), row["value"])
        for row in outdated.iter_rows(named=True)
    ]


def from_secrets(entries: pl.DataFrame) -> list[dict[str, Any]]:
    """Live texts that seem to hold a secret (behaviour 24)."""
    held = entries.filter(pl.col("state").is_in(LIVE_STATES) & (pl.col("secret_kinds").list.len() > 0))
    return [
        {"entry_id": entry, "reason": ReasonCode.LOAD_SECRET, "explanation": "; ".join(kinds)}
        | question(RecommendationType.FLAG, Severity.HIGH, 1.0)
        for entry, kinds in held.select("entry_id", "secret_kinds").iter_rows()
    ]


def from_flags(flags: pl.DataFrame) -> list[dict[str, Any]]:
    """One question an entry, whatever speaks against it; the explanation lists all grounds when there are several."""
    rows = []
    for flag in flags.iter_rows(named=True):
        reasons = flag["flag_reasons"]
        told = [*(reasons if len(reasons) > 1 else []), *flag["gone_references"]]
        rows.append(
            {"entry_id": flag["entry_id"], "reason": reasons[0], "explanation": "; ".join(told) or None}
            | question(RecommendationType.FLAG, Severity(flag["flag_severity"]), flag["flag_value"])
        )
    return rows


def with_issues(rows: list[dict[str, Any]], issues: pl.DataFrame | None, leaving: list[str]) -> list[dict[str, Any]]:
    """The flags of rules and those of a model, best first; where both speak of an entry, its sentence is added to theirs.

    One question an entry: two would be the same question about the same text.
    """
    said = {} if issues is None else {row["entry_id"]: row for row in issues.iter_rows(named=True)}
    for row in rows:
        if (issue := said.pop(row["entry_id"], None)) is not None:
            row["explanation"] = f"{row['explanation'] or row['reason']}; {issue['sentence']}"
            level = max(Severity(row["severity"]), Severity(issue["severity"]), key=_URGENCY.index)
            row |= {"severity": level.value, "value": max(row["value"], _ISSUE_VALUES[level])}
    own = [
        {"entry_id": entry, "reason": ReasonCode.FLAGS_BY_JUDGE.value, "explanation": issue["sentence"]}
        | question(RecommendationType.FLAG, Severity(issue["severity"]), _ISSUE_VALUES[Severity(issue["severity"])])
        for entry, issue in said.items()
        if entry not in leaving
    ]
    return sorted(rows + own, key=lambda row: (-row["value"], row["entry_id"]))


def question(asked: RecommendationType, severity: Severity, value: float | None) -> dict[str, Any]:
    """The part of a row that makes it a question; ``value`` (0-1) orders the queue."""
    return {
        "action": ActionType.RECOMMEND,
        "recommendation_type": asked.value,
        "severity": severity.value,
        "value": round(value or 0.0, 5),
        "to_state": None,
    }


def asked(row: dict[str, Any]) -> dict[str, Any]:
    """The same row as a question."""
    if row["action"] == ActionType.RECOMMEND:
        return row
    severity = Severity(row.get("severity") or Severity.MEDIUM)
    return row | question(_ASKED_AS[row["action"]], severity, row.get("similarity")) | {"conflict_id": None}
