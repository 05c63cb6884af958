"""What batches and direct calls cost: estimated before, counted after, and held to a limit."""

from __future__ import annotations

from typing import Any

import pytest

from kb_pipeline.adapters.database import Database
from kb_pipeline.policy.judging import ModelPrice
from kb_pipeline.vocabulary import ReasonCode
from kb_pipeline_tests.fakes.messages_api import MessagesApi
from kb_pipeline_tests.fakes.pairs import batch_judge, network_judge, pairs, reasons

PRICE = ModelPrice(input=1.0, output=5.0, cache_write=1.25, cache_read=0.1, batch_share=0.5)


def test_a_batch_costs_its_share_and_is_estimated_before(api: MessagesApi, database: Database) -> None:
    told: list[Any] = []
    judge = batch_judge(
        api, database, price=PRICE, on_estimate=lambda numbers: told.append((len(api.batches.made), numbers))
    )
    list(judge.decide(pairs(3)))
    # Five requests of one token each way on the loopback.
    assert judge.cost_usd == pytest.approx(0.5 * 5 * (1.0 + 5.0) / 1e6)
    ((made, estimate),) = told
    assert (made, estimate["calls"]) == (0, 2 * 3 + 2)
    assert estimate["input_tokens"] > 1000 and estimate["cost_usd"] > judge.cost_usd
    direct = network_judge(api, price=PRICE)
    list(direct.decide(pairs(3)))
    assert direct.cost_usd == pytest.approx(5 * (1.0 + 5.0) / 1e6)
    assert direct.estimate["cost_usd"] == pytest.approx(2 * estimate["cost_usd"])
    assert network_judge(api).cost_usd is None and network_judge(api).estimate["cost_usd"] is None


@pytest.mark.parametrize("limit", ["max_cost_usd", "max_tokens", "max_calls"])
def test_what_is_over_the_budget_waits_for_the_next_run(api: MessagesApi, database: Database, limit: str) -> None:
    probe = network_judge(api, price=PRICE, max_calls=0)
    one = probe._amount(pairs(1)[0]).times(2)
    usd = 0.5 * (one.input_tokens * PRICE.input + one.output_tokens * PRICE.output) / 1e6
    limits = {"max_cost_usd": 2.5 * usd, "max_tokens": int(2.5 * one.tokens), "max_calls": 2}
    judge = batch_judge(api, database, price=PRICE, **{limit: limits[limit]})
    assert reasons(list(judge.decide(pairs(5)))) == [
        *[ReasonCode.JUDGE_DISTINCT] * 2,
        *[ReasonCode.JUDGE_BUDGET_SPENT] * 3,
    ]
    (batch,) = api.batches.made
    assert len(batch.requests) == 4
    # What was answered needs no budget any more.
    after = list(batch_judge(api, database, price=PRICE, **{limit: limits[limit]}).decide(pairs(5)))
    assert reasons(after) == [*[ReasonCode.JUDGE_DISTINCT] * 4, ReasonCode.JUDGE_BUDGET_SPENT]


def test_what_lies_in_a_batch_is_not_asked_directly_and_counts_against_no_limit(
    api: MessagesApi, database: Database
) -> None:
    api.batches.end_at_once = False
    list(batch_judge(api, database, max_batch_wait_seconds=0).decide(pairs(3)))
    waiting = batch_judge(api, database, delivery="direct", max_batch_wait_seconds=0, max_concurrency=1)
    assert reasons(list(waiting.decide(pairs(4)))) == [*[ReasonCode.JUDGE_BATCH_PENDING] * 3, ReasonCode.JUDGE_DISTINCT]
    api.batches.end_all()
    # The five answers of the batch take ten tokens; one pair more takes what is left of these four.
    judge = batch_judge(api, database, delivery="direct", price=PRICE, max_tokens=5, max_concurrency=1)
    replies = list(judge.decide([*pairs(3), *pairs(6)[4:]]))
    assert reasons(replies) == [*[ReasonCode.JUDGE_DISTINCT] * 4, ReasonCode.JUDGE_BUDGET_SPENT]
    assert judge.usage["calls"] == 5 + 2 + 1 and len(api.batches.made) == 1
    assert judge.cost_usd == pytest.approx((0.5 * 5 + 3) * 6 / 1e6)


def test_money_limits_direct_calls_too(api: MessagesApi) -> None:
    probe = network_judge(api, price=PRICE, max_calls=0)
    one = probe._amount(pairs(1)[0]).times(2)
    usd = (one.input_tokens * PRICE.input + one.output_tokens * PRICE.output) / 1e6
    enough = network_judge(api, price=PRICE, max_cost_usd=1.5 * usd, max_concurrency=1)
    # What was set aside comes back when the real use is known.
    assert reasons(list(enough.decide(pairs(5)))) == [ReasonCode.JUDGE_DISTINCT] * 5
    calls = len(api.calls)
    too_little = network_judge(api, price=PRICE, max_cost_usd=0.9 * usd)
    assert reasons(list(too_little.decide(pairs(5)))) == [ReasonCode.JUDGE_BUDGET_SPENT] * 5
    assert len(api.calls) == calls
