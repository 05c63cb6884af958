"""What went out as a batch, and what came back: kept in the database, so that no question is paid for twice.

Belongs here: the rows of judge_batches and judge_batch_requests. Does not belong here: talking to the service, and what an
answer means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import polars as pl

from kb_pipeline.adapters.database import Database, copy_in
from kb_pipeline.adapters.judges.messages_client import Failure, Said

Key: TypeAlias = tuple[str, str, str, str]
"""content_hash_l, content_hash_r, kind_l, kind_r: a question, entry A first."""

MAX_REPLY_CHARS = 50_000
"""A longer reply was not what anybody asked for, and is not kept."""


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that has not ended as far as we know. ``batch_id`` is None while it is open whether it was made."""

    batch_key: str
    batch_id: str | None
    intended_at: datetime


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question of a batch; a canary is a pair with a known answer."""

    custom_id: str
    key: Key
    is_canary: bool


class BatchStore:
    """Batches of one corpus, asked of one model with one version of the prompt.

    Args:
        database: where they are kept.
        corpus: the corpus they belong to; batches of others are never seen.
        question_fingerprint: model and version of the prompt.
    """

    def __init__(self, database: Database, corpus: str, question_fingerprint: str) -> None:
        self._database = database
        self._corpus = corpus
        self._fingerprint = question_fingerprint

    def intend(self, batch_key: str, questions: Sequence[StoredQuestion]) -> None:
        """Records what is about to be sent, before it is."""
        rows = [(q.custom_id, batch_key, *q.key, q.is_canary, "waiting") for q in questions]
        names = (
            "custom_id", "batch_key", "content_hash_l", "content_hash_r", "kind_l", "kind_r", "is_canary", "state",
        )  # fmt: skip
        with self._database.transaction() as cursor:
            cursor.execute(
                "INSERT INTO judge_batches (batch_key, corpus, question_fingerprint, state) VALUES (%s, %s, %s, 'intended')",
                (batch_key, self._corpus, self._fingerprint),
            )
            copy_in(cursor, "judge_batch_requests", pl.DataFrame(rows, schema=names, orient="row"))

    def made(self, batch_key: str, batch_id: str) -> None:
        """Records the id that the service gave."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE judge_batches SET batch_id = %s, state = 'submitted' WHERE batch_key = %s",
                (batch_id, batch_key),
            )

    def given_up(self, batch_key: str, state: str, detail: str) -> None:
        """Records that a batch was never made (``refused``), or that its answers cannot be had (``lost``)."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE judge_batches SET state = %s, ended_at = now() WHERE batch_key = %s", (state, batch_key)
            )
            cursor.execute(
                "UPDATE judge_batch_requests SET state = 'unanswered', detail = %s "
                "WHERE batch_key = %s AND state = 'waiting'",
                (detail, batch_key),
            )

    def open_batches(self) -> list[StoredBatch]:
        """The batches whose answers were not taken up yet, the oldest first."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "SELECT batch_key, batch_id, intended_at FROM judge_batches WHERE corpus = %s "
                "AND question_fingerprint = %s AND state IN ('intended', 'submitted') ORDER BY intended_at, batch_key",
                (self._corpus, self._fingerprint),
            )
            return [StoredBatch(*row) for row in cursor.fetchall()]

    def known_ids(self) -> set[str]:
        """Ids of all batches of this database, whatever their corpus."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT batch_id FROM judge_batches WHERE batch_id IS NOT NULL")
            return {row[0] for row in cursor.fetchall()}

    def questions(self, batch_key: str) -> list[StoredQuestion]:
        """All that was asked in a batch."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "SELECT custom_id, content_hash_l, content_hash_r, kind_l, kind_r, is_canary FROM judge_batch_requests "
                "WHERE batch_key = %s ORDER BY custom_id",
                (batch_key,),
            )
            return [StoredQuestion(row[0], (row[1], row[2], row[3], row[4]), row[5]) for row in cursor.fetchall()]

    def ended(self, batch_key: str, answers: Mapping[str, Said | Failure], unanswered: frozenset[str]) -> None:
        """Records the answers of a batch by custom id, and that it is over; those in ``unanswered`` may be asked again."""
        rows = [
            (name, "answered", None, None, answer.model, answer.text)
            if isinstance(answer, Said)
            else (
                name,
                "unanswered" if name in unanswered else "unusable",
                answer.reason.value,
                answer.detail,
                None,
                None,
            )
            for name, answer in answers.items()
        ]
        names = ("custom_id", "state", "reason", "detail", "model", "reply")
        with self._database.transaction() as cursor:
            cursor.execute(
                f"CREATE TEMP TABLE arrived ON COMMIT DROP AS SELECT {', '.join(names)} FROM judge_batch_requests "
                "WITH NO DATA"
            )
            copy_in(cursor, "arrived", pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row"))
            cursor.execute(
                "UPDATE judge_batch_requests r SET state = a.state, reason = a.reason, detail = a.detail, model = a.model, "
                "reply = a.reply FROM arrived a WHERE r.custom_id = a.custom_id AND r.batch_key = %s",
                (batch_key,),
            )
            cursor.execute(
                "UPDATE judge_batches SET state = 'ended', ended_at = now() WHERE batch_key = %s", (batch_key,)
            )

    def heard(self) -> dict[Key, Said]:
        """Every answer that was taken up, by question; of several the newest."""
        frame = self._database.read(
            "SELECT r.content_hash_l, r.content_hash_r, r.kind_l, r.kind_r, r.reply, r.model FROM judge_batch_requests r "
            "JOIN judge_batches b USING (batch_key) WHERE b.corpus = $1 AND b.question_fingerprint = $2 "
            "AND r.state = 'answered' AND NOT r.is_canary ORDER BY b.intended_at, b.batch_key",
            (self._corpus, self._fingerprint),
        )
        return {(a, b, c, d): Said(text, model) for a, b, c, d, text, model in frame.iter_rows()}

    def waiting(self) -> set[Key]:
        """The questions whose batch has not ended."""
        frame = self._database.read(
            "SELECT r.content_hash_l, r.content_hash_r, r.kind_l, r.kind_r FROM judge_batch_requests r "
            "JOIN judge_batches b USING (batch_key) WHERE b.corpus = $1 AND b.question_fingerprint = $2 "
            "AND r.state = 'waiting' AND NOT r.is_canary",
            (self._corpus, self._fingerprint),
        )
        return {(a, b, c, d) for a, b, c, d in frame.iter_rows()}

    def forget(self, keys: Sequence[Key]) -> None:
        """Marks answers that could not be used, so that the next run asks again."""
        if not keys:
            return
        names = ("content_hash_l", "content_hash_r", "kind_l", "kind_r")
        with self._database.transaction() as cursor:
            cursor.execute(
                f"CREATE TEMP TABLE unusable ON COMMIT DROP AS SELECT {', '.join(names)} FROM judge_batch_requests "
                "WITH NO DATA"
            )
            copy_in(cursor, "unusable", pl.DataFrame(list(keys), schema=names, orient="row"))
            cursor.execute(
                f"UPDATE judge_batch_requests r SET state = 'unusable' FROM unusable u, judge_batches b "
                f"WHERE ({', '.join(f'r.{n}' for n in names)}) = ({', '.join(f'u.{n}' for n in names)}) "
                "AND b.batch_key = r.batch_key AND b.corpus = %s AND b.question_fingerprint = %s AND r.state = 'answered'",
                (self._corpus, self._fingerprint),
            )
