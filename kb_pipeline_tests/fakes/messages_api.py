"""A Messages API on the loopback, for tests that use the real client against scripted answers.

Belongs here: one small HTTP server that answers ``POST /v1/messages`` and the calls about batches, and remembers what it
received. It is no mock of our code: requests travel through the real SDK, its retries and its timeouts. By default it
judges every pair by the answer function; ``script`` answers are served first, in the order in which requests arrive. How its
batches behave stands in ``batches`` (message_batches).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kb_pipeline.stages.judge import CANARIES
from kb_pipeline_tests.fakes.message_batches import Batches

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Answer:
    """What the server sends for one request. ``raw`` replaces the whole body; ``delay_seconds`` comes before it."""

    text: str | None = None
    stop_reason: str = "end_turn"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    delay_seconds: float = 0.0


def verdict(
    word: str,
    confidence: float = 0.95,
    reason: str = "Both tell the reader the same thing.",
    *,
    body: str | None = None,
) -> Answer:
    """A well-formed reply of the judge; ``body`` is the text that it suggests for both."""
    return Answer(json.dumps({"verdict": word, "confidence": confidence, "reason": reason, "merged_body": body}))


def failure(status: int, *, retry_after: str | None = None) -> Answer:
    """An error reply of the API; ``retry_after`` in seconds goes into the header."""
    return Answer(status=status, headers={"retry-after": retry_after} if retry_after is not None else {})


def key_in(headers: Mapping[str, str]) -> str | None:
    """The API key of a request, in either of the two headers that the API accepts."""
    bearer = headers.get("authorization", "")
    return headers.get("x-api-key") or (bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else None)


class MessagesApi:
    """The server; a context manager. ``calls`` are the request bodies, ``headers`` theirs, in order of arrival.

    Pairs with a known answer are told apart: ``canaries`` are their bodies, and ``canary`` answers them, rightly unless a
    test says otherwise.

    Args:
        answer: gives the answer to a request body once ``script`` is empty; ``distinct`` for all pairs by default.
        key: when given, any other API key is refused with 401.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Answer] | None = None, *, key: str | None = None) -> None:
        self.answer = answer or (lambda body: verdict("distinct"))
        self.key = key
        self.canary: Callable[[bool], Answer] = lambda is_same: verdict("same_rule" if is_same else "distinct")
        self.canaries: list[dict[str, Any]] = []
        self.script: list[Answer] = []
        self.calls: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.batches = Batches(self._message)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Address for ``base_url`` or ANTHROPIC_BASE_URL."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def prompts(self) -> list[str]:
        """The user messages received, in order of arrival."""
        return [str(body["messages"][0]["content"]) for body in self.calls]

    def received(self, text: str) -> bool:
        """Whether ``text`` was part of any request body or header: the proof that a secret never left the house."""
        needle = json.dumps(text)[1:-1]
        bodies = (json.dumps(body) for body in self.calls)
        return any(needle in body for body in bodies) or any(text in str(headers) for headers in self.headers)

    def environment(self, key: str = "test-key-of-the-loopback") -> dict[str, str]:
        """Environment variables under which ``kb`` uses this server as its judge."""
        return {"ANTHROPIC_API_KEY": self.key or key, "ANTHROPIC_BASE_URL": self.url}

    def __enter__(self) -> MessagesApi:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _next(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        known = _known_answer(str(body["messages"][0]["content"]))
        with self._lock:
            (self.calls if known is None else self.canaries).append(body)
            if headers:  # those of a batch's requests were looked at when it was made
                self.headers.append(headers)
                if self.key is not None and key_in(headers) != self.key:
                    return failure(401)
            if known is not None:
                return self.canary(known)
            if self.script:
                return self.script.pop(0)
        return self.answer(body)

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        """The result of one request of a batch."""
        answer = self._next(body, {})
        if answer.status != 200:
            return {"type": "errored", "error": json.loads(_error_body(answer.status))}
        return {"type": "succeeded", "message": json.loads(answer.raw or _message_body(body, answer))}

    def _about_batches(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        with self._lock:
            self.headers.append(headers)
        if self.key is not None and key_in(headers) != self.key:
            return 401, _error_body(401)
        status, content = self.batches.answer(method, path, body, self.url)
        return status, content if status == 200 else _error_body(status)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                """Quiet: the test reads ``calls`` instead."""

            def do_GET(self) -> None:
                self._answer_about_batches(b"")

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length") or 0))
                path = self.path.split("?")[0]
                if path.startswith("/v1/messages/batches"):
                    self._answer_about_batches(content)
                    return
                if path != "/v1/messages":
                    self._send(404, _error_body(404), {})
                    return
                body = json.loads(content or b"{}")
                answer = api._next(body, {name.lower(): value for name, value in self.headers.items()})
                if answer.delay_seconds:
                    time.sleep(answer.delay_seconds)
                if answer.raw is not None:
                    content = answer.raw
                elif answer.status != 200:
                    content = _error_body(answer.status)
                else:
                    content = _message_body(body, answer)
                self._send(answer.status, content, answer.headers)

            def _answer_about_batches(self, body: bytes) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, content = api._about_batches(self.command, self.path, body, headers)
                self._send(status, content, {})

            def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(content)))
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)
                except (BrokenPipeError, ConnectionResetError):
                    # The client gave up waiting, which is what a timeout test asks of it.
                    self.close_connection = True

        return Handler


def _known_answer(prompt: str) -> bool | None:
    """Whether a canary is "the same"; None for any other pair."""
    for canary, is_same in CANARIES:
        if canary.text_l in prompt and canary.text_r in prompt:
            return is_same
    return None


def _error_body(status: int) -> bytes:
    kind = ERROR_TYPES.get(status, "api_error")
    return json.dumps({"type": "error", "error": {"type": kind, "message": kind}}).encode()


def _message_body(request: dict[str, Any], answer: Answer) -> bytes:
    content = [] if answer.text is None else [{"type": "text", "text": answer.text}]
    return json.dumps(
        {
            "id": "msg_loopback",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": content,
            "stop_reason": answer.stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    ).encode()
