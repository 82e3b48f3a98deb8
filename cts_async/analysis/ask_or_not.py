"""Predicted answerability, its calibration, and when asking pays (paper, section 7.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.interactions import Interaction, Interactions, Scores, Turn
from cts_async.analysis.resampling import Difference, paired_difference

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Answerability: the chance that a question is answered, predicted before it is asked. It is a rate, smoothed from the
# general to the particular:
#
#     all questions -> primary type -> primary type x language x turn,   p = (known + S * p_above) / (n + S)
#
# with S = 10 questions' worth of the level above; the first level starts at 1/2 with S = 2. It is out of fold:
# instances are dealt to 10 folds by a digest of seed and id, and a question is predicted from the other folds
# only. All systems are counted together, and an instance is in the same fold in all of them, so the answers that one
# system received never predict those of another on the same instance.

FOLDS: Final = 10
STRENGTH: Final = 10.0
"""Weight of the level above, in questions."""

Predictions: TypeAlias = dict[str, tuple[float, ...]]
"""Predicted answerability of the questions in order, by instance."""
_Cell: TypeAlias = tuple[object, ...]


def fold_of(id: str, seed: int) -> int:
    """Return the fold, 0..9, of an instance: the same in every system and process."""
    return blake2b(f"{seed}/{id}".encode(), digest_size=8).digest()[0] % FOLDS


def predict_answerability(systems: Sequence[Interactions], *, seed: int = 0) -> list[Predictions]:
    """Predict every question of every system out of fold, strictly between 0 and 1."""
    asked, known = _counts((row for system in systems for row in system.rows), seed)
    rates = _Rates(asked, known)
    return [
        {
            row.id: tuple(rates.predict(turn, fold) for turn in row.turns)
            for row in system.rows
            for fold in (fold_of(row.id, seed),)
        }
        for system in systems
    ]


def any_answered(predictions: Sequence[float]) -> float:
    """Return the chance that at least one of the questions is answered, as if they were independent."""
    chance = 0.0
    for p in predictions:
        chance += p - chance * p  # with a single question exactly its prediction
    return chance


def _cells(turn: Turn) -> tuple[_Cell, ...]:
    """The classes that a question belongs to, the most general first."""
    kind = turn.reading.primary
    return (), (kind,), (kind, turn.language, turn.turn)


def _counts(rows: Iterable[Interaction], seed: int) -> tuple[Counter[_Cell], Counter[_Cell]]:
    """Count questions and known answers by class: over all folds, and by fold as (fold, class)."""
    asked: Counter[_Cell] = Counter()
    known: Counter[_Cell] = Counter()
    for row in rows:
        fold = fold_of(row.id, seed)
        for turn in row.turns:
            for cell in _cells(turn):
                keys = (cell, (fold, cell))
                asked.update(keys)
                if turn.known:
                    known.update(keys)
    return asked, known


class _Rates:
    """Smoothed rates without one fold, computed once for each class and fold."""

    def __init__(self, asked: Counter[_Cell], known: Counter[_Cell]) -> None:
        self._asked, self._known = asked, known
        self._rates: dict[tuple[_Cell, int], float] = {}

    def predict(self, turn: Turn, fold: int) -> float:
        cells = _cells(turn)
        rate = self._rates.get((cells[-1], fold))
        if rate is None:
            rate = self._rates[cells[-1], fold] = self._smoothed(cells, fold)
        return rate

    def _smoothed(self, cells: Sequence[_Cell], fold: int) -> float:
        rate, strength = 0.5, 2.0
        for cell in cells:
            n = self._asked[cell] - self._asked[fold, cell]
            known = self._known[cell] - self._known[fold, cell]
            rate, strength = (known + strength * rate) / (n + strength), STRENGTH
        return rate


# Calibration: the Brier score (Brier, 1950) is the mean squared difference of prediction and outcome, 0 is best. Its
# reference is the score of always predicting the observed rate, r (1 - r); skill = 1 - Brier / reference.

BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Questions predicted in [low, high), and 1.0 in the last bin."""

    low: float
    high: float
    n: int
    predicted: float
    """Mean prediction."""
    known: int
    gain: Difference | None
    """Mean difference to `orig` of the instances at k = 1 whose question is in this bin; None without any."""

    @property
    def observed(self) -> float:
        return self.known / self.n


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration over `n` questions; empty bins are left out."""

    n: int
    brier: float
    reference: float
    bins: tuple[Bin, ...]

    @property
    def skill(self) -> float | None:
        """Share of the reference's error that the predictions save; None if the reference has no error."""
        return 1 - self.brier / self.reference if self.reference else None


