"""The plan: every action of a run in one frame, before anything is applied.

Belongs here: turning the decisions of gates, retirement, merges and conflicts into actions with derived ids, and asking a
person about the rest. In mode ``recommend`` nothing changes state: every change becomes a question.

    action id = hash of (corpus, week, as_of, policy fingerprint, entry, other entry, action, epoch)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.text.specifics import is_turned
from kb_pipeline.vocabulary import (
    LIVE_STATES,
    ActionType,
    Mode,
    ReasonCode,
    RecommendationType,
    Severity,
    State,
    Verdict,
)

STATE_CHANGES = (ActionType.ADMIT, ActionType.REFUSE, ActionType.RETIRE, ActionType.MERGE)
"""Actions that move an entry to another state."""

_ASKED_AS = {
    ActionType.ADMIT: RecommendationType.ADMIT,
    ActionType.REFUSE: RecommendationType.ARCHIVE,
    ActionType.STRENGTHEN: RecommendationType.MERGE,
    ActionType.RETIRE: RecommendationType.ARCHIVE,
    ActionType.MERGE: RecommendationType.MERGE,
    ActionType.OPEN_CONFLICT: RecommendationType.CONFLICT,
}


_BOUNDED = frozenset(reason for reason in ReasonCode if reason.startswith("flags."))
"""Questions of which a run asks a bounded number."""


@dataclass(frozen=True)
class PlanIdentity:
    """What the action ids of a run are derived from, beside the action itself."""

    corpus: str
    week: date
    as_of: datetime
    policy_fingerprint: str
    epoch: int

    def action_id(self, action: str, entry_id: str, other_entry_id: str | None) -> str:
        """The id of one action: 32 hex digits, the same whenever the same run is planned again."""
        parts = (
            self.corpus,
            self.week.isoformat(),
            self.as_of.isoformat(),
            self.policy_fingerprint,
            entry_id,
            other_entry_id or "",
            action,
            str(self.epoch),
        )
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


def build_plan(
    identity: PlanIdentity,
    entries: pl.DataFrame,
    gates: pl.DataFrame,
    retirement: pl.DataFrame,
    verdicts: pl.DataFrame,
    merges: pl.DataFrame,
    conflicts: pl.DataFrame,
    *,
    flags: pl.DataFrame,
    max_new_flags: int,
    queue: pl.DataFrame,
    open_conflicts: set[str],
    conflicts_over: Callable[[list[str]], pl.DataFrame],
    admit_to: str,
    rule_keys: dict[str, str],
    mode: Mode,
    answered: Sequence[str] = (),
) -> pl.DataFrame:
    """PLAN of a run, by action and ids.

    Args:
        identity: what ids are derived from.
        entries: ENTRIES.
        gates: GATES.
        retirement: RETIREMENT.
        verdicts: VERDICTS.
        merges: MERGES.
        conflicts: CONFLICTS.
        flags: FLAGS that nobody was asked about yet, best first.
        max_new_flags: so many of them are asked about; words to a judge always are.
        queue: QUEUE as it stood before the run: what waits already is not asked again.
        open_conflicts: ids of conflicts that are open already.
        conflicts_over: which of these are over (columns conflict_id, entry_id_l, entry_id_r, reason), given the ids of
            the entries that this run takes out of the live states.
        admit_to: state of an admitted candidate.
        rule_keys: reason code -> policy key of its rule.
        mode: whether changes are made or asked.
        answered: ids of questions that people have answered; they are not asked again.
    """
    merged = merges.filter(pl.col("merge_decision") == "merge").select("loser_id", "winner_id")
    from_gates = _from_gates(gates, admit_to, dict(merged.iter_rows()))
    strengthened = {row["entry_id"] for row in from_gates if row["action"] == ActionType.STRENGTHEN}
    rows = [
        *from_gates,
        *_from_retirement(retirement, strengthened),
        *_from_merges(merges),
        *_from_conflicts(conflicts, open_conflicts),
        *_from_verdicts(verdicts),
        *_from_secrets(entries),
    ]
    leaving = [row["entry_id"] for row in rows if row.get("to_state") and row["to_state"] not in LIVE_STATES]
    rows += _from_flags(flags.filter(~pl.col("entry_id").is_in(leaving)))
    if mode is Mode.RECOMMEND:
        rows = [_asked(row) for row in rows]
    else:
        rows += [_closed(conflict) for conflict in conflicts_over(leaving).iter_rows(named=True)]
    facts = {
        row["entry_id"]: row
        for row in entries.filter(
            pl.col("entry_id").is_in(
                sorted({i for row in rows for i in (row["entry_id"], row.get("other_entry_id")) if i})
            )
        )
        .select("entry_id", "state", "content_hash")
        .iter_rows(named=True)
    }
    waiting = {*queue["recommendation_id"], *answered}
    planned, new_flags = [], 0
    for row in rows:
        own, other_id = facts[row["entry_id"]], row.get("other_entry_id")
        row["other_entry_id"] = other_id
        row["content_hash"] = own["content_hash"]
        row["other_content_hash"] = facts[other_id]["content_hash"] if other_id else None
        row["from_state"] = own["state"] if row.get("to_state") else None
        row["rule"] = rule_keys.get(row["reason"], str(row["reason"]).partition(".")[0])
        if row["action"] == ActionType.RECOMMEND:
            asked = recommendation_id(row)
            if asked in waiting:
                continue
            if row["reason"] in _BOUNDED:
                if new_flags >= max_new_flags:
                    continue
                new_flags += 1
            # Two grounds for one question, a conflict opened and asked about for instance, are one question.
            waiting.add(asked)
        # A pair may have several conflicts: each is opened and ended by an action of its own.
        about = row.get("conflict_id") or row.get("recommendation_type") or ""
        row["action_id"] = identity.action_id(f"{row['action']}:{about}", row["entry_id"], other_id)
        planned.append(row)
    return schemas.PLAN.build(planned).sort("action", "entry_id", "other_entry_id", "action_id")


def recommendation_id(row: dict[str, Any]) -> str:
    """Id of what is asked: the same question about the same texts has the same id in every week."""
    texts = sorted(
        (entry, text)
        for entry, text in (
            (row["entry_id"], row["content_hash"]),
            (row["other_entry_id"], row["other_content_hash"]),
        )
        if entry
    )
    joined = "\x1f".join([row["recommendation_type"], *(part for pair in texts for part in pair)])
    return "rec_" + hashlib.sha256(joined.encode()).hexdigest()[:24]


def _from_gates(gates: pl.DataFrame, admit_to: str, winner_of: dict[str, str]) -> list[dict[str, Any]]:
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
                    | _question(RecommendationType.MERGE, Severity.MEDIUM, gate["max_similarity"])
                    | {"other_entry_id": gate["nearest_id"], "reason": reason}
                )
    return rows


def _from_retirement(retirement: pl.DataFrame, strengthened: set[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for decided in retirement.filter(pl.col("retire_decision") != "keep").iter_rows(named=True):
        if decided["entry_id"] in strengthened and decided["retire_reasons"] == [ReasonCode.RETIRE_STALE]:
            # A candidate has just said it again: archiving both would lose what they say.
            continue
        reason = decided["retire_reasons"][0]
        row = {"entry_id": decided["entry_id"], "reason": reason, "explanation": "; ".join(decided["retire_reasons"])}
        if decided["retire_decision"] == "retire":
            rows.append(row | {"action": ActionType.RETIRE, "to_state": State.ARCHIVED})
        elif decided["protected_because"] != ["kept_by_person"]:
            # A person has answered this already when the only protection is that person's keep.
            spared = ", ".join(decided["protected_because"])
            rows.append(
                row
                | _question(RecommendationType.ARCHIVE, Severity.LOW, 0.0)
                | {"explanation": f"{row['explanation']}; protected: {spared}"}
            )
    return rows


def _from_merges(merges: pl.DataFrame) -> list[dict[str, Any]]:
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
        }
        if merge["merge_decision"] == "merge":
            rows.append(row | {"action": ActionType.MERGE, "to_state": State.ARCHIVED})
        elif merge["reason"] != ReasonCode.MERGE_KEPT_BY_PERSON:
            rows.append(row | _question(RecommendationType.MERGE, Severity.MEDIUM, merge["similarity"]))
    return rows


def _from_conflicts(conflicts: pl.DataFrame, open_conflicts: set[str]) -> list[dict[str, Any]]:
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
        rows.append(
            row | _question(RecommendationType.CONFLICT, Severity(conflict["severity"]), conflict["similarity"])
        )
    return rows


def _closed(conflict: dict[str, Any]) -> dict[str, Any]:
    return {
        "action": ActionType.CLOSE_CONFLICT,
        "conflict_id": conflict["conflict_id"],
        "entry_id": conflict["entry_id_l"],
        "other_entry_id": conflict["entry_id_r"],
        "reason": conflict["reason"],
    }


def _from_verdicts(verdicts: pl.DataFrame) -> list[dict[str, Any]]:
    """What the judge could not settle, as questions."""
    rows: list[dict[str, Any]] = []
    for pair in verdicts.filter(pl.col("verdict") == Verdict.UNSURE).iter_rows(named=True):
        differs = is_turned([*pair["specifics_only_l"], *pair["specifics_only_r"]])
        value = (pair["similarity"] or 0.0) - (0.1 if differs else 0.0)
        rows.append(
            {
                "entry_id": pair["entry_id_l"],
                "other_entry_id": pair["entry_id_r"],
                "similarity": pair["similarity"],
                "verdict": pair["verdict"],
                "judge": pair["judge"],
                "reason": pair["reason"],
                "explanation": pair["explanation"],
            }
            | _question(RecommendationType.MERGE, Severity.LOW if differs else Severity.MEDIUM, value)
        )
    return rows


def _from_secrets(entries: pl.DataFrame) -> list[dict[str, Any]]:
    """Live texts that seem to hold a secret (behaviour 24)."""
    held = entries.filter(pl.col("state").is_in(LIVE_STATES) & (pl.col("secret_kinds").list.len() > 0))
    return [
        {"entry_id": entry, "reason": ReasonCode.LOAD_SECRET, "explanation": "; ".join(kinds)}
        | _question(RecommendationType.FLAG, Severity.HIGH, 1.0)
        for entry, kinds in held.select("entry_id", "secret_kinds").iter_rows()
    ]


def _from_flags(flags: pl.DataFrame) -> list[dict[str, Any]]:
    """One question an entry, whatever speaks against it; the explanation lists all grounds when there are several."""
    rows = []
    for flag in flags.iter_rows(named=True):
        reasons = flag["flag_reasons"]
        told = [*(reasons if len(reasons) > 1 else []), *flag["gone_references"]]
        rows.append(
            {"entry_id": flag["entry_id"], "reason": reasons[0], "explanation": "; ".join(told) or None}
            | _question(RecommendationType.FLAG, Severity(flag["flag_severity"]), flag["flag_value"])
        )
    return rows


def _question(asked: RecommendationType, severity: Severity, value: float | None) -> dict[str, Any]:
    return {
        "action": ActionType.RECOMMEND,
        "recommendation_type": asked.value,
        "severity": severity.value,
        "value": round(value or 0.0, 5),
        "to_state": None,
    }


def _asked(row: dict[str, Any]) -> dict[str, Any]:
    """The same row as a question."""
    if row["action"] == ActionType.RECOMMEND:
        return row
    severity = Severity(row.get("severity") or Severity.MEDIUM)
    return row | _question(_ASKED_AS[row["action"]], severity, row.get("similarity")) | {"conflict_id": None}
