"""Ask or not (paper, section 7.3): the frontier of asking less.

A policy asks where the predicted chance of at least one answer is >= t, and searches the query as it is
elsewhere: an instance that is asked has its score from the run, another its score from `orig`. One threshold
after the other traces share asked against mean score, from never asking (orig) to always asking (the run). At
k = 1 the chance is the question's predicted answerability; at k > 1 the k questions are asked or not together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cts_async.analysis.answerability import FOLDS, Predictions, any_answered, fold_of
from cts_async.analysis.bootstrap import Difference, paired_difference
from cts_async.analysis.interactions import Interactions, Scores

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Point:
    """Asking where the prediction is >= `threshold` (None: never). Share 0..1, mean score 0..100."""

    threshold: float | None
    share_asked: float
    mean_score: float


@dataclass(frozen=True, slots=True)
class Frontier:
    """What one run's predictions are worth, over the `n` instances judged in it and in `orig`."""

    label: str
    k: int
    n: int
    points: tuple[Point, ...]
    """From never to always, one point for each distinct prediction."""
    area: float
    """Mean height of the frontier above asking the same share at random, in points of the score."""
    best: Point
    """The highest mean in the sample itself, with the fewest asked among equals: too good to be expected."""
    validated: Point
    """What thresholds chosen on nine folds come to on the tenth, in turn. It has no one threshold: None."""
    over_always: Difference
    """`validated` minus always asking, paired, with its bootstrap interval."""

    @property
    def never(self) -> Point:
        return self.points[0]

    @property
    def always(self) -> Point:
        return self.points[-1]


def ask_or_not(
    system: Interactions, predictions: Predictions, orig: Scores, *, seed: int = 0
) -> Frontier | None:
    """The frontier of one run; None where no instance is judged both in it and in `orig`."""
    import numpy as np

    rows = [row for row in system.rows if row.score is not None and row.id in orig]
    if not rows:
        return None
    chance = np.array([any_answered(predictions[row.id]) for row in rows])
    asked = np.array([row.score for row in rows], float)
    unasked = np.array([orig[row.id] for row in rows], float)
    folds = np.array([fold_of(row.id, seed) for row in rows])
    points = _trace(chance, asked, unasked)
    decided = _validated(chance, asked, unasked, folds)
    outcome = np.where(decided, asked, unasked)
    over_always = paired_difference(outcome, asked, seed=seed)
    assert over_always is not None
    return Frontier(
        label=system.label,
        k=system.k,
        n=len(rows),
        points=points,
        area=_area(points),
        best=_best(points),
        validated=Point(None, float(decided.mean()), float(outcome.mean())),
        over_always=over_always,
    )


def _trace(chance: Array, asked: Array, unasked: Array) -> tuple[Point, ...]:
    import numpy as np

    n = len(chance)
    order = np.argsort(-chance, kind="stable")
    ranked = chance[order]
    totals = unasked.sum() + np.cumsum((asked - unasked)[order])
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), n - 1)  # the last of each distinct prediction
    never = Point(None, 0.0, float(unasked.mean()))
    return never, *(Point(float(ranked[i]), float((i + 1) / n), float(totals[i] / n)) for i in ends)


def _best(points: Sequence[Point]) -> Point:
    # Sums in another order differ in their last digits: what is equal but for them asks the fewest.
    return max(points, key=lambda point: (round(point.mean_score, 9), -point.share_asked))


def _area(points: Sequence[Point]) -> float:
    """The trapezoids between the frontier and the straight line from its first to its last point."""
    first, last = points[0].mean_score, points[-1].mean_score
    heights = [p.mean_score - (first + (last - first) * p.share_asked) for p in points]
    return sum(
        (after.share_asked - before.share_asked) * (low + high) / 2
        for before, after, low, high in zip(points, points[1:], heights, heights[1:], strict=False)
    )


def _validated(chance: Array, asked: Array, unasked: Array, folds: Array) -> Array:
    """Whether each instance is asked, by the threshold that is best on all folds but its own."""
    import numpy as np

    decided = np.zeros(len(chance), bool)
    for fold in range(FOLDS):
        inside = folds == fold
        if not inside.any():
            continue
        if inside.all():
            decided[inside] = True  # nothing to learn a threshold from: ask, as the benchmark does
            continue
        threshold = _best(_trace(chance[~inside], asked[~inside], unasked[~inside])).threshold
        decided[inside] = threshold is not None and chance[inside] >= threshold
    return decided
