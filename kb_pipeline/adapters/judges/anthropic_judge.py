"""The network judge: puts pairs to a Claude model over the Messages API and isolates every failure (ledger K7-K9).

Belongs here: which pairs are asked (budget, secrets, length), directly or by batch, and when a model is trusted. Does not
belong here: the calls (the clients), batches over the end of a run (batch_rounds), and prompts and the reading of replies
(the script: the judge stage).

What a model says is trusted only as far as it can be checked (X2). Pairs are asked in groups; before each, the model must
judge two pairs with a known answer, one that is the same and one that is not, or the group is not asked. In a batch they
ride along, and one that is judged wrongly sets the whole batch aside. "The same" counts when the model says so in both
orders.

Promises: no entry text and no key stands in an exception, a log line or a reply; a text with a secret is never sent
(behaviour 24); one pair's failure is that pair's alone (behaviour 1), except that a refused key or model, or a service
that fails many times in a row, ends the asking for this run, so that a run without a judge does not wait for hours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Literal

from kb_pipeline.adapters.judges import ReplyT, RequestT, Script
from kb_pipeline.adapters.judges.batch_rounds import CANARIES_OF_GROUP, GROUP_PAIRS, BatchRounds, key_of
from kb_pipeline.adapters.judges.batch_store import BatchStore
from kb_pipeline.adapters.judges.batches_client import BatchesClient
from kb_pipeline.adapters.judges.budget import Amount, Budget, amount_of, tokens_of
from kb_pipeline.adapters.judges.messages_client import MAX_REPLY_TOKENS, Failure, MessagesClient, Question
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.policy.judging import ModelPrice
from kb_pipeline.vocabulary import Band, ReasonCode

JUDGE_NAME = "anthropic"

_MAX_REPLY_TOKENS = 16_000
_BORDERLINE = frozenset({Band.BORDERLINE, Band.LEXICAL})


class AnthropicJudge(Generic[RequestT, ReplyT]):
    """Asks a model about each pair; replies come back in the order of the requests.

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
        max_cost_usd: no pair is asked that could bring the cost of this run above so much; None: no limit.
        price: USD per million tokens of the model; None: costs are not known.
        max_concurrency: direct calls at the same time.
        min_confidence: a less confident verdict becomes UNSURE, 0-1.
        max_text_chars: a pair with a longer text is not asked and nothing is cut.
        delivery: ``batch``, ``direct``, or ``auto``: by batch from ``min_batch_pairs`` pairs on. Without a store all is direct;
            with one, what lies in a batch already is taken up from there.
        min_batch_pairs: see there.
        max_batch_wait_seconds: patience with the batches of this run.
        batch_poll_seconds: time from the first look at a batch to the second.
        batch_store: makes the store of batches for a model and version of the prompt.
        on_estimate: told what is going to be asked, each time before it is sent.
    """

    is_network = True
    judges_open_pairs = True
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
        max_cost_usd: float | None = None,
        price: ModelPrice | None = None,
        max_concurrency: int = 4,
        min_confidence: float = 0.75,
        max_text_chars: int = 20_000,
        delivery: Literal["auto", "batch", "direct"] = "auto",
        min_batch_pairs: int = 100,
        max_batch_wait_seconds: float = 3600.0,
        batch_poll_seconds: float = 10.0,
        batch_store: Callable[[str], BatchStore] | None = None,
        on_estimate: Callable[[Mapping[str, float | None]], None] | None = None,
    ) -> None:
        self.model = model
        self.fingerprint = f"{JUDGE_NAME}/{model}/{script.PROMPT_VERSION}/min_confidence={min_confidence:g}"
        self._script = script
        self._client = MessagesClient(
            model=model, api_key=api_key, base_url=base_url, timeout_seconds=timeout_seconds, max_retries=max_retries
        )
        self._budget = Budget(self._client, price, max_tokens=max_tokens, max_cost_usd=max_cost_usd)
        self._calls_left = max_calls
        self._borderline_calls_left = max_borderline_calls
        self._max_concurrency = max_concurrency
        self._min_confidence = min_confidence
        self._max_text_chars = max_text_chars
        self._next_canary = 0
        self._min_batch_pairs: float = {"batch": 1, "direct": math.inf, "auto": min_batch_pairs}[delivery]
        self._on_estimate = on_estimate
        self._rounds: BatchRounds[RequestT, ReplyT] | None = None
        if batch_store is not None:
            self._rounds = BatchRounds(
                BatchesClient(self._client, max_retries=max_retries),
                batch_store(f"{model}/{script.PROMPT_VERSION}"),
                script,
                question_of=self._question,
                judge=self.name,
                min_confidence=min_confidence,
                max_wait_seconds=max_batch_wait_seconds,
                first_poll_seconds=batch_poll_seconds,
            )

    def __repr__(self) -> str:
        """The model, never the key."""
        return f"AnthropicJudge(model={self.model!r})"

    @property
    def usage(self) -> Counter[str]:
        """What the run has cost so far: calls, canaries, input_tokens, output_tokens, cached_tokens, cache_write_tokens."""
        return self._client.usage

    @property
    def cost_usd(self) -> float | None:
        """The same in money; None when the policy names no price of the model."""
        return self._budget.cost_usd

    @property
    def estimate(self) -> Mapping[str, float | None]:
        """What the run was going to take, as it stood before anything was sent."""
        expected = self._budget.estimate
        return {
            "calls": expected.calls,
            "input_tokens": expected.input_tokens,
            "output_tokens": expected.output_tokens,
            "cost_usd": self._budget.estimated_usd,
        }

    def decide(self, requests: Sequence[RequestT]) -> Iterator[ReplyT]:
        """One reply per request, in their order. Failures are replies, not exceptions."""
        withheld = [self._withheld(request) for request in requests]
        with self._client:
            if self._rounds is not None and None in withheld:
                yield from self._decide_by_batch(self._rounds, requests, withheld)
            else:
                yield from self._decide_directly(requests, withheld)

    def _decide_directly(self, requests: Sequence[RequestT], withheld: Sequence[ReasonCode | None]) -> Iterator[ReplyT]:
        reasons = [
            self._over_calls(request) if reason is None else reason
            for request, reason in zip(requests, withheld, strict=True)
        ]
        self._expect([request for request, reason in zip(requests, reasons, strict=True) if reason is None])
        yield from self._ask_directly(list(zip(requests, reasons, strict=True)), self._ask_both)

    def _decide_by_batch(
        self,
        rounds: BatchRounds[RequestT, ReplyT],
        requests: Sequence[RequestT],
        withheld: Sequence[ReasonCode | None],
    ) -> Iterator[ReplyT]:
        """What earlier batches have answered needs no budget; the rest is asked, and then what counts in both orders only."""
        rounds.take_up()
        self._budget.leave_out_what_was_used()
        reasons: list[ReasonCode | None] = []
        fresh: list[int] = []
        for number, (request, reason) in enumerate(zip(requests, withheld, strict=True)):
            is_fresh = reason is None and not rounds.knows(key_of(request))
            over = self._over_calls(request) if is_fresh else reason
            reasons.append(over)
            if is_fresh and over is None:
                fresh.append(number)
        asked = {number: requests[number] for number in fresh}
        is_batch = len(fresh) >= self._min_batch_pairs
        if not is_batch:
            self._expect(list(asked.values()))
            if len(fresh) == reasons.count(None):
                # Nothing lies in a batch: replies are handed on as they come, so that what ends the run loses none.
                yield from self._ask_directly(list(zip(requests, reasons, strict=True)), self._ask_both)
                return
        known = {n: self._unasked(requests[n], reason) for n, reason in enumerate(reasons) if reason is not None}
        if is_batch:
            known |= self._send(rounds, asked, orders=2)
        else:
            replies = self._ask_directly([(pair, None) for pair in asked.values()], self._ask_both)
            known |= dict(zip(fresh, replies, strict=True))
        known |= self._ask_other_orders(rounds, requests, [n for n in range(len(requests)) if n not in known])
        yield from (known[number] for number in range(len(requests)))

    def _ask_other_orders(
        self, rounds: BatchRounds[RequestT, ReplyT], requests: Sequence[RequestT], numbers: list[int]
    ) -> dict[int, ReplyT]:
        """Replies to pairs that went by batch, by number, after what counts in both orders only was asked in the other."""
        first = {number: self._heard(rounds, requests[number]) for number in numbers}
        known = {number: reply for number, reply in first.items() if not self._script.needs_other_order(reply)}
        others: dict[int, Any] = {n: self._script.swapped(requests[n]) for n in numbers if n not in known}
        fresh = {number: other for number, other in others.items() if not rounds.knows(key_of(other))}
        if len(fresh) >= self._min_batch_pairs:
            known |= self._send(rounds, fresh, orders=1)
        else:
            replies = self._ask_directly([(other, None) for other in fresh.values()], self._ask_one)
            for number, reply in zip(fresh, replies, strict=True):
                known[number] = self._agreed(first[number], reply)
        for number, other in others.items():
            if number not in known:
                known[number] = self._agreed(first[number], self._heard(rounds, other))
        return known

    def _agreed(self, first: ReplyT, second: Any) -> ReplyT:
        """Both orders together; as long as there is no answer to the second, that is what is said of the pair."""
        both: ReplyT = self._script.agreed_reply(first, second) if second.cacheable or second.failed else second
        return both

    def _send(
        self, rounds: BatchRounds[RequestT, ReplyT], pairs: dict[int, RequestT], *, orders: int
    ) -> dict[int, ReplyT]:
        """Sends a batch of the first pairs that the budget allows. Replies to the others, by number."""
        left: dict[int, ReplyT] = {}
        sent: list[tuple[RequestT, Amount]] = []
        for number, pair in pairs.items():
            amount = self._amount(pair).times(orders)
            if self._budget.reserve(amount, is_batch=True):
                sent.append((pair, amount))
            else:
                left[number] = self._unasked(pair, ReasonCode.JUDGE_BUDGET_SPENT)
        if orders == 2:
            self._expect([pair for pair, _ in sent], is_batch=True)
        rounds.ask([pair for pair, _ in sent])
        for pair, amount in sent:
            if key_of(pair) not in rounds.waiting:
                self._budget.release(amount, is_batch=True)
        return left

    def _heard(self, rounds: BatchRounds[RequestT, ReplyT], request: RequestT) -> ReplyT:
        """What the batches say of a question."""
        key = key_of(request)
        if key in rounds.heard:
            said = rounds.heard[key]
            reply = self._read(request, said.text, said.model)
            if _is_failed(reply):
                rounds.forget([key])
            return reply
        if key in rounds.failures:
            return self._failed(request, rounds.failures[key].reason, rounds.failures[key].detail)
        return self._unasked(request, ReasonCode.JUDGE_BATCH_PENDING)

    def _ask_directly(
        self, pairs: list[tuple[RequestT, ReasonCode | None]], ask: Callable[[RequestT], ReplyT]
    ) -> Iterator[ReplyT]:
        """Replies in order, a few calls at a time; pairs with a reason are not asked."""
        if all(reason is not None for _, reason in pairs):
            # Nothing to ask: neither the SDK nor a connection is needed.
            yield from (self._unasked(request, reason) for request, reason in pairs if reason is not None)
            return
        with ThreadPoolExecutor(self._max_concurrency, "kb-judge") as pool:
            try:
                for group in _groups(pairs):
                    yield from self._decide_group(pool, group, ask)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _decide_group(
        self,
        pool: ThreadPoolExecutor,
        group: list[tuple[RequestT, ReasonCode | None]],
        ask: Callable[[RequestT], ReplyT],
    ) -> Iterator[ReplyT]:
        problem = self._untrusted() if any(reason is None for _, reason in group) else None
        waiting: list[ReplyT | Future[ReplyT]] = []
        for request, reason in group:
            if reason is not None:
                waiting.append(self._unasked(request, reason))
            elif problem is not None:
                waiting.append(self._failed(request, *problem))
            else:
                waiting.append(pool.submit(ask, request))
        for reply in waiting:
            yield _result(reply)

    def _untrusted(self) -> tuple[ReasonCode, str] | None:
        """Why the next group is not asked: a canary was judged wrongly, or not at all. None when all is well."""
        canaries = self._script.CANARIES
        for _ in range(CANARIES_OF_GROUP):
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
        """One reply, in both orders where it takes both, if the budget allows both."""
        amount = self._amount(request).times(2)
        if not self._budget.reserve(amount, is_batch=False):
            return self._unasked(request, ReasonCode.JUDGE_BUDGET_SPENT)
        try:
            first = self._ask(request)
            if not self._script.needs_other_order(first):
                return first
            return self._script.agreed_reply(first, self._ask(self._script.swapped(request)))
        finally:
            self._budget.release(amount, is_batch=False)

    def _ask_one(self, request: RequestT) -> ReplyT:
        """One reply in this order, if the budget allows it."""
        amount = self._amount(request)
        if not self._budget.reserve(amount, is_batch=False):
            return self._unasked(request, ReasonCode.JUDGE_BUDGET_SPENT)
        try:
            return self._ask(request)
        finally:
            self._budget.release(amount, is_batch=False)

    def _withheld(self, request: RequestT) -> ReasonCode | None:
        """Why this pair must not be put to the model."""
        if (withheld := self._script.withheld_reason(request, self._max_text_chars)) is not None:
            return withheld
        return ReasonCode.JUDGE_SECRET if any(find_secrets([request.text_l, request.text_r])) else None

    def _over_calls(self, request: RequestT) -> ReasonCode | None:
        """Takes one call from the budget of the pair's band, or says that it is spent."""
        if request.band in _BORDERLINE:
            self._borderline_calls_left -= 1
            return ReasonCode.JUDGE_BUDGET_SPENT if self._borderline_calls_left < 0 else None
        self._calls_left -= 1
        return ReasonCode.JUDGE_BUDGET_SPENT if self._calls_left < 0 else None

    def _expect(self, pairs: Sequence[RequestT], *, is_batch: bool = False) -> None:
        """Adds pairs to the estimate, in both orders and with their canaries, and tells it."""
        if not pairs:
            return
        canary = self._amount(self._script.CANARIES[0][0])
        total = canary.times(CANARIES_OF_GROUP * -(-len(pairs) // GROUP_PAIRS))
        for pair in pairs:
            total += self._amount(pair).times(2)
        self._budget.expect(total, is_batch=is_batch)
        if self._on_estimate is not None:
            self._on_estimate(self.estimate)

    def _amount(self, request: RequestT) -> Amount:
        return amount_of(self._question(request), max(request.text_l, request.text_r, key=len))

    def _question(self, request: RequestT) -> Question:
        system, user = self._script.build_prompt(request)
        # One text for both may be as long as the two together.
        room = MAX_REPLY_TOKENS + tokens_of(request.text_l) + tokens_of(request.text_r)
        return Question(system, user, self._script.REPLY_SCHEMA, min(room, _MAX_REPLY_TOKENS))

    def _unasked(self, request: RequestT, reason: ReasonCode) -> ReplyT:
        return self._script.unasked_reply(request, reason, judge=self.name)

    def _ask(self, request: RequestT) -> ReplyT:
        said = self._client.ask(self._question(request))
        if isinstance(said, Failure):
            return self._failed(request, said.reason, said.detail)
        return self._read(request, said.text, said.model)

    def _read(self, request: RequestT, text: str, model: str) -> ReplyT:
        return self._script.read_reply(request, text, judge=self.name, model=model, min_confidence=self._min_confidence)

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


def _is_failed(reply: Any) -> bool:
    return bool(reply.failed)


def _result(reply: ReplyT | Future[ReplyT]) -> ReplyT:
    return reply.result() if isinstance(reply, Future) else reply
