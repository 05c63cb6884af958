"""The review desk for one server: database, policy and clock, and the queue as it was last read.

Belongs here: what pages and API share. Reading a long queue takes time and nothing changes it but a change of its corpus, so it
is kept until there is one.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from datetime import datetime

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import known_corpora
from kb_pipeline.adapters.reviewing import Undone
from kb_pipeline.defs import review_desk
from kb_pipeline.defs.clock import now, open_database
from kb_pipeline.defs.review_desk import Done, Item, Waiting
from kb_pipeline.errors import KbError
from kb_pipeline.policy.load import load_policy
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.review import Answer
from kb_pipeline.vocabulary import ApprovalCheck
from kb_pipeline.web.settings import Settings

_KEPT_QUEUES = 8
_FRESH_SECONDS = 5.0
_log = logging.getLogger(__name__)


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
    _queues: dict[str, Waiting] = field(default_factory=dict)
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
        return [(corpus, self.waiting(corpus).waiting.height) for corpus in known_corpora(self.database)]

    def waiting(self, corpus: str) -> Waiting:
        """The queue of a corpus as it stands now.

        Raises:
            UnknownNameError: no such corpus.
        """
        kept = self.kept(corpus)
        found = review_desk.waiting_questions(self.database, corpus, kept)
        with self._lock:
            self._queues[corpus] = found
            while len(self._queues) > _KEPT_QUEUES:
                del self._queues[next(iter(self._queues))]
        return found

    def kept(self, corpus: str) -> Waiting | None:
        """The queue as it was last read."""
        with self._lock:
            return self._queues.get(corpus)

    def keep_fresh(self, stop: threading.Event) -> None:
        """Reads the queues of the first corpora, and reads them again when something changed them, until told to stop.

        A long queue takes a second to read: this way no reader waits for it, neither after a start nor after a run.
        """
        failing = False
        while not stop.is_set():
            try:
                with self._lock:
                    kept = list(self._queues)
                for corpus in kept or known_corpora(self.database)[:_KEPT_QUEUES]:
                    self.waiting(corpus)
                failing = False
            except KbError as error:
                # Whoever opens a page meanwhile is told the same; here once is enough.
                if not failing:
                    _log.warning("the queues cannot be read ahead: %s", error)
                failing = True
            stop.wait(_FRESH_SECONDS)

    def page(self, corpus: str, *, limit: int, offset: int) -> tuple[int, list[Item]]:
        """(open questions, those of a page)."""
        found = self.waiting(corpus)
        rows = found.waiting.slice(offset, limit)
        return found.waiting.height, review_desk.items_of(self.database, found.view, self.policy(corpus), rows)

    def item(self, corpus: str, name: str) -> Item:
        """One open question; see ``review_desk.find_item``."""
        return review_desk.find_item(self.database, corpus, self.policy(corpus), name)

    def place(self, corpus: str, recommendation_id: str) -> Place:
        """Where a question stands in the queue."""
        ids = self.waiting(corpus).waiting["recommendation_id"]
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
