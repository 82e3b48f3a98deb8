"""Beyond the paper: score and gain of the instances with 0, 1, ... k known answers (table 7's classes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cts_async.analysis.bootstrap import Difference, paired_difference
from cts_async.analysis.interactions import Interactions, Scores


@dataclass(frozen=True, slots=True)
class KnownCount:
    """The instances with exactly `known_cnt` known answers."""

    known_cnt: int
    n: int
    """Instances, unjudged ones among them."""
    score: Difference | None
    """Mean score with its bootstrap interval, over those that were judged; None for none."""
    gain: Difference | None
    """Mean difference to `orig`, over those judged in both; None for none."""


def by_known_count(system: Interactions, orig: Scores, *, seed: int = 0) -> tuple[KnownCount, ...]:
    """One entry for each count from 0 to k."""
    return tuple(_class(system, known, orig, seed) for known in range(system.k + 1))


def _class(system: Interactions, known: int, orig: Scores, seed: int) -> KnownCount:
    rows = [row for row in system.rows if row.known_cnt == known]
    scores = [row.score for row in rows if row.score is not None]
    paired = [(row.score, orig[row.id]) for row in rows if row.score is not None and row.id in orig]
    return KnownCount(
        known,
        len(rows),
        _mean(scores, [0.0] * len(scores), seed),
        _mean([score for score, _ in paired], [base for _, base in paired], seed),
    )


def _mean(scores: Sequence[float], baseline: Sequence[float], seed: int) -> Difference | None:
    return paired_difference(scores, baseline, seed=seed)
