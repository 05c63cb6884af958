"""What an import row changes: pure comparison of a row with what was imported before and with what stands now.

Belongs here: one row against one known entry. A repeated row changes nothing, and what curation made of the entry
since is not undone by it. Does not belong here: reading and writing the database (importing).

Totals (attempts, successes, retrievals) are the totals of the entry, single usage rows included; what the single rows
do not explain enters as a baseline event. What merges brought to an entry stands apart from what was imported for it:
a row that says the entry's total as exported means all of it, any other row means the entry's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kb_pipeline.adapters.rows import EvidenceRow, ImportRow, RowFault, UsageRow, canonical_json, derived_id
from kb_pipeline.text.normalise import content_hash, fold
from kb_pipeline.transitions import TRANSITIONS
from kb_pipeline.vocabulary import MATCH_TYPES, ReasonCode, State, UsageType

_TEXTS = ("title", "body", "rationale", "alternatives", "steps")
_LISTS = ("alternatives", "steps", "tags", "supersedes", "generated_from", "visible_to", "invalidation_policy")
_PLAIN = ("tenant", "repository", "module", "confidence", "created_at", "updated_at", "expires_at")
_MORE = ("last_validated_at", "completed_at", "origin", "source_type", "proposed_by", "author")
TOTALS = ("attempts", "successes", "retrievals")


@dataclass
class Known:
    """An entry as it stands: what the last import said of it, and what it is now."""

    version_number: int
    version_hash: str
    evidence_hash: str
    evidence_keys: set[str]
    imported_state: State
    imported: dict[str, int]
    state: State
    state_changed_at: datetime
    totals: dict[str, int]
    own_totals: dict[str, int]
    last_matched_at: datetime | None
    last_retrieved_at: datetime | None
    usage_ids: set[str]
    # What a person made of the entry: field -> (as it stands now, as it was imported).
    reviewed: dict[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Where rows come from: corpus, number of the change, person, and the time of rows that have none."""

    corpus: str
    change_id: int
    actor: str
    undated: datetime


@dataclass
class RowChanges:
    """Rows for each table, gathered over a chunk."""

    versions: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    usage: list[dict[str, Any]] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    assessments: list[dict[str, Any]] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)


def take_row(changes: RowChanges, known: Known | None, row: ImportRow, source: Source) -> str:
    """Adds what a row changes; says whether it is ``accepted`` (new), ``updated`` or ``unchanged``.

    Raises:
        RowFault: the row contradicts its text or asks for a forbidden change of state; nothing was added.
    """
    row = _as_imported(known, row)
    times = [time for time in (row.created_at, row.updated_at) if time is not None]
    effective_at = max(times) if times else source.undated
    base = {"corpus": source.corpus, "entry_id": row.id, "change_id": source.change_id}
    version = version_of(row)
    evidence = [_evidence(piece) for piece in row.evidence]
    version["evidence_hash"] = evidence_hash(piece["evidence_key"] for piece in evidence)
    usage = [
        base | event
        for event in {event["event_id"]: event for event in map(_usage_event, row.usage)}.values()
        if known is None or event["event_id"] not in known.usage_ids
    ]
    state = _state(known, row, effective_at)
    totals = [base | event for event in _totals(known, row, usage, source.change_id, effective_at)]

    says_more = known is None or _says_something_new(known, row, version)
    if says_more:
        number = 1 if known is None else known.version_number + 1
        of_version = base | {"version_number": number, "effective_at": effective_at}
        changes.versions.append(of_version | version | _said(known, row))
        changes.evidence.extend(of_version | piece | {"position": position} for position, piece in enumerate(evidence))
    if state is not None:
        event_id = derived_id(source.corpus, "import", source.change_id, row.id)
        changes.states.append(base | state | {"event_id": event_id, "actor_type": "person", "actor_id": source.actor})
    changes.usage.extend(totals + usage)
    if known is None and (row.quality_score is not None or row.distinctiveness is not None):
        changes.assessments.append(
            base
            | {
                "assessment_id": derived_id(source.corpus, "assessment", source.change_id, row.id),
                "quality_score": row.quality_score,
                "distinctiveness": row.distinctiveness,
                "assessor": "import",
                "effective_at": effective_at,
            }
        )
    if not (says_more or state or totals or usage):
        return "unchanged"
    changes.touched.add(row.id)
    return "accepted" if known is None else "updated"


