"""The rankers of MIMICS-Duo's section 3.1, which learn from features, and pairwise logistic regression.

The paper used RankLib. MART and LambdaMART are LightGBM's here, Random Forests scikit-learn's; RankBoost, RankNet and
coordinate ascent are in no Python library, and are implemented below. All run on one thread, and give the same ranking
for the same lists and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.errors import UsageError, install_command
from cts_async.neighbours.mimics_duo.ties import Array, expected_by_query, ideal_items, sizes, starts


@dataclass(frozen=True, slots=True)
class RankingLists:
    """Items in rows, a query's items one after another.

    `features` (items, features) float; `labels` (items,) higher is better; `query` (items,) int, never falling.
    """

    features: Array
    labels: Array
    query: Array


def decided(labels: Array, query: Array) -> Array:
    """True for items whose query has two different labels, (items,) bool: others cannot be ranked (section 3.1.1)."""
    if not len(query):
        return np.zeros(0, bool)
    first_rows = starts(query)
    differs = np.maximum.reduceat(labels, first_rows) > np.minimum.reduceat(labels, first_rows)
    return np.repeat(differs, sizes(query))


def preferences(labels: Array, query: Array) -> tuple[Array, Array]:
    """Rows (better, worse) of all pairs of one query whose labels differ, each pair once."""
    better: list[Array] = [np.zeros(0, int)]
    worse: list[Array] = [np.zeros(0, int)]
    rows = np.arange(len(query))
    # The k-th neighbour of every item at once: as many rounds as the longest list is long.
    for step in range(1, int(sizes(query).max(initial=0))):
        earlier, later = rows[:-step], rows[step:]
        of_one_query = query[earlier] == query[later]
        for high, low in ((earlier, later), (later, earlier)):
            prefers = of_one_query & (labels[high] > labels[low])
            better.append(high[prefers])
            worse.append(low[prefers])
    return np.concatenate(better), np.concatenate(worse)


@dataclass(frozen=True, slots=True)
class LearnedRanking:
    """A ranking function: `scores` takes (items, features) to (items,), higher first.

    `weights` (features,) say how much each feature counts; negative where more of a feature ranks lower, for models
    that have a direction.
    """

    scores: Callable[[Array], Array]
    weights: Array


Fit: TypeAlias = Callable[[RankingLists, int], LearnedRanking]
"""Learn from lists with at least one preference, with a seed: the same lists and seed give the same ranking."""


# --- RankBoost -------------------------------------------------------------------------------------------

# As in RankLib; features lie between 0 and 1.
ROUNDS: Final = 300
THRESHOLDS: Final = np.arange(10) / 10
_CERTAIN: Final = 1 - 1e-6
"""A weak ranker without any mistake would get an infinite weight."""


def rank_boost(lists: RankingLists, seed: int = 0, *, rounds: int = ROUNDS) -> LearnedRanking:
    """RankBoost (Freund, Iyer, Schapire & Singer 2003) on features between 0 and 1; `seed` changes nothing.

    Weak rankers say whether one feature exceeds a threshold. Each round takes the one with the largest |r|, the
    weighted share of pairs it orders rightly less those it orders wrongly, gives it alpha = 1/2 ln((1 + r) / (1 - r))
    (their third method), and shifts the weights of pairs to those that are still wrong. The weights of the ranking are
    the alphas by feature: by how much its largest value raises a score above its smallest.
    """
    better, worse = preferences(lists.labels, lists.query)
    levels = _levels(lists.features)
    features = levels.shape[1]
    steps = np.zeros((features, len(THRESHOLDS)))
    weights = np.full(len(better), 1 / len(better))
    for _ in range(rounds):
        # What raising each item's score would gain: the weight of pairs it should win less of those it should lose.
        potential = np.bincount(better, weights, len(levels)) - np.bincount(worse, weights, len(levels))
        feature, threshold, r = _best_weak_ranker(levels, potential)
        # No weak ranker is better than chance any more; 1e-9 is what sums of floats leave of 0.
        if abs(r) < 1e-9:
            break
        r = min(_CERTAIN, max(-_CERTAIN, r))
        alpha = 0.5 * np.log((1 + r) / (1 - r))
        steps[feature, threshold] += alpha
        above = (levels[:, feature] > threshold).astype(float)
        weights = weights * np.exp(-alpha * (above[better] - above[worse]))
        weights /= weights.sum()
    heights = np.concatenate([np.zeros((features, 1)), steps.cumsum(axis=1)], axis=1)

    def scores(rows: Array) -> Array:
        summed: Array = heights[np.arange(features), _levels(rows)].sum(axis=1)
        return summed

    return LearnedRanking(scores, steps.sum(axis=1))


def _levels(features: Array) -> Array:
    """How many thresholds each value exceeds, shape (items, features)."""
    return np.searchsorted(THRESHOLDS, features, side="left")


def _best_weak_ranker(levels: Array, potential: Array) -> tuple[int, int, float]:
    """The feature and threshold with the largest |r|, and r: the summed potential of the items above it."""
    features, bins = levels.shape[1], len(THRESHOLDS) + 1
    codes = (levels + np.arange(features) * bins).ravel()
    mass = np.bincount(codes, np.repeat(potential, features), features * bins).reshape(features, bins)
    # Summed from the highest level down to level 1, and turned round again: column t is of the items above threshold t.
    gains = mass[:, :0:-1].cumsum(axis=1)[:, ::-1]
    feature, threshold = np.unravel_index(np.argmax(np.abs(gains)), gains.shape)
    return int(feature), int(threshold), float(gains[feature, threshold])


# --- RankNet ---------------------------------------------------------------------------------------------

HIDDEN: Final = 10
"""Nodes of the hidden layer, as in RankLib."""
DECAY: Final = 1e-3
"""Factor of half the squared weights in the loss."""
STEPS: Final = 100
"""Iterations of L-BFGS, at most."""


def rank_net(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """RankNet (Burges et al. 2005) on features of about unit size: a net with one hidden layer, trained on pairs.

    The loss of a pair is log(1 + exp(-(s_better - s_worse))), the cross entropy of the probability that the better item
    wins. The weights are the products along all paths, summed (Olden 2004).
    """
    from scipy.optimize import minimize

    pairs = preferences(lists.labels, lists.query)
    columns = lists.features.shape[1]
    rng = np.random.default_rng(seed)
    # The inner weights are drawn before the outer ones: a seed gives the same net only in this order.
    inner_weights = rng.normal(0, 1 / np.sqrt(columns), HIDDEN * columns)
    outer_weights = rng.normal(0, 0.3, HIDDEN)
    initial = np.concatenate([inner_weights, np.zeros(HIDDEN), outer_weights])
    # L-BFGS on all pairs instead of stochastic gradient descent: a few hundred lists are few, and the result depends
    # on the initial weights only.
    minimum = minimize(
        loss_and_gradient,
        initial,
        args=(lists.features, pairs),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": STEPS},
    )
    inner, bias, outer = _layers(minimum.x, columns)

    def scores(rows: Array) -> Array:
        output: Array = np.tanh(rows @ inner.T + bias) @ outer
        return output

    return LearnedRanking(scores, outer @ inner)


def loss_and_gradient(flat: Array, features: Array, pairs: tuple[Array, Array]) -> tuple[float, Array]:
    """The mean loss of (better, worse) pairs with weight decay, and its gradient by the flat parameters."""
    better, worse = pairs
    inner, bias, outer = _layers(flat, features.shape[1])
    hidden = np.tanh(features @ inner.T + bias)
    scores = hidden @ outer
    margins = scores[better] - scores[worse]
    loss = np.logaddexp(0, -margins).mean() + DECAY / 2 * ((inner**2).sum() + (outer**2).sum())
    pull = np.exp(-np.logaddexp(0, margins)) / len(better)
    by_score = np.bincount(worse, pull, len(scores)) - np.bincount(better, pull, len(scores))
    by_hidden = by_score[:, None] * outer * (1 - hidden**2)
    # In the order that `_layers` takes apart; the biases do not decay.
    by_inner = by_hidden.T @ features + DECAY * inner
    by_bias = by_hidden.sum(axis=0)
    by_outer = hidden.T @ by_score + DECAY * outer
    return float(loss), np.concatenate([by_inner.ravel(), by_bias, by_outer])


def _layers(flat: Array, columns: int) -> tuple[Array, Array, Array]:
    """Weights into the hidden layer (HIDDEN, columns), its biases, and the weights out of it, (HIDDEN,) each."""
    split = HIDDEN * columns
    return flat[:split].reshape(HIDDEN, columns), flat[split : split + HIDDEN], flat[split + HIDDEN :]


# --- Coordinate ascent -----------------------------------------------------------------------------------

STARTS: Final = 5
"""Even weights, then random ones: as many as RankLib."""
PASSES: Final = 25
TOLERANCE: Final = 1e-3
"""The MRR that a pass must gain to be followed by another."""
_STEPS: Final = 0.05 * 2.0 ** np.arange(7)
_CHANGES: Final = np.concatenate([-_STEPS[::-1], _STEPS])


def coordinate_ascent(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """Coordinate ascent on a linear ranking (Metzler & Croft 2007); weights whose sizes sum to 1.

    One weight is changed at a time, to the value among a few that gives the training lists the highest MRR, until no
    pass over the weights gains more. The measure itself is maximised, not a smooth substitute, so several starts are
    needed. Features are of about unit size.
    """
    rng = np.random.default_rng(seed)
    columns = lists.features.shape[1]
    even = np.full(columns, 1 / columns)
    best_mrr, best_weights = -1.0, even
    random_starts = rng.uniform(-1, 1, (STARTS - 1, columns))
    for start in np.vstack([even, random_starts]):
        mrr, weights = _climb(lists, start, rng)
        # The first of equally good ends stays, so the even start wins a draw.
        if mrr > best_mrr:
            best_mrr, best_weights = mrr, weights
    return _linear_ranking(best_weights)


def _linear_ranking(weights: Array) -> LearnedRanking:
    def scores(rows: Array) -> Array:
        weighted: Array = rows @ weights
        return weighted

    return LearnedRanking(scores, weights)


def _climb(lists: RankingLists, weights: Array, rng: np.random.Generator) -> tuple[float, Array]:
    """The MRR reached from `weights`, and the weights that reach it."""
    is_ideal = ideal_items(lists.labels, lists.query)
    weights = weights / np.abs(weights).sum()
    mrr = float(_mrr(lists, (lists.features @ weights)[None], is_ideal)[0])
    for _ in range(PASSES):
        mrr_before = mrr
        for column in rng.permutation(len(weights)):
            # The last change takes the feature out of the ranking.
            changes = np.append(_CHANGES, -weights[column])
            scores = lists.features @ weights + changes[:, None] * lists.features[:, column]
            mrr_by_change = _mrr(lists, scores, is_ideal)
            best = int(np.argmax(mrr_by_change))
            changed = weights.copy()
            changed[column] += changes[best]
            size = np.abs(changed).sum()
            # Without any weight there is no ranking; 1e-12 is no gain, but the same sum in another order.
            if mrr_by_change[best] > mrr + 1e-12 and size > 0:
                mrr, weights = float(mrr_by_change[best]), changed / size
        if mrr - mrr_before < TOLERANCE:
            break
    return mrr, weights


def _mrr(lists: RankingLists, scores: Array, is_ideal: Array) -> Array:
    """MRR of each row of `scores` (candidates, items)."""
    mean: Array = expected_by_query(scores, is_ideal, lists.query)[1].mean(axis=-1)
    return mean


# --- Libraries' rankers ----------------------------------------------------------------------------------

TREES: Final = 100
"""Rounds of boosting, and trees of a forest."""
MOST_GRADES: Final = 31
"""As many as LightGBM knows gains for by itself."""


def mart(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """Gradient-boosted regression trees on the labels themselves (Friedman 2001). Weights are shares of the gain."""
    return _boosted(lists, seed, {"objective": "regression"}, lists.labels)


def lambda_mart(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """Boosted trees on the change of nDCG, of whole lists, by swaps (Wu et al. 2010). Weights are shares of the gain.

    Grades are the places of a label among all that occur, from 0; of more than 31 labels neighbours share a grade,
    since a grade's gain is 2 ** grade - 1.
    """
    grades = np.unique(lists.labels, return_inverse=True)[1]
    highest = int(grades.max())
    if highest > MOST_GRADES - 1:
        grades = grades * (MOST_GRADES - 1) // highest
    settings = {
        "objective": "lambdarank",
        # LightGBM counts the first 30 places only unless told: whole lists are meant.
        "lambdarank_truncation_level": int(sizes(lists.query).max()),
        "label_gain": (2.0 ** np.arange(int(grades.max()) + 1) - 1).tolist(),
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
    # Each pair is given both ways round: the model needs two classes.
    model = LogisticRegression(fit_intercept=False, random_state=seed, max_iter=1000).fit(
        np.concatenate([differences, -differences]), np.repeat([1, 0], len(better))
    )
    return _linear_ranking(model.coef_[0])


def _boosted(lists: RankingLists, seed: int, settings: dict[str, Any], target: Array) -> LearnedRanking:
    import lightgbm

    # `deterministic` is not enough: LightGBM's manual asks for one layout of the data beside it.
    common_settings: dict[str, Any] = {
        "seed": seed,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
        "learning_rate": 0.1,
        "num_leaves": 10,
        "min_data_in_leaf": 5,
    }
    group = None
    if settings["objective"] == "lambdarank":
        group = sizes(lists.query)
    data = lightgbm.Dataset(lists.features, target, group=group)
    model = lightgbm.train(common_settings | settings, data, TREES)

    def scores(rows: Array) -> Array:
        return np.asarray(model.predict(rows))

    gain = model.feature_importance("gain")
    # Trees that never split have no gain to share.
    return LearnedRanking(scores, gain / (gain.sum() or 1.0))


# --- All rankers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PaneRanker:
    """A way to learn a ranking: `title` as in the paper's tables, `needs` the package it comes from, "" for none."""

    title: str
    fit: Fit
    needs: str = ""


