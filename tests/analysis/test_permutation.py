"""The sign-flip test against enumeration by hand, and against what a p-value promises."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from cts_async.analysis.resampling import EXACT, SignFlips, flips_for, sign_flip_tests

NAN = float("nan")


def sign_flip_test(differences: Sequence[float], **options: int) -> SignFlips:
    """The test of one pair's differences by instance."""
    column = np.asarray(differences, dtype=float)
    return sign_flip_tests(np.column_stack([column, np.zeros_like(column)]), [(0, 1)], **options)[0]


def test_three_gains_by_hand() -> None:
    """Of the 8 sums of +-1 +-2 +-3 only 6 and -6 lie as far out as 6."""
    assert sign_flip_test([1.0, 2.0, 3.0]) == SignFlips(2 / 8, True, floor=2 / 8)


def test_two_gains_and_a_loss_by_hand() -> None:
    """1 + 2 - 3 = 0: every sum lies at least as far out."""
    assert sign_flip_test([1.0, 2.0, -3.0]).p == 1.0


def test_equal_sizes_count_ties_as_as_far_out() -> None:
    """+1 +1 +1 -1 = 2: of 16 sums 2 are +-4, 8 are +-2 and 6 are 0, so 10 lie at least at 2."""
    assert sign_flip_test([1.0, 1.0, 1.0, -1.0]).p == 10 / 16


def test_no_difference_is_no_evidence() -> None:
    assert sign_flip_test([]) == sign_flip_test([0.0] * 100) == SignFlips(1.0, True, floor=1.0)


def test_an_instance_without_difference_changes_nothing() -> None:
    assert sign_flip_test([1.0, 0.0, 2.0, 3.0, 0.0]) == sign_flip_test([1.0, 2.0, 3.0])


def test_darwins_plants() -> None:
    """Fisher 1935, The Design of Experiments, section 21: 863 of 32,768 sums on either side."""
    eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sign_flip_test(eighths) == SignFlips(2 * 863 / 32768, True, floor=2 / 32768)


def test_what_is_sampled_comes_close_to_what_is_exact() -> None:
    differences = np.random.default_rng(2).normal(2, 5, EXACT)
    exact = sign_flip_test(differences)
    sampled = sign_flip_test([*differences, 1e-9], flips=40_000)
    assert (exact.exact, sampled.exact) == (True, False)
    assert sampled.p == pytest.approx(exact.p, abs=0.01)


def test_the_smallest_sampled_p_counts_the_observed_signs() -> None:
    assert sign_flip_test([10.0] * 60, flips=999) == SignFlips(1 / 1000, False, floor=1 / 1000)


def test_the_same_seed_gives_the_same_p() -> None:
    differences = np.random.default_rng(3).normal(1, 10, 60)
    assert sign_flip_test(differences, seed=1) == sign_flip_test(differences, seed=1)
    assert sign_flip_test(differences, seed=1) != sign_flip_test(differences, seed=2)


def test_a_pairs_p_does_not_depend_on_the_other_pairs() -> None:
    scores = np.random.default_rng(4).uniform(0, 100, (70, 4))
    scores[:3, 3] = NAN
    pairs = list(itertools.combinations(range(4), 2))
    together = sign_flip_tests(scores, pairs)
    assert together == [sign_flip_tests(scores, [pair])[0] for pair in pairs]


def test_instances_that_a_pair_lacks_count_for_nothing() -> None:
    """The same 60 differences among 30 instances without a score: only the random signs are others."""
    alone = np.column_stack([np.random.default_rng(3).normal(3, 10, 60), np.zeros(60)])
    among = np.full((90, 2), np.nan)
    among[25:85] = alone
    (one,), (other,) = (sign_flip_tests(scores, [(0, 1)], flips=40_000) for scores in (alone, among))
    assert one.p == pytest.approx(other.p, abs=0.003)


def test_flips_grow_with_the_family() -> None:
    """The smallest p times the tests of the family is .05 / 20 from 25 tests on."""
    assert [flips_for(n) for n in (0, 1, 25, 26, 501)] == [10_000, 10_000, 10_000, 10_400, 200_400]


def test_very_many_differences_go_by_the_normal_distribution() -> None:
    """z = 3.0: 10,000 signs, 5,150 of them positive, have the sum 300 and the standard deviation 100."""
    found = sign_flip_test(np.repeat([1.0, -1.0], [5150, 4850]))
    assert (found.exact, found.floor) == (False, 0.0)
    assert found.p == pytest.approx(
        0.0026998, rel=1e-4
    )  # 2 * (1 - Phi(3)), Abramowitz and Stegun, table 26.1
    exactly = 2 * binom.sf(5149, 10_000, 0.5)
    assert found.p == pytest.approx(exactly, rel=0.05)


def test_the_normal_tail_is_the_exact_one_far_out() -> None:
    """Against the binomial distribution at z = 6, in the middle of a step of it."""
    found = sign_flip_test(np.repeat([1.0, -1.0], [10_600, 9_400]))
    exactly = binom.sf(10_599, 20_000, 0.5) + binom.sf(10_600, 20_000, 0.5)
    assert found.p < 1e-16
    assert found.p == pytest.approx(exactly, rel=0.02)


def test_an_instance_that_lacks_a_score_is_left_out() -> None:
    scores = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [90.0, NAN], [NAN, 90.0]])
    assert sign_flip_tests(scores, [(0, 1)]) == [SignFlips(2 / 8, True, floor=2 / 8)]


def test_p_is_below_alpha_as_often_as_alpha_says_where_nothing_differs() -> None:
    """400 seeded experiments of 40 symmetric differences: 5 % are expected at .05, with a standard error of 1.1."""
    rng = np.random.default_rng(20260202)
    columns = rng.standard_t(3, (40, 400))
    tests = sign_flip_tests(
        np.column_stack([columns, np.zeros(40)]), [(i, 400) for i in range(400)], flips=2000
    )
    assert 0.02 <= np.mean([test.p <= 0.05 for test in tests]) <= 0.08


@given(st.lists(st.floats(-100, 100), max_size=9))
def test_it_is_two_sided_and_free_of_order_and_scale(differences: list[float]) -> None:
    rounded = [round(value, 3) for value in differences]
    p = sign_flip_test(rounded).p
    assert 0 < p <= 1
    assert sign_flip_test([-value for value in rounded]).p == p
    assert sign_flip_test(rounded[::-1]).p == p
    assert sign_flip_test([4 * value for value in rounded]).p == p


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=8))
def test_it_is_the_complete_enumeration(differences: list[int]) -> None:
    signs = itertools.product((1, -1), repeat=len(differences))
    sums = [sum(s * d for s, d in zip(chosen, differences, strict=True)) for chosen in signs]
    expected = sum(abs(total) >= abs(sum(differences)) for total in sums) / len(sums)
    assert sign_flip_test(differences).p == expected
