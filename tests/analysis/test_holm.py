"""Holm's adjusted p-values against cases worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.stats import holm


def test_four_p_values_by_hand() -> None:
    """.01 * 4, .02 * 3, then .03 * 2 = .06 (not below .06), then .04 * 1 raised to .06."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


def test_r_gives_the_same() -> None:
    """p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") is 0.03 0.06 0.06 0.02."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_one_test_needs_no_correction() -> None:
    assert holm([0.03]) == [0.03]


def test_nothing_exceeds_one() -> None:
    assert holm([0.6, 0.9, 1.0]) == [1.0, 1.0, 1.0]


def test_an_empty_family_is_empty() -> None:
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=12))
def test_the_order_stays_and_no_p_shrinks(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    by_p = sorted(zip(p_values, adjusted, strict=True))
    assert all(after >= before for before, after in by_p)
    assert [after for _, after in by_p] == sorted(adjusted)
    # Never harsher than Bonferroni.
    assert all(after <= min(1.0, p * len(p_values)) + 1e-12 for p, after in by_p)
