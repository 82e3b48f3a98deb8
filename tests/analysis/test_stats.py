"""Intervals, corrections, t-tests and power, against hand calculation, published values and scipy."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cts_async.analysis.resampling import sign_flip_tests
from cts_async.analysis.stats import (
    PairedT,
    Z,
    detectable_difference,
    holm,
    instances_needed,
    least_instances,
    paired_t_test,
    wilson,
)


def test_wilson_without_trials_is_none() -> None:
    assert wilson(0, 0) is None


def test_wilson_of_half_of_ten_matches_hand_calculation() -> None:
    """Centre 1/2; half width = z sqrt(1/40 + z^2/400) / (1 + z^2/10), z^2 = 3.8415: 0.26340."""
    assert wilson(5, 10) == pytest.approx((0.236593, 0.763407), abs=1e-6)


def test_wilson_matches_newcombe_1998() -> None:
    """Newcombe (1998), table I: 81 of 263 and 15 of 148."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)


def test_wilson_of_none_and_all_ends_at_0_and_1() -> None:
    spread = Z * Z / 20
    assert wilson(0, 20) == pytest.approx((0.0, spread / (1 + spread)))
    assert wilson(20, 20) == pytest.approx((1 / (1 + spread), 1.0))


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_rate_and_is_symmetric(counts: tuple[int, int]) -> None:
    known, n = counts
    low, high = wilson(known, n) or (1.0, 0.0)
    assert 0 <= low <= known / n <= high <= 1
    assert wilson(n - known, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_holm_matches_hand_calculation() -> None:
    """.01 * 4, .02 * 3, then .03 * 2 = .06 (not below .06), then .04 * 1 raised to .06."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


def test_holm_matches_r() -> None:
    """p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") is 0.03 0.06 0.06 0.02."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_a_single_test_unchanged() -> None:
    assert holm([0.03]) == [0.03]


def test_holm_never_exceeds_1() -> None:
    assert holm([0.6, 0.9, 1.0]) == [1.0, 1.0, 1.0]


def test_holm_of_empty_family_is_empty() -> None:
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_order_and_never_shrinks_p(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    by_p = sorted(zip(p_values, adjusted, strict=True))
    assert all(after >= before for before, after in by_p)
    assert [after for _, after in by_p] == sorted(adjusted)
    # Never harsher than Bonferroni.
    assert all(after <= min(1.0, p * len(p_values)) + 1e-12 for p, after in by_p)


NUMBERS = st.floats(-100, 100).map(lambda x: round(x, 3))


def test_t_test_matches_hand_calculation() -> None:
    """Differences 1, 2, 3: d = 2, s = 1, t = 2 / (1 / sqrt 3) = 2 sqrt 3.

    With 2 degrees of freedom the two-sided p is 1 - t / sqrt(2 + t^2) = 1 - sqrt(12 / 14).
    """
    found = paired_t_test([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (found.n, found.difference) == (3, 2.0)
    assert found.t == pytest.approx(2 * math.sqrt(3))
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))


def test_t_test_of_equal_scores_has_p_one() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paired_t_test([0.5, 0.0, 1.0], [0.5, 0.0, 1.0]) == PairedT(3, 0.0, 0.0, 1.0)


def test_t_test_of_constant_difference_has_p_zero() -> None:
    assert paired_t_test([1.0, 2.0], [2.0, 3.0]) == PairedT(2, -1.0, -math.inf, 0.0)


def test_t_test_ignores_rounding_of_equal_scores() -> None:
    """The mean of three times 0.1 is 0.10000000000000002, and would lie infinitely far from 0.1."""
    mean = math.fsum([0.1] * 3) / 3
    assert mean != 0.1
    assert paired_t_test([mean] * 20, [0.1] * 20) == PairedT(20, 0.0, 0.0, 1.0)
    assert paired_t_test([1e-9], [0.0]).difference == 1e-9  # small, but beside nothing larger


def test_t_test_treats_rounded_constant_difference_as_constant() -> None:
    found = paired_t_test([0.3, 0.4, 0.5], [0.2, 0.3, 0.4])
    assert (found.difference, found.t, found.p) == (pytest.approx(0.1), math.inf, 0.0)


def test_t_test_of_fewer_than_two_pairs_has_p_one() -> None:
    assert paired_t_test([3.0], [1.0]) == PairedT(1, 2.0, 0.0, 1.0)
    assert paired_t_test([], []) == PairedT(0, 0.0, 0.0, 1.0)


def test_t_test_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        paired_t_test([1.0, 2.0], [1.0])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=12))
def test_t_test_agrees_with_scipy(pairs: list[tuple[float, float]]) -> None:
    from scipy.stats import ttest_rel

    scores, baselines = [a for a, _ in pairs], [b for _, b in pairs]
    differences = [a - b for a, b in pairs]
    assume(max(differences) - min(differences) > 1e-6)
    expected = ttest_rel(scores, baselines)
    found = paired_t_test(scores, baselines)
    assert found.t == pytest.approx(expected.statistic, rel=1e-6, abs=1e-9)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12))
