"""The texts of the sample are equal, near or opposed as the truth says, by the rules of ``kb_pipeline.text``."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, time, timedelta
from itertools import combinations
from typing import Any

import pytest

from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.sample import FIRST_WEEK
from kb_pipeline.text.canonical import canonical_key, exact_key
from kb_pipeline.text.compare import Comparison, compare
from kb_pipeline.text.injection import addresses_judge
from kb_pipeline.text.normalise import entry_text
from kb_pipeline.text.specifics import specifics
from kb_pipeline.vocabulary import ReasonCode, Verdict

Row = dict[str, Any]
Rows = dict[str, Row]


def text(row: Row) -> str:
    """The entry's text as everything else reads it."""
    return entry_text(row["title"], row.get("body"), row.get("rationale"), row.get("alternatives"), row.get("steps"))


def scope(row: Row) -> tuple[Any, ...]:
    """What has to be equal for a merge."""
    return row.get("tenant"), row.get("repository"), row.get("module"), row["kind"]


def decide(rows: Rows, ids: list[str]) -> Comparison:
    """The offline rule on a pair of entries."""
    left, right = rows[ids[0]], rows[ids[1]]
    return compare(text(left), text(right), left["kind"], right["kind"])


def active(row: Row) -> bool:
    """Rows without a state are active."""
    return row.get("state", "active") == "active"


@pytest.mark.parametrize("section", ["duplicates_exact", "duplicates_reformatted"])
def test_duplicates_merge_by_rule(rows: Rows, truth: Row, section: str) -> None:
    for group in truth[section]:
        for a, b in combinations(group["ids"], 2):
            assert scope(rows[a]) == scope(rows[b])
            assert active(rows[a]) and active(rows[b])
            assert canonical_key(text(rows[a])) == canonical_key(text(rows[b])) is not None, (a, b)
            assert specifics(text(rows[a])) == specifics(text(rows[b])), (a, b)
            assert decide(rows, [a, b]).verdict is Verdict.MERGE, (a, b)
            if section == "duplicates_exact":
                assert exact_key(text(rows[a])) == exact_key(text(rows[b]))
                assert decide(rows, [a, b]).reason is ReasonCode.JUDGE_EXACT
            else:
                assert text(rows[a]) != text(rows[b])


