"""Pairs that go out as Message Batches: sent once, taken up whenever they end, and each fault isolated."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.judges.anthropic_judge import AnthropicJudge
from kb_pipeline.adapters.judges.batch_rounds import GROUP_PAIRS
from kb_pipeline.adapters.judges.batch_store import BatchStore, StoredQuestion
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.judge import PairReply, PairRequest
from kb_pipeline.vocabulary import ReasonCode, Verdict
from kb_pipeline_tests.fakes.message_batches import Batch, Lines
from kb_pipeline_tests.fakes.messages_api import Answer, MessagesApi, failure, verdict
from kb_pipeline_tests.fakes.pairs import batch_judge, number_of, pairs, reasons

PENDING = ReasonCode.JUDGE_BATCH_PENDING
UNANSWERED = ReasonCode.JUDGE_BATCH_UNANSWERED
Judge = AnthropicJudge[PairRequest, PairReply]


def test_a_batch_answers_in_any_order_and_the_same_counts_in_both(api: MessagesApi, database: Database) -> None:
    words = ["same_rule", "distinct", "conflict"]
    api.answer = lambda body: verdict(words[number_of(body) % 3])
    judge = batch_judge(api, database)
    replies = list(judge.decide(pairs(30)))
    assert [reply.pair_id for reply in replies] == [f"p{number}" for number in range(30)]
    assert [reply.verdict for reply in replies] == [Verdict.MERGE, Verdict.KEEP_BOTH, Verdict.CONFLICT] * 10
    first, other = api.batches.made
    # Two canaries for every twenty pairs ride in each; only what was said to be the same is asked the other way round.
    assert (len(first.requests), len(other.requests)) == (30 + 4, 10 + 2)
    turned = [str(request["params"]["messages"][0]["content"]) for request in other.requests]
    assert sum(prompt.find("Right statement") < prompt.find("Left statement") for prompt in turned) == 10
    assert {request["params"]["system"][0]["cache_control"]["type"] for request in first.requests} == {"ephemeral"}
    assert judge.usage["canaries"] == 6 and judge.usage["calls"] == 46
    assert all(len(request["custom_id"]) <= 64 for request in first.requests)


def test_orders_that_disagree_are_unsure(api: MessagesApi, database: Database) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        prompt = str(body["messages"][0]["content"])
        return verdict("same_rule" if prompt.index("Left statement") < prompt.index("Right statement") else "distinct")

    api.answer = answer
    (reply,) = batch_judge(api, database).decide(pairs(1))
    assert (reply.verdict, reply.reason) == (Verdict.UNSURE, ReasonCode.JUDGE_ORDER_DISAGREES)


def test_few_pairs_go_out_directly_and_few_other_orders_too(api: MessagesApi, database: Database) -> None:
    api.answer = lambda body: verdict("same_rule" if number_of(body) < 2 else "distinct")
    few = list(batch_judge(api, database, delivery="auto", min_batch_pairs=10).decide(pairs(9)))
    assert (api.batches.made, len(api.calls)) == ([], 9 + 2)
    many = list(batch_judge(api, database, delivery="auto", min_batch_pairs=10).decide(pairs(10)))
    assert [reply.verdict for reply in many] == [Verdict.MERGE] * 2 + [Verdict.KEEP_BOTH] * 8
    assert [reply.verdict for reply in few] == [reply.verdict for reply in many][:9]
    (batch,) = api.batches.made
    assert len(batch.requests) == 12 and len(api.calls) == 11 + 10 + 2
    list(batch_judge(api, database, delivery="direct", min_batch_pairs=1).decide(pairs(10)))
    assert len(api.batches.made) == 1


def test_a_batch_that_has_not_ended_is_taken_up_by_the_next_run_and_not_sent_again(
    api: MessagesApi, database: Database
) -> None:
    api.answer = lambda body: verdict("same_rule" if number_of(body) == 0 else "distinct")
    api.batches.end_at_once = False
    first = batch_judge(api, database, max_batch_wait_seconds=2.0)
    replies = list(first.decide(pairs(3)))
    assert {(reply.verdict, reply.reason, reply.failed, reply.cacheable) for reply in replies} == {
        (Verdict.UNSURE, PENDING, False, False)
    }
    # Looked at more than once, and ever more rarely: every 0.05 s would have been forty times.
    assert 2 <= api.batches.looks <= 10
    assert first.usage["calls"] == 0
    # A pair more: the old ones are waited for, the new one is sent.
    replies = list(batch_judge(api, database, max_batch_wait_seconds=0).decide(pairs(4)))
    assert reasons(replies) == [PENDING] * 4 and [len(batch.requests) for batch in api.batches.made] == [5, 3]
    api.batches.end_all()
    api.batches.end_at_once = True
    last = batch_judge(api, database)
    replies = list(last.decide(pairs(4)))
    assert [reply.verdict for reply in replies] == [Verdict.MERGE, *[Verdict.KEEP_BOTH] * 3]
    # What is new is the other order of the one pair that is the same.
    assert [len(batch.requests) for batch in api.batches.made] == [5, 3, 3]
    assert last.usage["calls"] == 11
    # Once more: everything is known, nothing is sent or paid.
    again = batch_judge(api, database)
    assert [reply.verdict for reply in again.decide(pairs(4))] == [reply.verdict for reply in replies]
    assert len(api.batches.made) == 3 and not api.calls[8:] and again.usage["calls"] == 0


def test_another_corpus_or_another_prompt_sees_nothing_of_it(api: MessagesApi, database: Database) -> None:
    list(batch_judge(api, database).decide(pairs(2)))
    other = {"batch_store": lambda questions: BatchStore(database, "umbra", questions)}
    list(batch_judge(api, database, **other).decide(pairs(2)))
    list(batch_judge(api, database, model="claude-opus-5").decide(pairs(2)))
    assert len(api.batches.made) == 3
    # What an answer is worth is decided when it is read: another threshold reads the same answers.
    stricter = list(batch_judge(api, database, min_confidence=0.99).decide(pairs(2)))
    assert len(api.batches.made) == 3 and {reply.reason for reply in stricter} == {ReasonCode.JUDGE_LOW_CONFIDENCE}


FAULTS: dict[str, tuple[Answer | None, ReasonCode]] = {
    "outside the schema": (Answer('{"verdict": "merge!"}'), ReasonCode.JUDGE_INVALID_REPLY),
    "html": (Answer("<html><body>bad gateway</body></html>"), ReasonCode.JUDGE_INVALID_REPLY),
    "endless": (Answer("so " * 40_000), ReasonCode.JUDGE_INVALID_REPLY),
    "another language": (Answer("这两条记录是相同的。"), ReasonCode.JUDGE_INVALID_REPLY),
    "a NUL": (Answer('{"verdict": "distinct"}\x00'), ReasonCode.JUDGE_INVALID_REPLY),
    "half a character": (Answer("\ud800"), ReasonCode.JUDGE_INVALID_REPLY),
    "empty": (Answer(""), ReasonCode.JUDGE_INVALID_REPLY),
    "refusal": (Answer(stop_reason="refusal"), ReasonCode.JUDGE_REFUSED),
    "cut off": (Answer("{", stop_reason="max_tokens"), ReasonCode.JUDGE_TRUNCATED),
    "not a message": (Answer(raw=b"7"), ReasonCode.JUDGE_INVALID_REPLY),
    "errored": (failure(500), UNANSWERED),
    "invalid request": (failure(400), UNANSWERED),
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_bad_result_of_three_is_that_pairs_alone_and_is_asked_again(
    api: MessagesApi, database: Database, name: str
) -> None:
    bad, reason = FAULTS[name]
    assert bad is not None
    api.answer = lambda body: bad if number_of(body) == 1 else verdict("distinct")
    replies = list(batch_judge(api, database).decide(pairs(3)))
    assert reasons(replies) == [ReasonCode.JUDGE_DISTINCT, reason, ReasonCode.JUDGE_DISTINCT]
    assert (replies[1].verdict, replies[1].failed, replies[1].cacheable) == (Verdict.KEEP_BOTH, True, False)
    assert "marmalade" not in str(replies[1].explanation)
    api.answer = lambda body: verdict("distinct")
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert [len(batch.requests) for batch in api.batches.made] == [5, 3]


def _of_pair(line: dict[str, Any], lines: Lines) -> bool:
    """Whether a line answers the second pair of three: the results come last first, and two canaries stand in front."""
    return line is lines[1]


DISTURBANCES: dict[str, tuple[Any, ReasonCode]] = {
    "missing": (lambda lines: [line for line in lines if not _of_pair(line, lines)], UNANSWERED),
    "expired": (
        lambda lines: [line | {"result": {"type": "expired"}} if _of_pair(line, lines) else line for line in lines],
        UNANSWERED,
    ),
    "canceled": (
        lambda lines: [line | {"result": {"type": "canceled"}} if _of_pair(line, lines) else line for line in lines],
        UNANSWERED,
    ),
    "unknown kind": (
        lambda lines: [line | {"result": {"type": "pending"}} if _of_pair(line, lines) else line for line in lines],
        ReasonCode.JUDGE_INVALID_REPLY,
    ),
    "no result": (
        lambda lines: [line | {"result": None} if _of_pair(line, lines) else line for line in lines],
        ReasonCode.JUDGE_INVALID_REPLY,
    ),
    "answered twice": (
        lambda lines: [*lines, lines[1] | {"result": lines[2]["result"]}, lines[1] | {"result": {"type": "expired"}}],
        ReasonCode.JUDGE_INVALID_REPLY,
    ),
    "no JSON object": (lambda lines: [7 if _of_pair(line, lines) else line for line in lines], UNANSWERED),
}


@pytest.mark.parametrize("name", DISTURBANCES)
def test_a_disturbed_line_is_its_pairs_alone_and_is_asked_again(
    api: MessagesApi, database: Database, name: str
) -> None:
    disturb, reason = DISTURBANCES[name]
    api.batches.disturb = disturb
    replies = list(batch_judge(api, database).decide(pairs(3)))
    assert reasons(replies) == [ReasonCode.JUDGE_DISTINCT, reason, ReasonCode.JUDGE_DISTINCT]
    assert replies[1].failed and not replies[1].cacheable
    api.batches.disturb = lambda lines: lines
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert [len(batch.requests) for batch in api.batches.made] == [5, 3]


def test_strange_lines_and_the_same_line_twice_change_nothing(api: MessagesApi, database: Database) -> None:
    api.batches.disturb = lambda lines: [{"custom_id": "nobody-0", "result": lines[0]["result"]}, *lines, lines[1]]
    judge = batch_judge(api, database)
    assert reasons(list(judge.decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert judge.usage["unknown_results"] == 1 and judge.usage["calls"] == 5


@pytest.mark.parametrize("raw", [b"<html>\nbad gateway\n</html>", b"", b'{"custom_id": "nobody", "result": {}}\n'])
def test_results_that_answer_nothing_are_read_again_and_not_paid_again(
    api: MessagesApi, database: Database, raw: bytes
) -> None:
    api.batches.raw_results = raw
    replies = list(batch_judge(api, database).decide(pairs(3)))
    assert {(reply.reason, reply.failed) for reply in replies} == {(ReasonCode.JUDGE_INVALID_REPLY, True)}
    api.batches.raw_results = None
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == 1


@pytest.mark.parametrize(
    ("canary", "reason"),
    [
        (lambda is_same: verdict("same_rule"), ReasonCode.JUDGE_CANARY_FAILED),
        (lambda is_same: verdict("distinct"), ReasonCode.JUDGE_CANARY_FAILED),
        (lambda is_same: verdict("same_rule" if is_same else "distinct", 0.2), ReasonCode.JUDGE_CANARY_FAILED),
        (lambda is_same: Answer("no JSON"), ReasonCode.JUDGE_INVALID_REPLY),
        (lambda is_same: failure(500), ReasonCode.JUDGE_CANARY_FAILED),
    ],
    ids=["all the same", "all distinct", "never sure", "garbage", "unanswered"],
)
def test_a_wrong_canary_sets_the_whole_batch_aside(
    api: MessagesApi, database: Database, canary: Any, reason: ReasonCode
) -> None:
    well, api.canary = api.canary, canary
    replies = list(batch_judge(api, database).decide(pairs(3)))
    assert {(reply.verdict, reply.reason, reply.failed, reply.cacheable) for reply in replies} == {
        (Verdict.KEEP_BOTH, reason, True, False)
    }
    api.canary = well
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == 2


def test_one_wrong_canary_of_four_is_enough(api: MessagesApi, database: Database) -> None:
    api.canary = lambda is_same: verdict("same_rule" if is_same or len(api.canaries) == 1 else "distinct")
    replies = list(batch_judge(api, database).decide(pairs(GROUP_PAIRS + 1)))
    assert len(api.canaries) == 4 and {reply.reason for reply in replies} == {ReasonCode.JUDGE_CANARY_FAILED}


def test_an_answer_that_tells_a_secret_is_read_and_not_kept(api: MessagesApi, database: Database) -> None:
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
    api.answer = lambda body: verdict("distinct", reason=f"One has {secret}." if number_of(body) else "They differ.")
    replies = list(batch_judge(api, database).decide(pairs(2)))
    assert reasons(replies) == [ReasonCode.JUDGE_DISTINCT] * 2
    kept = database.read("SELECT reply FROM judge_batch_requests WHERE reply IS NOT NULL")["reply"].to_list()
    assert not any(secret in reply for reply in kept) and any("They differ." in reply for reply in kept)


def test_an_expired_batch_is_sent_again_by_the_next_run(api: MessagesApi, database: Database) -> None:
    api.batches.end_at_once = False
    assert reasons(list(batch_judge(api, database, max_batch_wait_seconds=0).decide(pairs(3)))) == [PENDING] * 3
    api.batches.end_all()
    api.batches.end_at_once = True
    (old,) = api.batches.made
    old.lines = [{"custom_id": request["custom_id"], "result": {"type": "expired"}} for request in old.requests]
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == 2


def test_a_batch_that_expires_within_the_run_fails_its_pairs(api: MessagesApi, database: Database) -> None:
    api.batches.disturb = lambda lines: [line | {"result": {"type": "expired"}} for line in lines]
    replies = list(batch_judge(api, database).decide(pairs(3)))
    assert {(reply.verdict, reply.reason, reply.failed) for reply in replies} == {(Verdict.KEEP_BOTH, UNANSWERED, True)}
    api.batches.disturb = lambda lines: lines
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == 2


@pytest.mark.parametrize("loss", ["unknown to the service", "results thrown away", "a month old"])
def test_a_batch_whose_results_are_gone_is_sent_again(api: MessagesApi, database: Database, loss: str) -> None:
    api.batches.end_at_once = False
    list(batch_judge(api, database, max_batch_wait_seconds=0).decide(pairs(3)))
    api.batches.end_at_once = True
    api.batches.end_all()
    if loss == "unknown to the service":
        api.batches.made.clear()
    elif loss == "results thrown away":
        api.batches.made[0].has_results = False
    else:
        with database.transaction() as cursor:
            cursor.execute("UPDATE judge_batches SET intended_at = intended_at - interval '30 days'")
    made = len(api.batches.made)
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == made + 1


def test_a_refused_key_fails_the_pairs_and_leaves_nothing_behind(api: MessagesApi, database: Database) -> None:
    api.key = "another one"
    replies = list(batch_judge(api, database).decide(pairs(3)))
    assert {(reply.reason, reply.failed) for reply in replies} == {(ReasonCode.JUDGE_REJECTED_REQUEST, True)}
    api.key = None
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == 1


def test_a_key_refused_later_leaves_the_batch_for_the_next_run(api: MessagesApi, database: Database) -> None:
    api.batches.refuse_looks = 401
    replies = list(batch_judge(api, database).decide(pairs(3)))
    assert {(reply.reason, reply.failed) for reply in replies} == {(ReasonCode.JUDGE_REJECTED_REQUEST, True)}
    api.batches.refuse_looks = None
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == 1


def test_a_full_service_is_asked_again_and_an_unclear_end_is_looked_up(api: MessagesApi, database: Database) -> None:
    api.batches.refuse = [429]
    assert reasons(list(batch_judge(api, database, max_retries=1).decide(pairs(1)))) == [ReasonCode.JUDGE_DISTINCT]
    # After a 500 nobody knows whether there is a batch: there is none now, and the next run may send.
    api.batches.refuse = [500]
    (lost,) = batch_judge(api, database, max_retries=1).decide(pairs(2)[1:])
    assert (lost.reason, lost.failed, len(api.batches.made)) == (ReasonCode.JUDGE_UNAVAILABLE, True, 1)
    (found,) = batch_judge(api, database).decide(pairs(2)[1:])
    assert (found.reason, len(api.batches.made)) == (ReasonCode.JUDGE_DISTINCT, 2)


def test_an_answer_that_came_too_late_is_found_in_the_same_run(api: MessagesApi, database: Database) -> None:
    api.batches.after_making = lambda batch: time.sleep(1.5)
    judge = batch_judge(api, database, timeout_seconds=1.0, max_retries=2)
    assert reasons(list(judge.decide(pairs(2)))) == [ReasonCode.JUDGE_DISTINCT] * 2
    assert len(api.batches.made) == 1


def _intended(database: Database, api: MessagesApi, count: int) -> tuple[BatchStore, list[StoredQuestion]]:
    """What is left of a run that was killed before it heard the id of its batch: rows, and no id."""
    store = BatchStore(database, "acme", f"claude-haiku-4-5/{script.PROMPT_VERSION}")
    list(batch_judge(api, database, max_batch_wait_seconds=0).decide(pairs(count)))
    with database.transaction() as cursor:
        cursor.execute("UPDATE judge_batches SET batch_id = NULL, state = 'intended'")
    (open_one,) = store.open_batches()
    return store, store.questions(open_one.batch_key)


def test_a_batch_without_an_id_is_found_among_those_of_others(api: MessagesApi, database: Database) -> None:
    api.batches.end_at_once = False
    _, questions = _intended(database, api, 3)
    (own,) = api.batches.made
    # One of another program with as many requests of the same minute, made later and so listed first.
    api.batches.made.append(
        Batch("msgbatch_of_others", [r | {"custom_id": f"x{n}"} for n, r in enumerate(own.requests)])
    )
    assert len(questions) == len(own.requests)
    # While ours goes on, nothing is sent; when it has ended, it is ours.
    assert reasons(list(batch_judge(api, database, max_batch_wait_seconds=0.2).decide(pairs(3)))) == [PENDING] * 3
    api.batches.end_all()
    judge = batch_judge(api, database)
    assert reasons(list(judge.decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == 2 and judge.usage["calls"] == 5


@pytest.mark.parametrize("others", [[], ["of others"], ["an hour ago"]], ids=str)
def test_a_batch_that_was_never_made_is_made(api: MessagesApi, database: Database, others: list[str]) -> None:
    api.batches.end_at_once = False
    _intended(database, api, 3)
    (own,) = api.batches.made
    api.batches.end_at_once = True
    requests = [request | {"custom_id": f"x{n}"} for n, request in enumerate(own.requests)]
    api.batches.made = [Batch(f"msgbatch_{name.replace(' ', '_')}", requests) for name in others]
    if others == ["an hour ago"]:
        api.batches.made[0].created_at = datetime.now(UTC) - timedelta(hours=1)
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == len(others) + 1


def test_a_listing_that_fails_leaves_it_open(api: MessagesApi, database: Database) -> None:
    api.batches.end_at_once = False
    _intended(database, api, 3)
    api.batches.refuse_looks = 500
    replies = list(batch_judge(api, database).decide(pairs(3)))
    assert {(reply.reason, reply.failed) for reply in replies} == {(ReasonCode.JUDGE_UNAVAILABLE, True)}
    assert len(api.batches.made) == 1
    api.batches.refuse_looks = None
    api.batches.end_all()
    assert reasons(list(batch_judge(api, database).decide(pairs(3)))) == [ReasonCode.JUDGE_DISTINCT] * 3
    assert len(api.batches.made) == 1


def test_a_service_that_lies_about_its_batch_is_no_answer(api: MessagesApi, database: Database) -> None:
    api.batches.answer = lambda *_: (200, json.dumps({"id": 7, "processing_status": "ended"}).encode())  # type: ignore[method-assign]
    replies = list(batch_judge(api, database).decide(pairs(2)))
    assert {(reply.reason, reply.failed) for reply in replies} == {(ReasonCode.JUDGE_INVALID_REPLY, True)}
