"""Which state of an entry may follow which: the one table that everything asks (ledger M1).

Belongs here: the table, and what of it only a person may do. Does not belong here: who changes a state, and why.
"""

from __future__ import annotations

from kb_pipeline.vocabulary import State

TRANSITIONS: dict[State, frozenset[State]] = {
    State.CANDIDATE: frozenset({State.APPROVED, State.ACTIVE, State.ARCHIVED, State.BLOCKED}),
    State.APPROVED: frozenset({State.ACTIVE, State.NEEDS_REVIEW, State.ARCHIVED, State.BLOCKED}),
    State.ACTIVE: frozenset(
        {
            State.NEEDS_REVIEW,
            State.STALE,
            State.INVALIDATED,
            State.SUPERSEDED,
            State.EXPIRED,
            State.ARCHIVED,
            State.BLOCKED,
        }
    ),
    State.NEEDS_REVIEW: frozenset(
        {
            State.ACTIVE,
            State.NEEDS_REVIEW,
            State.INVALIDATED,
            State.SUPERSEDED,
            State.EXPIRED,
            State.ARCHIVED,
            State.BLOCKED,
        }
    ),
    State.STALE: frozenset(
        {
            State.ACTIVE,
            State.NEEDS_REVIEW,
            State.INVALIDATED,
            State.SUPERSEDED,
            State.EXPIRED,
            State.ARCHIVED,
            State.BLOCKED,
        }
    ),
    State.INVALIDATED: frozenset({State.NEEDS_REVIEW, State.ARCHIVED, State.BLOCKED}),
    State.EXPIRED: frozenset({State.NEEDS_REVIEW, State.ACTIVE, State.ARCHIVED, State.BLOCKED}),
    State.SUPERSEDED: frozenset({State.ARCHIVED, State.BLOCKED, State.ACTIVE}),
    State.ARCHIVED: frozenset({State.ACTIVE, State.BLOCKED}),
    State.BLOCKED: frozenset({State.NEEDS_REVIEW, State.ARCHIVED}),
}
"""Allowed transitions (ledger M1, definitions "States"). Everything else is refused."""

BY_PERSON_ONLY: frozenset[tuple[State, State]] = frozenset(
    {
        (State.EXPIRED, State.ACTIVE),
        (State.SUPERSEDED, State.ACTIVE),
        (State.ARCHIVED, State.ACTIVE),
    }
)
"""Transitions that no rule may make: they need a person, or the rollback of a run."""
