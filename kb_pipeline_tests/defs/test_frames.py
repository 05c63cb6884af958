"""Frames between steps: whole files or none, of one run, of their schema."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest

from kb_pipeline import schemas
from kb_pipeline.defs.frames import frame_path, frames_folder, read_frame, run_of_frames, write_frame
from kb_pipeline.errors import WeekError
from kb_pipeline.schemas import SchemaError
from kb_pipeline_tests.fakes.frames import entries, frame

WEEK = date(2026, 11, 16)
ENTRIES = entries({"id": "a"}, {"id": "b"})
PAIRS = frame(schemas.PAIRS, [{"entry_id_l": "a", "entry_id_r": "b", "similarity": 0.93}])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KB_HOME", str(tmp_path / "my home"))
    return tmp_path / "my home"


def store(name: str, content: pl.DataFrame, run_id: str = "r1", corpus: str = "acme") -> Path:
    return write_frame(content, name, corpus, WEEK, run_id)


@pytest.mark.parametrize("corpus", ["acme", "a.b-c_D", "X", "9" * 100, "with..dots", "2026-11-16"])
def test_a_frame_comes_back_as_it_was(home: Path, corpus: str) -> None:
    store("knowledge_entries", ENTRIES, corpus=corpus)
    path = store("duplicate_pairs", PAIRS, corpus=corpus)
    assert path == home / "frames" / "duplicate_pairs" / corpus / "2026-11-16.parquet"
    assert read_frame("duplicate_pairs", corpus, WEEK).equals(PAIRS)
    assert read_frame("knowledge_entries", corpus, WEEK).schema == schemas.ENTRIES.polars
    assert run_of_frames(corpus, WEEK) == "r1"


def test_an_empty_frame_keeps_its_columns() -> None:
    store("knowledge_entries", schemas.ENTRIES.empty())
    store("duplicate_pairs", schemas.PAIRS.empty())
    assert read_frame("duplicate_pairs", "acme", WEEK).schema == schemas.PAIRS.polars


def test_a_frame_that_does_not_fit_is_not_written() -> None:
    store("knowledge_entries", ENTRIES)
    store("duplicate_pairs", PAIRS)
    before = frame_path("duplicate_pairs", "acme", WEEK).read_bytes()
    for wrong, message in (
        (PAIRS.drop("band"), "missing columns"),
        (PAIRS.with_columns(pl.lit(None, pl.String).alias("band")), "holds 1 nulls"),
        (pl.concat([PAIRS, PAIRS]), "repeat the key"),
        (PAIRS.cast({"similarity": pl.Float32}), "expected Float64"),
    ):
        with pytest.raises(SchemaError, match=message):
            store("duplicate_pairs", wrong)
    assert frame_path("duplicate_pairs", "acme", WEEK).read_bytes() == before


def test_a_frame_of_an_older_schema_is_not_read() -> None:
    store("knowledge_entries", ENTRIES)
    path = store("duplicate_pairs", PAIRS)
    PAIRS.drop("band").write_parquet(path, metadata={"kb_run_id": "r1"})
    with pytest.raises(SchemaError, match="missing columns \\['band'\\]"):
        read_frame("duplicate_pairs", "acme", WEEK)


def test_a_write_that_fails_leaves_the_old_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    store("knowledge_entries", ENTRIES)
    store("duplicate_pairs", PAIRS)
    folder = frame_path("duplicate_pairs", "acme", WEEK).parent

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(pl.DataFrame, "write_parquet", full)
        with pytest.raises(OSError, match="No space left"):
            store("duplicate_pairs", PAIRS.clear())
    assert [path.name for path in folder.iterdir()] == ["2026-11-16.parquet"]
    assert read_frame("duplicate_pairs", "acme", WEEK).equals(PAIRS)
    store("duplicate_pairs", PAIRS.clear())
    assert read_frame("duplicate_pairs", "acme", WEEK).is_empty()


def test_frames_of_two_runs_do_not_mix() -> None:
    store("knowledge_entries", ENTRIES, "r1")
    store("duplicate_pairs", PAIRS, "r1")
    store("knowledge_entries", ENTRIES, "r2")
    with pytest.raises(
        WeekError, match=r"duplicate_pairs of week 2026-11-16 of corpus 'acme' is of run r1, and .* run r2"
    ):
        read_frame("duplicate_pairs", "acme", WEEK)
    store("duplicate_pairs", PAIRS, "r2")
    assert read_frame("duplicate_pairs", "acme", WEEK).equals(PAIRS)


def test_weeks_and_corpora_have_frames_of_their_own() -> None:
    store("knowledge_entries", ENTRIES, "r1")
    write_frame(ENTRIES.head(1), "knowledge_entries", "acme", date(2026, 11, 23), "r2")
    store("knowledge_entries", ENTRIES.head(1), "r3", corpus="acme2")
    assert read_frame("knowledge_entries", "acme", WEEK).height == 2
    assert run_of_frames("acme", date(2026, 11, 23)) == "r2"
    assert run_of_frames("acme2", WEEK) == "r3"


def test_a_missing_frame_says_what_to_do() -> None:
    with pytest.raises(
        WeekError, match=r"knowledge_entries of week 2026-11-16 of corpus 'acme' is not there .* materialize"
    ):
        run_of_frames("acme", WEEK)
    store("knowledge_entries", ENTRIES)
    with pytest.raises(WeekError, match=f"duplicate_pairs .* is not there .*{frames_folder().name}"):
        read_frame("duplicate_pairs", "acme", WEEK)
