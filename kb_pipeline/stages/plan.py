"""The plan: every action of a run in one frame, before anything is applied.

Belongs here: turning the decisions of gates, retirement, merges and conflicts into actions with derived ids, and asking a
person about the rest. In mode ``recommend`` nothing changes state: every change becomes a question.

    action id = hash of (corpus, week, as_of, policy fingerprint, entry, other entry, action, epoch)
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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


_URGENCY = [Severity.LOW, Severity.MEDIUM, Severity.HIGH]
_ISSUE_VALUES = {Severity.LOW: 0.3, Severity.MEDIUM: 0.5, Severity.HIGH: 0.7}
"""Order of what a model found wrong: that of flags by rule, without their share for use."""


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
    replaced: pl.DataFrame,
    outdated: pl.DataFrame,
    max_new: Mapping[str, int],
    queue: pl.DataFrame,
    open_conflicts: set[str],
    conflicts_over: Callable[[list[str]], pl.DataFrame],
    admit_to: str,
    rule_keys: dict[str, str],
    mode: Mode,
    answered: Sequence[str] = (),
    issues: pl.DataFrame | None = None,
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
        replaced: REPLACED, the surest first.
        outdated: OUTDATED that nobody was asked about yet, best first.
        max_new: so many questions whose reason begins with this word are asked, ``flags`` for instance; a reason whose
            word is not here is always asked.
        queue: QUEUE as it stood before the run: what waits already is not asked again.
        open_conflicts: ids of conflicts that are open already.
        conflicts_over: which of these are over (columns conflict_id, entry_id_l, entry_id_r, reason), given the ids of
            the entries that this run takes out of the live states.
        admit_to: state of an admitted candidate.
        rule_keys: reason code -> policy key of its rule.
        mode: whether changes are made or asked.
        answered: ids of questions that people have answered; they are not asked again.
        issues: what a model found wrong with single entries (entry_id, severity, sentence), beside the flags; None: nothing.
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
    gone = pl.Series(leaving, dtype=pl.String).implode()
    rows += _with_issues(_from_flags(flags.filter(~pl.col("entry_id").is_in(gone))), issues, leaving)
    rows += _from_outdated(outdated.filter(~pl.col("entry_id").is_in(gone)))
    # First, so that a pair of which one says that it replaces the other is asked about in that way and no other.
    rows = [
        *_from_replaced(replaced.filter(~pl.col("entry_id").is_in(gone) & ~pl.col("superseded_by").is_in(gone))),
        *rows,
    ]
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
    planned, new, replaces = [], Counter[str](), set[frozenset[str | None]]()
    for row in rows:
        own, other_id = facts[row["entry_id"]], row.get("other_entry_id")
        row["other_entry_id"] = other_id
        row["content_hash"] = own["content_hash"]
        row["other_content_hash"] = facts[other_id]["content_hash"] if other_id else None
        row["from_state"] = own["state"] if row.get("to_state") else None
        row["rule"] = rule_keys.get(row["reason"], str(row["reason"]).partition(".")[0])
        if row["action"] != ActionType.RECOMMEND:
            row["suggested_body"] = None  # no rule gives an entry a new text
        if row["action"] == ActionType.RECOMMEND:
            asked, pair = recommendation_id(row), frozenset((row["entry_id"], other_id))
            if row["recommendation_type"] == RecommendationType.SUPERSEDE and asked not in answered:
                replaces.add(pair)
            if asked in waiting or (row["recommendation_type"] == RecommendationType.MERGE and pair in replaces):
                continue
            word = str(row["reason"]).partition(".")[0]
            if row["recommendation_type"] == RecommendationType.FLAG and word == "gates":
                word = "flags"
            if word in max_new and new[word] >= max_new[word]:
                continue
            new[word] += 1
            # Two grounds for one question, a conflict opened and asked about for instance, are one question.
            waiting.add(asked)
        # A pair may have several conflicts: each is opened and ended by an action of its own.
        about = row.get("conflict_id") or row.get("recommendation_type") or ""
        row["action_id"] = identity.action_id(f"{row['action']}:{about}", row["entry_id"], other_id)
        planned.append(row)
    return schemas.PLAN.build(planned).sort("action", "entry_id", "other_entry_id", "action_id")


def recommendation_id(row: dict[str, Any]) -> str:
    """Id of what is asked: the same question about the same texts has the same id in every week.

    Where it has an ``occasion``, it is the same question on that occasion alone.
    """
    texts = sorted(
        (entry, text)
        for entry, text in (
            (row["entry_id"], row["content_hash"]),
            (row["other_entry_id"], row["other_content_hash"]),
        )
        if entry
    )
    occasion = [row["occasion"]] if row.get("occasion") else []
    joined = "\x1f".join([row["recommendation_type"], *(part for pair in texts for part in pair), *occasion])
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
        elif decided["protected_because"] != ["kept_by_person"] and reason != ReasonCode.RETIRE_STALE:
            # A person has answered this already when the only protection is that person's keep. Whether what is merely
            # unused still holds is asked elsewhere (refresh).
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
            "suggested_body": merge["suggested_body"],
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
                | _question(RecommendationType.SUPERSEDE, Severity.MEDIUM, pair["similarity"])
            )
            continue
        differs = is_turned([*pair["specifics_only_l"], *pair["specifics_only_r"]])
        value = (pair["similarity"] or 0.0) - (0.1 if differs else 0.0)
        rows.append(
            said
            | {"entry_id": left, "other_entry_id": right, "suggested_body": pair["suggested_body"]}
            | _question(RecommendationType.MERGE, Severity.LOW if differs else Severity.MEDIUM, value)
        )
    return rows


def _from_replaced(replaced: pl.DataFrame) -> list[dict[str, Any]]:
    """The old entry first, then the one that would stand for it."""
    return [
        {"entry_id": row["entry_id"], "other_entry_id": row["superseded_by"], "reason": row["reason"]}
        | _question(RecommendationType.SUPERSEDE, Severity.MEDIUM, row["value"])
        for row in replaced.iter_rows(named=True)
    ]


def _from_outdated(outdated: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {name: row[name] for name in ("entry_id", "reason", "explanation", "occasion")}
        | _question(RecommendationType.REFRESH, Severity(row["severity"]), row["value"])
        for row in outdated.iter_rows(named=True)
    ]


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


def _with_issues(rows: list[dict[str, Any]], issues: pl.DataFrame | None, leaving: list[str]) -> list[dict[str, Any]]:
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
        | _question(RecommendationType.FLAG, Severity(issue["severity"]), _ISSUE_VALUES[Severity(issue["severity"])])
        for entry, issue in said.items()
        if entry not in leaving
    ]
    return sorted(rows + own, key=lambda row: (-row["value"], row["entry_id"]))


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
