"""Gates: every reason code fires and spares, and only candidates are decided."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.gates import RULE_KEYS, RULES, judge_gates
from kb_pipeline.vocabulary import LIVE_STATES, ReasonCode, State
from kb_pipeline_tests.fakes.frames import cases, entries, frame, policy

TABLE = cases("gates")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]
GOOD = "Backups of the ledger run on Sundays"
NEAREST = {
    "entry_id": pl.String,
    "nearest_id": pl.String,
    "max_similarity": pl.Float64,
    "too_similar": pl.Boolean,
    "may_strengthen": pl.Boolean,
}


def gate(case: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The row of GATES for one candidate."""
    title = case.get("title", GOOD)
    found = entries({"id": "c", "title": title or None, "body": case.get("body"), "state": "candidate"} | values)
    score = frame(schemas.DISTINCTIVENESS, [{"entry_id": "c", "distinctiveness": case.get("distinctiveness", 0.9)}])
    near = [{"entry_id": "c", "nearest_id": "n"} | case["nearest"]] if "nearest" in case else []
    return judge_gates(found, score, pl.DataFrame(near, schema=NEAREST), policy().gates).row(0, named=True)


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    row = gate(case)
    assert row["gate_reasons"] == case["reasons"]
    assert row["gate_decision"] == case["decision"]
    assert row["name_chars"] == case.get("chars", row["name_chars"])
    assert row["max_similarity"] == case.get("nearest", {}).get("max_similarity")
    assert row["nearest_id"] == ("n" if "nearest" in case else None)


def test_every_reason_code_fires_and_spares() -> None:
    codes = {code.value for code in ReasonCode if code.value.startswith("gates.")}
    assert set(TABLE) == codes
    for code in codes - {ReasonCode.GATES_PASSED}:
        assert {code in case["reasons"] for case in TABLE[code]} == {True, False}
    assert {case["decision"] == "admit" for case in TABLE["gates.passed"]} == {True, False}


def test_every_rule_names_its_ledger_id_and_a_policy_key() -> None:
    assert RULE_KEYS.keys() == {code for code in ReasonCode if code.value.startswith("gates.")}
    for rule in RULES.values():
        assert rule.__doc__ and rule.__doc__.startswith("K")
    for key in RULE_KEYS.values():
        section, name = key.split(".")
        assert hasattr(getattr(policy(), section), name)


def test_other_live_entries_are_measured_and_not_decided() -> None:
    short = {"title": "Too short"}
    for state in State:
        found = entries({"id": "c", "state": state.value} | short)
        score = frame(schemas.DISTINCTIVENESS, [{"entry_id": "c"}])
        result = judge_gates(found, score, pl.DataFrame(schema=NEAREST), policy().gates)
        if state not in LIVE_STATES:
            assert result.is_empty()
        else:
            assert result["gate_reasons"].to_list() == [["gates.name_too_short"]]
            assert result["gate_decision"].to_list() == ["refuse" if state is State.CANDIDATE else None]


@pytest.mark.parametrize("rule", ["admit", "refuse"])
def test_what_a_person_took_back_is_not_decided_again(rule: str) -> None:
    assert gate({}, kept_rules=[rule])["gate_decision"] is None
    assert gate({}, kept_rules=["retire"])["gate_decision"] == "admit"


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(6)), st.lists(st.text(max_size=40), min_size=6, max_size=6))
def test_order_of_rows_is_irrelevant_and_kept(order: list[int], titles: list[str]) -> None:
    rows = [
        {"id": f"e{n}", "title": title, "text": title, "state": "candidate" if n % 2 else "active"}
        for n, title in enumerate(titles)
    ]
    plain = entries(*rows)
    score = frame(schemas.DISTINCTIVENESS, [{"entry_id": f"e{n}", "distinctiveness": n / 5} for n in range(6)])
    near = pl.DataFrame(
        [{"entry_id": "e1", "nearest_id": "e0", "max_similarity": 0.9, "too_similar": True, "may_strengthen": True}],
        schema=NEAREST,
    )
    straight = judge_gates(plain, score, near, policy().gates)
    mixed = judge_gates(plain[order], score[order], near, policy().gates)
    assert mixed["entry_id"].to_list() == [f"e{n}" for n in order]
    assert mixed.sort("entry_id").equals(straight)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 60), st.integers(0, 60))
def test_stricter_thresholds_never_admit_more(low: float, high: float, few: int, many: int) -> None:
    low, high, few, many = min(low, high), max(low, high), min(few, many), max(few, many)
    found = entries(*({"id": f"e{n}", "title": "x y " * n, "state": "candidate"} for n in range(1, 12)))
    score = frame(
        schemas.DISTINCTIVENESS, [{"entry_id": i, "distinctiveness": 0.1 * n} for n, i in enumerate(found["entry_id"])]
    )
    admitted = []
    for least, chars in ((low, few), (high, many)):
        gates = policy(gates={"min_distinctiveness": least, "min_name_chars": chars}).gates
        result = judge_gates(found, score, pl.DataFrame(schema=NEAREST), gates)
        admitted.append(set(result.filter(pl.col("gate_decision") == "admit")["entry_id"]))
    assert admitted[1] <= admitted[0]
