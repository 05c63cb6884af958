"""Calibration of an encoder (ledger K16): thresholds at which it errs as rarely as the default model at its own.

Belongs here: measuring two models on the same labelled pairs. An error is a pair that a reader calls no duplicate and
that lies at or above the threshold. Only pairs that the guards of the search let pass count: equal texts of two scopes are
no fault of a model. Nothing here knows Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline.adapters.judges.rule import RuleJudge
from kb_pipeline.adapters.labelled_pairs import LabelledPairs
from kb_pipeline.defs.judged_pairs import decide_pairs, encode_pairs, pair_similarities
from kb_pipeline.errors import EncoderError, LabelledPairsError
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.evaluation import threshold_as_rare, wilson
from kb_pipeline.vocabulary import Band, PairLabel

if TYPE_CHECKING:
    from kb_pipeline.adapters.encoder import Encoder

Floats = npt.NDArray[np.float64]

MIN_DISTINCT_COUNT = 100
"""Fewer pairs that are no duplicates say nothing about how rarely a model errs."""

MIN_DUPLICATE_COUNT = 20
"""Fewer duplicates do not tell whether the thresholds leave anything to find."""

MIN_REFERENCE_ERRORS = 5
"""So often the default model must err above each of its thresholds: a rate of nothing cannot be matched."""


@dataclass(frozen=True)
class BandRate:
    """One threshold of one model: pairs at or above it among those that are no duplicates, and among those that are."""

    threshold: float
    errors: int
    found: int


@dataclass(frozen=True)
class CalibrationResult:
    """What was measured: for ``merge`` and ``borderline`` the default model's rate and that of the new one."""

    distinct_count: int
    duplicate_count: int
    reference: dict[str, BandRate]
    model: dict[str, BandRate]

    @property
    def merge(self) -> float:
        """The new merge threshold (K7), 0-1."""
        return self.model["merge"].threshold

    @property
    def borderline(self) -> float:
        """The new borderline threshold (K8), 0-1."""
        return self.model["borderline"].threshold

    def document(self) -> dict[str, Any]:
        """All of it for --json."""
        both = {"reference": self.reference, "calibrated": self.model}
        return {"distinct_pairs": self.distinct_count, "duplicate_pairs": self.duplicate_count} | {
            who: {band: self._rates(rate) for band, rate in rates.items()} for who, rates in both.items()
        }

    def lines(self, reference: str, model: str) -> Iterator[str]:
        """What a person reads of it, one line a model and threshold."""
        for who, rates in ((reference, self.reference), (model, self.model)):
            for band, rate in rates.items():
                said = self._rates(rate)
                low, high = said["error_rate_low"], said["error_rate_high"]
                yield (
                    f"{who}, {band} {rate.threshold:g}: wrong {rate.errors} = {said['error_rate']:.3f} "
                    f"[{low:.3f}-{high:.3f}], duplicates found {rate.found} = {said['recall']:.3f}"
                )

    def _rates(self, rate: BandRate) -> dict[str, Any]:
        low, high = wilson(rate.errors, self.distinct_count) or (0.0, 1.0)
        return {
            "threshold": rate.threshold,
            "errors": rate.errors,
            "error_rate": round(rate.errors / self.distinct_count, 4),
            "error_rate_low": round(low, 4),
            "error_rate_high": round(high, 4),
            "duplicates_found": rate.found,
            "recall": round(rate.found / self.duplicate_count, 4),
        }


def calibrate_model(
    file: Path,
    labelled: LabelledPairs,
    policy: Policy,
    reference: Encoder,
    model: Encoder,
    progress: Callable[[int, int], None] | None = None,
) -> CalibrationResult:
    """Thresholds of ``model`` at which it errs as rarely on these pairs as ``reference`` does at its own.

    Args:
        file: where the pairs come from, for errors.
        labelled: the pairs.
        policy: guards of the search.
        reference: a model with a calibration record.
        model: the model to be calibrated; its own thresholds are not read.
        progress: told the windows done and the windows in all.

    Raises:
        LabelledPairsError: there are too few pairs to measure anything.
        EncoderError: no threshold holds back as many pairs as the reference does.
    """
    guarded, _ = decide_pairs(labelled, policy, RuleJudge(script), None)
    # Equal texts are found by their keys, under any model.
    counted = (guarded["is_candidate"] & (guarded["band"] != Band.EXACT)).to_numpy()
    is_duplicate = (guarded["label"] == PairLabel.MERGE).to_numpy()
    distinct, duplicates = counted & ~is_duplicate, counted & is_duplicate
    _require(file, "pairs that are no duplicates", MIN_DISTINCT_COUNT, int(distinct.sum()))
    _require(file, "pairs that are duplicates, though not of equal text,", MIN_DUPLICATE_COUNT, int(duplicates.sum()))

    known, own = (_similarities(labelled, encoder, progress) for encoder in (reference, model))
    told = {"merge": reference.calibration.merge, "borderline": reference.calibration.borderline}
    before = {band: _rate(limit, known, distinct, duplicates) for band, limit in told.items()}
    after = {}
    for band, rate in before.items():
        what = f"pairs that are no duplicates reach similarity {rate.threshold:g} under {reference.name}"
        _require(file, what, MIN_REFERENCE_ERRORS, rate.errors)
        threshold = threshold_as_rare(own[distinct], rate.errors)
        if threshold is None:
            raise EncoderError(
                f"encoder {model.name}: no similarity holds back as many of these pairs as {reference.name} does at "
                f"{rate.threshold:g}; the model cannot be used to find duplicates."
            )
        after[band] = _rate(threshold, own, distinct, duplicates)
    return CalibrationResult(int(distinct.sum()), int(duplicates.sum()), before, after)


def _similarities(labelled: LabelledPairs, encoder: Encoder, progress: Callable[[int, int], None] | None) -> Floats:
    """float64 [pairs]; NaN without vectors. Rounded as the search rounds them."""
    values = pair_similarities(labelled, *encode_pairs(labelled, encoder, progress))
    return pl.Series(values, dtype=pl.Float64).clip(-1.0, 1.0).round(5).fill_null(float("nan")).to_numpy()


def _rate(threshold: float, similarities: Floats, distinct: Any, duplicates: Any) -> BandRate:
    passes = np.nan_to_num(similarities, nan=-1.0) >= threshold
    return BandRate(threshold, int((passes & distinct).sum()), int((passes & duplicates).sum()))


def _require(file: Path, what: str, needed: int, found: int) -> None:
    if found < needed:
        raise LabelledPairsError.too_few(file, what, needed, found)
