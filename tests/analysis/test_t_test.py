"""The paired t-test against a case worked by hand, and against scipy's."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cts_async.analysis.stats import PairedT, paired_t_test

NUMBERS = st.floats(-100, 100).map(lambda x: round(x, 3))


def test_three_pairs_by_hand() -> None:
    """Differences 1, 2, 3: d = 2, s = 1, t = 2 / (1 / sqrt 3) = 2 sqrt 3.

    With 2 degrees of freedom the two-sided p is 1 - t / sqrt(2 + t^2) = 1 - sqrt(12 / 14).
    """
    found = paired_t_test([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (found.n, found.difference) == (3, 2.0)
    assert found.t == pytest.approx(2 * math.sqrt(3))
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))


def test_equal_scores_are_no_difference_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paired_t_test([0.5, 0.0, 1.0], [0.5, 0.0, 1.0]) == PairedT(3, 0.0, 0.0, 1.0)


def test_the_same_difference_everywhere_is_infinitely_far_out() -> None:
    assert paired_t_test([1.0, 2.0], [2.0, 3.0]) == PairedT(2, -1.0, -math.inf, 0.0)


def test_what_arithmetic_leaves_of_equal_scores_is_no_difference() -> None:
    """The mean of three times 0.1 is 0.10000000000000002, and would lie infinitely far from 0.1."""
    mean = math.fsum([0.1] * 3) / 3
    assert mean != 0.1
    assert paired_t_test([mean] * 20, [0.1] * 20) == PairedT(20, 0.0, 0.0, 1.0)
    assert paired_t_test([1e-9], [0.0]).difference == 1e-9  # small, but beside nothing larger


def test_a_difference_is_the_same_up_to_rounding() -> None:
    found = paired_t_test([0.3, 0.4, 0.5], [0.2, 0.3, 0.4])
    assert (found.difference, found.t, found.p) == (pytest.approx(0.1), math.inf, 0.0)


def test_one_pair_and_no_pair_show_nothing() -> None:
    assert paired_t_test([3.0], [1.0]) == PairedT(1, 2.0, 0.0, 1.0)
    assert paired_t_test([], []) == PairedT(0, 0.0, 0.0, 1.0)


def test_pairs_have_to_be_pairs() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        paired_t_test([1.0, 2.0], [1.0])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=12))
def test_it_agrees_with_scipy(pairs: list[tuple[float, float]]) -> None:
    from scipy.stats import ttest_rel

    scores, baselines = [a for a, _ in pairs], [b for _, b in pairs]
    differences = [a - b for a, b in pairs]
    assume(max(differences) - min(differences) > 1e-6)
    expected = ttest_rel(scores, baselines)
    found = paired_t_test(scores, baselines)
    assert found.t == pytest.approx(expected.statistic, rel=1e-6, abs=1e-9)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12))
def test_exchanging_the_sides_changes_the_sign_only(pairs: list[tuple[float, float]]) -> None:
    scores, baselines = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = paired_t_test(scores, baselines), paired_t_test(baselines, scores)
    assert (one.n, one.difference, one.t, one.p) == (other.n, -other.difference, -other.t, other.p)
