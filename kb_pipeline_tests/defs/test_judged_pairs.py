"""Labelled pairs are decided as a week decides them: the same verdicts, merges, conflicts and questions, pair by pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from kb_pipeline.adapters.encoder import load_encoder
from kb_pipeline.adapters.labelled_pairs import LabelledPairs
from kb_pipeline.defs.judged_pairs import PairVectors, decide_pairs, encode_pairs, judge_named
from kb_pipeline.gold import gold_pairs
from kb_pipeline.policy.load import load_policy
from kb_pipeline.policy.model import Policy
from kb_pipeline_tests.fakes.frames import policy as policy_of
from kb_pipeline_tests.fakes.house import House
from kb_pipeline_tests.fakes.labelled import gold, labelled

RULE: dict[str, Any] = {"kind": "rule", "body": "The crane must be locked in a storm."}


def decide(pairs: LabelledPairs, model: str | None, policy: Policy | None = None) -> pl.DataFrame:
    policy = policy or load_policy()
    found = None
    if model is not None:
        encoder = load_encoder(model)
        thresholds = policy.thresholds(encoder.calibration.merge, encoder.calibration.borderline)
        found = PairVectors(*encode_pairs(pairs, encoder), thresholds)
    decided, failed = decide_pairs(pairs, policy, judge_named("rule", policy), found)
    assert failed == 0
    return decided


def actions(pairs: LabelledPairs, model: str | None = None) -> list[str]:
    return decide(pairs, model)["action"].to_list()


def test_the_gold_set_is_decided_as_a_week_decides_it(house: House) -> None:
    """The set as a corpus, with the pair as a part of the scope, beside kb eval pairs on the same set."""
    rows = [json.loads(line) for line in gold_pairs().read_text("utf-8").splitlines()]
    # Labelled pairs are no corpus, and what they ask is not limited by its number.
    limits = {"apply": {"max_changed_share": 1.0}, "dedup": {"max_word_questions": 100}}
    corpus = house.corpus("gold-week", {"scope_fields": ["pair"], "judge": {"name": "rule"}, **limits})
    corpus.load(*(row[side] | {"pair": row["id"]} for row in rows for side in ("a", "b"))).ok()
    corpus.curate().ok()

    ids = {pair: (row["a"]["id"], row["b"]["id"]) for pair, row in zip(gold().pairs["pair_id"], rows, strict=True)}
    decided = decide(gold(), house.model).with_columns(
        pl.col("pair_id").replace_strict({pair: f"{a} {b}" for pair, (a, b) in ids.items()}).alias("ids")
    )
    mine = {tuple(row["ids"].split()): row for row in decided.iter_rows(named=True)}
    assert len(mine) == len(rows)

    listed = corpus.pairs()
    assert set(listed) == {pair for pair, row in mine.items() if row["is_candidate"]}
    for pair, row in listed.items():
        for name in ("similarity", "band", "verdict", "judge", "specifics_only_l", "specifics_only_r"):
            assert mine[pair][name] == (pytest.approx(row[name], abs=2e-5) if name == "similarity" else row[name]), pair
    merged = {tuple(sorted(pair)) for pair in corpus.merged().items()}
    assert merged == {pair for pair, row in mine.items() if row["action"] == "merge"}
    opened = {tuple(sorted((row["entry_id"], row["other_entry_id"]))) for row in corpus.actions("open_conflict")}
    assert opened == {pair for pair, row in mine.items() if row["action"] == "conflict"}
    asked = {tuple(sorted(pair)) for pair, row in corpus.queue().items() if row["type"] == "MERGE"}
    assert asked == {pair for pair, row in mine.items() if row["action"] == "queue"}
    assert min(map(len, (merged, opened, asked))) >= 10


def test_guards_keep_pairs_apart_that_the_judge_would_merge(tmp_path: Path) -> None:
    rows = [
        {"a": RULE, "b": RULE | extra, "label": "KEEP_BOTH"}
        for extra in (
            {},
            {"tenant": "north"},
            {"repository": "dock"},
            {"module": "crane"},
            {"kind": "lesson"},
            {"keep_distinct": True},
            {"state": "archived"},
            {"sensitivity": "restricted"},
            {"platform": "quay"},
        )
    ]
    path = tmp_path / "p.jsonl"
    found = decide(labelled(path, *rows), None)
    assert found["verdict"].unique().to_list() == ["MERGE"]
    assert found["action"].to_list() == ["merge", "keep", "keep", "keep", "keep", "keep", "keep", "queue", "merge"]
    assert found["reason"].to_list()[7] == "merge.sensitivity_differs"
    scoped = labelled(path, *rows, scope_fields=("platform",))
    assert decide(scoped, None)["action"].to_list()[-1] == "keep"


def test_what_a_week_would_not_find_is_kept_though_it_is_judged(house: House, tmp_path: Path) -> None:
    far = {"a": "The crane must be locked.", "b": "The crane must not be locked.", "label": "CONFLICT"}
    pairs = labelled(tmp_path / "p.jsonl", far)
    policy = policy_of(dedup={"word_neighbours": 0})
    thresholds = policy.thresholds(1.0, 1.0)
    vectors, owner = encode_pairs(pairs, load_encoder(house.model))
    found, _ = decide_pairs(pairs, policy, judge_named("rule", policy), PairVectors(vectors, owner, thresholds))
    row = found.row(0, named=True)
    assert (row["verdict"], row["action"], row["band"], row["is_candidate"]) == ("CONFLICT", "keep", None, False)
    assert 0.5 < row["similarity"] < 1
    assert actions(pairs) == ["conflict"]


def test_thresholds_of_the_policy_say_what_a_candidate_is(house: House, tmp_path: Path) -> None:
    pairs = labelled(
        tmp_path / "p.jsonl", {"a": "Locks hold in a storm.", "b": "Locks held in the storm.", "label": "MERGE"}
    )
    (similarity,) = decide(pairs, house.model)["similarity"]
    for limit, band in ((similarity - 0.01, "borderline"), (similarity + 0.01, None)):
        own = policy_of(dedup={"min_merge_similarity": 1.0, "min_borderline_similarity": limit, "word_neighbours": 0})
        assert decide(pairs, house.model, own)["band"].to_list() == [band]
    merge = policy_of(dedup={"min_merge_similarity": similarity - 0.01, "min_borderline_similarity": 0.1})
    assert decide(pairs, house.model, merge)["band"].to_list() == ["merge"]


def test_pairs_stay_in_their_order_and_do_not_meet_across_lines(tmp_path: Path) -> None:
    same = {"a": "Ropes are dry.", "b": "**Ropes are dry**", "label": "MERGE"}
    other = {"a": "Ropes are dry.", "b": "Paint is wet.", "label": "KEEP_BOTH"}
    for rows in ([same, other, same], [other, same, other, other]):
        found = decide(labelled(tmp_path / "p.jsonl", *rows), None)
        assert found["action"].to_list() == ["merge" if row is same else "queue" for row in rows]
        assert found["label"].to_list() == [row["label"] for row in rows]


def test_a_text_in_many_pairs_is_encoded_once_and_its_vectors_are_those_of_its_own(
    house: House, tmp_path: Path
) -> None:
    long = " ".join(f"Bollard {n} carries {n * 7} tonnes." for n in range(120))
    rows = [{"a": long, "b": "x y", "label": "MERGE"}, {"a": "Ropes are dry.", "b": long, "label": "MERGE"}]
    pairs = labelled(tmp_path / "p.jsonl", *rows)
    encoder = load_encoder(house.model)
    seen: list[int] = []
    vectors, owner = encode_pairs(pairs, encoder, lambda _, todo: seen.append(todo))
    windows = encoder.window_count(long)
    assert windows > 2 and seen[-1] == windows + 2
    assert np.bincount(owner).tolist() == [windows, 1, 1, windows]
    for row, text in enumerate(pairs.entries["text"]):
        alone, _ = encoder.encode([text])
        assert np.allclose(vectors[owner == row], alone, atol=1e-6)


def test_a_text_without_anything_to_encode_has_no_similarity(house: House, tmp_path: Path) -> None:
    found = decide(
        labelled(tmp_path / "p.jsonl", {"a": "☂☂", "b": "Ropes are dry.", "label": "KEEP_BOTH"}), house.model
    )
    assert found.select("similarity", "action").row(0) == (None, "keep")
