"""Any two systems under one judge: the paired permutation test with Holm's correction, and the power that it has.

The tests of one judge are one family: all pairs, or every system against a baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

from cts_async.analysis.board import Board
from cts_async.analysis.holm import holm
from cts_async.analysis.permutation import SignFlips, flips_for, sign_flip_tests
from cts_async.analysis.power import ALPHA, detectable_difference, instances_needed

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


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
