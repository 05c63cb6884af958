"""kb eligible and kb search: what may be retrieved by whom, and nothing of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kb_pipeline.defs.retrieval import golden_queries, open_view
from kb_pipeline.errors import UsageError
from kb_pipeline.policy.load import load_policy
from kb_pipeline_tests.commands.conftest import Curated
from kb_pipeline_tests.fakes.frames import AS_OF
from kb_pipeline_tests.fakes.house import House, HouseCorpus

VAULT = "vermilion"
ROWS = (
    {"id": "open-1", "body": "The gangway opens at seven.", "tenant": "north", "repository": "dock"},
    {"id": "open-2", "body": "The gangway of the ferry closes at nine.", "tenant": "north", "repository": "dock",
     "module": "ferry"},
    {"id": "south-1", "body": "The gangway is painted green.", "tenant": "south"},
    {"id": "shut-1", "body": f"The gangway code is {VAULT}.", "tenant": "north", "sensitivity": "restricted",
     "visible_to": ["mia"]},
    {"id": "past-1", "body": f"The gangway of {VAULT} was closed.", "tenant": "north", "expires_at": "2026-10-10"},
    {"id": "no-1", "body": f"The gangway needs {VAULT} paint.", "tenant": "north", "review_state": "rejected"},
    {"id": "key-1", "body": "The gangway key is AKIAQ3EGR5WJ6KXLZ2PD and the other one.", "tenant": "north"},
)  # fmt: skip


@pytest.fixture(scope="module")
def gangway(house: House) -> HouseCorpus:
    corpus = house.corpus("gangway", {"scope_fields": ["season"]})
    corpus.load(*ROWS).ok()
    return corpus


def eligible(corpus: HouseCorpus, *words: str) -> list[str]:
    return [row["id"] for row in corpus.kb("eligible", "--json", *words).ok().json["eligible"]]


def found(corpus: HouseCorpus, *words: str) -> list[str]:
    return [row["id"] for row in corpus.kb("search", "gangway", "--json", *words).ok().json["results"]]


def test_excluded_entries_have_reasons_and_a_warning_without_their_text(gangway: HouseCorpus) -> None:
    done = gangway.kb("eligible", "--json").ok()
    assert [row["id"] for row in done.json["eligible"]] == ["open-1", "open-2", "south-1"]
    assert {row["id"]: row["reasons"] for row in done.json["excluded"]} == {
        "key-1": ["eligibility.holds_secret"],
        "no-1": ["eligibility.rejected"],
        "past-1": ["eligibility.expired"],
        "shut-1": ["eligibility.not_permitted"],
    }
    assert all(row["warning"].endswith(".") for row in done.json["excluded"])
    plain = gangway.kb("eligible").ok()
    assert "3 eligible, 4 excluded" in plain.out and "shut-1: Whoever asks may not see it." in plain.out
    for shown in (done.out, plain.out, gangway.kb("search", VAULT).ok().out, gangway.kb("search", "key").ok().out):
        assert VAULT not in shown and "AKIA" not in shown


def test_a_scope_is_met_by_its_own_and_by_what_encloses_it(gangway: HouseCorpus) -> None:
    assert eligible(gangway, "--scope", "tenant=north") == ["open-1", "open-2"]
    assert eligible(gangway, "--scope", "tenant=north,repository=dock,module=ferry") == ["open-1", "open-2"]
    assert eligible(gangway, "--scope", "tenant=north, module=crane") == ["open-1"]
    assert found(gangway, "--scope", "tenant=south") == ["south-1"]
    # Entries of other tenants are counted, never named.
    shown = gangway.kb("eligible", "--scope", "tenant=south", "--json").ok()
    assert shown.json["of_other_tenants"] == 6 and shown.json["excluded"] == []
    assert "6 entries of other tenants" in gangway.kb("eligible", "--scope", "tenant=south").ok().out


def test_restricted_entries_are_for_their_readers(gangway: HouseCorpus) -> None:
    assert "shut-1" not in found(gangway) and "shut-1" not in found(gangway, "--reader", "tom")
    assert "shut-1" in found(gangway, "--reader", "tom", "--reader", "mia")
    assert "shut-1" in eligible(gangway, "--reader", "mia")


def test_without_vectors_words_rank_and_it_is_said(gangway: HouseCorpus) -> None:
    done = gangway.kb("search", "gangway ferry", "--json").ok()
    assert done.json["results"][0]["id"] == "open-2"
    assert "words alone" in done.json["note"] and {row["similarity"] for row in done.json["results"]} == {None}
    plain = gangway.kb("search", "gangway ferry", "--limit", "1").ok()
    assert "open-2" in plain.out and "open-1" not in plain.out and "words alone" in plain.err
    assert "nothing found among 3 eligible entries" in gangway.kb("search", "zebra").ok().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("eligible", "--scope", "tenant"), "tenant=acme,repository=shop"),
        (("eligible", "--scope", "tenant=a,tenant=b"), "names tenant twice"),
        (("eligible", "--scope", "tenent=a"), "tenent"),
        (("eligible", "--as-of", "soon"), "--as-of"),
        (("search", "  "), "the query is empty"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_sentence(
    gangway: HouseCorpus, words: tuple[str, ...], told: str
) -> None:
    done = gangway.kb(*words)
    assert (done.code, done.out) == (2, "") and told in done.err and done.err.count("\n") == 1
    assert gangway.kb("eligible", "--scope", "season=dry").ok()


def test_a_curated_corpus_is_ranked_by_vectors_too(curated: Curated) -> None:
    shown = curated.corpus.kb("search", "watch officer barometer", "--json").ok().json
    first = shown["results"][0]
    assert (first["id"], first["rank"], shown["note"]) == ("log-a", 1, None)
    assert first["similarity"] is not None and first["word_score"] > 0
    # Merged away, retired and torn entries are not given out; explain and the view agree on why.
    ids = eligible(curated.corpus)
    assert ids == ["log-a", "plain-a"]
    out = {row["id"]: row["reasons"] for row in curated.corpus.kb("eligible", "--json").ok().json["excluded"]}
    assert out["horn-a"] == out["horn-b"] == ["eligibility.in_conflict"]
    for entry in [*ids, *out]:
        told = curated.corpus.kb("explain", entry, "--json").ok().json["retrieval"]
        assert told["eligible"] is (entry in ids)


def test_the_view_of_a_past_moment_is_what_held_then(curated: Curated) -> None:
    assert len(eligible(curated.corpus, "--as-of", "2026-11-01T00:00:00Z")) == 6
    assert eligible(curated.corpus, "--as-of", "2026-09-01T00:00:00Z") == []


def test_golden_queries_measure_the_eligible_view(curated: Curated, tmp_path: Path) -> None:
    path = tmp_path / "golden_queries.jsonl"
    rows = [
        {"query": "barometer of the watch officer", "expected_ids": ["log-a"]},
        {"query": "radar", "expected_ids": ["poor-a"]},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", "utf-8")
    policy = load_policy(file=curated.corpus.write_policy(tmp_path / "policy.yaml"))
    now = AS_OF
    view = open_view(curated.house.database, "bridge", policy, now=now)
    queries = golden_queries(path)
    measured = view.probe(queries)
    assert (measured.query_count, measured.hit_rate, measured.first_ranks) == (2, 0.5, (1, None))
    # The control: before the run the lesson about the radar was there.
    before = open_view(curated.house.database, "bridge", policy, now=now, as_of=AS_OF.replace(month=11, day=1)).probe(
        queries
    )
    assert before.hit_rate == 1.0 and measured.fall_since(before) == 0.5 and measured.worse_since(before) == [2]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not JSON"),
        ('{"expected_ids": ["a"]}', "query"),
        ('{"query": "q", "expected_ids": []}', "expected_ids"),
        ('["q"]', "query"),
        ("", "holds no queries"),
    ],
)
def test_a_file_that_is_none_of_golden_queries_is_refused(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "golden_queries.jsonl"
    path.write_text(line, "utf-8")
    with pytest.raises(UsageError, match=told):
        golden_queries(path)
    with pytest.raises(UsageError, match="cannot be read"):
        golden_queries(tmp_path / "missing.jsonl")


def test_the_better_kept_of_two_equal_answers_comes_first(house: House) -> None:
    rows = [{"id": f"tide-{n}", "body": f"The tide table of berth {n} hangs in the mess."} for n in "abc"]
    rows[1]["quality_score"], rows[2]["quality_score"] = 0.2, 0.9
    corpus = house.corpus("tide")
    corpus.load(*rows).ok()

    def order(**policy: float) -> list[tuple[str, float | None]]:
        corpus.policy["search"] = policy
        found = corpus.kb("search", "tide table", "--json").ok().json["results"]
        return [(row["id"], row["quality_score"]) for row in found]

    assert order() == [("tide-c", 0.9), ("tide-a", None), ("tide-b", 0.2)]
    assert [entry for entry, _ in order(quality_weight=0)] == ["tide-a", "tide-b", "tide-c"]
    assert "quality 0.90" in corpus.kb("search", "tide table").ok().out
