"""Gates: every reason code fires and spares, and only candidates are decided."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.gates import NEAREST_SCHEMA, RULE_KEYS, RULES, judge_gates, nearest_active
from kb_pipeline.vocabulary import LIVE_STATES, ReasonCode, State
from kb_pipeline_tests.fakes.frames import cases, entries, frame, policy

TABLE = cases("gates")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]
GOOD = "Backups of the ledger run on Sundays"


def gate(case: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The row of GATES for one candidate."""
    title = case.get("title", GOOD)
    found = entries({"id": "c", "title": title or None, "body": case.get("body"), "state": "candidate"} | values)
    score = frame(schemas.DISTINCTIVENESS, [{"entry_id": "c", "distinctiveness": case.get("distinctiveness", 0.9)}])
    near = [{"entry_id": "c", "nearest_id": "n"} | case["nearest"]] if "nearest" in case else []
    return judge_gates(found, score, pl.DataFrame(near, schema=NEAREST_SCHEMA), policy().gates).row(0, named=True)


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
        result = judge_gates(found, score, pl.DataFrame(schema=NEAREST_SCHEMA), policy().gates)
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
        schema=NEAREST_SCHEMA,
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
        result = judge_gates(found, score, pl.DataFrame(schema=NEAREST_SCHEMA), gates)
        admitted.append(set(result.filter(pl.col("gate_decision") == "admit")["entry_id"]))
    assert admitted[1] <= admitted[0]


# --- the nearest active entry (K4) -----------------------------------------------------------------------------------


def unit(*angles: float) -> npt.NDArray[np.float32]:
    """Unit vectors in a plane, by angle in degrees: the cosine of two is that of the angle between them."""
    radians = np.radians(np.array(angles, dtype=np.float64))
    return np.column_stack([np.cos(radians), np.sin(radians)]).astype(np.float32)


def nearest(found: pl.DataFrame, angles: dict[str, list[float]], least: float = 0.85) -> dict[str, dict[str, Any]]:
    """NEAREST_SCHEMA by candidate; each entry has windows at these angles."""
    rows = found["entry_id"].to_list()
    pairs = [(rows.index(name), angle) for name, windows in angles.items() for angle in windows]
    owner = np.array([row for row, _ in pairs], dtype=np.int64)
    result = nearest_active(found, unit(*(angle for _, angle in pairs)), owner, least)
    assert result.schema == pl.Schema(NEAREST_SCHEMA)
    return {row["entry_id"]: row for row in result.iter_rows(named=True)}


SAME = "Backups of the ledger run on Sundays"


def test_the_nearest_active_entry_of_the_same_scope_and_kind() -> None:
    found = entries(
        {"id": "a", "body": SAME},
        {"id": "b", "body": SAME},
        {"id": "c", "body": SAME, "state": "candidate"},
        {"id": "d", "body": SAME, "state": "archived"},
        {"id": "e", "body": SAME, "kind": "rule"},
        {"id": "f", "body": SAME, "repository": "other"},
        {"id": "g", "body": SAME, "state": "candidate"},
    )
    angles = {"a": [40.0], "b": [20.0], "c": [0.0], "d": [1.0], "e": [2.0], "f": [3.0], "g": [0.0]}
    rows = nearest(found, angles)
    assert set(rows) == {"c", "g"}
    assert (rows["c"]["nearest_id"], rows["c"]["max_similarity"]) == ("b", round(float(np.cos(np.radians(20))), 5))
    assert rows["c"]["too_similar"] and rows["c"]["may_strengthen"]
    # The best pair of windows counts, and the smaller id among equals.
    assert nearest(found, angles | {"a": [90.0, 5.0]})["c"]["nearest_id"] == "a"
    assert nearest(found, angles | {"a": [20.0]})["c"]["nearest_id"] == "a"


@pytest.mark.parametrize(("least", "too_similar"), [(0.93969, True), (0.9397, False)])
def test_from_the_threshold_on_it_is_too_similar(least: float, too_similar: bool) -> None:
    found = entries({"id": "a", "body": SAME}, {"id": "c", "body": SAME, "state": "candidate"})
    row = nearest(found, {"a": [20.0], "c": [0.0]}, least)["c"]
    assert (row["max_similarity"], row["too_similar"]) == (0.93969, too_similar)
    assert row["may_strengthen"] == too_similar


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ("Backups run on Sundays", "Backups run every Sunday night", True),
        ("Backups run on Sundays", "Backups do not run on Sundays", False),
        ("Retry 3 times", "Retry 5 times", False),
        ("Read the settings from /etc/a.conf", "Read the settings from /etc/b.conf", False),
        ("Wait 10 seconds", "Wait 10s", True),
    ],
)
def test_only_what_agrees_strengthens(old: str, new: str, may: bool) -> None:
    found = entries({"id": "a", "body": old}, {"id": "c", "body": new, "state": "candidate"})
    row = nearest(found, {"a": [1.0], "c": [0.0]})["c"]
    assert (row["too_similar"], row["may_strengthen"]) == (True, may)


def test_without_a_neighbour_or_vectors_there_is_no_row() -> None:
    found = entries({"id": "a", "body": SAME}, {"id": "c", "body": SAME, "state": "candidate"})
    assert nearest(found, {"c": [0.0]}) == {}
    assert nearest(found, {"a": [0.0]}) == {}
    assert nearest(found, {}) == {}
    assert nearest(found.filter(pl.col("entry_id") == "a"), {"a": [0.0]}) == {}
    assert nearest(found, {"a": [0.0], "c": [0.0]}) != {}
