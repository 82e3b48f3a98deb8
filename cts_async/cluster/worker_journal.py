"""A worker's journal: steps are sent to the head, and looked up there where they may have been executed before."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from cts_async.cluster.messages import StepRef
from cts_async.engine.journal import line_of
from cts_async.errors import RunStopped


class HeadJournals:
    """What a worker's journals have to say to the head, and who waits for its answers.

    `wake` is called when there is something to say. After `lose`, whoever waits or would wait gets that reason.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._records: deque[tuple[int, bytes]] = deque()
        self._unacknowledged: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._added = 0
        self._new: list[StepRef] = []
        self._asked: dict[StepRef, list[asyncio.Future[bytes | None]]] = {}
        self._lost: RunStopped | None = None

    @property
    def pending(self) -> bool:
        """Whether there are records or questions that nobody has taken."""
        return bool(self._records or self._new)

    async def append(self, journal: int, line: bytes) -> None:
        """Send a line; returns when the head has it in its journal."""
        if self._lost:
            raise self._lost
        self._records.append((journal, line))
        self._added += 1
        acknowledged = asyncio.get_running_loop().create_future()
        self._unacknowledged.append((self._added, acknowledged))
        self._wake()
        await acknowledged

    async def find(self, journal: int, key: str) -> dict[str, Any] | None:
        """The record that the head has of a step, None if it has none."""
        if self._lost:
            raise self._lost
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        waiting = self._asked.setdefault((journal, key), [])
        if not waiting:
            self._new.append((journal, key))
            self._wake()
        waiting.append(answer)
        line = await answer
        if line is None:
            return None
        record: dict[str, Any] = orjson.loads(line)
        return record

    def take_records(self, max_bytes: int) -> tuple[tuple[int, bytes], ...]:
        """The oldest records, at least one if there is any, of up to so many bytes."""
        taken: list[tuple[int, bytes]] = []
        while self._records and (not taken or len(self._records[0][1]) <= max_bytes):
            taken.append(self._records.popleft())
            max_bytes -= len(taken[-1][1])
        return tuple(taken)

    def take_questions(self) -> tuple[StepRef, ...]:
        new, self._new = self._new, []
        return tuple(new)

    def acknowledge(self, n: int) -> None:
        """The first `n` records that were ever sent are in the journals."""
        while self._unacknowledged and self._unacknowledged[0][0] <= n:
            _settle(self._unacknowledged.popleft()[1], None)

    def answer(self, found: Mapping[StepRef, bytes | None]) -> None:
        for step, line in found.items():
            for waiting in self._asked.pop(step, ()):
                _settle(waiting, line)

    def lose(self, reason: RunStopped) -> None:
        """The head is gone."""
        self._lost = reason
        waiting: list[asyncio.Future[Any]] = [future for _, future in self._unacknowledged]
        for futures in self._asked.values():
            waiting += futures
        for future in waiting:
            if not future.done():
                future.set_exception(reason)
        self._unacknowledged.clear()
        self._asked.clear()


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


class RemoteJournal:
    """An `engine.journal.StepMemory` of the steps that this worker has executed."""

    def __init__(self, number: int, head: HeadJournals) -> None:
        self.number, self._head = number, head
        self._recent: dict[str, dict[str, Any]] = {}

    def find(self, key: str) -> dict[str, Any] | None:
        return self._recent.get(key)

    async def find_at_head(self, key: str) -> dict[str, Any] | None:
        """The record of a step that any process has executed."""
        record = await self._head.find(self.number, key)
        # Another job may have executed it here meanwhile.
        return self._recent.get(key) if record is None else record

    async def append(self, record: Mapping[str, Any]) -> None:
        await self._head.append(self.number, line_of(record))
        if record["ok"]:
            self._recent[record["key"]] = dict(record)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._recent.pop(key, None)

    def keep(self, keys: Iterable[str]) -> None:
        self.forget(keys)  # tasks of the same question ask the head
