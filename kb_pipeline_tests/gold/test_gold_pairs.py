"""The shipped gold set: large enough, balanced, of all kinds, without anybody else's text, and what the rules make of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.defs.judged_pairs import decide_pairs, gold_measure, judge_named
from kb_pipeline.gold import gold_pairs
from kb_pipeline.policy.load import load_policy
from kb_pipeline.stages.evaluation import tally
from kb_pipeline.vocabulary import Kind, PairLabel
from kb_pipeline_tests.fakes.labelled import gold
from kb_pipeline_tests.text.table_cases import shared_rows

STRATA = ("exact", "reformatted", "paraphrase", "near-miss", "polarity/order", "related")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in gold_pairs().read_text("utf-8").splitlines()]


def texts(row: dict[str, Any]) -> Iterator[str]:
    for side in ("a", "b"):
        yield from (row[side][name] for name in ("title", "body", "rationale") if row[side].get(name))
        yield from row[side].get("steps", ())


def test_it_is_large_and_balanced() -> None:
    assert len(ROWS) >= 300
    counts = Counter(row["stratum"] for row in ROWS)
    assert tuple(counts) == STRATA
    assert max(counts.values()) <= 1.2 * min(counts.values())
    same = sum(row["label"] == PairLabel.MERGE for row in ROWS)
    assert 0.4 * len(ROWS) < same < 0.6 * len(ROWS)
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert len({json.dumps([list(texts(row)), row["label"]]) for row in ROWS}) == len(ROWS)


def test_it_holds_every_kind_of_knowledge_and_several_languages() -> None:
    assert {row["a"]["kind"] for row in ROWS} == set(Kind)
    foreign = [row for row in ROWS if not all(text.isascii() for text in texts(row))]
    assert 30 <= len(foreign) < len(ROWS) / 4
    assert sum("after" in row for row in ROWS) >= 100


def test_every_label_has_something_to_say_in_the_strata_where_it_belongs() -> None:
    found = Counter((row["stratum"], row["label"]) for row in ROWS)
    assert {stratum for stratum, label in found if label == PairLabel.MERGE} == {"exact", "reformatted", "paraphrase"}
    for stratum in ("near-miss", "polarity/order"):
        assert found[stratum, "CONFLICT"] >= 15 and found[stratum, "KEEP_BOTH"] >= 15
    # Equal texts that guards keep apart, and texts that only look like another form of one another.
    assert found["exact", "KEEP_BOTH"] >= 8 and found["reformatted", "KEEP_BOTH"] >= 5


def test_it_holds_no_secret() -> None:
    listed = [text for row in ROWS for text in texts(row)]
    assert [kinds for kinds in find_secrets(listed) if kinds] == []


@pytest.mark.parametrize(
    "name",
    ["curation_labels", "tldr_reworded_dups", "tldr_sibling_distinct", "sick_train_trial", "breaking_nli_a", "glue_ax"],
)
def test_no_text_is_copied_from_the_sets_whose_kinds_it_follows(name: str) -> None:
    theirs = {row[side].strip().casefold() for row in shared_rows(f"pairs/{name}.jsonl.gz") for side in ("a", "b")}
    assert len(theirs) > 100
    assert theirs.isdisjoint(text.strip().casefold() for row in ROWS for text in texts(row))


def test_the_rules_merge_nothing_wrongly_and_lose_nothing() -> None:
    measured = gold_measure(load_policy())
    assert measured["false_merges"] == measured["merges_with_loss"] == 0
    assert measured["precision"] == 1.0
    # 0 of 173 would also be reached by rules that merge nothing.
    assert measured["right_merges"] >= 80


def test_what_becomes_of_each_stratum() -> None:
    policy = load_policy()
    decided, failed = decide_pairs(gold(), policy, judge_named("rule", policy), None)
    strata = tally(decided)
    assert failed == 0 and list(strata) == [*STRATA, "total"]
    assert strata["exact"]["recall"] == 1.0
    assert strata["reformatted"]["recall"] >= 0.8
    # What no rule can prove goes to a person, not away.
    assert strata["paraphrase"]["merges"] == 0 and strata["paraphrase"]["found_recall"] >= 0.9
    assert strata["near-miss"]["merges"] == strata["polarity/order"]["merges"] == strata["related"]["merges"] == 0
    assert strata["total"]["conflict_precision"] >= 0.95
