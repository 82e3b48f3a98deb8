"""The diagnosis of runs: gains by known answers and by type of question, answerability, and when asking pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np

from cts_async.analysis.board import Array
from cts_async.analysis.disclosure import GivenAway, given_away
from cts_async.analysis.interactions import (
    AskedQuestion,
    Interaction,
    Interactions,
    RegionTurn,
    Scores,
    TypeProfile,
    Unknowns,
    count_unknowns,
    region_turns,
    type_profiles,
)
from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType
from cts_async.analysis.stats import RESAMPLES, Difference, paired_difference, resampled_means


@dataclass(frozen=True, slots=True)
class SystemDiagnosis:
    """The diagnosis of one run."""

    system: Interactions
    unknowns: Unknowns
    regions: tuple[RegionTurn, ...]
    profiles: tuple[TypeProfile, ...]
    known_counts: tuple[KnownCount, ...]
    frontier: Frontier | None
    """None without scores of the run and of `orig`."""
    given_away: GivenAway | None = None
    """None if no answer is known, or q and q* are not recorded."""


@dataclass(frozen=True, slots=True)
class BudgetDiagnosis:
    """All runs with this k together, by type of question."""

    k: int
    profiles: tuple[TypeProfile, ...]
    gains: Mapping[QuestionType, Difference]
    """Points that a question of a type brings."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of all runs, in the order given."""

    systems: tuple[SystemDiagnosis, ...]
    budgets: tuple[BudgetDiagnosis, ...]
    calibration: Calibration | None


def diagnose(systems: Sequence[Interactions], orig: Scores, *, seed: int = 0) -> Diagnosis:
    """Diagnose runs over the same instances. With an empty `orig` there are no gains."""
    predictions = predict_answerability(systems, seed=seed)
    diagnosed = tuple(
        SystemDiagnosis(
            system,
            count_unknowns(system),
            region_turns(system),
            type_profiles([system]),
            by_known_count(system, orig, seed=seed),
            ask_or_not(system, predicted, orig, seed=seed),
            _given_away(system),
        )
        for system, predicted in zip(systems, predictions, strict=True)
    )
    by_k = {k: [one for one in systems if one.k == k] for k in sorted({system.k for system in systems})}
    return Diagnosis(
        systems=diagnosed,
        budgets=tuple(
            BudgetDiagnosis(k, type_profiles(same), gain_per_question(same, orig, seed=seed))
            for k, same in by_k.items()
        ),
        calibration=calibrate(systems, predictions, orig, seed=seed),
    )


def _given_away(system: Interactions) -> GivenAway | None:
    asked = (turn for row in system.rows for turn in row.turns)
    disclosures = [turn.disclosed for turn in asked if turn.disclosed is not None]
    if not disclosures:
        return None
    return given_away(disclosures, people_answered=system.people_answered)


# Score and gain by the number of known answers (table 7's classes)


@dataclass(frozen=True, slots=True)
class KnownCount:
    """The instances with exactly `known_cnt` known answers."""

    known_cnt: int
    n: int
    """Instances, including those without a score."""
    score: Difference | None
    """Mean score with its bootstrap interval over the judged instances; None if there are none."""
    gain: Difference | None
    """Mean difference to `orig` over the instances judged in both; None if there are none."""


def by_known_count(system: Interactions, orig: Scores, *, seed: int = 0) -> tuple[KnownCount, ...]:
    """Return one entry for each count from 0 to k."""
    found = []
    for known in range(system.k + 1):
        rows = [row for row in system.rows if row.known_cnt == known]
        scores = [row.score for row in rows if row.score is not None]
        paired = [(row.score, orig[row.id]) for row in rows if row.score is not None and row.id in orig]
        score = paired_difference(scores, [0.0] * len(scores), seed=seed)
        gain = paired_difference([own for own, _ in paired], [base for _, base in paired], seed=seed)
        found.append(KnownCount(known, len(rows), score, gain))
    return tuple(found)


# Gain of a question by its type
#
# The gain of an instance over `orig` is modelled as the sum of what its questions bring, each as much as its
# primary type: gain_i = sum_t beta_t * n_it, without a constant, fitted by least squares over all instances of the
# systems together. At k = 1 beta_t is exactly the mean gain of the instances asked a question of type t; at k > 1 it
# is the regression's share. Questions are not assigned at random: beta describes, and proves no cause.
#
# Intervals are percentile bootstrap intervals, 95 %: instances are resampled, each with all systems' rows of it.
# Least squares from mean moments is the same as from their sums, so the resampled means are enough.


