"""The story of an entry: when it may be retrieved, and every reason for or against."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kb_pipeline.adapters.story import load_story, retrieval, story_lines
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, NOW, Corpus, Decisions

PLAIN: dict[str, Any] = {"state": "active", "conflict_state": "none", "expires_at": None}
SEVERE, MILD = ({"other": f"{word}-one", "severity": word} for word in ("high", "medium"))


@pytest.mark.parametrize(
    ("entry", "conflicts", "eligible", "words"),
    [
        ({}, [], True, "no open conflict"),
        ({"state": "archived"}, [], False, "its state is archived"),
        ({"state": "stale"}, [], False, "its state is stale"),
        ({"conflict_state": "open"}, [SEVERE], False, "conflict with high-one (severity high)"),
        ({"conflict_state": "open"}, [MILD], True, "though it stands in an open conflict with medium-one"),
        ({"conflict_state": "open"}, [MILD, SEVERE], False, "medium-one"),
        ({"conflict_state": "open"}, [], False, "imported with an open conflict"),
        ({"expires_at": datetime(2026, 1, 1, tzinfo=UTC)}, [], False, "it expired on 2026-01-01"),
        ({"expires_at": datetime(2027, 1, 1, tzinfo=UTC)}, [], True, "not expired"),
    ],
)
def test_what_may_be_retrieved(
    entry: dict[str, Any], conflicts: list[dict[str, Any]], eligible: bool, words: str
) -> None:
    found = retrieval(PLAIN | entry, conflicts, now=NOW)
    assert found["eligible"] is eligible
    assert words in "; ".join(found["reasons"])


def test_a_conflict_that_is_over_is_told_and_keeps_nobody_out(corpus: Corpus) -> None:
    corpus.load(*({"id": letter, "created_at": "2026-01-01"} for letter in "ab"))
    corpus.curate(decided=Decisions(conflicts=(("a", "b"),)))
    severe = load_story(corpus.database, corpus.name, "a", now=NOW)
    assert [conflict["other"] for conflict in severe["conflicts"]] == ["b"]
    assert not severe["retrieval"]["eligible"]
    corpus.curate(NEXT_WEEK, decided=Decisions(retire=("b",)))
    over = load_story(corpus.database, corpus.name, "a", now=NOW)
    assert over["conflicts"] == [] and over["retrieval"]["eligible"]
    told = "\n".join(story_lines(over))
    assert told.index("conflict opened: conflicts.contradiction with b") < told.index(
        "conflict closed: conflicts.side_gone with b"
    )
