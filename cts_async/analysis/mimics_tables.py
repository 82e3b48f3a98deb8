"""Tables 6 to 11 of MIMICS-Duo and the figures in section 5.2, computed from panes, beside what is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from cts_async.analysis import mimics_published as published
from cts_async.analysis.aspect_reranking import aspect_reranking
from cts_async.analysis.figures import Cell, cells
from cts_async.analysis.label_correlations import label_correlations
from cts_async.analysis.label_distributions import aspect_distributions, quality_distributions
from cts_async.analysis.option_reranking import option_reranking
from cts_async.analysis.pane_reranking import BY_QUALITY, BY_RATING, RANDOM, SD, pane_reranking
from cts_async.analysis.pane_statistics import pane_statistics
from cts_async.analysis.tie_draws import DRAWS
from cts_async.records import Pane

_Compute: TypeAlias = Callable[[Sequence[Pane], int, int], list[Cell]]


def mimics_table(name: str, panes: Sequence[Pane], *, draws: int = DRAWS, seed: int = 0) -> list[Cell]:
    """The cells of one table of TABLES."""
    return _COMPUTE[name](panes, draws, seed)


def _table_7(panes: Sequence[Pane], draws: int, seed: int) -> list[Cell]:
    figures = pane_reranking(panes, draws=draws, seed=seed)
    means = [key for key in figures if key[0] in (RANDOM, BY_RATING, BY_QUALITY) and SD not in key[1]]
    return cells(
        figures, published.TABLE_7, dict.fromkeys(means, published.RANDOM_REPEATS), published.OTHER_READINGS
    )


_COMPUTE: Final[Mapping[str, _Compute]] = {
    "6": lambda panes, draws, seed: cells(pane_statistics(panes), published.TABLE_6),
    "7": _table_7,
    "8": lambda panes, draws, seed: cells(quality_distributions(panes), published.TABLE_8),
    "9": lambda panes, draws, seed: cells(aspect_distributions(panes), published.TABLE_9),
    "10": lambda panes, draws, seed: cells(
        label_correlations(panes), published.TABLE_10, again=published.OTHER_READINGS
    ),
    "11": lambda panes, draws, seed: cells(
        aspect_reranking(panes, draws=draws, seed=seed), published.TABLE_11
    ),
    "5.2": lambda panes, draws, seed: cells(
        option_reranking(panes, draws=draws, seed=seed), published.SECTION_5_2
    ),
}
TABLES: Final = tuple(_COMPUTE)
"""The tables by their numbers, and the section whose figures stand in its text."""
