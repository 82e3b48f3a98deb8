"""The diagnosis of one or more runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cts_async.analysis.ask_or_not import Calibration, Frontier, ask_or_not, calibrate, predict_answerability
from cts_async.analysis.interactions import (
    Interactions,
    KnownCount,
    RegionTurn,
    Scores,
    TypeProfile,
    UnknownRange,
    Unknowns,
    by_known_count,
    count_unknowns,
    region_turns,
    type_profiles,
    unknown_ranges,
)
from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType
from cts_async.analysis.resampling import ENOUGH, RESAMPLES, resampled_means

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# --- type_gain
#
# Beyond the paper: how many points of restore_score_100 a question of each type brings.
#
# The gain of an instance over `orig` is taken as the sum of what its questions bring, each as much as its
# primary type: gain_i = sum_t beta_t * n_it, without a constant, fitted by least squares over all instances of
# the systems together. At k = 1 beta_t is exactly the mean gain of the instances asked a question of type t;
# at k > 1 it is the regression's share. Asking is not assigned at random: beta describes, and proves no cause.
#
# Intervals are percentile bootstrap intervals, 95 %: instances are resampled, each with all systems' rows of it.
# Least squares from mean moments is the same as from their sums, so the resampled means serve.


@dataclass(frozen=True, slots=True)
class TypeGain:
    """Points that a question of this type brings, with a 95 % interval; `n` such questions were scored."""

    kind: QuestionType
    n: int
    points: float
    low: float | None
    high: float | None
    """None for both where there is a single question."""

    @property
    def too_short(self) -> bool:
        """Whether the interval is of too few questions to cover the truth as often as it says."""
        return 1 < self.n < ENOUGH


def gain_per_question(
    systems: Sequence[Interactions], orig: Scores, *, seed: int = 0, resamples: int = RESAMPLES
) -> dict[QuestionType, TypeGain]:
    """The gain of every type that occurs in an instance judged here and in `orig`; {} for no such instance."""
    import numpy as np

    moments, asked = _moments(systems, orig)
    if not asked.any():
        return {}
    points = _fitted(moments.sum(axis=0)[None])[0]
    means = resampled_means(moments.reshape(len(moments), -1), seed, resamples)
    drawn = _fitted(means.reshape(-1, *moments.shape[1:]))
    low, high = np.nanpercentile(drawn[:, asked > 0], [2.5, 97.5], axis=0)
    there = [i for i in range(len(QUESTION_TYPES)) if asked[i]]
    found = {}
    for i, *ends in zip(there, low.tolist(), high.tolist(), strict=True):
        interval = ends if asked[i] > 1 else (None, None)
        found[QUESTION_TYPES[i]] = TypeGain(QUESTION_TYPES[i], int(asked[i]), float(points[i]), *interval)
    return found


def _moments(systems: Sequence[Interactions], orig: Scores) -> tuple[Array, Array]:
    """Of each instance the sums of n n' and n * gain over its rows, (instances, types, types + 1); n in all.

    Instances are in the order of their ids: a resample must not depend on which system comes first.
    """
    import numpy as np

    size = len(QUESTION_TYPES)
    place = {kind: i for i, kind in enumerate(QUESTION_TYPES)}
    by_id: dict[str, Array] = {}
    asked = np.zeros(size, int)
    for system in systems:
        for row in system.rows:
            if row.score is None or row.id not in orig:
                continue
            counts = np.bincount([place[turn.reading.primary] for turn in row.turns], minlength=size)
            sums = by_id.setdefault(row.id, np.zeros((size, size + 1)))
            sums[:, :size] += np.outer(counts, counts)
            sums[:, size] += counts * (row.score - orig[row.id])
            asked += counts
    return np.array([by_id[id] for id in sorted(by_id)]).reshape(-1, size, size + 1), asked


def _fitted(moments: Array) -> Array:
    """Least squares from summed moments, shape (fits, types, types + 1); NaN for a type that a fit has not seen."""
    import numpy as np

    squares, products = moments[..., :-1], moments[..., -1]
    points = (np.linalg.pinv(squares, hermitian=True) @ products[..., None])[..., 0]
    points[np.diagonal(squares, axis1=1, axis2=2) == 0] = np.nan
    return points


# --- diagnosis
#
# The diagnosis of one or more runs: every statistic of the interaction, put together.


@dataclass(frozen=True, slots=True)
class SystemDiagnosis:
    """What one run shows."""

    system: Interactions
    unknowns: Unknowns
    regions: tuple[RegionTurn, ...]
    profiles: tuple[TypeProfile, ...]
    known_counts: tuple[KnownCount, ...]
    frontier: Frontier | None
    """None without scores of the run and of `orig`."""


@dataclass(frozen=True, slots=True)
class BudgetDiagnosis:
    """What all runs with this k show together, by type of question."""

    k: int
    profiles: tuple[TypeProfile, ...]
    gains: Mapping[QuestionType, TypeGain]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All of it; systems are in the order in which they were given."""

    systems: tuple[SystemDiagnosis, ...]
    budgets: tuple[BudgetDiagnosis, ...]
    ranges: tuple[UnknownRange, ...]
    calibration: Calibration | None


def diagnose(systems: Sequence[Interactions], orig: Scores, *, seed: int = 0) -> Diagnosis:
    """Diagnose runs over the same instances. `orig` is empty where there is no such run: then nothing has gains."""
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
    )


def _budgets(systems: Sequence[Interactions], orig: Scores, seed: int) -> Iterator[BudgetDiagnosis]:
    for k in sorted({system.k for system in systems}):
        of = [system for system in systems if system.k == k]
        yield BudgetDiagnosis(k, type_profiles(of), gain_per_question(of, orig, seed=seed))
