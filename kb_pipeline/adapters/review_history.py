"""What stands on what: whether something that a person or a run did may still be taken back.

Belongs here: the order in which things are undone. Everything that changed an entry afterwards, and counts, is undone
first.
"""

from __future__ import annotations

from collections.abc import Iterable

from kb_pipeline.adapters.database import Cursor
from kb_pipeline.vocabulary import ActionType

_VOIDED = "EXISTS (SELECT 1 FROM event_voids v WHERE v.corpus = a.corpus AND v.action_id = a.action_id)"


def later_review(cursor: Cursor, corpus: str, change_id: int, entry_ids: Iterable[str]) -> tuple[str, str] | None:
    """(action id, entry id) of the latest answer after a change that changed one of these entries and still counts."""
    cursor.execute(
        f"""
        SELECT a.action_id, m.value FROM review_actions a
        CROSS JOIN LATERAL json_array_elements_text(a.touched_ids) m
        WHERE a.corpus = %s AND a.change_id > %s AND a.changes_entries AND m.value = ANY (%s) AND NOT {_VOIDED}
        ORDER BY a.change_id DESC, m.value LIMIT 1
        """,
        (corpus, change_id, sorted(set(entry_ids))),
    )
    row = cursor.fetchone()
    return (row[0], row[1]) if row else None


def later_run(cursor: Cursor, corpus: str, change_id: int, entry_ids: Iterable[str]) -> tuple[str, str] | None:
    """(run id, entry id) of a run after a change that did something to one of these entries and still counts."""
    cursor.execute(
        f"""
        SELECT a.run_id, m.entry_id FROM curation_actions a
        CROSS JOIN LATERAL (VALUES (a.entry_id), (a.other_entry_id)) AS m (entry_id)
        WHERE a.corpus = %s AND a.change_id > %s AND a.action <> %s AND m.entry_id = ANY (%s) AND NOT {_VOIDED}
        ORDER BY a.change_id DESC LIMIT 1
        """,
        (corpus, change_id, ActionType.RECOMMEND, sorted(set(entry_ids))),
    )
    row = cursor.fetchone()
    return (row[0], row[1]) if row else None