def gain_per_question(
    systems: Sequence[Interactions], orig: Scores, *, seed: int = 0, resamples: int = RESAMPLES
) -> dict[QuestionType, Difference]:
    """Estimate the points that a question brings by type, for every type in an instance judged here and in `orig`.

    `n` counts questions.
    """
    moments, asked, differing = _moments(systems, orig)
    if not asked.any():
        return {}
    points = _least_squares(moments.sum(axis=0)[None])[0]
    means = resampled_means(moments.reshape(len(moments), -1), seed, resamples)
    drawn = _least_squares(means.reshape(-1, *moments.shape[1:]))
    gains: dict[QuestionType, Difference] = {}
    for i in np.flatnonzero(asked).tolist():
        low, high = None, None
        if asked[i] > 1 and np.nanmax(drawn[:, i]) - np.nanmin(drawn[:, i]) > _ROUNDING:
            low, high = np.nanpercentile(drawn[:, i], [2.5, 97.5]).tolist()
        gains[QUESTION_TYPES[i]] = Difference(int(asked[i]), float(points[i]), low, high, int(differing[i]))
    return gains


_ROUNDING: Final = 1e-9
"""Estimates that differ by no more are the same: no resample changes them, so there is no interval."""


def _moments(systems: Sequence[Interactions], orig: Scores) -> tuple[Array, Array, Array]:
    """Sum n n' and n * gain over each instance's rows, shape (instances, types, types + 1).

    Also n over all rows, and over those with a gain other than 0.

    Instances are in the order of their ids, so that a resample does not depend on which system comes first.
    """
    size = len(QUESTION_TYPES)
    index = {kind: i for i, kind in enumerate(QUESTION_TYPES)}
    by_id: dict[str, Array] = {}
    asked, differing = np.zeros(size, int), np.zeros(size, int)
    for system in systems:
        for row in system.rows:
            if row.score is None or row.id not in orig:
                continue
            counts = np.bincount([index[turn.reading.primary] for turn in row.turns], minlength=size)
            sums = by_id.setdefault(row.id, np.zeros((size, size + 1)))
            sums[:, :size] += np.outer(counts, counts)
            gain = row.score - orig[row.id]
            sums[:, size] += counts * gain
            asked += counts
            if abs(gain) > _ROUNDING:
                differing += counts
    return np.array([by_id[id] for id in sorted(by_id)]).reshape(-1, size, size + 1), asked, differing


def _least_squares(moments: Array) -> Array:
    """Solve fits from summed moments, shape (fits, types, types + 1); NaN for a type that does not occur in a fit."""
    squares, products = moments[..., :-1], moments[..., -1]
    points = (np.linalg.pinv(squares, hermitian=True) @ products[..., None])[..., 0]
    points[np.diagonal(squares, axis1=1, axis2=2) == 0] = np.nan
    return points


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

    @cache
    def smoothed(cells: tuple[_Cell, ...], fold: int) -> float:
        rate, strength = 0.5, 2.0
        for cell in cells:
            n = asked[cell] - asked[fold, cell]
            rate = (known[cell] - known[fold, cell] + strength * rate) / (n + strength)
            strength = STRENGTH
        return rate

    return [
        {
            row.id: tuple(smoothed(_cells(turn), fold_of(row.id, seed)) for turn in row.turns)
            for row in system.rows
        }
        for system in systems
    ]


def any_answered(predictions: Sequence[float]) -> float:
    """Return the chance that at least one of the questions is answered, as if they were independent."""
    chance = 0.0
    for p in predictions:
        chance += p - chance * p  # with a single question exactly its prediction
    return chance


def _cells(turn: AskedQuestion) -> tuple[_Cell, ...]:
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
    gain: Difference | None = None
    """Mean difference to `orig` over the instances of these n questions; None for those that have none."""

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
    """Of all questions, without gains."""
    gain_bins: tuple[Bin, ...]
    """Of the questions that were their instance's only one (k = 1), where the instance has a score here and in `orig`:
    only there a gain is that of a question. So n, rates and gain of a bin are of the same questions."""

    @property
    def skill(self) -> float | None:
        """Share of the reference's error that the predictions save; None if the reference has no error."""
        return 1 - self.brier / self.reference if self.reference else None


