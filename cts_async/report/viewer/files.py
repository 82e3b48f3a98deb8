"""Open and parse files of unknown origin: regular files only, read-only, and never through a symbolic link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from cts_async.engine.journal_index import MAX_LINE

Json: TypeAlias = dict[str, Any]
"""An object of the interface (see `pages`)."""

MAX_OBJECT_BYTES: Final = 32 << 20
"""Size limit of a manifest, a summary or a `live.json`."""
MAX_EXACT_INT: Final = 1 << 53
"""JavaScript numbers beyond it are not exact."""
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
        found = os.lstat(path)
    except (OSError, ValueError):
        return NO_FILE
    if not stat.S_ISREG(found.st_mode):
        return NO_FILE
    return Stat(found.st_ino, found.st_size, found.st_mtime_ns)


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
            data = os.pread(fd, size, 0) if size <= MAX_OBJECT_BYTES else b""
    except OSError:
        return None
    value = orjson.loads(data)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def line_at(fd: int, offset: int) -> bytes | None:
    """The line that begins at `offset`, without its newline.

    None if no line begins there, if it has no newline yet, or if it is longer than `MAX_LINE`.
    """
    if offset < 0 or (offset and os.pread(fd, 1, offset - 1) != b"\n"):
        return None
    parts: list[bytes] = []
    size, start, length = _PIECE, offset, 0
    while block := os.pread(fd, size, start):
        end = block.find(b"\n")
        parts.append(block if end < 0 else block[:end])
        length += len(parts[-1])
        if end >= 0:
            return b"".join(parts)
        if length > MAX_LINE:
            return None
        start += len(block)
        size = min(size * 4, 1 << 24)
    return None


def record_in(line: bytes | None) -> dict[str, Any] | None:
    """A line parsed as a JSON object; None if it is damaged."""
    try:
        record = orjson.loads(line) if line else None
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


# --- Values of unknown type, out of parsed JSON


def as_text(value: Any) -> str | None:
    """A string; None for anything else."""
    return value if isinstance(value, str) else None


def as_float(value: Any) -> float | None:
    """A number; None for anything else, booleans included."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_count(value: Any) -> int:
    """A count from 0 to MAX_EXACT_INT; 0 for anything that is not a number."""
    number = as_float(value)
    return int(min(max(number, 0.0), MAX_EXACT_INT)) if number is not None and number == number else 0


def as_list(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_texts(value: Any) -> list[str]:
    """The strings of a list."""
    return [one for one in as_list(value) if isinstance(one, str)]


def as_object(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def display_name(path: str) -> str:
    """A path as text that JSON can hold, even if its bytes are not UTF-8."""
    return path.encode("utf-8", "backslashreplace").decode()


def is_serializable(value: Any) -> bool:
    """Whether parsed JSON can be written again; orjson refuses to write values nested hundreds of levels deep."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True
