"""Import of totals and use, and what curation has made of an entry since: a repeated row undoes nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kb_pipeline.transitions import TRANSITIONS
from kb_pipeline.vocabulary import State
from kb_pipeline_tests.fakes.corpus import Corpus, Decisions


def outcome(result: Any) -> tuple[int, int, int, int]:
    return result.accepted, result.updated, result.unchanged, len(result.rejects)


USED: list[dict[str, Any]] = [
    {"type": "outcome", "at": "2026-02-01T00:00:00Z", "outcome": "success"},
    {"type": "outcome", "at": "2026-02-02T00:00:00Z", "outcome": "failure"},
    {"type": "retrieved", "at": "2026-02-03T00:00:00Z"},
]


def totals(corpus: Corpus, entry_id: str = "a") -> tuple[int, int, int]:
    row = corpus.rows()[entry_id]
    return row["attempts"], row["successes"], row["retrievals"]


def test_totals_are_inclusive_of_the_usage_rows(corpus: Corpus) -> None:
    corpus.load(
        {"id": "rows alone", "usage": USED},
        {"id": "totals alone", "attempts": 10, "successes": 4, "retrievals": 7},
        {"id": "both", "attempts": 10, "successes": 4, "retrievals": 7, "usage": USED},
        {"id": "less than the rows", "attempts": 1, "successes": 0, "usage": USED},
    )
    assert totals(corpus, "rows alone") == (2, 1, 1)
    assert totals(corpus, "totals alone") == totals(corpus, "both") == (10, 4, 7)
    assert totals(corpus, "less than the rows") == (2, 1, 1)


def test_new_usage_rows_add_up_and_known_ones_do_not(corpus: Corpus) -> None:
    corpus.load({"id": "a", "usage": USED[:1]})
    assert outcome(corpus.load({"id": "a", "usage": USED})) == (0, 1, 0, 0)
    assert totals(corpus) == (2, 1, 1)
    assert outcome(corpus.load({"id": "a", "usage": USED})) == (0, 0, 1, 0)
    assert outcome(corpus.load({"id": "a"})) == (0, 0, 1, 0)
    assert totals(corpus) == (2, 1, 1)


def test_a_total_that_grows_is_the_total(corpus: Corpus) -> None:
    corpus.load({"id": "a", "attempts": 10, "successes": 4})
    assert outcome(corpus.load({"id": "a", "attempts": 13, "successes": 5})) == (0, 1, 0, 0)
    assert totals(corpus)[:2] == (13, 5)
    assert outcome(corpus.load({"id": "a", "attempts": 13, "successes": 5})) == (0, 0, 1, 0)
    # It may also be corrected downwards, and a row that does not speak of it leaves it.
    corpus.load({"id": "a", "attempts": 12, "successes": 5})
    corpus.load({"id": "a"})
    assert totals(corpus)[:2] == (12, 5)
    # New rows and a new total at the same time: the total is the total.
    corpus.load({"id": "a", "attempts": 14, "successes": 6, "usage": USED})
    assert totals(corpus) == (14, 6, 1)
    # New rows under a total that has not moved are explained by it.
    corpus.load({"id": "a", "attempts": 14, "successes": 6, "usage": [*USED, USED[0] | {"id": "late"}]})
    assert totals(corpus) == (14, 6, 1)
    assert corpus.projections_are_true()


def test_a_total_that_is_said_after_the_rows_includes_them(corpus: Corpus) -> None:
    corpus.load({"id": "a", "usage": USED})
    corpus.load({"id": "a", "attempts": 5, "successes": 3, "usage": USED})
    assert totals(corpus) == (5, 3, 1)


def test_last_match_is_the_latest_that_anybody_told(corpus: Corpus) -> None:
    def last() -> tuple[str | None, str | None]:
        row = corpus.rows()["a"]
        return row.get("last_matched_at"), row.get("last_retrieved_at")

    corpus.load({"id": "a", "usage": USED})
    assert last() == ("2026-02-03T00:00:00Z", "2026-02-03T00:00:00Z")
    corpus.load({"id": "a", "usage": USED, "last_matched_at": "2026-05-01", "last_retrieved_at": "2026-04-01"})
    assert last() == ("2026-05-01T00:00:00Z", "2026-04-01T00:00:00Z")
    before = corpus.everything()
    assert outcome(corpus.load({"id": "a", "last_matched_at": "2026-03-01"})) == (0, 0, 1, 0)
    assert corpus.everything() == before
    corpus.load({"id": "a", "usage": [{"type": "ignored", "at": "2026-07-01"}, {"type": "cited", "at": "2026-06-01"}]})
    assert last() == ("2026-06-01T00:00:00Z", "2026-04-01T00:00:00Z")


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        (None, (0, 0)),
        ("success", (1, 1)),
        ("failure", (1, 0)),
        ("whatever", (1, 0)),
        ({"tests": "passed", "merged": True}, (1, 1)),
        ({"tests": "passed", "review": "failed"}, (1, 0)),
        ({}, (1, 0)),
    ],
)
def test_outcomes(corpus: Corpus, said: Any, counted: tuple[int, int]) -> None:
    corpus.load({"id": "a", "usage": [{"type": "outcome", "at": "2026-02-01", "outcome": said}]})
    assert totals(corpus)[:2] == counted
    assert corpus.rows(full=True)["a"]["usage"][0].get("outcome") == said


# --- curation is not undone ------------------------------------------------------------------------------------------

BEFORE: list[dict[str, Any]] = [
    {"id": "a", "created_at": "2026-01-01", "attempts": 30, "successes": 20, "evidence": [{"path": "e1"}]},
    {
        "id": "b",
        "created_at": "2026-01-02",
        "attempts": 12,
        "successes": 3,
        "evidence": [{"path": "e2"}, {"path": "e1"}],
    },
    {"id": "c", "created_at": "2026-01-03", "state": "active"},
    {"id": "d", "created_at": "2026-01-04", "state": "candidate"},
]
DECIDED = Decisions(merges={"b": "a"}, retire=("c",), admit=("d",))


def test_the_same_file_after_curation_changes_nothing(corpus: Corpus) -> None:
    corpus.load(*BEFORE)
    corpus.curate(decided=DECIDED)
    after = corpus.everything()
    states = {i: row["state"] for i, row in corpus.rows().items()}
    assert states == {"a": "active", "b": "archived", "c": "archived", "d": "active"}
    assert outcome(corpus.load(*BEFORE)) == (0, 0, 4, 0)
    assert corpus.everything() == after


def test_the_own_export_after_curation_changes_nothing(corpus: Corpus) -> None:
    corpus.load(*BEFORE)
    corpus.curate(decided=DECIDED)
    after = corpus.everything()
    for full in (False, True):
        assert outcome(corpus.load_bytes(corpus.export(full=full))) == (0, 0, 4, 0)
        assert corpus.everything() == after
    # And the old file after that neither.
    assert outcome(corpus.load(*BEFORE)) == (0, 0, 4, 0)
    assert corpus.everything() == after


def test_an_edited_export_and_then_the_old_file(corpus: Corpus) -> None:
    corpus.load(*BEFORE)
    corpus.curate(decided=DECIDED)
    edited = corpus.export().replace(b'"title":"Knowledge of b"', b'"title":"Another title"')
    rows = [json.loads(line) for line in edited.splitlines()]
    for row in rows:
        del row["content_hash"]
    assert outcome(corpus.load(*rows)) == (0, 1, 3, 0)
    # The old file has the old title of b again; that is all it changes.
    assert outcome(corpus.load(*BEFORE)) == (0, 1, 3, 0)
    rows_now = corpus.rows()
    assert [row["state"] for row in rows_now.values()] == ["active", "archived", "archived", "active"]
    assert (rows_now["a"]["attempts"], rows_now["a"]["successes"]) == (42, 23)
    assert (rows_now["b"]["attempts"], rows_now["b"]["successes"]) == (12, 3)
    assert [piece["path"] for piece in rows_now["b"]["evidence"]] == ["e2", "e1"]


def test_totals_of_the_source_go_on_after_a_merge(corpus: Corpus) -> None:
    corpus.load(*BEFORE)
    corpus.curate(decided=DECIDED)
    assert totals(corpus, "a") == (42, 23, 0)
    # The source knows nothing of the merge: five more uses of its own are five more.
    corpus.load(BEFORE[0] | {"attempts": 35, "successes": 22})
    assert totals(corpus, "a") == (47, 25, 0)
    assert outcome(corpus.load(BEFORE[0] | {"attempts": 35, "successes": 22})) == (0, 0, 1, 0)
    corpus.load(BEFORE[0] | {"attempts": 36, "successes": 22, "usage": USED[:1]})
    assert totals(corpus, "a") == (48, 25, 0)


def test_an_edited_text_keeps_its_state(corpus: Corpus) -> None:
    corpus.load(*BEFORE)
    corpus.curate(decided=DECIDED)
    assert outcome(corpus.load(BEFORE[1] | {"body": "A new body"})) == (0, 1, 0, 0)
    row = corpus.rows()["b"]
    assert (row["state"], row["body"], row["merged_into"]) == ("archived", "A new body", "a")


def test_a_person_can_change_the_state_by_an_import(corpus: Corpus) -> None:
    corpus.load(*BEFORE)
    corpus.curate(decided=DECIDED)
    assert outcome(corpus.load(BEFORE[0] | {"state": "blocked"})) == (0, 1, 0, 0)
    row = corpus.rows()["a"]
    # Neither row has a later time than the run, and still what was told last holds.
    assert (row["state"], row["state_reason"]) == ("blocked", "import.state")
    assert outcome(corpus.load(BEFORE[2] | {"state": "blocked"})) == (0, 1, 0, 0)
    assert corpus.rows()["c"]["state"] == "blocked"
    assert outcome(corpus.load(BEFORE[2] | {"state": "blocked"})) == (0, 0, 1, 0)
    assert corpus.rows(as_of=datetime(2026, 11, 23, tzinfo=UTC))["c"]["state"] == "active"


def test_a_forbidden_change_of_state_is_rejected_and_nothing_of_the_row_is_kept(corpus: Corpus) -> None:
    forbidden = [(old, new) for old in State for new in State if new is not old and new not in TRANSITIONS[old]]
    allowed = [(old, new) for old in State for new in TRANSITIONS[old] if new is not old]
    corpus.load(*({"id": f"{old} to {new}", "state": old.value} for old, new in forbidden + allowed))
    before = corpus.everything()
    text = {"body": "a new text as well", "evidence": [{"path": "new.py"}], "usage": USED}
    result = corpus.load(*({"id": f"{old} to {new}", "state": new.value} | text for old, new in forbidden))
    assert outcome(result) == (0, 0, 0, len(forbidden))
    for (old, new), reject in zip(forbidden, result.rejects, strict=True):
        assert (reject.field, reject.reason) == ("state", f"the entry is {old} and cannot become {new}")
    assert corpus.everything() == before
    assert outcome(corpus.load(*({"id": f"{old} to {new}", "state": new.value} for old, new in allowed))) == (
        0, len(allowed), 0, 0,
    )  # fmt: skip
    assert all(
        row["state"] == name.split()[2] for name, row in corpus.rows().items() if tuple(name.split()[::2]) in allowed
    )