def _as_imported(known: Known | None, row: ImportRow) -> ImportRow:
    """The row without what it only repeats of a person's answers: an exported entry, imported again, says nothing new.

    Raises:
        RowFault: the row contradicts its text.
    """
    if known is None or not known.reviewed:
        return row
    changed: dict[str, Any] = {
        name: imported
        for name, (now, imported) in known.reviewed.items()
        if _folded(getattr(row, name)) == _folded(now) and now != imported
    }
    if "body" in changed and row.content_hash is not None:
        version_of(row)  # the hash belongs to the edited text, and must be right
        changed["content_hash"] = None
    return row.model_copy(update=changed) if changed else row


def evidence_hash(keys: Iterable[str]) -> str:
    """Names a set of pieces of evidence."""
    return derived_id(canonical_json(sorted(set(keys))))


def _says_something_new(known: Known, row: ImportRow, version: dict[str, Any]) -> bool:
    # Whatever agrees with the last import, or with what curation has made of the entry, is nothing new.
    if known.version_hash != version["version_hash"]:
        return True
    if version["evidence_hash"] not in (known.evidence_hash, evidence_hash(known.evidence_keys)):
        return True
    if row.state is not None and row.state not in (known.imported_state, known.state):
        return True
    said = {name: getattr(row, name) for name in TOTALS}
    return any(n is not None and n not in (known.imported[name], known.totals[name]) for name, n in said.items())


def _said(known: Known | None, row: ImportRow) -> dict[str, Any]:
    """What the next import is compared with: what this row says beyond what curation made of the entry."""
    said: dict[str, Any] = {
        "imported_conflict_state": row.conflict_state,
        "imported_vector_key": row.vector_key,
        "imported_verdict_keys": canonical_json(row.verdict_keys) if row.verdict_keys else None,
    }
    if known is None:
        return said | {"imported_state": row.state} | {f"imported_{name}": getattr(row, name) for name in TOTALS}
    said["imported_state"] = known.imported_state if row.state in (None, known.state) else row.state
    for name in TOTALS:
        given = getattr(row, name)
        said[f"imported_{name}"] = known.imported[name] if given in (None, known.totals[name]) else given
    return said


def version_of(row: ImportRow) -> dict[str, Any]:
    """The columns of a version of an entry that a row gives, with its hashes; lists and unknown fields as JSON texts.

    Raises:
        RowFault: the row states another content hash than that of its text.
    """
    values: dict[str, Any] = {name: getattr(row, name) for name in (*_TEXTS, *_PLAIN, *_MORE)}
    values |= {name: list(getattr(row, name)) or None for name in _LISTS}
    values |= {
        "kind": row.kind,
        "pinned": bool(row.pinned),
        "keep_distinct": bool(row.keep_distinct),
        "review_state": row.review_state or "unreviewed",
        "sensitivity": row.sensitivity or "internal",
        "extra": row.model_extra or None,
    }
    hashed = {name: _folded(value) for name, value in values.items()}
    values["version_hash"] = hashlib.sha256(canonical_json(hashed).encode()).hexdigest()
    values["content_hash"] = content_hash(row.title, row.body, row.rationale, row.alternatives, row.steps)
    if row.content_hash is not None and row.content_hash != values["content_hash"]:
        raise RowFault("content_hash", f"{row.content_hash!r} is not the hash of this text ({values['content_hash']})")
    return values | {
        name: None if values[name] is None else canonical_json(values[name]) for name in (*_LISTS, "extra")
    }


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return fold(value)
    if isinstance(value, list):
        return [_folded(inner) for inner in value]
    if isinstance(value, dict):
        return {fold(key): _folded(inner) for key, inner in value.items()}
    return value


