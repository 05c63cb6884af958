"""The review desk for one server: database, policy and clock, and the queue as it was last read.

Belongs here: what pages and API share. Reading a long queue takes time and nothing changes it but a change of its corpus, so it
is kept until there is one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import known_corpora
from kb_pipeline.adapters.review_items import Present, present
from kb_pipeline.adapters.reviewing import Undone
from kb_pipeline.defs import review_desk
from kb_pipeline.defs.clock import now, open_database
from kb_pipeline.defs.review_desk import Done, Item
from kb_pipeline.policy.load import load_policy
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.review import Answer
from kb_pipeline.vocabulary import ApprovalCheck
from kb_pipeline.web.settings import Settings

_KEPT_QUEUES = 8


@dataclass(frozen=True)
class Place:
    """A question's place in the queue: how many are open, which it is (from 0), and its neighbours."""

    open_count: int
    position: int | None
    before: str | None
    after: str | None


@dataclass
class Desk:
    """Everything that pages and API ask for."""

    settings: Settings
    _queues: dict[str, tuple[Present, pl.DataFrame]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def database(self) -> Database:
        """The database in force."""
        return open_database()

    @property
    def now(self) -> datetime:
        """The clock."""
        return now()

    def policy(self, corpus: str) -> Policy:
        """The policy of a corpus.

        Raises:
            PolicyError: a policy file is wrong.
        """
        return load_policy(file=self.settings.policy_file, corpus=corpus)

    def corpora(self) -> list[tuple[str, int]]:
        """Every corpus and how many questions wait there."""
        return [(corpus, self.waiting(corpus)[1].height) for corpus in known_corpora(self.database)]

    def waiting(self, corpus: str) -> tuple[Present, pl.DataFrame]:
        """QUEUE of a corpus in the order in which to look.

        Raises:
            UnknownNameError: no such corpus.
        """
        view = present(self.database, corpus)
        with self._lock:
            kept = self._queues.get(corpus)
        if kept is not None and kept[0] == view:
            return kept
        found = (view, review_desk.waiting_questions(self.database, view))
        with self._lock:
            self._queues[corpus] = found
            while len(self._queues) > _KEPT_QUEUES:
                del self._queues[next(iter(self._queues))]
        return found

    def page(self, corpus: str, *, limit: int, offset: int) -> tuple[int, list[Item]]:
        """(open questions, those of a page)."""
        view, queue = self.waiting(corpus)
        rows = queue.slice(offset, limit)
        return queue.height, review_desk.items_of(self.database, view, self.policy(corpus), rows)

    def item(self, corpus: str, name: str) -> Item:
        """One open question; see ``review_desk.find_item``."""
        return review_desk.find_item(self.database, corpus, self.policy(corpus), name)

    def place(self, corpus: str, recommendation_id: str) -> Place:
        """Where a question stands in the queue."""
        ids = self.waiting(corpus)[1]["recommendation_id"]
        found = ids.index_of(recommendation_id)
        if found is None:
            return Place(len(ids), None, None, ids[0] if len(ids) else None)
        return Place(
            len(ids),
            found,
            ids[found - 1] if found else None,
            ids[found + 1] if found + 1 < len(ids) else None,
        )

    def checks(self, corpus: str, item: Item) -> dict[str, dict[ApprovalCheck, bool | None]]:
        """The list of an approval for each entry of a question."""
        return review_desk.checks_of(self.database, corpus, item)

    def answer(
        self, corpus: str, target: str, given: Answer, *, actor: str, ticks: frozenset[ApprovalCheck], suggested: bool
    ) -> Done:
        """Answers a question; see ``review_desk.answer``."""
        return review_desk.answer(
            self.database,
            corpus,
            self.policy(corpus),
            target,
            given,
            actor=actor or self.settings.actor,
            now=self.now,
            ticks=ticks,
            use_suggested=suggested,
        )

    def undo(self, corpus: str, target: str, *, actor: str) -> Undone:
        """Takes an answer back; see ``review_desk.undo``."""
        return review_desk.undo(self.database, corpus, target, actor=actor or self.settings.actor)
