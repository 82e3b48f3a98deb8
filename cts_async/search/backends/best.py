"""The best rows of a column of scores, in the one order that search and rankers give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def best_rows(scores: NDArray[np.floating[Any]], limit: int) -> list[int]:
    """Give the rows of the `limit` highest scores, highest first, equal ones in order; all if there are fewer."""
    import numpy as np

    count = min(limit, len(scores))
    if count < 1:
        return []
    least = np.partition(scores, -count)[-count]
    rows = np.flatnonzero(scores >= least)
    return [int(row) for row in rows[np.argsort(-scores[rows], kind="stable")][:count]]
