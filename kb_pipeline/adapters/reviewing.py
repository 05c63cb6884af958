"""Reviewing: writes what an answer does to the histories, in one transaction, and takes it back.

Belongs here: how the effects of an answer become events of one action. Nothing is overwritten: an undo voids the action,
and every projection returns to what it was. The caller holds the corpus lock and has read what it answers under it.

An answer takes effect at the clock, but never before the end of the last week that was applied, nor before what it
answers: what came later is never hidden behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kb_pipeline.adapters.applying import bring_evidence
from kb_pipeline.adapters.database import Cursor, Database
from kb_pipeline.adapters.importing import open_change, refresh
from kb_pipeline.adapters.review_effects import Edited, Effects, Move
from kb_pipeline.adapters.review_history import later_review, later_run
from kb_pipeline.adapters.rows import canonical_json, derived_id
from kb_pipeline.errors import ReviewError, UnknownNameError
from kb_pipeline.vocabulary import LIVE_STATES, ReasonCode, UsageType

_PERSON, _RULE = "person", "review"


@dataclass(frozen=True)
class Shown:
    """What a person was shown when answering: entries with the hashes of their texts, in the order of the question."""

    texts: Mapping[str, str]
    recommendation_id: str | None = None
    recommendation_type: str | None = None


@dataclass(frozen=True)
class Reviewed:
    """An answer that was written."""

    action_id: str
    corpus: str
    effective_at: datetime


@dataclass(frozen=True)
class Undone:
    """An answer that was taken back."""

    action_id: str
    corpus: str
    action: str
    recommendation_id: str | None
    entry_ids: tuple[str, ...]


def write_review(
    database: Database,
    corpus: str,
    action: str,
    shown: Shown,
    effects: Effects,
    *,
    actor: str,
    now: datetime,
    details: dict[str, Any] | None = None,
) -> Reviewed:
    """Writes an answer: all of it, or nothing. The caller holds the corpus lock.

    Args:
        database: where to.
        corpus: the corpus.
        action: word of the answer (ReviewAction).
        shown: what the person was shown.
        effects: what the answer does.
        actor: who answers.
        now: the clock.
        details: what is recorded beside it: the ticks of an approval, specifics that an edit loses.

    Raises:
        DatabaseError: the database went away; nothing was written.
    """
    ids = list(shown.texts)
    with database.transaction() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 4022))", (corpus,))
        effective_at = _effective_at(cursor, corpus, ids, now)
        change_id = open_change(cursor, corpus, "review", actor_type=_PERSON, actor_id=actor)
        action_id = derived_id(corpus, "review", change_id)
        stamp = _Stamp(corpus, action_id, change_id, effective_at, actor)
        _transfer(cursor, stamp, effects.merges)
        _move(cursor, stamp, effects.moves)
        _edit(cursor, stamp, effects.edits)
        _approve(cursor, stamp, shown.texts, effects)
        _settle(cursor, stamp, shown.texts, effects)
        touched = sorted({*ids, *_end_conflicts(cursor, stamp, ids, effects)})
        cursor.execute(
            "INSERT INTO review_actions (action_id, corpus, action, recommendation_id, recommendation_type, resolution, "
            "entry_ids, content_hashes, touched_ids, changes_entries, details, actor_id, change_id, effective_at) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                action_id, corpus, action, shown.recommendation_id, shown.recommendation_type, effects.resolution,
                canonical_json(ids), canonical_json(list(shown.texts.values())), canonical_json(touched), effects.changes_entries,
                canonical_json(details) if details else None, actor, change_id, effective_at,
            ),
        )  # fmt: skip
        refresh(cursor, corpus, touched)
    return Reviewed(action_id, corpus, effective_at)


def undo_review(database: Database, corpus: str, target: str, *, actor: str) -> Undone:
    """Takes an answer back: everything is as it was without it, and its question is open again.

    Args:
        database: where to.
        corpus: the corpus.
        target: id of the answer, or of the question that it answers.
        actor: who takes it back.

    Raises:
        UnknownNameError: no such answer.
        ReviewError: it was taken back already, or something was built on it.
        CorpusBusyError: somebody else works on the corpus.
    """
    with database.corpus_lock(corpus, wait_seconds=10), database.transaction() as cursor:
        cursor.execute(
            """
            SELECT a.action_id, a.action, a.recommendation_id, a.entry_ids, a.touched_ids, a.changes_entries, a.change_id,
                   EXISTS (SELECT 1 FROM event_voids v WHERE v.corpus = a.corpus AND v.action_id = a.action_id) AS undone
            FROM review_actions a
            WHERE a.corpus = %(corpus)s AND (a.action_id = %(target)s OR a.recommendation_id = %(target)s)
            ORDER BY undone, a.change_id DESC LIMIT 1
            """,
            {"corpus": corpus, "target": target},
        )
        row = cursor.fetchone()
        if row is None:
            cursor.execute("SELECT action_id FROM review_actions WHERE corpus = %s", (corpus,))
            known = [found[0] for found in cursor.fetchall()]
            raise UnknownNameError(
                f"answer of corpus {corpus}", target, known, "kb explain ENTRY tells an entry's answers."
            )
        action_id, action, recommendation_id, ids, touched, changes_entries, made_by, undone = row
        if undone:
            raise ReviewError(f"answer {action_id} was taken back already; nothing was changed")
        if changes_entries:
            _refuse_if_built_on(cursor, corpus, action_id, made_by, touched)
        change_id = open_change(
            cursor, corpus, "review", actor_type=_PERSON, actor_id=actor, details={"undoes": action_id}
        )
        cursor.execute(
            "INSERT INTO event_voids (corpus, action_id, change_id) VALUES (%s, %s, %s)", (corpus, action_id, change_id)
        )
        refresh(cursor, corpus, touched)
    return Undone(action_id, corpus, action, recommendation_id, tuple(ids))


@dataclass(frozen=True)
class _Stamp:
    corpus: str
    action_id: str
    change_id: int
    effective_at: datetime
    actor: str


def _effective_at(cursor: Cursor, corpus: str, ids: list[str], now: datetime) -> datetime:
    cursor.execute(
        """
        SELECT greatest(%s, (
            SELECT max(as_of) FROM memory_maintenance_jobs
            WHERE corpus = %s AND applied_change_id IS NOT NULL AND rolled_back_by IS NULL
        ), (
            SELECT max(greatest(e.state_changed_at, v.effective_at))
            FROM entries e JOIN entry_versions v USING (corpus, entry_id, version_number)
            WHERE e.corpus = %s AND e.entry_id = ANY (%s)
        ))
        """,
        (now, corpus, corpus, ids),
    )
    row = cursor.fetchone()
    assert row is not None  # noqa: S101 - a query without a table always gives its row
    at: datetime = row[0]
    return at


def _transfer(cursor: Cursor, stamp: _Stamp, merges: Sequence[tuple[str, str]]) -> None:
    """Use and evidence of a merged entry go to the one that stays, as events of their own (K9)."""
    for giver, receiver in merges:
        cursor.execute(
            "INSERT INTO usage_events (corpus, entry_id, event_id, usage_type, effective_at, change_id, action_id, "
            "attempts, successes, retrievals, matched_at, retrieved_at) "
            "SELECT corpus, %s, %s, %s, %s, %s, %s, attempts, successes, retrievals, last_matched_at, last_retrieved_at "
            "FROM entries WHERE corpus = %s AND entry_id = %s",
            (
                receiver, stamp.action_id, UsageType.TRANSFERRED, stamp.effective_at, stamp.change_id, stamp.action_id,
                stamp.corpus, giver,
            ),
        )  # fmt: skip
        bring_evidence(
            cursor,
            stamp.corpus,
            [(giver, receiver, stamp.action_id)],
            change_id=stamp.change_id,
            effective_at=stamp.effective_at,
            seen_at=None,
            seen_change_id=stamp.change_id,
        )


def _move(cursor: Cursor, stamp: _Stamp, moves: Sequence[Move]) -> None:
    for number, move in enumerate(moves):
        cursor.execute(
            "INSERT INTO entry_state_history (event_id, corpus, entry_id, from_state, to_state, reason, rule, merged_into, "
            "superseded_by, actor_type, actor_id, action_id, change_id, effective_at) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                derived_id(stamp.action_id, number), stamp.corpus, move.entry_id, move.from_state, move.to_state,
                move.reason, _RULE, move.merged_into, move.superseded_by, _PERSON, stamp.actor, stamp.action_id,
                stamp.change_id, stamp.effective_at,
            ),
        )  # fmt: skip


def _edit(cursor: Cursor, stamp: _Stamp, edits: Sequence[Edited]) -> None:
    for entry in edits:
        cursor.execute(
            "INSERT INTO entry_edits (action_id, corpus, entry_id, source_hash, body, content_hash, change_id, "
            "effective_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (
                stamp.action_id, stamp.corpus, entry.entry_id, entry.source_hash, entry.body, entry.content_hash,
                stamp.change_id, stamp.effective_at,
            ),
        )  # fmt: skip


def _approve(cursor: Cursor, stamp: _Stamp, texts: Mapping[str, str], effects: Effects) -> None:
    for entry_id in sorted({*effects.approved, *effects.validated}):
        cursor.execute(
            "INSERT INTO entry_approvals (action_id, corpus, entry_id, content_hash, approves, validated_at, change_id, "
            "effective_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (
                stamp.action_id, stamp.corpus, entry_id, texts[entry_id], entry_id in effects.approved,
                stamp.effective_at if entry_id in effects.validated else None, stamp.change_id, stamp.effective_at,
            ),
        )  # fmt: skip


def _settle(cursor: Cursor, stamp: _Stamp, texts: Mapping[str, str], effects: Effects) -> None:
    """What the person said of the texts: that two are two, or that a rule leaves one alone."""
    if effects.settles is not None:
        left, right = sorted(texts)
        cursor.execute(
            "INSERT INTO pair_decisions (action_id, corpus, entry_id_l, entry_id_r, content_hash_l, content_hash_r, covers, "
            "change_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (
                stamp.action_id, stamp.corpus, left, right, texts[left], texts[right], effects.settles, stamp.change_id,
            ),
        )  # fmt: skip
    for entry_id, rule in effects.spares:
        cursor.execute(
            "INSERT INTO person_decisions (decision_id, corpus, decision, entry_id, content_hash, rule, actor_id, "
            "change_id, effective_at, action_id) VALUES (%s, %s, 'keep', %s, %s, %s, %s, %s, %s, %s)",
            (
                derived_id("keep", stamp.change_id, entry_id, rule), stamp.corpus, entry_id, texts[entry_id], rule,
                stamp.actor, stamp.change_id, stamp.effective_at, stamp.action_id,
            ),
        )  # fmt: skip


def _end_conflicts(cursor: Cursor, stamp: _Stamp, ids: list[str], effects: Effects) -> set[str]:
    """Ends the conflict that was decided, and those of entries that leave or say another thing. Returns their entries."""
    gone = [move.entry_id for move in effects.moves if move.to_state not in LIVE_STATES]
    changed = [entry.entry_id for entry in effects.edits]
    cursor.execute(
        """
        INSERT INTO conflicts (conflict_id, corpus, conflict_type, severity, status, action, reason, tenant, repository,
                               module, entry_id_l, entry_id_r, content_hash_l, content_hash_r, explanation, resolution,
                               action_id, run_id, change_id, effective_at)
        SELECT last.conflict_id, last.corpus, last.conflict_type, last.severity, 'resolved', 'none', why.reason,
               last.tenant, last.repository, last.module, last.entry_id_l, last.entry_id_r, last.content_hash_l,
               last.content_hash_r, last.explanation,
               CASE WHEN why.reason = %(decided)s THEN %(resolution)s END, %(action)s, NULL, %(change)s,
               greatest(%(at)s, last.effective_at)
        FROM (
            SELECT DISTINCT ON (c.conflict_id) c.* FROM conflicts c
            WHERE c.corpus = %(corpus)s AND (c.entry_id_l = ANY (%(ids)s) OR c.entry_id_r = ANY (%(ids)s))
              AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = c.corpus AND x.action_id = c.action_id)
            ORDER BY c.conflict_id, c.effective_at DESC, c.change_id DESC
        ) last
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN %(resolution)s::text IS NOT NULL AND last.entry_id_l = ANY (%(ids)s)
                     AND last.entry_id_r = ANY (%(ids)s) THEN %(decided)s
                WHEN last.entry_id_l = ANY (%(gone)s) OR last.entry_id_r = ANY (%(gone)s) THEN %(side_gone)s
                WHEN last.entry_id_l = ANY (%(changed)s) OR last.entry_id_r = ANY (%(changed)s) THEN %(text_changed)s
            END AS reason
        ) why
        WHERE last.status = 'open' AND why.reason IS NOT NULL
        RETURNING entry_id_l, entry_id_r
        """,
        {
            "corpus": stamp.corpus, "ids": ids, "gone": gone, "changed": changed, "resolution": effects.resolution,
            "action": stamp.action_id, "change": stamp.change_id, "at": stamp.effective_at,
            "decided": ReasonCode.REVIEW_CONFLICT_DECIDED.value,
            "side_gone": ReasonCode.CONFLICTS_SIDE_GONE.value,
            "text_changed": ReasonCode.CONFLICTS_TEXT_CHANGED.value,
        },
    )  # fmt: skip
    return {name for row in cursor.fetchall() for name in row}


def _refuse_if_built_on(cursor: Cursor, corpus: str, action_id: str, change_id: int, ids: list[str]) -> None:
    if (review := later_review(cursor, corpus, change_id, ids)) is not None:
        raise ReviewError(
            f"answer {action_id} cannot be taken back: answer {review[0]} built on it (entry {review[1]}). Take that back "
            f"first: kb review undo {review[0]} --corpus {corpus}"
        )
    if (run := later_run(cursor, corpus, change_id, ids)) is not None:
        raise ReviewError(
            f"answer {action_id} cannot be taken back: run {run[0]} built on it (entry {run[1]}). Roll that back first: "
            f"kb rollback {run[0]}"
        )
