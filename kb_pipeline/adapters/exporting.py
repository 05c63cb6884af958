"""Export: the entries of a corpus as canonical JSON lines that an import takes back.

Belongs here: the order and form of an export row. One entry a line, sorted by id (bytewise), keys sorted, times in UTC.
Fields that say nothing (null, empty list, false) are left out, but for those that an export always holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.rows import canonical_json, format_time
from kb_pipeline.errors import UnknownNameError
from kb_pipeline.vocabulary import ActionType, Mode, UsageType

_ALWAYS = frozenset(
    {"state", "state_reason", "state_changed_at", "merged_into", "superseded_by", "conflict_state", "content_hash"}
    | {"title", "body", "attempts", "successes", "retrievals", "confidence", "quality_score", "distinctiveness"}
)
_DEFAULTS = {"review_state": "unreviewed", "sensitivity": "internal"}
_JSON = ("alternatives", "steps", "tags", "supersedes", "generated_from", "visible_to", "invalidation_policy")
_CHUNK_ROWS = 20_000
_OWN_USAGE = (UsageType.BASELINE, UsageType.MATCHED, UsageType.TRANSFERRED)


def export_lines(
    database: Database, corpus: str, *, as_of: datetime | None = None, full: bool = False
) -> Iterator[str]:
    """The entries of a corpus, one canonical JSON line each (without the newline), sorted by id.

    Args:
        database: where from.
        corpus: corpus; unknown names are refused.
        as_of: the state at this time; None is now.
        full: with single usage rows and the keys of cached vectors and verdicts.

    Raises:
        UnknownNameError: no such corpus.
    """
    require_corpus(database, corpus)
    time = "infinity" if as_of is None else format_time(as_of)
    change = last_change(database, corpus)
    snapshot = f"entry_snapshot($1, '{time}', {change})"
    ids = database.read(f'SELECT entry_id FROM {snapshot} ORDER BY entry_id COLLATE "C"', (corpus,))["entry_id"]
    for start in range(0, len(ids), _CHUNK_ROWS):
        chosen = ids[start : start + _CHUNK_ROWS].to_list()
        yield from _chunk(database, corpus, time or "infinity", change, chosen, full)


def known_corpora(database: Database) -> list[str]:
    """Names of all corpora, sorted."""
    return database.read('SELECT corpus FROM corpora ORDER BY corpus COLLATE "C"')["corpus"].to_list()


def require_corpus(database: Database, corpus: str) -> None:
    """Raises UnknownNameError when there is no such corpus."""
    names = known_corpora(database)
    if corpus not in names:
        raise UnknownNameError("corpus", corpus, names, "Import one with: kb import FILE --corpus NAME")


def last_change(database: Database, corpus: str) -> int:
    """Number of the last change of a corpus; 0 before the first."""
    frame = database.read("SELECT coalesce(max(change_id), 0) AS last FROM changes WHERE corpus = $1", (corpus,))
    return int(frame["last"][0])


def _chunk(database: Database, corpus: str, time: str, change: int, ids: list[str], full: bool) -> Iterator[str]:
    # Ids are sorted and without gaps, so a range selects exactly them; the function takes an array, built in SQL.
    within = (
        "(SELECT array_agg(e.entry_id) FROM entries e WHERE e.corpus = $1 AND e.entry_id >= $2 AND e.entry_id <= $3)"
    )
    arguments = (corpus, ids[0], ids[-1])
    entries = database.read(
        f"""
        SELECT s.entry_id AS id, v.imported_vector_key, v.imported_verdict_keys::text, s.kind,
               s.title, s.body, s.rationale, s.alternatives::text, s.steps::text,
               s.tags::text, s.tenant, s.repository, s.module, s.confidence, s.pinned, s.keep_distinct,
               s.review_state, s.sensitivity, s.created_at, s.updated_at, s.expires_at, s.last_validated_at,
               s.completed_at, s.supersedes::text, s.generated_from::text, s.visible_to::text, s.origin,
               s.source_type, s.proposed_by, s.author, s.invalidation_policy::text, s.extra::text, s.content_hash,
               s.state, s.state_reason, s.state_changed_at, s.merged_into, s.superseded_by, s.conflict_state,
               s.attempts, s.successes, s.retrievals, s.last_matched_at, s.last_retrieved_at, s.quality_score,
               s.distinctiveness
        FROM entry_snapshot($1, '{time}', {change}, {within}) s
        JOIN entry_versions v ON v.corpus = $1 AND v.entry_id = s.entry_id AND v.version_number = s.version_number
        ORDER BY s.entry_id COLLATE "C"
        """,
        arguments,
    )
    evidence = _grouped(
        database.read(
            f"""
            SELECT entry_id, evidence_type AS type, path, commit_sha AS commit, line_start, line_end, symbol, edge, ref,
                   extra::text AS extra
            FROM visible_evidence($1, '{time}', {change}, {within})
            ORDER BY entry_id COLLATE "C", transferred, position_number, evidence_key
            """,
            arguments,
        )
    )
    usage: dict[str, list[dict[str, Any]]] = {}
    verdict_keys: dict[str, list[str]] = {}
    model: str | None = None
    if full:
        usage = _grouped(_usage_rows(database, time, change, arguments))
        verdict_keys = dict(_verdict_keys(database, time, change, arguments).iter_rows())
        model = _model_in_force(database, corpus, time, change)
    for row in entries.iter_rows(named=True):
        vector_key, imported_keys = row.pop("imported_vector_key"), _loaded(row.pop("imported_verdict_keys")) or []
        extra = _loaded(row.pop("extra")) or {}
        values = _entry(row)
        values["evidence"] = [_with_extra(piece) for piece in evidence.get(row["id"], [])]
        if full:
            values["usage"] = [
                _without_nothing(use | {"outcome": _loaded(use["outcome"])}) for use in usage.get(row["id"], [])
            ]
            values["vector_key"] = vector_key if model is None else f"{model}:{row['content_hash']}"
            values["verdict_keys"] = sorted({*imported_keys, *verdict_keys.get(row["id"], [])})
        # What users wrote in fields of their own comes back as it was, nothing included.
        yield canonical_json(extra | _without_nothing(values))


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    values = row | {name: _loaded(row[name]) for name in _JSON}
    return values | {name: None for name, default in _DEFAULTS.items() if values[name] == default}


def _with_extra(piece: dict[str, Any]) -> dict[str, Any]:
    extra = _loaded(piece.pop("extra")) or {}
    return extra | _without_nothing(piece)


def _without_nothing(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if name in _ALWAYS or (value is not None and value is not False and value != [])
    }


def _loaded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _grouped(frame: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        groups.setdefault(row.pop("entry_id"), []).append(row)
    return groups


def _usage_rows(database: Database, time: str, change: int, arguments: tuple[str, str, str]) -> pl.DataFrame:
    hidden = ", ".join(f"'{name}'" for name in _OWN_USAGE)
    return database.read(
        f"""
        SELECT u.entry_id, u.event_id AS id, u.usage_type AS type, u.effective_at AS at, u.workflow_run, u.context_pack,
               u.used_in, u.outcome::text AS outcome
        FROM usage_events u
        WHERE u.corpus = $1 AND u.entry_id >= $2 AND u.entry_id <= $3 AND u.effective_at < '{time}'
          AND u.change_id <= {change} AND u.usage_type NOT IN ({hidden})
          AND (u.action_id IS NULL OR NOT EXISTS (
                   SELECT 1 FROM event_voids x
                   WHERE x.corpus = $1 AND x.action_id = u.action_id AND x.change_id <= {change}))
        ORDER BY u.entry_id COLLATE "C", u.effective_at, u.event_id
        """,
        arguments,
    )


def _model_in_force(database: Database, corpus: str, time: str, change: int) -> str | None:
    """Fingerprint of the model whose vectors the last run rested on that counts; None before the first.

    Taken from the runs, not from what the caches happen to hold: a rollback takes it back. A run that only recommends
    leaves no mark on an entry.
    """
    frame = database.read(
        f"""
        SELECT j.model_fingerprint
        FROM memory_maintenance_jobs j
        WHERE j.corpus = $1 AND j.applied_change_id <= {change} AND j.as_of < '{time}' AND j.mode = '{Mode.APPLY}'
          AND (j.rolled_back_by IS NULL OR j.rolled_back_by > {change})
        ORDER BY j.applied_change_id DESC
        LIMIT 1
        """,
        (corpus,),
    )
    return None if frame.is_empty() else frame["model_fingerprint"][0]


def _verdict_keys(database: Database, time: str, change: int, arguments: tuple[str, str, str]) -> pl.DataFrame:
    """Verdicts that stand behind each entry's present state: entry_id and keys, taken from the actions that count."""
    return database.read(
        f"""
        SELECT m.entry_id, array_agg(DISTINCT a.judge || ':' || a.content_hash || ':' || a.other_content_hash) AS keys
        FROM curation_actions a
        CROSS JOIN LATERAL (VALUES (a.entry_id), (a.other_entry_id)) AS m (entry_id)
        WHERE a.corpus = $1 AND m.entry_id >= $2 AND m.entry_id <= $3 AND a.verdict IS NOT NULL
          AND a.action <> '{ActionType.RECOMMEND}'
          AND a.change_id <= {change} AND a.effective_at < '{time}'
          AND NOT EXISTS (
              SELECT 1 FROM event_voids x
              WHERE x.corpus = $1 AND x.action_id = a.action_id AND x.change_id <= {change})
        GROUP BY m.entry_id
        """,
        arguments,
    )
