"""Rollback (K14): the undo of a run, or of one entry's part in it.

Belongs here: voiding. A rollback adds rows that void events; nothing is deleted, and every projection ignores what is
voided, so state, counters, evidence and scores return to what they were. The rollback of one entry is a person's keep:
the rule does not touch this text again. The rollback of a run carries no judgement, and the week can be run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kb_pipeline.adapters.applying import score_action_id
from kb_pipeline.adapters.database import Cursor, Database
from kb_pipeline.adapters.importing import open_change, refresh
from kb_pipeline.adapters.review_history import later_review, later_run
from kb_pipeline.adapters.rows import derived_id
from kb_pipeline.adapters.runs import load_run, require_rollback_target
from kb_pipeline.errors import RollbackError
from kb_pipeline.vocabulary import ActionType, JobType, RunStatus


@dataclass(frozen=True)
class RolledBack:
    """What a rollback undid: actions voided, entries whose state returned."""

    run_id: str
    corpus: str
    action_count: int
    entry_ids: tuple[str, ...]


def roll_back_run(database: Database, run_id: str, *, actor: str) -> RolledBack:
    """Undoes a whole run.

    Raises:
        UnknownNameError: no such run.
        RollbackError: it changed nothing, was rolled back, or a later run built on it.
        CorpusBusyError: somebody else works on the corpus.
    """
    require_rollback_target(database, run_id)
    run = load_run(database, run_id)
    with database.corpus_lock(run.corpus), database.transaction() as cursor:
        target = require_rollback_target(database, run_id)  # nobody has done it since
        # A pass over recent entries only asks: nothing builds on it, and it builds on nothing that it would lose.
        cursor.execute(
            "SELECT run_id, week FROM memory_maintenance_jobs WHERE corpus = %s AND applied_change_id > %s "
            "AND rolled_back_by IS NULL AND job_type = %s AND %s = job_type ORDER BY applied_change_id DESC LIMIT 1",
            (run.corpus, target["applied_change_id"], JobType.CURATE, run.job_type),
        )
        if (later := cursor.fetchone()) is not None:
            raise RollbackError(
                f"run {run_id} (week {run.week}) cannot be rolled back: run {later[0]} (week {later[1]}) built on it. "
                f"Roll back the latest first: kb rollback {later[0]}"
            )
        actions = _actions(cursor, run_id, None)
        what = f"run {run_id}" if run.job_type is JobType.CURATOR_PASS else f"run {run_id} (week {run.week})"
        _refuse_if_reviewed(cursor, what, run.corpus, target, actions)
        change_id = open_change(cursor, run.corpus, "rollback", actor_type="person", actor_id=actor, run_id=run_id)
        _void(cursor, run.corpus, [*(row[0] for row in actions), score_action_id(run)], None, change_id)
        cursor.execute(
            "SELECT entry_id FROM quality_assessments WHERE corpus = %s AND action_id = %s",
            (run.corpus, score_action_id(run)),
        )
        scored = [row[0] for row in cursor.fetchall()]
        cursor.execute(
            "UPDATE memory_maintenance_jobs SET status = %s, rolled_back_by = %s WHERE run_id = %s",
            (RunStatus.ROLLED_BACK, change_id, run_id),
        )
        refresh(cursor, run.corpus, [*_touched(actions), *scored])
    return RolledBack(run_id, run.corpus, len(actions), tuple(_changed(actions)))


def roll_back_entry(database: Database, run_id: str, entry_id: str, *, actor: str) -> RolledBack:
    """Undoes what a run did to one entry, and remembers that a person wants to keep this text.

    Raises:
        UnknownNameError: no such run.
        RollbackError: the run did nothing to the entry, or a later run built on what it did.
        CorpusBusyError: somebody else works on the corpus.
    """
    require_rollback_target(database, run_id)
    run = load_run(database, run_id)
    with database.corpus_lock(run.corpus), database.transaction() as cursor:
        target = require_rollback_target(database, run_id)  # nobody has done it since
        own = _actions(cursor, run_id, entry_id)
        if not own:
            raise RollbackError(
                f"run {run_id} changed nothing about entry {entry_id!r}; kb explain {entry_id} tells its story"
            )
        later = later_run(cursor, run.corpus, target["applied_change_id"], _touched(own))
        if later is not None:
            raise RollbackError(
                f"entry {entry_id!r} cannot be rolled back from run {run_id}: run {later[0]} built on it "
                f"(entry {later[1]}). Roll that back first: kb rollback {later[0]}"
            )
        _refuse_if_reviewed(cursor, f"entry {entry_id!r} of run {run_id}", run.corpus, target, own)
        change_id = open_change(cursor, run.corpus, "rollback", actor_type="person", actor_id=actor, run_id=run_id)
        _void(cursor, run.corpus, [row[0] for row in own], entry_id, change_id)
        for rule in sorted({str(row[1]) for row in own}):
            cursor.execute(
                "INSERT INTO person_decisions (decision_id, corpus, decision, entry_id, content_hash, rule, actor_id, "
                "change_id, effective_at) SELECT %s, %s, 'keep', e.entry_id, e.content_hash, %s, %s, %s, now() "
                "FROM entries e WHERE e.corpus = %s AND e.entry_id = %s",
                (
                    derived_id("keep", change_id, entry_id, rule),
                    run.corpus,
                    rule,
                    actor,
                    change_id,
                    run.corpus,
                    entry_id,
                ),
            )
        refresh(cursor, run.corpus, _touched(own))
    return RolledBack(run_id, run.corpus, len(own), tuple(_changed(own)))


def _actions(cursor: Cursor, run_id: str, entry_id: str | None) -> list[tuple[str, str, str, str | None, str | None]]:
    """Actions of a run that still count: (action_id, action, entry_id, other_entry_id, to_state).

    For one entry: those about the entry itself, the strengthening of another that its refusal brought, and the
    conflicts it stands in on either side.
    """
    cursor.execute(
        """
        SELECT a.action_id, a.action, a.entry_id, a.other_entry_id, a.to_state
        FROM curation_actions a
        WHERE a.run_id = %(run)s
          AND (%(entry)s::text IS NULL
               OR (a.entry_id = %(entry)s AND a.action <> ALL (%(asks)s))
               OR (a.other_entry_id = %(entry)s AND a.action = ANY (%(either)s)))
          AND NOT EXISTS (SELECT 1 FROM event_voids v WHERE v.corpus = a.corpus AND v.action_id = a.action_id)
        ORDER BY a.action_id
        """,
        {
            "run": run_id,
            "entry": entry_id,
            "asks": [ActionType.RECOMMEND.value, ActionType.STRENGTHEN.value],
            "either": [
                ActionType.STRENGTHEN.value,
                ActionType.OPEN_CONFLICT.value,
                ActionType.CLOSE_CONFLICT.value,
            ],
        },
    )
    return list(cursor.fetchall())


def _void(cursor: Cursor, corpus: str, action_ids: list[str], entry_id: str | None, change_id: int) -> None:
    cursor.execute(
        "INSERT INTO event_voids (corpus, action_id, entry_id, change_id) SELECT %s, unnest(%s::text[]), %s, %s",
        (corpus, action_ids, entry_id, change_id),
    )


def _refuse_if_reviewed(
    cursor: Cursor,
    what: str,
    corpus: str,
    target: dict[str, Any],
    actions: list[tuple[str, str, str, str | None, str | None]],
) -> None:
    """What a person did to an entry since stands upon what the run did to it; what the run only asked about does not."""
    did = _touched([row for row in actions if row[1] != ActionType.RECOMMEND])
    review = later_review(cursor, corpus, target["applied_change_id"], did)
    if review is not None:
        raise RollbackError(
            f"{what} cannot be rolled back: a person's answer {review[0]} built on it (entry {review[1]}). Take that back "
            f"first: kb review undo {review[0]} --corpus {corpus}"
        )


def _touched(actions: list[tuple[str, str, str, str | None, str | None]]) -> set[str]:
    return {name for row in actions for name in (row[2], row[3]) if name}


def _changed(actions: list[tuple[str, str, str, str | None, str | None]]) -> list[str]:
    return sorted({row[2] for row in actions if row[4]})
