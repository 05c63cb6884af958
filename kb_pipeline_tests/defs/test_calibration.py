"""Thresholds of another model: as rarely wrong as the first one's, refused where the pairs do not tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline.adapters.encoder import Encoder, load_encoder, load_for_calibration
from kb_pipeline.adapters.encoder_models import find_model, find_uncalibrated, write_calibration
from kb_pipeline.adapters.labelled_pairs import LabelledPairs
from kb_pipeline.defs.calibration import CalibrationResult, calibrate_model
from kb_pipeline.errors import EncoderError, LabelledPairsError
from kb_pipeline.policy.load import load_policy
from kb_pipeline_tests.fakes.labelled import gold, labelled
from kb_pipeline_tests.fakes.tiny_encoder import build_tiny_model

FILE = Path("pairs.jsonl")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return load_encoder(build_tiny_model(tmp_path_factory.mktemp("reference") / "m", merge=0.9, borderline=0.8))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    path = build_tiny_model(tmp_path_factory.mktemp("other") / "m", seed="other", calibrated=False)
    return load_for_calibration(find_uncalibrated(path, "other"))


def calibrated(reference: Encoder, model: Encoder, pairs: LabelledPairs | None = None) -> CalibrationResult:
    return calibrate_model(FILE, pairs or gold(), load_policy(), reference, model)


def test_the_other_model_errs_as_rarely(reference: Encoder, other: Encoder) -> None:
    found = calibrated(reference, other)
    assert found.distinct_count >= 150 and found.duplicate_count >= 50
    for band in ("merge", "borderline"):
        told, own = found.reference[band], found.model[band]
        assert told.threshold == getattr(reference.calibration, band)
        assert own.errors <= told.errors
        # And no rarer than it must be: ties aside, just as often.
        assert own.errors >= told.errors - 3
    assert 0 < found.borderline <= found.merge <= 1
    assert (found.borderline, found.merge) != (0.8, 0.9)


def test_a_model_measured_against_itself_gets_its_own_thresholds_back(reference: Encoder) -> None:
    found = calibrated(reference, reference)
    for band, own in found.model.items():
        assert own.threshold == pytest.approx(found.reference[band].threshold, abs=0.02)
        assert own.errors == found.reference[band].errors


def test_pairs_that_guards_keep_apart_and_equal_texts_do_not_count(
    reference: Encoder, other: Encoder, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "a": {"body": f"Dock {n} is dry.", "module": "m"},
            "b": {"body": f"Dock {n} is dry.", "module": "n"},
            "label": "KEEP_BOTH",
        }
        for n in range(150)
    ]
    with pytest.raises(LabelledPairsError, match="0 pairs that are no duplicates, and 100 are needed"):
        calibrated(reference, other, labelled(tmp_path / "p.jsonl", *rows))


def distinct(count: int) -> list[dict[str, Any]]:
    text = "The hoist beside the outer quay was inspected, greased and found to be sound under entry {} of its log."
    return [{"a": text.format(n), "b": text.format(n + 5000), "label": "KEEP_BOTH"} for n in range(count)]


def same(count: int) -> list[dict[str, Any]]:
    return [{"a": f"Dock {n} is dry.", "b": f"It is dry in dock {n}.", "label": "MERGE"} for n in range(count)]


def test_too_few_pairs_are_refused(reference: Encoder, other: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    with pytest.raises(LabelledPairsError, match="99 pairs that are no duplicates, and 100"):
        calibrated(reference, other, labelled(path, *distinct(99), *same(30)))
    with pytest.raises(LabelledPairsError, match="19 pairs that are duplicates"):
        calibrated(reference, other, labelled(path, *distinct(120), *same(19)))
    unlike = [
        {"a": f"Dock {n} is dry.", "b": "Quite another matter altogether", "label": "KEEP_BOTH"} for n in range(100)
    ]
    with pytest.raises(LabelledPairsError, match=r"0 pairs that are no duplicates reach similarity 0\.9 under tiny"):
        calibrated(reference, other, labelled(path, *unlike, *same(30)))
    assert calibrated(reference, other, labelled(path, *distinct(100), *same(20))).distinct_count == 100


def test_a_record_that_was_written_is_the_one_that_a_run_reads(tmp_path: Path) -> None:
    path = build_tiny_model(tmp_path / "m", calibrated=False)
    with pytest.raises(EncoderError, match="no calibrated thresholds"):
        find_model(path)
    files = find_uncalibrated(path, "ours")
    written = write_calibration(files, merge=0.9, borderline=0.7)
    assert sorted(json.loads(written.read_text("utf-8"))) == ["borderline", "merge", "model_id", "weights_sha256"]
    found = find_model(path)
    assert (found.calibration.model_id, found.calibration.merge, found.calibration.borderline) == ("ours", 0.9, 0.7)
    # The record is no part of the model: vectors made before it are those of the model still.
    assert found.digest == files.digest
    assert not list(Path(path).glob("*.part"))


@pytest.mark.parametrize(("merge", "borderline"), [(0.7, 0.9), (1.1, 0.9), (0.5, 0.0)])
def test_thresholds_that_no_record_may_hold_are_not_written(tmp_path: Path, merge: float, borderline: float) -> None:
    path = build_tiny_model(tmp_path / "m", calibrated=False)
    with pytest.raises(EncoderError, match="expected 0 < borderline"):
        write_calibration(find_uncalibrated(path, "ours"), merge=merge, borderline=borderline)
    assert not (Path(path) / "kb_calibration.json").exists()


@pytest.mark.parametrize("name", ["", " ", "a@b", "all-MiniLM-L6-v2"])
def test_names_that_a_model_cannot_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(EncoderError, match="cannot be used"):
        find_uncalibrated(build_tiny_model(tmp_path / "m", calibrated=False), name)
    with pytest.raises(EncoderError, match="ships with kb_pipeline"):
        find_uncalibrated("minilm", "ours")
