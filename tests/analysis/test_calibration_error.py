"""The expected calibration error, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cts_async.analysis.confidence import ConfidenceBin, calibrate_confidence

NONE = np.nan


def test_error_is_the_weighted_gap_of_each_bin() -> None:
    # [0, 20): 10 and 0, one of two right: |50 - 5| = 45. [20, 40): 20, wrong: 20. [80, 100]: 80, 100, 90, 90, two of
    # four right: |50 - 90| = 40. Of 7 answers: (2 * 45 + 1 * 20 + 4 * 40) / 7 = 270 / 7.
    confidences = np.array([10, 0, 20, 80, 100, 90, 90, NONE, 50])
    scores = np.array([100, 0, 0, 100, 100, 0, 0, 100, NONE])
    calibration = calibrate_confidence(confidences, scores)
    assert calibration.error == pytest.approx(270 / 7)
    assert calibration.bins == (
        ConfidenceBin(0, 20, 2, 5, 50),
        ConfidenceBin(20, 40, 1, 20, 0),
        ConfidenceBin(80, 100, 4, 90, 50),
    )
    assert (calibration.n_answers, calibration.n_stated) == (8, 7)
    assert calibration.unstated_share == pytest.approx(1 / 8)
    assert calibration.confidence == pytest.approx(390 / 7)
    assert calibration.accuracy == pytest.approx(300 / 7)


def test_agent_that_is_too_sure_everywhere_errs_by_the_difference_of_the_means() -> None:
    confidences = np.array([95.0, 90, 70, 65, 30])
    scores = np.array([100.0, 0, 0, 0, 0])
    calibration = calibrate_confidence(confidences, scores)
    assert calibration.error == pytest.approx(70 - 20)


def test_perfect_agent_has_no_error_and_none_stated_is_no_zero() -> None:
    assert calibrate_confidence(np.array([100.0, 0]), np.array([100.0, 0])).error == 0
    nothing = calibrate_confidence(np.array([NONE, NONE]), np.array([100.0, 0]))
    assert (nothing.error, nothing.n_answers, nothing.unstated_share, nothing.bins) == (None, 2, 1, ())
    assert calibrate_confidence(np.array([50.0]), np.array([NONE])).unstated_share == 0