def test_the_group_names_its_winner_and_its_week(rows: Rows, truth: Row) -> None:
    for group in truth["duplicates_exact"] + truth["duplicates_reformatted"]:
        ranks = {
            i: (
                rows[i].get("pinned", False),
                rows[i].get("review_state") == "approved",
                rows[i].get("confidence", -1.0),
            )
            for i in group["ids"]
        }
        best = max(ranks.values())
        assert [i for i, rank in ranks.items() if rank == best] == [group["winner"]]
        latest = max(
            datetime.fromisoformat(rows[i][name])
            for i in group["ids"]
            for name in ("created_at", "updated_at")
            if name in rows[i]
        )
        begin = datetime.combine(FIRST_WEEK, time(), UTC)
        assert group["week"] == FIRST_WEEK + timedelta(weeks=(latest - begin).days // 7)


def test_paraphrases_never_merge_by_rule(rows: Rows, truth: Row) -> None:
    for pair in truth["paraphrases"]:
        assert scope(rows[pair["ids"][0]]) == scope(rows[pair["ids"][1]])
        assert decide(rows, pair["ids"]).verdict in {Verdict.UNSURE, Verdict.KEEP_BOTH}, pair


def test_near_misses_never_merge(rows: Rows, truth: Row) -> None:
    for pair in truth["near_misses"]:
        assert scope(rows[pair["ids"][0]]) == scope(rows[pair["ids"][1]])
        assert decide(rows, pair["ids"]).verdict is not Verdict.MERGE, pair
        words = [re.findall(r"\S+", text(rows[i])) for i in pair["ids"]]
        assert len(words[0]) == len(words[1])
        assert 1 <= sum(a != b for a, b in zip(*words, strict=True)) <= 3, pair
    covered = {pair["what"] for pair in truth["near_misses"]}
    assert covered == {"number", "unit", "version", "date", "path", "flag", "identifier"}


def test_contradictions_are_conflicts_of_the_named_type(rows: Rows, truth: Row) -> None:
    expected = {"contradiction": ReasonCode.JUDGE_CONTRADICTION, "value_mismatch": ReasonCode.JUDGE_VALUE_MISMATCH}
    for pair in truth["contradictions"]:
        found = decide(rows, pair["ids"])
        assert (found.verdict, found.reason) == (Verdict.CONFLICT, expected[pair["type"]]), (pair, found)
    assert {pair["type"] for pair in truth["contradictions"]} == set(expected)


def test_scope_pairs_have_equal_texts_and_other_scopes(rows: Rows, truth: Row) -> None:
    names = ("tenant", "repository", "module", "kind")
    for pair in truth["scopes"]:
        left, right = (rows[i] for i in pair["ids"])
        assert exact_key(text(left)) == exact_key(text(right))
        different = [name for name in names if left.get(name) != right.get(name)]
        assert different[0] == pair["differs"], (pair, different)
    assert {pair["differs"] for pair in truth["scopes"]} == set(names)


def test_kept_distinct_pairs_would_merge_otherwise(rows: Rows, truth: Row) -> None:
    for pair in truth["keep_distinct"]:
        assert all(rows[i]["keep_distinct"] is True for i in pair["ids"])
        assert decide(rows, pair["ids"]).verdict is Verdict.MERGE


def test_no_two_active_entries_merge_that_the_truth_does_not_name(rows: Rows, truth: Row) -> None:
    groups = truth["duplicates_exact"] + truth["duplicates_reformatted"] + truth["keep_distinct"]
    named = {frozenset(pair) for group in groups for pair in combinations(group["ids"], 2)}
    by_key: dict[Any, list[str]] = {}
    for i, row in rows.items():
        if active(row):
            by_key.setdefault((scope(row), canonical_key(text(row))), []).append(i)
    assert {frozenset(pair) for ids in by_key.values() for pair in combinations(ids, 2)} == named


def test_long_pairs_agree_in_the_window_of_the_encoder_and_differ_after(rows: Rows, truth: Row) -> None:
    for pair in truth["long_pairs"]:
        words = [text(rows[i]).split() for i in pair["ids"]]
        # A word has at least one word piece: 256 equal words fill the window of 256 pieces.
        assert words[0][:256] == words[1][:256]
        assert words[0] != words[1]
        assert decide(rows, pair["ids"]).verdict is not Verdict.MERGE
    assert sum(len(text(row).split()) > 256 for row in rows.values()) >= 4


def test_candidates_are_what_the_truth_says(rows: Rows, truth: Row) -> None:
    said = truth["candidates"]
    listed = [*said["admitted"], *(c["id"] for name in ("refused", "strengthening", "for_review") for c in said[name])]
    assert sorted(listed) == sorted(i for i, row in rows.items() if row.get("state") == "candidate")
    for refused in said["refused"]:
        short = len(rows[refused["id"]]["title"].strip()) < 25
        assert short is (refused["reason"] == "gates.name_too_short")
        generic = re.match(r"when \w+ing a file", rows[refused["id"]]["title"], re.IGNORECASE) is not None
        assert generic is (refused["reason"] == "gates.generic_name")
    for like, field in ((c, "strengthens") for c in said["strengthening"]):
        target = rows[like[field]]
        assert scope(rows[like["id"]]) == scope(target) and active(target)
        assert specifics(text(rows[like["id"]])) == specifics(text(target))
        assert target["created_at"] < rows[like["id"]]["created_at"]
    for like in said["for_review"]:
        assert scope(rows[like["id"]]) == scope(rows[like["like"]])
        assert specifics(text(rows[like["id"]])) != specifics(text(rows[like["like"]]))
    for i in said["admitted"]:
        assert len(rows[i]["title"]) >= 25


def test_distinctiveness_of_the_candidates_is_far_from_the_limit(rows: Rows, truth: Row) -> None:
    """Words outside of the commonest 5 % of the vocabulary, counted in the week in which the candidate arrives."""
    said = truth["candidates"]
    vague = {c["id"] for c in said["refused"] if c["reason"] == "gates.not_distinctive"}
    others = {*said["admitted"], *(c["id"] for c in said["strengthening"] + said["for_review"])}
    refused = {c["id"] for c in said["refused"]}
    words = {i: set(re.findall(r"[\w']+", text(row).casefold())) for i, row in rows.items()}
    begin = datetime.combine(FIRST_WEEK, time(), UTC)
    weeks = {i: (datetime.fromisoformat(row["created_at"]) - begin).days // 7 for i, row in rows.items()}
    gone = {"archived", "superseded", "expired", "invalidated"}
    for i in vague | others:
        visible = [
            j
            for j, row in rows.items()
            if row.get("tenant") == "harbor" and row.get("state") not in gone and weeks[j] <= weeks[i]
            if j not in refused or weeks[j] == weeks[i]
        ]
        frequency = Counter(word for j in visible for word in words[j])
        common = set(sorted(frequency, key=lambda word: (-frequency[word], word))[: len(frequency) // 20])
        share = len(words[i] - common) / len(words[i])
        assert share < 0.28 if i in vague else share > 0.33, (i, share)


def test_one_entry_addresses_the_judge(rows: Rows, truth: Row) -> None:
    assert [i for i, row in rows.items() if addresses_judge(text(row))] == [truth["injection"]["entry"]]
    assert decide(rows, [truth["injection"]["entry"], truth["injection"]["partner"]]).verdict is not Verdict.MERGE


def test_one_entry_holds_what_looks_like_a_key(rows: Rows, truth: Row) -> None:
    found = find_secrets([text(row) for row in rows.values()])
    assert {i: kinds for i, kinds in zip(rows, found, strict=True) if kinds} == {
        truth["secret"]["entry"]: ("AWS Access Key",)
    }


def test_languages_are_written_in_their_scripts(rows: Rows, truth: Row) -> None:
    scripts = {"zh": r"[\u4e00-\u9fff]", "ja": r"[\u3040-\u30ff]", "ar": r"[\u0600-\u06ff]", "ru": r"[\u0400-\u04ff]"}
    assert set(truth["languages"]) == {"ar", "de", "es", "fr", "ja", "ru", "zh"}
    for language, ids in truth["languages"].items():
        assert len(ids) >= 4
        if language in scripts:
            assert all(re.search(scripts[language], text(rows[i])) for i in ids)
