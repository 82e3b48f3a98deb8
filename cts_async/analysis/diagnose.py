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
from cts_async.protocol.audit.text import Disclosure


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
    diagnosed: list[SystemDiagnosis] = []
    by_k: dict[int, list[Interactions]] = {}
    for system, predicted in zip(systems, predictions, strict=True):
        by_k.setdefault(system.k, []).append(system)
        diagnosed.append(
            SystemDiagnosis(
                system=system,
                unknowns=count_unknowns(system),
                regions=region_turns(system),
                profiles=type_profiles([system]),
                known_counts=by_known_count(system, orig, seed=seed),
                frontier=ask_or_not(system, predicted, orig, seed=seed),
                given_away=_given_away(system),
            )
        )
    budgets: list[BudgetDiagnosis] = []
    for k, same_k in sorted(by_k.items()):
        budgets.append(BudgetDiagnosis(k, type_profiles(same_k), gain_per_question(same_k, orig, seed=seed)))
    return Diagnosis(
        systems=tuple(diagnosed),
        budgets=tuple(budgets),
        calibration=calibrate(systems, predictions, orig, seed=seed),
    )


def _given_away(system: Interactions) -> GivenAway | None:
    disclosures: list[Disclosure] = []
    for row in system.rows:
        for turn in row.turns:
            if turn.disclosed is not None:
                disclosures.append(turn.disclosed)
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
    classes: list[KnownCount] = []
    for known_cnt in range(system.k + 1):
        n = 0
        scores: list[float] = []
        shared_scores: list[float] = []
        orig_scores: list[float] = []
        for row in system.rows:
            if row.known_cnt != known_cnt:
                continue
            n += 1
            if row.score is None:
                continue
            scores.append(row.score)
            if row.id in orig:
                shared_scores.append(row.score)
                orig_scores.append(orig[row.id])
        score = paired_difference(scores, [0.0] * len(scores), seed=seed)
        gain = paired_difference(shared_scores, orig_scores, seed=seed)
        classes.append(KnownCount(known_cnt, n, score, gain))
    return tuple(classes)


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
    moments, n_asked, n_differing = _moments(systems, orig)
    if not n_asked.any():
        return {}
    points = _least_squares(moments.sum(axis=0)[None])[0]
    means = resampled_means(moments.reshape(len(moments), -1), seed, resamples)
    drawn = _least_squares(means.reshape(-1, *moments.shape[1:]))
    gains: dict[QuestionType, Difference] = {}
    for i in np.flatnonzero(n_asked).tolist():
        low, high = None, None
        if n_asked[i] > 1 and np.nanmax(drawn[:, i]) - np.nanmin(drawn[:, i]) > _ROUNDING:
            low, high = np.nanpercentile(drawn[:, i], [2.5, 97.5]).tolist()
        gains[QUESTION_TYPES[i]] = Difference(
            int(n_asked[i]), float(points[i]), low, high, int(n_differing[i])
        )
    return gains


_ROUNDING: Final = 1e-9
"""Estimates that differ by no more are the same: no resample changes them, so there is no interval."""


def _moments(systems: Sequence[Interactions], orig: Scores) -> tuple[Array, Array, Array]:
    """Sum n n' and n * gain over each instance's rows, shape (instances, types, types + 1).

    Also n over all rows, and over those with a gain other than 0.

    Instances are in the order of their ids, so that a resample does not depend on which system comes first.
    """
    size = len(QUESTION_TYPES)
    by_id: dict[str, Array] = {}
    n_asked, n_differing = np.zeros(size, int), np.zeros(size, int)
    for system in systems:
        for row in system.rows:
            if row.score is None or row.id not in orig:
                continue
            types = [QUESTION_TYPES.index(turn.reading.primary) for turn in row.turns]
            counts = np.bincount(types, minlength=size)
            sums = by_id.setdefault(row.id, np.zeros((size, size + 1)))
            sums[:, :size] += np.outer(counts, counts)
            gain = row.score - orig[row.id]
            sums[:, size] += counts * gain
            n_asked += counts
            if abs(gain) > _ROUNDING:
                n_differing += counts
    moments = np.array([by_id[id] for id in sorted(by_id)]).reshape(-1, size, size + 1)
    return moments, n_asked, n_differing


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
_Class: TypeAlias = tuple[object, ...]


def fold_of(id: str, seed: int) -> int:
    """Return the fold, 0..9, of an instance: the same in every system and process."""
    return blake2b(f"{seed}/{id}".encode(), digest_size=8).digest()[0] % FOLDS


def predict_answerability(systems: Sequence[Interactions], *, seed: int = 0) -> list[Predictions]:
    """Predict every question of every system out of fold, strictly between 0 and 1."""
    n_asked, n_known = _count_by_class(systems, seed)

    # Questions are many, and their classes are few.
    @cache
    def smoothed(classes: tuple[_Class, ...], fold: int) -> float:
        rate, strength = 0.5, 2.0
        for question_class in classes:
            n = n_asked[question_class] - n_asked[fold, question_class]
            n_answered = n_known[question_class] - n_known[fold, question_class]
            rate = (n_answered + strength * rate) / (n + strength)
            strength = STRENGTH
        return rate

    predictions: list[Predictions] = []
    for system in systems:
        by_instance: Predictions = {}
        for row in system.rows:
            fold = fold_of(row.id, seed)
            by_instance[row.id] = tuple(smoothed(_classes(turn), fold) for turn in row.turns)
        predictions.append(by_instance)
    return predictions


