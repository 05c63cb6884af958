"""What 26 weeks made of the bundled sample, held against its truth, section by section."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from kb_pipeline_tests.acceptance.sample_run import LAST, SampleRun

APART = ("paraphrases", "near_misses", "contradictions", "scopes", "keep_distinct", "long_pairs")
COPIES = ("duplicates_exact", "duplicates_reformatted")


def losers(group: dict[str, Any]) -> list[str]:
    return [entry for entry in group["ids"] if entry != group["winner"]]


@pytest.mark.parametrize("section", COPIES)
def test_copies_go_into_the_stated_winner_in_the_stated_week(sample: SampleRun, section: str) -> None:
    assert sample.truth[section]
    for group in sample.truth[section]:
        assert sample.rows[group["winner"]]["merged_into"] is None
        for loser in losers(group):
            assert (sample.rows[loser]["state"], sample.rows[loser]["merged_into"]) == ("archived", group["winner"])
        last = max(merge["week"] for loser in losers(group) for merge in sample.done_to(loser, "merge"))
        assert last == group["week"], group


def test_nothing_else_was_merged(sample: SampleRun) -> None:
    merged = [action["entry_id"] for action in sample.actions if action["action"] == "merge"]
    expected = [loser for section in COPIES for group in sample.truth[section] for loser in losers(group)]
    assert sorted(merged) == sorted(expected)
    assert {a["reason"] for a in sample.actions if a["action"] == "merge"} <= {"judge.exact", "judge.canonical"}


def test_the_longest_chain_of_merges_is_counted(sample: SampleRun) -> None:
    def depth(entry: str) -> int:
        into = sample.rows[entry]["merged_into"]
        return 0 if into is None else 1 + depth(into)

    longest = [run["counts"]["longest_chain"] for run in reversed(sample.runs)]
    assert longest == sorted(longest)
    assert (longest[0], longest[-1]) == (0, max(map(depth, sample.rows)))
    assert longest[-1] > 0


@pytest.mark.parametrize("section", APART)
def test_what_is_not_the_same_stays_apart(sample: SampleRun, section: str) -> None:
    assert sample.truth[section]
    for group in sample.truth[section]:
        for one, other in combinations(group["ids"], 2):
            assert sample.merged_to(one) != sample.merged_to(other), (section, one, other)


def test_scopes_never_even_meet(sample: SampleRun) -> None:
    compared = {(row["entry_id_l"], row["entry_id_r"]) for row in sample.pairs}
    for group in sample.truth["scopes"] + sample.truth["keep_distinct"]:
        assert tuple(sorted(group["ids"])) not in compared
    assert any(tuple(sorted(group["ids"])) in compared for group in sample.truth["near_misses"])


def test_paraphrases_that_the_encoder_puts_apart_are_found_by_their_words(sample: SampleRun) -> None:
    bands: dict[tuple[str, str], set[str]] = {}
    for row in sample.pairs:
        bands.setdefault((row["entry_id_l"], row["entry_id_r"]), set()).add(row["band"])
    by_words = {tuple(sorted(group["ids"])) for group in sample.truth["paraphrases"] if group.get("by_words")}
    assert by_words and all(bands[pair] == {"lexical"} for pair in by_words)
    lexical = {pair for pair, found in bands.items() if "lexical" in found}
    # A wide search brings others along; what is asked of people are not these.
    assert len(lexical - by_words) <= len(by_words)
    asked = {
        (row["entry_id_l"], row["entry_id_r"])
        for row in sample.pairs
        if row["band"] == "lexical" and row["verdict"] == "UNSURE"
    }
    assert asked and len(asked - by_words) <= len(asked & by_words)
    others = [tuple(sorted(group["ids"])) for group in sample.truth["paraphrases"] if not group.get("by_words")]
    assert not lexical & set(others)


def test_contradictions_stand_in_open_conflicts_of_their_type(sample: SampleRun) -> None:
    found = {(row["entry_id_l"], row["entry_id_r"]): row for row in sample.conflicts}
    listed = {tuple(row["memories"]): row for row in sample.report("memory-conflicts.yaml")["conflicts"]}
    for group in sample.truth["contradictions"]:
        pair = tuple(sorted(group["ids"]))
        assert (found[pair]["conflict_type"], found[pair]["status"]) == (group["type"], "open")
        assert (listed[pair]["type"], listed[pair]["status"]) == (group["type"], "open")
        assert listed[pair]["severity"] == ("high" if group["type"] == "contradiction" else "medium")
        assert all(sample.rows[entry]["conflict_state"] == "open" for entry in pair)


def test_other_conflicts_are_between_near_misses_that_give_another_value(sample: SampleRun) -> None:
    stated = {tuple(sorted(group["ids"])) for group in sample.truth["contradictions"]}
    near = {tuple(sorted(group["ids"])): group["what"] for group in sample.truth["near_misses"]}
    for row in sample.conflicts:
        pair = (row["entry_id_l"], row["entry_id_r"])
        if pair not in stated:
            assert row["conflict_type"] == "value_mismatch"
            assert near[pair] in {"number", "unit", "version", "date"}, pair
    kept_apart = {pair for pair, what in near.items() if what in {"identifier", "path", "flag"}}
    assert kept_apart and not kept_apart & {(row["entry_id_l"], row["entry_id_r"]) for row in sample.conflicts}


@pytest.mark.parametrize(("section", "reason"), [("poor", "retire.low_ci_upper"), ("stale", "retire.stale")])
def test_what_has_had_its_time_is_retired_in_its_week(sample: SampleRun, section: str, reason: str) -> None:
    assert sample.truth[section]
    for entry in sample.truth[section]:
        retired = sample.done_to(entry["id"], "retire")
        assert [(action["reason"], action["week"]) for action in retired] == [(reason, entry["due_week"])], entry
        row = sample.rows[entry["id"]]
        assert (row["state"], row["state_reason"], row["merged_into"]) == ("archived", reason, None)


def test_nothing_else_was_retired(sample: SampleRun) -> None:
    retired = {action["entry_id"] for action in sample.actions if action["action"] == "retire"}
    assert retired == {entry["id"] for section in ("poor", "stale") for entry in sample.truth[section]}
    assert not retired & {entry["id"] for entry in sample.truth["spared"]}


def test_protected_entries_stay_and_a_person_is_asked_in_their_week(sample: SampleRun) -> None:
    word = {"kind": "protected_kind"}
    for entry in sample.truth["protected"]:
        assert sample.rows[entry["id"]]["state"] == "active"
        asked = [a for a in sample.done_to(entry["id"], "recommend") if a["reason"] == entry["rule"]]
        assert [action["week"] for action in asked] == [entry["due_week"]], entry
        kept = {
            row["memoryId"]: row for row in sample.report("memory-pruning-plan.yaml", str(entry["due_week"]))["kept"]
        }
        because = sorted(kept[entry["id"]]["because"].split(", "))
        assert because == sorted(word.get(name, name) for name in entry["because"])
        # What is merely unused may still hold; what does badly should go.
        kind = "REFRESH" if entry["rule"] == "retire.stale" else "ARCHIVE"
        queue = sample.report("memory-review-queue.yaml")["queue"]
        assert any(row["memories"] == [entry["id"]] and row["type"] == kind for row in queue)


def test_somebody_is_asked_once_whether_what_ran_out_by_its_date_still_holds(sample: SampleRun) -> None:
    asked = [a for a in sample.actions if a["reason"] == "refresh.expired"]
    assert [(a["entry_id"], str(a["week"])) for a in asked] == [
        (entry["id"], str(entry["due_week"])) for entry in sample.truth["expired_by_date"]
    ]
    queue = sample.report("memory-review-queue.yaml")["queue"]
    waiting = {row["memories"][0] for row in queue if row["reason"] == "refresh.expired"}
    assert waiting == {a["entry_id"] for a in asked}
    # Nothing in the sample replaces an entry that is still in use.
    assert not [a for a in sample.actions if str(a["reason"]).startswith("supersede.")]


def test_candidates_are_admitted_or_refused_with_the_reason(sample: SampleRun) -> None:
    candidates = sample.truth["candidates"]
    for entry in [*candidates["admitted"], *(one["id"] for one in candidates["same_text_elsewhere"])]:
        assert [action["reason"] for action in sample.done_to(entry, "admit")] == ["gates.passed"]
    for entry in candidates["refused"]:
        refused = sample.done_to(entry["id"], "refuse")
        assert [action["reason"] for action in refused] == [entry["reason"]]
        assert sample.rows[entry["id"]]["state"] == "archived"


def test_restatements_strengthen_what_is_known(sample: SampleRun) -> None:
    for entry in sample.truth["candidates"]["strengthening"]:
        refused, strengthened = sorted(sample.done_to(entry["id"]), key=lambda action: action["action"])
        assert (refused["action"], refused["reason"]) == ("refuse", entry["reason"])
        assert (strengthened["action"], strengthened["entry_id"]) == ("strengthen", entry["strengthens"])
        receiver, giver = sample.rows[entry["strengthens"]], sample.imported[entry["id"]]
        assert receiver["last_matched_at"] >= strengthened["effective_at"].strftime("%Y-%m-%dT%H:%M:%S")
        shown = [{k: v for k, v in piece.items() if k != "extra"} for piece in receiver.get("evidence", [])]
        assert all(piece in shown for piece in giver.get("evidence", []))


def test_close_candidates_with_another_value_wait_for_a_person(sample: SampleRun) -> None:
    for entry in sample.truth["candidates"]["for_review"]:
        assert sample.rows[entry["id"]]["state"] == "candidate"
        asked = sample.done_to(entry["id"])
        assert [(a["action"], a["other_entry_id"], a["reason"]) for a in asked] == [
            ("recommend", entry["like"], entry["reason"])
        ]


def test_an_entry_that_addresses_the_judge_has_no_effect_and_is_flagged(sample: SampleRun) -> None:
    entry, partner = sample.truth["injection"]["entry"], sample.truth["injection"]["partner"]
    assert sample.rows[entry]["state"] == sample.rows[partner]["state"] == "active"
    flagged = {action["entry_id"] for action in sample.actions if action["reason"] == "load.addresses_judge"}
    assert flagged == {entry}


def test_weak_entries_are_flagged_once_and_nothing_else_is(sample: SampleRun) -> None:
    reasons = {
        "decision_without_rationale": "flags.no_rationale",
        "skill_without_steps": "flags.no_steps",
        "vague_fact": "flags.vague_fact",
    }
    flags = sample.truth["quality_flags"]
    asked = [(a["entry_id"], a["reason"]) for a in sample.actions if str(a["reason"]).startswith("flags.")]
    assert sorted(asked) == sorted((entry, reasons[kind]) for kind, entries in flags.items() for entry in entries)
    queue = sample.report("memory-review-queue.yaml")["queue"]
    waiting = {row["memories"][0] for row in queue if str(row["reason"]).startswith("flags.")}
    assert waiting == {entry for entry, _ in asked if sample.rows[entry]["state"] == "active"}


def test_other_languages_are_curated_like_any(sample: SampleRun) -> None:
    for language, entries in sample.truth["languages"].items():
        for entry in entries:
            assert sample.rows[entry]["distinctiveness"] > 0, (language, entry)


def test_reports_count_what_the_database_holds(sample: SampleRun) -> None:
    actions = [action for action in sample.actions if str(action["week"]) == LAST]
    counted = {name: sum(a["action"] == name for a in actions) for name in ("admit", "refuse", "retire", "merge")}
    states = [row["state"] for row in sample.rows.values()]
    total = sample.report("memory-health-report.yaml")["repositories"][0]["memoryHealth"]
    assert total["entries"] == len(states) == sample.truth["entries"]
    for key, state in {
        "active": "active", "candidatesPending": "candidate", "needsReview": "needs_review", "archived": "archived",
        "stale": "stale", "expired": "expired", "blocked": "blocked", "approved": "approved",
    }.items():  # fmt: skip
        assert total[key] == states.count(state), key
    assert total["conflicted"] == sum(row["conflict_state"] == "open" for row in sample.rows.values())
    done = {"admitted": "admit", "refused": "refuse", "retired": "retire", "merged": "merge"}
    assert total["thisRun"] == {word: counted[name] for word, name in done.items()}
    assert total["thisRun"]["merged"] > 0 and total["thisRun"]["retired"] > 0
    assert len(sample.report("memory-pruning-plan.yaml")["prune"]) == counted["retire"]
    assert len(sample.report("memory-conflicts.yaml")["conflicts"]) == len(sample.conflicts)
    assert sample.report("duplicate-pairs.yaml")["total"] == sum(str(row["week"]) == LAST for row in sample.pairs)
    assert total["queue"]["length"] == len(sample.report("memory-review-queue.yaml")["queue"])


def test_the_parts_of_the_health_report_add_up(sample: SampleRun) -> None:
    total, *parts = [row["memoryHealth"] for row in sample.report("memory-health-report.yaml")["repositories"]]
    assert len(parts) > 3
    for key in ("entries", "active", "archived", "conflicted", "candidatesPending"):
        assert total[key] == sum(part[key] for part in parts)
    trend = sample.report("memory-health-report.yaml")["trend"]
    assert [row["week"] for row in trend] == sorted(sample.files)[:-1]
    for row in trend:
        then = sample.report("memory-health-report.yaml", row["week"])["repositories"][0]["memoryHealth"]
        assert (row["active"], row["archived"]) == (then["active"], then["archived"])
