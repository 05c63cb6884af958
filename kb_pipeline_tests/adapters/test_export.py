"""Export: canonical lines, as of any time, and a fresh corpus gives back the same bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_pipeline.adapters import exporting
from kb_pipeline.adapters.exporting import export_lines, known_corpora, last_change, require_corpus
from kb_pipeline.errors import UnknownNameError
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, Corpus, Decisions

ROWS: list[dict[str, Any]] = [
    {"id": "a", "created_at": "2026-01-01", "attempts": 30, "successes": 20, "retrievals": 4, "confidence": 0.25,
     "evidence": [{"type": "file", "path": "e1", "by": None}], "last_matched_at": "2026-03-01", "team": "red",
     "reviewed": False, "tags": ["x", "é"]},
    {"id": "b", "created_at": "2026-01-02", "review_state": "approved",
     "evidence": [{"path": "e2"}, {"path": "e3"}, {"path": "e1", "type": "file", "by": None}],
     "usage": [{"id": "u1", "type": "retrieved", "at": "2026-02-01T00:00:00.000001Z"},
               {"type": "outcome", "at": "2026-02-02", "outcome": {"tests": "passed"}, "workflow_run": "w"}]},
    {"id": "c", "created_at": "2026-01-03", "kind": "decision", "pinned": True, "body": "Line\nline", "title": None},
    {"id": "d", "created_at": "2026-01-04", "state": "candidate", "quality_score": 0.1},
    {"id": "e", "created_at": "2026-01-05", "state": "candidate"},
    {"id": "f", "created_at": "2026-01-06", "state": "superseded", "superseded_by": "a", "state_reason": "by_hand",
     "state_changed_at": "2026-04-01", "conflict_state": "resolved"},
    {"id": "Z", "created_at": "2026-01-07", "distinctiveness": 0.30000000000000004},
    {"id": "ä", "created_at": "2026-01-08", "sensitivity": "restricted"},
]  # fmt: skip
DECIDED = Decisions(
    merges={"b": "a"},
    retire=("Z",),
    admit=("d",),
    strengthen={"e": "c"},
    conflicts=(("a", "c"),),
    unsure=(("c", "ä"),),
    scores={"a": 1 / 3, "c": 0.9},
)


def again(corpus: Corpus, content: bytes, name: str = "copy") -> Corpus:
    """A fresh corpus with these rows."""
    fresh = Corpus(corpus.url, f"{corpus.name}-{name}")
    result = fresh.load_bytes(content)
    assert result.rejects == []
    return fresh


def test_lines_are_sorted_bytewise_and_canonical(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    lines = list(export_lines(corpus.database, corpus.name))
    assert [json.loads(line)["id"] for line in lines] == ["Z", "a", "b", "c", "d", "e", "f", "ä"]
    for line in lines:
        assert line == json.dumps(json.loads(line), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for name in (
        "title", "body", "state", "state_reason", "state_changed_at", "merged_into", "superseded_by", "conflict_state",
        "content_hash", "attempts", "successes", "retrievals", "confidence", "quality_score", "distinctiveness",
    ):  # fmt: skip
        assert all(name in json.loads(line) for line in lines)


def test_what_says_nothing_is_left_out(corpus: Corpus) -> None:
    corpus.load({"id": "x", "pinned": False, "tags": [], "review_state": "unreviewed", "sensitivity": "internal"})
    row = corpus.rows(full=True)["x"]
    assert {"pinned", "tags", "review_state", "sensitivity", "evidence", "usage", "tenant", "vector_key"}.isdisjoint(
        row
    )


@pytest.mark.parametrize("full", [False, True], ids=["plain", "full"])
def test_a_fresh_corpus_gives_back_the_same_bytes(corpus: Corpus, full: bool) -> None:
    corpus.load(*ROWS)
    first = corpus.export(full=full)
    assert again(corpus, first, "before").export(full=full) == first
    corpus.curate(decided=DECIDED)
    corpus.curate(NEXT_WEEK, decided=Decisions(merges={"a": "c"}, scores={"a": 0.25}))
    curated = corpus.export(full=full)
    assert curated != first
    states = {row["id"]: (row["state"], row["merged_into"]) for row in map(json.loads, curated.splitlines())}
    assert states["b"] == ("archived", "a")
    assert states["a"] == ("archived", "c")
    assert states["e"] == ("archived", None)
    fresh = again(corpus, curated, "after")
    assert fresh.export(full=full) == curated
    assert fresh.projections_are_true()
    # And once more, from the copy.
    assert again(fresh, fresh.export(full=full)).export(full=full) == curated


def test_a_full_export_holds_usage_and_the_keys_of_vectors_and_verdicts(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    before = corpus.rows(full=True)
    assert [use["type"] for use in before["b"]["usage"]] == ["retrieved", "outcome"]
    assert before["b"]["usage"][0] == {"id": "u1", "type": "retrieved", "at": "2026-02-01T00:00:00.000001Z"}
    assert "vector_key" not in before["a"]
    corpus.curate(decided=DECIDED)
    rows = corpus.rows(full=True)
    hashes = {name: row["content_hash"] for name, row in rows.items()}
    assert rows["a"]["vector_key"] == f"model:{hashes['a']}"
    assert rows["a"]["verdict_keys"] == sorted(
        [f"rule:{hashes['b']}:{hashes['a']}", f"rule:{hashes['a']}:{hashes['c']}"]
    )
    # A question is no ground of what an entry is now.
    assert "verdict_keys" not in rows["ä"]
    # What the run gave to the winner is in its totals, not in rows of its own.
    assert "usage" not in rows["a"]
    assert (rows["a"]["attempts"], rows["a"]["successes"], rows["a"]["retrievals"]) == (31, 21, 5)
    assert [use["type"] for use in rows["c"]["usage"]] == ["strengthened"]
    plain = corpus.rows()
    assert all({"usage", "vector_key", "verdict_keys"}.isdisjoint(row) for row in plain.values())


def test_a_copy_of_a_curated_corpus_counts_the_same(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    corpus.curate(decided=DECIDED)
    fresh = again(corpus, corpus.export(full=True))
    columns = "entry_id, state, attempts, successes, retrievals, last_matched_at, last_retrieved_at, evidence_count"
    statement = f"SELECT {columns} FROM entries WHERE corpus = %s ORDER BY entry_id"
    assert fresh.query(statement, fresh.name) == corpus.query(statement, corpus.name)


def test_as_of_shows_nothing_of_what_came_later(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    before = corpus.export()
    corpus.curate(decided=DECIDED)
    after = corpus.export()
    end = datetime(2026, 11, 23, tzinfo=UTC)
    # Actions take effect exactly at the end of their week.
    assert corpus.export(as_of=end) == before
    assert corpus.export(as_of=end + timedelta(microseconds=1)) == after
    corpus.load(
        ROWS[0] | {"title": "A later title", "updated_at": "2026-12-01"}, {"id": "g", "created_at": "2026-12-02"}
    )
    assert corpus.export(as_of=datetime(2026, 12, 1, tzinfo=UTC)) == after
    assert corpus.export(as_of=end) == before
    rows = corpus.rows()
    assert rows["a"]["title"] == "A later title"
    assert "g" in rows
    early = corpus.rows(as_of=datetime(2026, 1, 3, tzinfo=UTC))
    assert list(early) == ["a", "b"]
    # Use that was still to come does not count: b has its two rows in February.
    assert (early["b"]["attempts"], early["b"]["retrievals"]) == (0, 0)
    assert "last_matched_at" not in early["a"]


def test_an_entry_is_not_there_before_it_had_a_state(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    assert "f" not in corpus.rows(as_of=datetime(2026, 2, 1, tzinfo=UTC))
    assert "f" in corpus.rows(as_of=datetime(2026, 4, 2, tzinfo=UTC))


def test_an_export_in_several_chunks_is_the_same(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.load(*ROWS)
    corpus.curate(decided=DECIDED)
    whole = corpus.export(full=True)
    monkeypatch.setattr(exporting, "_CHUNK_ROWS", 3)
    assert corpus.export(full=True) == whole
    as_of = datetime(2026, 1, 5, tzinfo=UTC)
    assert [json.loads(line)["id"] for line in corpus.export(as_of=as_of).splitlines()] == ["a", "b", "c", "d"]


def test_corpora_that_are_empty_or_unknown(corpus: Corpus) -> None:
    with pytest.raises(UnknownNameError, match="kb import"):
        corpus.export()
    corpus.load({"id": "a"})
    assert corpus.name in known_corpora(corpus.database)
    require_corpus(corpus.database, corpus.name)
    assert last_change(corpus.database, corpus.name) > 0
    assert last_change(corpus.database, "nobody") == 0
    assert corpus.export(as_of=datetime(2020, 1, 1, tzinfo=UTC)) == b""
    with pytest.raises(UnknownNameError, match=f"Did you mean '{corpus.name}'"):
        list(export_lines(corpus.database, corpus.name + "x"))