@dataclass(slots=True)
class _BinSums:
    """Sums over the questions of one bin."""

    n: int = 0
    known: int = 0
    predicted: float = 0.0
    scores: list[float] = field(default_factory=list)
    baseline: list[float] = field(default_factory=list)


def calibrate(
    systems: Sequence[Interactions], predictions: Sequence[Predictions], orig: Scores, *, seed: int = 0
) -> Calibration | None:
    """Compare the predictions with the answers; None if nothing was asked."""
    sums = [_BinSums() for _ in range(BINS)]
    error = 0.0
    for system, predicted in zip(systems, predictions, strict=True):
        for row in system.rows:
            for turn, p in zip(row.turns, predicted[row.id], strict=True):
                error += (p - turn.known) ** 2
                bin = sums[min(int(p * BINS), BINS - 1)]
                bin.n += 1
                bin.known += turn.known
                bin.predicted += p
                if system.k == 1 and row.score is not None and row.id in orig:
                    bin.scores.append(row.score)
                    bin.baseline.append(orig[row.id])
    n, known = sum(bin.n for bin in sums), sum(bin.known for bin in sums)
    if not n:
        return None
    bins = tuple(
        Bin(
            low=i / BINS,
            high=(i + 1) / BINS,
            n=bin.n,
            predicted=bin.predicted / bin.n,
            known=bin.known,
            gain=paired_difference(bin.scores, bin.baseline, seed=seed),
        )
        for i, bin in enumerate(sums)
        if bin.n
    )
    return Calibration(n, error / n, known / n * (1 - known / n), bins)


# Ask or not: a policy asks where the predicted chance of at least one answer is >= t, and searches the query as it is
# elsewhere. An instance that is asked has its score from the run, another its score from `orig`. One threshold after
# the other traces share asked against mean score, from never asking (orig) to always asking (the run). At k = 1 the
# chance is the question's predicted answerability; at k > 1 the k questions are asked or not together.


@dataclass(frozen=True, slots=True)
class Point:
    """Asking where the prediction is >= `threshold` (None: never). Share 0..1, mean score 0..100."""

    threshold: float | None
    share_asked: float
    mean_score: float


@dataclass(frozen=True, slots=True)
class Frontier:
    """What the predictions of one run are worth, over the `n` instances judged in it and in `orig`."""

    label: str
    k: int
    n: int
    points: tuple[Point, ...]
    """From never to always, one point for each distinct prediction."""
    area: float
    """Mean height of the frontier above asking the same share at random, in points of the score."""
    best: Point
    """The highest mean in the sample itself, with the fewest asked among equals: an optimistic estimate."""
    validated: Point
    """The outcome of thresholds chosen on nine folds and applied to the tenth, in turn. Its threshold is None."""
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
    """Trace the frontier of one run; None if no instance is judged both in it and in `orig`."""
    import numpy as np

    rows = [row for row in system.rows if row.score is not None and row.id in orig]
    if not rows:
        return None
    chance = np.array([any_answered(predictions[row.id]) for row in rows])
    asked = np.array([row.score for row in rows], float)
    unasked = np.array([orig[row.id] for row in rows], float)
    folds = np.array([fold_of(row.id, seed) for row in rows])
    points = _trace(chance, asked, unasked)
    decided = _decide_by_validation(chance, asked, unasked, folds)
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
    # Sums in another order differ in their last digits, so means are compared rounded.
    return max(points, key=lambda point: (round(point.mean_score, 9), -point.share_asked))


def _area(points: Sequence[Point]) -> float:
    """Sum the trapezoids between the frontier and the straight line from its first to its last point."""
    first, last = points[0].mean_score, points[-1].mean_score
    heights = [p.mean_score - (first + (last - first) * p.share_asked) for p in points]
    return sum(
        (after.share_asked - before.share_asked) * (low + high) / 2
        for before, after, low, high in zip(points, points[1:], heights, heights[1:], strict=False)
    )


def _decide_by_validation(chance: Array, asked: Array, unasked: Array, folds: Array) -> Array:
    """Decide for each instance whether to ask, by the threshold that is best on the other folds."""
    import numpy as np

    decided = np.zeros(len(chance), bool)
    for fold in range(FOLDS):
        inside = folds == fold
        if not inside.any():
            continue
        if inside.all():
            decided[inside] = True  # no other fold to learn a threshold from: ask, as the benchmark does
            continue
        threshold = _best(_trace(chance[~inside], asked[~inside], unasked[~inside])).threshold
        decided[inside] = threshold is not None and chance[inside] >= threshold
    return decided
