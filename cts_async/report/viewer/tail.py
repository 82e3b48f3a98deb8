"""A file of lines that grows: its new whole lines, block by block, and whether it is still the same file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cts_async.engine.journal_index import MAX_LINE
from cts_async.report.viewer.files import NO_FILE, opened, stat_of

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
