"""Golden queries through the real commands: a week that would lose an answer halts before anything is applied (X7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline_tests.fakes.house import Done, HouseCorpus, NewCorpus

RULE = "Berth nine stays closed while the tide gauge reads below two metres"
POOR = {"attempts": 40, "successes": 2}
"""Use that the retirement rules act upon."""


def rows() -> list[dict[str, Any]]:
    return [
        {"id": "berth", "body": RULE},
        {"id": "berth-again", "body": f"{RULE}."},
        {"id": "crane", "body": "Grease the slewing ring of crane four every second week", **POOR},
        {"id": "lamp", "body": "The quay lamps are tested on the first Monday of a month"},
    ]


def golden(corpus: HouseCorpus, *queries: tuple[str, list[str]], name: str = "golden_queries.jsonl") -> Path:
    path = corpus.house.home / f"{corpus.name}.{name}"
    lines = [json.dumps({"query": query, "expected_ids": expected}) for query, expected in queries]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def asking(
    new_corpus: NewCorpus, *queries: tuple[str, list[str]], search: Mapping[str, Any] | None = None, **policy: Any
) -> HouseCorpus:
    corpus = new_corpus(policy)
    named = golden(corpus, *queries).name  # relative: it counts from the folder of the policy file
    corpus.policy["search"] = {"golden_queries": named, **(search or {})}
    corpus.load(*rows()).ok()
    return corpus


def check(corpus: HouseCorpus) -> dict[str, Any]:
    run = corpus.runs()[0]
    (found,) = [result for result in run["counts"]["checks"] if result["name"] == "golden_queries"]
    return found


CRANE = ("how often is the slewing ring greased", ["crane"])
BERTH = ("when is berth nine closed", ["berth-again"])


def test_a_plan_that_would_archive_the_only_answer_halts(new_corpus: NewCorpus) -> None:
    corpus = asking(new_corpus, CRANE, BERTH)
    before = corpus.export("--full")
    done = corpus.curate()
    assert done.code == 4
    assert "golden_queries" in done.out + done.err and "worse are queries 1" in done.out + done.err
    assert corpus.export("--full") == before and not corpus.actions()
    run = corpus.runs()[0]
    assert run["status"] == "halted"
    assert run["counts"]["golden_queries"]["hit_rate_before"] == 1.0
    assert run["counts"]["golden_queries"]["hit_rate_after"] == 0.5
    found = check(corpus)
    assert not found["passed"] and found["numbers"]["hit_rate_after"] == 0.5
    page = corpus.files()["health-report.html"].decode()
    assert "hit rate within 10 1 before and 0.5 after" in page


def test_the_same_plan_is_applied_when_nobody_asks_for_that_answer(new_corpus: NewCorpus) -> None:
    corpus = asking(new_corpus, BERTH)
    corpus.curate().ok()
    assert corpus.states()["crane"] == "archived"
    # The answer to the other query was merged away, and is found in the entry that it went into.
    assert corpus.merged() == {"berth-again": "berth"}
    found = check(corpus)
    assert found["passed"] and found["numbers"]["hit_rate_after"] == 1.0
    assert (found["numbers"]["mrr_before"], found["numbers"]["mrr_after"]) == (0.5, 1.0)
    again = corpus.curate().ok()
    assert "golden_queries" not in again.err and check(corpus)["passed"]


def test_policy_says_how_much_may_fall_and_whether_it_only_warns(new_corpus: NewCorpus) -> None:
    lenient = asking(new_corpus, CRANE, BERTH, search={"max_golden_drop": 0.5})
    lenient.curate().ok()
    assert check(lenient)["passed"] and lenient.states()["crane"] == "archived"
    warned = asking(new_corpus, CRANE, BERTH, checks={"severity": {"golden_queries": "warn"}})
    warned.curate().ok()
    assert not check(warned)["passed"] and warned.states()["crane"] == "archived"


def test_what_is_only_recommended_loses_nothing(new_corpus: NewCorpus) -> None:
    corpus = asking(new_corpus, CRANE)
    corpus.curate("--mode", "recommend").ok()
    assert check(corpus)["passed"] and corpus.states()["crane"] == "active"


def test_without_a_file_the_check_passes_and_says_so(new_corpus: NewCorpus) -> None:
    corpus = new_corpus()
    corpus.load(*rows()).ok()
    corpus.curate().ok()
    found = check(corpus)
    assert found["passed"] and "no golden queries are set" in found["sentence"]
    assert "no golden queries are set" in corpus.files()["health-report.html"].decode()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"query": "q"}', "expected_ids must be a list"),
        ('{"query": " ", "expected_ids": ["a"]}', "query must be a text"),
        ("not json", "not JSON"),
    ],
)
def test_a_wrong_file_is_an_error_with_its_line_before_anything_starts(
    new_corpus: NewCorpus, line: str, told: str
) -> None:
    corpus = asking(new_corpus, BERTH)
    path = golden(corpus, BERTH)
    path.write_text(path.read_text("utf-8") + f"\n{line}\n", "utf-8")
    done = corpus.curate()
    assert (done.code, done.out) == (2, "")
    assert f"{path.name}:3: {told}" in done.err and done.err.count("\n") == 1
    assert not corpus.runs()
    path.unlink()
    assert corpus.curate().code == 2


def told(done: Done) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for result in done.ok().json["results"] for row in result["expected"]}


def test_kb_eval_queries_tells_ranks_and_what_cannot_be_found(new_corpus: NewCorpus) -> None:
    corpus = asking(new_corpus, BERTH)
    corpus.curate().ok()
    path = golden(corpus, BERTH, CRANE, ("where is the moon", ["moon", "lamp"]), name="asked.jsonl")
    done = corpus.kb("eval", "queries", path, "--json")
    found = done.ok().json
    assert (found["queries"], found["within"], found["note"]) == (3, 10, None)
    assert [row["rank"] for row in found["results"]][:2] == [1, None]
    assert found["hit_rate"] == pytest.approx(2 / 3) and found["mrr"] > 1 / 3
    expected = told(done)
    assert {entry: row["status"] for entry, row in expected.items()} == {
        "berth-again": "merged", "crane": "excluded", "moon": "unknown", "lamp": "eligible",
    }  # fmt: skip
    assert expected["crane"]["reasons"] == ["eligibility.not_active"] and expected["berth-again"]["why"].endswith(
        "berth"
    )
    plain = corpus.kb("eval", "queries", path).ok().out
    assert "3 queries among 2 eligible entries: hit rate within 10 0.667" in plain
    assert "moon: the corpus holds no such entry" in plain and "lamp:" not in plain
    # The control: before the run the crane was there, and within one answer the lamp may not be.
    before = corpus.kb("eval", "queries", path, "--as-of", "2026-11-01T00:00:00Z", "--json")
    assert told(before)["crane"]["status"] == "eligible" and before.json["hit_rate"] == 1.0
    assert corpus.kb("eval", "queries", path, "--within", "1", "--json").ok().json["within"] == 1


def test_kb_eval_queries_refuses_what_is_no_such_file(new_corpus: NewCorpus) -> None:
    corpus = asking(new_corpus, BERTH)
    path = golden(corpus, BERTH, name="asked.jsonl")
    path.write_text("[]\n", "utf-8")
    done = corpus.kb("eval", "queries", path)
    assert done.code == 2 and f"{path}:1: query must be a text" in done.err
    assert corpus.kb("eval", "queries", path.with_name("missing.jsonl")).code == 2
