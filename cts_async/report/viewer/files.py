"""Opening files of a folder that anybody may have written: regular ones only, for reading, never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.engine.journal_index import MAX_LINE

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
