"""Paired t-tests of several pairs at once, with Holm's correction by hand."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from cts_async.neighbours.mimics_duo.ltr import t_tests

VALUES = {"a": np.array([2.0, 4, 7]), "b": np.array([1.0, 2, 4]), "c": np.array([1.0, 2, 4])}


def test_a_family_is_corrected_as_one() -> None:
    """a - b is 1, 2, 3: p = 1 - sqrt(12 / 14), the smaller of two, so doubled; b and c are the same."""
    first, second = t_tests(VALUES, [("a", "b"), ("b", "c")])
    assert (first.left, first.right, second.left, second.right) == ("a", "b", "b", "c")
    assert first.test.difference == 2
    assert first.test.p == pytest.approx(1 - sqrt(12 / 14))
    assert first.p_holm == pytest.approx(2 * (1 - sqrt(12 / 14)))
    assert second.p_holm == 1


def test_no_pair_is_no_test() -> None:
    assert t_tests(VALUES, []) == []
