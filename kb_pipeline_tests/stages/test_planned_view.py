"""The retrieval view as a plan would leave it: states, merges and conflicts, and what stays as it is."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kb_pipeline import schemas, schemas_retrieval
from kb_pipeline.stages.eligibility import Asked, judge_eligibility
from kb_pipeline.stages.planned_view import facts_after
from kb_pipeline_tests.fakes.frames import AS_OF, policy

PLAIN = {
    "kind": "fact", "title": "t", "text": "t", "content_hash": "h", "state": "active", "review_state": "unreviewed",
    "sensitivity": "internal", "visible_to": [], "conflict_state": "none", "severe_conflicts": [],
    "mild_conflicts": [], "holds_secret": False,
}  # fmt: skip
ACTION = {"reason": "r", "rule": "r", "content_hash": "h"}
CONFLICT = {
    "conflict_type": "contradiction", "content_hash_l": "h", "content_hash_r": "h", "reason": "r", "judge": "rule",
}  # fmt: skip


def facts(**entries: dict[str, Any]) -> pl.DataFrame:
    blank = dict.fromkeys(schemas_retrieval.RETRIEVAL_FACTS.columns)
    return schemas_retrieval.RETRIEVAL_FACTS.build(
        [blank | PLAIN | {"entry_id": entry} | values for entry, values in entries.items()]
    )


def plan(*rows: tuple[str, str, str | None, str | None]) -> pl.DataFrame:
    blank = dict.fromkeys(schemas.PLAN.columns)
    return schemas.PLAN.build(
        [
            blank
            | ACTION
            | {"action_id": str(at), "action": action, "entry_id": entry, "other_entry_id": other, "to_state": state}
            for at, (action, entry, other, state) in enumerate(rows)
        ]
    )


def conflicts(*rows: tuple[str, str, str]) -> pl.DataFrame:
    blank = dict.fromkeys(schemas.CONFLICTS.columns)
    return schemas.CONFLICTS.build(
        [
            blank | CONFLICT | {"conflict_id": str(at), "entry_id_l": left, "entry_id_r": right, "severity": severity}
            for at, (left, right, severity) in enumerate(rows)
        ]
    )


def eligible(frame: pl.DataFrame) -> list[str]:
    judged = judge_eligibility(frame, policy().eligibility, Asked(AS_OF))
    return judged.filter("eligible")["entry_id"].to_list()


NOTHING = conflicts()


def test_an_empty_plan_changes_nothing() -> None:
    before = facts(a={}, b={"state": "archived", "merged_into": "a"})
    assert facts_after(before, plan(), NOTHING).equals(before)


@pytest.mark.parametrize(
    ("action", "other", "state", "left"),
    [
        ("retire", None, "archived", ["b"]),
        ("merge", "b", "archived", ["b"]),
        ("recommend", "b", None, ["a", "b"]),
        ("strengthen", "b", None, ["a", "b"]),
    ],
)
def test_what_leaves_is_not_found_and_questions_change_nothing(
    action: str, other: str | None, state: str | None, left: list[str]
) -> None:
    after = facts_after(facts(a={}, b={}), plan((action, "a", other, state)), NOTHING)
    assert eligible(after) == left
    schemas_retrieval.RETRIEVAL_FACTS.check(after)


def test_what_is_admitted_is_found_and_what_is_refused_went_into_another() -> None:
    before = facts(a={"state": "candidate"}, b={}, c={"state": "candidate"})
    after = facts_after(before, plan(("admit", "a", None, "active"), ("refuse", "c", "b", "archived")), NOTHING)
    assert (eligible(before), eligible(after)) == (["b"], ["a", "b"])
    assert dict(after.select("entry_id", "merged_into").iter_rows()) == {"a": None, "b": None, "c": "b"}


def test_a_severe_conflict_that_opens_keeps_both_out_and_a_mild_one_nobody() -> None:
    before = facts(a={}, b={}, c={}, d={})
    after = facts_after(before, plan(), conflicts(("a", "b", "high"), ("c", "d", "medium"), ("a", "d", "medium")))
    assert eligible(after) == ["c", "d"]


def test_a_conflict_that_ends_lets_both_in_again_unless_another_is_open() -> None:
    torn = {"severe_conflicts": ["x"], "conflict_state": "open"}
    before = facts(a=torn, b=torn, c=torn)
    ends = plan(("close_conflict", "a", "b", None), ("close_conflict", "b", "c", None))
    assert eligible(before) == []
    assert eligible(facts_after(before, ends, NOTHING)) == ["a", "b", "c"]
    assert eligible(facts_after(before, ends, conflicts(("b", "c", "high")))) == ["a"]


def test_a_conflict_that_an_import_brought_stays() -> None:
    before = facts(a={"conflict_state": "open"}, b={})
    assert eligible(facts_after(before, plan(), NOTHING)) == ["b"]
