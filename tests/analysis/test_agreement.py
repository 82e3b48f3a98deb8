"""Agreement of two judges, against tables worked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isclose, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.agreement import Weights, agreement_of, cohen_kappa
from cts_async.analysis.stats import correlation
from cts_async.records import COVERAGES

SCORES = st.integers(0, 700).map(lambda sevenths: sevenths / 7)
LABELS = st.lists(st.sampled_from(COVERAGES), min_size=1, max_size=30)


def kappa(a: Sequence[str], b: Sequence[str], weights: Weights = None) -> float | None:
    """Kappa of labels of the same nuggets."""
    return cohen_kappa(Counter(zip(a, b, strict=True)), weights)


def test_two_readers_of_fifty_proposals() -> None:
    """Yes/yes 20, yes/no 5, no/yes 10, no/no 15: observed 35/50 = 0.7; by chance (25*30 + 25*20)/2500 = 0.5."""
    table = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    assert cohen_kappa(table) == pytest.approx(0.4, abs=1e-15)


THREE = {
    ("full", "full"): 4, ("full", "partial"): 1, ("full", "none"): 1,
    ("partial", "partial"): 2, ("partial", "none"): 2,
    ("none", "partial"): 1, ("none", "none"): 9,
}  # fmt: skip
"""Rows full 6, partial 4, none 10; columns full 4, partial 4, none 12; 20 in all."""


def test_three_labels_by_hand() -> None:
    # Unlike: 5 observed. By chance, times 20: 400 - (6*4 + 4*4 + 10*12) = 240. 1 - 5 * 20 / 240.
    assert cohen_kappa(THREE) == pytest.approx(1 - 100 / 240, abs=1e-15)
    # One step apart weighs 1, two steps 4. Observed: 1 + 4*1 + 2 + 1 = 8.
    # By chance: full 6 x (4 + 4*12), partial 4 x (4 + 12), none 10 x (4*4 + 4) = 312 + 64 + 200 = 576.
    assert cohen_kappa(THREE, "quadratic") == pytest.approx(1 - 160 / 576, abs=1e-15)


def test_the_opposite_of_each_other_is_minus_one() -> None:
    assert kappa(["full", "none"], ["none", "full"]) == -1.0
    assert kappa(["full", "none"], ["none", "full"], "quadratic") == -1.0


@pytest.mark.parametrize("weights", [None, "quadratic"])
def test_where_chance_explains_everything_there_is_no_kappa(weights: Weights) -> None:
    assert kappa([], [], weights) is None
    assert kappa(["none"] * 9, ["none"] * 9, weights) is None
    assert kappa(["none"] * 9, ["full"] * 9, weights) == 0.0


@given(LABELS, st.data())
def test_kappa_is_symmetric_and_never_above_one(a: list[str], data: st.DataObject) -> None:
    b = data.draw(st.lists(st.sampled_from(COVERAGES), min_size=len(a), max_size=len(a)))
    for weights in (None, "quadratic"):
        found = kappa(a, b, weights)
        assert found == kappa(b, a, weights)
        assert found is None or found <= 1.0
        assert (found == 1.0) <= (a == b)


@given(LABELS)
def test_a_judge_agrees_with_itself(a: list[str]) -> None:
    expected = None if len(set(a)) == 1 else 1.0
    assert kappa(a, a) == kappa(a, a, "quadratic") == expected


@given(LABELS.filter(lambda a: "partial" not in a), st.data())
def test_with_two_labels_weights_change_nothing(a: list[str], data: st.DataObject) -> None:
    b = data.draw(st.lists(st.sampled_from(["full", "none"]), min_size=len(a), max_size=len(a)))
    assert kappa(a, b) == kappa(a, b, "quadratic")


def test_correlation_by_hand() -> None:
    # Deviations -1 0 1 and -2 1 1: products 2 + 0 + 1 = 3; squares 2 and 6.
    assert correlation([1.0, 2.0, 3.0], [0.0, 3.0, 3.0]) == pytest.approx(3 / sqrt(12))
    assert correlation([5.0], [5.0]) is None
    assert correlation([1.0, 2.0], [7.0, 7.0]) is None
    with pytest.raises(ValueError, match="same answers"):
        correlation([1.0], [])


@given(st.lists(st.integers(0, 100), min_size=2, max_size=20, unique=True))
def test_a_straight_line_correlates_fully(a: list[int]) -> None:
    r = correlation([float(x) for x in a], [3.0 - 2.0 * x for x in a])
    assert r is not None
    assert isclose(r, -1.0, abs_tol=1e-12)


def test_two_judges_in_figures() -> None:
    found = agreement_of("ernie", "lexical", Counter(THREE), [100.0, 50.0, 0.0], [50.0, 25.0, 0.0])
    assert (found.judge, found.other, found.n_answers, found.n_nuggets) == ("ernie", "lexical", 3, 20)
    assert found.exact == 15 / 20
    assert found.kappa == cohen_kappa(THREE)
    assert found.kappa_quadratic == cohen_kappa(THREE, "quadratic")
    assert found.score_r == pytest.approx(1.0)
    assert found.as_json()["kappa"] == found.kappa


def test_judges_without_anything_in_common_agree_on_nothing() -> None:
    found = agreement_of("ernie", "lexical", {}, [], [])
    assert (found.n_nuggets, found.exact, found.kappa, found.score_r) == (0, None, None, None)


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=30), st.randoms())
def test_the_order_of_the_pairs_changes_no_digit_of_the_correlation(
    pairs: list[tuple[float, float]], rng: Random
) -> None:
    shuffled = rng.sample(pairs, len(pairs))
    assert correlation(*zip(*shuffled, strict=True)) == correlation(*zip(*pairs, strict=True))
