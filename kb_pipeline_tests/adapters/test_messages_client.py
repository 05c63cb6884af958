"""One question, one answer: what a client counts, and when it stops asking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kb_pipeline.adapters.judges.budget import REPLY_TOKENS, Amount, Budget, amount_of, tokens_of
from kb_pipeline.adapters.judges.messages_client import Failure, MessagesClient, Question, Said
from kb_pipeline.policy.judging import ModelPrice
from kb_pipeline.vocabulary import ReasonCode
from kb_pipeline_tests.fakes.messages_api import Answer, MessagesApi, failure

QUESTION = Question("Answer in one word.", "Which colour has the sea?", {"type": "object"}, max_reply_tokens=77)
PRICE = ModelPrice(input=2.0, output=10.0, cache_write=2.5, cache_read=0.2, batch_share=0.5)


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi(lambda body: Answer("blue")) as server:
        yield server


def client_of(api: MessagesApi, **changes: Any) -> MessagesClient:
    settings = {
        "model": "claude-haiku-4-5",
        "api_key": "k",
        "base_url": api.url,
        "timeout_seconds": 5.0,
        "max_retries": 0,
    }
    return MessagesClient(**(settings | changes))


def test_a_question_is_sent_as_it_is_and_its_text_comes_back(api: MessagesApi) -> None:
    with client_of(api) as client:
        assert client.ask(QUESTION) == Said("blue", "claude-haiku-4-5")
    (body,) = api.calls
    assert (body["max_tokens"], body["messages"]) == (77, [{"role": "user", "content": QUESTION.user}])
    assert body["output_config"]["format"]["schema"] == {"type": "object"}
    # A client that was closed opens again, and counts on.
    assert client.ask(QUESTION) == Said("blue", "claude-haiku-4-5")
    assert (client.usage["calls"], client.tokens) == (2, 4)


def test_a_refused_key_ends_the_asking_and_other_failures_do_not(api: MessagesApi) -> None:
    client = client_of(api)
    api.script = [failure(500), failure(401)]
    assert client.ask(QUESTION) == Failure(ReasonCode.JUDGE_UNAVAILABLE, "HTTP 500", 500)
    assert not client.is_closed
    assert client.ask(QUESTION) == Failure(ReasonCode.JUDGE_REJECTED_REQUEST, "HTTP 401: key or model refused", 401)
    assert client.is_closed
    last = client.ask(QUESTION)
    assert isinstance(last, Failure) and last.detail.startswith("not asked") and len(api.calls) == 2


def test_tokens_of_the_cache_are_counted_and_priced_apart(api: MessagesApi) -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 20,
        "cache_read_input_tokens": 3000,
        "cache_creation_input_tokens": 400,
    }
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "x",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "blue"}],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    api.script = [Answer(raw=json.dumps(message).encode())]
    client = client_of(api)
    budget = Budget(client, PRICE, max_tokens=None, max_cost_usd=None)
    assert client.ask(QUESTION) == Said("blue", "x")
    direct = (10 * 2.0 + 20 * 10.0 + 3000 * 0.2 + 400 * 2.5) / 1e6
    assert client.tokens == 3430 and budget.cost_usd == pytest.approx(direct)
    # The same message by batch costs half.
    client.read(message, is_of_batch=True)
    assert budget.cost_usd == pytest.approx(1.5 * direct)


def test_the_estimate_follows_its_rule() -> None:
    assert [tokens_of(text) for text in ("", "a", "abc", "abcd", "海", "海は", "\ud800")] == [0, 1, 1, 2, 1, 2, 1]
    amount = amount_of(Question("x" * 300, "y" * 30, {}), "z" * 60)
    assert amount == Amount(1, 110, REPLY_TOKENS + 20)
    assert amount_of(Question("", "", {}, max_reply_tokens=50), "z" * 600).output_tokens == 50
    assert amount.times(3) == amount + amount + amount and amount.tokens == 110 + REPLY_TOKENS + 20


def test_money_that_was_set_aside_is_not_spent_twice(api: MessagesApi) -> None:
    amount = Amount(1, 100_000, 10_000)
    one = 0.3
    budget = Budget(client_of(api), PRICE, max_tokens=None, max_cost_usd=2.5 * one)
    assert [budget.reserve(amount, is_batch=False) for _ in range(3)] == [True, True, False]
    budget.release(amount, is_batch=False)
    assert budget.reserve(amount, is_batch=False)
    # By batch the same takes half.
    half = Budget(client_of(api), PRICE, max_tokens=None, max_cost_usd=2.6 * one)
    assert [half.reserve(amount, is_batch=True) for _ in range(6)] == [True] * 5 + [False]
