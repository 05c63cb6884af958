"""Floors on labelled pairs of the shared data (decision-quality targets)."""

from __future__ import annotations

from collections import Counter

import pytest

from kb_pipeline.text.compare import compare
from kb_pipeline.vocabulary import Verdict
from kb_pipeline_tests.text.table_cases import shared_rows


def verdicts(name: str, kind: str = "rule") -> Counter[tuple[object, Verdict]]:
    """How often each (label, verdict) occurs; pairs of identical texts are left out."""
    counts: Counter[tuple[object, Verdict]] = Counter()
    for row in shared_rows(f"pairs/{name}.jsonl.gz"):
        if row["a"].strip() != row["b"].strip():
            counts[row["label"], compare(row["a"], row["b"], kind, kind).verdict] += 1
    return counts


def share(counts: Counter[tuple[object, Verdict]], label: object, verdict: Verdict) -> float:
    return counts[label, verdict] / sum(count for (own, _), count in counts.items() if own == label)


@pytest.mark.parametrize("kind", ["skill", "fact", "rule"])
def test_sibling_commands(kind: str) -> None:
    counts = verdicts("tldr_sibling_distinct", kind)
    assert counts["distinct", Verdict.MERGE] == 0
    assert share(counts, "distinct", Verdict.CONFLICT) <= 0.03


def test_reworded_commands() -> None:
    counts = verdicts("tldr_reworded_dups", "skill")
    assert share(counts, "duplicate", Verdict.MERGE) >= 0.28
    assert share(counts, "duplicate", Verdict.CONFLICT) <= 0.002


def test_sick() -> None:
    counts = verdicts("sick_train_trial")
    assert counts["NEUTRAL", Verdict.MERGE] == counts["CONTRADICTION", Verdict.MERGE] == 0
    flagged = sum(count for (_, verdict), count in counts.items() if verdict is Verdict.CONFLICT)
    assert share(counts, "CONTRADICTION", Verdict.CONFLICT) >= 0.74
    assert counts["CONTRADICTION", Verdict.CONFLICT] >= 0.93 * flagged
    assert share(counts, "ENTAILMENT", Verdict.CONFLICT) <= 0.005


@pytest.mark.parametrize("name", ["breaking_nli_a", "glue_ax", "wikifactcheck_neg_a", "negation_nli_snli"])
def test_contradictions_and_neutral_pairs_never_merge(name: str) -> None:
    counts = verdicts(name)
    assert counts["contradiction", Verdict.MERGE] == counts["neutral", Verdict.MERGE] == 0
    assert sum(counts.values()) > 1000


def test_paraphrases_are_no_conflicts() -> None:
    counts = verdicts("mrpc_train_val")
    assert counts[0, Verdict.MERGE] == 0
    assert share(counts, 1, Verdict.CONFLICT) <= 0.002


def test_hand_labelled_memories() -> None:
    counts = verdicts("curation_labels")
    assert (
        counts["KEEP_BOTH", Verdict.MERGE] == counts["SUBSET", Verdict.MERGE] == counts["CONFLICT", Verdict.MERGE] == 0
    )
    assert counts["MERGE", Verdict.CONFLICT] == 0
