"""Systems against the baseline, instance by instance: what two figures show from two sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.report.plots.material import Scored
from cts_async.report.tables import printable

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_SAME: Final = 1e-9
"""Scores that differ by no more are the same: what is left is the rounding of sums."""


@dataclass(frozen=True, slots=True, eq=False)
class Versus:
    """One system's differences to the baseline over the instances that both have, greatest first; at least one."""

    label: str
    name: str
    gains: Array
    rows: Array
    """The board's row of each."""

    @property
    def better(self) -> int:
        return int((self.gains > _SAME).sum())

    @property
    def worse(self) -> int:
        return int((self.gains < -_SAME).sum())

    @property
    def same(self) -> int:
        return len(self.gains) - self.better - self.worse


def versus(systems: Sequence[Scored], baseline: str) -> tuple[Versus, ...]:
    """Every other system against the baseline; none where that has no score, or is ""."""
    base = next((one.scores for one in systems if one.label == baseline), None)
    if base is None:
        return ()
    others = (one for one in systems if one.label != baseline)
    return tuple(_all_paired(others, base))


def nothing_shared(baseline: str) -> str:
    """Why a figure of differences is left out."""
    if not baseline:
        return "There is no run of orig here that differences could refer to."
    return f"No other system shares a scored instance with {printable(baseline)}."


def _all_paired(systems: Iterator[Scored], base: Array) -> Iterator[Versus]:
    import numpy as np

    for one in systems:
        gains = one.scores - base
        rows = np.flatnonzero(~np.isnan(gains))
        if len(rows):
            order = np.argsort(-gains[rows], kind="stable")
            yield Versus(one.label, one.name, gains[rows][order], rows[order])