def _state(known: Known | None, row: ImportRow, effective_at: datetime) -> dict[str, Any] | None:
    """The transition that a row asks for, if it asks for one."""
    changed_at = row.state_changed_at or effective_at
    links = {"merged_into": row.merged_into, "superseded_by": row.superseded_by}
    if known is None:
        return links | {
            "from_state": None,
            "to_state": row.state or State.ACTIVE,
            "reason": row.state_reason,
            "effective_at": changed_at,
        }
    if row.state is None or row.state in (known.imported_state, known.state):
        return None
    if row.state not in TRANSITIONS[known.state]:
        raise RowFault("state", f"the entry is {known.state} and cannot become {row.state}")
    return links | {
        "from_state": known.state,
        "to_state": row.state,
        "reason": ReasonCode.IMPORT_STATE,
        # A change that was told later than another one is never hidden behind it.
        "effective_at": max(changed_at, known.state_changed_at),
    }


def _usage_event(use: UsageRow) -> dict[str, Any]:
    attempt, success = _outcome(use)
    said = (use.type, use.at, use.workflow_run, use.context_pack, use.used_in, use.outcome)
    return {
        "event_id": use.id or derived_id("usage", *said),
        "usage_type": use.type,
        "effective_at": use.at,
        "workflow_run": use.workflow_run,
        "context_pack": use.context_pack,
        "used_in": use.used_in,
        "outcome": None if use.outcome is None else canonical_json(use.outcome),
        "attempts": attempt,
        "successes": success,
        "retrievals": int(use.type == UsageType.RETRIEVED),
        "matched_at": use.at if use.type in MATCH_TYPES else None,
        "retrieved_at": use.at if use.type == UsageType.RETRIEVED else None,
    }


_GOOD = frozenset({"success", "succeeded", "pass", "passed", "positive"})
_BAD = frozenset({"failure", "failed", "fail", "negative"})


def _outcome(use: UsageRow) -> tuple[int, int]:
    """(attempt, success) of a usage row: an outcome object succeeds when something in it is good and nothing is bad."""
    if use.outcome is None:
        return 0, 0
    words = {use.outcome} if isinstance(use.outcome, str) else {v for v in use.outcome.values() if isinstance(v, str)}
    return 1, int(bool(words & _GOOD) and not words & _BAD)


def _totals(
    known: Known | None, row: ImportRow, usage: list[dict[str, Any]], change_id: int, effective_at: datetime
) -> list[dict[str, Any]]:
    """The baseline of a row's totals, and its last match, as events; nothing when they say nothing new."""
    events: list[dict[str, Any]] = []
    difference = {name: _difference(known, row, name, sum(event[name] for event in usage)) for name in TOTALS}
    if any(difference.values()):
        baseline = {"event_id": derived_id("baseline", change_id, row.id), "usage_type": UsageType.BASELINE}
        events.append(difference | baseline | {"effective_at": effective_at})
    for name, column in (("last_matched_at", "matched_at"), ("last_retrieved_at", "retrieved_at")):
        at = getattr(row, name)
        if at is None or any(event[column] is not None and event[column] >= at for event in usage):
            continue
        before = None if known is None else getattr(known, name)
        if before is not None and before >= at:
            continue
        events.append(
            {
                "event_id": derived_id(name, row.id, at),
                "usage_type": UsageType.MATCHED,
                "effective_at": at,
                "matched_at": at,
                "retrieved_at": at if column == "retrieved_at" else None,
            }
        )
    return events


def _difference(known: Known | None, row: ImportRow, name: str, explained: int) -> int:
    """What a baseline event must add so that the total is the one that the row says."""
    given = getattr(row, name)
    if given is None:
        return 0
    if known is None:
        return int(max(0, given - explained))
    if given == known.totals[name]:
        return -explained
    if given == known.imported[name] and not explained:
        return 0
    return int(given - known.own_totals[name] - explained)


def _evidence(piece: EvidenceRow) -> dict[str, Any]:
    values: dict[str, Any] = {
        "evidence_type": piece.type,
        "path": piece.path,
        "commit_sha": piece.commit,
        "line_start": piece.line_start,
        "line_end": piece.line_end,
        "symbol": piece.symbol,
        "edge": piece.edge,
        "ref": piece.ref,
        "extra": canonical_json(piece.model_extra) if piece.model_extra else None,
    }
    named = {name: _folded(value) for name, value in values.items()} | {"extra": _folded(piece.model_extra or None)}
    return values | {"evidence_key": derived_id(canonical_json(named))}
