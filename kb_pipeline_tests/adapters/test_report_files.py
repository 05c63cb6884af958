"""Report files: where they go, that they appear whole, and what happens when they cannot be written."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from kb_pipeline.adapters.report_files import write_week
from kb_pipeline.errors import UsageError
from kb_pipeline_tests.stages.week_frames import HEADER, empty_week, week_frames

NAMES = {
    "memory-health-report.yaml",
    "memory-revalidation-report.yaml",
    "memory-conflicts.yaml",
    "memory-pruning-plan.yaml",
    "memory-review-queue.yaml",
    "duplicate-pairs.yaml",
    "health-report.html",
}


def test_all_files_of_a_week(tmp_path: Path) -> None:
    paths = write_week(week_frames(), tmp_path)
    folder = tmp_path / "harbor" / "2026-11-16"
    assert {path.name for path in paths} == NAMES
    assert {path.name for path in folder.iterdir()} == NAMES
    for path in paths:
        if path.suffix == ".yaml":
            loaded = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
            assert loaded == week_frames().documents()[path.name]


def test_same_week_written_again_is_byte_equal(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_week(week_frames(), tmp_path)}
    again = {path.name: path.read_bytes() for path in write_week(week_frames(), tmp_path)}
    other = {
        path.name: path.read_bytes()
        for path in write_week(week_frames(header=replace(HEADER, status="degraded")), tmp_path)
    }
    assert first == again
    assert all(first[name] != other[name] for name in NAMES)


def test_week_without_entries_has_all_files(tmp_path: Path) -> None:
    assert {path.name for path in write_week(empty_week(), tmp_path)} == NAMES


def test_a_file_in_the_way_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "harbor").write_text("not a folder")
    with pytest.raises(UsageError, match=r"harbor.*--out") as caught:
        write_week(week_frames(), tmp_path)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("corpus", ["..", ".", "", "a/b", "a\\b"])
def test_a_corpus_that_is_no_folder_name_is_refused(tmp_path: Path, corpus: str) -> None:
    with pytest.raises(UsageError, match="cannot name a folder"):
        write_week(week_frames(header=replace(HEADER, corpus=corpus)), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@contextmanager
def full_disk(free_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: what a full disk does, by the kernel itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_leaves_the_old_files(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in write_week(week_frames(), tmp_path)}
    changed = week_frames(header=replace(HEADER, status="degraded"))
    with full_disk(20_000), pytest.raises(UsageError, match=r"cannot be written.*--out"):
        write_week(changed, tmp_path)
    folder = tmp_path / "harbor" / "2026-11-16"
    assert {path.name for path in folder.iterdir()} == NAMES
    assert {path: path.read_bytes() for path in before} == before
    after = {path: path.read_bytes() for path in write_week(changed, tmp_path)}
    assert after != before
