"""Rankers that learn: they find what decides, and repeat themselves."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import UsageError
from cts_async.neighbours.mimics_duo import rankers
from cts_async.neighbours.mimics_duo.rankers import (
    HIDDEN,
    RANKERS,
    LearnedRanking,
    RankingLists,
    coordinate_ascent,
    decided,
    loss_and_gradient,
    preferences,
    rank_boost,
    rank_net,
    rankers_named,
)
from cts_async.neighbours.mimics_duo.ties import expected_by_query, ideal_items


def lists_of(queries: int, *, deciding: int = 1, rising: bool = True) -> RankingLists:
    """Lists of four items; of three features only `deciding` has to do with the label."""
    rng = np.random.default_rng(7)
    features = rng.uniform(size=(queries * 4, 3))
    values = features[:, deciding] if rising else 1 - features[:, deciding]
    return RankingLists(features, np.floor(values * 4), np.repeat(np.arange(queries), 4))


def mrr(ranking: LearnedRanking, lists: RankingLists) -> float:
    is_ideal = ideal_items(lists.labels, lists.query)
    return float(expected_by_query(ranking.scores(lists.features), is_ideal, lists.query)[1].mean())


@pytest.mark.parametrize("name", RANKERS)
def test_feature_that_decides_is_found_and_found_again(name: str) -> None:
    lists = lists_of(40)
    ranking, again = (RANKERS[name].fit(lists, 3) for _ in range(2))
    assert mrr(ranking, lists) > 0.97
    assert int(np.argmax(np.abs(ranking.weights))) == 1
    assert ranking.weights[1] > 0
    assert ranking.scores(lists.features).tolist() == again.scores(lists.features).tolist()
    assert ranking.weights.tolist() == again.weights.tolist()


@pytest.mark.parametrize("name", ["ranknet", "rankboost", "coordinate-ascent", "pairwise-logistic"])
def test_feature_that_speaks_against_an_item_weighs_below_nothing(name: str) -> None:
    lists = lists_of(40, rising=False)
    ranking = RANKERS[name].fit(lists, 0)
    assert mrr(ranking, lists) > 0.97
    assert ranking.weights[1] < 0


def test_rank_boost_by_hand() -> None:
    """Right on two pairs of three: r = 1/3, alpha = ln(2) / 2. The new weights make r 0: there is no second round."""
    features = np.array([[1.0], [0.0], [1.0], [0.0], [0.0], [1.0]])
    lists = RankingLists(features, np.array([1, 0, 1, 0, 1, 0]), np.array([0, 0, 1, 1, 2, 2]))
    ranking = rank_boost(lists)
    assert ranking.weights.tolist() == [pytest.approx(log(2) / 2)]
    assert ranking.scores(features[:2]).tolist() == [pytest.approx(log(2) / 2), 0]


def test_rank_boost_takes_the_threshold_that_parts_the_pairs() -> None:
    """0.35 against 0.45: only "above 0.4" tells them apart."""
    lists = RankingLists(np.array([[0.45], [0.35]]), np.array([1, 0]), np.array([0, 0]))
    scores = rank_boost(lists, rounds=1).scores(np.array([[0.0], [0.4], [0.41], [1.5]]))
    assert scores[0] == scores[1] == 0
    assert scores[2] == scores[3] > 0


def test_rank_net_descends_along_its_loss() -> None:
    """The gradient agrees with finite differences."""
    lists = lists_of(5)
    pairs = preferences(lists.labels, lists.query)
    point = np.random.default_rng(1).normal(size=HIDDEN * 5)
    _, gradient = loss_and_gradient(point, lists.features, pairs)
    for place in range(0, len(point), 7):
        step = np.zeros(len(point))
        step[place] = 1e-6
        up, down = (loss_and_gradient(point + way, lists.features, pairs)[0] for way in (step, -step))
        assert gradient[place] == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_rank_net_learns_a_nonlinear_ranking() -> None:
    """The item in the middle is best: no weight of the one feature ranks it first, a hidden layer does."""
    features = np.tile([[0.0], [0.5], [1.0]], (10, 1))
    lists = RankingLists(features, np.tile([0, 1, 0], 10), np.repeat(np.arange(10), 3))
    assert mrr(rank_net(lists), lists) == 1
    assert mrr(coordinate_ascent(lists), lists) == 0.5


def test_coordinate_ascent_needs_both_of_two_features() -> None:
    """The ideal item leads in neither feature but in their sum."""
    features = np.tile([[1.0, 0.0], [0.6, 0.6], [0.0, 1.0]], (10, 1))
    lists = RankingLists(features, np.tile([0, 1, 0], 10), np.repeat(np.arange(10), 3))
    ranking = coordinate_ascent(lists)
    assert mrr(ranking, lists) == 1
    assert np.abs(ranking.weights).sum() == pytest.approx(1)


def test_labels_may_be_any_numbers() -> None:
    """LambdaMART's grades are their places, also of a label that is another for every item."""
    lists = lists_of(30)
    far = RankingLists(lists.features, lists.labels * 100 - 50.5, lists.query)
    assert mrr(RANKERS["lambdamart"].fit(far, 0), far) > 0.97
    fine = RankingLists(lists.features, lists.features[:, 1], lists.query)
    assert mrr(RANKERS["lambdamart"].fit(fine, 0), fine) > 0.9


def test_rankers_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(rankers_named()) == list(RANKERS)
    assert list(rankers_named(["rankboost", "mart", "rankboost"])) == ["rankboost", "mart"]
    with pytest.raises(UsageError, match="unknown ranker 'svm': choose from mart, ranknet"):
        rankers_named(["svm"])
    monkeypatch.setattr(rankers, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        rankers_named(["rankboost", "lambdamart"])
    assert str(caught.value) == (
        "ranker lambdamart needs lightgbm: pip install 'cts-async[ltr]' "
        "(these work without: ranknet, rankboost, coordinate-ascent)"
    )
    assert list(rankers_named(["rankboost"])) == ["rankboost"]


QUERY = np.array([0, 0, 2, 2, 2, 5])
LABELS = np.array([1, 1, 3, 1, 3, 4])


def test_tied_queries_and_single_items_decide_nothing() -> None:
    assert decided(LABELS, QUERY).tolist() == [False, False, True, True, True, False]
    assert decided(np.zeros(0), np.zeros(0, int)).tolist() == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12))
def test_every_preference_pair_occurs_once(items: list[tuple[int, int]]) -> None:
    items = sorted(items, key=lambda item: item[0])
    query, labels = (np.array([item[place] for item in items], int) for place in (0, 1))
    wanted = [
        (i, j)
        for i in range(len(items))
        for j in range(len(items))
        if items[i][0] == items[j][0] and items[i][1] > items[j][1]
    ]
    better, worse = preferences(labels, query)
    assert sorted(zip(better.tolist(), worse.tolist(), strict=True)) == wanted
