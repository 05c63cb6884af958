"""Search: two rankings joined by ranks, words alone where there are no vectors, ties in the order of ids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas_retrieval
from kb_pipeline.policy.model import SearchPolicy
from kb_pipeline.stages.search import best_windows, rank_entries, word_scores
from kb_pipeline.text.tokens import token_sets


def rules(quality_weight: float = 0.05) -> SearchPolicy:
    return SearchPolicy(
        rank_offset=60, quality_weight=quality_weight, golden_queries=None, hits_within=10, max_golden_drop=0.01
    )


def ranked(
    texts: dict[str, str],
    query: str,
    similarity: list[float] | None = None,
    *,
    quality: dict[str, float] | None = None,
    weight: float = 0.05,
) -> pl.DataFrame:
    entries = pl.DataFrame(
        {
            "entry_id": list(texts),
            "text": list(texts.values()),
            "quality_score": [(quality or {}).get(entry) for entry in texts],
        },
        schema={"entry_id": pl.String, "text": pl.String, "quality_score": pl.Float64},
    )
    return rank_entries(entries, query, None if similarity is None else np.array(similarity), rules(weight))


def test_words_alone_find_what_shares_the_rarer_word() -> None:
    texts = {
        "a": "The relay sends mail at night.",
        "b": "The relay rotates its signing key in May.",
        "c": "Nothing of the kind.",
        "d": "The relay is in Oslo.",
    }
    found = ranked(texts, "relay signing key")
    assert found["entry_id"].to_list() == ["b", "d", "a"]
    assert found["similarity"].null_count() == 3
    schemas_retrieval.SEARCH.check(found)
    assert ranked(texts, "zebra").is_empty()


def test_a_shorter_text_with_the_same_words_comes_first() -> None:
    found = ranked(
        {"a": "Backups run on Sundays and the office is closed then as it always was.", "b": "Backups run on Sundays."},
        "backups",
    )
    assert found["entry_id"].to_list() == ["b", "a"]


def test_bm25_is_the_published_formula() -> None:
    scores = word_scores(token_sets(pl.Series(["one two", "two three four", "five"])), 3, "two five").to_list()

    def part(count: int, length: int) -> float:
        idf = math.log(1 + (3 - count + 0.5) / (count + 0.5))
        return idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * length / 2))

    assert scores == pytest.approx([part(2, 2), part(2, 3), part(1, 1)])


def test_similarity_and_words_are_joined_by_their_ranks() -> None:
    texts = {"a": "apples", "b": "pears", "c": "pears and plums", "d": "figs"}
    found = ranked(texts, "pears", [0.9, 0.8, 0.1, math.nan])
    scores = dict(found.select("entry_id", "score").iter_rows())
    assert scores == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 63 + 1 / 62})
    assert found["entry_id"].to_list() == ["b", "c", "a"]


def test_ties_stand_in_the_order_of_ids() -> None:
    assert ranked(dict.fromkeys("bca", "The same text."), "same", [0.5, 0.5, 0.5])["entry_id"].to_list() == [
        "a",
        "b",
        "c",
    ]


def test_quality_settles_what_is_about_equally_near_and_no_more() -> None:
    texts = {f"e{at:02}": "The same text." for at in range(12)} | {
        "far": "Another same thing, said at more length here."
    }
    near = [0.9 - at / 100 for at in range(12)] + [0.1]
    plain = ranked(texts, "same text", near)
    best = ranked(texts, "same text", near, quality={"e02": 1.0, "far": 1.0})
    assert plain["entry_id"].to_list()[:3] == ["e00", "e01", "e02"]
    assert best["entry_id"].to_list()[:3] == ["e02", "e00", "e01"] and best["entry_id"].to_list()[-1] == "far"
    worst = ranked(texts, "same text", near, quality={"e00": 0.0})["entry_id"].to_list()
    assert worst[0] == "e01" and 0 < worst.index("e00") < 12
    # A score in the middle, or none, changes nothing; nor does any score when it weighs nothing.
    middle = ranked(texts, "same text", near, quality=dict.fromkeys(texts, 0.5))
    assert middle.drop("quality_score").equals(plain.drop("quality_score"))
    off = ranked(texts, "same text", near, quality={"e11": 1.0, "e00": 0.0}, weight=0.0)
    assert off.drop("quality_score").equals(plain.drop("quality_score"))


@pytest.mark.parametrize("quality", [0.0, 0.2, 0.86, 1.0])
def test_the_influence_of_quality_is_the_published_factor(quality: float) -> None:
    (plain,) = ranked({"a": "figs"}, "figs", [0.4])["score"]
    (weighted,) = ranked({"a": "figs"}, "figs", [0.4], quality={"a": quality})["score"]
    assert weighted == pytest.approx(plain * (1 + 0.05 * (2 * quality - 1)))


def test_equal_quality_and_nearness_stand_in_the_order_of_ids() -> None:
    alike = dict.fromkeys("bca", "The same text.")
    found = ranked(alike, "same", [0.5] * 3, quality=dict.fromkeys("abc", 0.9))
    assert found["entry_id"].to_list() == ["a", "b", "c"]


def test_scripts_without_spaces_are_searched() -> None:
    texts = {"a": "部署前必须在预发布环境运行测试", "b": "备份在周日运行"}
    assert ranked(texts, "预发布环境")["entry_id"].to_list() == ["a"]


def test_the_best_window_counts() -> None:
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)
    found = best_windows(vectors, np.array([0, 0, 2]), np.array([[0, 1]], dtype=np.float32), 3)
    assert found[0] == 1 and np.isnan(found[1]) and found[2] == pytest.approx(0.8)
    nothing = best_windows(np.empty((0, 1), np.float32), np.empty(0, np.int64), np.array([[1.0]], np.float32), 2)
    assert np.isnan(nothing).all()


WORDS = st.lists(st.sampled_from(["relay", "key", "mail", "Oslo", "备份", "!"]), max_size=6).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(WORDS, st.floats(-1, 1)), max_size=8), WORDS, st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant(rows: list[tuple[str, float]], query: str, random: Any) -> None:
    texts = {f"e{at}": text for at, (text, _) in enumerate(rows)}
    straight = ranked(texts, query, [similarity for _, similarity in rows])
    order = list(range(len(rows)))
    random.shuffle(order)
    mixed = ranked({f"e{at}": rows[at][0] for at in order}, query, [rows[at][1] for at in order])
    assert mixed.equals(straight)
    assert straight["score"].is_sorted(descending=True)
