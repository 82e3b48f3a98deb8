"""The paired t-test against hand calculation, and families of tests under Holm's correction."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest

from cts_async.analysis.paired_t import paired_t, t_tests


def array(*values: float) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values)


def test_three_differences_by_hand() -> None:
    """1, 2 and 3: mean 2, sd 1, t = 2 sqrt 3 with 2 degrees of freedom; p = 1 - t / sqrt(2 + t^2)."""
    found = paired_t(array(2, 4, 7), array(1, 2, 4))
    assert found is not None
    assert (found.n, found.difference) == (3, 2)
    assert found.t == pytest.approx(2 * sqrt(3))
    assert found.p == pytest.approx(1 - sqrt(12 / 14))


def test_students_own_sleep_data() -> None:
    """R: t.test(extra ~ group, paired = TRUE) on `sleep` gives t = -4.0621, df = 9, p = 0.002833."""
    first = array(0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
    second = array(1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)
    found = paired_t(first, second)
    assert found is not None
    assert (found.t, found.p) == (pytest.approx(-4.0621, abs=1e-4), pytest.approx(0.002833, abs=1e-6))


def test_no_difference_at_all_is_p_1_and_always_the_same_one_p_0() -> None:
    same, shifted = paired_t(array(1, 2), array(1, 2)), paired_t(array(0.1, 0.2), array(0.4, 0.5))
    assert same is not None
    assert shifted is not None
    assert (same.t, same.p) == (0, 1)
    assert (shifted.t, shifted.p) == (-inf, 0)


def test_one_pair_is_too_few_and_unequal_lengths_are_an_error() -> None:
    assert paired_t(array(1), array(0)) is None
    with pytest.raises(ValueError, match="same queries"):
        paired_t(array(1, 2), array(0))


def test_a_family_is_corrected_as_one() -> None:
    values = {"a": array(2, 4, 7), "b": array(1, 2, 4), "c": array(1, 2, 4)}
    pairs = t_tests(values, [("a", "b"), ("b", "c")])
    assert [(pair.left, pair.right) for pair in pairs] == [("a", "b"), ("b", "c")]
    assert pairs[0].p_holm == pytest.approx(2 * (1 - sqrt(12 / 14)))
    assert pairs[1].p_holm == 1


def test_a_family_too_small_to_test_has_no_p() -> None:
    assert t_tests({"a": array(1), "b": array(0)}, [("a", "b")])[0].p_holm is None
