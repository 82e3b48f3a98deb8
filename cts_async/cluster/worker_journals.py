"""Where a worker's steps are kept: in shards beside the run's journal, or with the head, to whom they are streamed.

A worker that shares the head's storage writes `shards/<worker>-<n>.jsonl` (`engine/shards.py` has what becomes of
them); one that does not puts each record into its outbox, and the step counts as done when the head has written it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.cluster.messages import Shard
from cts_async.engine.journal import AppendLog, line_of
from cts_async.engine.shards import SHARDS, flush_folder
from cts_async.errors import RunStopped, write_error
from cts_async.safe_files import is_open_file, make_folder, open_file

SHARD_BYTES: Final = 8_000_000
SHARD_AGE_S: Final = 10.0
"""How large, and how old, a shard gets before it is handed to the head."""
KEPT_BYTES: Final = 64_000_000
"""What the records take that jobs with shared questions may still ask for."""


class SharedMemory:
    """The records that jobs of one worker may ask for: of jobs under way all, of those to be kept the latest used.

    The steps of different journals are different steps, unless they stand `beside` each other (`Journal.beside`).
    """

    def __init__(self, *, beside: bool = False, most_bytes: int = KEPT_BYTES) -> None:
        self._beside, self._room = beside, most_bytes
        self._under_way: dict[tuple[int, str], bytes] = {}
        self._kept: OrderedDict[tuple[int, str], bytes] = OrderedDict()

    def find(self, journal: int, key: str) -> dict[str, Any] | None:
        """The record of a finished step, if it is still here."""
        at = self._at(journal, key)
        line = self._under_way.get(at)
        if line is None:
            line = self._kept.get(at)
            if line is None:
                return None
            self._kept.move_to_end(at)
        record: dict[str, Any] = orjson.loads(line)
        return record

    def add(self, journal: int, key: str, line: bytes) -> None:
        """Hold the record of a step of a job that is under way."""
        self._under_way[self._at(journal, key)] = line

    def forget(self, journal: int, keys: Iterable[str]) -> None:
        """Drop what belongs to a job that has ended."""
        for key in keys:
            self._under_way.pop(self._at(journal, key), None)

    def keep(self, journal: int, keys: Iterable[str]) -> None:
        """Hold what belongs to a job that has ended for others, while there is room."""
        for at in (self._at(journal, key) for key in keys):
            line = self._under_way.pop(at, None)
            if line is not None:
                self._room += len(self._kept.pop(at, b"")) - len(line)
                self._kept[at] = line
        while self._room < 0:
            self._room += len(self._kept.popitem(last=False)[1])

    def _at(self, journal: int, key: str) -> tuple[int, str]:
        return (0 if self._beside else journal, key)


class _Remembering:
    """The part of a StepMemory that is a worker's memory."""

    def __init__(self, number: int, memory: SharedMemory) -> None:
        self.number, self._memory = number, memory

    def find(self, key: str) -> dict[str, Any] | None:
        return self._memory.find(self.number, key)

    def forget(self, keys: Iterable[str]) -> None:
        self._memory.forget(self.number, keys)

    def keep(self, keys: Iterable[str]) -> None:
        self._memory.keep(self.number, keys)

    def _remember(self, record: Mapping[str, Any], line: bytes) -> None:
        if record["ok"]:
            self._memory.add(self.number, record["key"], line)


@dataclass(slots=True)
class _Open:
    """A shard that is being written, and locked for as long."""

    name: str
    log: AppendLog
    lock: int
    began: float
    writing: int = 0
    """Appends that have not returned."""

    def close(self) -> None:
        try:
            self.log.close()
        finally:
            os.close(self.lock)


