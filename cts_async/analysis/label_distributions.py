"""Distributions of labels from 1 to 5 (MIMICS-Duo, SIGIR 2022, tables 8 and 9).

The second number of a row is the variance (ddof 1), not the standard deviation; the labels are percentages. Options
that a pane does not have are left out, a position that no pane has gives no row, and the variance of one label is
NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cts_async.analysis.figures import Figures
from cts_async.analysis.pane_columns import ASPECTS, column
from cts_async.analysis.tied_lists import Array
from cts_async.records import Pane

MEAN, VARIANCE = "mean", "var"
PANE = "Clarification Pane"
_LABELS = range(1, 6)
_SLOTS = range(5)


def quality_distributions(panes: Sequence[Pane]) -> Figures:
    """Table 8: the quality labels of panes, and of the options in each position."""
    rows = {PANE: column(panes, "pane_quality")}
    for slot in _SLOTS:
        there = [pane.option_qualities[slot] for pane in panes if slot < len(pane.options)]
        rows[f"Candidate Ans. #{slot + 1}"] = np.array(there, int)
    return _distributions(rows)


def aspect_distributions(panes: Sequence[Pane]) -> Figures:
    """Table 9: how far workers agree that a pane has each aspect."""
    return _distributions({name: column(panes, field) for name, field in ASPECTS.items()})


def _distributions(rows: dict[str, Array]) -> Figures:
    figures: dict[tuple[str, str], float] = {}
    for row, labels in rows.items():
        if not len(labels):
            continue
        figures[row, MEAN] = float(labels.mean())
        figures[row, VARIANCE] = float(labels.var(ddof=1)) if len(labels) > 1 else math.nan
        figures |= {(row, str(label)): float(100 * (labels == label).mean()) for label in _LABELS}
    return figures
