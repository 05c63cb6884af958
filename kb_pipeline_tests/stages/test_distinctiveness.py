"""Distinctiveness: the definition counted by hand, tenants apart, and properties that hold for any corpus."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages.distinctiveness import corpus_version, score_distinctiveness
from kb_pipeline.vocabulary import LIVE_STATES, ReasonCode, State
from kb_pipeline_tests.fakes.frames import cases, entries, policy

TABLE = cases("distinctiveness")
CASES = [pytest.param(case, id=f"{code}: {case['case']}") for code, rows in TABLE.items() for case in rows]


def corpus(texts: list[str], **values: Any) -> pl.DataFrame:
    """Active entries a, b, c, ... with these texts and nothing else."""
    return entries(*({"id": f"e{n:03d}", "text": text} | values for n, text in enumerate(texts)))


def score(found: pl.DataFrame, **values: Any) -> pl.DataFrame:
    return score_distinctiveness(found, policy(distinctiveness=values).distinctiveness)


@pytest.mark.parametrize("case", CASES)
def test_cases(case: dict[str, Any]) -> None:
    limits = {name: case[name] for name in ("max_common_share", "max_common_tokens") if name in case}
    result = score(corpus(case["texts"]), **limits)
    assert result["distinctiveness"].to_list() == case["scores"]
    assert result["distinctiveness_reason"].to_list() == case["reasons"]


def test_every_reason_code_fires_and_spares() -> None:
    codes = {code.value for code in ReasonCode if code.value.startswith("distinctiveness.")}
    for code in codes:
        assert {reason == code for case in TABLE[code] for reason in case["reasons"]} == {True, False}


def test_an_entry_without_tokens_has_no_score_and_is_never_nought() -> None:
    result = score(corpus(["", "!?", "harbour"])).row(0, named=True)
    assert result["token_count"] == 0
    assert result["distinctiveness"] is None
    assert result["distinctiveness_reason"] == "distinctiveness.no_tokens"
    assert score(corpus(["", ""]))["distinctiveness"].to_list() == [None, None]


def test_scripts_without_spaces_have_tokens() -> None:
    result = score(corpus(["数据库的备份在星期日运行", "部署之前先运行所有测试"]))
    assert (result["token_count"] > 3).all()
    assert all(value > 0 for value in result["distinctiveness"])


def test_only_live_entries_are_scored_and_counted() -> None:
    texts = ["a b c d e f g h i j", "a k l m n o p q r s t"]
    alone = score(corpus(texts))
    for state in State:
        more = entries(
            *({"id": f"e{n:03d}", "text": text} for n, text in enumerate(texts)),
            *({"id": f"z{n}", "text": "k l m", "state": state.value} for n in range(3)),
        )
        result = score(more)
        others = result.tail(3)
        if state in LIVE_STATES:
            assert not result.head(2).equals(alone)  # now k is the common word
            assert others["distinctiveness"].null_count() == 0
        else:
            assert result.head(2).equals(alone)
            assert others["distinctiveness"].null_count() == 3
            assert others["distinctiveness_reason"].null_count() == 3


def test_statistics_never_cross_a_tenant() -> None:
    words = [f"word{n}" for n in range(19)]
    one = [{"id": f"a{n}", "text": " ".join(["common", *words])} for n in range(3)]
    named = [{"id": f"b{n}", "tenant": "b", "text": " ".join(["other", *words])} for n in range(2)]
    alone = score(entries(*one))
    both = score(entries(*one, *named))
    assert both.head(3).equals(alone)
    # 20 words each: one may be common, and it is the first by code point among equals.
    assert both["distinctiveness"].to_list() == [0.95] * 5
    # In one tenant the same rows have another common word.
    mixed = score(entries(*one, *({**row, "tenant": None} for row in named), {"id": "c", "text": "other"}))
    assert mixed["distinctiveness"].to_list()[-1] == 1.0
    assert score(entries(*named, {"id": "c", "tenant": "b", "text": "word0"}))["distinctiveness"].to_list()[-1] == 0.0


def test_the_largest_whole_number_of_common_words_below_the_share() -> None:
    words = [f"w{n:03d}" for n in range(100)]
    found = corpus([*words, " ".join(words)])
    for share, common in ((0.29, 29), (0.07, 7), (0.055, 5), (0.0, 0), (1.0, 100)):
        result = score(found, max_common_share=share)
        assert result["distinctiveness"].to_list()[-1] == pytest.approx(1 - common / 100)
        assert result["distinctiveness"].to_list()[:100] == [0.0] * common + [1.0] * (100 - common)


def test_an_empty_corpus() -> None:
    assert score(schemas.ENTRIES.empty()).is_empty()


def test_the_corpus_version_names_the_live_texts() -> None:
    one, two = corpus(["a b", "c d"]), corpus(["a b", "c d"])[[1, 0]]
    assert corpus_version(one) == corpus_version(two)
    changed = one.with_columns(content_hash=pl.Series(["x", "y"]))
    assert corpus_version(changed) != corpus_version(one)
    archived = one.with_columns(state=pl.Series(["active", "archived"]))
    assert corpus_version(archived) != corpus_version(one)
    assert corpus_version(archived) == corpus_version(one.head(1))


TEXTS = st.lists(st.text(alphabet="abcdeß Éé數據.-", max_size=30), min_size=1, max_size=12)


@settings(max_examples=30, deadline=None)
@given(TEXTS, st.floats(0, 1), st.integers(0, 6), st.randoms(use_true_random=False))
def test_scores_stay_in_range_and_the_order_of_rows_is_irrelevant(
    texts: list[str], share: float, most: int, random: Any
) -> None:
    found = corpus(texts)
    limits = {"max_common_share": share, "max_common_tokens": most}
    result = score(found, **limits)
    assert result["entry_id"].to_list() == found["entry_id"].to_list()
    scored = result.filter(pl.col("token_count") > 0)
    assert scored["distinctiveness"].is_between(0, 1).all()
    assert scored["distinctiveness"].null_count() == 0
    assert result.filter(pl.col("token_count") == 0)["distinctiveness"].null_count() == result.height - scored.height
    order = list(range(len(texts)))
    random.shuffle(order)
    assert score(found[order], **limits).sort("entry_id").equals(result)
    assert score(found, **limits).equals(result)


@settings(max_examples=20, deadline=None)
@given(TEXTS, st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_of_common_words_never_raises_a_score(texts: list[str], low: float, high: float) -> None:
    found = corpus(texts)
    few = score(found, max_common_share=min(low, high))["distinctiveness"].fill_null(0)
    many = score(found, max_common_share=max(low, high))["distinctiveness"].fill_null(0)
    assert (many <= few).all()
