"""Open and parse files of a folder of unknown origin: regular ones only, for reading, never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.engine.journal_index import MAX_LINE

MOST: Final = 1 << 53
"""Whole numbers beyond it are others in a browser."""


def as_text(value: Any) -> str | None:
    """A text; None for anything else."""
    return value if isinstance(value, str) else None


def as_float(value: Any) -> float | None:
    """A number; None for anything else, also true and false."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_int(value: Any) -> int:
    """A whole number; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def as_count(value: Any) -> int:
    """A number of things; 0 for anything else, and no more than a browser can count."""
    number = as_float(value)
    return int(min(max(number, 0.0), MOST)) if number is not None and number == number else 0


def printable(text: str) -> str:
    """A file's name as text, also where its bytes are none."""
    return text.encode("utf-8", "backslashreplace").decode()


def can_be_shown(value: Any) -> bool:
    """Whether JSON that was read can be written again: not where it is nested hundreds of levels deep."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True


def as_list(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_texts(value: Any) -> list[str]:
    """The texts of a list."""
    return [one for one in as_list(value) if isinstance(one, str)]


def as_object(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


MAX_SMALL: Final = 32 << 20
"""Bytes of a manifest or summary; what is longer is none."""
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""A link may lead out of the folder, and a pipe would never open."""
_STEP: Final = os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY)
"""One folder further; those that one may walk through and not list are walked through."""
_PIECE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Stat:
    """What tells one state of a file from another."""

    inode: int
    size: int
    mtime_ns: int


NO_FILE: Final = Stat(0, 0, 0)


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
    """A descriptor of a regular file, on the way to which there is no link either. Raises OSError for anything else.

    A folder of the way may be replaced by a link while it is gone: nothing is looked at first and opened then.
    """
    with _folder(path.parent) as folder:
        fd = os.open(path.name, _FLAGS, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path.name} is no regular file")
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    """A descriptor of a folder, step by step from the root."""
    fd = os.open(path.anchor, _STEP)
    try:
        for name in path.parts[1:]:
            inner = os.open(name, _STEP, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def read_object(path: Path) -> dict[str, Any] | None:
    """A small file of one JSON object; None where there is none. Raises ValueError where it is something else."""
    try:
        with opened(path) as fd:
            size = os.fstat(fd).st_size
            data = os.pread(fd, size, 0) if size <= MAX_SMALL else b""
    except OSError:
        return None
    value = orjson.loads(data)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value


def line_at(fd: int, offset: int) -> bytes | None:
    """The line that begins at `offset`, without its newline; None where none begins there, or it has no end yet.

    None, too, for one that is longer than any is.
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
    """A line as a JSON object; None for damage."""
    try:
        record = orjson.loads(line) if line else None
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None
