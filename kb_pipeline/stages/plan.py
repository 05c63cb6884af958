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
from kb_pipeline.stages import plan_rows
from kb_pipeline.vocabulary import (
    LIVE_STATES,
    ActionType,
    Mode,
    RecommendationType,
)

STATE_CHANGES = (ActionType.ADMIT, ActionType.REFUSE, ActionType.RETIRE, ActionType.MERGE)
"""Actions that move an entry to another state."""


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
    of_gates = plan_rows.from_gates(gates, admit_to, dict(merged.iter_rows()))
    strengthened = {row["entry_id"] for row in of_gates if row["action"] == ActionType.STRENGTHEN}
    rows = [
        *of_gates,
        *plan_rows.from_retirement(retirement, strengthened),
        *plan_rows.from_merges(merges),
        *plan_rows.from_conflicts(conflicts, open_conflicts),
        *plan_rows.from_verdicts(verdicts),
        *plan_rows.from_secrets(entries),
    ]
    leaving = [row["entry_id"] for row in rows if row.get("to_state") and row["to_state"] not in LIVE_STATES]
    gone = pl.Series(leaving, dtype=pl.String).implode()
    rows += plan_rows.with_issues(plan_rows.from_flags(flags.filter(~pl.col("entry_id").is_in(gone))), issues, leaving)
    rows += plan_rows.from_outdated(outdated.filter(~pl.col("entry_id").is_in(gone)))
    # First, so that a pair of which one says that it replaces the other is asked about in that way and no other.
    rows = [
        *plan_rows.from_replaced(
            replaced.filter(~pl.col("entry_id").is_in(gone) & ~pl.col("superseded_by").is_in(gone))
        ),
        *rows,
    ]
    if mode is Mode.RECOMMEND:
        rows = [plan_rows.asked(row) for row in rows]
    else:
        rows += [plan_rows.closed(conflict) for conflict in conflicts_over(leaving).iter_rows(named=True)]
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
