"""Scores of very many instances in little memory: 16 bytes each, ids by their hashes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cts_async.protocol.results import HASHES

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """`restore_score_100` by instance, in the order of the results; each instance once.

    `ids` are hashes, good within this process only (int64); `values` stand beside them (float64).
    """

    ids: Array
    values: Array

    @classmethod
    def of(cls, scores: Mapping[str, float]) -> Scores:
        """Scores by id, as a table that is written by hand has them."""
        import numpy as np

        ids = array(HASHES, map(hash, scores))
        return cls(np.array(ids, np.int64), np.array(list(scores.values()), float))

    def __len__(self) -> int:
        return len(self.values)

    def get(self, id: str) -> float | None:
        """The instance's score; None where it has none."""
        found = self.values[self.ids == hash(id)]
        return float(found[0]) if len(found) else None

    def numbers(self) -> Iterator[float]:
        """The scores in ascending order; equal ones are one object, since a million have few different."""
        import numpy as np

        latest: float | None = None
        for value in np.sort(self.values).data:
            if value != latest:
                latest = value
            yield latest

    def paired(self, other: Scores) -> tuple[Array, Array]:
        """Both scores of every instance that has both, in this one's order."""
        import numpy as np

        _, here, there = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        order = np.argsort(here)
        return self.values[here[order]], other.values[there[order]]
