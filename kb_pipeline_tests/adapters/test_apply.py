"""Apply: what each action writes, all of it or nothing, once and only once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import polars as pl
import psycopg2
import pytest

from kb_pipeline.adapters.applying import apply_plan, score_action_id
from kb_pipeline.adapters.runs import run_status
from kb_pipeline.errors import KbError
from kb_pipeline.vocabulary import Mode, RunStatus
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, Corpus, Decisions

END = datetime(2026, 11, 23, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {"id": "w", "created_at": "2026-01-01", "attempts": 30, "successes": 21, "retrievals": 5,
     "last_matched_at": "2026-03-01", "evidence": [{"ref": "e1"}]},
    {"id": "l", "created_at": "2026-01-02", "attempts": 12, "successes": 3, "retrievals": 7, "review_state": "approved",
     "last_matched_at": "2026-05-01", "last_retrieved_at": "2026-04-01", "evidence": [{"ref": "e2"}, {"ref": "e3"}]},
    {"id": "x", "created_at": "2026-01-03", "evidence": [{"ref": "e3"}, {"ref": "e4"}]},
    {"id": "c", "created_at": "2026-01-04", "state": "candidate", "evidence": [{"ref": "e5"}]},
]  # fmt: skip


@pytest.fixture
def loaded(corpus: Corpus) -> Corpus:
    corpus.load(*ROWS)
    return corpus


def refs(row: dict[str, Any]) -> list[str]:
    return [piece["ref"] for piece in row.get("evidence", [])]


def test_a_merge_hands_on_statistics_and_evidence_and_nothing_else(loaded: Corpus) -> None:
    before = loaded.rows()
    loaded.curate(decided=Decisions(merges={"l": "w"}))
    rows = loaded.rows()
    winner, loser = rows["w"], rows["l"]
    assert (winner["attempts"], winner["successes"], winner["retrievals"]) == (42, 24, 12)
    assert refs(winner) == ["e1", "e2", "e3"]
    assert winner["last_matched_at"] == "2026-05-01T00:00:00Z"
    assert winner["last_retrieved_at"] == "2026-04-01T00:00:00Z"
    # Approval is of a text, and this text was not approved.
    assert "review_state" not in winner
    assert (winner["state"], winner["state_changed_at"]) == ("active", before["w"]["state_changed_at"])
    # The loser is what it was but for its state.
    changed = {name for name in loser if loser[name] != before["l"].get(name)}
    assert changed == {"state", "state_reason", "state_changed_at", "merged_into"}
    assert (loser["state"], loser["state_reason"], loser["merged_into"]) == ("archived", "judge.exact", "w")
    assert loser["state_changed_at"] == "2026-11-23T00:00:00Z"
    assert rows["x"] == before["x"] and rows["c"] == before["c"]
    assert loaded.projections_are_true()


def test_two_losers_bring_the_same_evidence_once(loaded: Corpus) -> None:
    loaded.curate(decided=Decisions(merges={"l": "w", "x": "w"}))
    row = loaded.rows()["w"]
    assert row["attempts"] == 42
    assert sorted(refs(row)) == ["e1", "e2", "e3", "e4"]
    assert loaded.query("SELECT evidence_count FROM entries WHERE corpus = %s AND entry_id = 'w'", loaded.name) == [
        {"evidence_count": 4}
    ]


def test_what_was_merged_in_goes_on_with_the_next_merge(loaded: Corpus) -> None:
    loaded.curate(decided=Decisions(merges={"l": "w"}))
    loaded.curate(NEXT_WEEK, decided=Decisions(merges={"w": "x"}))
    row = loaded.rows()["x"]
    assert (row["attempts"], row["successes"], row["retrievals"]) == (42, 24, 12)
    assert sorted(refs(row)) == ["e1", "e2", "e3", "e4"]
    assert loaded.rows()["w"]["attempts"] == 42


def test_a_strengthening_counts_as_a_match_and_brings_the_evidence(loaded: Corpus) -> None:
    loaded.curate(decided=Decisions(strengthen={"c": "x"}))
    rows = loaded.rows(full=True)
    assert (rows["c"]["state"], rows["c"]["state_reason"]) == ("archived", "gates.too_similar")
    assert refs(rows["x"]) == ["e3", "e4", "e5"]
    assert (rows["x"]["attempts"], rows["x"]["retrievals"]) == (0, 0)
    assert rows["x"]["last_matched_at"] == "2026-11-23T00:00:00Z"
    assert [use["type"] for use in rows["x"]["usage"]] == ["strengthened"]


def test_every_action_is_recorded_with_its_grounds(loaded: Corpus) -> None:
    run = loaded.curate(
        decided=Decisions(
            merges={"l": "w"}, admit=("c",), conflicts=(("w", "x"),), unsure=(("l", "x"),), scores={"w": 0.5}
        )
    )
    hashes = {name: row["content_hash"] for name, row in loaded.rows().items()}
    actions = {
        row["action"]: row for row in loaded.query("SELECT * FROM curation_actions WHERE run_id = %s", run.run_id)
    }
    assert set(actions) == {"merge", "admit", "open_conflict", "recommend"}
    merge = actions["merge"]
    assert (merge["entry_id"], merge["other_entry_id"], merge["from_state"], merge["to_state"]) == (
        "l", "w", "active", "archived",
    )  # fmt: skip
    assert (merge["content_hash"], merge["other_content_hash"]) == (hashes["l"], hashes["w"])
    assert (merge["similarity"], merge["verdict"], merge["judge"]) == (0.95, "MERGE", "rule")
    assert (merge["policy_fingerprint"], merge["model_fingerprint"], merge["effective_at"]) == ("policy", "model", END)
    (moved,) = loaded.query("SELECT * FROM entry_state_history WHERE action_id = %s", merge["action_id"])
    assert (moved["actor_type"], moved["actor_id"], moved["run_id"], moved["rule"]) == (
        "pipeline", "tester", run.run_id, "judge",
    )  # fmt: skip
    (conflict,) = loaded.query("SELECT * FROM conflicts WHERE corpus = %s", loaded.name)
    assert (conflict["entry_id_l"], conflict["entry_id_r"], conflict["status"]) == ("w", "x", "open")
    assert (conflict["severity"], conflict["action"]) == ("high", "exclude_both_from_default_retrieval")
    assert (conflict["content_hash_l"], conflict["content_hash_r"]) == (hashes["w"], hashes["x"])
    asked = loaded.query("SELECT * FROM recommendations WHERE corpus = %s ORDER BY recommendation_type", loaded.name)
    assert [(row["recommendation_type"], row["entry_ids"]) for row in asked] == [
        ("CONFLICT", ["w", "x"]), ("MERGE", ["l", "x"]),
    ]  # fmt: skip
    assert asked[1]["content_hashes"] == [hashes["l"], hashes["x"]]
    assert asked[1]["effective_at"] == END
    (score,) = loaded.query("SELECT * FROM quality_assessments WHERE corpus = %s", loaded.name)
    assert (score["entry_id"], score["distinctiveness"], score["action_id"]) == ("w", 0.5, score_action_id(run))
    (change,) = loaded.query("SELECT * FROM changes WHERE run_id = %s", run.run_id)
    assert (change["change_type"], change["actor_id"]) == ("curation", "tester")
    rows = loaded.rows()
    assert (rows["w"]["conflict_state"], rows["x"]["conflict_state"], rows["l"]["conflict_state"]) == (
        "open",
        "open",
        "none",
    )
    assert rows["w"]["distinctiveness"] == 0.5


def test_as_many_actions_as_changes_of_state(loaded: Corpus) -> None:
    run = loaded.open()
    done = loaded.apply(run, Decisions(merges={"l": "w"}, retire=("x",), admit=("c",)))
    assert (done.action_count, done.transition_count) == (3, 3)
    states = {name: row["state"] for name, row in loaded.rows().items()}
    assert states == {"w": "active", "l": "archived", "x": "archived", "c": "active"}


def test_in_mode_recommend_only_the_queue_changes(loaded: Corpus) -> None:
    before = loaded.export(full=True)
    decided = Decisions(merges={"l": "w"}, retire=("x",), admit=("c",), conflicts=(("w", "x"),), scores={"w": 0.5})
    run = loaded.open(mode=Mode.RECOMMEND)
    assert loaded.apply(run, replace(decided, scores={})).transition_count == 0
    assert loaded.export(full=True) == before
    assert loaded.count("recommendations") == 4
    assert loaded.count("curation_actions") == 4
    # The control: the same decisions in mode apply do change something.
    loaded.curate(NEXT_WEEK, decided=decided)
    assert loaded.export(full=True) != before


def test_a_question_that_waits_is_not_asked_again(loaded: Corpus) -> None:
    loaded.curate(decided=Decisions(unsure=(("w", "x"),)))
    loaded.curate(NEXT_WEEK, decided=Decisions(unsure=(("w", "x"), ("l", "x"))))
    asked = loaded.query(
        "SELECT entry_ids, effective_at FROM recommendations WHERE corpus = %s ORDER BY effective_at", loaded.name
    )
    assert [row["entry_ids"] for row in asked] == [["w", "x"], ["l", "x"]]


def test_a_conflict_that_is_open_is_not_opened_again(loaded: Corpus) -> None:
    decided = Decisions(conflicts=(("w", "x"),))
    loaded.curate(decided=decided)
    loaded.curate(NEXT_WEEK, decided=decided)
    assert loaded.count("conflicts") == 1
    assert loaded.count("recommendations") == 1
    # Another text is another conflict.
    loaded.load(ROWS[0] | {"body": "A new body", "updated_at": "2026-12-01"})
    loaded.curate(datetime(2026, 11, 30, tzinfo=UTC).date(), decided=decided)
    # Beside it a row says that the first is over.
    assert loaded.count("conflicts") == 3


def test_the_same_plan_under_another_run_is_applied_once(loaded: Corpus) -> None:
    decided = Decisions(merges={"l": "w"}, retire=("x",), strengthen={"c": "w"})
    loaded.curate(decided=decided)
    before = loaded.everything()
    again = loaded.open()
    assert loaded.apply(again, decided).action_count == 0
    assert loaded.everything() == before
    assert loaded.rows()["w"]["attempts"] == 42


def test_a_run_that_was_overtaken_applies_nothing(loaded: Corpus) -> None:
    slow = loaded.open()
    fast = loaded.curate(decided=Decisions(retire=("x",)))
    before = loaded.everything()
    with pytest.raises(KbError, match=f"run {fast.run_id} .* took effect after this run had read the corpus"):
        loaded.apply(slow, Decisions(merges={"x": "w"}))
    assert loaded.everything() == before


def test_an_apply_that_fails_leaves_the_old_state(loaded: Corpus) -> None:
    run = loaded.open()
    found, plan, conflicts = loaded.plan(run, Decisions(merges={"l": "w"}, retire=("x",), unsure=(("w", "x"),)))
    before = loaded.everything()
    given: dict[str, Any] = {
        "recommendation_ids": ["rec_1"], "status": RunStatus.OK, "model_fingerprint": "m", "judge_fingerprint": "r",
        "counts": {},
    }  # fmt: skip
    none = pl.DataFrame(schema={"entry_id": pl.String, "distinctiveness": pl.Float64})
    # Everything is written, and then the last table refuses a score of an entry twice.
    twice = pl.DataFrame({"entry_id": ["w", "w"], "distinctiveness": [0.1, 0.2]})
    with pytest.raises(psycopg2.IntegrityError):
        apply_plan(loaded.database, run, found, plan, conflicts, twice, **given)
    assert loaded.everything() == before
    assert run_status(loaded.database, run.run_id) is RunStatus.RUNNING
    assert apply_plan(loaded.database, run, found, plan, conflicts, none, **given).transition_count == 2


KILLED = """
import os, sys, signal
from kb_pipeline.adapters import applying
from kb_pipeline_tests.fakes.corpus import Corpus, Decisions
corpus = Corpus(sys.argv[1], sys.argv[2])
run = corpus.open()
write = applying.refresh
def die(*arguments):
    write(*arguments)
    print("written", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
applying.refresh = die
corpus.apply(run, Decisions(merges={"l": "w"}, retire=("x",)))
"""


def test_a_process_that_is_killed_before_the_commit_leaves_the_old_state(loaded: Corpus) -> None:
    before, exported = loaded.everything(), loaded.export(full=True)
    done = subprocess.run([sys.executable, "-c", KILLED, loaded.url, loaded.name], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-9, "written\n"), done.stderr
    assert loaded.everything() == before
    assert loaded.export(full=True) == exported
    # The next run finds the corpus free and does the work.
    loaded.curate(decided=Decisions(merges={"l": "w"}, retire=("x",)))
    assert loaded.rows()["w"]["attempts"] == 42


def test_runs_of_two_corpora_do_not_touch_each_other(loaded: Corpus) -> None:
    other = Corpus(loaded.url, loaded.name + "-other")
    other.load(*ROWS)
    before = other.everything()
    loaded.curate(decided=Decisions(merges={"l": "w"}, conflicts=(("w", "x"),), scores={"w": 0.5}))
    assert other.everything() == before
    other.curate(decided=Decisions(merges={"l": "w"}, conflicts=(("w", "x"),), scores={"w": 0.5}))
    assert other.export() == loaded.export()


def test_an_empty_week(corpus: Corpus) -> None:
    corpus.load({"id": "later", "created_at": "2026-12-01"})
    run = corpus.open()
    assert corpus.entries(run).is_empty()
    assert corpus.apply(run, Decisions()).action_count == 0
    assert run_status(corpus.database, run.run_id) is RunStatus.OK


def test_a_thousand_merges_in_one_plan(corpus: Corpus) -> None:
    pairs = 1_000
    rows = [
        {
            "id": f"{side}{n}",
            "created_at": "2026-01-01",
            "attempts": 1,
            "successes": 0,
            "evidence": [{"ref": f"{side}{n}"}],
        }
        for n in range(pairs)
        for side in "lw"
    ]
    corpus.load(*rows)
    done = corpus.apply(corpus.open(), Decisions(merges={f"l{n}": f"w{n}" for n in range(pairs)}))
    assert done.transition_count == pairs
    (numbers,) = corpus.query(
        "SELECT count(*) FILTER (WHERE attempts = 2 AND evidence_count = 2) AS winners, "
        "count(*) FILTER (WHERE state = 'archived') AS losers FROM entries WHERE corpus = %s",
        corpus.name,
    )
    assert numbers == {"winners": pairs, "losers": pairs}
