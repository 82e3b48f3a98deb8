"""The journal: an append-only log of a run's steps, looked up by key, that survives any crash.

Two rules of the log: a line is in the file (handed to the operating system) before `append` returns, and nothing in
the file is ever rewritten. A torn last line is moved to `<name>.torn` and its step executed again; a damaged line in
the middle stays where it is, is reported with its number, and counts as absent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

import orjson

from cts_async import foreign_json
from cts_async.engine.journal_index import MAX_LINE, NO_KEYS, KeyLayers, key_index, scan_journal
from cts_async.errors import RunStopped, StepError, StorageFull, storage_hint
from cts_async.safe_files import is_open_file, open_file

INDEXED_AT_ONCE: Final = 1 << 14
"""Steps that are moved into the index together."""
ROUNDS: Final = 3
"""Turns of the event loop that a line waits for others to share its write: microseconds."""
MAX_PENDING: Final = 128
"""The most lines that are held back."""
_BLOCK: Final = 1 << 20
_FIRST_BLOCK: Final = 1 << 13
"""Bytes read at once: at first, since most lines are shorter, and after that."""


class StepMemory(Protocol):
    """Where the steps of a job are recorded."""

    def find(self, key: str) -> dict[str, Any] | None:
        """The latest record of a finished step, or None if there is none that can be read."""

    async def append(self, record: Mapping[str, Any]) -> None:
        """Record a step durably; its first fields must be `key` and `ok`, in this order."""

    def forget(self, keys: Iterable[str]) -> None:
        """Drop these keys from memory: nothing in this process will look them up again."""

    def keep(self, keys: Iterable[str]) -> None:
        """Keep these keys findable, in little memory: their jobs have ended, but others will look them up."""


class Journal:
    """A StepMemory in a file: the steps of a run by key.

    A step of an earlier process costs 16 bytes of memory, one of this process more until the job that made it has
    ended: then it is forgotten, or kept in 16 bytes like the earlier ones.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self.siblings: Sequence[Journal] = ()
        """Journals whose steps count here as well: `find` looks into them last."""
        self.on_append: Callable[[Mapping[str, Any], bytes], None] | None = None
        """Is given each record and its line, in the order of the file, before the line is written."""
        self.on_append_part: Callable[[Any, int], None] | None = None
        """Is given the sums of steps that other processes have executed, and the bytes of their lines."""
        self._log = AppendLog(path, sync=sync)
        self.path, self.place = path, self._log.place
        scan = scan_journal(path)
        self.report = replace(scan, index=NO_KEYS, torn=self._log.torn)
        self._indexed = KeyLayers(scan.index)
        self._recent: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._indexed) + len(self._recent)

    @property
    def size(self) -> int:
        """Bytes in the file, without what is held back."""
        return self._log.size

    def find(self, key: str) -> dict[str, Any] | None:
        line_and_record = self._find(key)
        if line_and_record is None:
            return None
        return line_and_record[1]

    def raw(self, key: str) -> bytes | None:
        """The line, without its newline, of the record that `find` returns."""
        line_and_record = self._find(key)
        if line_and_record is None:
            return None
        return line_and_record[0]

    def _find(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        for journal in (self, *self.siblings):
            if key in journal._recent:
                offsets: Sequence[int] = [journal._recent[key]]
            else:
                offsets = journal._indexed.lookup(key)
            # The latest first; one whose line was damaged since the file was opened counts as absent.
            for offset in offsets:
                line = journal._log.read_line(offset)
                with suppress(ValueError):
                    record = foreign_json.loads(line)
                    if isinstance(record, dict) and record.get("key") == key:
                        return line, record
        return None

    async def append(self, record: Mapping[str, Any]) -> None:
        """Record a step; its first fields must be `key` and `ok`, in this order.

        Raises as `AppendLog.append`, and StepError for a line that could not be read back.
        """
        line = step_line(record)
        if self.on_append is not None:
            self.on_append(record, line)
        offset = await self._log.append_lines(line)
        if record["ok"]:
            self._recent[record["key"]] = offset

    async def append_lines(
        self, lines: bytes | bytearray, sizes: Sequence[int], keys: Sequence[str | None], part: Any = None
    ) -> None:
        """Append steps that other processes have executed: lines in a journal's form, in one write.

        `sizes` are the bytes of each line and `keys` its key, None for a step that failed: whoever made a line need not
        have it parsed again. `part` is what `on_append_part` gets of the lines; None for nothing.
        """
        if not sizes:
            return
        if part is not None and self.on_append_part is not None:
            self.on_append_part(part, len(lines))
        begin = await self._log.append_lines(lines)
        # One offset more than there are lines: the end of the last one.
        begins = accumulate(sizes, initial=begin)
        offset_by_key: dict[str | None, int] = dict(zip(keys, begins, strict=False))
        offset_by_key.pop(None, None)
        offsets = cast("dict[str, int]", offset_by_key)
        # Findable in little memory, as with `keep`.
        self._recent.update(offsets)
        self._kept.update(offsets)
        self._index_kept()

    def forget(self, keys: Iterable[str]) -> None:
        """Drop what this process appended under `keys` from memory; the file keeps it for the next process."""
        for key in keys:
            self._recent.pop(key, None)

    def keep(self, keys: Iterable[str]) -> None:
        """Move what this process appended under `keys` into the index, with the steps of earlier processes."""
        recent, kept = self._recent, self._kept
        for key in keys:
            if key in recent:
                kept[key] = recent[key]
        self._index_kept()

    def _index_kept(self) -> None:
        if len(self._kept) >= INDEXED_AT_ONCE:
            self._indexed.add(key_index(self._kept))
            self.forget(self._kept)
            self._kept = {}

    def close(self) -> None:
        self._log.close()


# --- Reading --------------------------------------------------------------------------------------------


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The intact records of a log that may be missing or growing at the moment; damaged lines are skipped."""
    return (record for _, record in placed_records(path))


def placed_records(
    path: Path, parse: Callable[[bytes], Any] = foreign_json.loads
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of `read_records`, each with the offset at which its line begins.

    `parse` reads a line, and raises ValueError for a damaged one.
    """
    if not path.is_file():  # reading a named pipe would wait for its writer
        return
    offset = 0
    with path.open("rb", buffering=_BLOCK) as file:
        while line := file.readline(MAX_LINE):
            size = len(line)
            if size == MAX_LINE:
                offset += size + _skip_line(file, line)
                continue
            try:
                record = parse(line)
            except ValueError:
                record = None
            if type(record) is dict and line[-1:] == b"\n":
                yield offset, record
            offset += size


def _skip_line(file: BinaryIO, piece: bytes) -> int:
    """Read on to the end of a line that is longer than MAX_LINE, whose first `piece` was read; return the bytes read."""
    size = 0
    while piece and not piece.endswith(b"\n"):
        piece = file.readline(MAX_LINE)
        size += len(piece)
    return size


def record_at(path: Path, offset: int) -> dict[str, Any]:
    """The record whose line begins at `offset`, one that `placed_records` returned.

    Raises ValueError if the file has changed since.
    """
    with path.open("rb") as file:
        file.seek(offset)
        record: dict[str, Any] = foreign_json.loads(file.readline(MAX_LINE))
    return record


# --- The log --------------------------------------------------------------------------------------------


class AppendLog:
    """Appends lines in groups: everything that became ready in a few turns of the loop is one write.

    With `sync`, a group is also flushed to the disk (in a thread) before its callers continue. Before each write the
    path still has to lead to the open file: what is appended to a deleted file is lost, and a file put in its place
    is another process's. Raises OSError where the file cannot be opened, or is a link or not a regular file.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self.path, self._sync = path, sync
        self.place = path.absolute()
        """The same path whatever the working directory is: code of the user's may change it."""
        self.torn = set_torn_tail_aside(path)
        self._fd = open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._end = os.fstat(self._fd).st_size
        self._pending: list[tuple[bytes | bytearray, asyncio.Future[int] | None]] = []
        self._scheduled = False
        self._broken: RunStopped | None = None
        self._unreported = False
        """True if a line was lost that no caller waits for."""
        self._syncing: asyncio.Task[None] | None = None
        self._on_disk = 0

    @property
    def size(self) -> int:
        """Bytes in the file, without what is held back."""
        return self._end

    async def append(self, record: Mapping[str, Any]) -> int:
        """Append one record as a line; return its offset in bytes.

        Raises StorageFull if the disk refuses, RunStopped if the file was deleted, moved or replaced.
        """
        return await self.append_lines(journal_line(record))

    async def append_lines(self, lines: bytes | bytearray) -> int:
        """Append whole lines as they are, in one piece; return the offset of the first. Raises as `append`."""
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._add(lines, written)
        offset = await written
        if self._sync:
            await self._wait_for_disk(offset + len(lines))
        return offset

    async def put(self, record: Mapping[str, Any]) -> None:
        """Append one record that can be made again from others, without waiting until it is written.

        If the disk refuses it, the next `append` or `put`, or `close`, raises. With `sync`, as `append`.
        """
        await self.put_lines(journal_line(record))

    async def put_lines(self, lines: bytes | bytearray) -> None:
        """`put` for whole lines as they are."""
        if self._sync:
            await self.append_lines(lines)
            return
        self._add(lines, None)
        if len(self._pending) >= MAX_PENDING:
            # A caller that never waits for anything else would keep the loop from turning, and from writing.
            self._flush()
            await asyncio.sleep(0)

    def _add(self, line: bytes | bytearray, written: asyncio.Future[int] | None) -> None:
        if self._fd < 0:
            raise ValueError(f"{self.path} is closed")
        if self._broken:
            raise self._broken
        self._pending.append((line, written))
        if not self._scheduled:
            self._scheduled = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self._gather, loop, ROUNDS)

    def read_line(self, offset: int) -> bytes:
        """The line that begins at `offset`, without its newline."""
        # Most lines are short: only a long one is read on in large blocks.
        block = os.pread(self._fd, _FIRST_BLOCK, offset)
        parts: list[bytes] = []
        while block:
            end = block.find(b"\n")
            if end >= 0:
                parts.append(block[:end])
                break
            parts.append(block)
            offset += len(block)
            block = os.pread(self._fd, _BLOCK, offset)
        return b"".join(parts)

    def close(self) -> None:
        """Write what is pending and close; may be called twice. Raises as `append` if a line of `put` was lost."""
        if self._fd < 0:
            return
        if self._pending:
            self._flush()
        os.close(self._fd)
        self._fd = -1
        if self._unreported and self._broken:
            raise self._broken

    def _gather(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        """Write after `rounds` more turns of the loop: a busy loop brings more lines, an idle one is quick."""
        if rounds:
            loop.call_soon(self._gather, loop, rounds - 1)
        else:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending, self._scheduled = self._pending, [], False
        if self._fd < 0 or not pending:
            return
        # The lock of the run directory makes this process the only one that appends, so the end is where it was.
        offset = self._end
        try:
            if not is_open_file(self.place, self._fd):
                raise RunStopped(
                    f"{self.path}: was deleted, moved or replaced while this process was writing it. Put it back if it "
                    "was moved, and run the same command again"
                )
            self._write(b"".join([line for line, _ in pending]))
        except (OSError, RunStopped) as error:
            self._fail(error, pending)
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

    def _fail(
        self, error: OSError | RunStopped, pending: list[tuple[bytes | bytearray, asyncio.Future[int] | None]]
    ) -> None:
        if isinstance(error, RunStopped):
            self._broken = error
        else:
            # If even this is refused, the next opening sets the torn line aside.
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)
            self._broken = StorageFull(
                f"{self.path}: cannot write ({error.strerror}); everything before is saved: {storage_hint(error)}"
            )
        for _, written in pending:
            if written is None:
                self._unreported = True
            elif not written.done():
                written.set_exception(self._broken)

    async def _wait_for_disk(self, end: int) -> None:
        """Wait until the disk has the first `end` bytes; all lines written before a flush share it."""
        # A flush under way may have begun before this line was written: then the next one includes it.
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
                f"{self.path}: cannot flush to the disk ({error.strerror}); {storage_hint(error)}"
            )
        finally:
            self._syncing = None


def journal_line(record: Mapping[str, Any]) -> bytes:
    """A record as a line of a log."""
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def step_line(record: Mapping[str, Any]) -> bytes:
    """The line of a step. Raises StepError for one that could not be read back."""
    line = journal_line(record)
    if len(line) > MAX_LINE:
        raise StepError(f"the record of this step has {len(line):,} bytes, of at most {MAX_LINE:,}")
    return line


def set_torn_tail_aside(path: Path) -> Path | None:
    """Cut an incomplete last line off and keep it in `<name>.torn`; return that path, None if the file ends well.

    Raises OSError, also where one of the files is a link or not a regular file.
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
        aside = torn_path(path)
        with os.fdopen(open_file(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as torn:
            torn.write(tail + b"\n")
            torn.flush()
            os.fsync(torn.fileno())
        file.truncate(start)
    return aside


def torn_path(path: Path) -> Path:
    """The file for a log's torn lines."""
    return path.with_name(path.name + ".torn")


def _start_of_tail(file: BinaryIO) -> int | None:
    """The offset of the last line if it is incomplete; else None."""
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
