"""The paired bootstrap against cases worked by hand, and against what an interval promises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.resampling import MANY, RESAMPLES, Difference, paired_difference, paired_differences


def test_one_instance_has_no_interval() -> None:
    found = paired_difference([70.0], [40.0])
    assert found == Difference(1, 30.0, None, None)
    assert (found.too_short, found.ends) == (False, (30.0, 30.0))


def test_intervals_of_fewer_than_30_instances_are_too_short() -> None:
    found = [paired_difference([1.0] * n, [0.0] * n) for n in (2, 29, 30)]
    assert [one.too_short for one in found if one] == [True, True, False]


def test_few_skewed_differences_are_covered_far_too_seldom() -> None:
    """A gain of 60 on every tenth of 8 instances: none is drawn in .9^8 = 43 % of samples, and then 0 is certain."""
    drawn = np.where(np.random.default_rng(1).random((8, 1000)) < 0.1, 60.0, 0.0)
    found = [one for one in paired_differences(drawn, resamples=500) if one]
    covered = np.mean([one.ends[0] <= 6.0 <= one.ends[1] for one in found])
    assert covered < 0.6
    assert all(one.too_short for one in found)


def test_equal_differences_have_an_interval_of_no_width() -> None:
    assert paired_difference([10.0, 60.0, 90.0], [5.0, 55.0, 85.0]) == Difference(3, 5.0, 5.0, 5.0)


def test_nothing_to_compare_is_none() -> None:
    assert paired_difference([], []) is None


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="same instances"):
        paired_difference([1.0, 2.0], [1.0])


def test_two_instances_by_hand() -> None:
    """Resamples of {0, 10} have the means 0, 5, 10 with probability 1/4, 1/2, 1/4: 95 % spans all."""
    assert paired_difference([50.0, 60.0], [50.0, 50.0]) == Difference(2, 5.0, 0.0, 10.0)


def test_four_instances_as_the_complete_enumeration_says() -> None:
    differences = [0.0, 1.0, 4.0, 11.0]
    means = [np.mean(drawn) for drawn in itertools.product(differences, repeat=4)]
    low, high = np.percentile(means, [2.5, 97.5])
    found = paired_difference(differences, [0.0] * 4)
    assert found is not None
    assert found.mean == 4.0
    assert found.low == pytest.approx(low, abs=0.26)  # a step between neighbouring means is 0.25
    assert found.high == pytest.approx(high, abs=0.76)


def test_the_pairs_are_kept_together() -> None:
    """Scores that differ wildly between instances, but not within a pair, leave no uncertainty."""
    baseline = [0.0, 100.0, 3.0, 55.0, 80.0]
    found = paired_difference([score + 1 for score in baseline], baseline)
    assert found == Difference(5, 1.0, 1.0, 1.0)


def test_the_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(3)
    scores, baseline = rng.uniform(0, 100, 40).tolist(), rng.uniform(0, 100, 40).tolist()
    assert paired_difference(scores, baseline, seed=7) == paired_difference(scores, baseline, seed=7)
    assert paired_difference(scores, baseline, seed=7) != paired_difference(scores, baseline, seed=8)


def test_global_randomness_is_neither_used_nor_disturbed() -> None:
    np.random.seed(1)
    before = paired_difference([1.0, 5.0, 9.0], [0.0, 0.0, 0.0])
    np.random.seed(2)
    state = np.random.get_state()[1].tolist()
    assert paired_difference([1.0, 5.0, 9.0], [0.0, 0.0, 0.0]) == before
    assert np.random.get_state()[1].tolist() == state


def test_drawing_in_slices_makes_as_many_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1,000 instances 10,000 resamples are drawn in three slices."""
    drawn: list[int] = []
    percentile = np.percentile

    def counting(means: np.ndarray, at: list[float]) -> np.ndarray:
        drawn.append(len(means))
        return percentile(means, at)

    monkeypatch.setattr(np, "percentile", counting)
    paired_difference(np.arange(1000.0).tolist(), [0.0] * 1000)
    assert drawn == [RESAMPLES]


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Normal differences about 5, n = 60: 300 seeded experiments cover 5 in 91 to 98 % of cases."""
    rng = np.random.default_rng(20260101)
    hits = 0
    for trial in range(300):
        found = paired_difference(rng.normal(5, 20, 60).tolist(), [0.0] * 60, seed=trial, resamples=1000)
        assert found is not None
        hits += found.low <= 5 <= found.high
    assert 0.91 <= hits / 300 <= 0.98


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=20))
def test_the_interval_lies_within_the_differences_and_holds_their_mean(
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


def test_many_comparisons_at_once_are_those_one_by_one() -> None:
    rng = np.random.default_rng(5)
    differences = rng.normal(3, 10, (50, 4))
    together = paired_differences(differences, resamples=500)
    alone = [paired_difference(column.tolist(), [0.0] * 50, resamples=500) for column in differences.T]
    for one, other in zip(together, alone, strict=True):
        assert one is not None
        assert other is not None
        assert (one.n, one.mean) == (other.n, pytest.approx(other.mean))
        assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_a_pair_that_lacks_a_score_is_left_out_of_its_comparison_only() -> None:
    nan = float("nan")
    found = paired_differences(np.array([[5.0, 1.0, nan], [nan, 3.0, nan], [5.0, 5.0, nan]]))
    assert found[0] == Difference(2, 5.0, 5.0, 5.0)
    assert found[1] is not None
    assert (found[1].n, found[1].mean) == (3, 3.0)
    assert found[2] is None


def test_very_many_instances_of_few_values_have_the_interval_of_the_normal_distribution() -> None:
    """Half of 20,000 differences are 0, half 10: a mean of 5, whose standard error is 5 / sqrt(20,000)."""
    values = np.tile([0.0, 10.0], MANY)
    found = paired_differences(np.column_stack([values, values]), seed=3)
    assert found[0] == found[1]
    assert found[0] is not None
    half = 1.96 * 5 / np.sqrt(2 * MANY)
    assert (found[0].n, found[0].mean) == (2 * MANY, 5.0)
    assert (found[0].low, found[0].high) == pytest.approx((5 - half, 5 + half), abs=0.003)


def test_very_many_instances_of_as_many_values_are_drawn_one_by_one() -> None:
    values = np.linspace(0, 1, MANY)
    (few,) = paired_differences(values[:, None], resamples=50)
    assert few is not None
    assert few.low < 0.5 < few.high


def test_very_many_differences_of_few_values_stay_what_they_are_beside_others_of_many() -> None:
    few, many = np.tile([0.0, 10.0], MANY // 2), np.linspace(0, 1, MANY)
    alone = paired_differences(few[:, None], resamples=50)
    assert paired_differences(np.column_stack([few, many]), resamples=50)[0] == alone[0]
