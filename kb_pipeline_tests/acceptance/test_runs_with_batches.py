"""Whole weeks whose pairs go to the judge as a batch: waiting, crashes, faults, money; and weeks judged from a record.

Each pair stands in a module of its own, so that only its two entries meet. A Messages API on the loopback answers the real
client of the real command.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline_tests.acceptance.test_runs_with_a_judge import pair, states
from kb_pipeline_tests.fakes.house import WEEK, House, HouseCorpus, NewCorpus
from kb_pipeline_tests.fakes.messages_api import Answer, MessagesApi, verdict

Row = dict[str, Any]
NEXT = "2026-11-09T08:00:00+00:00"
KEY = "loopback-key-of-the-batches"
ANSWERS = {
    "amber": verdict("same_rule"),
    "maple": verdict("distinct"),
    "nettle": verdict("conflict"),
    "olive": verdict("same_rule", confidence=0.5),
}
PRICES = {"claude-haiku-4-5": {"input": 1.0, "output": 5.0, "cache_write": 1.25, "cache_read": 0.1, "batch_share": 0.5}}


def answer(body: dict[str, Any]) -> Answer:
    prompt = str(body["messages"][0]["content"])
    return next(reply for word, reply in ANSWERS.items() if word in prompt)


def rows(name: str) -> list[Row]:
    """Texts that no other corpus holds: a verdict on two texts holds wherever they meet."""
    addition = f" Report to {name}."
    return [row for word in ANSWERS for row in pair(word, left=addition, right=addition)]


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi(answer, key=KEY) as server:
        yield server


def policy_of(api: MessagesApi, **judge: Any) -> dict[str, Any]:
    own = {"base_url": api.url, "delivery": "batch", "batch_poll_seconds": 0.05, "max_retries": 1, "timeout_seconds": 5}
    return {"judge": own | judge, "dedup": {"min_borderline_similarity": 0.6, "word_neighbours": 0}}


def corpus_of(new_corpus: NewCorpus, api: MessagesApi, **judge: Any) -> HouseCorpus:
    corpus = new_corpus(policy_of(api, **judge))
    corpus.variables["ANTHROPIC_API_KEY"] = KEY
    corpus.load(*rows(corpus.name)).ok()
    return corpus


def reasons(corpus: HouseCorpus, *words: str) -> dict[str, str]:
    return {ids[0].partition("-")[0]: row["reason"] for ids, row in corpus.pairs(*words).items()}


SETTLED = {
    "amber": "judge.same_rule",
    "maple": "judge.distinct",
    "nettle": "judge.contradiction",
    "olive": "judge.low_confidence",
}


def test_a_week_by_batch_decides_and_tells_what_it_took(new_corpus: NewCorpus, api: MessagesApi) -> None:
    corpus = corpus_of(new_corpus, api, prices=PRICES)
    assert corpus.curate("--json").ok().json["status"] == "ok"
    assert reasons(corpus) == SETTLED and states(corpus.rows(), "amber") == ["active", "archived"]
    # Four pairs and two canaries; then amber in the other order, and two more. Nothing went out directly.
    assert [len(batch.requests) for batch in api.batches.made] == [6, 3]
    health = corpus.report("memory-health-report.yaml")
    usage, estimate = health["judge"]["usage"], health["judge"]["estimate"]
    assert (usage["calls"], usage["canaries"], usage["output_tokens"]) == (9, 4, 9)
    assert usage["cost_usd"] == pytest.approx(0.5 * 9 * 6 / 1e6)
    assert estimate["calls"] == 10 and estimate["cost_usd"] > usage["cost_usd"]
    assert corpus.runs()[0]["counts"]["judge_usage"] == usage
    page = corpus.files()["health-report.html"].decode()
    assert f"{estimate['input_tokens']:,} tokens read" in page and "The model answered 9 questions" in page
    # The week again, with the judge away, tells the same.
    again = corpus.curate("--week", WEEK, "--json", ANTHROPIC_API_KEY=None).ok()
    assert again.json["pairs_judged"] == 0 and len(api.batches.made) == 2
    assert corpus.report("memory-health-report.yaml")["judge"] == health["judge"]


def test_an_unknown_price_is_said_and_a_limit_on_it_refused(new_corpus: NewCorpus, api: MessagesApi) -> None:
    corpus = corpus_of(new_corpus, api, model="claude-of-tomorrow")
    corpus.curate().ok()
    health = corpus.report("memory-health-report.yaml")
    assert health["judge"]["usage"]["cost_usd"] is None and health["judge"]["estimate"]["cost_usd"] is None
    assert any("names no price of claude-of-tomorrow" in note for note in health["notes"])
    corpus.policy["judge"]["max_cost_usd"] = 1.0
    refused = corpus.curate(KB_NOW=NEXT)
    assert refused.code == 2 and "claude-of-tomorrow" in refused.err


def test_over_the_budget_goes_to_the_next_week(new_corpus: NewCorpus, api: MessagesApi) -> None:
    corpus = corpus_of(new_corpus, api, max_calls=2)
    assert corpus.curate("--json").ok().json["status"] == "ok"
    spent = [word for word, reason in reasons(corpus).items() if reason == "judge.budget_spent"]
    assert len(spent) == 2
    assert len(api.batches.made[0].requests) == 4
    corpus.curate("--json", KB_NOW=NEXT).ok()
    later = reasons(corpus, "--week", "2026-11-02")
    assert {word: later[word] for word in spent} == {word: SETTLED[word] for word in spent}


def test_a_batch_that_takes_longer_is_taken_up_by_the_next_week(new_corpus: NewCorpus, api: MessagesApi) -> None:
    corpus = corpus_of(new_corpus, api, max_batch_wait_minutes=0)
    api.batches.end_at_once = False
    first = corpus.curate("--json").ok()
    assert first.json["status"] == "ok" and set(reasons(corpus).values()) == {"judge.batch_pending"}
    assert corpus.runs()[0]["counts"]["pairs_in_batches"] == 4
    notes = corpus.report("memory-health-report.yaml")["notes"]
    assert any("4 pairs lie with the judge as a batch" in note for note in notes)
    assert {row["state"] for row in corpus.rows().values()} == {"active"}
    api.batches.end_all()
    api.batches.end_at_once = True
    corpus.curate("--json", KB_NOW=NEXT).ok()
    assert reasons(corpus, "--week", "2026-11-02") | {"amber": ""} == SETTLED | {"amber": ""}
    assert states(corpus.rows(), "amber") == ["active", "archived"]
    # Nothing was sent twice: the one batch of the first week, and amber in the other order.
    assert [len(batch.requests) for batch in api.batches.made] == [6, 3]
    asked = [str(request["params"]["messages"][0]["content"]) for b in api.batches.made for request in b.requests]
    assert [sum(word in prompt for prompt in asked) for word in ANSWERS] == [2, 1, 1, 1]
    # The first week again still tells that it waited.
    corpus.curate("--week", WEEK, "--json").ok()
    assert set(reasons(corpus, "--week", WEEK).values()) == {"judge.batch_pending"}
    assert len(api.batches.made) == 2


def test_a_run_killed_between_sending_and_hearing_finds_its_batch(
    house: House, new_corpus: NewCorpus, api: MessagesApi
) -> None:
    api.answer = lambda body: verdict("distinct")
    corpus = corpus_of(new_corpus, api)
    killed = threading.Event()
    policy = corpus.write_policy(house.home / f"{corpus.name}.killed.yaml")
    variables = house.environment(KB_POLICY=str(policy), ANTHROPIC_API_KEY=KEY)
    script = "from kb_pipeline.cli import main; main()"
    words = [sys.executable, "-c", script, "curate", "--corpus", corpus.name, "--week", WEEK]
    commands: list[subprocess.Popen[str]] = []
    started = threading.Event()

    def kill(batch: object) -> None:
        # The service has taken the batch; the command never hears its id.
        del batch
        assert started.wait(10)
        os.kill(commands[0].pid, signal.SIGKILL)
        commands[0].wait()
        killed.set()

    api.batches.after_making = kill
    commands.append(subprocess.Popen(words, cwd=house.home, env=variables, stderr=subprocess.PIPE, text=True))
    started.set()
    try:
        assert killed.wait(120), commands[0].communicate(timeout=5)
    finally:
        if commands[0].poll() is None:
            commands[0].kill()
            commands[0].wait()
    assert corpus.query("SELECT state, batch_id FROM judge_batches WHERE corpus = %s", corpus.name) == [
        {"state": "intended", "batch_id": None}
    ]
    api.batches.after_making = lambda batch: None
    done = corpus.curate("--week", WEEK, "--json").ok()
    assert done.json["status"] == "ok" and set(reasons(corpus).values()) == {"judge.distinct"}
    assert len(api.batches.made) == 1 and done.json["judge_usage"]["calls"] == 6


@pytest.mark.parametrize("fault", ["expired", "canary", "key"])
def test_a_batch_that_fails_makes_the_week_degraded_and_the_next_one_asks_again(
    new_corpus: NewCorpus, api: MessagesApi, fault: str
) -> None:
    corpus = corpus_of(new_corpus, api)
    well = api.canary
    variables: dict[str, str | None] = {}
    if fault == "expired":
        api.batches.disturb = lambda lines: [line | {"result": {"type": "expired"}} for line in lines]
    elif fault == "canary":
        api.canary = lambda is_same: verdict("same_rule")
    else:
        variables["ANTHROPIC_API_KEY"] = "a key that was taken back"
    done = corpus.curate("--json", **variables)
    assert (done.code, done.json["status"]) == (5, "degraded")
    expected = {
        "expired": "judge.batch_unanswered",
        "canary": "judge.canary_failed",
        "key": "judge.rejected_request",
    }
    assert set(reasons(corpus).values()) == {expected[fault]}
    assert {row["state"] for row in corpus.rows().values()} == {"active"}
    said = done.stdout + done.err.encode() + b"".join(corpus.files().values())
    assert b"taken back" not in said and KEY.encode() not in said
    api.batches.disturb, api.canary = lambda lines: lines, well
    after = corpus.curate("--json", KB_NOW=NEXT).ok()
    assert after.json["status"] == "ok" and states(corpus.rows(), "amber") == ["active", "archived"]


def test_a_recorded_week_can_be_run_again_elsewhere_without_a_model(
    house: House, other_house: House, new_corpus: NewCorpus, api: MessagesApi, tmp_path: Path
) -> None:
    corpus = corpus_of(new_corpus, api, delivery="direct")
    corpus.curate().ok()
    record = tmp_path / "verdicts.jsonl"
    corpus.kb("verdicts", "--out", record).ok()
    assert corpus.kb("verdicts").ok().stdout == record.read_bytes()
    lines = [json.loads(line) for line in record.read_bytes().splitlines()]
    assert {line["verdict"] for line in lines} == {"MERGE", "KEEP_BOTH", "CONFLICT", "UNSURE"}
    assert {(line["judge"], line["model"]) for line in lines} == {("anthropic", "claude-haiku-4-5")}
    assert not any(row["body"] in record.read_text("utf-8") for row in rows(corpus.name))
    asked = len(api.calls)

    other = other_house.corpus(corpus.name, policy_of(api, name="replay", replay_file=str(record)))
    other.policy["encoder"] = corpus.policy["encoder"]
    other.load(*rows(corpus.name)).ok()
    done = other.curate("--json").ok()
    assert (done.json["status"], done.json["judge"], len(api.calls)) == ("ok", "replay (offline)", asked)
    assert other.export() == corpus.export()
    told = ("action", "entry_id", "other_entry_id", "reason", "similarity", "verdict", "judge", "details")
    first, again = ([{name: row[name] for name in told} for row in one.actions()] for one in (corpus, other))
    assert first == again and len(first) >= 3
    assert other.pairs() == corpus.pairs()
    assert any("recorded verdicts" in note for note in other.report("memory-health-report.yaml")["notes"])
    # Recorded again, it is the same record.
    assert other.kb("verdicts").ok().stdout == record.read_bytes()


def test_what_is_not_recorded_goes_to_a_person(new_corpus: NewCorpus, api: MessagesApi, tmp_path: Path) -> None:
    record = tmp_path / "none.jsonl"
    record.write_text("")
    corpus = corpus_of(new_corpus, api, name="replay", replay_file=str(record))
    assert corpus.curate("--json").ok().json["status"] == "ok"
    assert set(reasons(corpus).values()) == {"judge.not_recorded"}
    assert (api.calls, api.batches.made) == ([], [])
    assert {row["reason"] for row in corpus.queue().values()} >= {"judge.not_recorded"}


@pytest.mark.parametrize("line", ["not JSON", '{"verdict": "MERGE"}'])
def test_a_record_that_cannot_be_read_stops_the_week(
    new_corpus: NewCorpus, api: MessagesApi, tmp_path: Path, line: str
) -> None:
    record = tmp_path / "verdicts.jsonl"
    record.write_text(f"\n{line}\n")
    corpus = corpus_of(new_corpus, api, name="replay", replay_file=str(record))
    before = corpus.export()
    done = corpus.curate()
    assert done.code == 2 and re.search(rf"{re.escape(str(record))}:2: ", done.err), done.err
    corpus.policy["judge"]["replay_file"] = str(tmp_path / "nowhere.jsonl")
    done = corpus.curate()
    assert done.code == 2 and "nowhere.jsonl: cannot be read" in done.err
    assert corpus.export() == before
