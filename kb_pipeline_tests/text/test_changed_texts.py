"""Changed copies of rules: a change of meaning never merges, a change of form does, and some changes are flagged."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kb_pipeline.text.canonical import canonical_key
from kb_pipeline.text.changes import generate
from kb_pipeline.text.compare import compare
from kb_pipeline.text.mutants import FLAGGED, MUTATIONS
from kb_pipeline.text.normalise import entry_text
from kb_pipeline.text.reformattings import REFORMATTINGS
from kb_pipeline.vocabulary import Verdict
from kb_pipeline_tests.text.table_cases import shared_rows, table

RULES: list[str] = table("rules")


def real_texts(count: int) -> list[str]:
    """Entry texts drawn from the rules and memories of the shared data."""
    texts = [
        entry_text(row.get("title"), row.get("body"))
        for name in ("agent_rules", "agent_memory")
        for row in shared_rows(f"corpora/{name}.jsonl.gz")
    ]
    return random.Random(23).sample(texts, count)


@pytest.mark.parametrize("seed", range(4))
def test_no_mutant_of_our_rules_merges(seed: int) -> None:
    seen: Counter[str] = Counter()
    for mutant in generate(RULES, MUTATIONS, seed):
        seen[mutant.kind] += 1
        found = compare(mutant.original, mutant.changed, "rule", "rule")
        assert found.verdict is not Verdict.MERGE, mutant
        assert canonical_key(mutant.original) != canonical_key(mutant.changed), mutant
    assert len(seen) >= 80 and sum(seen.values()) >= 700


def test_every_reformatting_of_our_rules_merges() -> None:
    seen: Counter[str] = Counter()
    for mutant in generate(RULES, REFORMATTINGS, 5):
        seen[mutant.kind] += 1
        assert compare(mutant.original, mutant.changed, "rule", "rule").verdict is Verdict.MERGE, mutant
    assert len(seen) >= 30 and sum(seen.values()) >= 500


def test_numbers_units_and_negations_are_flagged() -> None:
    flags = [
        compare(mutant.original, mutant.changed, "rule", "rule").verdict is Verdict.CONFLICT
        for seed in range(5)
        for mutant in generate(RULES, {kind: MUTATIONS[kind] for kind in FLAGGED}, seed)
    ]
    assert sum(flags) >= 0.92 * len(flags) and len(flags) >= 200


def test_no_mutant_of_real_texts_merges() -> None:
    mutants = list(generate(real_texts(300), MUTATIONS, 31))
    assert len(mutants) >= 2800
    assert [mutant for mutant in mutants if canonical_key(mutant.original) == canonical_key(mutant.changed)] == []


def test_reformatted_real_texts_merge() -> None:
    mutants = list(generate(real_texts(250), REFORMATTINGS, 37, kinds_per_text=12))
    merged = [compare(m.original, m.changed, "rule", "rule").verdict is Verdict.MERGE for m in mutants]
    assert len(mutants) >= 700
    assert sum(merged) >= 0.98 * len(merged)
