"""Kendall's tau against rankings compared by hand."""

from __future__ import annotations

import math

import pytest

from cts_async.analysis.agreement import kendall_tau


def test_table_9_has_the_same_order_under_all_its_judges() -> None:
    ernie, gpt, claude = [19.43, 23.46, 26.47], [27.74, 29.54, 29.79], [32.19, 33.80, 34.62]
    assert kendall_tau(ernie, gpt) == kendall_tau(gpt, claude) == 1.0


def test_the_reverse_order_is_minus_one() -> None:
    assert kendall_tau([1.0, 2.0, 3.0], [9.0, 8.0, 7.0]) == -1.0


def test_one_swap_of_four_by_hand() -> None:
    """Five pairs agree, one does not: (5 - 1) / 6."""
    assert kendall_tau([1, 2, 3, 4], [2, 1, 3, 4]) == pytest.approx(4 / 6)


def test_a_tie_by_hand() -> None:
    """Two pairs agree; one is tied in a: 2 / sqrt(2 * 3)."""
    assert kendall_tau([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / math.sqrt(6))


@pytest.mark.parametrize(("a", "b"), [([], []), ([1.0], [2.0]), ([5.0, 5.0], [1.0, 2.0])])
def test_without_an_order_there_is_no_tau(a: list[float], b: list[float]) -> None:
    assert kendall_tau(a, b) is None


def test_other_systems_are_refused() -> None:
    with pytest.raises(ValueError, match="same systems"):
        kendall_tau([1.0], [1.0, 2.0])
