"""Turns texts into unit vectors with a sentence-transformers model that lies on this machine (ledger K6, K16).

Belongs here: windows, batches, precision, and the fingerprint that keys the vector cache. Does not belong here: the
cache, similarities and thresholds in use (the stages take them from ``Encoder.calibration``). No network is ever asked.

Windows: a text of n word pieces is encoded in windows of ``WINDOW_PIECES`` that start every ``STRIDE_PIECES``; the last
one reaches the end, so nothing is cut. Windows begin and end between words. A text has no row at all when the model
finds nothing in it to encode (no pieces, or only unknown ones): then its owner is absent and it is similar to nothing,
where one shared "unknown" vector would make all such texts equal.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from kb_pipeline.adapters.encoder_models import MINILM, Calibration, ModelFiles, find_model
from kb_pipeline.errors import EncoderError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Encoding, Tokenizer

WINDOW_PIECES = 254
STRIDE_PIECES = 192

_VERSION = "windows-1"
"""Part of the fingerprint: changes when texts are cut or vectors are made in another way."""

_TOKENIZED_AT_ONCE = 1_000

_CPU_INFO = Path("/proc/cpuinfo")
_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})

Progress = Callable[[int, int], None]
"""Called with the windows done and the windows in all."""

Vectors = npt.NDArray[np.float32]
Owners = npt.NDArray[np.int64]


class Encoder(Protocol):
    """A model in use. ``fingerprint`` keys cached vectors: equal fingerprints mean comparable vectors."""

    @property
    def name(self) -> str:
        """Model id, as it stands in reports and in the calibration record."""

    @property
    def fingerprint(self) -> str:
        """Model id, files and window settings; the precision of the processor is no part of it."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def calibration(self) -> Calibration:
        """The thresholds that belong to this model."""

    def window_count(self, text: str) -> int:
        """Rows that ``encode`` gives for ``text``; 0 when there is nothing to encode."""

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> tuple[Vectors, Owners]:
        """Vectors of all windows of all texts.

        Returns:
            ``vectors`` float32 [W, d], every row of length 1; ``owners`` int64 [W], non-decreasing, the index in
            ``texts`` that the row belongs to. A text without word pieces that the model knows owns no row.
        """


def load_encoder(name_or_path: str = MINILM, batch_size: int = 16) -> Encoder:
    """The encoder of policy ``encoder.model``: ``minilm``, a directory, or a name in the local Hugging Face cache.

    Args:
        name_or_path: which model.
        batch_size: windows encoded at once (policy ``encoder.batch_size``).

    Raises:
        EncoderError: the model is not here, or has no calibrated thresholds (K16). One that is not usable is told of
            when it is loaded, by the first text to encode.
    """
    _prepare_environment()
    return SentenceEncoder(find_model(name_or_path), batch_size)


def load_for_calibration(files: ModelFiles, batch_size: int = 16) -> Encoder:
    """The encoder of a model that has no thresholds yet. Nothing but calibration may compare its vectors (K16)."""
    _prepare_environment()
    return SentenceEncoder(files, batch_size)


def _prepare_environment() -> None:
    # Both must stand before torch and the hub client are imported; waiting threads that spin would slow busy machines.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


@dataclass(frozen=True)
class _Loaded:
    """A model in memory, and how it takes texts: window and stride in word pieces."""

    model: SentenceTransformer
    tokenizer: Tokenizer
    unknown_id: int | None
    window: int
    stride: int


