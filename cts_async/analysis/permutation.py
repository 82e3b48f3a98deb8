"""Paired permutation test of a mean difference by flipping signs (Fisher 1935; Good 2005, section 3.2).

If two systems were the same, each instance's difference could as well have the other sign. p is the share of
all 2^n ways to choose the signs whose mean difference lies at least as far from 0 as the observed one: two-sided,
exact up to EXACT differences, else estimated from random choices as (b + 1) / (m + 1), which is never 0
and never too small on average (Phipson & Smyth 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.bootstrap import same_instances

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

EXACT: Final = 20
"""Up to so many differences other than 0 all 2^n choices of signs are looked at; 0 has no sign to flip."""
FLIPS: Final = 10_000
_TOLERANCE: Final = 1e-9
"""Sums of the same numbers in another order count as equal: relative to the sum of all sizes."""
_FLIPPED_AT_ONCE: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class SignFlips:
    """p in (0, 1] of one pair, and whether it is exact."""

    p: float
    exact: bool


def sign_flip_test(differences: Sequence[float] | Array, *, seed: int = 0, flips: int = FLIPS) -> SignFlips:
    """The test of one pair's differences by instance. No difference at all is p = 1."""
    import numpy as np

    column = np.asarray(differences, dtype=float)[:, None]
    return sign_flip_tests(column, np.zeros_like(column), [(0, 0)], seed=seed, flips=flips)[0]


def sign_flip_tests(
    scores: Array,
    baselines: Array,
    pairs: Sequence[tuple[int, int]],
    *,
    seed: int = 0,
    flips: int = FLIPS,
) -> list[SignFlips]:
    """For each pair (i, j) the test of column i of `scores` against column j of `baselines`.

    Both have the shape (instances, systems) with NaN where there is no score; such an instance is left out of
    that pair. Pairs with the same instances share the random signs, so a pair's p does not depend on which others
    there are.
    """
    import numpy as np

    found: dict[int, SignFlips] = {}
    sampled: list[int] = []
    for number, (i, j) in enumerate(pairs):
        differences = scores[:, i] - baselines[:, j]
        differences = differences[~np.isnan(differences) & (differences != 0)]
        if len(differences) <= EXACT:
            found[number] = SignFlips(_exact(differences), True)
        else:
            sampled.append(number)
    if sampled:
        columns = np.column_stack([scores[:, pairs[n][0]] - baselines[:, pairs[n][1]] for n in sampled])
        there = ~np.isnan(columns)
        for alike in same_instances(there):
            rows = there[:, alike[0]]
            for place, p in zip(alike, _sampled(columns[rows][:, alike], seed, flips), strict=True):
                found[sampled[place]] = SignFlips(p, False)
    return [found[number] for number in range(len(pairs))]


def _exact(differences: Array) -> float:
    """The share of all signed sums that lie as far out; each is a sum of the left half plus one of the right."""
    import numpy as np

    half = len(differences) // 2
    left, right = (_signed_sums(part) for part in (differences[:half], differences[half:]))
    at_least = _far(differences.sum(), np.abs(differences).sum())
    return float((np.abs(left[:, None] + right) >= at_least).mean())


def _signed_sums(values: Array) -> Array:
    """All 2^len sums of the values with either sign."""
    import numpy as np

    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _sampled(values: Array, seed: int, flips: int) -> list[float]:
    """The estimate of every column. A difference of 0 adds nothing, whatever its sign."""
    import numpy as np

    at_least = _far(values.sum(axis=0), np.abs(values).sum(axis=0))
    rng = np.random.default_rng(seed)
    n = len(values)
    step = max(1, _FLIPPED_AT_ONCE // n)
    beyond = np.zeros(values.shape[1], int)
    for done in range(0, flips, step):
        size = min(step, flips - done)
        bits = np.unpackbits(
            np.frombuffer(rng.bytes(size * ((n + 7) // 8)), np.uint8).reshape(size, -1), axis=1
        )
        signs = bits[:, :n] * 2.0 - 1.0
        beyond += (np.abs(signs @ values) >= at_least).sum(axis=0)
    return [float((b + 1) / (flips + 1)) for b in beyond]


def _far(observed: Any, sizes: Any) -> Any:
    return abs(observed) - _TOLERANCE * sizes
