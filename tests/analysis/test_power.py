"""Power by tables, and by simulation of the test that is really run."""

from __future__ import annotations

import numpy as np
import pytest

from cts_async.analysis.resampling import sign_flip_tests
from cts_async.analysis.stats import detectable_difference, instances_needed, least_instances


def test_n_518_with_the_usual_reach_of_2_8_standard_errors() -> None:
    """(1.959964 + 0.841621) * 18 / sqrt(518) = 2.2157."""
    assert detectable_difference(518, 18.0) == pytest.approx(2.2157, abs=1e-4)


def test_holms_strictest_step_asks_for_more() -> None:
    """z(1 - .025/21) = 3.0381: (3.0381 + 0.8416) * 18 / 22.7596 = 3.0683."""
    assert detectable_difference(518, 18.0, alpha=0.05 / 21) == pytest.approx(3.0683, abs=1e-3)


def test_instances_for_half_a_standard_deviation_as_in_cohens_tables() -> None:
    """(2.801585 / 0.5)^2 = 31.4, so 32."""
    assert instances_needed(0.5, 1.0) == 32
    assert instances_needed(-0.5, 1.0) == 32


def test_no_difference_can_be_shown_by_no_number_of_instances() -> None:
    assert instances_needed(0.0, 18.0) is None


def test_a_difference_without_spread_needs_six_instances() -> None:
    """All signs alike has p = 2 / 2^n: .0625 for n = 5, .03125 for n = 6."""
    assert instances_needed(3.0, 0.0) == instances_needed(50.0, 10.0) == 6
    assert least_instances() == 6
    assert [least_instances(alpha) for alpha in (0.5, 0.25, 0.05 / 3)] == [2, 3, 7]


def test_fewer_than_six_instances_can_show_no_difference() -> None:
    assert detectable_difference(5, 18.0) is None
    assert detectable_difference(6, 18.0) is not None


def test_without_instances_nothing_is_detectable() -> None:
    assert detectable_difference(0, 18.0) is None


def test_the_instances_needed_are_those_at_which_the_difference_becomes_detectable() -> None:
    difference = detectable_difference(200, 18.0)
    assert difference is not None
    assert instances_needed(difference, 18.0) == 200


def test_the_detectable_difference_is_found_in_four_of_five_simulated_benchmarks() -> None:
    """1,000 seeded benchmarks of 120 instances, the sign-flip test at .05: the standard error of a share is 1.3 %."""
    n, sd, trials = 120, 18.0, 1000
    difference = detectable_difference(n, sd)
    assert difference is not None
    columns = np.random.default_rng(20260303).normal(difference, sd, (n, trials))
    tests = sign_flip_tests(
        np.column_stack([columns, np.zeros(n)]), [(i, trials) for i in range(trials)], flips=1000
    )
    assert np.mean([test.p <= 0.05 for test in tests]) == pytest.approx(0.8, abs=0.04)
