"""Puts many recent texts at once to a Claude model (P2): one call a reading, each failure that reading's own.

Belongs here: the calls and what is never sent. Does not belong here: prompts and the reading of replies (the script: the
window stage, handed in by the roof).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from kb_pipeline.adapters.judges.budget import Amount, Budget, tokens_of
from kb_pipeline.adapters.judges.messages_client import Failure, MessagesClient, Question
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.policy.judging import JudgePolicy
from kb_pipeline.vocabulary import ReasonCode

READER_NAME = "anthropic"

MAX_REPLY_TOKENS = 8192
"""Room for a list of findings about a few dozen entries, merged bodies included."""

EXPECTED_REPLY_TOKENS = 1_500
"""What a reading is reckoned to answer before it is sent; most find little."""


class WindowScript(Protocol):
    """The pure half of a reading. The module ``kb_pipeline.stages.window`` is one."""

    PROMPT_VERSION: str
    REPLY_SCHEMA: dict[str, Any]

    def build_prompt(self, reading: Any, /) -> tuple[str, str]:
        """System text and message."""

    def read_reply(self, reading: Any, reply: str, /, *, min_confidence: float) -> Any:
        """What counts of a reply."""

    def WindowReply(self, *, failure: ReasonCode, detail: str) -> Any:  # noqa: N802 - a class of a module
        """A reply of which nothing counts."""


class WindowReader:
    """Reads recent texts through one model. One object serves one pass; ``usage`` counts what it has cost.

    Args:
        script: prompts and the reading of replies (the window stage).
        client: the model.
        budget: what the readings of this pass may cost; one that does not fit is not sent (``judge.budget_spent``).
        min_confidence: with how much confidence the planted pair must be named, 0-1.
    """

    def __init__(self, script: WindowScript, client: MessagesClient, budget: Budget, *, min_confidence: float) -> None:
        self.name = READER_NAME
        self.fingerprint = f"{READER_NAME}/{client.model}/{script.PROMPT_VERSION}"
        self._script = script
        self._client = client
        self._budget = budget
        self._min_confidence = min_confidence

    @property
    def usage(self) -> Mapping[str, int]:
        """What the readings have cost so far: calls, input_tokens, output_tokens, cached_tokens."""
        return self._client.usage

    @property
    def cost_usd(self) -> float | None:
        """The same in money; None for a model without a price."""
        return self._budget.cost_usd

    @property
    def tokens(self) -> int:
        """All tokens read and written so far."""
        return self._client.tokens

    def read(self, readings: Sequence[Any]) -> Iterator[Any]:
        """One reply per reading, in their order, as they arrive. Failures are replies, not exceptions."""
        with self._client:
            for reading in readings:
                yield self._read_one(reading)

    def _read_one(self, reading: Any) -> Any:
        # Such texts were left out long before; what leaves the machine is looked at once more all the same.
        if any(find_secrets([text.text for text in reading.texts])):
            return self._script.WindowReply(failure=ReasonCode.JUDGE_SECRET, detail="not sent: a text holds a secret")
        system, user = self._script.build_prompt(reading)
        amount = Amount(1, tokens_of(system) + tokens_of(user), EXPECTED_REPLY_TOKENS)
        if not self._budget.reserve(amount, is_batch=False):
            return self._script.WindowReply(
                failure=ReasonCode.JUDGE_BUDGET_SPENT, detail="not sent: the budget is spent"
            )
        try:
            said = self._client.ask(Question(system, user, self._script.REPLY_SCHEMA, MAX_REPLY_TOKENS))
        finally:
            self._budget.release(amount, is_batch=False)
        if isinstance(said, Failure):
            return self._script.WindowReply(failure=said.reason, detail=said.detail)
        return self._script.read_reply(reading, said.text, min_confidence=self._min_confidence)


def window_reader(
    policy: JudgePolicy, script: WindowScript, *, min_confidence: float, environ: Mapping[str, str] | None = None
) -> WindowReader:
    """The reader of the model that the section ``judge`` names; the caller has made sure that a network judge is in force.

    Args:
        policy: the section ``judge``.
        script: the window stage.
        min_confidence: see ``WindowReader``.
        environ: environment variables; those of the process by default.
    """
    variables = os.environ if environ is None else environ
    client = MessagesClient(
        model=policy.model,
        api_key=variables.get(policy.api_key_env, "").strip(),
        base_url=policy.base_url or variables.get("ANTHROPIC_BASE_URL") or None,
        timeout_seconds=policy.timeout_seconds,
        max_retries=policy.max_retries,
    )
    budget = Budget(client, policy.price(), max_tokens=policy.max_tokens, max_cost_usd=policy.max_cost_usd)
    return WindowReader(script, client, budget, min_confidence=min_confidence)