def calibrate(
    systems: Sequence[Interactions], predictions: Sequence[Predictions], orig: Scores, *, seed: int = 0
) -> Calibration | None:
    """Compare the predictions with the answers; None if nothing was asked."""
    every: list[_Outcome] = []
    alone: list[_Outcome] = []
    for system, predicted in zip(systems, predictions, strict=True):
        for row in system.rows:
            scored = system.k == 1 and row.score is not None and row.id in orig
            for turn, p in zip(row.turns, predicted[row.id], strict=True):
                every.append(_Outcome(p, turn.known))
                if scored and row.score is not None:
                    alone.append(_Outcome(p, turn.known, row.score, orig[row.id]))
    if not every:
        return None
    n = len(every)
    rate = sum(outcome.known for outcome in every) / n
    error = sum((outcome.predicted - outcome.known) ** 2 for outcome in every)
    return Calibration(
        n, error / n, rate * (1 - rate), _bins(every, seed, gains=False), _bins(alone, seed, gains=True)
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A question's prediction and whether it was answered; with the scores of its instance, here and of `orig`."""

    predicted: float
    known: bool
    score: float = 0.0
    orig: float = 0.0


def _bins(outcomes: Iterable[_Outcome], seed: int, *, gains: bool) -> tuple[Bin, ...]:
    """Group questions by their predictions in tenths."""
    groups: list[list[_Outcome]] = [[] for _ in range(BINS)]
    for outcome in outcomes:
        groups[min(int(outcome.predicted * BINS), BINS - 1)].append(outcome)
    bins = []
    for i, group in enumerate(groups):
        if not group:
            continue
        gain = None
        if gains:
            scores = [outcome.score for outcome in group]
            gain = paired_difference(scores, [outcome.orig for outcome in group], seed=seed)
        bins.append(
            Bin(
                low=i / BINS,
                high=(i + 1) / BINS,
                n=len(group),
                predicted=sum(outcome.predicted for outcome in group) / len(group),
                known=sum(outcome.known for outcome in group),
                gain=gain,
            )
        )
    return tuple(bins)


# Ask or not: a policy asks where the predicted chance of at least one answer is >= t, and searches the query as it is
# elsewhere. An instance that is asked has its score from the run, another its score from `orig`. One threshold after
# the other traces share asked against mean score, from never asking (orig) to always asking (the run). At k = 1 the
# chance is the question's predicted answerability; at k > 1 the k questions are asked or not together.


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """Asking where the prediction is >= `threshold` (None: never). Share 0..1, mean score 0..100."""

    threshold: float | None
    share_asked: float
    mean_score: float


@dataclass(frozen=True, slots=True)
class Frontier:
    """What the predictions of one run are worth, over the `n` instances judged in it and in `orig`."""

    n: int
    points: tuple[FrontierPoint, ...]
    """From never to always, one point for each distinct prediction."""
    area: float
    """Mean height of the frontier above asking the same share at random, in points of the score."""
    best: FrontierPoint
    """The highest mean in the sample itself, with the fewest asked among equals: an optimistic estimate."""
    validated: FrontierPoint
    """The outcome of thresholds chosen on nine folds and applied to the tenth, in turn. Its threshold is None."""
    over_always: Difference
    """`validated` minus always asking, paired, with its bootstrap interval."""

    @property
    def never(self) -> FrontierPoint:
        return self.points[0]

    @property
    def always(self) -> FrontierPoint:
        return self.points[-1]


def ask_or_not(
    system: Interactions, predictions: Predictions, orig: Scores, *, seed: int = 0
) -> Frontier | None:
    """Trace the frontier of one run; None if no instance is judged both in it and in `orig`."""
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
        n=len(rows),
        points=points,
        area=_area(points),
        best=_best(points),
        validated=FrontierPoint(None, float(decided.mean()), float(outcome.mean())),
        over_always=over_always,
    )


def _trace(chance: Array, asked: Array, unasked: Array) -> tuple[FrontierPoint, ...]:
    n = len(chance)
    order = np.argsort(-chance, kind="stable")
    ranked = chance[order]
    totals = unasked.sum() + np.cumsum((asked - unasked)[order])
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), n - 1)  # the last of each distinct prediction
    never = FrontierPoint(None, 0.0, float(unasked.mean()))
    return never, *(FrontierPoint(float(ranked[i]), float((i + 1) / n), float(totals[i] / n)) for i in ends)


def _best(points: Sequence[FrontierPoint]) -> FrontierPoint:
    # Sums in another order differ in their last digits, so means are compared rounded.
    return max(points, key=lambda point: (round(point.mean_score, 9), -point.share_asked))


def _area(points: Sequence[FrontierPoint]) -> float:
    """Sum the trapezoids between the frontier and the straight line from its first to its last point."""
    first, last = points[0].mean_score, points[-1].mean_score
    heights = [p.mean_score - (first + (last - first) * p.share_asked) for p in points]
    return sum(
        (after.share_asked - before.share_asked) * (low + high) / 2
        for before, after, low, high in zip(points, points[1:], heights, heights[1:], strict=False)
    )


def _decide_by_validation(chance: Array, asked: Array, unasked: Array, folds: Array) -> Array:
    """Decide for each instance whether to ask, by the threshold that is best on the other folds."""
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
