"""One question to a Claude model over the Messages API, and one answer or a reason code for what went wrong (behaviour 1).

Belongs here: the SDK, its retries and timeouts, what a reply must be before its text is read, what it cost, and when to stop
asking. Does not belong here: what is asked, who may be asked about, and the reading of the text.

Promises: ``ask`` never raises for what the service does; neither the key nor a text stands in a failure, a log line or a
representation; after a refused key or model, or many failures in a row, nothing more is sent in this run.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from kb_pipeline.vocabulary import ReasonCode

if TYPE_CHECKING:
    import anthropic

MAX_REPLY_TOKENS = 2048
"""Room for one short JSON object, and for a model that thinks before it answers."""

MAX_FAILURES_IN_A_ROW = 5
"""So many timeouts or unavailable replies one after another, each past its retries, end the asking for this run."""

STOPPING_STATUS = frozenset({401, 402, 403, 404})
"""The key, the account or the model is refused: no later question would fare better."""

_USAGE_FIELDS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}
T = TypeVar("T")

_TRUNCATED = frozenset({"max_tokens", "model_context_window_exceeded"})
_COMPLETE = frozenset({"end_turn", "stop_sequence"})


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked: instructions that are the same for many questions, a message, and the shape of the reply."""

    system: str
    user: str
    schema: Mapping[str, Any]
    max_reply_tokens: int = MAX_REPLY_TOKENS


