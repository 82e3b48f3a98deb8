"""Files of unknown origin, read safely; growing JSON Lines files (results, judgments, journal) by byte index.

Only regular files are opened, read-only, and never through a symbolic link. A run of 100,000 instances opens within a
second and in bounded memory because lines stay in their files: a results line takes 43 bytes of index, a journal line
16.
"""

from __future__ import annotations

import os
import re
import stat
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from cts_async import foreign_json
from cts_async.engine.journal_index import MAX_LINE

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# --- Opening and parsing

Json: TypeAlias = dict[str, Any]
"""An object of the interface (see `pages`)."""

MAX_OBJECT_BYTES: Final = 32 << 20
"""Size limit of a manifest, a summary or a `live.json`."""
_PIECE: Final = 1 << 16
# O_NOFOLLOW: a link may lead out of the folder. O_NONBLOCK: opening a named pipe would block forever.
_FILE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# O_PATH passes through folders that may be entered but not listed.
_FOLDER_FLAGS: Final = os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY)


@dataclass(frozen=True, slots=True)
class Stat:
    """Distinguishes two states of a file."""

    inode: int
    size: int
    mtime_ns: int


NO_FILE: Final = Stat(0, 0, 0)


NO_RUN: Final = "no such run"
NO_INSTANCE: Final = "no such instance in this run"
FILE_CHANGED: Final = "the file was replaced: open the run again"


class Refused(Exception):
    """An HTTP status and a message. The message holds no path, and no text but the requester's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def stat_of(path: Path) -> Stat:
    """The state of a regular file; NO_FILE for anything else."""
    try:
        state = os.lstat(path)
    except (OSError, ValueError):
        return NO_FILE
    if not stat.S_ISREG(state.st_mode):
        return NO_FILE
    return Stat(state.st_ino, state.st_size, state.st_mtime_ns)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A read-only descriptor of a regular file whose path contains no link. Raises OSError for anything else."""
    with _folder(path.parent) as folder:
        fd = os.open(path.name, _FILE_FLAGS, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path.name} is not a regular file")
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    """A descriptor of a folder, opened component by component.

    Checking the path first and opening it afterwards would leave time to replace a folder by a link.
    """
    fd = os.open(path.anchor, _FOLDER_FLAGS)
    try:
        for name in path.parts[1:]:
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def read_object(path: Path) -> dict[str, Any] | None:
    """A small file with one JSON object; None if there is no such file. Raises ValueError for other contents."""
    try:
        with opened(path) as fd:
            size = os.fstat(fd).st_size
            data = b""  # which is no JSON: a file of this size is none of ours
            if size <= MAX_OBJECT_BYTES:
                data = os.pread(fd, size, 0)
    except OSError:
        return None
    value = foreign_json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def line_at(fd: int, offset: int, first_bytes: int | None = None) -> bytes | None:
    """The line that begins at `offset`, without its newline; `first_bytes` are read at first.

    None if no line begins there, if it has no newline yet, or if it is longer than `MAX_LINE`.
    """
    if offset < 0 or (offset and os.pread(fd, 1, offset - 1) != b"\n"):
        return None
    parts: list[bytes] = []
    size, start, length = first_bytes or _PIECE, offset, 0
    while True:
        block = os.pread(fd, size, start)
        if not block:
            return None
        end = block.find(b"\n")
        if end >= 0:
            parts.append(block[:end])
            return b"".join(parts)
        parts.append(block)
        length += len(block)
        if length > MAX_LINE:
            return None
        start += len(block)
        # Most lines have a few kilobytes, those of pages megabytes.
        size = min(size * 4, 1 << 24)


def record_in(line: bytes | None) -> dict[str, Any] | None:
    """A line parsed as a JSON object; None if it is damaged."""
    try:
        record = foreign_json.loads(line or b"")
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    return record


def display_name(path: str) -> str:
    """A path as text that JSON can hold, even if its bytes are not UTF-8."""
    return path.encode("utf-8", "backslashreplace").decode()


def file_name(words: str, ending: str) -> str:
    """A name for a file that is downloaded: letters, digits, dots and hyphens."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", words).strip("-.")[:100]
    return f"{name or 'download'}.{ending}"


def is_serializable(value: Any) -> bool:
    """Whether parsed JSON can be written again; orjson refuses to write values nested hundreds of levels deep."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True


# --- Indexes: columns of numbers

BLOCK: Final = 1 << 20
_GUARD_BYTES: Final = 64
"""Bytes before the end of what was read that must be unchanged for the file to count as the same."""
_FIRST_ROWS: Final = 1024


def id_hash(id: str) -> int:
    """64 bits that identify an id within this process (Python seeds string hashes per process)."""
    return hash(id.encode(errors="surrogatepass"))