RANKERS: Final[Mapping[str, PaneRanker]] = {
    "mart": PaneRanker("MART", mart, "lightgbm"),
    "ranknet": PaneRanker("RankNet", rank_net),
    "rankboost": PaneRanker("RankBoost", rank_boost),
    "coordinate-ascent": PaneRanker("Coordinate Ascent", coordinate_ascent),
    "lambdamart": PaneRanker("LambdaMART", lambda_mart, "lightgbm"),
    "random-forests": PaneRanker("RandomForests", random_forests, "sklearn"),
    "pairwise-logistic": PaneRanker("Pairwise logistic", pairwise_logistic, "sklearn"),
}
"""By name, in the order of the paper's tables 3 and 4; the last is not in the paper."""


def rankers_named(names: Iterable[str] = ()) -> dict[str, PaneRanker]:
    """The rankers of these names, all for none. Raises UsageError for an unknown name or a package that is missing."""
    rankers: dict[str, PaneRanker] = {}
    for name in list(names) or RANKERS:
        if name not in RANKERS:
            raise UsageError(f"unknown ranker {name!r}: choose from {', '.join(RANKERS)}")
        ranker = RANKERS[name]
        if ranker.needs and find_spec(ranker.needs) is None:
            without = ", ".join(_rankers_without_packages())
            raise UsageError(
                f"ranker {name} needs {ranker.needs}: {install_command('ltr')} (these work without: {without})"
            )
        rankers[name] = ranker
    return rankers


def _rankers_without_packages() -> Iterator[str]:
    for name, ranker in RANKERS.items():
        if not ranker.needs:
            yield name
