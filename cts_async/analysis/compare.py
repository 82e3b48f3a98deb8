"""Leaderboards, paired tests and extreme instances of the systems on a board."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async import scorer
from cts_async.analysis.board import Board
from cts_async.analysis.resampling import (
    Difference,
    SignFlips,
    flips_for,
    paired_differences,
    sign_flip_tests,
)
from cts_async.analysis.stats import ALPHA, detectable_difference, holm, instances_needed

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# --- leaderboard
#
# The leaderboard of one judge (paper, tables 2 and 6), with intervals of the differences (table 3).


@dataclass(frozen=True, slots=True)
class Standing:
    """One system under one judge, in points of restore_score_100."""

    system: str
    k: int
    """0 for the reference points, and where nobody knows."""
    scores: scorer.Summary
    delta: Difference | None
    """Mean of the paired differences to the baseline; None for the baseline, without one, and where no instance is
    shared."""
    n_common: int
    """Instances that every system of the leaderboard has a score for."""
    common_mean: float | None
    """The mean over these: means over each system's own instances may order two systems otherwise than their pairs."""

    @property
    def partly_paired(self) -> bool:
        """Whether some of its scores have no counterpart in the baseline."""
        return self.delta is not None and self.delta.n < self.scores.n_scored


def leaderboard(board: Board, judge: str, baseline: str, *, seed: int = 0) -> tuple[Standing, ...]:
    """The systems that this judge has scored: references first, then by budget, best mean first.

    A `baseline` of "" is none.
    """
    import numpy as np

    scores = board.scores[judge]
    deltas: Sequence[Difference | None] = [None] * len(board.entrants)
    if baseline:
        deltas = paired_differences(scores - scores[:, [board.place(baseline)]], seed=seed)
    there = ~np.isnan(scores)
    common = there[:, there.any(axis=0)].all(axis=1)
    n_common = int(common.sum())
    standings = []
    for column, (entrant, delta) in enumerate(zip(board.entrants, deltas, strict=True)):
        values = scores[there[:, column], column]
        n_failed = entrant.n_failed_under(judge)
        summary = scorer.summarise(values.tolist(), n_failed, max(entrant.n_expected, len(values) + n_failed))
        own = entrant.label == baseline
        if summary.mean is not None:
            common_mean = math.fsum(scores[common, column]) / n_common if n_common else None
            standings.append(
                Standing(entrant.label, entrant.k, summary, None if own else delta, n_common, common_mean)
            )
    return tuple(sorted(standings, key=lambda one: (one.system != baseline, one.k, -(one.scores.mean or 0))))


# --- pairwise
#
# Any two systems under one judge: the paired permutation test with Holm's correction, and the power that it has.
#
# The tests of one judge are one family: all pairs, or every system against a baseline.


@dataclass(frozen=True, slots=True)
class Pair:
    """`system` minus `other` over the n instances that both have a score for, in points of restore_score_100."""

    system: str
    other: str
    n: int
    difference: float
    sd: float | None
    """Standard deviation of the differences by instance (n - 1); None for a single one, as all that follows from it."""
    p: float
    exact: bool
    """Whether p counts all choices of signs, or is estimated from random ones, or by the normal distribution."""
    p_floor: float
    """The smallest p that this test could have given, whatever the difference; times the tests of the family after
    Holm's correction."""
    p_holm: float
    detectable: float | None
    """The true difference that so many instances show with power 0.8 at alpha .05; None for too few to show any."""
    detectable_holm: float | None
    """The same at alpha / tests: what Holm's strictest step asks for."""
    n_needed: int | None
    """Instances that the observed difference would need, were it the true one; None for no difference."""