@dataclass(frozen=True, slots=True)
class Said:
    """The text of a finished reply (perhaps empty, perhaps not what was asked for) and the model that wrote it."""

    text: str
    model: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no text. ``detail`` holds no entry text and no key; ``status`` is that of HTTP, where there was one."""

    reason: ReasonCode
    detail: str
    status: int | None = None


class MessagesClient:
    """Asks one model directly; a context manager, and safe to use from several threads.

    One object serves one run: what it has cost and whether it has stopped asking lasts as long as the object.

    Args:
        model: name of the model.
        api_key: key of the API; never shown.
        base_url: another address of the Messages API.
        timeout_seconds: patience with one attempt.
        max_retries: repeats of an attempt that failed in passing (408, 409, 429, 5xx, no connection, timeout).
    """

    def __init__(
        self,
        *,
        model: str,
        api_key: str,
        base_url: str | None = None,
        timeout_seconds: float = 60.0,
        max_retries: int = 2,
    ) -> None:
        self.model = model
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_seconds = timeout_seconds
        self._max_retries = max_retries
        self._lock = threading.Lock()
        self._sdk: anthropic.Anthropic | None = None
        self._failures_in_a_row = 0
        self._closed_because: str | None = None
        self.usage: Counter[str] = Counter()
        """What the run has cost so far: calls, and tokens by _USAGE_FIELDS; what came by batch stands in both counters."""
        self.batch_usage: Counter[str] = Counter()

    def __repr__(self) -> str:
        """The model, never the key."""
        return f"MessagesClient(model={self.model!r})"

    def __enter__(self) -> MessagesClient:
        """The client; the SDK is loaded and a connection made with the first question."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections; a later question opens new ones."""
        with self._lock:
            sdk, self._sdk = self._sdk, None
        if sdk is not None:
            sdk.close()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is sent in this run."""
        return self._closed_because is not None

    @property
    def tokens(self) -> int:
        """All tokens read and written so far."""
        with self._lock:
            return sum(count for name, count in self.usage.items() if name.endswith("_tokens"))

    def count(self, name: str, number: int = 1) -> None:
        """Adds to ``usage[name]`` what only the caller can count."""
        with self._lock:
            self.usage[name] += number

    def ask(self, question: Question) -> Said | Failure:
        """One reply, past the retries; every way to fail is a ``Failure``."""
        message = self.attempt(lambda sdk: sdk.messages.create(**self.body(question)))
        return message if isinstance(message, Failure) else self.read(message)

    def attempt(
        self, call: Callable[[anthropic.Anthropic], T], *, stopping: frozenset[int] = STOPPING_STATUS
    ) -> T | Failure:
        """What a call of the SDK gives, or why it gave nothing; after a status in ``stopping`` nothing more is sent."""
        import anthropic

        if self._closed_because is not None:
            return Failure(ReasonCode.JUDGE_UNAVAILABLE, f"not asked: {self._closed_because}")
        try:
            result = call(self._open())
        except anthropic.APITimeoutError:
            return self._missed(ReasonCode.JUDGE_TIMEOUT, f"no reply within {self._timeout_seconds:g} s")
        except anthropic.APIConnectionError:
            return self._missed(ReasonCode.JUDGE_UNAVAILABLE, "no connection")
        except anthropic.APIStatusError as error:
            return self._refused(error.status_code, stopping)
        except (anthropic.APIResponseValidationError, ValueError):
            # A reply of status 200 whose body is not JSON: the SDK passes the parser's ValueError through.
            self._note_answer()
            return Failure(ReasonCode.JUDGE_INVALID_REPLY, "reply is not JSON")
        self._note_answer()
        return result

    def body(self, question: Question) -> dict[str, Any]:
        """The request that asks ``question``."""
        return {
            "model": self.model,
            "max_tokens": question.max_reply_tokens,
            # The instructions are the same for every question: a service that caches them charges them once.
            "system": [{"type": "text", "text": question.system, "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": question.user}],
            "output_config": {"format": {"type": "json_schema", "schema": dict(question.schema)}},
        }

    def read(self, message: object, *, is_of_batch: bool = False) -> Said | Failure:
        """The text of a message that arrived (an object of the SDK, or parsed JSON), and its cost added to ``usage``."""
        self._note_usage(message, is_of_batch)
        # The SDK does not validate what it received, so nothing is taken for granted here.
        stop_reason, model, blocks = (field(message, name) for name in ("stop_reason", "model", "content"))
        if stop_reason == "refusal":
            return Failure(ReasonCode.JUDGE_REFUSED, "the model refused to answer")
        if isinstance(stop_reason, str) and stop_reason in _TRUNCATED:
            return Failure(ReasonCode.JUDGE_TRUNCATED, f"reply cut off ({stop_reason})")
        if not isinstance(stop_reason, str) or stop_reason not in _COMPLETE or not isinstance(blocks, list):
            return Failure(ReasonCode.JUDGE_INVALID_REPLY, "reply is not a finished message")
        texts = [field(block, "text") for block in blocks if field(block, "type") == "text"]
        return Said(
            "".join(text for text in texts if isinstance(text, str)), model if isinstance(model, str) else self.model
        )

    def _open(self) -> anthropic.Anthropic:
        import anthropic

        with self._lock:
            if self._sdk is None:
                # At debug level the SDK logs whole requests, and these hold the texts of entries.
                logging.getLogger("anthropic").setLevel(logging.WARNING)
                self._sdk = anthropic.Anthropic(
                    api_key=self._api_key,
                    base_url=self._base_url,
                    timeout=self._timeout_seconds,
                    max_retries=self._max_retries,
                )
            return self._sdk

    def _refused(self, status: int, stopping: frozenset[int]) -> Failure:
        """Failure for an error status that remained after the retries."""
        if status in stopping:
            with self._lock:
                self._closed_because = f"the API had refused the key or the model (HTTP {status})"
            return Failure(ReasonCode.JUDGE_REJECTED_REQUEST, f"HTTP {status}: key or model refused", status)
        if status < 500 and status not in {408, 409, 429}:
            self._note_answer()
            return Failure(ReasonCode.JUDGE_REJECTED_REQUEST, f"HTTP {status}", status)
        return self._missed(ReasonCode.JUDGE_UNAVAILABLE, f"HTTP {status}", status)

    def _missed(self, reason: ReasonCode, detail: str, status: int | None = None) -> Failure:
        with self._lock:
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
                self._closed_because = f"the API had failed {self._failures_in_a_row} times in a row"
        return Failure(reason, detail, status)

    def _note_answer(self) -> None:
        with self._lock:
            self._failures_in_a_row = 0

    def _note_usage(self, message: object, is_of_batch: bool) -> None:
        usage = field(message, "usage")
        with self._lock:
            for counter in (self.usage, self.batch_usage) if is_of_batch else (self.usage,):
                counter["calls"] += 1
                for name, its_field in _USAGE_FIELDS.items():
                    count = field(usage, its_field)
                    counter[name] += count if isinstance(count, int) and count > 0 else 0


def field(thing: object, name: str) -> Any:
    """A field of an object or of parsed JSON; None where there is none."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
