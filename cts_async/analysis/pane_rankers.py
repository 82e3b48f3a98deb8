"""The rankers that learn from features: those of MIMICS-Duo's section 3.1, and pairwise logistic regression.

The paper used RankLib. MART and LambdaMART are LightGBM's here, Random Forests scikit-learn's, the others our own;
all run on one thread and give the same ranking for the same lists and seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.coordinate_ascent import coordinate_ascent
from cts_async.analysis.rank_boost import rank_boost
from cts_async.analysis.rank_net import rank_net
from cts_async.analysis.ranking_lists import Fit, LearnedRanking, RankingLists, preferences, sizes
from cts_async.errors import UsageError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TREES: Final = 100
"""Rounds of boosting, and trees of a forest."""
MOST_GRADES: Final = 31
"""As many as LightGBM knows gains for by itself."""


@dataclass(frozen=True, slots=True)
class PaneRanker:
    """A way to learn a ranking: `title` as in the paper's tables, `needs` the package it comes from, "" for none."""

    title: str
    fit: Fit
    needs: str = ""


def mart(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """Gradient-boosted regression trees on the labels themselves (Friedman 2001). Weights are shares of the gain."""
    return _boosted(lists, seed, {"objective": "regression"}, lists.labels)


def lambda_mart(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """Boosted trees on the change of nDCG, of whole lists, by swaps (Wu et al. 2010). Weights are shares of the gain.

    Grades are the places of a label among all that occur, from 0; of more than 31 labels neighbours share a grade,
    since a grade's gain is 2 ** grade - 1.
    """
    grades = np.unique(lists.labels, return_inverse=True)[1]
    if (highest := int(grades.max())) > MOST_GRADES - 1:
        grades = grades * (MOST_GRADES - 1) // highest
    settings = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": int(sizes(lists.query).max()),
        "label_gain": [2.0**grade - 1 for grade in range(int(grades.max()) + 1)],
    }
    return _boosted(lists, seed, settings, grades)


def random_forests(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """A forest of regression trees on the labels (Breiman 2001). Weights are shares of the reduction of variance."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        TREES, min_samples_leaf=5, max_features=1 / 3, random_state=seed, n_jobs=1
    ).fit(lists.features, lists.labels)
    return LearnedRanking(forest.predict, forest.feature_importances_)


def pairwise_logistic(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """A linear ranking by logistic regression on the differences of preferred pairs (RankSVM, smooth)."""
    from sklearn.linear_model import LogisticRegression

    better, worse = preferences(lists.labels, lists.query)
    differences = lists.features[better] - lists.features[worse]
    # Each pair is told both ways round: the model needs two classes.
    model = LogisticRegression(fit_intercept=False, random_state=seed, max_iter=1000).fit(
        np.concatenate([differences, -differences]), np.repeat([1, 0], len(better))
    )
    weights = model.coef_[0]
    return LearnedRanking(lambda rows: rows @ weights, weights)


RANKERS: Final[Mapping[str, PaneRanker]] = MappingProxyType(
    {
        "mart": PaneRanker("MART", mart, "lightgbm"),
        "ranknet": PaneRanker("RankNet", rank_net),
        "rankboost": PaneRanker("RankBoost", rank_boost),
        "coordinate-ascent": PaneRanker("Coordinate Ascent", coordinate_ascent),
        "lambdamart": PaneRanker("LambdaMART", lambda_mart, "lightgbm"),
        "random-forests": PaneRanker("RandomForests", random_forests, "sklearn"),
        "pairwise-logistic": PaneRanker("Pairwise logistic", pairwise_logistic, "sklearn"),
    }
)
"""By name, in the order of the paper's tables 3 and 4; the last is not in the paper."""


def chosen(names: Iterable[str] = ()) -> dict[str, PaneRanker]:
    """The rankers of these names, all for none. Raises UsageError for an unknown name or a package that is missing."""
    names = list(dict.fromkeys(names)) or list(RANKERS)
    for name in names:
        if name not in RANKERS:
            raise UsageError(f"unknown ranker {name!r}: choose from {', '.join(RANKERS)}")
        needed = RANKERS[name].needs
        if needed and find_spec(needed) is None:
            without = ", ".join(known for known, ranker in RANKERS.items() if not ranker.needs)
            raise UsageError(
                f"ranker {name} needs {needed}: pip install 'cts-async[ltr]' (these work without: {without})"
            )
    return {name: RANKERS[name] for name in names}


def _boosted(lists: RankingLists, seed: int, settings: dict[str, Any], target: Array) -> LearnedRanking:
    import lightgbm

    settings = {
        "seed": seed,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
        "learning_rate": 0.1,
        "num_leaves": 10,
        "min_data_in_leaf": 5,
        **settings,
    }
    group = sizes(lists.query) if settings["objective"] == "lambdarank" else None
    data = lightgbm.Dataset(lists.features, target, group=group)
    model = lightgbm.train(settings, data, TREES)
    gain = model.feature_importance("gain")
    return LearnedRanking(lambda rows: np.asarray(model.predict(rows)), gain / (gain.sum() or 1.0))
