"""Whether agents are right as often as they say: the expected calibration error of stated confidences.

The definition is that of Naeini, Cooper and Hauskrecht ("Obtaining Well Calibrated Probabilities Using Bayesian
Binning", AAAI 2015), with bins of equal width, in points of 0 to 100:

    error = sum over bins b of  n_b / n * |accuracy_b - confidence_b|

n_b answers are in bin b; accuracy_b is their mean score and confidence_b their mean confidence. Where an agent is too
sure in every bin the error is mean confidence - accuracy, however many bins there are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from cts_async.analysis.board import Array

N_BINS: Final = 5
"""Bins of 20 points: a run of InteractComp has 210 answers, and more bins would have too few of them for a mean."""
_WIDTH: Final = 100 / N_BINS


@dataclass(frozen=True, slots=True)
class ConfidenceBin:
    """The answers whose confidence is in [low, high), and 100 in the last bin."""

    low: float
    high: float
    n: int
    confidence: float
    """Mean."""
    accuracy: float
    """Mean score, 0 to 100."""


@dataclass(frozen=True, slots=True)
class ConfidenceCalibration:
    """The confidences stated with the scored answers of a run."""

    n_answers: int
    n_stated: int
    confidence: float | None
    """Mean of those that were stated, 0 to 100; None without any, as the following."""
    accuracy: float | None
    """Mean score of the answers that state one."""
    error: float | None
    bins: tuple[ConfidenceBin, ...]
    """Without the empty ones."""

    @property
    def unstated_share(self) -> float:
        """The share of the scored answers that state no confidence; they are in no bin."""
        if not self.n_answers:
            return 0.0
        return 1 - self.n_stated / self.n_answers

    def as_json(self) -> dict[str, Any]:
        """The fields of JSON outputs."""
        return {
            "n_answers": self.n_answers,
            "n_stated": self.n_stated,
            "unstated_share": self.unstated_share,
            "mean": self.confidence,
            "accuracy": self.accuracy,
            "calibration_error": self.error,
            "bins": [asdict(confidence_bin) for confidence_bin in self.bins],
        }


def calibrate_confidence(confidences: Array, scores: Array) -> ConfidenceCalibration:
    """Compare confidences with scores, both 0 to 100 and of the same shape; NaN where there is none.

    An answer without a score does not count.
    """
    scored = ~np.isnan(scores)
    stated = scored & ~np.isnan(confidences)
    confidences, scores = confidences[stated], scores[stated]
    n = len(scores)
    if not n:
        return ConfidenceCalibration(int(scored.sum()), 0, None, None, None, ())
    bin_numbers = np.minimum((confidences // _WIDTH).astype(int), N_BINS - 1)
    bins: list[ConfidenceBin] = []
    error = 0.0
    for number in range(N_BINS):
        inside = bin_numbers == number
        n_inside = int(inside.sum())
        if not n_inside:
            continue
        confidence, accuracy = float(confidences[inside].mean()), float(scores[inside].mean())
        bins.append(ConfidenceBin(number * _WIDTH, (number + 1) * _WIDTH, n_inside, confidence, accuracy))
        error += n_inside / n * abs(accuracy - confidence)
    return ConfidenceCalibration(
        n_answers=int(scored.sum()),
        n_stated=n,
        confidence=float(confidences.mean()),
        accuracy=float(scores.mean()),
        error=error,
        bins=tuple(bins),
    )
