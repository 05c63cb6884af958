"""Judges of pairs: who may be asked whether two entries state the same rule, and which one this run uses.

Belongs here: what a judge is, what it is given of the judge stage, and the choice among judges (policy ``judge.name``).
Does not belong here: prompts, the reading of replies and the rules themselves. They are pure and stand in the judge
stage; because adapters never import stages, the roof hands that module in as the ``script`` of a judge.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kb_pipeline.adapters.judges.rule import RuleJudge
from kb_pipeline.errors import UsageError
from kb_pipeline.policy.judging import JudgePolicy
from kb_pipeline.vocabulary import Band, Kind, ReasonCode

if TYPE_CHECKING:
    from kb_pipeline.adapters.judges.batch_store import BatchStore


class Pair(Protocol):
    """What a judge needs to know of a request to decide whether and when it is put to a model."""

    @property
    def content_hash_l(self) -> str:
        """Hash of the left entry's version."""

    @property
    def content_hash_r(self) -> str:
        """Hash of the right entry's version."""

    @property
    def kind_l(self) -> Kind:
        """Kind of the left entry."""

    @property
    def kind_r(self) -> Kind:
        """Kind of the right entry."""

    @property
    def text_l(self) -> str:
        """Text of the left entry."""

    @property
    def text_r(self) -> str:
        """Text of the right entry."""

    @property
    def band(self) -> Band:
        """How the pair was found; borderline and lexical pairs have their own budget (K8)."""


RequestT = TypeVar("RequestT", bound=Pair)
RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
ReplyT = TypeVar("ReplyT")
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Script(Protocol[RequestT_contra, ReplyT_co]):
    """The pure half of a judge. The module ``kb_pipeline.stages.judge`` is one."""

    PROMPT_VERSION: str
    RULE_JUDGE: str
    RULE_VERSION: str
    REPLY_SCHEMA: dict[str, Any]

    @property
    def CANARIES(self) -> Sequence[tuple[Any, bool]]:  # noqa: N802 - a constant of a module
        """Pairs with a known answer, and whether it is "the same"."""

    def rule_replies(self, requests: Sequence[RequestT_contra], /) -> Sequence[ReplyT_co]:
        """The verdicts by rule."""

    def withheld_reason(self, request: RequestT_contra, max_text_chars: int, /) -> ReasonCode | None:
        """Why a pair must not be put to a model."""

    def build_prompt(self, request: RequestT_contra, /) -> tuple[str, str]:
        """System text and user message."""

    def read_reply(
        self, request: RequestT_contra, text: str, /, *, judge: str, model: str | None, min_confidence: float
    ) -> ReplyT_co:
        """The verdict in a model's text."""

    def swapped(self, request: RequestT_contra, /) -> Any:
        """The same pair, asked in the other order."""

    def needs_other_order(self, reply: Any, /) -> bool:
        """Whether a reply counts only when the model says it of the swapped pair too."""

    def agreed_reply(self, first: Any, second: Any, /) -> ReplyT_co:
        """What a model said of a pair in both orders."""

    def is_right(self, is_same: bool, reply: Any, /) -> bool:
        """Whether a model judged a canary as it must."""

    def failed_reply(
        self, request: RequestT_contra, reason: ReasonCode, /, *, judge: str, model: str | None, detail: str
    ) -> ReplyT_co:
        """KEEP_BOTH for a pair on which the model failed."""

    def unasked_reply(self, request: RequestT_contra, reason: ReasonCode, /, *, judge: str) -> ReplyT_co:
        """UNSURE for a pair that was not asked."""

    def recorded_reply(self, request: RequestT_contra, recorded: Mapping[str, Any], /) -> ReplyT_co:
        """The verdict that stands in a record. Raises ValueError where it holds none."""


class Judge(Protocol[RequestT_contra, ReplyT_co]):
    """Something that decides pairs. ``fingerprint`` names all that changes its answers: it keys the verdict cache."""

    @property
    def name(self) -> str:
        """Short name, as it stands in reports."""

    @property
    def fingerprint(self) -> str:
        """Name, model, prompt version and the settings that change answers."""

    @property
    def is_network(self) -> bool:
        """Whether texts leave the machine; then the caller holds back restricted entries."""

    @property
    def judges_open_pairs(self) -> bool:
        """Whether it is asked about what the rules leave open."""

    @property
    def usage(self) -> Mapping[str, int]:
        """What its answers have cost so far, by name; empty for a judge that costs nothing."""

    @property
    def cost_usd(self) -> float | None:
        """The same in money; None where it is not known, or nothing is paid."""

    @property
    def estimate(self) -> Mapping[str, float | None]:
        """What it was going to take before anything was sent; empty for a judge that costs nothing."""

    def decide(self, requests: Sequence[RequestT_contra]) -> Iterator[ReplyT_co]:
        """One reply per request, in their order. Failures are replies, not exceptions."""


def choose_judge(
    policy: JudgePolicy,
    script: Script[RequestT, ReplyT],
    environ: Mapping[str, str] | None = None,
    *,
    batch_store: Callable[[str], BatchStore] | None = None,
    on_estimate: Callable[[Mapping[str, float | None]], None] | None = None,
) -> Judge[RequestT, ReplyT]:
    """The judge that ``policy`` asks for.

    ``auto`` takes the network judge when the environment variable ``policy.api_key_env`` holds a key, else the rules.

    Args:
        policy: the section ``judge``.
        script: the judge stage, handed in by the roof.
        environ: environment variables; those of the process by default.
        batch_store: where batches are kept, for a model and version of the prompt; without it nothing goes by batch.
        on_estimate: told what is going to be asked, before it is sent.

    Raises:
        UsageError: ``anthropic`` was asked for and the key is not set, or ``replay`` and its file cannot be used.
    """
    variables = os.environ if environ is None else environ
    key = variables.get(policy.api_key_env, "").strip()
    if policy.name == "replay":
        if policy.replay_file is None:
            raise UsageError("judge replay needs policy judge.replay_file, a file that kb verdicts has written")
        from kb_pipeline.adapters.judges.replay import ReplayJudge

        return ReplayJudge(script, Path(policy.replay_file), max_text_chars=policy.max_text_chars)
    if policy.name == "rule" or (policy.name == "auto" and not key):
        return RuleJudge(script)
    if not key:
        raise UsageError(
            f"policy judge.name is anthropic, but the environment variable {policy.api_key_env} is not set. "
            "Set it to an API key, or use judge.name: rule to work offline."
        )
    from kb_pipeline.adapters.judges.anthropic_judge import AnthropicJudge

    return AnthropicJudge(
        script,
        model=policy.model,
        api_key=key,
        base_url=policy.base_url or variables.get("ANTHROPIC_BASE_URL") or None,
        timeout_seconds=policy.timeout_seconds,
        max_retries=policy.max_retries,
        max_calls=policy.max_calls,
        max_borderline_calls=policy.max_borderline_calls,
        max_tokens=policy.max_tokens,
        max_cost_usd=policy.max_cost_usd,
        price=policy.price(),
        max_concurrency=policy.max_concurrency,
        min_confidence=policy.min_confidence,
        max_text_chars=policy.max_text_chars,
        delivery=policy.delivery,
        min_batch_pairs=policy.min_batch_pairs,
        max_batch_wait_seconds=60 * policy.max_batch_wait_minutes,
        batch_poll_seconds=policy.batch_poll_seconds,
        batch_store=batch_store,
        on_estimate=on_estimate,
    )
