"""Eligibility: every reason keeps out and spares, and what is told of an excluded entry holds nothing of its text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from kb_pipeline import schemas_retrieval
from kb_pipeline.defs.retrieval import safe_warning
from kb_pipeline.policy.model import EligibilityPolicy
from kb_pipeline.stages.eligibility import RULE_KEYS, RULES, Asked, judge_eligibility, told_of
from kb_pipeline.stages.report_words import REASONS
from kb_pipeline_tests.fakes.frames import AS_OF, cases, policy

TABLE = cases("eligibility")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]
POLICY = EligibilityPolicy(min_confidence=0.3)
SAID = "The vault opens at dawn"
PLAIN: dict[str, Any] = {
    "kind": "fact", "title": SAID, "text": f"{SAID}.", "content_hash": "h", "tenant": "acme", "state": "active",
    "review_state": "unreviewed", "sensitivity": "internal", "visible_to": [], "conflict_state": "none",
    "severe_conflicts": [], "mild_conflicts": [], "holds_secret": False,
}  # fmt: skip


def facts(*rows: dict[str, Any]) -> pl.DataFrame:
    built = []
    for at, row in enumerate(rows):
        values = dict(row)
        days = values.pop("expires_in_days", None)
        own = {"entry_id": f"e{at}", "expires_at": None if days is None else AS_OF + timedelta(days=days)}
        built.append(dict.fromkeys(schemas_retrieval.RETRIEVAL_FACTS.columns) | PLAIN | own | values)
    return schemas_retrieval.RETRIEVAL_FACTS.build(built)


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    asked = Asked(AS_OF, **case.get("asked", {}))
    (row,) = judge_eligibility(facts(case["entry"]), POLICY, asked).iter_rows(named=True)
    assert row["reasons"] == case["reasons"]
    assert row["eligible"] is (not case["reasons"])
    assert bool(row["words"]) == bool(case["reasons"])
    if "words" in case:
        assert row["words"] == [case["words"]]


def test_every_rule_has_a_sentence_and_cases_of_both_kinds() -> None:
    assert RULE_KEYS.keys() <= RULES.keys()
    for code in RULES:
        assert code in REASONS
        assert {bool(case["reasons"]) for case in TABLE[code]} == {True, False}


def test_the_shipped_policy_leaves_nobody_out_for_confidence() -> None:
    found = judge_eligibility(facts({"confidence": 0.0}), policy().eligibility, Asked(AS_OF))
    assert found["eligible"].to_list() == [True]


def test_rows_keep_their_order_and_do_not_depend_on_each_other() -> None:
    rows = facts(*(case["entry"] for rows in TABLE.values() for case in rows))
    straight = judge_eligibility(rows, POLICY, Asked(AS_OF))
    backwards = judge_eligibility(rows.reverse(), POLICY, Asked(AS_OF))
    assert straight.height > 20
    assert backwards.reverse().equals(straight)
    assert judge_eligibility(rows.clear(), POLICY, Asked(AS_OF)).is_empty()


def test_what_is_told_holds_nothing_of_the_text() -> None:
    for rows in TABLE.values():
        for case in rows:
            (row,) = judge_eligibility(facts(case["entry"]), POLICY, Asked(AS_OF)).iter_rows(named=True)
            told = repr([told_of(row), safe_warning(row["reasons"])])
            assert "vault" not in told
    # Whoever may not see an entry is not told what else is the matter with it.
    both = ["eligibility.in_conflict", "eligibility.not_permitted"]
    assert safe_warning(both) == REASONS["eligibility.not_permitted"]
    assert safe_warning(both[:1]) == REASONS["eligibility.in_conflict"]


def test_it_is_told_in_words() -> None:
    mild, severe = "c (severity medium)", "b"
    (fine, torn, out) = judge_eligibility(
        facts(
            {"conflict_state": "open", "mild_conflicts": [mild]},
            {"conflict_state": "open", "mild_conflicts": [mild], "severe_conflicts": [severe]},
            {"state": "archived"},
        ),
        POLICY,
        Asked(AS_OF),
    ).iter_rows(named=True)
    assert told_of(fine) == {
        "eligible": True,
        "reasons": ["active", "though it stands in an open conflict with c (severity medium)", "not expired"],
    }
    assert told_of(torn)["reasons"] == [
        "it stands in an open conflict with b (severity high)",
        "it stands in an open conflict with c (severity medium)",
    ]
    assert told_of(out) == {"eligible": False, "reasons": ["its state is archived"]}
