"""Real corpora, where they are at hand: weeks of real agent memories, and every corpus out and in again."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline.adapters.text_features import merge_key
from kb_pipeline.text.normalise import entry_text
from kb_pipeline_tests.fakes.house import NewCorpus

SHARED = Path(os.environ.get("KB_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
CORPORA = ("agent_memory", "agent_rules", "decisions", "lint_rules", "skills_runbooks", "til_facts", "tldr_examples")
MOST_ROWS = 2_000
FIRST, LAST = "2026-04-20", "2026-05-04"


def corpus_file(name: str) -> Path:
    path = SHARED / "corpora" / f"{name}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"no shared data: {path} is missing (set KB_SHARED_DATA to the folder that holds corpora/)")
    return path


def text_of(row: dict[str, Any]) -> str:
    return entry_text(
        row.get("title"), row.get("body"), row.get("rationale"), row.get("alternatives"), row.get("steps")
    )


def test_weeks_of_agent_memories_merge_only_what_is_the_same(new_corpus: NewCorpus) -> None:
    corpus = new_corpus()
    path = corpus_file("agent_memory")
    corpus.kb("import", path).ok()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        known = {row["id"]: row for row in map(json.loads, lines)}
    corpus.kb("backfill", "--from", FIRST, "--to", LAST).ok()
    rows = corpus.rows()
    assert rows.keys() == known.keys()
    merges = corpus.actions("merge")
    for merge in merges:
        loser, winner = rows[merge["entry_id"]], rows[merge["other_entry_id"]]
        assert merge_key(text_of(loser)) == merge_key(text_of(winner)) is not None
        for field in ("kind", "tenant", "repository", "module"):
            assert loser.get(field) == winner.get(field)
        assert loser["merged_into"] == winner["id"] and winner["merged_into"] is None
    changed = {entry for entry, row in rows.items() if row["state"] != "active"}
    assert changed == {action["entry_id"] for action in corpus.actions() if action["to_state"]}
    seen = [run["counts"]["entries"] for run in reversed(corpus.runs())]
    assert len(seen) == 3 and seen == sorted(seen) and seen[0] > 800
    assert corpus.pairs()
    # Copies within one scope are rare in real memories: one is added, so that the same path is seen to merge.
    original = next(row for row in known.values() if row["created_at"] < FIRST and entry_is_plain(row, merges))
    corpus.load(original | {"id": "a-copy", "created_at": "2026-05-12T09:00:00Z"}).ok()
    corpus.curate("--week", "2026-05-11").ok()
    merged = corpus.merged()
    assert merged.get("a-copy") == original["id"] or merged.get(original["id"]) == "a-copy"


def entry_is_plain(row: dict[str, Any], merges: list[dict[str, Any]]) -> bool:
    """Whether an entry is in no merge yet."""
    return all(row["id"] not in (merge["entry_id"], merge["other_entry_id"]) for merge in merges)


@pytest.mark.parametrize("name", CORPORA)
def test_a_real_corpus_comes_back_byte_for_byte(new_corpus: NewCorpus, tmp_path: Path, name: str) -> None:
    with gzip.open(corpus_file(name), "rb") as lines:
        rows = [line for line in lines if line.strip()]
    # Rows of every part of the file; all of the large ones would take most of a minute.
    taken = rows[:: -(-len(rows) // MOST_ROWS)]
    given = tmp_path / "rows.jsonl"
    given.write_bytes(b"".join(taken))
    first, second = new_corpus(), new_corpus()
    assert first.kb("import", given, "--json").ok().json["accepted"] == len(taken)
    exported = tmp_path / "export.jsonl"
    first.kb("export", "--full", "--out", exported).ok()
    assert exported.read_bytes().count(b"\n") == len(taken)
    assert second.kb("import", exported, "--json").ok().json["accepted"] == len(taken)
    assert second.export("--full") == exported.read_bytes()
