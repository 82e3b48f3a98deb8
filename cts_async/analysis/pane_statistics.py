"""Statistics of MIMICS-Duo (SIGIR 2022, table 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cts_async.analysis.figures import Figures
from cts_async.analysis.pane_columns import option_counts, query_sizes
from cts_async.records import Pane

COUNT, MEAN, SD, LEAST, MOST = "number", "mean", "sd", "min", "max"


def pane_statistics(panes: Sequence[Pane]) -> Figures:
    """Queries, panes, panes of a query and options of a pane; sd has ddof 1, and is NaN of one alone. Needs a pane."""
    sizes, options = query_sizes(panes), option_counts(panes)
    figures: dict[tuple[str, str], float] = {
        ("Queries", COUNT): len(sizes),
        ("Query-clarification pairs", COUNT): len(panes),
    }
    for row, counts in (("Clarifications per query", sizes), ("Candidate answers", options)):
        figures |= {
            (row, MEAN): float(counts.mean()),
            (row, SD): float(counts.std(ddof=1)) if len(counts) > 1 else math.nan,
            (row, LEAST): int(counts.min()),
            (row, MOST): int(counts.max()),
        }
    return figures
