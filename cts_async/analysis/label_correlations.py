"""Pearson correlations between online and offline labels of panes (MIMICS-Duo, SIGIR 2022, table 10, section 5.2).

All but seven cells reproduce over the aligned panes. The seven are those against the engagement level, and they
reproduce exactly where engagement is sorted in descending order within each query while the other labels keep the
order of the file. The printed row so looks like an error of alignment; `MISALIGNED` is that computation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from cts_async.analysis.figures import Figures
from cts_async.analysis.pane_columns import ASPECTS, column, option_counts, query_sizes
from cts_async.analysis.tied_lists import Array
from cts_async.records import Pane

ENGAGEMENT: Final = "Eng. Level"
MISALIGNED: Final = "Eng. Level, sorted"
"""Engagement in descending order within each query beside labels in file order."""
MEASURES: Final[Mapping[str, str]] = {
    **ASPECTS,
    "Quality Labelling": "pane_quality",
    ENGAGEMENT: "engagement_level",
    "Offline Rating": "offline_rating",
}
OPTION_COUNT: Final = "# of Can. Ans."


def label_correlations(panes: Sequence[Pane]) -> Figures:
    """Each pair of measures once, then `MISALIGNED` with the seven others. NaN where one does not vary."""
    columns = {name: column(panes, field) for name, field in MEASURES.items()}
    columns[OPTION_COUNT] = option_counts(panes)
    figures = {(a, b): pearson(columns[a], columns[b]) for a, b in combinations(columns, 2)}
    shifted = sorted_within(columns[ENGAGEMENT], query_sizes(panes))
    others = (name for name in columns if name != ENGAGEMENT)
    return {**figures, **{(MISALIGNED, name): pearson(shifted, columns[name]) for name in others}}


def sorted_within(values: Array, sizes: Array) -> Array:
    """Each query's values in descending order, the queries in theirs."""
    query = np.repeat(np.arange(len(sizes)), sizes)
    ordered: Array = values[np.lexsort((-values, query))]
    return ordered


def option_quality_correlations(panes: Sequence[Pane]) -> tuple[float, float]:
    """Section 5.2: r of the mean option label with the pane's; r of options' labels with their clicks."""
    means = np.array([np.mean(pane.option_qualities) for pane in panes])
    labels = np.array([label for pane in panes for label in pane.option_qualities])
    clicks = np.array([click for pane in panes for click in pane.click_probabilities])
    return pearson(means, column(panes, "pane_quality")), pearson(labels, clicks)


def pearson(a: Array, b: Array) -> float:
    """Pearson's r in [-1, 1]; NaN where one of them does not vary."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])
