"""Byte indexes of growing JSON Lines files: results, judgments and the journal, as columns of numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async import scorer
from cts_async.engine.journal_index import MAX_LINE
from cts_async.protocol.results import Mark, failed, latest_rows, unmarked
from cts_async.records import UNKNOWN
from cts_async.report.viewer.files import NO_FILE, opened, record_in, stat_of

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


BLOCK: Final = 1 << 20
_MARK: Final = 64
"""Bytes before the end of what was read that have to be there still."""


class Tail:
    """Where reading has come to. A file that shrank below that, or is another one, is read from its start again."""

    def __init__(self, path: Path, block: int = BLOCK) -> None:
        self.path = path
        self.end = 0
        """Everything before it was given out."""
        self.inode = 0
        """Of the file that it is; 0 before it is looked at."""
        self.overlong: list[int] = []
        """Where lines begin that are longer than `MAX_LINE`: damage, and left out."""
        self._block, self._mark = block, b""
        self._barren = 0
        """The size of the file when nothing whole stood behind `end`."""
        self._searched = 0
        """Bytes behind `end` that are known to hold no newline."""
        self._skipping = False
        """Whether `end` lies within a line that is too long."""

    @property
    def size(self) -> int:
        return stat_of(self.path).size

    @property
    def behind(self) -> int:
        """Bytes that are there and were not looked at; a torn last line was."""
        state = stat_of(self.path)
        if state.inode != self.inode or state.size < self.end:
            return max(state.size, 1 if self.end else 0)
        return 0 if state.size == self._barren else state.size - self.end

    def renewed(self) -> bool:
        """Whether the file is another one than was read so far (or gone): then it begins anew."""
        state = stat_of(self.path)
        if state == NO_FILE and not self.end:
            return False
        same = state.inode == self.inode and state.size >= self.end and self._ends_as_before()
        first = not self.inode
        if not same:
            self.end, self.inode, self._mark, self._barren = 0, state.inode, b"", 0
            self.overlong, self._searched, self._skipping = [], 0, False
        elif state.size < self.end + self._searched:
            self._searched = 0
        return not same and not first

    def next(self) -> tuple[int, bytes] | None:
        """Look at one further block: its whole lines and where they begin; None where there is no more for now.

        No lines (`b""`) where a line goes on behind the block. However long a line is, each of its bytes is read
        twice at most: in search of its end, and as a part of it.
        """
        try:
            with opened(self.path) as fd:
                return self._read(fd)
        except OSError:
            self._barren = self.size  # it cannot be read, and nobody is to try again and again
            return None

    def _read(self, fd: int) -> tuple[int, bytes] | None:
        start = self.end
        more = os.pread(fd, self._block, start + self._searched)
        whole = 0 if self._skipping else more.rfind(b"\n") + 1
        if whole:
            lines = os.pread(fd, self._searched + whole, start) if self._searched else more[:whole]
            self._go_on(lines)
            return start, lines
        if self._skipping and more:
            newline = more.find(b"\n") + 1
            self._skipping = not newline
            self._go_on(more[:newline] if newline else more)
            return start, b""
        self._searched += len(more)
        if self._searched > MAX_LINE:
            self.overlong.append(start)
            self._skipping = True
            self.end += self._searched - len(more)
            self._go_on(more)
        elif len(more) < self._block:
            self._barren = start + self._searched
            if self._searched <= self._block:
                self._searched = 0  # a torn line may be replaced by another one: it is cheap to look again
            return None
        return start, b""

    def _go_on(self, read: bytes) -> None:
        self._mark, self._searched = read[-_MARK:], 0
        self.end += len(read)

    def _ends_as_before(self) -> bool:
        try:
            with opened(self.path) as fd:
                return os.pread(fd, len(self._mark), self.end - len(self._mark)) == self._mark
        except OSError:
            return False


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


_LINE: Final = re.compile(
    rb'(?:\{"key":"[0-9a-f]{32}","ok":(?:true|false),"instance":"([^"\\\n]*)","step":"[^\n]*\}|[^\n]*)\n'
)
"""A whole line, and whose it is if it looks as the journal writes it."""


class JournalIndex:
    """Grows with its file."""

    def __init__(self, path: Path, block: int = BLOCK) -> None:
        self.path = path
        self.tail = Tail(path, block)
        self._columns = Columns("int64", "int64")

    @property
    def n_steps(self) -> int:
        return len(self._columns)

    @property
    def nbytes(self) -> int:
        return self._columns.nbytes

    def advance(self) -> bool:
        """Take in some more of the file; whether there was any."""
        if self.tail.renewed():
            self._columns = Columns("int64", "int64")
        found = self.tail.next()
        if found is None:
            return False
        offset, block = found
        ids: list[int] = []
        offsets: list[int] = []
        for match in _LINE.finditer(block):
            own = match[1]
            id = hash(own) if own is not None else _parsed(match[0])
            if id is not None:
                ids.append(id)
                offsets.append(offset + match.start())
        self._columns.add(ids, offsets)
        return True

    def offsets(self, id: str) -> Array:
        """Where the lines of an instance begin, in the order of the file; shape (steps,)."""
        ids, offsets = self._columns.all()
        found: Array = offsets[ids == id_hash(id)]
        return found


def _parsed(line: bytes) -> int | None:
    """The hash of the instance that an unusual line names; None for damage."""
    record = record_in(line)
    if record is None or not isinstance(record.get("instance"), str):
        return None
    return id_hash(record["instance"])
