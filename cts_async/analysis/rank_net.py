"""RankNet (Burges et al. 2005, "Learning to rank using gradient descent"): a small net trained on preferences.

The net scores an item by one hidden layer; the loss of a pair is log(1 + exp(-(s_better - s_worse))), the cross
entropy of the probability that the better item wins. It is minimised whole by L-BFGS instead of by stochastic
gradient descent: a few hundred lists are few, and the result depends on the first weights only.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.ranking_lists import LearnedRanking, RankingLists, preferences

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

HIDDEN: Final = 10
"""As in RankLib, which the paper used."""
DECAY: Final = 1e-3
STEPS: Final = 100


def rank_net(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """Learn from features of about unit size. The weights are the products along all paths, summed (Olden 2004)."""
    from scipy.optimize import minimize

    pairs = preferences(lists.labels, lists.query)
    columns = lists.features.shape[1]
    rng = np.random.default_rng(seed)
    begin = np.concatenate(
        [rng.normal(0, 1 / np.sqrt(columns), HIDDEN * columns), np.zeros(HIDDEN), rng.normal(0, 0.3, HIDDEN)]
    )
    found = minimize(
        lambda flat: loss_and_gradient(flat, lists.features, pairs),
        begin,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": STEPS},
    ).x
    inner, bias, outer = _layers(found, columns)
    return LearnedRanking(lambda rows: np.tanh(rows @ inner.T + bias) @ outer, outer @ inner)


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
    parts = (
        by_hidden.T @ features + DECAY * inner,
        by_hidden.sum(axis=0),
        hidden.T @ by_score + DECAY * outer,
    )
    return float(loss), np.concatenate([part.ravel() for part in parts])


def _layers(flat: Array, columns: int) -> tuple[Array, Array, Array]:
    """Weights into the hidden layer (HIDDEN, columns), its biases, and the weights out of it, (HIDDEN,) each."""
    split = HIDDEN * columns
    return flat[:split].reshape(HIDDEN, columns), flat[split : split + HIDDEN], flat[split + HIDDEN :]
