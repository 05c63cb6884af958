"""Flags: every reason fires and spares, references are followed, rules can be switched off, and nothing is asked twice."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.flags import RULE_KEYS, RULES, add_gates, find_flags, open_flags, severities
from kb_pipeline.stages.report_words import REASONS, ground_words
from kb_pipeline_tests.fakes.frames import cases, entries, frame, policy

TABLE = cases("flags")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]
POLICY = policy().flags
NO_QUEUE = schemas.QUEUE.empty()


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    (found,) = find_flags(entries({"id": "e"} | case["entry"]), POLICY).iter_rows(named=True)
    assert found["flag_reasons"] == case["flags"]
    assert found["flag_severity"] == case.get("severity")
    assert (found["flag_value"] is None) == (not case["flags"])


def test_every_rule_has_a_key_a_severity_a_sentence_and_cases_of_both_kinds() -> None:
    assert RULES.keys() == RULE_KEYS.keys() == severities().keys()
    defaults = POLICY.model_dump()
    assert all(key.partition(".")[2] in defaults for key in RULE_KEYS.values())
    for code in RULES:
        assert code in REASONS
        if code != "flags.gone_reference":
            assert {bool(case["flags"]) for case in TABLE[code]} == {True, False}


@pytest.mark.parametrize(
    ("key", "off", "code"), [(key.partition(".")[2], 0, code) for code, key in RULE_KEYS.items() if code in TABLE]
)
def test_a_rule_that_is_off_flags_nothing(key: str, off: int, code: str) -> None:
    value = off if key.startswith("min_") else False
    limits = policy(flags={key: value}).flags
    fires = entries(*({"id": f"e{at}"} | case["entry"] for at, case in enumerate(TABLE[code]) if case["flags"]))
    assert code not in find_flags(fires, limits)["flag_reasons"].explode().to_list()
    assert code in find_flags(fires, POLICY)["flag_reasons"].explode().to_list()


def gone(*rows: dict[str, Any]) -> dict[str, list[str]]:
    found = find_flags(entries(*rows), POLICY)
    flagged = found.filter(pl.col("flag_reasons").list.contains("flags.gone_reference"))
    assert found.filter(pl.col("gone_references").list.len() > 0).height == flagged.height
    return dict(flagged.select("entry_id", "gone_references").iter_rows())


OLD = {"id": "kb-0012", "state": "archived", "body": "The relay listens on port 25."}


def test_what_is_replaced_must_be_known() -> None:
    text = {"body": "The relay listens on port 2525."}
    assert gone({"id": "a", "supersedes": ["kb-0099"]} | text, OLD) == {"a": ["kb-0099 (unknown)"]}
    assert gone({"id": "a", "supersedes": ["kb-0012"]} | text, OLD) == {}
    assert gone({"id": "a", "supersedes": ["kb-0099", "kb-0077"], "state": "archived"} | text, OLD) == {}


def test_what_it_was_made_from_must_be_in_use() -> None:
    text = {"body": "The relay listens on port 2525."}
    assert gone({"id": "a", "generated_from": ["kb-0012", "docs/relay.md"]} | text, OLD) == {
        "a": ["kb-0012 (archived)"]
    }
    merged = OLD | {"merged_into": "kb-0013"}
    assert gone({"id": "a", "generated_from": ["kb-0012"]} | text, merged) == {}
    assert gone({"id": "a", "generated_from": ["kb-0012"]} | text, OLD | {"state": "active"}) == {}


def test_an_id_in_the_text_is_a_reference() -> None:
    names = {"id": "a", "body": "Set the port as kb-0012 says (see also kb-00123)."}
    assert gone(names, OLD) == {"a": ["kb-0012 (archived)"]}
    assert gone(names, OLD | {"state": "active"}) == {}
    assert gone(names | {"supersedes": ["kb-0012"]}, OLD) == {}
    # A word is no id, and a longer id is another one.
    assert gone({"id": "a", "body": "The relay is slow."}, {"id": "relay", "state": "archived"}) == {}
    assert gone({"id": "a", "body": "As kb-00123 says, the port is open."}, OLD) == {}


def test_references_stay_within_a_tenant() -> None:
    names = {"id": "a", "tenant": "north", "body": "Set the port as kb-0012 says."}
    assert gone(names, OLD | {"tenant": "south"}) == {}
    assert gone(names, OLD | {"tenant": "north"}) == {"a": ["kb-0012 (archived)"]}
    # To the north, what the south holds is unknown.
    assert gone(names | {"supersedes": ["kb-0012"]}, OLD | {"tenant": "south"}) == {"a": ["kb-0012 (unknown)"]}


def test_much_used_and_worse_entries_come_first() -> None:
    bare = {"kind": "decision", "body": "Services talk over gRPC from May on."}
    found = entries(
        {"id": "a", "kind": "decision", "title": "We use gRPC from May on"},
        bare | {"id": "b", "retrievals": 60, "title": "Transport of the services is gRPC"},
        bare | {"id": "c", "kind": "architecture_decision", "title": "Transport"},
        {"id": "d", "addresses_judge": True},
        {"id": "e"},
    )
    flags = find_flags(found, POLICY)
    assert open_flags(flags, found, NO_QUEUE)["entry_id"].to_list() == ["d", "c", "b", "a"]
    assert flags["entry_id"].to_list() == found["entry_id"].to_list()


def test_nothing_is_asked_twice_or_against_a_persons_keep() -> None:
    bare = {"kind": "decision", "title": "We use gRPC from May on"}
    found = entries(
        bare | {"id": "a"}, bare | {"id": "b", "kept_rules": ["recommend"]}, bare | {"id": "c", "kept_rules": ["merge"]}
    )
    flags = find_flags(found, POLICY)
    assert open_flags(flags, found, NO_QUEUE)["entry_id"].to_list() == ["a", "c"]
    asked = frame(schemas.QUEUE, [{"recommendation_id": "r", "recommendation_type": "FLAG", "entry_ids": ["a"]}])
    assert open_flags(flags, found, asked.with_columns(content_hashes=pl.lit([], schemas.Texts)))[
        "entry_id"
    ].to_list() == ["c"]
    other = asked.with_columns(recommendation_type=pl.lit("ARCHIVE"))
    assert open_flags(flags, found, other)["entry_id"].to_list() == ["a", "c"]


def test_several_grounds_read_as_sentences() -> None:
    words = ground_words("flags.no_steps", "flags.no_steps; flags.gone_reference; kb-0012 (archived)")
    assert words == f"{REASONS['flags.no_steps']} {REASONS['flags.gone_reference']} (kb-0012 (archived))"
    assert ground_words("flags.no_steps", None) == REASONS["flags.no_steps"]


WORDS = st.sampled_from(
    ["Decision", "we", "use", "gRPC", "because", "\n\n", "Lesson 1:", "- ", "Check", "pid 7", "died", "部署"]
)
ROWS = st.lists(
    st.tuples(st.sampled_from(["fact", "decision", "skill", "lesson"]), st.lists(WORDS, min_size=1)), max_size=8
)


@settings(max_examples=40, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant_and_kept(rows: list[tuple[str, list[str]]], random: Any) -> None:
    found = entries(*({"id": f"e{at}", "kind": kind, "body": " ".join(words)} for at, (kind, words) in enumerate(rows)))
    straight = find_flags(found, POLICY)
    schemas.FLAGS.check(straight)
    order = list(range(found.height))
    random.shuffle(order)
    mixed = find_flags(found[order], POLICY)
    assert mixed["entry_id"].to_list() == found[order]["entry_id"].to_list()
    assert mixed.sort("entry_id").equals(straight)


def test_active_entries_that_a_gate_would_stop_are_flagged_low_and_last() -> None:
    table = entries(
        {"id": "a", "title": "Notes", "kind": "rule"}, {"id": "b", "title": "Notes", "state": "candidate"},
        {"id": "c", "kind": "decision", "title": "Notes"}, {"id": "d"}, {"id": "e", "title": "Notes", "kind": "rule"},
    )  # fmt: skip
    stopped = {"gate_reasons": ["gates.name_too_short", "gates.generic_name"]}
    gates = frame(
        schemas.GATES,
        [{"entry_id": name} | stopped for name in "abc"]
        + [{"entry_id": "d"}, {"entry_id": "e", "gate_reasons": ["gates.too_similar"]}],
    )
    found = find_flags(table, POLICY)
    after = add_gates(found, table, gates)
    rows = {row["entry_id"]: row for row in after.iter_rows(named=True)}
    assert rows["a"]["flag_reasons"] == ["gates.name_too_short", "gates.generic_name"]
    assert (rows["a"]["flag_severity"], rows["a"]["flag_value"]) == ("low", 0.2)
    assert rows["a"]["flag_value"] < found["flag_value"].drop_nulls().min()  # type: ignore[operator]
    # A candidate is the gates' to decide, a flag of its own says more, and closeness is no fault of one entry.
    assert after.filter(pl.col("entry_id") != "a").equals(found.filter(pl.col("entry_id") != "a"))
    assert rows["c"]["flag_reasons"] == ["flags.no_rationale"]
