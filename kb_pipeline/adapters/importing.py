"""Import: rows of a file become versions, states, use and evidence of a corpus, in one transaction.

Belongs here: reading what is known of the rows' entries, and writing what the rows change. What that is stands in
row_changes.

Times (definitions, "Time"): a version takes effect at the later of created_at and updated_at; a row without either is
dated at the start of the last complete week.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.database import Cursor, Database, copy_in
from kb_pipeline.adapters.row_changes import TOTALS, Known, RowChanges, Source, take_row
from kb_pipeline.adapters.row_files import Chunk, Reject
from kb_pipeline.adapters.rows import RowFault, canonical_json
from kb_pipeline.vocabulary import State

_FULL_REFRESH_ROWS = 20_000
_REVIEWED = ("body", "updated_at", "review_state", "last_validated_at")
"""Fields that a person's answer can change, in the order in which they are read below."""


@dataclass
class ImportResult:
    """What an import did: numbers of rows, and the rejected ones."""

    accepted: int = 0
    updated: int = 0
    unchanged: int = 0
    rejects: list[Reject] = field(default_factory=list)


def import_rows(
    database: Database,
    corpus: str,
    chunks: Iterable[Chunk],
    *,
    actor: str,
    now: datetime,
    progress: Callable[[int], None] | None = None,
) -> ImportResult:
    """Takes rows into a corpus: all of them in one transaction, or none.

    Args:
        database: where to.
        corpus: corpus; created when it does not exist.
        chunks: rows of a file, see row_files.read_chunks.
        actor: who imports.
        now: the clock, for rows without times.
        progress: told the number of rows seen so far, after each chunk.

    Returns:
        Numbers of new, updated and unchanged rows, and the rejected ones with their reasons.

    Raises:
        CorpusBusyError: a run or another import holds the corpus.
        DatabaseError: the database went away; nothing was imported.
    """
    result = ImportResult()
    seen = 0
    with database.corpus_lock(corpus), database.transaction() as cursor:
        cursor.execute("SET LOCAL work_mem = '256MB'")
        cursor.execute("INSERT INTO corpora (corpus) VALUES (%s) ON CONFLICT DO NOTHING", (corpus,))
        change_id = open_change(cursor, corpus, "import", actor_type="person", actor_id=actor)
        source = Source(corpus, change_id, actor, last_complete_week(now))
        touched: set[str] = set()
        for chunk in chunks:
            known = _known(cursor, corpus, [row.id for row in chunk.rows], change_id)
            batch = RowChanges()
            for line, row in zip(chunk.lines, chunk.rows, strict=True):
                try:
                    outcome = take_row(batch, known.get(row.id), row, source)
                except RowFault as fault:
                    shown = row.model_dump_json(exclude_none=True, exclude_defaults=True)
                    chunk.rejects.append(Reject(line, fault.field, fault.reason, shown))
                    continue
                setattr(result, outcome, getattr(result, outcome) + 1)
            _write(cursor, batch)
            touched |= batch.touched
            result.rejects.extend(sorted(chunk.rejects, key=lambda reject: reject.line))
            seen += len(chunk.rows) + len(chunk.rejects)
            if progress:
                progress(seen)
        if touched:
            for table in ("entry_versions", "entry_state_history", "usage_events", "evidence"):
                cursor.execute(f"ANALYZE {table}")
            refresh(cursor, corpus, touched)
        else:
            # Nothing changed: not even a trace of a change is left.
            cursor.execute("DELETE FROM changes WHERE change_id = %s", (change_id,))
            cursor.execute(
                "DELETE FROM corpora c WHERE c.corpus = %s AND NOT EXISTS "
                "(SELECT 1 FROM changes d WHERE d.corpus = c.corpus)",
                (corpus,),
            )
    return result


def open_change(
    cursor: Cursor,
    corpus: str,
    change_type: str,
    *,
    actor_type: str,
    actor_id: str,
    run_id: str | None = None,
    details: dict[str, Any] | None = None,
) -> int:
    """Records that a corpus is about to change and returns the change's number, larger than all before it."""
    cursor.execute(
        "INSERT INTO changes (corpus, change_type, run_id, actor_type, actor_id, details) "
        "VALUES (%s, %s, %s, %s, %s, %s) RETURNING change_id",
        (corpus, change_type, run_id, actor_type, actor_id, canonical_json(details) if details else None),
    )
    row = cursor.fetchone()
    assert row is not None  # noqa: S101 - RETURNING always gives the row
    return int(row[0])


def refresh(cursor: Cursor, corpus: str, entry_ids: Iterable[str]) -> None:
    """Brings the projection of these entries up to date with the histories."""
    ids = sorted(set(entry_ids))
    if len(ids) > _FULL_REFRESH_ROWS:
        cursor.execute("SELECT refresh_entries(%s)", (corpus,))
    elif ids:
        cursor.execute("SELECT refresh_entries(%s, %s)", (corpus, ids))