class Columns:
    """Append-only numpy columns (of dtypes `kinds`); one thread appends while others read."""

    def __init__(self, *kinds: str) -> None:
        import numpy as np

        # Columns and their length are replaced together, so that a reader always sees a consistent pair.
        self._state: tuple[tuple[Array, ...], int] = (tuple(np.empty(0, kind) for kind in kinds), 0)

    def __len__(self) -> int:
        return self._state[1]

    @property
    def nbytes(self) -> int:
        columns, n = self._state
        return sum(n * column.itemsize for column in columns)

    def add(self, *rows: Sequence[Any] | Array) -> None:
        """Append rows, given column by column. Arrays returned by `all` before do not change."""
        import numpy as np

        columns, n = self._state
        after = n + len(rows[0])
        if columns and after > len(columns[0]):
            # Doubled, and left empty: pages that nothing was written to take no memory.
            larger = tuple(np.empty(max(_FIRST_ROWS, after, 2 * n), column.dtype) for column in columns)
            for column, room in zip(columns, larger, strict=True):
                room[:n] = column[:n]
            columns = larger
        for column, values in zip(columns, rows, strict=True):
            column[n:after] = values
        self._state = (columns, after)

    def all(self) -> tuple[Array, ...]:
        """Views of all columns, of equal length."""
        columns, n = self._state
        return tuple(column[:n] for column in columns)


class Tail:
    """Reads the whole lines of a growing file block by block, and starts again if the file was replaced."""

    def __init__(self, path: Path, block: int = BLOCK) -> None:
        self.path = path
        self.end = 0
        """Offset up to which lines were returned."""
        self.inode = 0
        """Inode of the file read so far; 0 before the first look."""
        self._block, self._guard = block, b""
        self._exhausted_size = 0
        """Size of the file when it last had no further whole line."""
        self._searched = 0
        """Bytes behind `end` known to contain no newline."""
        self._skipping = False
        """Whether `end` lies within a line longer than `MAX_LINE`, which is damaged and left out."""

    @property
    def size(self) -> int:
        return stat_of(self.path).size

    @property
    def behind(self) -> int:
        """Bytes not read yet; an incomplete last line counts as read."""
        state = stat_of(self.path)
        if state.inode != self.inode or state.size < self.end:
            # Never 0 for a file that was emptied: it is to be read again.
            return max(state.size, int(self.end > 0))
        if state.size == self._exhausted_size:
            return 0
        return state.size - self.end

    def renewed(self) -> bool:
        """Whether the file was replaced, truncated or removed since it was read; reading then starts again."""
        state = stat_of(self.path)
        if state == NO_FILE and not self.end:
            return False
        # A file that was written anew in its place may be as long, and even have its inode.
        same = state.inode == self.inode and state.size >= self.end and self._guard_unchanged()
        is_first_look = not self.inode
        if not same:
            self.end, self.inode, self._guard, self._exhausted_size = 0, state.inode, b"", 0
            self._searched, self._skipping = 0, False
        elif state.size < self.end + self._searched:
            self._searched = 0
        return not same and not is_first_look

    def next(self) -> tuple[int, bytes] | None:
        """Offset and bytes of the whole lines in the next block; None if there is nothing further for now.

        The bytes are empty while a line is longer than the block. Each byte of a long line is read at most twice:
        when its newline is searched, and when the line is returned.
        """
        try:
            with opened(self.path) as fd:
                return self._read(fd)
        except OSError:
            self._exhausted_size = self.size  # unreadable: do not try again until the file changes
            return None

    def _read(self, fd: int) -> tuple[int, bytes] | None:
        start = self.end
        block = os.pread(fd, self._block, start + self._searched)
        if self._skipping and block:
            newline = block.find(b"\n") + 1
            if newline:
                self._skipping = False
                block = block[:newline]
            self._advance(block)
            return start, b""
        whole = block.rfind(b"\n") + 1
        if whole:
            lines = block[:whole]
            if self._searched:
                lines = os.pread(fd, self._searched + whole, start)
            self._advance(lines)
            return start, lines
        self._searched += len(block)
        if self._searched > MAX_LINE:
            self._skipping = True
            self.end += self._searched - len(block)
            self._advance(block)
        elif len(block) < self._block:
            self._exhausted_size = start + self._searched
            if self._searched <= self._block:
                self._searched = 0  # a torn line may be replaced by another; searching it again is cheap
            return None
        return start, b""

    def _advance(self, read: bytes) -> None:
        self._guard, self._searched = read[-_GUARD_BYTES:], 0
        self.end += len(read)

    def _guard_unchanged(self) -> bool:
        try:
            with opened(self.path) as fd:
                return os.pread(fd, len(self._guard), self.end - len(self._guard)) == self._guard
        except OSError:
            return False


class Index:
    """Columns of numbers about a growing file: one thread indexes it block by block while others read."""

    kinds: tuple[str, ...]
    """The types of the columns."""

    def __init__(self, path: Path, block: int = BLOCK) -> None:
        self.path = path
        self.tail = Tail(path, block)
        self._columns = Columns(*self.kinds)

    @property
    def nbytes(self) -> int:
        return self._columns.nbytes

    def advance(self) -> bool:
        """Index another block; False if there was none."""
        if self.tail.renewed():
            self._forget()
        block = self.tail.next()
        if block is None:
            return False
        offset, lines = block
        # Added at once, so that a reader never sees a part of a block.
        rows = list(self._rows(offset, lines))
        if rows:
            self._columns.add(*zip(*rows, strict=True))
        return True

    def _forget(self) -> None:
        """Begin again: the file is another one."""
        self._columns = Columns(*self.kinds)

    @abstractmethod
    def _rows(self, offset: int, block: bytes) -> Iterator[tuple[Any, ...]]:
        """The rows of a block of whole lines that begins at an offset of the file."""
