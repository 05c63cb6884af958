"""The batches of the loopback Messages API: made, listed, looked at, and read once they have ended.

Belongs here: what a service of batches promises, and the ways in which it may disappoint. The answers themselves come from the
server, when the results are first read.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

Lines = list[dict[str, Any]]


@dataclass
class Batch:
    """A batch that was made: its requests, whether it has ended, and its results once they were read."""

    id: str
    requests: list[dict[str, Any]]
    is_ended: bool = True
    has_results: bool = True
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    lines: Lines | None = None

    def seen(self, url: str) -> dict[str, Any]:
        """The batch as the API shows it."""
        number = len(self.requests)
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": "ended" if self.is_ended else "in_progress",
            "request_counts": {
                "processing": 0 if self.is_ended else number,
                "succeeded": number if self.is_ended else 0,
                "errored": 0,
                "canceled": 0,
                "expired": 0,
            },
            "created_at": self.created_at.isoformat(),
            "expires_at": (self.created_at + timedelta(days=1)).isoformat(),
            "ended_at": self.created_at.isoformat() if self.is_ended else None,
            "archived_at": None if self.has_results else self.created_at.isoformat(),
            "cancel_initiated_at": None,
            "results_url": f"{url}/v1/messages/batches/{self.id}/results"
            if self.is_ended and self.has_results
            else None,
        }


class Batches:
    """All batches of a server.

    Attributes:
        made: the batches, in order.
        looks: how often one of them was looked at.
        end_at_once: whether a batch has ended as soon as it is made; else a test sets ``is_ended``.
        refuse: statuses with which the next attempts to make a batch are answered, in order; nothing is made.
        after_making: called with a batch that was made, before the client is told.
        disturb: changes the lines of results before they are sent.
        raw_results: sent in place of the results.
        refuse_looks: status for everything that is asked about batches, if it is set.
    """

    def __init__(self, message: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._message = message
        self._lock = threading.Lock()
        self.made: list[Batch] = []
        self.looks = 0
        self.end_at_once = True
        self.refuse: list[int] = []
        self.after_making: Callable[[Batch], None] = lambda batch: None
        self.disturb: Callable[[Lines], Lines] = lambda lines: lines
        self.raw_results: bytes | None = None
        self.refuse_looks: int | None = None

    def end_all(self) -> None:
        """Ends every batch."""
        for batch in self.made:
            batch.is_ended = True

    def answer(self, method: str, path: str, body: bytes, url: str) -> tuple[int, bytes]:
        """Status and body of an answer."""
        parts = urlsplit(path).path.removeprefix("/v1/messages/batches").strip("/").split("/")
        if method == "POST":
            return self._make(json.loads(body), url)
        if self.refuse_looks is not None:
            return self.refuse_looks, b""
        if parts == [""]:
            data = [batch.seen(url) for batch in reversed(self.made)]
            return 200, _json({"data": data, "has_more": False, "first_id": None, "last_id": None})
        self.looks += 1
        batch = next((batch for batch in self.made if batch.id == parts[0]), None)
        if batch is None:
            return 404, b""
        if parts[1:] == ["results"]:
            return 200, self._results(batch)
        return 200, _json(batch.seen(url))

    def _make(self, body: dict[str, Any], url: str) -> tuple[int, bytes]:
        with self._lock:
            if self.refuse:
                return self.refuse.pop(0), b""
            batch = Batch(f"msgbatch_{uuid.uuid4().hex}", body["requests"], is_ended=self.end_at_once)
            self.made.append(batch)
        self.after_making(batch)
        return 200, _json(batch.seen(url))

    def _results(self, batch: Batch) -> bytes:
        if self.raw_results is not None:
            return self.raw_results
        with self._lock:
            if batch.lines is None:
                # In another order than they were asked.
                batch.lines = [
                    {"custom_id": request["custom_id"], "result": self._message(request["params"])}
                    for request in reversed(batch.requests)
                ]
        return b"".join(_json(line) + b"\n" for line in self.disturb(batch.lines))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
