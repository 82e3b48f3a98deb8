"""Records that a worker's jobs ask the head for, gathered so that one turn brings many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from cts_async.cluster.messages import Asked
from cts_async.errors import RunStopped


class Lookups:
    """`wake` is called when there is something to ask."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._new: list[Asked] = []
        self._waiting: dict[Asked, list[asyncio.Future[bytes | None]]] = {}
        self._lost: RunStopped | None = None

    async def ask(self, journal: int, key: str) -> dict[str, Any] | None:
        """The record that the head has, None if it has none. Raises what `lose` was told."""
        if self._lost:
            raise self._lost
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault((journal, key), [])
        if not waiting:
            self._new.append((journal, key))
            self._wake()
        waiting.append(answer)
        line = await answer
        if line is None:
            return None
        record: dict[str, Any] = orjson.loads(line)
        return record

    def taken(self) -> tuple[Asked, ...]:
        """What is to be asked now."""
        new, self._new = self._new, []
        return tuple(new)

    def answer(self, found: Mapping[Asked, bytes | None]) -> None:
        """The head's answers."""
        for asked, line in found.items():
            for answer in self._waiting.pop(asked, ()):
                if not answer.done():
                    answer.set_result(line)

    def lose(self, reason: RunStopped) -> None:
        """The head is gone: whoever waits, or would, hears `reason`."""
        self._lost = reason
        for waiting in self._waiting.values():
            for answer in waiting:
                if not answer.done():
                    answer.set_exception(reason)
        self._waiting.clear()