def any_answered(predictions: Sequence[float]) -> float:
    """Return the chance that at least one of the questions is answered, as if they were independent."""
    chance = 0.0
    for p in predictions:
        chance += p - chance * p  # with a single question exactly its prediction
    return chance


def _classes(turn: AskedQuestion) -> tuple[_Class, ...]:
    """The classes that a question belongs to, the most general first."""
    primary = turn.reading.primary
    return (), (primary,), (primary, turn.language, turn.turn)


def _count_by_class(systems: Sequence[Interactions], seed: int) -> tuple[Counter[_Class], Counter[_Class]]:
    """Count questions and known answers by class: over all folds, and by fold as (fold, class)."""
    n_asked: Counter[_Class] = Counter()
    n_known: Counter[_Class] = Counter()
    for system in systems:
        for row in system.rows:
            fold = fold_of(row.id, seed)
            for turn in row.turns:
                for question_class in _classes(turn):
                    keys = (question_class, (fold, question_class))
                    n_asked.update(keys)
                    if turn.known:
                        n_known.update(keys)
    return n_asked, n_known


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
        if not self.reference:
            return None
        return 1 - self.brier / self.reference


def calibrate(
    systems: Sequence[Interactions], predictions: Sequence[Predictions], orig: Scores, *, seed: int = 0
) -> Calibration | None:
    """Compare the predictions with the answers; None if nothing was asked."""
    outcomes: list[_Outcome] = []
    with_gain: list[_Outcome] = []
    for system, predicted in zip(systems, predictions, strict=True):
        for row in system.rows:
            for turn, p in zip(row.turns, predicted[row.id], strict=True):
                outcomes.append(_Outcome(p, turn.known))
                # With several questions the gain of an instance is that of all of them together.
                if system.k == 1 and row.score is not None and row.id in orig:
                    with_gain.append(_Outcome(p, turn.known, row.score, orig[row.id]))
    if not outcomes:
        return None
    n = len(outcomes)
    rate = sum(outcome.known for outcome in outcomes) / n
    error = sum((outcome.predicted - outcome.known) ** 2 for outcome in outcomes)
    return Calibration(
        n=n,
        brier=error / n,
        reference=rate * (1 - rate),
        bins=_bins(outcomes, seed, gains=False),
        gain_bins=_bins(with_gain, seed, gains=True),
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
    bins: list[Bin] = []
    for i, group in enumerate(groups):
        if not group:
            continue
        n = len(group)
        predicted = sum(outcome.predicted for outcome in group) / n
        n_known = sum(outcome.known for outcome in group)
        gain: Difference | None = None
        if gains:
            scores = [outcome.score for outcome in group]
            orig_scores = [outcome.orig for outcome in group]
            gain = paired_difference(scores, orig_scores, seed=seed)
        bins.append(Bin(i / BINS, (i + 1) / BINS, n, predicted, n_known, gain))
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
    run_scores = np.array([row.score for row in rows], float)
    orig_scores = np.array([orig[row.id] for row in rows], float)
    folds = np.array([fold_of(row.id, seed) for row in rows])
    points = _trace(chance, run_scores, orig_scores)
    decided = _decide_by_validation(chance, run_scores, orig_scores, folds)
    outcome = np.where(decided, run_scores, orig_scores)
    over_always = paired_difference(outcome, run_scores, seed=seed)
    assert over_always is not None
    return Frontier(
        n=len(rows),
        points=points,
        area=_area(points),
        best=_best(points),
        validated=FrontierPoint(None, float(decided.mean()), float(outcome.mean())),
        over_always=over_always,
    )


def _trace(chance: Array, run_scores: Array, orig_scores: Array) -> tuple[FrontierPoint, ...]:
    """Return never asking, then for each distinct chance the share asked and the mean with it as the threshold."""
    n = len(chance)
    order = np.argsort(-chance, kind="stable")
    ranked = chance[order]
    totals = orig_scores.sum() + np.cumsum((run_scores - orig_scores)[order])
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), n - 1)  # the last of each distinct prediction
    points = [FrontierPoint(None, 0.0, float(orig_scores.mean()))]
    for i in ends:
        points.append(FrontierPoint(float(ranked[i]), float((i + 1) / n), float(totals[i] / n)))
    return tuple(points)


def _best(points: Sequence[FrontierPoint]) -> FrontierPoint:
    # Sums in another order differ in their last digits, so means are compared rounded.
    return max(points, key=lambda point: (round(point.mean_score, 9), -point.share_asked))


def _area(points: Sequence[FrontierPoint]) -> float:
    """Sum the trapezoids between the frontier and the straight line from its first to its last point."""
    never, always = points[0].mean_score, points[-1].mean_score
    trapezoids: list[float] = []
    share_before = height_before = 0.0
    for point in points:
        height = point.mean_score - (never + (always - never) * point.share_asked)
        trapezoids.append((point.share_asked - share_before) * (height_before + height) / 2)
        share_before, height_before = point.share_asked, height
    return sum(trapezoids)


def _decide_by_validation(chance: Array, run_scores: Array, orig_scores: Array, folds: Array) -> Array:
    """Decide for each instance whether to ask, by the threshold that is best on the other folds."""
    decided = np.zeros(len(chance), bool)
    for fold in range(FOLDS):
        inside = folds == fold
        if not inside.any():
            continue
        if inside.all():
            decided[inside] = True  # no other fold to learn a threshold from: ask, as the benchmark does
            continue
        threshold = _best(_trace(chance[~inside], run_scores[~inside], orig_scores[~inside])).threshold
        decided[inside] = threshold is not None and chance[inside] >= threshold
    return decided
