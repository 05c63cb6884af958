"""Message Batches: many questions sent at once at a lower price, answered within a day, in any order.

Belongs here: the four calls (make, look at, list, read results) and what a line of results says. Does not belong here: what
was asked, which batch belongs to which corpus, and when to wait (batch_rounds).

A batch is made at most once by ``submit``: the SDK's retries are off, because a request that timed out may have been taken.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kb_pipeline.adapters.judges.messages_client import STOPPING_STATUS, Failure, MessagesClient, Question, Said, field
from kb_pipeline.vocabulary import ReasonCode

MAX_BATCH_REQUESTS = 10_000
MAX_BATCH_BYTES = 100_000_000
"""Well below what the service takes: 100,000 requests, 256 MB."""

GONE_STATUS = 404
_NOT_TAKEN_STATUS = frozenset({429, 529})
_ERROR_WORDS = frozenset(
    {"invalid_request_error", "overloaded_error", "api_error", "rate_limit_error", "timeout_error", "billing_error"}
)


@dataclass(frozen=True, slots=True)
class BatchState:
    """How a batch stands. ``has_results`` is false when they were thrown away; ``request_count`` counts its questions."""

    batch_id: str
    is_ended: bool
    has_results: bool
    request_count: int
    created_at: datetime | None


class BatchesClient:
    """Batches of questions of one ``MessagesClient``: its key, its model, its counts."""

    def __init__(self, client: MessagesClient, *, max_retries: int = 2) -> None:
        self.client = client
        self._max_retries = max_retries

    def submit(self, questions: Sequence[tuple[str, Question]]) -> str | Failure:
        """Makes a batch of (custom id, question). Returns its id.

        A failure for which ``may_have_been_made`` holds leaves open whether the service took the batch.
        """
        requests: list[Any] = [
            {"custom_id": name, "params": self.client.body(question)} for name, question in questions
        ]
        made: object = None
        for attempt in range(self._max_retries + 1):
            made = self.client.attempt(
                lambda sdk: sdk.with_options(max_retries=0).messages.batches.create(requests=requests)
            )
            if not (isinstance(made, Failure) and made.status in _NOT_TAKEN_STATUS) or attempt == self._max_retries:
                break
            time.sleep(min(0.5 * 2**attempt, 8.0))
        if isinstance(made, Failure):
            return made
        batch_id = field(made, "id")
        if isinstance(batch_id, str) and batch_id and len(batch_id) <= 200:
            return batch_id
        return Failure(ReasonCode.JUDGE_INVALID_REPLY, "the service made no batch that has an id")

    def look(self, batch_id: str) -> BatchState | Failure:
        """How a batch stands now. A failure of GONE_STATUS says that the service does not know it (any more)."""
        found = self.client.attempt(
            lambda sdk: sdk.messages.batches.retrieve(batch_id), stopping=STOPPING_STATUS - {GONE_STATUS}
        )
        if isinstance(found, Failure):
            return found
        return _state(found) or Failure(ReasonCode.JUDGE_INVALID_REPLY, "reply is not a batch")

    def made_between(self, start: datetime, end: datetime) -> list[BatchState] | Failure:
        """The batches of this key that were made in a span of time, whoever made them."""
        listed = self.client.attempt(lambda sdk: list(_since(sdk.messages.batches.list(limit=100), start)))
        if isinstance(listed, Failure):
            return listed
        return [state for state in listed if state.created_at is not None and start <= state.created_at <= end]

    def results(self, batch_id: str) -> list[tuple[str, object]] | Failure:
        """(custom id, result) of every line that can be read, as they come; a transfer that broke off is a failure.

        A line that is no result stands for no question: whoever asked misses it.
        """
        import httpx2

        def read(sdk: Any) -> list[Any]:
            with sdk.messages.batches.with_streaming_response.results(batch_id) as response:
                return [_json(line) for line in response.iter_lines()]

        try:
            lines = self.client.attempt(read, stopping=STOPPING_STATUS - {GONE_STATUS})
        except httpx2.HTTPError as error:
            return Failure(ReasonCode.JUDGE_UNAVAILABLE, f"results broke off ({type(error).__name__})")
        if isinstance(lines, Failure):
            return lines
        return [(name, field(line, "result")) for line in lines if isinstance(name := field(line, "custom_id"), str)]

    def read(self, result: object) -> Said | Failure:
        """What one result says; the cost of a message is added to the counts."""
        kind = field(result, "type")
        if kind == "succeeded":
            return self.client.read(field(result, "message"), is_of_batch=True)
        if kind == "errored":
            word = field(field(field(result, "error"), "error"), "type")
            said = word if isinstance(word, str) and word in _ERROR_WORDS else "error"
            return Failure(ReasonCode.JUDGE_BATCH_UNANSWERED, f"errored ({said})")
        if kind in ("expired", "canceled"):
            return Failure(ReasonCode.JUDGE_BATCH_UNANSWERED, str(kind))
        return Failure(ReasonCode.JUDGE_INVALID_REPLY, "result of no known kind")


def may_have_been_made(failure: Failure) -> bool:
    """Whether a failed ``submit`` may have made a batch all the same: everything but a clear refusal."""
    if failure.detail.startswith("not asked"):
        return False
    if failure.status is None or failure.status == 408:
        return True
    return failure.status >= 500 and failure.status not in _NOT_TAKEN_STATUS


def is_unanswered(answer: Said | Failure) -> bool:
    """Whether the service gave no answer at all, as distinct from one that cannot be used."""
    return isinstance(answer, Failure) and answer.reason is ReasonCode.JUDGE_BATCH_UNANSWERED


def _state(batch: object) -> BatchState | None:
    batch_id, status, counts = (field(batch, name) for name in ("id", "processing_status", "request_counts"))
    if not isinstance(batch_id, str) or not isinstance(status, str):
        return None
    numbers = (field(counts, name) for name in ("processing", "succeeded", "errored", "canceled", "expired"))
    created = field(batch, "created_at")
    return BatchState(
        batch_id=batch_id,
        is_ended=status == "ended",
        has_results=isinstance(field(batch, "results_url"), str) and field(batch, "archived_at") is None,
        request_count=sum(number for number in numbers if isinstance(number, int)),
        created_at=created if isinstance(created, datetime) and created.tzinfo is not None else None,
    )


def _since(listed: Any, start: datetime) -> Iterator[BatchState]:
    """The newest batches, page by page, until one is older than ``start``."""
    for batch in listed:
        state = _state(batch)
        if state is None:
            continue
        if state.created_at is not None and state.created_at < start:
            return
        yield state


def _json(line: str) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(line)
    return None