def last_complete_week(now: datetime) -> datetime:
    """Monday 00:00 UTC of the last week that has ended."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=midnight.weekday() + 7)


def _known(cursor: Cursor, corpus: str, entry_ids: list[str], change_id: int) -> dict[str, Known]:
    cursor.execute(
        """
        -- The entries first: of a corpus that this transaction fills, statistics know nothing, and a planner that takes
        -- it for empty would look every version of it up among the ids.
        WITH e AS MATERIALIZED (SELECT * FROM entries WHERE corpus = %s AND entry_id = ANY (%s))
        SELECT e.entry_id, e.version_number, v.version_hash, v.evidence_hash, coalesce(v.imported_state, 'active'),
               e.state, e.state_changed_at, e.last_matched_at, e.last_retrieved_at, e.attempts, e.successes,
               e.retrievals, coalesce(v.imported_attempts, 0), coalesce(v.imported_successes, 0),
               coalesce(v.imported_retrievals, 0)
        FROM e JOIN entry_versions v USING (corpus, entry_id, version_number)
        """,
        (corpus, entry_ids),
    )
    known: dict[str, Known] = {}
    for entry_id, number, version, evidence, said, state, since, matched, retrieved, *counts in cursor.fetchall():
        known[entry_id] = Known(
            version_number=number,
            version_hash=version,
            evidence_hash=evidence,
            evidence_keys=set(),
            imported_state=State(said),
            imported=dict(zip(TOTALS, counts[3:], strict=True)),
            state=State(state),
            state_changed_at=since,
            totals=dict(zip(TOTALS, counts[:3], strict=True)),
            own_totals=dict.fromkeys(TOTALS, 0),
            last_matched_at=matched,
            last_retrieved_at=retrieved,
            usage_ids=set(),
        )
    if not known:
        return known
    ids = sorted(known)
    cursor.execute(
        """
        SELECT s.entry_id, s.body, v.body, s.updated_at, v.updated_at, s.review_state, v.review_state,
               s.last_validated_at, v.last_validated_at
        FROM entry_snapshot(%(corpus)s, 'infinity', %(change)s, (
            SELECT coalesce(array_agg(t.entry_id), '{}') FROM (
                SELECT d.entry_id FROM entry_edits d WHERE d.corpus = %(corpus)s AND d.entry_id = ANY (%(ids)s)
                UNION SELECT a.entry_id FROM entry_approvals a WHERE a.corpus = %(corpus)s AND a.entry_id = ANY (%(ids)s)
            ) t)) s
        JOIN entry_versions v ON v.corpus = %(corpus)s AND v.entry_id = s.entry_id AND v.version_number = s.version_number
        WHERE s.entry_id = ANY (%(ids)s)
        """,
        {"corpus": corpus, "change": change_id, "ids": ids},
    )
    for entry_id, *values in cursor.fetchall():
        known[entry_id].reviewed = dict(zip(_REVIEWED, zip(values[::2], values[1::2], strict=True), strict=True))
    cursor.execute(
        "SELECT entry_id, event_id, action_id IS NULL, attempts, successes, retrievals FROM usage_events "
        "WHERE corpus = %s AND entry_id = ANY (%s)",
        (corpus, ids),
    )
    for entry_id, event_id, is_own, *numbers in cursor.fetchall():
        known[entry_id].usage_ids.add(event_id)
        if is_own:
            own = known[entry_id].own_totals
            own.update({name: own[name] + number for name, number in zip(TOTALS, numbers, strict=True)})
    cursor.execute(
        "SELECT entry_id, evidence_key FROM visible_evidence(%s, 'infinity', %s, %s)", (corpus, change_id, ids)
    )
    for entry_id, key in cursor.fetchall():
        known[entry_id].evidence_keys.add(key)
    return known


_USAGE_SCHEMA: dict[str, Any] = (
    dict.fromkeys(("corpus", "entry_id", "event_id", "usage_type"), pl.String)
    | {"effective_at": schemas.Time, "change_id": pl.Int64, "action_id": pl.String}
    | dict.fromkeys(("workflow_run", "context_pack", "used_in", "outcome"), pl.String)
    | dict.fromkeys(("attempts", "successes", "retrievals"), pl.Int64)
    | dict.fromkeys(("matched_at", "retrieved_at"), schemas.Time)
)


def _write(cursor: Cursor, batch: RowChanges) -> None:
    copy_in(cursor, "entry_versions", _frame(batch.versions))
    copy_in(cursor, "entry_state_history", _frame(batch.states))
    copy_in(cursor, "evidence", _frame(batch.evidence))
    copy_in(cursor, "quality_assessments", _frame(batch.assessments))
    if batch.usage:
        frame = pl.DataFrame(batch.usage, schema=_USAGE_SCHEMA).with_columns(
            pl.col("attempts", "successes", "retrievals").fill_null(0)
        )
        add_usage(cursor, frame)
        batch.touched.update(frame["entry_id"].unique().to_list())


def add_usage(cursor: Cursor, frame: pl.DataFrame) -> int:
    """Appends usage events, leaving out those that are known already. Returns how many were new."""
    cursor.execute("CREATE TEMP TABLE incoming_usage (LIKE usage_events INCLUDING DEFAULTS) ON COMMIT DROP")
    copy_in(cursor, "incoming_usage", frame)
    cursor.execute("INSERT INTO usage_events SELECT * FROM incoming_usage ON CONFLICT DO NOTHING")
    added = int(cursor.rowcount)
    cursor.execute("DROP TABLE incoming_usage")
    return added


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    if not rows:
        return pl.DataFrame()
    return pl.DataFrame(rows, infer_schema_length=None)
