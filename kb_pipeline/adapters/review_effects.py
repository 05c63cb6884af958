"""What reviewing writes of an answer: the form in which it takes the decision of the review stage.

Belongs here: names and types alone. Adapters and stages do not import each other; what both mean stands here for the one
and in ``stages.review`` for the other, and the type checker compares them where they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Move(Protocol):
    """One entry changes its state."""

    @property
    def entry_id(self) -> str:
        """The entry."""

    @property
    def from_state(self) -> str:
        """State before."""

    @property
    def to_state(self) -> str:
        """State after."""

    @property
    def reason(self) -> str:
        """Reason code."""

    @property
    def merged_into(self) -> str | None:
        """The entry that takes it in."""

    @property
    def superseded_by(self) -> str | None:
        """The entry that replaces it."""


class Edited(Protocol):
    """An entry as it reads afterwards."""

    @property
    def entry_id(self) -> str:
        """The entry."""

    @property
    def body(self) -> str | None:
        """The new body."""

    @property
    def content_hash(self) -> str:
        """Hash of the text as it reads afterwards."""

    @property
    def source_hash(self) -> str:
        """Hash of the imported text that the edit stands over."""


class Effects(Protocol):
    """All that an answer does."""

    @property
    def moves(self) -> Sequence[Move]:
        """Changes of state."""

    @property
    def merges(self) -> Sequence[tuple[str, str]]:
        """(giver, receiver) of use and evidence."""

    @property
    def edits(self) -> Sequence[Edited]:
        """Entries with a new text."""

    @property
    def approved(self) -> Sequence[str]:
        """Ids of entries that a person vouches for."""

    @property
    def validated(self) -> Sequence[str]:
        """Ids of entries that a person found to hold."""

    @property
    def resolution(self) -> str | None:
        """How a conflict ends."""

    @property
    def settles(self) -> str | None:
        """What two texts are not: ``all`` or ``merge``."""

    @property
    def spares(self) -> Sequence[tuple[str, str]]:
        """(entry id, rule) that is set aside."""

    @property
    def changes_entries(self) -> bool:
        """Whether later work may stand on it."""
