"""The leaderboard of one judge (paper, tables 2 and 6), with intervals of the differences (table 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cts_async import scorer
from cts_async.analysis.board import Board
from cts_async.analysis.bootstrap import Difference, paired_differences


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
