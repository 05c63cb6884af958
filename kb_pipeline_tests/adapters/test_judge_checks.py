"""How far a model is trusted: canaries, both orders, and what it may cost (X2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kb_pipeline.adapters.judges.anthropic_judge import GROUP_PAIRS
from kb_pipeline.stages import judge as script
from kb_pipeline.vocabulary import ReasonCode, Verdict
from kb_pipeline_tests.fakes.messages_api import Answer, MessagesApi, failure, verdict
from kb_pipeline_tests.fakes.pairs import network_judge, pairs


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi(lambda body: verdict("same_rule")) as server:
        yield server


@pytest.mark.parametrize(("other", "reason"), [("distinct", "distinct"), ("conflict", "conflict")])
def test_the_same_counts_when_it_is_said_in_both_orders(api: MessagesApi, other: str, reason: str) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        prompt = str(body["messages"][0]["content"])
        is_first = prompt.index("Left statement") < prompt.index("Right statement")
        return verdict("same_rule", 0.9) if is_first else verdict(other, reason=f"I call it {reason} now.")

    api.answer = answer
    (reply,) = network_judge(api).decide(pairs(1))
    assert (reply.verdict, reply.reason) == (Verdict.UNSURE, ReasonCode.JUDGE_ORDER_DISAGREES)
    assert reply.cacheable and not reply.failed and f"I call it {reason} now." in str(reply.explanation)
    # What is no merge is asked once.
    api.answer = lambda body: verdict(other)
    asked = len(api.calls)
    list(network_judge(api).decide(pairs(1)))
    assert len(api.calls) == asked + 1


def test_both_orders_give_the_lower_confidence_and_a_failure_stays_one(api: MessagesApi) -> None:
    api.script = [verdict("same_rule", 0.97), verdict("same_rule", 0.81), verdict("same_rule"), failure(500)]
    sure, lost = network_judge(api, max_concurrency=1).decide(pairs(2))
    assert (sure.verdict, sure.judge_confidence) == (Verdict.MERGE, 0.81)
    assert (lost.verdict, lost.reason, lost.failed) == (Verdict.KEEP_BOTH, ReasonCode.JUDGE_UNAVAILABLE, True)


@pytest.mark.parametrize(
    ("canary", "reason"),
    [
        (lambda is_same: verdict("same_rule"), ReasonCode.JUDGE_CANARY_FAILED),
        (lambda is_same: verdict("distinct"), ReasonCode.JUDGE_CANARY_FAILED),
        (lambda is_same: verdict("same_rule", 0.2), ReasonCode.JUDGE_CANARY_FAILED),
        (lambda is_same: Answer("no JSON"), ReasonCode.JUDGE_INVALID_REPLY),
        (lambda is_same: failure(500), ReasonCode.JUDGE_UNAVAILABLE),
    ],
    ids=["all the same", "all distinct", "never sure", "garbage", "down"],
)
def test_a_model_that_is_wrong_about_what_is_known_is_not_asked(
    api: MessagesApi, canary: Callable[[bool], Answer], reason: ReasonCode
) -> None:
    api.canary = canary
    replies = list(network_judge(api).decide(pairs(25)))
    assert {(reply.verdict, reply.reason, reply.failed, reply.cacheable) for reply in replies} == {
        (Verdict.KEEP_BOTH, reason, True, False)
    }
    assert api.calls == []


def test_one_wrong_canary_sets_its_own_group_aside(api: MessagesApi) -> None:
    api.answer = lambda body: verdict("distinct")
    # The third canary is the first one of the second group.
    api.canary = lambda is_same: verdict("same_rule" if is_same and len(api.canaries) != 3 else "distinct")
    replies = list(network_judge(api).decide(pairs(2 * GROUP_PAIRS + 5)))
    assert [reply.failed for reply in replies] == [False] * GROUP_PAIRS + [True] * GROUP_PAIRS + [False] * 5
    assert len(api.calls) == GROUP_PAIRS + 5


def test_canaries_alternate_and_look_like_any_pair(api: MessagesApi) -> None:
    list(network_judge(api).decide(pairs(3 * GROUP_PAIRS)))
    assert len(api.canaries) == 6
    assert [body["system"] for body in api.canaries] == [api.calls[0]["system"]] * 6
    assert [is_same for _, is_same in script.CANARIES] == [True, False] * 3
    assert "canary" not in json.dumps(api.canaries).lower()


def test_what_a_run_costs_is_counted_and_can_be_limited(api: MessagesApi) -> None:
    judge = network_judge(api, max_concurrency=1, max_tokens=12)
    replies = list(judge.decide(pairs(6)))
    # Each call of the loopback reads and writes one token: two canaries, then pairs in both orders.
    assert [reply.reason for reply in replies] == [ReasonCode.JUDGE_SAME_RULE] * 2 + [ReasonCode.JUDGE_BUDGET_SPENT] * 4
    assert judge.usage == {
        "calls": 6,
        "canaries": 2,
        "input_tokens": 6,
        "output_tokens": 6,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
    }
    assert {reply.failed for reply in replies} == {False}
