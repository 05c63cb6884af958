"""The network judge: puts pairs to a Claude model over the Messages API and isolates every failure (ledger K7-K9).

Belongs here: which pairs are asked (budget, secrets, length), and when a model is trusted. Does not belong here: the calls
(the client), and prompts and the reading of replies (the script: the judge stage).

What a model says is trusted only as far as it can be checked (X2). Pairs are asked in groups; before each, the model must
judge two pairs with a known answer, one that is the same and one that is not, or the group is not asked. "The same" counts
when the model says so in both orders.

Promises: no entry text and no key stands in an exception, a log line or a reply; a text with a secret is never sent
(behaviour 24); one pair's failure is that pair's alone (behaviour 1), except that a refused key or model, or a service
that fails many times in a row, ends the asking for this run, so that a run without a judge does not wait for hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic

from kb_pipeline.adapters.judges import ReplyT, RequestT, Script
from kb_pipeline.adapters.judges.messages_client import Failure, MessagesClient, Question
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.vocabulary import Band, ReasonCode

JUDGE_NAME = "anthropic"

GROUP_PAIRS = 20
"""So many pairs are asked about after each two canaries: one call in ten to twenty is a check."""

_CANARIES_OF_GROUP = 2
_BORDERLINE = frozenset({Band.BORDERLINE, Band.LEXICAL})


class AnthropicJudge(Generic[RequestT, ReplyT]):
    """Asks a model about each pair, a few at a time; replies come back in the order of the requests.

    One object serves one run: budgets are counted over all calls of ``decide``.

    Args:
        script: prompts and the reading of replies (the judge stage).
        model: name of the model.
        api_key: key of the API; never shown.
        base_url: another address of the Messages API.
        timeout_seconds: patience with one attempt.
        max_retries: repeats of an attempt that failed in passing (408, 409, 429, 5xx, no connection, timeout).
        max_calls: pairs of the exact and merge bands put to the model in this run.
        max_borderline_calls: the same for borderline and lexical pairs (K8).
        max_tokens: once so many tokens were read and written in this run, no further pair is asked; None: no limit.
        max_concurrency: calls at the same time.
        min_confidence: a less confident verdict becomes UNSURE, 0-1.
        max_text_chars: a pair with a longer text is not asked and nothing is cut.
    """

    is_network = True
    name = JUDGE_NAME

    def __init__(
        self,
        script: Script[RequestT, ReplyT],
        *,
        model: str,
        api_key: str,
        base_url: str | None = None,
        timeout_seconds: float = 60.0,
        max_retries: int = 2,
        max_calls: int = 500,
        max_borderline_calls: int = 200,
        max_tokens: int | None = None,
        max_concurrency: int = 4,
        min_confidence: float = 0.75,
        max_text_chars: int = 20_000,
    ) -> None:
        self.model = model
        self.fingerprint = f"{JUDGE_NAME}/{model}/{script.PROMPT_VERSION}/min_confidence={min_confidence:g}"
        self._script = script
        self._client = MessagesClient(
            model=model,
            api_key=api_key,
            base_url=base_url,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
        )
        self._calls_left = max_calls
        self._borderline_calls_left = max_borderline_calls
        self._max_tokens = max_tokens
        self._max_concurrency = max_concurrency
        self._min_confidence = min_confidence
        self._max_text_chars = max_text_chars
        self._next_canary = 0

    def __repr__(self) -> str:
        """The model, never the key."""
        return f"AnthropicJudge(model={self.model!r})"

    @property
    def usage(self) -> Counter[str]:
        """What the run has cost so far: calls, canaries, input_tokens, output_tokens, cached_tokens."""
        return self._client.usage

    def decide(self, requests: Sequence[RequestT]) -> Iterator[ReplyT]:
        """One reply per request, in their order. Failures are replies, not exceptions."""
        reasons = [self._reason_not_to_ask(request) for request in requests]
        if None not in reasons:
            # Nothing to ask: neither the SDK nor a connection is needed.
            yield from (self._unasked(*pair) for pair in zip(requests, filter(None, reasons), strict=True))
            return
        with self._client, ThreadPoolExecutor(self._max_concurrency, "kb-judge") as pool:
            try:
                for group in _groups(list(zip(requests, reasons, strict=True))):
                    yield from self._decide_group(pool, group)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _decide_group(
        self, pool: ThreadPoolExecutor, group: list[tuple[RequestT, ReasonCode | None]]
    ) -> Iterator[ReplyT]:
        problem = self._untrusted() if any(reason is None for _, reason in group) else None
        waiting: list[ReplyT | Future[ReplyT]] = []
        for request, reason in group:
            if reason is not None:
                waiting.append(self._unasked(request, reason))
            elif problem is not None:
                waiting.append(self._failed(request, *problem))
            else:
                waiting.append(pool.submit(self._ask_both, request))
        for reply in waiting:
            yield _result(reply)

    def _untrusted(self) -> tuple[ReasonCode, str] | None:
        """Why the next group is not asked: a canary was judged wrongly, or not at all. None when all is well."""
        canaries = self._script.CANARIES
        for _ in range(_CANARIES_OF_GROUP):
            canary, is_same = canaries[self._next_canary % len(canaries)]
            self._next_canary += 1
            self._client.count("canaries")
            reply: Any = self._ask(canary)
            if reply.failed:
                return reply.reason, f"not asked: no usable answer to a pair with a known one ({reply.explanation})"
            if not self._script.is_right(is_same, reply):
                return ReasonCode.JUDGE_CANARY_FAILED, "not asked: the model was wrong about a pair with a known answer"
        return None

    def _ask_both(self, request: RequestT) -> ReplyT:
        """One reply, in both orders where it takes both."""
        if self._max_tokens is not None and self._client.tokens >= self._max_tokens:
            return self._unasked(request, ReasonCode.JUDGE_BUDGET_SPENT)
        first = self._ask(request)
        if not self._script.needs_other_order(first):
            return first
        return self._script.agreed_reply(first, self._ask(self._script.swapped(request)))

    def _reason_not_to_ask(self, request: RequestT) -> ReasonCode | None:
        """Why this pair is not put to the model; None takes one call from the budget of its band."""
        if (withheld := self._script.withheld_reason(request, self._max_text_chars)) is not None:
            return withheld
        if any(find_secrets([request.text_l, request.text_r])):
            return ReasonCode.JUDGE_SECRET
        if request.band in _BORDERLINE:
            self._borderline_calls_left -= 1
            return ReasonCode.JUDGE_BUDGET_SPENT if self._borderline_calls_left < 0 else None
        self._calls_left -= 1
        return ReasonCode.JUDGE_BUDGET_SPENT if self._calls_left < 0 else None

    def _unasked(self, request: RequestT, reason: ReasonCode) -> ReplyT:
        return self._script.unasked_reply(request, reason, judge=self.name)

    def _ask(self, request: RequestT) -> ReplyT:
        system, user = self._script.build_prompt(request)
        said = self._client.ask(Question(system, user, self._script.REPLY_SCHEMA))
        if isinstance(said, Failure):
            return self._failed(request, said.reason, said.detail)
        return self._script.read_reply(
            request, said.text, judge=self.name, model=said.model, min_confidence=self._min_confidence
        )

    def _failed(self, request: RequestT, reason: ReasonCode, detail: str) -> ReplyT:
        return self._script.failed_reply(request, reason, judge=self.name, model=self.model, detail=detail)


def _groups(
    pairs: list[tuple[RequestT, ReasonCode | None]],
) -> Iterator[list[tuple[RequestT, ReasonCode | None]]]:
    """The pairs in their order, in groups of at most GROUP_PAIRS that are asked."""
    group: list[tuple[RequestT, ReasonCode | None]] = []
    for pair in pairs:
        group.append(pair)
        if sum(reason is None for _, reason in group) == GROUP_PAIRS:
            yield group
            group = []
    if group:
        yield group


def _result(reply: ReplyT | Future[ReplyT]) -> ReplyT:
    return reply.result() if isinstance(reply, Future) else reply
