"""The review queue: what still waits, in which order, and what leaves it."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.plan import recommendation_id
from kb_pipeline.stages.queue import queue_after, still_waiting
from kb_pipeline.vocabulary import LIVE_STATES, State
from kb_pipeline_tests.fakes.frames import AS_OF, days_ago, entries, frame

ENTRIES = entries(*({"id": letter, "body": f"text of {letter}"} for letter in "abcd"))
HASHES = dict(ENTRIES.select("entry_id", "content_hash").iter_rows())


def question(name: str, ids: str, **values: Any) -> dict[str, Any]:
    """A row of QUEUE about these entries' present texts."""
    letters = list(ids)
    hashes = [HASHES.get(letter, "gone") for letter in letters]
    return {"recommendation_id": name, "entry_ids": letters, "content_hashes": hashes} | values


def queue(*rows: dict[str, Any]) -> pl.DataFrame:
    return frame(schemas.QUEUE, rows)


def plan(*rows: dict[str, Any]) -> pl.DataFrame:
    """PLAN of these actions: action, entry_id, other_entry_id and what differs."""
    built = []
    for number, row in enumerate(rows):
        other = row.get("other_entry_id")
        hashes = {"content_hash": HASHES[row["entry_id"]], "other_content_hash": HASHES[other] if other else None}
        built.append({"action_id": f"id{number}", "action": "recommend", "reason": "judge.residue"} | hashes | row)
    return frame(schemas.PLAN, built)


def after(before: pl.DataFrame, made: pl.DataFrame, found: pl.DataFrame = ENTRIES) -> pl.DataFrame:
    ids = [recommendation_id(row) for row in made.filter(pl.col("action") == "recommend").iter_rows(named=True)]
    return queue_after(before, found, made, ids, as_of=AS_OF)


def test_a_question_waits_while_all_its_entries_live_with_the_same_texts() -> None:
    before = queue(question("r1", "ab"), question("r2", "c"), question("r3", "ad"))
    assert still_waiting(before, ENTRIES).equals(before)
    edited = entries(
        {"id": "a", "body": "text of a"}, {"id": "b", "body": "new text of b"}, {"id": "c", "body": "text of c"}
    )
    # b has another text, d is not there.
    assert still_waiting(before, edited)["recommendation_id"].to_list() == ["r2"]


def test_a_question_ends_when_one_of_its_entries_leaves_the_live_states() -> None:
    before = queue(question("r1", "ab"))
    for state in State:
        found = ENTRIES.with_columns(
            state=pl.when(pl.col("entry_id") == "b").then(pl.lit(state.value)).otherwise(pl.col("state"))
        )
        assert still_waiting(before, found).height == (state in LIVE_STATES)


def test_a_merge_is_answered_by_marking_an_entry_as_distinct() -> None:
    before = queue(
        question("r1", "ab", recommendation_type="MERGE", reason="judge.residue"),
        question("r2", "ab", recommendation_type="CONFLICT", reason="conflicts.contradiction"),
        question("r3", "ab", recommendation_type="MERGE", reason="gates.too_similar_differs"),
        question("r4", "cd", recommendation_type="MERGE", reason="judge.residue"),
    )
    assert still_waiting(before, ENTRIES).height == 4
    for letter in "ab":
        marked = ENTRIES.with_columns(keep_distinct=pl.col("entry_id") == letter)
        assert still_waiting(before, marked)["recommendation_id"].to_list() == ["r2", "r3", "r4"]


def test_what_the_run_asks_joins_and_what_it_moves_away_leaves() -> None:
    before = queue(question("r1", "ab"), question("r2", "c"))
    made = plan(
        {"entry_id": "c", "other_entry_id": "d", "recommendation_type": "MERGE", "severity": "low", "value": 0.9},
        {"entry_id": "a", "recommendation_type": "ARCHIVE", "severity": "low", "value": 0.0, "explanation": "why"},
        {"entry_id": "b", "action": "retire", "from_state": "active", "to_state": "archived"},
    )
    waiting = after(before, made)
    assert waiting["entry_ids"].to_list() == [["c", "d"], ["c"], ["a"]]
    new = waiting.row(0, named=True)
    assert new["content_hashes"] == [HASHES["c"], HASHES["d"]]
    assert (new["since"], new["severity"], new["reason"]) == (AS_OF, "low", "judge.residue")
    assert waiting["explanation"].to_list() == [None, None, "why"]
    schemas.QUEUE.check(waiting)


def test_a_candidate_that_is_admitted_keeps_its_questions() -> None:
    found = ENTRIES.with_columns(
        state=pl.when(pl.col("entry_id") == "c").then(pl.lit("candidate")).otherwise(pl.col("state"))
    )
    admitted = plan({"entry_id": "c", "action": "admit", "from_state": "candidate", "to_state": "active"})
    refused = plan({"entry_id": "c", "action": "refuse", "from_state": "candidate", "to_state": "archived"})
    before = queue(question("r1", "ac"))
    assert after(before, admitted, found).height == 1
    assert after(before, refused, found).height == 0


def test_a_question_that_is_asked_again_keeps_its_age() -> None:
    made = plan(
        {"entry_id": "a", "other_entry_id": "b", "recommendation_type": "MERGE", "severity": "low", "value": 0.1}
    )
    first = after(queue(), made)
    old = first.with_columns(since=pl.lit(days_ago(21)).cast(schemas.Time))
    again = after(old, made)
    assert again.height == 1
    assert again["since"].to_list() == [days_ago(21)]


def test_conflicts_come_first_then_value_then_age() -> None:
    before = queue(
        question("r1", "ab", value=0.9, since=days_ago(7)),
        question("r2", "ac", value=0.9, since=days_ago(14)),
        question("r3", "ad", value=0.95, since=days_ago(7)),
        question("r4", "bc", value=None, since=days_ago(70)),
        question("r5", "bd", value=0.1, recommendation_type="CONFLICT"),
        question("r6", "cd", value=0.8, recommendation_type="CONFLICT"),
        question("r0", "ad", value=0.9, since=days_ago(14)),
    )
    order = ["r6", "r5", "r3", "r0", "r2", "r1", "r4"]
    assert after(before, plan())["recommendation_id"].to_list() == order
    assert after(before.reverse(), plan())["recommendation_id"].to_list() == order


def test_nothing_waits_and_nothing_is_asked() -> None:
    assert after(queue(), plan()).is_empty()
    assert still_waiting(queue(), ENTRIES).is_empty()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["ab", "c", "ad", "x"]), st.sampled_from([0.5, 0.5, 0.9, None]), st.booleans()),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_it_settles_after_one_step_whatever_the_order(rows: list[tuple[str, float | None, bool]], random: Any) -> None:
    made = [
        question(f"r{n}", ids, value=value, recommendation_type="CONFLICT" if conflict else "MERGE")
        for n, (ids, value, conflict) in enumerate(rows)
    ]
    once = after(queue(*made), plan())
    assert after(once, plan()).equals(once)
    random.shuffle(made)
    assert after(queue(*made), plan()).equals(once)
    assert not any("x" in ids for ids in once["entry_ids"].to_list())
