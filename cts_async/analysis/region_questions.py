"""Questions about regions: `cq_region_rate` (paper, table 4), region-only questions (tables 5, 8 and 10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cts_async.analysis.interactions import Interactions


@dataclass(frozen=True, slots=True)
class RegionTurn:
    """One turn of one run: a row of table 10, and at k = 1 of table 5."""

    label: str
    clarifier: str
    k: int
    turn: int
    questions: int
    about_region: int
    """Questions that ask for a region, or mention one: what `cq_region_rate` counts."""
    region_only: int
    """Questions that ask for a region and for nothing else."""
    region_only_unknown: int

    @property
    def unknown_rate(self) -> float | None:
        """Of the region-only questions, those answered `unknown`; None where there are none."""
        return self.region_only_unknown / self.region_only if self.region_only else None


@dataclass(frozen=True, slots=True)
class UnknownRange:
    """Lowest and highest unknown rate of region-only questions over models and turns (table 8)."""

    k: int
    low: float
    high: float
    lowest: RegionTurn
    highest: RegionTurn


def region_turns(system: Interactions) -> tuple[RegionTurn, ...]:
    """One entry for each turn, in order."""
    counts = [[0, 0, 0, 0] for _ in range(system.n_turns)]
    for row in system.rows:
        for turn in row.turns:
            count = counts[turn.turn - 1]
            only = turn.reading.region_only
            count[0] += 1
            count[1] += turn.reading.mentions_region
            count[2] += only
            count[3] += only and not turn.known
    return tuple(
        RegionTurn(system.label, system.clarifier, system.k, turn, *count)
        for turn, count in enumerate(counts, start=1)
    )


def cq_region_rate(turns: Iterable[RegionTurn]) -> float | None:
    """Fraction of clarification questions about region or location (table 4); None for no question."""
    of = list(turns)
    questions = sum(turn.questions for turn in of)
    return sum(turn.about_region for turn in of) / questions if questions else None


def unknown_ranges(turns: Iterable[RegionTurn]) -> tuple[UnknownRange, ...]:
    """The range for every k, ascending; a turn without region-only questions has no rate and takes no part."""
    by_k: dict[int, list[tuple[float, RegionTurn]]] = {}
    for turn in turns:
        if (rate := turn.unknown_rate) is not None:
            by_k.setdefault(turn.k, []).append((rate, turn))
    return tuple(_range(k, by_k[k]) for k in sorted(by_k))


def _range(k: int, rated: list[tuple[float, RegionTurn]]) -> UnknownRange:
    low, lowest = min(rated, key=lambda pair: pair[0])
    high, highest = max(rated, key=lambda pair: pair[0])
    return UnknownRange(k, low, high, lowest, highest)
