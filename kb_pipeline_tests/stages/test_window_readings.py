"""Which texts are read together, and what becomes of what a model says of them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kb_pipeline import schemas
from kb_pipeline.policy.load import load_policy
from kb_pipeline.stages.window import Duplicate, Issue, Reading, WindowReply, WindowText
from kb_pipeline.stages.window_findings import (
    finding_frames,
    named_issues,
    named_pairs,
    with_named_pairs,
    without_secrets,
)
from kb_pipeline.stages.window_readings import READ_KEY, plan_readings, texts_read
from kb_pipeline.vocabulary import Severity
from kb_pipeline_tests.fakes.frames import entries, frame

SHIPPED = load_policy("curator").curator
NONE = pl.DataFrame(schema=dict.fromkeys(READ_KEY, pl.String))
PAIRS = schemas.PAIRS.empty()


def planned(
    table: pl.DataFrame, *window: str, pairs: pl.DataFrame = PAIRS, known: pl.DataFrame = NONE, **values: Any
) -> tuple[list[list[str]], int]:
    """Ids of each reading, and how many texts wait."""
    policy = SHIPPED.model_copy(update=values)
    readings, left = plan_readings(
        table, pl.Series(window, dtype=pl.String), pairs, known, policy, max_text_chars=20_000
    )
    return [[text.entry_id for text in reading.texts] for reading in readings], left


def test_recent_texts_are_read_newest_first_by_scope_and_sort() -> None:
    table = entries(
        {"id": "a", "body": "One."},
        {"id": "b", "body": "Two.", "kind": "rule"},
        {"id": "c", "body": "Three.", "kind": "skill"},
        {"id": "d", "body": "Four.", "tenant": "x"},
        {"id": "e", "body": "Five.", "kind": "decision"},
        {"id": "f", "body": "Six.", "kind": "runbook"},
        {"id": "old", "body": "Seven."},
    )
    assert planned(table, "f", "b", "a", "d", "c", "e") == ([["f", "c"], ["b", "a"], ["d"], ["e"]], 0)


@pytest.mark.parametrize(
    "values",
    [
        {"secret_kinds": ["aws key"]},
        {"sensitivity": "restricted"},
        {"addresses_judge": True},
        {"state": "archived"},
        {"body": "x" * 20_001},
    ],
)
def test_what_must_not_leave_is_in_no_reading(values: dict[str, Any]) -> None:
    plain = {"body": "A plain statement."}
    pairs = frame(schemas.PAIRS, [{"entry_id_l": "a", "entry_id_r": "b"}])
    table = entries({"id": "a", **plain}, {"id": "b", **plain, **({"body": "Another."} | values)})
    assert planned(table, "a", "b", pairs=pairs) == ([["a"]], 0)
    control = entries({"id": "a", **plain}, {"id": "b", "body": "Another."})
    assert planned(control, "a", "b", pairs=pairs) == ([["a", "b"]], 0)


def test_what_was_read_is_no_reason_and_rides_along() -> None:
    table = entries(*({"id": name, "body": f"Statement {name}."} for name in "abcd"))
    known = table.filter(pl.col("entry_id").is_in(["b", "c"])).select(READ_KEY)
    assert planned(table, "a", "b", "c", known=known) == ([["a", "b", "c"]], 0)
    assert planned(table, "b", "c", known=known) == ([], 0)
    # In another place the same text is another one.
    assert planned(table, "b", known=known.with_columns(pl.lit("elsewhere").alias("scope"))) == ([["b"]], 0)


def test_the_other_half_of_a_pair_rides_along_before_others() -> None:
    table = entries(*({"id": name, "body": f"Statement {name}."} for name in ("a", "b", "old-1", "old-2", "old-3")))
    pairs = frame(
        schemas.PAIRS,
        [
            {"entry_id_l": "a", "entry_id_r": "old-1", "similarity": 0.86},
            {"entry_id_l": "a", "entry_id_r": "old-2", "similarity": 0.95},
        ],
    )
    assert planned(table, "a", "b", pairs=pairs) == ([["a", "old-2", "old-1", "b"]], 0)
    assert planned(table, "a", "b", pairs=pairs, max_entries_per_call=2) == ([["a", "old-2"], ["b"]], 0)
    elsewhere = table.with_columns(
        pl.when(pl.col("entry_id") == "old-2").then(pl.lit("x")).otherwise("scope").alias("scope")
    )
    assert planned(elsewhere, "a", pairs=pairs) == ([["a", "old-1"]], 0)


def test_size_and_number_are_bounded_and_the_rest_waits() -> None:
    table = entries(*({"id": f"e{number}", "body": "x" * 300 + str(number)} for number in range(7)))
    window = table["entry_id"].to_list()
    assert planned(table, *window, max_entries_per_call=3, max_calls=2) == ([window[:3], window[3:6]], 1)
    assert [len(ids) for ids in planned(table, *window, max_call_chars=1000)[0]] == [3, 3, 1]
    assert planned(table, *window, max_calls=0) == ([], 7)


def test_entries_with_one_text_are_read_once() -> None:
    table = entries(*({"id": name, "title": "A title", "body": "The same."} for name in "ab"))
    readings, _ = plan_readings(table, pl.Series(["b", "a"]), PAIRS, NONE, SHIPPED, max_text_chars=20_000)
    assert [text.entry_id for text in readings[0].texts] == ["b"] and texts_read(readings).height == 1


def text_of(table: pl.DataFrame, entry: str) -> WindowText:
    row = table.filter(pl.col("entry_id") == entry).row(0, named=True)
    return WindowText(entry, row["kind"], row["content_hash"], row["text"])


def told(table: pl.DataFrame, *pairs: tuple[str, str, float]) -> tuple[pl.DataFrame, pl.DataFrame]:
    reading = Reading(table["scope"][0], tuple(text_of(table, entry) for entry in table["entry_id"]))
    duplicates = tuple(
        Duplicate(text_of(table, left), text_of(table, right), sure, "They agree.", None) for left, right, sure in pairs
    )
    issues = (Issue(text_of(table, "a"), Severity.LOW, "It is untidy."),)
    return finding_frames([(reading, WindowReply(duplicates, issues))])


def test_what_tells_a_secret_is_not_kept() -> None:
    duplicates, issues = told(TABLE, ("a", "b", 0.9), ("b", "c", 0.9))
    bodies = duplicates.with_columns(pl.Series("suggested_body", ["the key is KEY", "plain"]))
    plain, kept = without_secrets(bodies, issues, lambda texts: [["key"] if "KEY" in text else [] for text in texts])
    assert plain["suggested_body"].to_list() == [None, "plain"] and kept.equals(issues)
    said = [frame.with_columns(pl.lit("It says KEY.").alias("sentence")) for frame in (duplicates, issues)]
    assert [
        part.height for part in without_secrets(*said, lambda texts: [["key"] if "KEY" in t else [] for t in texts])
    ] == [0, 0]


TABLE = entries(
    {"id": "a", "body": "One."}, {"id": "b", "body": "Two."}, {"id": "c", "body": "Three."},
    {"id": "d", "body": "Four.", "keep_distinct": True}, {"id": "e", "body": "Five.", "state": "candidate"},
)  # fmt: skip


def test_a_finding_finds_its_entries_again() -> None:
    duplicates, issues = told(
        TABLE, ("a", "b", 0.9), ("c", "b", 0.75), ("a", "c", 0.74), ("a", "d", 0.9), ("a", "e", 0.9)
    )
    pairs = named_pairs(TABLE, duplicates, min_confidence=0.75)
    assert pairs.select("entry_id_l", "entry_id_r", "confidence").rows() == [("a", "b", 0.9), ("b", "c", 0.75)]
    assert named_issues(TABLE, issues, TABLE["entry_id"]).rows() == [("a", "low", "It is untidy.")]
    assert named_issues(TABLE, issues, pl.Series(["b"])).is_empty()
    # A changed text is another one, and of it nothing was said.
    changed = TABLE.with_columns(pl.lit("other").alias("content_hash"))
    assert named_pairs(changed, duplicates, min_confidence=0).is_empty()
    assert named_issues(changed, issues, TABLE["entry_id"]).is_empty()


@pytest.mark.parametrize(
    ("verdict", "becomes"),
    [
        ({"verdict": "UNSURE", "reason": "judge.residue"}, "window.duplicate"),
        ({"verdict": "KEEP_BOTH", "reason": "judge.specifics_differ"}, "window.duplicate"),
        ({"verdict": "KEEP_BOTH", "reason": "judge.timeout", "failed": True}, "window.duplicate"),
        ({"verdict": "MERGE", "reason": "judge.canonical"}, "judge.canonical"),
        ({"verdict": "CONFLICT", "reason": "judge.contradiction"}, "judge.contradiction"),
        ({"verdict": "KEEP_BOTH", "reason": "judge.distinct", "judge_confidence": 0.9}, "judge.distinct"),
        ({"verdict": "UNSURE", "reason": "judge.low_confidence", "judge_confidence": 0.4}, "judge.low_confidence"),
        (
            {"verdict": "KEEP_BOTH", "reason": "judge.dismissed_by_person", "judge": "person"},
            "judge.dismissed_by_person",
        ),
        ({"verdict": "KEEP_BOTH", "reason": "judge.kept_by_person", "judge": "person"}, "judge.kept_by_person"),
    ],
)
def test_a_hint_never_outweighs_a_decision_on_the_pair(verdict: dict[str, Any], becomes: str) -> None:
    verdicts = frame(
        schemas.VERDICTS, [{"entry_id_l": "a", "entry_id_r": "b"} | verdict, {"entry_id_l": "a", "entry_id_r": "c"}]
    )
    duplicates, _ = told(TABLE, ("a", "b", 0.9))
    named = named_pairs(TABLE, duplicates, min_confidence=0.75)
    after = with_named_pairs(verdicts, named, judge="anthropic")
    assert after["reason"].to_list() == [becomes, "judge.same_rule"]
    if becomes == "window.duplicate":
        row = after.row(0, named=True)
        assert (row["verdict"], row["judge"], row["judge_confidence"], row["explanation"]) == (
            "UNSURE", "anthropic", 0.9, "They agree.",
        )  # fmt: skip
    else:
        assert after.equals(verdicts)
