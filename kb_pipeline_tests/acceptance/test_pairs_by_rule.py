"""Which pairs merge without a judge, which never, and what a merge does: one corpus through recommend, apply and again.

Every "never" stands beside pairs that the same run did merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from string import ascii_lowercase
from typing import Any

import pytest

from kb_pipeline_tests.fakes.house import HouseCorpus, NewCorpus

Row = dict[str, Any]
NEXT, AFTER_NEXT = "2026-11-09T08:00:00+00:00", "2026-11-16T08:00:00+00:00"

OPPOSITES = {
    "not": ("Backups of the ledger run on Sundays.", "Backups of the ledger do not run on Sundays."),
    "never": ("Operators must restart the gateway by hand.", "Operators must never restart the gateway by hand."),
    "enable": ("Enable compression on the metrics endpoint.", "Disable compression on the metrics endpoint."),
    "allow": ("We allow force pushes on release branches.", "We forbid force pushes on release branches."),
}
VALUES = {
    "number": ("Retry a failed upload 3 times.", "Retry a failed upload 5 times."),
    "version": ("The scanner wants firmware v2.1 on the reader.", "The scanner wants firmware v2.2 on the reader."),
    "date": ("The certificate was renewed on 2026-03-14.", "The certificate was renewed on 2026-03-15."),
    "path": ("The proxy reads /etc/a.conf at start.", "The proxy reads /etc/b.conf at start."),
    "issue": ("The lost cursor is tracked in issue 260.", "The lost cursor is tracked in issue 480."),
    "unit": ("A snapshot may grow to 5 MB.", "A snapshot may grow to 5 GB."),
    "flag": ("Start the exporter with -v on the bastion.", "Start the exporter with -V on the bastion."),
}
SAME = {
    "seconds": ("The probe waits for 10 seconds.", "The probe waits for 10s."),
    "thousand": ("A page holds 1,000 rows of the audit log.", "A page holds 1000 rows of the audit log."),
    "layout": ("* The **mirror** is read-only", "The mirror is read-only."),
    "wide": ("备份任务在每个星期日的凌晨运行，持续两个小时。", "备份任务在每个星期日的凌晨运行,持续两个小时."),
}
FACTS = (
    "Crane seven is inspected by the harbour office.", "Crane seven lifts containers from the feeder quay.",
    "Crane seven reports its load to the planning board.", "Crane seven was bought from a yard in Gdynia.",
    "Crane seven stops when the wind alarm sounds.", "Crane seven shares a cable with the reefer racks.",
    "Crane seven needs a certified driver at night.", "Crane seven keeps its spare rope in shed B.",
    "Crane seven is painted in signal yellow.", "Crane seven sends its faults to the duty phone.",
)  # fmt: skip
LONG = " ".join(
    f"Step {letter} of the handover is done by the outgoing crew before the shift bell." for letter in ascii_lowercase
)
TWICE = "The night desk signs every gate pass before the barrier opens."
SCOPES: dict[str, tuple[Row, Row]] = {
    "tenant": ({"tenant": "north"}, {"tenant": "south"}),
    "repository": ({"repository": "quay"}, {"repository": "yard"}),
    "module": ({"module": "gate"}, {"module": "rail"}),
    "kind": ({"kind": "rule"}, {"kind": "convention"}),
    "platform": ({"platform": "linux"}, {"platform": "windows"}),
    "nothing": ({}, {"module": "gate"}),
}


def pair(name: str, texts: tuple[str, str], **values: Any) -> list[Row]:
    """Two entries in a module of their own, so that only they meet."""
    return [{"id": f"{name}-{n}", "body": text, "module": name} | values for n, text in enumerate(texts, start=1)]


def evidence(*names: str) -> list[Row]:
    return [{"type": "file", "path": f"docs/{name}.md"} for name in names]


def corpus_rows() -> list[Row]:
    rows: list[Row] = []
    for kind, groups in (("opposite", OPPOSITES), ("value", VALUES), ("same", SAME)):
        for name, texts in groups.items():
            rows += pair(f"{kind}-{name}", texts, kind="rule")
    rows += [{"id": f"fact-{n}", "body": text, "module": "crane"} for n, text in enumerate(FACTS)]
    rows += pair("distinct", (TWICE, TWICE), keep_distinct=True)
    rows += pair(
        "long-differs", (f"{LONG} The lamp at the gate stays lit.", f"{LONG} The dog at the fence stays tied.")
    )
    rows += pair("long-same", (f"{LONG} The radio stays on.", f"{LONG} The radio stays on."))
    rows += pair("chinese", ("仓库的大门每天早上六点打开。", "财务报告必须由两名会计签字。"))
    rows += pair("wordless", ("!!! ???", "... ;;;"))
    for name, places in SCOPES.items():
        rows += [
            {"id": f"scope-{name}-{n}{copy}", "body": f"{TWICE} Scope {name} says so.", "repository": "scopes"} | place
            for n, place in enumerate(places, start=1)
            for copy in ("a", "b")
        ]
    winner = {"attempts": 30, "successes": 20, "retrievals": 40, "evidence": evidence("e1"), "pinned": True}
    loser = {
        "attempts": 12,
        "successes": 6,
        "retrievals": 5,
        "evidence": evidence("e2", "e3"),
        "review_state": "approved",
    }
    one, other = pair("statistics", ("The tide table is printed on Fridays.", "The tide table is printed on Fridays"))
    rows += [one | winner, other | loser | {"supersedes": ["fact-1"]}]
    candidate = {"state": "candidate", "title": "The reefer plugs are counted before the pilot boards"}
    rows += [
        {"id": "known", "title": candidate["title"], "body": "By the deck crew.", "module": "reefer"},
        candidate | {"id": "restates", "body": "By the deck crew.", "module": "reefer", "evidence": evidence("e4")},
        candidate | {"id": "elsewhere", "body": "By the deck crew.", "module": "pilot"},
    ]
    return rows


@dataclass(frozen=True)
class Story:
    """What each step left behind."""

    corpus: HouseCorpus
    imported: bytes
    after_recommend: bytes
    asked: dict[tuple[str, ...], Row]
    recommended_actions: list[Row]
    after_apply: bytes
    rows: dict[str, Row]
    before: dict[str, Row]
    pairs: dict[tuple[str, str], Row]
    actions: list[Row]
    health: Row
    after_repeat: bytes
    run_id: str


@pytest.fixture(scope="module")
def story(new_corpus: NewCorpus) -> Story:
    corpus = new_corpus({"scope_fields": ["platform"], "dedup": {"min_borderline_similarity": 0.6}})
    corpus.load(*corpus_rows()).ok()
    imported, before = corpus.export(), corpus.rows()
    corpus.curate("--mode", "recommend").ok()
    after_recommend, asked, recommended = corpus.export(), corpus.queue(), corpus.actions()
    corpus.curate(KB_NOW=NEXT).ok()
    after_apply, rows, run_id = corpus.export("--full"), corpus.rows(), corpus.runs()[0]["run_id"]
    pairs, actions = corpus.pairs(), corpus.query("SELECT * FROM curation_actions WHERE run_id = %s", run_id)
    corpus.curate(KB_NOW=NEXT).ok()
    return Story(
        corpus=corpus,
        imported=imported,
        after_recommend=after_recommend,
        asked=asked,
        recommended_actions=recommended,
        after_apply=after_apply,
        rows=rows,
        before=before,
        pairs=pairs,
        actions=actions,
        health=corpus.report("memory-health-report.yaml", "2026-11-02"),
        after_repeat=corpus.export("--full"),
        run_id=run_id,
    )


@pytest.mark.parametrize("name", SAME)
def test_the_same_in_another_notation_merges(story: Story, name: str) -> None:
    one, other = (story.rows[f"same-{name}-{n}"] for n in (1, 2))
    assert sorted((one["state"], other["state"])) == ["active", "archived"]
    assert {one["merged_into"], other["merged_into"]} & {one["id"], other["id"]}


@pytest.mark.parametrize("name", OPPOSITES)
def test_opposites_never_merge_and_open_a_conflict(story: Story, name: str) -> None:
    ids = (f"opposite-{name}-1", f"opposite-{name}-2")
    assert story.pairs[ids]["verdict"] == "CONFLICT"
    assert [(story.rows[entry]["state"], story.rows[entry]["conflict_state"]) for entry in ids] == [
        ("active", "open")
    ] * 2


@pytest.mark.parametrize("name", VALUES)
def test_another_value_never_merges(story: Story, name: str) -> None:
    ids = (f"value-{name}-1", f"value-{name}-2")
    verdict = story.pairs[ids]
    assert verdict["verdict"] != "MERGE"
    assert verdict["verdict"] != "CONFLICT" or verdict["reason"] == "judge.value_mismatch"
    assert [story.rows[entry]["state"] for entry in ids] == ["active", "active"]


def test_ten_facts_about_one_thing_stay_ten(story: Story) -> None:
    ids = [f"fact-{n}" for n in range(len(FACTS))]
    assert any(pair in story.pairs for pair in combinations(ids, 2))
    assert {story.rows[entry]["state"] for entry in ids} == {"active"}


def test_entries_to_be_kept_distinct_are_never_candidates_and_are_counted(story: Story) -> None:
    assert not any("distinct" in pair[0] for pair in story.pairs)
    assert [story.rows[f"distinct-{n}"]["state"] for n in (1, 2)] == ["active", "active"]
    not_looked_at = story.health["header"]["coverage"]["not_looked_at"]
    assert not_looked_at["entries marked keep_distinct (never duplicate candidates)"] == 2


def test_long_texts_that_differ_at_their_end_stay_apart(story: Story) -> None:
    assert story.pairs["long-differs-1", "long-differs-2"]["similarity"] > 0.99
    assert [story.rows[f"long-differs-{n}"]["state"] for n in (1, 2)] == ["active", "active"]
    assert sorted(story.rows[f"long-same-{n}"]["state"] for n in (1, 2)) == ["active", "archived"]


def test_texts_in_other_scripts_are_told_apart_and_texts_without_words_never_merge(story: Story) -> None:
    assert [story.rows[f"chinese-{n}"]["state"] for n in (1, 2)] == ["active", "active"]
    assert min(story.rows[f"chinese-{n}"]["distinctiveness"] for n in (1, 2)) > 0
    assert [story.rows[f"wordless-{n}"]["state"] for n in (1, 2)] == ["active", "active"]
    assert [story.rows[f"wordless-{n}"]["distinctiveness"] for n in (1, 2)] == [None, None]


@pytest.mark.parametrize("name", SCOPES)
def test_equal_texts_of_two_scopes_stay_and_those_of_one_merge(story: Story, name: str) -> None:
    states = {entry: row["state"] for entry, row in story.rows.items() if entry.startswith(f"scope-{name}-")}
    assert sorted(states.values()) == ["active", "active", "archived", "archived"]
    for entry, state in states.items():
        if state == "archived":
            assert story.rows[entry]["merged_into"][:-1] == entry[:-1]


def test_a_candidate_strengthens_within_its_scope_and_is_admitted_elsewhere(story: Story) -> None:
    assert story.rows["restates"]["state"] == "archived"
    assert story.rows["known"]["evidence"] == evidence("e4")
    assert story.rows["elsewhere"]["state"] == "active"


def test_the_winner_takes_statistics_and_evidence_and_no_approval(story: Story) -> None:
    winner, loser = story.rows["statistics-1"], story.rows["statistics-2"]
    assert (winner["attempts"], winner["successes"], winner["retrievals"]) == (42, 26, 45)
    assert [piece["path"] for piece in winner["evidence"]] == [f"docs/e{n}.md" for n in (1, 2, 3)]
    assert "review_state" not in winner
    changed = {"state", "state_reason", "state_changed_at", "merged_into", "distinctiveness"}
    before = story.before["statistics-2"]
    assert {k: v for k, v in loser.items() if k not in changed} == {k: v for k, v in before.items() if k not in changed}
    assert (loser["state"], loser["merged_into"]) == ("archived", "statistics-1")


def test_recommend_changes_nothing_but_the_queue(story: Story) -> None:
    assert story.after_recommend == story.imported
    assert {action["action"] for action in story.recommended_actions} == {"recommend"}
    assert {action["to_state"] for action in story.recommended_actions} == {None}
    types = {row["type"] for row in story.asked.values()}
    assert types >= {"MERGE", "CONFLICT", "ADMIT"}
    assert ("statistics-2", "statistics-1") in story.asked


def test_every_change_has_its_event_with_texts_similarity_verdict_model_and_policy(story: Story) -> None:
    moved = {action["entry_id"]: action for action in story.actions if action["to_state"]}
    assert moved.keys() == {entry for entry, row in story.rows.items() if row["state"] != story.before[entry]["state"]}
    hashes = {entry: row["content_hash"] for entry, row in story.rows.items()}
    merges = [action for action in moved.values() if action["action"] == "merge"]
    assert len(merges) > 10
    for action in merges:
        assert action["content_hash"] == hashes[action["entry_id"]]
        assert action["other_content_hash"] == hashes[action["other_entry_id"]]
        assert action["verdict"] == "MERGE" and action["judge"] == "rule"
        assert action["similarity"] is None or action["similarity"] > 0.5
        assert action["policy_fingerprint"] and action["model_fingerprint"].startswith("tiny")


def test_a_repeated_run_counts_nothing_twice(story: Story) -> None:
    assert story.after_repeat == story.after_apply
    assert story.corpus.runs()[0]["rerun_of"] == story.run_id


def test_one_entry_taken_back_is_kept_until_its_text_changes(story: Story) -> None:
    corpus = story.corpus
    corpus.house.kb("rollback", story.run_id, "--entry", "statistics-2", KB_ACTOR="ida").ok()
    after = corpus.rows()
    for entry in ("statistics-1", "statistics-2"):
        same = {k: v for k, v in story.before[entry].items() if k != "distinctiveness"}
        assert {k: v for k, v in after[entry].items() if k != "distinctiveness"} == same
    assert after["same-layout-2"] == story.rows["same-layout-2"]
    assert "ida keeps this text" in corpus.kb("explain", "statistics-2").ok().out

    copy = {"module": "new", "kind": "rule", "created_at": "2026-11-10T09:00:00Z", "body": "Bollard ten is loose."}
    corpus.load(copy | {"id": "late-1"}, copy | {"id": "late-2"}, KB_NOW=AFTER_NEXT).ok()
    corpus.curate(KB_NOW=AFTER_NEXT).ok()
    states = corpus.states()
    assert (states["statistics-1"], states["statistics-2"]) == ("active", "active")
    assert sorted(states[f"late-{n}"] for n in (1, 2)) == ["active", "archived"]

    row = next(row for row in corpus_rows() if row["id"] == "statistics-2")
    corpus.load(row | {"body": "The **tide table** is printed on Fridays", "updated_at": "2026-11-17T09:00:00Z"}).ok()
    corpus.curate(KB_NOW="2026-11-23T08:00:00+00:00").ok()
    assert corpus.rows()["statistics-2"]["merged_into"] == "statistics-1"
