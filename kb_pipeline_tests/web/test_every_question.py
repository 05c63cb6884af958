"""Every sort of question, on the page, over the API and from the command line: what a reviewer needs stands on each."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient

from kb_pipeline.vocabulary import RecommendationType
from kb_pipeline_tests.fakes.house import HouseCorpus

ASKED: dict[RecommendationType, tuple[tuple[str, ...], str, str | None]] = {
    RecommendationType.MERGE: (("crane-a", "crane-b"), "merge.specifics_differ", "Both speak of one crane."),
    RecommendationType.CONFLICT: (
        ("tide-a", "tide-b"),
        "conflicts.contradiction",
        "One forbids what the other asks for.",
    ),
    RecommendationType.SUPERSEDE: (("crane-a", "crane-b"), "judge.supersedes", "B names the newer book."),
    RecommendationType.FLAG: (("tide-a",), "flags.vague_fact", None),
    RecommendationType.REFRESH: (("tide-a",), "refresh.expired", "expires_at was 2026-10-20"),
    RecommendationType.ARCHIVE: (("tide-b",), "retire.low_ci_upper", "retire.low_ci_upper; protected: pinned"),
    RecommendationType.ADMIT: (("tide-a",), "gates.passed", None),
}
SUGGESTED = "The north crane lifts at most 40 tons: so says the yard book."


@pytest.fixture
def asked(review: HouseCorpus) -> dict[RecommendationType, str]:
    """One question of each sort, asked nine days ago, with a suggested text where a merge is proposed."""
    rows, ids = review.rows(), {}
    for kind, (entries, reason, words) in ASKED.items():
        ids[kind] = f"rec_every{kind.lower()}".ljust(28, "0")
        review.query(
            "INSERT INTO recommendations (recommendation_id, corpus, recommendation_type, severity, entry_ids, "
            "content_hashes, reason, explanation, suggested_body, value, action_id, change_id, effective_at) "
            "SELECT %s, 'yard', %s, 'medium', to_json(%s::text[]), to_json(%s::text[]), %s, %s, %s, 0.5, %s, "
            "max(change_id), %s FROM changes WHERE corpus = 'yard'",
            ids[kind], kind.value, list(entries), [rows[entry]["content_hash"] for entry in entries], reason, words,
            SUGGESTED if kind is RecommendationType.MERGE else None, f"asked {kind}",
            datetime(2026, 10, 24, tzinfo=UTC),
        )  # fmt: skip
    return ids


def test_it_tells_all_that_a_reviewer_needs(
    browser: TestClient, review: HouseCorpus, asked: dict[RecommendationType, str]
) -> None:
    for kind, (entries, _, words) in ASKED.items():
        found = browser.get(f"/api/v1/corpora/yard/queue/{asked[kind]}").json()
        assert (found["type"], found["severity"], found["age_days"]) == (kind, "medium", 9), kind
        assert [entry["entry_id"] for entry in found["entries"]] == list(entries)
        assert all(entry["text"] for entry in found["entries"]) and found["effect"] and found["reason_words"]
        assert found["suggested_body"] == (SUGGESTED if kind is RecommendationType.MERGE else None)
        page = browser.get(f"/c/yard/q/{asked[kind]}")
        shown = review.kb("review", "show", asked[kind]).ok().out
        assert page.status_code == 200
        for text in (page.text, shown):
            assert kind in text and "medium" in text and "9 days" in text and found["reason_words"] in text, kind
            assert all(entry in text for entry in entries)
            if words is not None and len(entries) == 2:
                assert words in text, kind
        for effects in found["effect"].values():
            assert "; ".join(effects) in shown
        if len(entries) == 2:
            assert "<mark>" in page.text and "[[" in shown
            assert [piece for entry in found["entries"] for piece in entry["marked"] if piece["kind"] == "only"]
    merge = browser.get(f"/c/yard/q/{asked[RecommendationType.MERGE]}").text
    assert "Suggested text for both" in merge and "Merge with a text of your own" in merge
    assert "Suggested text" not in browser.get(f"/c/yard/q/{asked[RecommendationType.SUPERSEDE]}").text
    old = browser.get(f"/c/yard/q/{asked[RecommendationType.SUPERSEDE]}").text
    assert "would be replaced" in old and "would stand for it" in old and "B replaces A" in old


def test_what_must_not_be_shown_suggests_nothing(browser: TestClient, review: HouseCorpus) -> None:
    rows = review.rows()
    review.query(
        "INSERT INTO recommendations (recommendation_id, corpus, recommendation_type, severity, entry_ids, "
        "content_hashes, reason, explanation, suggested_body, value, action_id, change_id, effective_at) SELECT "
        "'rec_withheld000000000000000000', 'yard', 'MERGE', 'low', '[\"crane-a\", \"key-a\"]', to_json(%s::text[]), "
        "'judge.secret', 'the drawer', 'It lies in the drawer.', 0.5, 'asked', max(change_id), '2026-10-24' FROM changes",
        [rows[entry]["content_hash"] for entry in ("crane-a", "key-a")],
    )
    for text in (
        browser.get("/c/yard/q/rec_withheld000000000000000000").text,
        browser.get("/api/v1/corpora/yard/queue/rec_withheld000000000000000000").text,
        review.kb("review", "show", "rec_withheld").ok().out,
    ):
        assert "drawer" not in text and "uggested text" not in text and "--suggested" not in text
    refused = review.kb("review", "accept", "rec_withheld", "--suggested")
    assert refused.code == 2 and "suggests no text for both" in refused.err