class ShardJournal(_Remembering):
    """Keeps steps in shards of a journal in `directory`; a file begins with its first step, so none is empty."""

    def __init__(
        self, directory: Path, worker: str, number: int, *, sync: bool, memory: SharedMemory
    ) -> None:
        super().__init__(number, memory)
        self._folder, self._worker, self._sync = directory / SHARDS, worker, sync
        self._n = 0
        self._current: _Open | None = None
        self._full: list[_Open] = []
        """Shards that nothing new goes into, and that some append may still wait for."""

    async def append(self, record: Mapping[str, Any]) -> None:
        """Remember a step; returns when it is in the file. Raises RunStopped where that cannot be written."""
        line = line_of(record)
        shard = self._current = self._current or self._begun()
        shard.writing += 1
        try:
            await shard.log.append_lines(line)
        finally:
            shard.writing -= 1
        self._remember(record, line)

    def turn_over(self, now: float) -> list[Shard]:
        """Close what is large or old at `now`, on the loop's clock; give the shards closed since the last time."""
        current = self._current
        if current and (current.log.size >= SHARD_BYTES or now - current.began > SHARD_AGE_S):
            self._full.append(current)
            self._current = None
        return self._closed([shard for shard in self._full if not shard.writing])

    def close(self) -> list[Shard]:
        """Close everything, when all jobs have ended; give the shards closed since the last time."""
        if self._current:
            self._full.append(self._current)
            self._current = None
        return self._closed(self._full)

    def _closed(self, shards: list[_Open]) -> list[Shard]:
        self._full = [shard for shard in self._full if shard not in shards]
        for shard in shards:
            shard.close()
        return [Shard(self.number, shard.name) for shard in shards]

    def _begun(self) -> _Open:
        now = asyncio.get_running_loop().time()
        while True:
            self._n += 1
            path = self._folder / f"{self._worker}-{self._n}.jsonl"
            try:
                make_folder(self._folder.parent, self._folder.name)
                lock = _locked_new(path)
                if lock is not None:
                    return _Open(path.name, self._log(path, lock), lock, now)
            except OSError as error:
                raise _in_the_way(path, error) from None

    def _log(self, path: Path, lock: int) -> AppendLog:
        try:
            if self._sync:
                flush_folder(self._folder)
            return AppendLog(path, sync=self._sync)
        except OSError:
            os.close(lock)
            raise


def _in_the_way(path: Path, error: OSError) -> RunStopped:
    """Why no shard can be begun. The head has written there: it is no mistake of whoever typed the command."""
    reason = write_error(path, error)
    if isinstance(reason, RunStopped):
        return reason
    return RunStopped(f"{reason}; what is done is kept: make that possible and type the same command again")


def _locked_new(path: Path) -> int | None:
    """A new file, locked; None where its name is taken, or somebody took it for a dead worker's and removed it."""
    try:
        fd = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except (FileExistsError, FileNotFoundError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if is_open_file(path, fd):
            return fd
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


class Outbox:
    """The records that a worker streams to the head, in order, and who waits for the head to have written them.

    `wake` is called when there is something to take.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._records: deque[tuple[int, bytes]] = deque()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._added = self._kept = 0
        self._lost: RunStopped | None = None

    def __len__(self) -> int:
        """Records that nobody has taken yet."""
        return len(self._records)

    async def deliver(self, journal: int, line: bytes) -> None:
        """Hand a line over; returns when the head has it in its journal. Raises what `lose` was told."""
        if self._lost:
            raise self._lost
        self._records.append((journal, line))
        self._added += 1
        kept = asyncio.get_running_loop().create_future()
        self._waiting.append((self._added, kept))
        self._wake()
        await kept

    def take(self, max_bytes: int) -> list[tuple[int, bytes]]:
        """The oldest records, at least one if there is any, of so many bytes."""
        taken: list[tuple[int, bytes]] = []
        while self._records and (not taken or len(self._records[0][1]) <= max_bytes):
            taken.append(self._records.popleft())
            max_bytes -= len(taken[-1][1])
        return taken

    def kept(self, n: int) -> None:
        """The head has written the first `n` records that there ever were."""
        self._kept = max(self._kept, n)
        while self._waiting and self._waiting[0][0] <= self._kept:
            _, kept = self._waiting.popleft()
            if not kept.done():
                kept.set_result(None)

    def lose(self, reason: RunStopped) -> None:
        """The head is gone: whoever waits, or would, hears `reason`."""
        self._lost = reason
        for _, kept in self._waiting:
            if not kept.done():
                kept.set_exception(reason)
        self._waiting.clear()


class StreamedJournal(_Remembering):
    """Keeps steps with the head."""

    def __init__(self, number: int, outbox: Outbox, memory: SharedMemory) -> None:
        super().__init__(number, memory)
        self._outbox = outbox

    async def append(self, record: Mapping[str, Any]) -> None:
        """Remember a step; returns when it is in the head's journal. Raises what the outbox raises."""
        line = line_of(record)
        await self._outbox.deliver(self.number, line)
        self._remember(record, line)
