"""A file of lines that grows: its new whole lines, block by block, and whether it is still the same file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cts_async.report.viewer.files import MAX_LINE, NO_FILE, opened, stat_of

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
        self._block, self._mark = block, b""
        self._barren = 0
        """The size of the file when nothing whole stood behind `end`."""

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
        return not same and not first

    def next(self) -> tuple[int, bytes] | None:
        """The next whole lines and where they begin; None where there are no more for now."""
        try:
            with opened(self.path) as fd:
                return self._read(fd)
        except OSError:
            self._barren = self.size  # it cannot be read, and nobody is to try again and again
            return None

    def _read(self, fd: int) -> tuple[int, bytes] | None:
        start, block, size = self.end, b"", self._block
        while not (whole := block.rfind(b"\n") + 1):
            more = os.pread(fd, size, start + len(block))
            if not more:
                break
            block += more
            size = len(block)  # a line longer than a block
            if b"\n" not in more and len(block) > MAX_LINE:
                whole = len(block)  # passed over, and with it what follows up to its end: that is no JSON
                break
        if not whole:
            self._barren = start + len(block)
            return None
        self._mark = block[max(0, whole - _MARK) : whole]
        self.end = start + whole
        return start, block if whole == len(block) else block[:whole]

    def _ends_as_before(self) -> bool:
        try:
            with opened(self.path) as fd:
                return os.pread(fd, len(self._mark), self.end - len(self._mark)) == self._mark
        except OSError:
            return False
