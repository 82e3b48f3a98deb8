"""Of each id the last line counts: which lines those are, and where they stand, without holding any of them.

Ids are told apart by a 64-bit hash that differs from process to process; that two of a million ids share
one happens once in 10^7 files.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from cts_async.engine.journal import placed_records, record_at

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

HASHES: Final = "q"
"""The array type of ids' hashes, as `hash` gives them."""


def latest_rows(hashes: array[int] | memoryview) -> Array:
    """Numbers of the rows that count, one for each id, in the order in which the ids first appear.

    Row i is a line about the id with `hashes[i]`. Shape (ids,), int64; empty for no rows.
    """
    import numpy as np

    ids = np.frombuffer(hashes, np.int64) if hashes else np.empty(0, np.int64)
    ordered = np.sort(ids)
    if (ordered[1:] != ordered[:-1]).all():  # nothing is superseded: no need of the slower, larger sort
        return np.arange(len(ids))
    order = np.argsort(ids, kind="stable")
    changes = ids[order[1:]] != ids[order[:-1]]
    last = order[np.append(changes, True)]
    first = order[np.insert(changes, 0, True)]
    return cast("Array", last[np.argsort(first)])


def first_repetition(hashes: array[int]) -> tuple[int, int] | None:
    """The first row whose id an earlier row has, as (earlier, row); None where no id repeats."""
    import numpy as np

    ids = np.frombuffer(hashes, np.int64) if hashes else np.empty(0, np.int64)
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return None
    first: dict[int, int] = {}
    for row in np.flatnonzero(np.isin(ids, repeated)).tolist():
        if first.setdefault(hashes[row], row) != row:
            return first[hashes[row]], row
    return None


Mark: TypeAlias = Callable[[Mapping[str, Any]], int]
"""What a line is about, in 64 bits, 0 where it does not say."""


def unmarked(line: Mapping[str, Any]) -> int:
    """The mark of lines that nobody asks what they are about."""
    return 0


class LatestLines:
    """The line that counts of each id in a results file, as it was when this was made; 25 bytes an id."""

    def __init__(self, path: Path, mark: Mark = unmarked) -> None:
        self._path = path
        hashes, offsets, failures, marks = array(HASHES), array("q"), array("b"), array("q")
        for offset, line in placed_records(path):
            if isinstance(id := line.get("id"), str):
                hashes.append(hash(id))
                offsets.append(offset)
                failures.append(line.get("error") is not None)
                marks.append(mark(line))
        columns = _sorted_by_id(hashes, offsets, failures, marks)
        self._hashes, self._offsets, self._failures, self._marks = columns
        self.n_failed = sum(self._failures)

    def __len__(self) -> int:
        return len(self._hashes)

    def failed(self, id: str) -> bool | None:
        """Whether the id's line is a failure; None where there is no line."""
        row = self._row(id)
        return None if row is None else bool(self._failures[row])

    def lacks(self, id: str) -> bool:
        """Whether the id has no line but perhaps a failure."""
        return self.failed(id) is not False

    def have_all(self, hashes: array[int], *, but_failures: bool) -> bool:
        """Whether every id of `hashes` has a line; `but_failures` counts a failure as none."""
        import numpy as np

        if len(self._hashes) < len(hashes) or not hashes:
            return not hashes
        known, failures = np.asarray(self._hashes), np.asarray(self._failures)
        wanted = np.frombuffer(hashes, np.int64)
        rows = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        if not (known[rows] == wanted).all():
            return False
        return not (but_failures and failures[rows].any())

    def outdated(self, id: str, mark: int) -> bool:
        """Whether the id's line says that it is about something else."""
        row = self._row(id)
        return row is not None and self._marks[row] not in (0, mark)

    def n_outdated(self, hashes: array[int], marks: array[int], *, but_failures: bool) -> int:
        """How many of these ids have a line about something else, 0 for no marks; `but_failures` leaves out failures."""
        import numpy as np

        if not len(self._hashes) or not marks:
            return 0
        known, recorded = np.asarray(self._hashes), np.asarray(self._marks)
        wanted = np.frombuffer(hashes, np.int64)
        rows = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        other = (
            (known[rows] == wanted)
            & (recorded[rows] != 0)
            & (recorded[rows] != np.frombuffer(marks, np.int64))
        )
        if but_failures:
            other &= np.asarray(self._failures)[rows] == 0
        return int(other.sum())

    def line(self, id: str) -> dict[str, Any] | None:
        """The id's line, read from the file; None where there is none."""
        row = self._row(id)
        return None if row is None else record_at(self._path, self._offsets[row])

    def _row(self, id: str) -> int | None:
        wanted = hash(id)
        row = bisect_left(self._hashes, wanted)
        return row if row < len(self._hashes) and self._hashes[row] == wanted else None


def _sorted_by_id(hashes: array[int], *columns: array[int]) -> list[memoryview]:
    """The rows that count, ordered by hash: the hashes, and each column."""
    if not hashes:
        return [memoryview(column) for column in (hashes, *columns)]
    import numpy as np

    rows = latest_rows(hashes)
    ids = np.frombuffer(hashes, np.int64)
    rows = np.argsort(ids) if len(rows) == len(ids) else rows[np.argsort(ids[rows])]
    return [np.frombuffer(column, column.typecode)[rows].data for column in (hashes, *columns)]
