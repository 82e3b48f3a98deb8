"""Panes as columns of numbers, in file order: what the statistics of MIMICS-Duo are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal, TypeAlias

import numpy as np

from cts_async.analysis.tied_lists import Array
from cts_async.records import Pane

PaneLabel: TypeAlias = Literal["engagement", "quality", "rating"]
PANE_LABELS: Final[Mapping[PaneLabel, str]] = {
    "engagement": "engagement_level",
    "quality": "pane_quality",
    "rating": "offline_rating",
}
"""What an ideal ranking of panes can be by (table 11), and the field of a pane that holds it."""
ASPECTS: Final[Mapping[str, str]] = {
    "Coverage": "coverage",
    "Diversity": "diversity",
    "Understandability": "understandability",
    "Can. Ans. Order": "importance_order",
}
"""The aspects by the names they have in tables 10 and 11."""


def column(panes: Sequence[Pane], field: str) -> Array:
    """The integers of one field, shape (panes,)."""
    return np.array([getattr(pane, field) for pane in panes], int)


def query_sizes(panes: Sequence[Pane]) -> Array:
    """How many panes each query has, shape (queries,): a query's panes stand together."""
    return np.array([len(list(group)) for _, group in groupby(panes, key=attrgetter("query"))], int)


def option_counts(panes: Sequence[Pane]) -> Array:
    """How many options each pane has, shape (panes,)."""
    return np.array([len(pane.options) for pane in panes], int)
