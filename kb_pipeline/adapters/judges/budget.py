"""What asking a model may cost in a run, what it will cost by estimate, and what it did cost.

Belongs here: tokens and money. Does not belong here: which pairs are worth asking about first (the caller's order).

The estimate is made from lengths alone, nothing is sent for it: a token for every three bytes of UTF-8 (rather too many for
English, about right for scripts of three bytes a character), REPLY_TOKENS for a reply, and as many again as the longer text
of the pair has, because a reply may suggest one text for both. Both orders and the pairs with a known answer are counted, so
a run costs less than its estimate unless the model thinks at length before it answers.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kb_pipeline.adapters.judges.messages_client import MessagesClient, Question
from kb_pipeline.policy.judging import ModelPrice

BYTES_PER_TOKEN = 3
REPLY_TOKENS = 150


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens by estimate."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )

    def times(self, number: int) -> Amount:
        """So many of them."""
        return Amount(self.calls * number, self.input_tokens * number, self.output_tokens * number)

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input_tokens + self.output_tokens


def tokens_of(text: str) -> int:
    """Tokens of a text by the rule above."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def amount_of(question: Question, longest_text: str) -> Amount:
    """What one question takes, by the rule above."""
    reply = min(question.max_reply_tokens, REPLY_TOKENS + tokens_of(longest_text))
    return Amount(1, tokens_of(question.system) + tokens_of(question.user), reply)


class Budget:
    """The limits of one run; safe to use from several threads.

    Args:
        client: counts what was used.
        price: USD per million tokens; None: costs are not known and not limited.
        max_tokens: no question is asked once so many tokens were read and written; None: no limit.
        max_cost_usd: no question is asked that could bring the cost above this; None: no limit.
    """

    def __init__(
        self, client: MessagesClient, price: ModelPrice | None, *, max_tokens: int | None, max_cost_usd: float | None
    ) -> None:
        self._client = client
        self._price = price
        self._max_tokens = max_tokens
        self._max_cost_usd = max_cost_usd
        self._lock = threading.Lock()
        self._reserved_usd = 0.0
        self._reserved_tokens = 0
        self._earlier_usd = 0.0
        self._earlier_tokens = 0
        self.estimate = Amount()
        self.estimated_usd: float | None = None if price is None else 0.0

    @property
    def cost_usd(self) -> float | None:
        """What was used so far, in USD; None for a model without a price."""
        if self._price is None:
            return None
        used, batch = self._client.usage, self._client.batch_usage
        names = {
            "input_tokens": self._price.input,
            "output_tokens": self._price.output,
            "cached_tokens": self._price.cache_read,
            "cache_write_tokens": self._price.cache_write,
        }
        return sum(
            price * (used[name] - batch[name] * (1 - self._price.batch_share)) / 1e6 for name, price in names.items()
        )

    def leave_out_what_was_used(self) -> None:
        """What was used so far was asked by an earlier run, under its limits: it counts as cost and against no limit."""
        self._earlier_usd, self._earlier_tokens = self.cost_usd or 0.0, self._client.tokens

    def expect(self, amount: Amount, *, is_batch: bool) -> None:
        """Adds to the estimate of this run, before anything of it is sent."""
        self.estimate += amount
        if self.estimated_usd is not None:
            self.estimated_usd += self._usd(amount, is_batch)

    def reserve(self, amount: Amount, *, is_batch: bool) -> bool:
        """Sets aside what a question may take; False when there is not enough left.

        A direct question is asked while tokens are left at all, for its real use shows at once; a batch must fit as a whole.
        """
        with self._lock:
            if self._max_tokens is not None:
                after = (
                    self._client.tokens
                    - self._earlier_tokens
                    + self._reserved_tokens
                    + (amount.tokens if is_batch else 0)
                )
                if after > self._max_tokens or (not is_batch and after == self._max_tokens):
                    return False
            if self._max_cost_usd is not None:
                cost = self._usd(amount, is_batch)
                if (self.cost_usd or 0.0) - self._earlier_usd + self._reserved_usd + cost > self._max_cost_usd:
                    return False
                self._reserved_usd += cost
            self._reserved_tokens += amount.tokens if is_batch else 0
            return True

    def release(self, amount: Amount, *, is_batch: bool) -> None:
        """Gives back what was set aside: the real use is counted now."""
        with self._lock:
            if self._max_cost_usd is not None:
                self._reserved_usd = max(0.0, self._reserved_usd - self._usd(amount, is_batch))
            self._reserved_tokens -= amount.tokens if is_batch else 0

    def _usd(self, amount: Amount, is_batch: bool) -> float:
        if self._price is None:
            return 0.0
        share = self._price.batch_share if is_batch else 1.0
        return share * (amount.input_tokens * self._price.input + amount.output_tokens * self._price.output) / 1e6
