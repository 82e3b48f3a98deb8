"""Panes ranked by their aspects against engagement, quality and rating (MIMICS-Duo, SIGIR 2022, table 11).

Ties in both lists are broken at random, so one pane of a query is ideal. What is printed are single draws, those of
the random ranker too.
"""

from __future__ import annotations

from collections.abc import Sequence

from cts_async.analysis.figures import Figures, Key
from cts_async.analysis.pane_columns import ASPECTS, PANE_LABELS, column, query_sizes
from cts_async.analysis.pane_reranking import RANDOM
from cts_async.analysis.reranking import Measured, rerank
from cts_async.analysis.tie_draws import DRAWS
from cts_async.analysis.tied_lists import tied_lists, unscored
from cts_async.records import Pane


def aspect_reranking(panes: Sequence[Pane], *, draws: int = DRAWS, seed: int = 0) -> Figures:
    """P@1 and MRR of each aspect and the random ranker, for each label as the ideal ranking."""
    sizes = query_sizes(panes)
    figures: dict[Key, float | Measured] = {}
    for label, field in PANE_LABELS.items():
        ideal = column(panes, field)
        rankings = {name: tied_lists(column(panes, aspect), ideal, sizes) for name, aspect in ASPECTS.items()}
        rankings[RANDOM] = unscored(rankings["Coverage"])
        for name, lists in rankings.items():
            if found := rerank(lists, "one", draws=draws, seed=seed):
                figures |= {(name, f"P@1 {label}"): found.p_at_1, (name, f"MRR {label}"): found.mrr}
    return figures
