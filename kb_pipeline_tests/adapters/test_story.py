"""The story of an entry: when it may be retrieved, and every reason for or against."""

from __future__ import annotations

from typing import Any

from kb_pipeline.adapters.story import load_story, story_lines
from kb_pipeline.defs.retrieval import open_view
from kb_pipeline.policy.load import load_policy
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, NOW, Corpus, Decisions


def story_of(corpus: Corpus, entry: str) -> dict[str, Any]:
    """What `kb explain` puts together."""
    view = open_view(corpus.database, corpus.name, load_policy(), now=NOW, entry_ids=[entry])
    return load_story(corpus.database, corpus.name, entry) | {"retrieval": view.told(entry)}


def test_a_conflict_that_is_over_is_told_and_keeps_nobody_out(corpus: Corpus) -> None:
    corpus.load(*({"id": letter, "created_at": "2026-01-01"} for letter in "ab"))
    corpus.curate(decided=Decisions(conflicts=(("a", "b"),)))
    severe = story_of(corpus, "a")
    assert [conflict["other"] for conflict in severe["conflicts"]] == ["b"]
    assert not severe["retrieval"]["eligible"]
    corpus.curate(NEXT_WEEK, decided=Decisions(retire=("b",)))
    over = story_of(corpus, "a")
    assert over["conflicts"] == [] and over["retrieval"]["eligible"]
    told = "\n".join(story_lines(over))
    assert told.index("conflict opened: conflicts.contradiction with b") < told.index(
        "conflict closed: conflicts.side_gone with b"
    )
