"""Figures of a published table, computed anew: by row and column, each set beside the one in print.

A figure without chance in it is reproduced where it rounds to what is printed. One that depends on how ties fell is
judged by z: how many standard deviations the printed value lies from the exact expectation, the rounding of print
forgiven.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from cts_async.analysis.reranking import Measured

Verdict: TypeAlias = Literal["same", "ties", "differs"]
VERDICTS: Final[Mapping[Verdict, str]] = {
    "same": "reproduced: the same number in the digits that are printed",
    "ties": "within the spread of ties broken at random (|z| of at most 3)",
    "differs": "does not reproduce",
}
FAR: Final = 3.0
"""From so many standard deviations on chance is no explanation."""

Key: TypeAlias = tuple[str, str]
"""A cell's row and column."""
Figures: TypeAlias = Mapping[Key, float | Measured]
Printed: TypeAlias = Mapping[Key, str]
"""What is in print, as it is printed: its digits say how exact it is."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure and what is printed for it, None where the paper has no such cell.

    `repeats` is of how many draws the printed value is the mean. `again`: another reading of a printed value that
    stands beside an earlier cell, too, and is counted there.
    """

    row: str
    column: str
    figure: float | Measured
    printed: str | None
    repeats: int = 1
    again: bool = False

    @property
    def value(self) -> float:
        """The figure; where ties were drawn, its mean over the draws."""
        return self.figure.mean if isinstance(self.figure, Measured) else self.figure

    @property
    def chance(self) -> Measured | None:
        """The figure where it depends on how ties fall."""
        return self.figure if isinstance(self.figure, Measured) and self.figure.exact_sd > 0 else None

    @property
    def z(self) -> float | None:
        """Standard deviations from the expectation to the printed value; None without chance or print."""
        if self.printed is None or self.chance is None:
            return None
        distance = float(self.printed) - self.chance.exact
        beyond = max(0.0, abs(distance) - _half_a_digit(self.printed))
        return (1 if distance > 0 else -1) * beyond / (self.chance.exact_sd / math.sqrt(self.repeats)) + 0.0

    @property
    def verdict(self) -> Verdict | None:
        """None where nothing is printed."""
        if self.printed is None:
            return None
        if self.z is not None:
            return "ties" if abs(self.z) <= FAR else "differs"
        near = abs(self.value - float(self.printed)) <= _half_a_digit(self.printed) + 1e-9
        return "same" if near else "differs"

    def as_row(self) -> dict[str, Any]:
        """All there is to say of the cell, unrounded, for JSON."""
        chance = self.chance
        return {
            "row": self.row,
            "column": self.column,
            "published": None if self.printed is None else float(self.printed),
            "value": self.value,
            "sd": chance.sd if chance else None,
            "exact": chance.exact if chance else None,
            "exact_sd": chance.exact_sd if chance else None,
            "z": self.z,
            "verdict": self.verdict,
            "again": self.again,
        }


def cells(
    figures: Figures, printed: Printed, repeats: Mapping[Key, int] | None = None, again: Collection[Key] = ()
) -> list[Cell]:
    """The figures in their order, each with what is printed in its place; `again` are other readings of a value."""
    times = repeats or {}
    return [
        Cell(*key, figure, printed.get(key), times.get(key, 1), key in again)
        for key, figure in figures.items()
    ]


def _half_a_digit(printed: str) -> float:
    return 0.5 * 10.0 ** int(Decimal(printed).as_tuple().exponent)
