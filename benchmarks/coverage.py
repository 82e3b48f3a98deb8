"""How often 95 % intervals of a mean difference hold the truth, by the number of instances and of those that differ.

Differences of restore_score_100 as they occur: discrete, within -100 and 100, many of them 0. Beside the percentile
bootstrap that `cts compare` prints stand the bias-corrected one (BCa, by scipy) and Student's t. Then samples of all
sizes and shares are grouped by how many of their instances differ: the rule of the dagger (`stats.ENOUGH`) is theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from scipy import stats

from benchmarks.shared.result import Result, Row
from cts_async.analysis.stats import ENOUGH, paired_differences

SIZES: Final = (5, 8, 12, 20, 30, 60, 518)
TRIALS, RESAMPLES, SEED = 1_000, 1_000, 7
POPULATION: Final = 200_000
BCA_UP_TO: Final = 60
"""BCa leaves every instance out once, for every sample: with more of them that takes gigabytes."""
SHARES: Final = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)
"""Shares of the population that differ."""
MIXED_SIZES: Final = (30, 60, 100, 200, 518)
MIXED_TRIALS: Final = 200
GROUPS: Final = ((1, 4), (5, 9), (10, 14), (15, 19), (20, 29), (30, 39), (40, 59), (60, 518))
"""From and to how many instances of a sample differ."""
Array = Any


def bench() -> Result:
    """How often the printed interval holds the population's mean: by size, then by the number that differ."""
    rng = np.random.default_rng(SEED)
    rows = [*_by_size(rng), *_by_number_differing(rng)]
    return Result(f"coverage of 95 % percentile intervals, {TRIALS:,} samples each", rows)


def _by_size(rng: np.random.Generator) -> Iterator[Row]:
    for name, population in populations(rng).items():
        truth = population.mean()
        for n in SIZES:
            drawn = rng.choice(population, (n, TRIALS))
            held = {
                method: float(np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9)))
                for method, (low, high) in intervals(drawn).items()
            }
            others = ", ".join(f"{method} {share:.3f}" for method, share in held.items() if method != "own")
            yield Row(f"{name}, n = {n}", held["own"], digits=3, note=others)


def _by_number_differing(rng: np.random.Generator) -> Iterator[Row]:
    """A row for each kind of difference and group of samples, whatever their size."""
    for name, pool in differences(rng).items():
        held, n_differ = [], []
        for share in SHARES:
            population = mixed(rng, pool, share)
            truth = population.mean()
            for n in MIXED_SIZES:
                drawn = rng.choice(population, (n, MIXED_TRIALS))
                found = paired_differences(drawn, seed=SEED, resamples=RESAMPLES)
                for difference in found:
                    if difference is not None and difference.low is not None and difference.high is not None:
                        held.append(difference.low - 1e-9 <= truth <= difference.high + 1e-9)
                        n_differ.append(difference.n_differ)
        differing, hits = np.array(n_differ), np.array(held)
        for low, high in GROUPS:
            group = (low <= differing) & (differing <= high)
            marked = "; marked as too short" if low < ENOUGH else ""
            note = f"{group.sum():,} samples of {MIXED_SIZES[0]} to {MIXED_SIZES[-1]} instances{marked}"
            yield Row(f"{name}, {low} to {high} differ", float(hits[group].mean()), digits=3, note=note)


def _scores(rng: np.random.Generator, chances: tuple[float, float, float]) -> Array:
    """Scores of answers whose nuggets are none, partial or full with these chances."""
    weights = np.array([3, 2, 2, 1, 1])
    labels = rng.choice([0.0, 0.5, 1.0], (POPULATION, len(weights)), p=chances)
    return 100 * labels @ weights / weights.sum()


def populations(rng: np.random.Generator) -> dict[str, Array]:
    """Differences of two systems that are much alike; of gains on every third instance; on every tenth."""
    orig = _scores(rng, (0.45, 0.2, 0.35))
    gains = np.maximum(_scores(rng, (0.1, 0.1, 0.8)) - orig, 0)
    third, tenth = (np.where(rng.random(POPULATION) < share, gains, 0.0) for share in (1 / 3, 1 / 10))
    both = _scores(rng, (0.35, 0.2, 0.45)) - orig
    return {"both ways": both, "gains on 1/3": third, "gains on 1/10": tenth}


def differences(rng: np.random.Generator) -> dict[str, Array]:
    """Differences other than 0, by kind: "rare leaps" are one gain of 100 points among nine of 11."""
    orig = _scores(rng, (0.45, 0.2, 0.35))
    both = _scores(rng, (0.35, 0.2, 0.45)) - orig
    gains = _scores(rng, (0.1, 0.1, 0.8)) - orig
    leaps = np.where(rng.random(POPULATION) < 0.1, 100.0, 11.0)
    return {"both ways": both[both != 0], "gains": gains[gains > 0], "rare leaps": leaps}


def mixed(rng: np.random.Generator, pool: Array, share: float) -> Array:
    """A population of which `share` has differences of the `pool`, and the rest none."""
    return np.where(rng.random(POPULATION) < share, rng.choice(pool, POPULATION), 0.0)


def intervals(drawn: Array) -> dict[str, tuple[Array, Array]]:
    """Low and high ends by method, of samples in columns; "own" is what is printed."""
    n, mean = len(drawn), drawn.mean(axis=0)
    found = paired_differences(drawn, seed=SEED, resamples=RESAMPLES)
    # Where all differences are the same there is no interval: its ends are the mean.
    own = np.array([(one.low, one.high) if one.low is not None else one.ends for one in found if one])
    reach = stats.t.ppf(0.975, n - 1) * drawn.std(axis=0, ddof=1) / np.sqrt(n)
    by_method = {"own": (own[:, 0], own[:, 1]), "Student": (mean - reach, mean + reach)}
    if n <= BCA_UP_TO:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where all differences are the same there is no BCa interval
            ends = stats.bootstrap(
                (drawn.T,),
                np.mean,
                axis=-1,
                n_resamples=RESAMPLES,
                batch=100,
                method="BCa",
                random_state=SEED,
            ).confidence_interval
        low, high = (np.where(np.isnan(end), mean, end) for end in ends)
        by_method["BCa"] = low, high
    return by_method
