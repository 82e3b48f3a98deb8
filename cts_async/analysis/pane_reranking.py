"""Panes ranked by offline labels, at random and as badly as can be, against engagement (SIGIR 2022, table 7).

Over all queries ties at the top are broken at random. P@1 counts each pane with the query's highest engagement: only
so is the random ranker's 0.332 the mean of k / n, k of n panes being ideal. For MRR the paper does not say which of
several ideal panes counts, so it is given twice: the first of them, or one drawn at random. "Untied" queries are
those where one pane alone has the highest engagement and one alone the highest label. The worst case sorts panes by
engagement, lowest first; untied, it is over the queries that are so by quality.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from cts_async.analysis.figures import Figures, Key
from cts_async.analysis.pane_columns import column, query_sizes
from cts_async.analysis.reranking import Measured, rerank
from cts_async.analysis.tie_draws import DRAWS
from cts_async.analysis.tied_lists import TiedLists, tied_lists, unscored
from cts_async.records import Pane

RATING, QUALITY = "Offline Rating", "Quality Labelling"
RANDOM, WORST = "Random Ranker", "Worst Possible Case"
BY_RATING, BY_QUALITY = "Random, by rating", "Random, by quality"
"""The random ranker on the queries that are untied by one label (footnotes 2 and 3)."""
P_ALL, MRR_ALL, MRR_ONE = "P@1 all", "MRR all", "MRR all, one"
P_UNTIED, MRR_UNTIED = "P@1 untied", "MRR untied"
_OF_SD: Final = 1 / math.sqrt(2 * (DRAWS - 1))
QUERIES, PANES = "queries untied", "panes untied"
SD: Final = "sd of "
"""Before a column: the standard deviation over the draws, not their mean."""
_LABELS: Final[Mapping[str, str]] = {RATING: "offline_rating", QUALITY: "pane_quality"}


def pane_reranking(panes: Sequence[Pane], *, draws: int = DRAWS, seed: int = 0) -> Figures:
    """Table 7, with the sizes of its untied collections; one without queries has no P@1 and MRR."""
    engagement, sizes = column(panes, "engagement_level"), query_sizes(panes)
    lists = {name: tied_lists(column(panes, field), engagement, sizes) for name, field in _LABELS.items()}
    worst = tied_lists(-engagement, engagement, sizes)
    figures: dict[Key, float | Measured] = {}
    for name, by_label in lists.items():
        untied = by_label.untied()
        figures |= _all(name, by_label, draws, seed) | _untied(name, untied, draws, seed)
        figures |= {(name, QUERIES): untied.queries, (name, PANES): untied.items}
    figures |= _with_spread(_all(RANDOM, unscored(worst), draws, seed))
    for name, label in ((BY_RATING, RATING), (BY_QUALITY, QUALITY)):
        figures |= _with_spread(_untied(name, unscored(lists[label].untied()), draws, seed))
    figures |= _measured(WORST, (P_ALL, MRR_ALL), worst, draws, seed)
    figures |= _untied(WORST, worst.of(lists[QUALITY].alone), draws, seed)
    return figures


def _all(row: str, lists: TiedLists, draws: int, seed: int) -> dict[Key, Measured]:
    single = rerank(lists, "one", draws=draws, seed=seed)
    found = _measured(row, (P_ALL, MRR_ALL), lists, draws, seed)
    return found if single is None else {**found, (row, MRR_ONE): single.mrr}


def _untied(row: str, lists: TiedLists, draws: int, seed: int) -> dict[Key, Measured]:
    return _measured(row, (P_UNTIED, MRR_UNTIED), lists, draws, seed)


def _measured(
    row: str, names: tuple[str, str], lists: TiedLists, draws: int, seed: int
) -> dict[Key, Measured]:
    found = rerank(lists, "any", draws=draws, seed=seed)
    return {} if found is None else {(row, names[0]): found.p_at_1, (row, names[1]): found.mrr}


def _with_spread(figures: Mapping[Key, Measured]) -> dict[Key, Measured]:
    """The figures, each followed by the standard deviation of its draws.

    That is itself uncertain, by about sd / sqrt(2 (n - 1)) over the n draws of the paper.
    """
    found: dict[Key, Measured] = {}
    for (row, name), one in figures.items():
        found[row, name] = one
        found[row, SD + name] = Measured(one.sd, one.sd * _OF_SD, one.exact_sd, one.exact_sd * _OF_SD)
    return found
