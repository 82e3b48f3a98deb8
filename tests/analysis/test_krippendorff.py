"""Krippendorff's alpha against his own worked example, and against cases small enough for paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.agreement import krippendorff_alpha

PUBLISHED = """
    1 2 3 3 2 1 4 1 2 . . .
    1 2 3 3 2 2 4 1 2 5 . 3
    . 3 3 3 2 3 4 2 2 5 1 .
    1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Krippendorff 2011, section C: four observers, twelve units, values 1 to 5, with gaps."""


def published() -> np.ndarray:
    rows = [line.split() for line in PUBLISHED.split("\n") if line.strip()]
    return np.array([[-1 if word == "." else int(word) - 1 for word in row] for row in rows]).T


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_the_published_example(level: str, alpha: float) -> None:
    found = krippendorff_alpha(published(), level, 5)  # type: ignore[arg-type]
    assert found == pytest.approx(alpha, abs=0.0005)


def test_the_published_example_of_two_observers_and_two_values() -> None:
    """Krippendorff 2011, section A: ten units, four of them in dispute, alpha = 0.095."""
    meg = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    owen = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff_alpha(np.array([meg, owen]).T, "nominal", 2) == pytest.approx(0.095, abs=0.0005)


def test_one_dispute_by_hand() -> None:
    """Labels (0,0) (1,1) (0,1): three of each value, D_o = 2/6, D_e = 18/30, so alpha = 1 - 5/9."""
    labels = np.array([[0, 0], [1, 1], [0, 1]])
    assert krippendorff_alpha(labels, "nominal", 3) == pytest.approx(4 / 9)


def test_taking_none_for_full_is_worse_than_for_partial_in_order_only() -> None:
    near = np.array([[0, 0], [1, 1], [2, 2], [0, 1]])
    far = np.array([[0, 0], [1, 1], [2, 2], [0, 2]])
    assert krippendorff_alpha(near, "nominal", 3) == krippendorff_alpha(far, "nominal", 3)
    near_ordinal, far_ordinal = (krippendorff_alpha(labels, "ordinal", 3) for labels in (near, far))
    assert near_ordinal is not None
    assert far_ordinal is not None
    assert near_ordinal > far_ordinal


def test_full_agreement_is_one() -> None:
    assert krippendorff_alpha(np.array([[0, 0], [2, 2]]), "ordinal", 3) == 1.0


@pytest.mark.parametrize(
    "labels",
    [[[1, 1], [1, 1]], [[0, -1], [-1, 1]], []],
    ids=["one value", "nothing shared", "nothing"],
)
def test_where_nothing_can_be_said_alpha_is_none(labels: list[list[int]]) -> None:
    assert krippendorff_alpha(np.array(labels, int).reshape(-1, 2), "nominal", 3) is None


def test_a_thing_with_one_label_changes_nothing() -> None:
    labels = np.array([[0, 0, 1], [1, 1, 1], [0, -1, -1]])
    assert krippendorff_alpha(labels, "nominal", 2) == krippendorff_alpha(labels[:2], "nominal", 2)


@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=1, max_size=10))
def test_alpha_is_at_most_one_and_free_of_order(rows: list[list[int]]) -> None:
    labels = np.array(rows)
    for level in ("nominal", "ordinal"):
        found = krippendorff_alpha(labels, level, 3)
        if found is not None:
            assert found <= 1
            turned = labels[::-1, ::-1]
            assert krippendorff_alpha(turned, level, 3) == pytest.approx(found)