class SentenceEncoder:
    """Any sentence-transformers model with a fast tokenizer, on the CPU.

    Its name, thresholds and fingerprint come from its files alone. The model itself, and torch with it, is loaded when
    there is a text to encode: most runs find all vectors in the cache.
    """

    def __init__(self, files: ModelFiles, batch_size: int) -> None:
        self.calibration = files.calibration
        self.name = files.calibration.model_id
        # The digest covers what a smaller window would follow from: the model's own limit and its prompt.
        identity = json.dumps([_VERSION, self.name, files.digest, WINDOW_PIECES, STRIDE_PIECES])
        self.fingerprint = f"{self.name}@{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        self._files = files
        self._batch_size = batch_size

    @cached_property
    def _loaded(self) -> _Loaded:
        model = _load_model(self._files)
        tokenizer = _own_tokenizer(model, self.name)
        window, stride = _window_sizes(model, tokenizer)
        return _Loaded(model, tokenizer, _unknown_id(tokenizer), window, stride)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._loaded.model.get_embedding_dimension() or 0)

    def window_count(self, text: str) -> int:
        """Rows that ``encode`` gives for ``text``; 0 when there is nothing to encode."""
        return len(self._windows(text, self._pieces([text])[0]))

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> tuple[Vectors, Owners]:
        """Vectors of all windows of all texts; see ``Encoder.encode``."""
        windows: list[str] = []
        lengths: list[int] = []
        owners: list[int] = []
        for start in range(0, len(texts), _TOKENIZED_AT_ONCE):
            part = list(texts[start : start + _TOKENIZED_AT_ONCE])
            for index, (text, pieces) in enumerate(zip(part, self._pieces(part), strict=True), start):
                for window, length in self._windows(text, pieces):
                    windows.append(window)
                    lengths.append(length)
                    owners.append(index)
        vectors = self._encode_windows(windows, lengths, progress)
        norms = np.linalg.norm(vectors, axis=1)
        if not np.isfinite(norms).all():
            raise EncoderError(f"encoder {self.name}: the model gave vectors that are not finite. Check its files.")
        # A model may map known pieces to nothing; a vector without direction is similar to nothing either.
        kept = norms > 0
        return vectors[kept] / norms[kept, None], np.asarray(owners, dtype=np.int64)[kept]

    def _pieces(self, texts: list[str]) -> list[Encoding]:
        return self._loaded.tokenizer.encode_batch(texts, add_special_tokens=False)

    def _windows(self, text: str, pieces: Encoding) -> list[tuple[str, int]]:
        """(text of the window, its word pieces) for every window that holds a piece the model knows."""
        ids, width, stride = pieces.ids, self._loaded.window, self._loaded.stride
        if len(ids) <= width:
            return [(text, len(ids))] if self._is_known(ids) else []
        windows = []
        for start in range(0, len(ids), stride):
            first, end = _between_words(pieces.word_ids, start, min(start + width, len(ids)))
            if self._is_known(ids[first:end]):
                windows.append((text[pieces.offsets[first][0] : pieces.offsets[end - 1][1]], end - first))
            if start + width >= len(ids):
                break
        return windows

    def _is_known(self, ids: Sequence[int]) -> bool:
        return any(piece != self._loaded.unknown_id for piece in ids)

    def _encode_windows(self, windows: list[str], lengths: list[int], progress: Progress | None) -> Vectors:
        """float32 [W, d], not normalised. Equal sets of windows make equal batches, whatever their order."""
        vectors = np.empty((len(windows), self.dimension), dtype=np.float32)
        # Batches of equal length waste nothing on padding.
        order = sorted(range(len(windows)), key=lambda index: (-lengths[index], windows[index]))
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            vectors[batch] = self._loaded.model.encode(
                [windows[index] for index in batch],
                batch_size=self._batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=False,
            )
            if progress is not None:
                progress(start + len(batch), len(order))
        return vectors


def _load_model(files: ModelFiles) -> SentenceTransformer:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # Half as fast again, and cosines of near-duplicates move by no more than 0.002.
    precision: dict[str, Any] = {"model_kwargs": {"dtype": torch.bfloat16}} if _has_bfloat16() else {}
    try:
        model = SentenceTransformer(str(files.path), device="cpu", local_files_only=True, **precision)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise EncoderError(
            f"encoder {files.path}: not usable as a sentence-transformers model ({type(error).__name__}: {error})."
        ) from error
    return model.eval()


def _has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself; elsewhere torch emulates it, slower than float32."""
    import torch

    flags = _CPU_INFO.read_text(encoding="utf-8", errors="replace").split() if _CPU_INFO.exists() else []
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and not _BFLOAT16_FLAGS.isdisjoint(flags)


def _own_tokenizer(model: SentenceTransformer, name: str) -> Tokenizer:
    """A copy of the model's tokenizer that neither cuts nor pads; the model's own stays as it is."""
    from tokenizers import Tokenizer

    tokenizer = model.tokenizer
    backend = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise EncoderError(f"encoder {name}: the model has no fast tokenizer (tokenizer.json), which windows need.")
    copy = Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def _unknown_id(tokenizer: Tokenizer) -> int | None:
    unknown = getattr(tokenizer.model, "unk_token", None)
    if isinstance(unknown, str):
        found: int | None = tokenizer.token_to_id(unknown)
        return found
    return getattr(tokenizer.model, "unk_id", None)


def _window_sizes(model: SentenceTransformer, tokenizer: Tokenizer) -> tuple[int, int]:
    """Window and stride in word pieces: the definition's, or smaller in proportion for a model that takes less."""
    prompt = model.prompts.get(model.default_prompt_name or "", "") or ""
    taken = tokenizer.num_special_tokens_to_add(False) + len(tokenizer.encode(prompt, add_special_tokens=False).ids)
    limit = model.max_seq_length
    window = WINDOW_PIECES if limit is None else int(min(WINDOW_PIECES, limit - taken))
    return window, max(1, window * STRIDE_PIECES // WINDOW_PIECES)


def _between_words(word_ids: Sequence[int | None], first: int, end: int) -> tuple[int, int]:
    """The span [first, end) of pieces, narrowed to whole words where it holds a boundary.

    What is left out at one side lies whole in the neighbouring window, which overlaps by 62 pieces.
    """

    def splits_word(position: int) -> bool:
        inside = 0 < position < len(word_ids)
        return inside and word_ids[position] is not None and word_ids[position] == word_ids[position - 1]

    narrow_first = next((position for position in range(first, end) if not splits_word(position)), first)
    narrow_end = next((position for position in range(end, first, -1) if not splits_word(position)), end)
    return (narrow_first, narrow_end) if narrow_first < narrow_end else (first, end)
