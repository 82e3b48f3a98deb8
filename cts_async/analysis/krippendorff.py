"""Krippendorff's alpha: agreement beyond chance of any number of judges, who may have left things out.

Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section D: alpha = 1 - D_o / D_e from the coincidence
matrix, with the nominal metric or the ordinal one (a difference is larger the more values lie between).
1 is full agreement, 0 is chance, less is worse than chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Level = Literal["nominal", "ordinal"]
MISSING = -1


def krippendorff_alpha(labels: Array, level: Level, n_values: int) -> float | None:
    """Alpha of `labels`, shape (things, judges), integers 0..n_values-1 in ascending order, or MISSING.

    A thing that fewer than two judges have labelled says nothing. None where no two judges have labelled the
    same thing, and where only one value was ever given: there is no disagreement to expect then.
    """
    import numpy as np

    given = np.column_stack([(labels == value).sum(axis=1, dtype=np.int16) for value in range(n_values)])
    # Few things differ in how often each value was given to them: every kind of thing is reckoned with once.
    places = (labels.shape[1] + 1) ** np.arange(n_values)
    kinds, times = np.unique(given[given.sum(axis=1) >= 2] @ places, return_counts=True)
    if not len(kinds):
        return None
    counts = kinds[:, None] // places % (labels.shape[1] + 1)
    weighted = counts * times[:, None] / (counts.sum(axis=1) - 1)[:, None]
    coincidences = counts.T @ weighted - np.diag(weighted.sum(axis=0))
    totals = (counts * times[:, None]).sum(axis=0).astype(float)
    n = totals.sum()
    difference = _nominal(n_values) if level == "nominal" else _ordinal(totals)
    expected = (np.outer(totals, totals) * difference).sum()
    if expected == 0:
        return None
    return float(1 - (n - 1) * (coincidences * difference).sum() / expected)


def _nominal(n_values: int) -> Array:
    import numpy as np

    return 1.0 - np.eye(n_values)


def _ordinal(totals: Array) -> Array:
    """Squared number of values given between two values, each end counting half."""
    import numpy as np

    up_to = np.cumsum(totals) - totals / 2
    return (up_to[:, None] - up_to) ** 2
