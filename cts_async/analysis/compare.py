"""Systems on a board compared: leaderboard, paired tests, and the instances worth a look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

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


# Leaderboard (paper, tables 2 and 6), with intervals of the differences (table 3)


@dataclass(frozen=True, slots=True)
class Standing:
    """One system under one judge, in points of restore_score_100."""

    system: str
    k: int
    """0 for the reference points, and if unknown."""
    scores: scorer.Summary
    delta: Difference | None
    """Mean of the paired differences to the baseline; None for the baseline itself, and without a baseline or a shared
    instance."""
    n_common: int
    """Instances that every system of the leaderboard has a score for."""
    common_mean: float | None
    """The mean over these: means over each system's own instances may order two systems otherwise than their pairs."""

    @property
    def partly_paired(self) -> bool:
        """True if some of its scores have no counterpart in the baseline."""
        return self.delta is not None and self.delta.n < self.scores.n_scored


def leaderboard(board: Board, judge: str, baseline: str, *, seed: int = 0) -> tuple[Standing, ...]:
    """Return the systems that this judge has scored: references first, then by budget, best mean first.

    A `baseline` of "" is none.
    """
    import numpy as np

    scores = board.scores[judge]
    deltas: Sequence[Difference | None] = [None] * len(board.entrants)
    if baseline:
        deltas = paired_differences(scores - scores[:, [board.place(baseline)]], seed=seed)
    present = ~np.isnan(scores)
    common = present[:, present.any(axis=0)].all(axis=1)
    n_common = int(common.sum())
    standings = []
    for column, (entrant, delta) in enumerate(zip(board.entrants, deltas, strict=True)):
        values = scores[present[:, column], column]
        n_failed = entrant.n_failed_under(judge)
        summary = scorer.summarise(values.tolist(), n_failed, max(entrant.n_expected, len(values) + n_failed))
        if summary.mean is not None:
            common_mean = math.fsum(scores[common, column]) / n_common if n_common else None
            own_delta = None if entrant.label == baseline else delta
            standings.append(Standing(entrant.label, entrant.k, summary, own_delta, n_common, common_mean))
    return tuple(sorted(standings, key=lambda one: (one.system != baseline, one.k, -(one.scores.mean or 0))))


# Paired permutation tests. The tests of one judge are one family: all pairs, or every system against a baseline.


@dataclass(frozen=True, slots=True)
class Pair:
    """`system` minus `other` over the n instances that both have a score for, in points of restore_score_100."""

    system: str
    other: str
    n: int
    difference: float
    sd: float | None
    """Standard deviation of the differences by instance (n - 1); None for n = 1, as is all that follows from it."""
    p: float
    exact: bool
    """True if p counts all choices of signs; else it is estimated from random ones, or by the normal distribution."""
    p_floor: float
    """The smallest p that this test could have given, whatever the difference."""
    p_holm: float
    detectable: float | None
    """The true difference that n instances show with power 0.8 at alpha .05; None if n is too small to show any."""
    detectable_holm: float | None
    """The same at alpha / tests: what Holm's strictest step asks for."""
    n_needed: int | None
    """Instances that the observed difference would need if it were the true one; None for a difference of 0."""


def compare_pairs(
    board: Board, judge: str, baseline: str | None = None, *, seed: int = 0
) -> tuple[Pair, ...]:
    """Test a family of pairs, the smallest p first; pairs without a shared instance are left out.

    In each pair the system with the higher mean difference comes first; a baseline always comes second.
    """
    import numpy as np

    scores = board.scores[judge]
    columns = range(len(board.entrants))
    if baseline is None:
        family = list(combinations(columns, 2))
    else:
        fixed = board.place(baseline)
        family = [(i, fixed) for i in columns if i != fixed]
    present = ~np.isnan(scores)
    pairs = [(i, j) for i, j in family if (present[:, i] & present[:, j]).any()]
    if baseline is None:
        pairs = [(i, j) if np.nanmean(scores[:, i] - scores[:, j]) >= 0 else (j, i) for i, j in pairs]
    tests = sign_flip_tests(scores, pairs, seed=seed, flips=flips_for(len(pairs)))
    adjusted = holm([test.p for test in tests])
    tested = []
    for (i, j), test, p_holm in zip(pairs, tests, adjusted, strict=True):
        differences = scores[:, i] - scores[:, j]
        names = board.systems[i], board.systems[j]
        tested.append(_pair(*names, differences[~np.isnan(differences)], test, p_holm, len(pairs)))
    return tuple(sorted(tested, key=lambda pair: (pair.p, -abs(pair.difference), pair.system, pair.other)))


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


# Extreme instances


@dataclass(frozen=True, slots=True)
class Extreme:
    """An instance of a system, its score and gain in the measure's own unit, and one or more reasons to look at it."""

    id: str
    score: float
    gain: float | None
    """Over the baseline; None without a baseline, or if that has no score for it."""
    why: tuple[str, ...]


def extremes(board: Board, judge: str, system: str, baseline: str, most: int) -> tuple[Extreme, ...]:
    """Return up to `most` instances for each reason, each once: losses, gains, lowest and highest scores.

    Among equals the first by name is taken. A loss is below 0 and a gain above; a system has none over itself, and
    a `baseline` of "" is none. Failed instances have no score and are never among them.
    """
    import numpy as np

    scores = board.scores[judge][:, board.place(system)]
    gains = np.full_like(scores, np.nan)
    if baseline and baseline != system:
        gains = scores - board.scores[judge][:, board.place(baseline)]
    return extremes_of(board.ids, scores, gains, most)


def extremes_of(ids: Sequence[str], scores: Array, gains: Array, most: int) -> tuple[Extreme, ...]:
    """Like `extremes`, for any scores and gains in the order of `ids`, NaN where there is none."""
    import numpy as np

    half = min(most, (int(np.isfinite(scores).sum()) + 1) // 2)  # no instance is both lowest and highest
    lowest = _smallest(scores, half)
    reasons: dict[int, list[str]] = {}
    for why, rows in (
        ("greatest loss", _smallest(gains, most, below=0)),
        ("greatest gain", _smallest(-gains, most, below=0)),
        ("lowest score", lowest),
        ("highest score", [row for row in _smallest(-scores, half) if row not in lowest]),
    ):
        for row in rows:
            reasons.setdefault(row, []).append(why)
    return tuple(
        Extreme(ids[row], float(scores[row]), None if np.isnan(gains[row]) else float(gains[row]), tuple(why))
        for row, why in reasons.items()
    )


def _smallest(values: Array, most: int, below: float = float("inf")) -> list[int]:
    """Return the rows of the smallest values under `below`, smallest first, NaN excluded."""
    import numpy as np

    rows = np.flatnonzero(values < below)
    smallest: list[int] = rows[np.argsort(values[rows], kind="stable")][:most].tolist()
    return smallest
