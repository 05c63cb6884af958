"""Pairs that only their words bring together, through the real command: found, judged, asked about, and merged or not."""

from __future__ import annotations

from typing import Any

import pytest

from kb_pipeline_tests.fakes.house import HouseCorpus, NewCorpus
from kb_pipeline_tests.fakes.messages_api import Answer, MessagesApi, verdict

Row = dict[str, Any]
KEY = "loopback-key-of-the-word-tests"

KEYS = (
    "Rotate the signing key of the harbour gateway before the spring audit",
    "Ahead of the spring audit the harbour gateway gets another signing key",
)
FLOOR = {"min_word_question_score": 0.6}
"""Between the pair about keys and the one about cranes."""
CRANES = (
    "Cranes at berth nine are greased by the outgoing crew",
    "The outgoing crew leaves berth nine by the eastern stairs",
)
PORTS = (
    "Rotate the signing key of the harbour gateway on port 8443 before the spring audit",
    "Ahead of the spring audit the harbour gateway on port 9443 gets another signing key",
)


def rows() -> list[Row]:
    texts = {"key": KEYS, "crane": CRANES, "port": PORTS}
    found: list[Row] = [
        {"id": f"{name}-{n}", "body": text, "repository": name}
        for name, pair in texts.items()
        for n, text in enumerate(pair, start=1)
    ]
    found += [
        {"id": f"apart-{tenant}", "body": text, "tenant": tenant}
        for tenant, text in zip(("north", "south"), KEYS, strict=True)
    ]
    return found


def bands(corpus: HouseCorpus) -> dict[tuple[str, str], tuple[str, str, str]]:
    return {ids: (row["band"], row["verdict"], row["reason"]) for ids, row in corpus.pairs().items()}


@pytest.fixture(scope="module")
def offline(new_corpus: NewCorpus) -> HouseCorpus:
    corpus = new_corpus({"dedup": FLOOR})
    corpus.load(*rows()).ok()
    corpus.curate().ok()
    return corpus


def test_they_are_found_within_their_scope_and_judged(offline: HouseCorpus) -> None:
    assert bands(offline) == {
        ("key-1", "key-2"): ("lexical", "UNSURE", "judge.residue"),
        ("crane-1", "crane-2"): ("lexical", "KEEP_BOTH", "judge.far_apart"),
        ("port-1", "port-2"): ("lexical", "KEEP_BOTH", "judge.specifics_differ"),
    }
    assert all(0 < row["similarity"] < 0.85 for row in offline.pairs().values())
    assert not offline.merged()


def test_files_page_and_queue_show_them(offline: HouseCorpus) -> None:
    document = offline.report("duplicate-pairs.yaml")
    assert document["total"] == 3
    assert {(row["band"], row["verdict"], row["count"]) for row in document["counts"]} == {
        ("lexical", "UNSURE", 1), ("lexical", "KEEP_BOTH", 2),
    }  # fmt: skip
    page = offline.files()["health-report.html"].decode()
    assert "Found by shared words" in page and "Similarity of the words 0." in page
    asked = offline.queue()
    assert set(asked) == {("key-1", "key-2")}
    assert asked["key-1", "key-2"]["type"] == "MERGE"


def test_policy_turns_them_off_and_limits_their_questions(new_corpus: NewCorpus) -> None:
    off = new_corpus({"dedup": {"word_neighbours": 0}})
    silent = new_corpus({"dedup": {"max_word_questions": 0}})
    for corpus in (off, silent):
        corpus.load(*rows()).ok()
        corpus.curate().ok()
        assert not corpus.queue()
    assert not bands(off)
    assert bands(silent)["key-1", "key-2"] == ("lexical", "KEEP_BOTH", "judge.queue_full")


def test_a_model_may_merge_them_only_with_equal_specifics(new_corpus: NewCorpus) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return verdict("same_rule" if "signing key" in str(body["messages"][0]["content"]) else "distinct")

    with MessagesApi(answer, key=KEY) as api:
        corpus = new_corpus({"judge": {"base_url": api.url}})
        corpus.variables["ANTHROPIC_API_KEY"] = KEY
        corpus.load(*rows()).ok()
        corpus.curate().ok()
        prompts = api.prompts
    assert all(any(word in prompt for prompt in prompts) for word in ("spring audit", "berth nine", "port 8443"))
    assert corpus.merged() == {"key-2": "key-1"}
    assert bands(corpus)["crane-1", "crane-2"] == ("lexical", "KEEP_BOTH", "judge.distinct")
    assert bands(corpus)["port-1", "port-2"] == ("lexical", "MERGE", "judge.same_rule")
    assert corpus.actions("merge")[0]["reason"] == "judge.same_rule"
    (question,) = corpus.actions("recommend")
    assert (question["entry_id"], question["other_entry_id"]) == ("port-2", "port-1")
    assert question["reason"] == "merge.specifics_differ"


def test_a_short_budget_goes_to_the_best_of_them(new_corpus: NewCorpus) -> None:
    with MessagesApi(lambda body: verdict("distinct"), key=KEY) as api:
        corpus = new_corpus(
            {"judge": {"base_url": api.url, "model": "another-model", "max_borderline_calls": 1}, "dedup": FLOOR}
        )
        # Another model: verdicts are kept by texts and judge, and the test above has asked about these texts.
        corpus.variables["ANTHROPIC_API_KEY"] = KEY
        corpus.load(*(row for row in rows() if row.get("repository") != "port")).ok()
        corpus.curate().ok()
        prompts = api.prompts
    assert any("signing key" in prompt for prompt in prompts)
    assert not any("berth nine" in prompt for prompt in prompts)
    assert bands(corpus) == {
        ("key-1", "key-2"): ("lexical", "KEEP_BOTH", "judge.distinct"),
        # What was not asked for want of budget does not go to a person either, unless it is close enough.
        ("crane-1", "crane-2"): ("lexical", "KEEP_BOTH", "judge.far_apart"),
    }
