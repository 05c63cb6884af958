"""An entry's story: what it says, how it came to be as it is, who decided it by which rule, and how to undo it.

Belongs here: reading the histories of one entry, and telling them in plain words.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import last_change, require_corpus
from kb_pipeline.adapters.rows import format_time
from kb_pipeline.errors import UnknownNameError
from kb_pipeline.vocabulary import ActionType

_DOING = {
    ActionType.OPEN_CONFLICT: "conflict opened",
    ActionType.CLOSE_CONFLICT: "conflict closed",
    ActionType.RECOMMEND: "a person was asked",
}
_ENTRY = "c.corpus = $1 AND c.entry_id = $2"
_VOIDED = "EXISTS (SELECT 1 FROM event_voids v WHERE v.corpus = c.corpus AND v.action_id = c.action_id)"


def load_story(database: Database, corpus: str, entry_id: str) -> dict[str, Any]:
    """Everything that is recorded of an entry, as plain values.

    Raises:
        UnknownNameError: no such corpus or entry; the nearest ids are offered.
    """
    require_corpus(database, corpus)
    change = last_change(database, corpus)
    frame = database.read(
        f"""
        SELECT s.entry_id, s.kind, s.title, s.tenant, s.repository, s.module, s.state, s.state_reason,
               s.state_changed_at, s.merged_into, s.superseded_by, s.conflict_state, s.confidence, s.pinned,
               s.review_state, s.sensitivity, s.attempts, s.successes, s.retrievals, s.last_matched_at, s.created_at,
               s.updated_at, s.expires_at, s.evidence_count, s.distinctiveness, s.quality_score, s.content_hash,
               s.version_number, s.edit_action_id IS NOT NULL AS edited
        FROM entry_snapshot($1, 'infinity', {change}, ARRAY[$2::text]) s
        """,
        (corpus, entry_id),
    )
    if frame.is_empty():
        ids = database.read("SELECT entry_id FROM entries WHERE corpus = $1", (corpus,))["entry_id"].to_list()
        raise UnknownNameError(f"entry of corpus {corpus}", entry_id, ids)
    entry = frame.row(0, named=True)
    conflicts = _rows(
        database,
        f"""
        SELECT last.conflict_id, last.conflict_type, last.severity, last.other FROM (
            SELECT DISTINCT ON (c.conflict_id) c.conflict_id, c.conflict_type, c.severity, c.status,
                   CASE WHEN c.entry_id_l = $2 THEN c.entry_id_r ELSE c.entry_id_l END AS other
            FROM conflicts c
            WHERE c.corpus = $1 AND (c.entry_id_l = $2 OR c.entry_id_r = $2) AND NOT {_VOIDED}
            ORDER BY c.conflict_id, c.effective_at DESC, c.change_id DESC
        ) last WHERE last.status = 'open' ORDER BY last.severity, last.other
        """,
        corpus,
        entry_id,
    )
    return {
        "entry": entry,
        "conflicts": conflicts,
        "versions": _rows(
            database,
            f"SELECT c.version_number, c.effective_at, c.content_hash FROM entry_versions c WHERE {_ENTRY} "
            "ORDER BY c.version_number",
            corpus,
            entry_id,
        ),
        "transitions": _rows(
            database,
            "SELECT c.effective_at AS at, c.from_state, c.to_state, c.reason, c.rule, c.merged_into, c.superseded_by, "
            "c.actor_type, "
            f"c.actor_id, c.run_id, c.policy_fingerprint, {_VOIDED} AS rolled_back "
            f"FROM entry_state_history c WHERE {_ENTRY} ORDER BY c.effective_at, c.change_id",
            corpus,
            entry_id,
        ),
        "actions": _rows(
            database,
            "SELECT c.effective_at AS at, c.week, c.action, c.entry_id, c.other_entry_id, c.reason, c.rule, c.similarity, "
            f"c.verdict, c.judge, c.run_id, {_VOIDED} AS rolled_back FROM curation_actions c "
            "WHERE c.corpus = $1 AND (c.entry_id = $2 OR c.other_entry_id = $2) ORDER BY c.effective_at, c.action",
            corpus,
            entry_id,
        ),
        "kept": _rows(
            database,
            f"SELECT c.effective_at AS at, c.rule, c.actor_id, c.content_hash FROM person_decisions c WHERE {_ENTRY} "
            f"AND NOT {_VOIDED} ORDER BY c.effective_at",
            corpus,
            entry_id,
        ),
        "reviews": [
            row | {"entry_ids": json.loads(row["entry_ids"]), "details": json.loads(row["details"] or "{}")}
            for row in _rows(
                database,
                """
                SELECT c.effective_at AS at, c.action_id, c.action, c.recommendation_id, c.recommendation_type, c.resolution,
                       c.entry_ids::text AS entry_ids, c.details::text AS details, c.actor_id, u.actor_id AS undone_by,
                       u.recorded_at AS undone_at
                FROM review_actions c
                LEFT JOIN event_voids v ON v.corpus = c.corpus AND v.action_id = c.action_id
                LEFT JOIN changes u ON u.change_id = v.change_id
                WHERE c.corpus = $1 AND EXISTS (
                    SELECT 1 FROM json_array_elements_text(c.entry_ids) m WHERE m.value = $2)
                ORDER BY c.change_id
                """,
                corpus,
                entry_id,
            )
        ],
    }


def story_lines(story: dict[str, Any]) -> list[str]:
    """The story in plain words, one line each.

    Args:
        story: what ``load_story`` gives, with ``retrieval``: eligible, and reasons in words.
    """
    entry, may = story["entry"], story["retrieval"]
    place = " / ".join(str(entry[name]) for name in ("tenant", "repository", "module") if entry[name]) or "everywhere"
    lines = [
        f"{entry['entry_id']}  {entry['kind']}  in {place}",
        f"  {entry['title'] or '(no title)'}",
        "",
        f"State      {entry['state']}" + (f" ({entry['state_reason']})" if entry["state_reason"] else "")
        + f" since {_day(entry['state_changed_at'])}",
        f"Retrieval  {'may be retrieved' if may['eligible'] else 'is left out'}: {', '.join(may['reasons'])}",
        f"Use        {entry['successes']} of {entry['attempts']} uses succeeded, {entry['retrievals']} retrievals, "
        + (f"last match {_day(entry['last_matched_at'])}" if entry["last_matched_at"] else "never matched"),
        f"Scores     distinctiveness {_number(entry['distinctiveness'])}, confidence {_number(entry['confidence'])}, "
        f"evidence {entry['evidence_count']}",
        f"Text       version {entry['version_number']}, {entry['content_hash'][:12]}"
        + (", body written by a person" if entry["edited"] else "")
        + (", approved by a person" if entry["review_state"] == "approved" else "")
        + (", pinned" if entry["pinned"] else ""),
        "",
        "Story",
    ]  # fmt: skip
    lines += [f"  {line}" for line in _events(story)]
    return lines


def _events(story: dict[str, Any]) -> list[str]:
    own = story["entry"]["entry_id"]
    told: list[tuple[datetime, str]] = []
    for move in story["transitions"]:
        start = move["from_state"] is None
        what = f"entered as {move['to_state']}" if start else f"{move['from_state']} -> {move['to_state']}"
        if move["merged_into"]:
            what += f", merged into {move['merged_into']}"
        if move["superseded_by"]:
            what += f", superseded by {move['superseded_by']}"
        why = f": {move['reason']}" if move["reason"] else ""
        rule = f" (rule {move['rule']})" if move["rule"] else ""
        by = f", by {move['actor_id']}" if move["actor_type"] == "person" else f", run {move['run_id']}"
        told.append((move["at"], what + why + rule + by + (" - rolled back" if move["rolled_back"] else "")))
    for action in story["actions"]:
        if action["action"] == ActionType.MERGE and action["other_entry_id"] == own:
            what = f"took in {action['entry_id']} with its statistics and evidence: {action['reason']}"
        elif action["action"] == ActionType.STRENGTHEN and action["entry_id"] == own:
            what = f"was strengthened by candidate {action['other_entry_id']}: {action['reason']}"
        elif action["action"] in _DOING:
            other = action["other_entry_id"] if action["entry_id"] == own else action["entry_id"]
            doing = _DOING[action["action"]]
            what = f"{doing}: {action['reason']}" + (f" with {other}" if other else "")
        else:
            continue
        how = f" (similarity {action['similarity']:.3f})" if action["similarity"] is not None else ""
        undone = " - rolled back" if action["rolled_back"] else ""
        told.append((action["at"], f"{what}{how}, run {action['run_id']}{undone}"))
    for keep in story["kept"]:
        told.append(
            (keep["at"], f"{keep['actor_id']} keeps this text: rule {keep['rule']} leaves it alone until it changes")
        )
    told += [(review["at"], _answered(review, own)) for review in story["reviews"]]
    return [f"{_day(at)}  {what}" for at, what in sorted(told, key=lambda event: event[0])]


def _answered(review: dict[str, Any], own: str) -> str:
    """What a person answered, and whether it was taken back."""
    asked = f" to {review['recommendation_type']}" if review["recommendation_type"] else ""
    others = [entry for entry in review["entry_ids"] if entry != own]
    beside = f" with {', '.join(others)}" if others else ""
    how = f" ({review['resolution']})" if review["resolution"] else ""
    lost = f", losing {len(review['details']['lost'])} specifics" if review["details"].get("lost") else ""
    undone = f" - taken back by {review['undone_by']} on {_day(review['undone_at'])}" if review["undone_by"] else ""
    return f"{review['actor_id']} answered {review['action']}{how}{asked}{beside}{lost}, answer {review['action_id']}{undone}"


def _rows(database: Database, query: str, corpus: str, entry_id: str) -> list[dict[str, Any]]:
    return database.read(query, (corpus, entry_id)).to_dicts()


def _day(at: datetime | None) -> str:
    return "never" if at is None else (format_time(at) or "")[:10]


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}"
