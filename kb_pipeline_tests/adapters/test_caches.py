"""Caches: what was made once is found again, by text and by maker, and never for another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb_pipeline.adapters.caches import (
    in_batches,
    known_vectors,
    read_text_keys,
    read_vectors,
    read_verdicts,
    write_text_keys,
    write_vectors,
    write_verdicts,
)
from kb_pipeline_tests.fakes.corpus import Corpus


@pytest.fixture
def texts(corpus: Corpus) -> dict[str, str]:
    """Content hashes of four entries; each test has texts of its own, because caches are shared."""
    corpus.load(*({"id": letter, "body": f"{corpus.name}: text of {letter}"} for letter in "abcd"))
    return {name: row["content_hash"] for name, row in corpus.rows().items()}


def unit(rows: int, dimension: int = 3, seed: int = 0) -> npt.NDArray[np.float32]:
    made = np.random.default_rng(seed).normal(size=(rows, dimension))
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def counts(corpus: Corpus, model: str = "m1") -> dict[str, int]:
    return dict(known_vectors(corpus.database, corpus.name, model).iter_rows())


def test_vectors_come_back_bit_by_bit_in_the_order_asked_for(corpus: Corpus, texts: dict[str, str]) -> None:
    hashes = [texts[letter] for letter in "abc"]
    made = unit(5)
    # a has two windows, b none, c three; the rows are not in order of their owners.
    owner = np.array([2, 0, 2, 0, 2])
    assert counts(corpus) == {}
    write_vectors(corpus.database, "m1", hashes, made, owner)
    assert counts(corpus) == {texts["a"]: 2, texts["b"]: 0, texts["c"]: 3}
    asked = pl.Series([texts["c"], texts["b"], texts["a"], texts["c"], texts["d"]])
    vectors, found = read_vectors(corpus.database, corpus.name, "m1", asked)
    assert found.tolist() == [0, 0, 0, 2, 2, 3, 3, 3]
    assert vectors.dtype == np.float32
    windows_c, windows_a = made[[0, 2, 4]], made[[1, 3]]
    assert np.array_equal(vectors, np.concatenate([windows_c, windows_a, windows_c]))


def test_vectors_of_another_model_never_meet(corpus: Corpus, texts: dict[str, str]) -> None:
    hashes = [texts["a"], texts["b"]]
    write_vectors(corpus.database, "m1", hashes, unit(2, seed=1), np.array([0, 1]))
    write_vectors(corpus.database, "m2", hashes[:1], unit(1, seed=2), np.array([0]))
    assert counts(corpus, "m2") == {texts["a"]: 1}
    vectors, owner = read_vectors(corpus.database, corpus.name, "m2", pl.Series(hashes))
    assert (vectors.shape, owner.tolist()) == ((1, 3), [0])
    assert np.array_equal(vectors, unit(1, seed=2))
    assert read_vectors(corpus.database, corpus.name, "m3", pl.Series(hashes))[0].shape[0] == 0


def test_vectors_of_another_corpus_are_not_looked_at(corpus: Corpus, texts: dict[str, str]) -> None:
    other = Corpus(corpus.url, corpus.name + "-other")
    other.load({"id": "x", "body": "text of x alone"}, {"id": "a", "body": f"{corpus.name}: text of a"})
    alone = other.rows()["x"]["content_hash"]
    assert other.rows()["a"]["content_hash"] == texts["a"]
    write_vectors(corpus.database, "m4", [texts["a"], alone], unit(2), np.array([0, 1]))
    assert counts(corpus, "m4") == {texts["a"]: 1}
    # The same text is encoded once for both.
    assert counts(other, "m4") == {texts["a"]: 1, alone: 1}


def test_what_is_there_already_stays(corpus: Corpus, texts: dict[str, str]) -> None:
    first, second = unit(1, seed=1), unit(1, seed=2)
    for made in (first, second):
        write_vectors(corpus.database, "m1", [texts["a"]], made, np.array([0]))
    vectors, _ = read_vectors(corpus.database, corpus.name, "m1", pl.Series([texts["a"]]))
    assert np.array_equal(vectors, first)


def test_nothing_to_write_or_read(corpus: Corpus, texts: dict[str, str]) -> None:
    none = np.empty((0, 3), dtype=np.float32), np.empty(0, dtype=np.int64)
    write_vectors(corpus.database, "m1", [], *none)
    assert counts(corpus) == {}
    write_vectors(corpus.database, "m1", [texts["a"]], *none)
    assert counts(corpus) == {texts["a"]: 0}
    vectors, owner = read_vectors(corpus.database, corpus.name, "m1", pl.Series([texts["a"]]))
    assert (vectors.shape[0], owner.tolist()) == (0, [])
    vectors, owner = read_vectors(corpus.database, corpus.name, "m1", pl.Series([], dtype=pl.String))
    assert (vectors.shape[0], owner.tolist()) == (0, [])


def test_old_texts_of_an_entry_keep_their_vectors(corpus: Corpus, texts: dict[str, str]) -> None:
    write_vectors(corpus.database, "m1", [texts["a"]], unit(1), np.array([0]))
    corpus.load({"id": "a", "body": "another text"})
    assert counts(corpus) == {texts["a"]: 1}


def test_text_keys_come_back_for_their_version_alone(corpus: Corpus, texts: dict[str, str]) -> None:
    made = pl.DataFrame(
        {
            "content_hash": [texts["a"], texts["b"]],
            "exact_key": ["x", None],
            "merge_key": [None, "m"],
            "secret_kinds": [["aws_key", 'odd "kind"'], []],
            "addresses_judge": [True, False],
        },
        schema={
            "content_hash": pl.String, "exact_key": pl.String, "merge_key": pl.String,
            "secret_kinds": pl.List(pl.String), "addresses_judge": pl.Boolean,
        },
    ).sort("content_hash")  # fmt: skip
    assert read_text_keys(corpus.database, corpus.name, "v1").is_empty()
    assert read_text_keys(corpus.database, corpus.name, "v1").schema == made.schema
    write_text_keys(corpus.database, "v1", made)
    write_text_keys(corpus.database, "v1", made)
    assert read_text_keys(corpus.database, corpus.name, "v1").select(made.columns).sort("content_hash").equals(made)
    assert read_text_keys(corpus.database, corpus.name, "v2").is_empty()
    write_text_keys(corpus.database, "v2", made.with_columns(exact_key=pl.lit("new")))
    assert set(read_text_keys(corpus.database, corpus.name, "v2")["exact_key"]) == {"new"}
    assert set(read_text_keys(corpus.database, corpus.name, "v1")["exact_key"]) == {"x", None}


def test_verdicts_come_back_for_their_judge_and_kinds(corpus: Corpus, texts: dict[str, str]) -> None:
    made = pl.DataFrame(
        {
            "content_hash_l": [texts["a"], texts["a"]],
            "content_hash_r": [texts["b"], texts["b"]],
            "kind_l": ["fact", "fact"],
            "kind_r": ["fact", "rule"],
            "verdict": ["MERGE", "KEEP_BOTH"],
            "reason": ["judge.same_rule", "judge.distinct"],
            "judge": ["rule", "rule"],
            "judge_confidence": [0.1 + 0.2, None],
            "explanation": [None, "a comma, a \"quote\" and \\N"],
            "specifics_only_l": [[], ["3 times", "/etc/a.conf"]],
            "specifics_only_r": [[], []],
        },
        schema_overrides={"specifics_only_l": pl.List(pl.String), "specifics_only_r": pl.List(pl.String)},
    )  # fmt: skip
    assert read_verdicts(corpus.database, corpus.name, "j1").is_empty()
    write_verdicts(corpus.database, "j1", made)
    write_verdicts(corpus.database, "j1", made.with_columns(verdict=pl.lit("UNSURE")))
    back = read_verdicts(corpus.database, corpus.name, "j1")
    assert back.select(made.columns).sort("kind_r").equals(made)
    assert back.schema == read_verdicts(corpus.database, corpus.name, "j2").schema
    assert read_verdicts(corpus.database, corpus.name, "j2").is_empty()
    write_verdicts(corpus.database, "j1", made.clear())


def test_batches_cover_everything_once() -> None:
    for count, size in ((0, 3), (1, 3), (3, 3), (7, 3)):
        covered = [number for part in in_batches(count, size) for number in range(count)[part]]
        assert covered == list(range(count))
        assert all(len(range(count)[part]) <= size for part in in_batches(count, size))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 10**9))
def test_any_order_of_windows(corpus: Corpus, texts: dict[str, str], owners: list[int], seed: int) -> None:
    hashes = [texts[letter] for letter in "abcd"]
    model = f"model {seed} {owners}"
    made = unit(len(owners), seed=seed)
    write_vectors(corpus.database, model, hashes, made, np.array(owners, dtype=np.int64))
    vectors, found = read_vectors(corpus.database, corpus.name, model, pl.Series(hashes))
    assert found.tolist() == sorted(owners)
    for text in range(4):
        expected = made[[row for row, own in enumerate(owners) if own == text]]
        assert np.array_equal(vectors[found == text].reshape(expected.shape), expected)
