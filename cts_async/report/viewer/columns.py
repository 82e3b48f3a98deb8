"""Columns of numbers that one thread adds rows to while others read those that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_FIRST: Final = 1024


class Columns:
    """`kinds` are numpy's names of the columns' types. Rows are only ever added."""

    def __init__(self, *kinds: str) -> None:
        import numpy as np

        self._state: tuple[tuple[Array, ...], int] = (tuple(np.empty(0, kind) for kind in kinds), 0)

    def __len__(self) -> int:
        return self._state[1]

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._state[0])

    def add(self, *rows: Sequence[Any] | Array) -> None:
        """Add rows, column by column. What `all` gave before stays as it is."""
        columns, n = self._state
        after = n + len(rows[0])
        if columns and after > len(columns[0]):
            room = max(_FIRST, after, len(columns[0]) * 3 // 2)
            columns = tuple(_grown(column, n, room) for column in columns)
        for column, new in zip(columns, rows, strict=True):
            column[n:after] = new
        self._state = (columns, after)

    def all(self) -> tuple[Array, ...]:
        """Every column as long as it is by now; nothing is copied, and all have the same length."""
        columns, n = self._state
        return tuple(column[:n] for column in columns)


def _grown(column: Array, n: int, room: int) -> Array:
    import numpy as np

    larger = np.empty(room, column.dtype)
    larger[:n] = column[:n]
    return larger