def compare_pairs(
    board: Board, judge: str, baseline: str | None = None, *, seed: int = 0
) -> tuple[Pair, ...]:
    """The family of tests, the smallest p first; pairs without a shared instance are left out.

    In each pair the system with the higher mean difference comes first; a baseline always comes second.
    """
    import numpy as np

    scores = board.scores[judge]
    there = ~np.isnan(scores)
    pairs = [(i, j) for i, j in _family(board, baseline) if (there[:, i] & there[:, j]).any()]
    if baseline is None:
        pairs = [(i, j) if np.nanmean(scores[:, i] - scores[:, j]) >= 0 else (j, i) for i, j in pairs]
    tests = sign_flip_tests(scores, scores, pairs, seed=seed, flips=flips_for(len(pairs)))
    adjusted = holm([test.p for test in tests])
    found = []
    for (i, j), test, p_holm in zip(pairs, tests, adjusted, strict=True):
        differences = scores[:, i] - scores[:, j]
        names = board.systems[i], board.systems[j]
        found.append(_pair(*names, differences[~np.isnan(differences)], test, p_holm, len(pairs)))
    return tuple(sorted(found, key=lambda pair: (pair.p, -abs(pair.difference), pair.system, pair.other)))


def _family(board: Board, baseline: str | None) -> Sequence[tuple[int, int]]:
    everybody = range(len(board.entrants))
    if baseline is None:
        return list(combinations(everybody, 2))
    fixed = board.place(baseline)
    return [(i, fixed) for i in everybody if i != fixed]


def _pair(system: str, other: str, differences: Array, test: SignFlips, p_holm: float, n_tests: int) -> Pair:
    n, mean = len(differences), float(differences.mean())
    sd = float(differences.std(ddof=1)) if n > 1 else None
    return Pair(
        system=system,
        other=other,
        n=n,
        difference=mean,
        sd=sd,
        p=test.p,
        exact=test.exact,
        p_floor=test.floor,
        p_holm=p_holm,
        detectable=None if sd is None else detectable_difference(n, sd),
        detectable_holm=None if sd is None else detectable_difference(n, sd, alpha=ALPHA / n_tests),
        n_needed=None if sd is None else instances_needed(mean, sd),
    )


# --- extremes
#
# The instances that are worth a look: where a system scored best and worst, where it gained and lost most.

WORST_GAIN: Final = "greatest loss"
BEST_GAIN: Final = "greatest gain"
WORST_SCORE: Final = "lowest score"
BEST_SCORE: Final = "highest score"


@dataclass(frozen=True, slots=True)
class Extreme:
    """One instance of a system, its score and gain in the measure's own unit. `why` it is here: one reason or more."""

    id: str
    score: float
    gain: float | None
    """Over the baseline; None where that has no score for it, and without a baseline."""
    why: tuple[str, ...]


def extremes(board: Board, judge: str, system: str, baseline: str, most: int) -> tuple[Extreme, ...]:
    """Up to `most` instances for each reason, each instance once: losses, gains, lowest and highest scores.

    Among equals the first by name is taken. A loss is below 0 and a gain above; a system has none over itself, and
    a `baseline` of "" is none. What failed has no score, so it is not among them.
    """
    import numpy as np

    scores = board.scores[judge][:, board.place(system)]
    gains = np.full_like(scores, np.nan)
    if baseline and baseline != system:
        gains = scores - board.scores[judge][:, board.place(baseline)]
    return extremes_of(board.ids, scores, gains, most)


def extremes_of(ids: Sequence[str], scores: Array, gains: Array, most: int) -> tuple[Extreme, ...]:
    """The same of any scores and gains by instance, in the order of `ids`, NaN where there is none."""
    import numpy as np

    half = min(most, (int(np.isfinite(scores).sum()) + 1) // 2)  # none is among the lowest and the highest
    lowest = _least(scores, half)
    reasons: dict[int, list[str]] = {}
    for why, rows in (
        (WORST_GAIN, _least(gains, most, below=0)),
        (BEST_GAIN, _least(-gains, most, below=0)),
        (WORST_SCORE, lowest),
        (BEST_SCORE, [row for row in _least(-scores, half) if row not in lowest]),
    ):
        for row in rows:
            reasons.setdefault(row, []).append(why)
    return tuple(
        Extreme(ids[row], float(scores[row]), _number(gains[row]), tuple(why)) for row, why in reasons.items()
    )


def _least(values: Array, most: int, below: float = float("inf")) -> list[int]:
    """Rows of the smallest values under `below`, smallest first; NaN is none of them."""
    import numpy as np

    rows = np.flatnonzero(values < below)
    found: list[int] = rows[np.argsort(values[rows], kind="stable")][:most].tolist()
    return found


def _number(value: float) -> float | None:
    return None if value != value else float(value)  # NaN
