"""Options ranked by their quality labels against their clicks (MIMICS-Duo, SIGIR 2022, section 5.2).

Over all panes, ties in both lists broken at random, one option of a pane ideal: a pane that nobody clicked has all
its options tied. So read, P@1 and MRR are those of the paper. Its correlation of 0.032 is not found: Pearson's r over
the options that there are is 0.049, Spearman's 0.044, Kendall's 0.039, and r is 0.073 over the panes with clicks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cts_async.analysis.figures import Figures, Key
from cts_async.analysis.label_correlations import option_quality_correlations
from cts_async.analysis.pane_columns import option_counts
from cts_async.analysis.reranking import Measured, rerank
from cts_async.analysis.tie_draws import DRAWS
from cts_async.analysis.tied_lists import tied_lists
from cts_async.records import Pane

MEAN_QUALITY, BY_QUALITY = "Mean option quality", "Options by quality"


def option_reranking(panes: Sequence[Pane], *, draws: int = DRAWS, seed: int = 0) -> Figures:
    """Section 5.2: what options' quality has to do with their pane's, and with their clicks."""
    labels = np.array([label for pane in panes for label in pane.option_qualities])
    clicks = np.array([click for pane in panes for click in pane.click_probabilities])
    of_pane, of_clicks = option_quality_correlations(panes)
    figures: dict[Key, float | Measured] = {
        (MEAN_QUALITY, "r, pane quality"): of_pane,
        (BY_QUALITY, "r, clicks"): of_clicks,
    }
    if found := rerank(tied_lists(labels, clicks, option_counts(panes)), "one", draws=draws, seed=seed):
        figures |= {(BY_QUALITY, "P@1 clicks"): found.p_at_1, (BY_QUALITY, "MRR clicks"): found.mrr}
    return figures
