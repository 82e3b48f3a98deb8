"""How often 95 % intervals of a mean difference hold the truth, by the number of instances.

Differences of restore_score_100 as they occur: discrete, within -100 and 100, many of them 0. Beside the percentile
bootstrap that `cts compare` prints stand the bias-corrected one (BCa, by scipy) and Student's t.
"""

from __future__ import annotations

import warnings
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
Array = Any


def bench() -> Result:
    """A row for each population and size: how often the printed interval holds the population's mean."""
    rng = np.random.default_rng(SEED)
    rows = []
    for name, population in populations(rng).items():
        truth = population.mean()
        for n in SIZES:
            drawn = rng.choice(population, (n, TRIALS))
            held = {
                method: float(np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9)))
                for method, (low, high) in intervals(drawn).items()
            }
            others = ", ".join(f"{method} {share:.3f}" for method, share in held.items() if method != "own")
            marked = "; marked as too short" if n < ENOUGH else ""
            rows.append(Row(f"{name}, n = {n}", held["own"], digits=3, note=f"{others}{marked}"))
    return Result(f"coverage of 95 % percentile intervals, {TRIALS:,} samples each", rows)


def populations(rng: np.random.Generator) -> dict[str, Array]:
    """Differences of two systems that are much alike; of gains on every third instance; on every tenth."""
    weights = np.array([3, 2, 2, 1, 1])

    def scores(chances: tuple[float, float, float]) -> Array:
        labels = rng.choice([0.0, 0.5, 1.0], (POPULATION, len(weights)), p=chances)
        return 100 * labels @ weights / weights.sum()

    orig = scores((0.45, 0.2, 0.35))
    gains = np.maximum(scores((0.1, 0.1, 0.8)) - orig, 0)
    third, tenth = (np.where(rng.random(POPULATION) < share, gains, 0.0) for share in (1 / 3, 1 / 10))
    return {"both ways": scores((0.35, 0.2, 0.45)) - orig, "gains on 1/3": third, "gains on 1/10": tenth}


def intervals(drawn: Array) -> dict[str, tuple[Array, Array]]:
    """Low and high ends by method, of samples in columns; "own" is what is printed."""
    n, mean = len(drawn), drawn.mean(axis=0)
    own = np.array([one.ends for one in paired_differences(drawn, seed=SEED, resamples=RESAMPLES) if one])
    reach = stats.t.ppf(0.975, n - 1) * drawn.std(axis=0, ddof=1) / np.sqrt(n)
    found = {"own": (own[:, 0], own[:, 1]), "Student": (mean - reach, mean + reach)}
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
        found["BCa"] = low, high
    return found
