"""How often a comparison of as many instances as `n needed` says finds the true difference at the corrected level.

The numbers of instances that `cts compare` prints are meant to find a difference in 80 % of cases at alpha / m, the
level that Holm's procedure is sure to use for one of m tests. Here the test itself (sign flips) is repeated on samples
of that size, of populations of which mean, spread and share of differing instances are known.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from benchmarks.coverage import differences, mixed
from benchmarks.shared.result import Result, Row
from cts_async.analysis.stats import (
    ALPHA,
    POWER,
    flips_for,
    holm_alpha,
    instances_needed,
    sign_flip_tests,
)

TESTS: Final = (1, 10, 45)
"""Sizes of a family: two systems, five, ten."""
SHARES: Final = (1.0, 0.3, 0.1)
"""Shares of the instances that differ."""
SHIFTS: Final = (1.0, 0.5, 0.25)
"""The true mean, in standard deviations of the differences, for differences both ways."""
TRIALS, SEED = 1_000, 7
GOAL: Final = POWER - 0.025
"""Two standard errors of a share of TRIALS samples below what is promised."""
Array = Any


def bench() -> Result:
    """A row for each population and family: the share of samples in which the test reaches alpha / m."""
    rng = np.random.default_rng(SEED)
    rows = []
    for name, population in populations(rng).items():
        mean, sd = float(population.mean()), float(population.std())
        share = float(np.mean(population != 0))
        for n_tests in TESTS:
            alpha = holm_alpha(n_tests)
            n = instances_needed(mean, sd, share_differing=share, alpha=alpha)
            assert n is not None
            drawn = rng.choice(population, (n, TRIALS))
            power = float(np.mean(p_values(drawn, n_tests) <= alpha))
            without = instances_needed(mean, sd, share_differing=share, alpha=ALPHA)
            note = f"n = {n} (at {ALPHA}: {without})"
            rows.append(Row(f"{name}, {n_tests} tests", power, ">=", GOAL, digits=3, note=note))
    return Result(
        f"power of the sign-flip test at alpha / m with `n needed` instances, {TRIALS} samples", rows
    )


def populations(rng: np.random.Generator) -> dict[str, Array]:
    """Differences both ways, shifted; and gains on all instances, and on some."""
    both = differences(rng)["both ways"]
    found = {}
    for shift in SHIFTS:
        found[f"both ways, shifted by {shift:g} sd"] = both - both.mean() + shift * both.std()
    for share in SHARES:
        found[f"gains on {share:.0%}"] = mixed(rng, differences(rng)["gains"], share)
    return found


def p_values(drawn: Array, n_tests: int) -> Array:
    """The p-value of each sample, in columns of `drawn`."""
    columns = np.column_stack([drawn, np.zeros(len(drawn))])
    pairs = [(i, drawn.shape[1]) for i in range(drawn.shape[1])]
    found = sign_flip_tests(columns, pairs, seed=SEED, flips=flips_for(n_tests))
    return np.array([test.p for test in found])
