"""The last line of a log that a crash has torn: cut off, and kept in a file of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

from cts_async.safe_files import open_file

MAX_LINE: Final = 64 << 20
"""Bytes of a log's line. What is longer is damage: it is never held, and of a torn one no more is kept."""
_BLOCK: Final = 1 << 20


def set_torn_tail_aside(path: Path, aside: Path | None = None) -> Path | None:
    """Cut an unfinished last line off and keep it in `<name>.torn`, or `aside`; None where the file ends well.

    Raises OSError, also where one of the files is a link or no regular file.
    """
    try:
        fd = open_file(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "r+b") as file:
        start = _start_of_tail(file)
        if start is None:
            return None
        file.seek(start)
        tail = file.read(MAX_LINE)
        aside = aside or torn_path(path)
        with os.fdopen(open_file(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as kept:
            kept.write(tail + b"\n")
            kept.flush()
            os.fsync(kept.fileno())
        file.truncate(start)
    return aside


def torn_path(path: Path) -> Path:
    """Where a log's torn lines are kept."""
    return path.with_name(path.name + ".torn")


def _start_of_tail(file: BinaryIO) -> int | None:
    end = file.seek(0, os.SEEK_END)
    if not end:
        return None
    file.seek(end - 1)
    if file.read(1) == b"\n":
        return None
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
