"""Intervals, corrections, tests, correlation and power, against hand calculation, published values and scipy."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from math import sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import bdtrc

from cts_async.analysis.stats import (
    EXACT,
    MANY,
    Difference,
    PairedT,
    SignFlips,
    clustered_mean,
    correlation,
    detectable_difference,
    flips_for,
    holm,
    holm_alpha,
    instances_needed,
    least_instances,
    paired_difference,
    paired_differences,
    paired_t_test,
    percentile_interval,
    rank_correlation,
    ratio_of_sums,
    sign_flip_tests,
    wilson,
)


def test_wilson_matches_newcombe_1998() -> None:
    """Newcombe (1998), table I: 81 of 263 and 15 of 148."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 0) is None


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_rate_and_is_symmetric(counts: tuple[int, int]) -> None:
    known, n = counts
    low, high = wilson(known, n) or (1.0, 0.0)
    assert 0 <= low <= known / n <= high <= 1
    assert wilson(n - known, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_holm_matches_hand_calculation() -> None:
    """.01 * 4, .02 * 3, then .03 * 2 = .06 (not below .06), then .04 * 1 raised to .06."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert (holm([]), holm([0.03]), holm([0.6, 0.9])) == ([], [0.03], [1.0, 1.0])


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_order_and_never_shrinks_p(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    by_p = sorted(zip(p_values, adjusted, strict=True))
    assert all(after >= before for before, after in by_p)
    assert [after for _, after in by_p] == sorted(adjusted)
    # Never harsher than Bonferroni.
    assert all(after <= min(1.0, p * len(p_values)) + 1e-12 for p, after in by_p)


NUMBERS = st.floats(-100, 100).map(lambda x: round(x, 3))


def test_t_test_without_spread_or_pairs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paired_t_test([0.5, 0.0, 1.0], [0.5, 0.0, 1.0]) == PairedT(3, 0.0, 0.0, 1.0)
        assert paired_t_test([1.0, 2.0], [2.0, 3.0]) == PairedT(2, -1.0, -math.inf, 0.0)
        assert paired_t_test([3.0], [1.0]) == PairedT(1, 2.0, 0.0, 1.0)
        assert paired_t_test([], []) == PairedT(0, 0.0, 0.0, 1.0)


def test_t_test_ignores_rounding_of_equal_scores() -> None:
    """The mean of three times 0.1 is 0.10000000000000002, and would lie infinitely far from 0.1."""
    mean = math.fsum([0.1] * 3) / 3
    assert mean != 0.1
    assert paired_t_test([mean] * 20, [0.1] * 20) == PairedT(20, 0.0, 0.0, 1.0)
    assert paired_t_test([1e-9], [0.0]).difference == 1e-9  # small, but beside nothing larger


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


def test_detectable_difference_at_n_518_is_2_8_standard_errors() -> None:
    """(1.959964 + 0.841621) * 18 / sqrt(518 - 1.959964^2 / 2) = 50.4285 / 22.7173 = 2.2198."""
    assert detectable_difference(518, 18.0) == pytest.approx(2.2198, abs=1e-4)
    # z(1 - .025/21) = 3.0381: (3.0381 + 0.8416) * 18 / sqrt(518 - 4.6150) = 69.835 / 22.658 = 3.0821
    assert detectable_difference(518, 18.0, alpha=holm_alpha(21)) == pytest.approx(3.0821, abs=1e-3)
    assert detectable_difference(5, 18.0) is detectable_difference(0, 18.0) is None
    assert detectable_difference(6, 18.0) is not None


def test_no_difference_is_detectable_where_too_few_instances_differ() -> None:
    """2 / 2^5 is above .05, and an sd of 0 says nothing about other samples."""
    assert detectable_difference(518, 18.0, n_differ=5) is None
    assert detectable_difference(518, 18.0, n_differ=6) == detectable_difference(518, 18.0)
    assert detectable_difference(518, 0.0) is None


def test_instances_needed_match_cohens_tables_and_are_six_at_least() -> None:
    """(2.801585 / 0.5)^2 + 1.959964^2 / 2 = 31.4 + 1.9, so 34, as Cohen's table 2.4.1 has it.

    All signs alike has p = 2 / 2^n: .0625 for n = 5, .03125 for n = 6. Six of which a tenth differs are of 60.
    """
    assert instances_needed(0.5, 1.0) == instances_needed(-0.5, 1.0) == 34
    assert instances_needed(50.0, 10.0, share_differing=0.1) == 60
    assert instances_needed(0.0, 18.0) is None
    assert instances_needed(3.0, 0.0) == instances_needed(50.0, 10.0) == 6
    assert least_instances() == 6
    assert [least_instances(alpha) for alpha in (0.5, 0.25, 0.05 / 3)] == [2, 3, 7]


def test_instances_needed_have_power_0_8_at_the_corrected_level() -> None:
    """1,000 seeded benchmarks of as many instances as a shift of half an sd needs, tested at .05 / 10.

    At .05 it would be 34 instances, whose power at .005 is .5.
    """
    alpha, trials = holm_alpha(10), 1000
    n = instances_needed(0.5, 1.0, alpha=alpha)
    assert n == 58  # ((2.807034 + 0.841621) / 0.5)^2 + 2.807034^2 / 2 = 53.25 + 3.94 = 57.2
    rng = np.random.default_rng(20260404)

    def power(size: int) -> float:
        columns = np.column_stack([rng.normal(0.5, 1.0, (size, trials)), np.zeros(size)])
        tests = sign_flip_tests(columns, [(i, trials) for i in range(trials)], flips=2000)
        return float(np.mean([test.p <= alpha for test in tests]))

    assert power(n) == pytest.approx(0.8, abs=0.04)
    assert power(34) == pytest.approx(0.5, abs=0.06)


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


def test_correlation_matches_hand_calculation() -> None:
    # Deviations -1 0 1 and -2 1 1: products 2 + 0 + 1 = 3; squares 2 and 6.
    assert correlation([1.0, 2.0, 3.0], [0.0, 3.0, 3.0]) == pytest.approx(3 / sqrt(12))
    assert correlation([1.0, 2.0, 5.0], [1.0, -1.0, -7.0]) == pytest.approx(-1.0)
    assert correlation([5.0], [5.0]) is correlation([1.0, 2.0], [7.0, 7.0]) is None
    with pytest.raises(ValueError, match="same answers"):
        correlation([1.0], [])


SCORES = st.integers(0, 700).map(lambda sevenths: sevenths / 7)


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=30), st.randoms())
def test_correlation_does_not_depend_on_order_of_pairs(pairs: list[tuple[float, float]], rng: Random) -> None:
    shuffled = rng.sample(pairs, len(pairs))
    assert correlation(*zip(*shuffled, strict=True)) == correlation(*zip(*pairs, strict=True))


def test_rank_correlation_shares_the_ranks_of_equal_values() -> None:
    """Ranks 1 2 3 4 against 4 3 1.5 1.5: products of deviations -4.5, squares 5 and 4.5."""
    assert rank_correlation([0.1, 0.2, 0.3, 9.0], [60, 30, 0, 0]) == pytest.approx(-4.5 / sqrt(5 * 4.5))
    assert rank_correlation([1.0, 2.0], [3.0, 300.0]) == pytest.approx(1)
    assert rank_correlation([1.0], [2.0]) is None
    assert rank_correlation([1.0, 2.0], [5.0, 5.0]) is None


def test_ratio_of_sums_weighs_instances_by_their_denominators() -> None:
    """20 points for 1 question, 10 for 3, none for 0: 30 / 4."""
    ratio = ratio_of_sums([20, 10, 0], [1, 3, 0])
    assert ratio is not None
    assert (ratio.n, ratio.mean, ratio.n_differ) == (3, 7.5, 2)
    # A resample is 20 at most (the first alone); 10 / 3 at least, but for a rare one of nothing but the third.
    assert ratio.low is not None
    assert ratio.high is not None
    assert 10 / 3 - 1e-9 <= ratio.low < 7.5 < ratio.high <= 20 + 1e-9
    assert ratio_of_sums([20, 10], [0, 0]) is None
    assert ratio_of_sums([], []) is None
    with pytest.raises(ValueError, match="same instances"):
        ratio_of_sums([1], [])


def test_ratio_of_sums_is_the_mean_where_each_instance_counts_once() -> None:
    gains = [10.0, 0.0, -5.0, 20.0, 5.0, 0.0]
    ratio, mean = ratio_of_sums(gains, [1] * 6, seed=3), paired_difference(gains, [0] * 6, seed=3)
    assert ratio is not None
    assert mean is not None
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((mean.mean, mean.low, mean.high))


def test_single_instance_has_no_interval() -> None:
    found = paired_difference([70.0], [40.0])
    assert found == Difference(1, 30.0, None, None)
    assert (found.too_short, found.ends) == (False, (30.0, 30.0))
    assert paired_difference([], []) is None
    with pytest.raises(ValueError, match="same instances"):
        paired_difference([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("values", "n_differ", "short"),
    [
        ([1.0, 2.0] * 14 + [3.0], 29, True),
        ([1.0, 2.0] * 15, 30, False),
        ([1.0, 2.0] * 15 + [0.0] * 10, 30, False),
        # 518 instances, of which 26 (5 %) differ
        ([10.0, 20.0] * 13 + [0.0] * 492, 26, True),
        # Of scores that are nearly all 100 only the others can move the mean.
        ([100.0] * 90 + [50.0] * 10, 10, True),
    ],
)
def test_interval_is_too_short_where_few_instances_differ(
    values: list[float], n_differ: int, short: bool
) -> None:
    found = paired_difference(values, [0.0] * len(values))
    assert found is not None
    assert (found.n, found.n_differ, found.too_short) == (len(values), n_differ, short)


@pytest.mark.parametrize(("gain", "nowhere"), [(0.0, True), (0.1, False)])
def test_equal_differences_have_no_interval(gain: float, nowhere: bool) -> None:
    """Every resample is the same: that is no measurement of how exact it is. 1/3 + .1 - 1/3 is .1 but for rounding."""
    baseline = [i / 3 for i in range(40)]
    found = paired_difference([score + gain for score in baseline], baseline)
    assert found is not None
    assert (found.interval, found.low, found.n_differ, found.too_short) == (None, None, 0, False)
    assert found.nowhere == nowhere
    assert clustered_mean(["a", "b", "b"], [1.0, 1.0, 1.0]) == Difference(2, 1.0, None, None)


def test_interval_of_two_instances_matches_hand_calculation() -> None:
    """Resamples of {0, 10} have the means 0, 5, 10 with probability 1/4, 1/2, 1/4: 95 % spans all."""
    assert paired_difference([50.0, 60.0], [50.0, 50.0]) == Difference(2, 5.0, 0.0, 10.0, 1)


def test_interval_is_reproducible_by_seed() -> None:
    rng = np.random.default_rng(3)
    scores, baseline = rng.uniform(0, 100, 40).tolist(), rng.uniform(0, 100, 40).tolist()
    assert paired_difference(scores, baseline, seed=7) == paired_difference(scores, baseline, seed=7)
    assert paired_difference(scores, baseline, seed=7) != paired_difference(scores, baseline, seed=8)


def test_interval_covers_truth_at_its_level() -> None:
    """Normal differences about 5, n = 60: 300 seeded experiments cover 5 in 91 to 98 % of cases."""
    rng = np.random.default_rng(20260101)
    hits = 0
    for trial in range(300):
        found = paired_difference(rng.normal(5, 20, 60).tolist(), [0.0] * 60, seed=trial, resamples=1000)
        assert found is not None
        hits += found.low <= 5 <= found.high
    assert 0.91 <= hits / 300 <= 0.98


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=20))
def test_interval_lies_within_differences_and_contains_mean(
    pairs: list[tuple[float, float]],
) -> None:
    scores, baseline = [a for a, _ in pairs], [b for _, b in pairs]
    found = paired_difference(scores, baseline, resamples=200)
    assert found is not None
    differences = [a - b for a, b in pairs]
    low, high = found.ends
    assert min(differences) - 1e-9 <= low <= high <= max(differences) + 1e-9
    swapped = paired_difference(baseline, scores, resamples=200)
    assert swapped is not None
    assert swapped.mean == pytest.approx(-found.mean)
    assert swapped.ends == pytest.approx((-high, -low), abs=1e-9)


def test_missing_score_affects_its_comparison_only() -> None:
    nan = float("nan")
    found = paired_differences(np.array([[5.0, 1.0, nan], [nan, 3.0, nan], [5.0, 5.0, nan]]))
    assert found[0] == Difference(2, 5.0, None, None, 0)
    assert found[1] is not None
    assert (found[1].n, found[1].mean) == (3, 3.0)
    assert found[2] is None


def test_percentiles_of_resamples_match_drawing_them() -> None:
    """The ends lie where 2.5 % of 10,000 drawn resamples' percentiles do, give or take one place of 400 scores."""
    rng = np.random.default_rng(7)
    scores = np.sort(rng.random(400))
    drawn = scores[rng.integers(0, 400, (10_000, 400))]
    for q in (0, 10, 50, 90, 100):
        interval = percentile_interval(scores, q)
        assert interval
        expected = np.percentile(np.percentile(drawn, q, axis=1), [2.5, 97.5])
        assert np.abs(np.searchsorted(scores, interval) - np.searchsorted(scores, expected)).max() <= 2


def test_percentile_interval_of_few_scores_matches_hand_calculation() -> None:
    """A resample of 0 and 1 is 0 0, 0 1, 1 0 or 1 1, each as often."""
    assert percentile_interval([1.0, 0.0], 50) == (0.0, 1.0)
    assert percentile_interval([5.0] * 9, 90) is percentile_interval([5.0], 50) is None
    # 19 zeros and a one: the maximum is the one in 64 % of resamples.
    assert percentile_interval([0.0] * 19 + [1.0], 100) == (0.0, 1.0)
    assert percentile_interval([0.0] * 19 + [1.0], 0) == (0.0, 0.0)


def test_clusters_are_resampled_as_wholes() -> None:
    """a has 0 and 0, b has 1: a resample is a a, a b, b a or b b, with the means 0, 1/3, 1/3 and 1."""
    found = clustered_mean(["a", "b", "a"], [0.0, 1.0, 0.0])
    assert found == Difference(2, pytest.approx(1 / 3), 0.0, 1.0)
    apart = clustered_mean([str(i) for i in range(200)], [i % 2 for i in range(200)])
    together = clustered_mean(
        [str(i // 2 % 2) + str(i // 20) for i in range(200)], [i // 2 % 2 for i in range(200)]
    )
    assert apart
    assert together
    # One value each: half the length is 1.96 * 0.5 / sqrt(200); ten alike count as one of 20.
    assert (apart.n, together.n) == (200, 20)
    assert apart.ends == pytest.approx((0.5 - 0.0693, 0.5 + 0.0693), abs=0.01)
    assert together.ends == pytest.approx((0.5 - 0.219, 0.5 + 0.219), abs=0.04)
    assert clustered_mean(["a", "a"], [1.0, 2.0]) == Difference(1, 1.5, None, None)
    assert clustered_mean([], []) is None
    with pytest.raises(ValueError, match="cluster"):
        clustered_mean(["a"], [])


def test_resampling_by_value_matches_normal_interval() -> None:
    """Half of 20,000 differences are 0, half 10: a mean of 5, whose standard error is 5 / sqrt(20,000)."""
    values = np.tile([0.0, 10.0], MANY)
    found = paired_differences(np.column_stack([values, values]), seed=3)
    assert found[0] == found[1]
    assert found[0] is not None
    half = 1.96 * 5 / np.sqrt(2 * MANY)
    assert (found[0].n, found[0].mean) == (2 * MANY, 5.0)
    assert (found[0].low, found[0].high) == pytest.approx((5 - half, 5 + half), abs=0.003)


NAN = float("nan")


def sign_flip_test(differences: Sequence[float], **options: int) -> SignFlips:
    """The test of one pair's differences by instance."""
    column = np.asarray(differences, dtype=float)
    return sign_flip_tests(np.column_stack([column, np.zeros_like(column)]), [(0, 1)], **options)[0]


def test_p_of_three_gains_matches_hand_calculation() -> None:
    """Of the 8 sums of +-1 +-2 +-3 only 6 and -6 lie as far out as 6."""
    expected = SignFlips(2 / 8, True, floor=2 / 8, n_differ=3)
    assert sign_flip_test([1.0, 2.0, 3.0]) == sign_flip_test([1.0, 0.0, 2.0, 3.0, 0.0]) == expected
    scores = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [90.0, NAN], [NAN, 90.0]])
    assert sign_flip_tests(scores, [(0, 1)]) == [expected]
    assert sign_flip_test([]) == sign_flip_test([0.0] * 100) == SignFlips(1.0, True, floor=1.0, n_differ=0)
    # +1 +1 +1 -1 = 2: of 16 sums 2 are +-4, 8 are +-2 and 6 are 0, so 10 lie at least at 2
    assert sign_flip_test([1.0, 1.0, 1.0, -1.0]).p == 10 / 16


def test_p_of_darwins_plants_matches_fisher() -> None:
    """Fisher 1935, The Design of Experiments, section 21: 863 of 32,768 sums on either side."""
    eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sign_flip_test(eighths) == SignFlips(2 * 863 / 32768, True, floor=2 / 32768, n_differ=15)


def test_sampled_p_is_close_to_exact_p() -> None:
    differences = np.random.default_rng(2).normal(2, 5, EXACT)
    exact = sign_flip_test(differences)
    sampled = sign_flip_test([*differences, 1e-9], flips=40_000)
    assert (exact.exact, sampled.exact) == (True, False)
    assert sampled.p == pytest.approx(exact.p, abs=0.01)
    assert sign_flip_test([10.0] * 60, flips=999) == SignFlips(1 / 1000, False, floor=1 / 1000, n_differ=60)


def test_p_does_not_depend_on_other_pairs() -> None:
    scores = np.random.default_rng(4).uniform(0, 100, (70, 4))
    scores[:3, 3] = NAN
    pairs = list(itertools.combinations(range(4), 2))
    together = sign_flip_tests(scores, pairs)
    assert together == [sign_flip_tests(scores, [pair])[0] for pair in pairs]


def test_number_of_flips_grows_with_family() -> None:
    """The smallest p times the tests of the family is .05 / 20 from 25 tests on."""
    assert [flips_for(n) for n in (0, 1, 25, 26, 501)] == [10_000, 10_000, 10_000, 10_400, 200_400]


def test_many_differences_use_normal_distribution() -> None:
    """z = 3.0: 10,000 signs, 5,150 of them positive, have the sum 300 and the standard deviation 100."""
    found = sign_flip_test(np.repeat([1.0, -1.0], [5150, 4850]))
    assert (found.exact, found.floor) == (False, 0.0)
    assert found.p == pytest.approx(
        0.0026998, rel=1e-4
    )  # 2 * (1 - Phi(3)), Abramowitz and Stegun, table 26.1
    exactly = 2 * bdtrc(5149, 10_000, 0.5)
    assert found.p == pytest.approx(exactly, rel=0.05)


def test_p_is_uniform_under_the_null_hypothesis() -> None:
    """400 seeded experiments of 40 symmetric differences: 5 % are expected at .05, with a standard error of 1.1."""
    rng = np.random.default_rng(20260202)
    columns = rng.standard_t(3, (40, 400))
    tests = sign_flip_tests(
        np.column_stack([columns, np.zeros(40)]), [(i, 400) for i in range(400)], flips=2000
    )
    assert 0.02 <= np.mean([test.p <= 0.05 for test in tests]) <= 0.08


@given(st.lists(st.floats(-100, 100), max_size=9))
def test_p_is_two_sided_and_does_not_depend_on_order_or_scale(differences: list[float]) -> None:
    rounded = [round(value, 3) for value in differences]
    p = sign_flip_test(rounded).p
    assert 0 < p <= 1
    assert sign_flip_test([-value for value in rounded]).p == p
    assert sign_flip_test(rounded[::-1]).p == p
    assert sign_flip_test([4 * value for value in rounded]).p == p


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=8))
def test_exact_p_matches_complete_enumeration(differences: list[int]) -> None:
    signs = itertools.product((1, -1), repeat=len(differences))
    sums = [sum(s * d for s, d in zip(chosen, differences, strict=True)) for chosen in signs]
    expected = sum(abs(total) >= abs(sum(differences)) for total in sums) / len(sums)
    assert sign_flip_test(differences).p == expected
