"""A results file, or a judge's, by numbers: where each line is, of whom it is, and what it came to; 42 bytes a line.

Of an id the last line counts, in the place where its first one stood. Ids are told apart by 64 bits of a hash
that differs from process to process: who reads a line checks whose it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async import scorer
from cts_async.protocol.results import Mark, failed, latest_rows, unmarked
from cts_async.records import UNKNOWN
from cts_async.report.viewer.columns import Columns
from cts_async.report.viewer.files import record_in
from cts_async.report.viewer.tail import BLOCK, Tail

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MOST: Final = 65_535
_KINDS: Final = ("int64", "int64", "int64", "float64", "uint16", "uint16", "bool", "int64")


def id_hash(id: str) -> int:
    """64 bits by which an id is found, good within this process."""
    return hash(id.encode(errors="surrogatepass"))


def name_of(line: Mapping[str, Any]) -> str | None:
    """The id of a line's instance; files of others may know it by its query alone."""
    id = line.get("id")
    if isinstance(id, str):
        return id
    try:
        return scorer.item_name(line)
    except ValueError:
        return None


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines that count, in columns of equal length, in the order in which their ids first appear."""

    offsets: Array
    lengths: Array
    """Bytes, with the newline."""
    ids: Array
    scores: Array
    """NaN where there is none."""
    asked: Array
    unknown: Array
    failed: Array
    marks: Array

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _order(self) -> Array:
        import numpy as np

        return np.argsort(self.ids, kind="stable")

    def row(self, id: str) -> int | None:
        """The row of an id, if it has a line."""
        rows = self.rows_of_hashes(_one(id_hash(id)))
        return int(rows[0]) if rows[0] >= 0 else None

    def rows_of_hashes(self, hashes: Array) -> Array:
        """The row of each of these ids; -1 where it has no line."""
        import numpy as np

        if not len(self):
            return np.full(len(hashes), -1)
        order = self._order
        places = np.minimum(np.searchsorted(self.ids, hashes, sorter=order), len(self) - 1)
        rows = order[places]
        return np.where(self.ids[rows] == hashes, rows, -1)


class ResultsIndex:
    """Grows with its file. `mark` says which answer a line is about (see `LatestLines`)."""

    def __init__(self, path: Path, mark: Mark = unmarked, block: int = BLOCK) -> None:
        self.path = path
        self.judge: str | None = None
        """The first judge that a line names."""
        self.tail = Tail(path, block)
        self._mark = mark
        self._columns = Columns(*_KINDS)
        self._lines: tuple[Columns, int, Lines] | None = None

    @property
    def nbytes(self) -> int:
        return 2 * self._columns.nbytes

    def advance(self) -> bool:
        """Take in some more of the file; whether there was any."""
        if self.tail.renewed():
            self.judge, self._columns, self._lines = None, Columns(*_KINDS), None
        found = self.tail.next()
        if found is None:
            return False
        rows = list(self._rows(*found))
        if rows:
            self._columns.add(*zip(*rows, strict=True))
        return True

    def lines(self) -> Lines:
        """The lines that count by now."""
        columns = self._columns
        known = self._lines
        if known is None or known[0] is not columns or known[1] != len(columns):
            found = columns.all()
            known = self._lines = (columns, len(found[0]), _counting(found))
        return known[2]

    def _rows(self, offset: int, block: bytes) -> Iterator[tuple[Any, ...]]:
        for raw in block.split(b"\n")[:-1]:
            line = record_in(raw)
            id = name_of(line) if line else None
            if line is not None and id is not None:
                yield (offset, len(raw) + 1, id_hash(id), *self._numbers(line))
            offset += len(raw) + 1

    def _numbers(self, line: Mapping[str, Any]) -> tuple[Any, ...]:
        if self.judge is None and isinstance(line.get("judge"), str):
            self.judge = line["judge"]
        answers = line.get("answers")
        answers = answers if isinstance(answers, list) else []
        score, lost = line.get("restore_score_100"), failed(line)
        scored = isinstance(score, int | float) and not lost
        return (
            float(score) if scored and score is not None else float("nan"),
            min(len(answers), _MOST),
            min(answers.count(UNKNOWN), _MOST),
            lost,
            self._mark(line),
        )


def _counting(columns: tuple[Array, ...]) -> Lines:
    ids = columns[2]
    rows = latest_rows(ids.data) if len(ids) else ids
    return Lines(*(column if len(rows) == len(ids) else column[rows] for column in columns))


def _one(hash_: int) -> Array:
    import numpy as np

    return np.array([hash_], np.int64)
