"""Append-only lines that survive any crash: what was appended is in the file, and what is there stays as it is.

Two rules: a line is in the file (handed to the operating system) before `append` returns, and nothing in the file
is ever rewritten. A torn last line is moved aside into `<name>.torn`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.engine.torn_tail import set_torn_tail_aside
from cts_async.errors import RunStopped, StorageFull, what_to_do
from cts_async.safe_files import leads_to, open_file

ROUNDS: Final = 3
"""Turns of the loop that a line waits for others before it is written: microseconds."""
MOST_PENDING: Final = 128
"""Lines that are held back at most."""
_BLOCK: Final = 1 << 20


class AppendLog:
    """Appends lines in groups: everything that became ready in a few turns of the loop is one write.

    With `sync`, a group is also flushed to the disk (in a thread) before its callers go on. Before each write the path
    has to lead to the open file still: what is appended to a deleted file is lost, and a file put in its place is
    another process's. Raises OSError where the file cannot be opened, or is a link or no regular file.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self.path, self._sync = path, sync
        self.torn = set_torn_tail_aside(path)
        self._fd = open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._end = os.fstat(self._fd).st_size
        self._pending: list[tuple[bytes, asyncio.Future[int] | None]] = []
        self._scheduled = False
        self._broken: RunStopped | None = None
        self._untold = False
        """Whether a line was refused of which nobody awaits to hear."""
        self._syncing: asyncio.Task[None] | None = None
        self._on_disk = 0

    @property
    def size(self) -> int:
        """Bytes in the file; what is held back is not among them."""
        return self._end

    async def append(self, record: Mapping[str, Any]) -> int:
        """Append one record as a line; give its offset in bytes.

        Raises StorageFull if the disk refuses, RunStopped if the file was deleted, moved or replaced.
        """
        return await self.append_lines(line_of(record))

    async def append_lines(self, lines: bytes) -> int:
        """Append whole lines as they are, in one piece; give the offset of the first. Raises as `append` does."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[int] = loop.create_future()
        self._add(lines, written, loop)
        offset = await written
        if self._sync:
            await self._synced(offset + len(lines))
        return offset

    async def put(self, record: Mapping[str, Any]) -> None:
        """Append one record that can be made again from others, without waiting until it is written.

        What the disk refuses is told by the next `append` or `put`, or by `close`. With `sync`, as `append`.
        """
        await self.put_lines(line_of(record))

    async def put_lines(self, lines: bytes) -> None:
        """`put` for whole lines as they are."""
        if self._sync:
            await self.append_lines(lines)
            return
        self._add(lines, None, asyncio.get_running_loop())
        if len(self._pending) >= MOST_PENDING:
            # Where nobody waits for anything else, the loop would never turn, and never write.
            self._flush()
            await asyncio.sleep(0)

    def flush(self) -> int:
        """Write what is held back; give the file's size. Raises as `append`, for what was refused before, too."""
        self._check()
        self._flush()
        self._check()
        return self._end

    def take_in(self, source: int) -> int:
        """Append all of an open file, whose lines are whole, without looking at it; give the offset of its first.

        Raises as `append`: then nothing of it stays.
        """
        start = self.flush()
        try:
            # The kernel copies into no file that is open for appending.
            with os.fdopen(open_file(self.path, os.O_RDWR), "r+b", buffering=0) as target:
                self._check_place()
                copied = _copy(source, target.fileno(), start)
            if self._sync:
                os.fsync(self._fd)
        except (OSError, RunStopped) as error:
            self._refuse(error, [])
            self._check()
        self._end = start + copied
        return start

    def _check(self) -> None:
        if self._fd < 0:
            raise ValueError(f"{self.path} is closed")
        if self._broken:
            raise self._broken

    def _add(self, line: bytes, written: asyncio.Future[int] | None, loop: asyncio.AbstractEventLoop) -> None:
        self._check()
        self._pending.append((line, written))
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._gather, loop, ROUNDS)

    def read_line(self, offset: int) -> bytes:
        """The line that begins at `offset`, without its newline."""
        size, start = 8192, offset
        parts: list[bytes] = []
        while block := os.pread(self._fd, size, start):
            end = block.find(b"\n")
            if end >= 0:
                parts.append(block[:end])
                break
            parts.append(block)
            start += len(block)
            size = _BLOCK
        return b"".join(parts)

    def close(self) -> None:
        """Write what is pending and close; safe to call twice. Raises as `append` if a line was lost silently."""
        if self._fd < 0:
            return
        if self._pending:
            self._flush()
        os.close(self._fd)
        self._fd = -1
        if self._untold and self._broken:
            raise self._broken

    def _gather(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        """Write, after so many more turns of the loop: a busy loop brings more lines, an idle one is quick."""
        if rounds:
            loop.call_soon(self._gather, loop, rounds - 1)
        else:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending, self._scheduled = self._pending, [], False
        if self._fd < 0 or not pending:
            return
        offset = self._end
        try:
            self._check_place()
            self._write(b"".join(line for line, _ in pending))
        except (OSError, RunStopped) as error:
            self._refuse(error, pending)
            return
        for line, written in pending:
            if written is not None and not written.done():
                written.set_result(offset)
            offset += len(line)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self._end += len(data)

    def _check_place(self) -> None:
        if not leads_to(self.path, self._fd):
            raise RunStopped(
                f"{self.path}: was deleted, moved or replaced while this process was writing it; nothing more is "
                "written: put it back if it was moved, and type the same command again"
            )

    def _refuse(
        self, error: OSError | RunStopped, pending: list[tuple[bytes, asyncio.Future[int] | None]]
    ) -> None:
        if isinstance(error, RunStopped):
            self._broken = error
        else:
            # If even this is refused, the next opening sets the torn line aside.
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)
            self._broken = StorageFull(
                f"{self.path}: cannot write ({error.strerror}); everything up to here is kept: {what_to_do(error)}"
            )
        for _, written in pending:
            if written is None:
                self._untold = True
            elif not written.done():
                written.set_exception(self._broken)

    async def _synced(self, end: int) -> None:
        """Wait until the disk has the first `end` bytes; everybody written before a flush shares it."""
        # A flush under way began before this line was written, perhaps: then the next one has it.
        while self._on_disk < end:
            if self._broken:
                raise self._broken
            if self._syncing is None:
                self._syncing = asyncio.create_task(self._flush_to_disk())
            await asyncio.shield(self._syncing)

    async def _flush_to_disk(self) -> None:
        end = self._end
        try:
            await asyncio.get_running_loop().run_in_executor(None, os.fsync, self._fd)
            self._on_disk = end
        except OSError as error:
            self._broken = StorageFull(
                f"{self.path}: cannot flush to the disk ({error.strerror}); {what_to_do(error)}"
            )
        finally:
            self._syncing = None


def line_of(record: Mapping[str, Any]) -> bytes:
    """A record as a log has it."""
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _copy(source: int, target: int, start: int) -> int:
    """Copy a whole file to `start` of another; give its size. Raises OSError."""
    done, size = 0, os.fstat(source).st_size
    # Where file systems cannot do it by themselves, or break off, the plain way goes on and meets the error.
    with suppress(OSError):
        while done < size and (n := os.copy_file_range(source, target, size - done, done, start + done)):
            done += n
    while block := os.pread(source, _BLOCK, done):
        done += os.pwrite(target, block, start + done)
    return done
