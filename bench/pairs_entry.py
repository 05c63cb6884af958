"""All pairs as plain functions ``f(vectors, min_similarity) -> (i, j, similarity)``, the form that benchmarks call."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kb_pipeline.allpairs.pairs import all_pairs

Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]


def _collected(vectors: npt.NDArray[np.float32], min_similarity: float, engine: str) -> Found:
    blocks = list(all_pairs(vectors, min_similarity, engine=engine))
    if not blocks:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
    return (
        np.concatenate([block.i for block in blocks]),
        np.concatenate([block.j for block in blocks]),
        np.concatenate([block.similarity for block in blocks]),
    )


def search(vectors: npt.NDArray[np.float32], min_similarity: float) -> Found:
    """The exact engine as the pipeline calls it; it loads torch by itself only for very many pairs."""
    return _collected(vectors, min_similarity, "bounded")


def search_beside_encoder(vectors: npt.NDArray[np.float32], min_similarity: float) -> Found:
    """The exact engine in a process in which an encoder has loaded torch already."""
    import torch  # noqa: F401 - its presence is what is measured

    return _collected(vectors, min_similarity, "bounded")


def search_lists(vectors: npt.NDArray[np.float32], min_similarity: float) -> Found:
    """The approximate engine."""
    return _collected(vectors, min_similarity, "faiss_ivf")
