"""The sample is a valid import file and holds enough of everything."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from itertools import combinations, pairwise
from typing import Any

import pytest

from kb_pipeline.sample import FIRST_WEEK, LAST_WEEK, sample_path
from kb_pipeline.vocabulary import Kind, Origin, ReviewState, Sensitivity, State, UsageType

Rows = dict[str, dict[str, Any]]

BEGIN = datetime.combine(FIRST_WEEK, time(), UTC)
END = datetime.combine(LAST_WEEK, time(), UTC) + timedelta(weeks=1)
TEXT_LISTS = ("alternatives", "steps", "tags", "supersedes", "generated_from", "invalidation_policy")
TIMES = ("created_at", "updated_at", "expires_at", "last_validated_at")
RELATED = {
    *("duplicates_exact", "duplicates_reformatted", "paraphrases", "near_misses", "contradictions", "scopes"),
    *("keep_distinct", "long_pairs"),
}
KNOWN = {
    *("id", "kind", "title", "body", "rationale", "tenant", "repository", "module", "state", "confidence", "pinned"),
    *("keep_distinct", "review_state", "sensitivity", "origin", "source_type", "proposed_by", "author", "evidence"),
    *("usage", *TEXT_LISTS, *TIMES),
}


def instant(text: str) -> datetime:
    """An instant of the file; all are written in UTC with a Z."""
    assert text.endswith("Z"), text
    return datetime.fromisoformat(text)


def test_every_row_is_a_valid_import_row(rows: Rows) -> None:
    for row in rows.values():
        assert re.fullmatch(r"(hbr|slt)-\d{4}", row["id"])
        assert row["kind"] in set(Kind)
        assert row["title"].strip()
        assert row.get("state", "active") in set(State)
        assert row.get("origin", "human") in set(Origin)
        assert row.get("review_state", "unreviewed") in set(ReviewState)
        assert row.get("sensitivity", "internal") in set(Sensitivity)
        assert 0 <= row.get("confidence", 0.5) <= 1
        for field in ("pinned", "keep_distinct"):
            assert isinstance(row.get(field, False), bool)
        for field in TEXT_LISTS:
            assert all(isinstance(item, str) and item for item in row.get(field, []))
        assert set(row.get("supersedes", [])) | set(row.get("generated_from", [])) <= set(rows)
        assert "\x00" not in str(row)


def test_times_lie_within_the_26_weeks_and_in_order(rows: Rows) -> None:
    assert (LAST_WEEK - FIRST_WEEK).days == 25 * 7
    assert FIRST_WEEK.weekday() == LAST_WEEK.weekday() == 0
    for row in rows.values():
        created = instant(row["created_at"])
        assert BEGIN <= created < END
        assert created <= instant(row.get("updated_at", row["created_at"])) < END
        for use in row.get("usage", []):
            assert created <= instant(use["at"]) < END, (row["id"], use)
    weeks = {(instant(row["created_at"]) - BEGIN).days // 7 for row in rows.values()}
    assert set(range(26)) - weeks == {13, 14, 15, 16}, "entries arrive in every week outside of the summer break"


def test_usage_and_evidence_rows_have_the_documented_fields(rows: Rows) -> None:
    uses = [use for row in rows.values() for use in row.get("usage", [])]
    assert len({use["id"] for use in uses}) == len(uses)
    assert 4000 <= len(uses) <= 8000
    for use in uses:
        assert set(use) <= {"id", "type", "at", "workflow_run", "context_pack", "used_in", "outcome"}
        assert use["type"] in set(UsageType)
        assert use.get("outcome", "success") in {"success", "failure"}
    for row in rows.values():
        for evidence in row.get("evidence", []):
            assert set(evidence) <= {"type", "path", "commit", "line_start", "line_end", "ref"}
            assert evidence.get("line_start", 1) <= evidence.get("line_end", 10**6)
            assert re.fullmatch(r"[0-9a-f]{40}", evidence.get("commit", "0" * 40))


def test_the_corpus_is_used_every_week_but_for_one_idle_stretch(rows: Rows) -> None:
    instants = sorted(instant(use["at"]) for row in rows.values() for use in row.get("usage", []))
    gaps = [(right - left, left.date()) for left, right in pairwise(instants)]
    long_gaps = [(gap.days, day) for gap, day in gaps if gap > timedelta(days=7)]
    assert len(long_gaps) == 1
    days, day = long_gaps[0]
    assert 28 <= days <= 31
    assert date(2026, 7, 30) <= day <= date(2026, 8, 2)


def test_the_sample_is_varied_enough(rows: Rows) -> None:
    assert 440 <= len(rows) <= 500
    assert sample_path().stat().st_size < 3_000_000
    kinds = Counter(row["kind"] for row in rows.values())
    assert set(kinds) == set(Kind)
    assert min(kinds.values()) >= 10
    states = Counter(row.get("state", "active") for row in rows.values())
    assert states["candidate"] >= 40
    assert {"needs_review", "archived", "expired", "superseded", "invalidated"} <= set(states)
    assert {row.get("tenant") for row in rows.values()} == {"harbor", "saltmarsh", None}
    assert len({row.get("repository") for row in rows.values()} - {None}) == 4
    assert len({row.get("module") for row in rows.values()} - {None}) >= 12
    with_evidence = sum("evidence" in row for row in rows.values())
    assert with_evidence / len(rows) >= 0.4
    assert any(row.get("sensitivity") == "restricted" for row in rows.values())
    assert sum(bool(set(row) - KNOWN) for row in rows.values()) >= 20, "unknown extra fields"
    assert sum("rationale" in row and "alternatives" in row for row in rows.values()) >= 20


@pytest.mark.parametrize(
    ("section", "floor"),
    [
        ("duplicates_exact", 12),
        ("duplicates_reformatted", 12),
        ("paraphrases", 12),
        ("near_misses", 20),
        ("contradictions", 8),
        ("scopes", 8),
        ("poor", 10),
        ("stale", 15),
        ("protected", 6),
        ("keep_distinct", 2),
    ],
)
def test_each_phenomenon_occurs_often_enough(truth: dict[str, Any], section: str, floor: int) -> None:
    assert len(truth[section]) >= floor


def test_every_id_of_the_truth_exists(rows: Rows, truth: dict[str, Any]) -> None:
    found = set(re.findall(r"\b(?:hbr|slt)-\d{4}\b", str(truth)))
    assert len(found) > 200
    assert found <= set(rows)
    assert truth["entries"] == len(rows)
    assert truth["usage_events"] == sum(len(row.get("usage", [])) for row in rows.values())
    assert (truth["first_week"], truth["last_week"]) == (FIRST_WEEK, LAST_WEEK)


def test_no_entry_is_written_from_a_template(rows: Rows, truth: dict[str, Any]) -> None:
    """Apart from what the truth names as related, no two entries share half of their words."""
    candidates = truth["candidates"]
    groups = [group["ids"] for name, section in truth.items() if name in RELATED for group in section]
    groups += [[c["id"], c["strengthens"]] for c in candidates["strengthening"]]
    groups += [[c["id"], c["like"]] for c in candidates["for_review"] + candidates["same_text_elsewhere"]]
    groups += [list(truth[name].values()) for name in ("injection", "secret")]
    families = {i: {i} for i in rows}
    for group in groups:
        joined = set().union(*(families[i] for i in group))
        families.update(dict.fromkeys(joined, joined))
    texts = {i: f"{row['title']} {row.get('body', '')} {row.get('steps', '')}" for i, row in rows.items()}
    words = {i: set(re.findall(r"\w+", text.lower())) for i, text in texts.items()}
    alike = {(a, b) for a, b in combinations(words, 2) if len(words[a] & words[b]) >= 0.5 * len(words[a] | words[b])}
    assert not [(a, b) for a, b in alike if b not in families[a]]
    assert len(alike) >= 60, "the duplicates are seen: the measure works"
