"""The instances that are worth a look: where a system scored best and worst, where it gained and lost most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.board import Board

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

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
