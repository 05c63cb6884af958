"""A tiny sentence-transformers model, built in code: a real model path for tests without any download.

Belongs here: one small static model. Words are split into pairs of characters, each with a vector drawn from its own
hash, and a text's vector is the mean of its pairs. So texts that share most words are close, a changed number moves
little, and other words move a lot; the meaning of words plays no part.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from pathlib import Path

import numpy as np

from kb_pipeline.adapters.encoder_models import CALIBRATION_FILE, weights_sha256

MODEL_ID = "tiny"
DIMENSION = 64
_COMMON_WORDS = tuple(
    re.findall(
        r"\w+",
        "a an and are as at be been by can do for from has have if in into is it its not of on or so than that the "
        "their then this to use used was we were when which will with you your",
    )
)
_COMMON_WEIGHT = 0.15


def build_tiny_model(
    path: Path, *, merge: float = 0.92, borderline: float = 0.85, seed: str = "tiny", calibrated: bool = True
) -> str:
    """Saves the model under ``path`` and returns the name to give to ``load_encoder`` or policy ``encoder.model``.

    Another ``seed`` gives another model of the same dimension; ``calibrated=False`` leaves the record out.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    letters = string.ascii_lowercase + string.digits
    pairs = [left + right for left in letters for right in letters]
    vocabulary = [
        "[UNK]",
        *_COMMON_WORDS,
        *(pair for pair in pairs if pair not in _COMMON_WORDS),
        *(letter for letter in letters if letter not in _COMMON_WORDS),
        *(f"##{pair}" for pair in pairs),
        *(f"##{letter}" for letter in letters),
        *string.punctuation,
    ]
    tokenizer = Tokenizer(models.WordPiece({piece: index for index, piece in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    weights = np.stack([_vector(piece, seed) for piece in vocabulary])
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu").save(
        str(path), create_model_card=False
    )
    if calibrated:
        record = {
            "model_id": MODEL_ID if seed == "tiny" else f"{MODEL_ID}-{seed}",
            "weights_sha256": weights_sha256(path),
            "merge": merge,
            "borderline": borderline,
        }
        (path / CALIBRATION_FILE).write_text(json.dumps(record), encoding="utf-8")
    return str(path)


def _vector(piece: str, seed: str) -> np.ndarray:
    """float32 [DIMENSION]: a direction from the hash of the piece; short for common words and punctuation."""
    number = int.from_bytes(hashlib.sha256(f"{seed} {piece}".encode()).digest()[:8], "big")
    vector = np.random.default_rng(number).standard_normal(DIMENSION)
    vector /= np.linalg.norm(vector)
    is_small = piece in _COMMON_WORDS or piece in string.punctuation
    return np.asarray(vector * (_COMMON_WEIGHT if is_small else 1.0), dtype=np.float32)
