"""The diagnosis of one or more runs, and what questions and answers gain over `orig` (beyond the paper)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cts_async.analysis.ask_or_not import Calibration, Frontier, ask_or_not, calibrate, predict_answerability
from cts_async.analysis.interactions import (
    Interactions,
    RegionTurn,
    Scores,
    TypeProfile,
    UnknownRange,
    Unknowns,
    count_unknowns,
    region_turns,
    type_profiles,
    unknown_ranges,
)
from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType
from cts_async.analysis.resampling import ENOUGH, RESAMPLES, Difference, paired_difference, resampled_means

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


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


@dataclass(frozen=True, slots=True)
class BudgetDiagnosis:
    """All runs with this k together, by type of question."""

    k: int
    profiles: tuple[TypeProfile, ...]
    gains: Mapping[QuestionType, TypeGain]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of all runs, in the order given, with the scores of `orig` that gains are over."""

    systems: tuple[SystemDiagnosis, ...]
    budgets: tuple[BudgetDiagnosis, ...]
    ranges: tuple[UnknownRange, ...]
    calibration: Calibration | None
    orig: Scores
    seed: int


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
        )
        for system, predicted in zip(systems, predictions, strict=True)
    )
    return Diagnosis(
        systems=diagnosed,
        budgets=tuple(_budgets(systems, orig, seed)),
        ranges=unknown_ranges(turn for one in diagnosed for turn in one.regions),
        calibration=calibrate(systems, predictions, orig, seed=seed),
        orig=orig,
        seed=seed,
    )


def _budgets(systems: Sequence[Interactions], orig: Scores, seed: int) -> Iterator[BudgetDiagnosis]:
    for k in sorted({system.k for system in systems}):
        same = [system for system in systems if system.k == k]
        yield BudgetDiagnosis(k, type_profiles(same), gain_per_question(same, orig, seed=seed))


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


@dataclass(frozen=True, slots=True)
class TypeGain:
    """Points that a question of this type brings, with a 95 % interval, from `n` scored questions."""

    kind: QuestionType
    n: int
    points: float
    low: float | None
    high: float | None
    """Both ends are None for a single question."""

    @property
    def too_short(self) -> bool:
        """True if too few questions make the interval shorter than its level promises."""
        return 1 < self.n < ENOUGH


def gain_per_question(
    systems: Sequence[Interactions], orig: Scores, *, seed: int = 0, resamples: int = RESAMPLES
) -> dict[QuestionType, TypeGain]:
    """Estimate the gain of every type that occurs in an instance judged here and in `orig`."""
    import numpy as np

    moments, asked = _moments(systems, orig)
    if not asked.any():
        return {}
    points = _least_squares(moments.sum(axis=0)[None])[0]
    means = resampled_means(moments.reshape(len(moments), -1), seed, resamples)
    drawn = _least_squares(means.reshape(-1, *moments.shape[1:]))
    low, high = np.nanpercentile(drawn[:, asked > 0], [2.5, 97.5], axis=0)
    occurring = [i for i in range(len(QUESTION_TYPES)) if asked[i]]
    gains = {}
    for i, *ends in zip(occurring, low.tolist(), high.tolist(), strict=True):
        interval = ends if asked[i] > 1 else (None, None)
        gains[QUESTION_TYPES[i]] = TypeGain(QUESTION_TYPES[i], int(asked[i]), float(points[i]), *interval)
    return gains


def _moments(systems: Sequence[Interactions], orig: Scores) -> tuple[Array, Array]:
    """Sum n n' and n * gain over each instance's rows, shape (instances, types, types + 1); and n over all rows.

    Instances are in the order of their ids, so that a resample does not depend on which system comes first.
    """
    import numpy as np

    size = len(QUESTION_TYPES)
    index = {kind: i for i, kind in enumerate(QUESTION_TYPES)}
    by_id: dict[str, Array] = {}
    asked = np.zeros(size, int)
    for system in systems:
        for row in system.rows:
            if row.score is None or row.id not in orig:
                continue
            counts = np.bincount([index[turn.reading.primary] for turn in row.turns], minlength=size)
            sums = by_id.setdefault(row.id, np.zeros((size, size + 1)))
            sums[:, :size] += np.outer(counts, counts)
            sums[:, size] += counts * (row.score - orig[row.id])
            asked += counts
    return np.array([by_id[id] for id in sorted(by_id)]).reshape(-1, size, size + 1), asked


def _least_squares(moments: Array) -> Array:
    """Solve fits from summed moments, shape (fits, types, types + 1); NaN for a type that does not occur in a fit."""
    import numpy as np

    squares, products = moments[..., :-1], moments[..., -1]
    points = (np.linalg.pinv(squares, hermitian=True) @ products[..., None])[..., 0]
    points[np.diagonal(squares, axis1=1, axis2=2) == 0] = np.nan
    return points