def test_t_test_changes_sign_when_sides_are_exchanged(pairs: list[tuple[float, float]]) -> None:
    scores, baselines = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = paired_t_test(scores, baselines), paired_t_test(baselines, scores)
    assert (one.n, one.difference, one.t, one.p) == (other.n, -other.difference, -other.t, other.p)


def test_detectable_difference_at_n_518_is_2_8_standard_errors() -> None:
    """(1.959964 + 0.841621) * 18 / sqrt(518) = 2.2157."""
    assert detectable_difference(518, 18.0) == pytest.approx(2.2157, abs=1e-4)


def test_detectable_difference_grows_with_family() -> None:
    """z(1 - .025/21) = 3.0381: (3.0381 + 0.8416) * 18 / 22.7596 = 3.0683."""
    assert detectable_difference(518, 18.0, alpha=0.05 / 21) == pytest.approx(3.0683, abs=1e-3)


def test_instances_needed_match_cohens_tables() -> None:
    """(2.801585 / 0.5)^2 = 31.4, so 32."""
    assert instances_needed(0.5, 1.0) == 32
    assert instances_needed(-0.5, 1.0) == 32


def test_difference_of_0_needs_no_finite_number() -> None:
    assert instances_needed(0.0, 18.0) is None


def test_difference_without_spread_needs_six_instances() -> None:
    """All signs alike has p = 2 / 2^n: .0625 for n = 5, .03125 for n = 6."""
    assert instances_needed(3.0, 0.0) == instances_needed(50.0, 10.0) == 6
    assert least_instances() == 6
    assert [least_instances(alpha) for alpha in (0.5, 0.25, 0.05 / 3)] == [2, 3, 7]


def test_fewer_than_six_instances_detect_nothing() -> None:
    assert detectable_difference(5, 18.0) is None
    assert detectable_difference(6, 18.0) is not None


def test_no_instances_detect_nothing() -> None:
    assert detectable_difference(0, 18.0) is None


def test_instances_needed_make_difference_detectable() -> None:
    difference = detectable_difference(200, 18.0)
    assert difference is not None
    assert instances_needed(difference, 18.0) == 200


def test_detectable_difference_has_power_0_8_in_simulation() -> None:
    """1,000 seeded benchmarks of 120 instances, the sign-flip test at .05: the standard error of a share is 1.3 %."""
    n, sd, trials = 120, 18.0, 1000
    difference = detectable_difference(n, sd)
    assert difference is not None
    columns = np.random.default_rng(20260303).normal(difference, sd, (n, trials))
    tests = sign_flip_tests(
        np.column_stack([columns, np.zeros(n)]), [(i, trials) for i in range(trials)], flips=1000
    )
    assert np.mean([test.p <= 0.05 for test in tests]) == pytest.approx(0.8, abs=0.04)
