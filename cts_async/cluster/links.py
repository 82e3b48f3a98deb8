"""How a head reaches its workers, whatever carries what they say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from cts_async.cluster.messages import Begun, News, Turn
from cts_async.cluster.trades import Setup


class WorkerLost(Exception):
    """The worker has ended, and with it its connections; `str()` says why, as far as that is known."""


class WorkerSilent(WorkerLost):
    """The same of one whose process may still run: cut off, or too busy to answer."""


class WorkerLink(Protocol):
    """A worker, as the head has it. Of `begin` and `turn` one is under way at a time."""

    async def begin(self) -> Begun:
        """Have it open everything it needs. Raises WorkerLost."""

    async def turn(self, turn: Turn) -> News:
        """Give it a turn, and wait for what it has to say. Raises WorkerLost."""

    def kill(self) -> None:
        """End its process at once, if it still runs; safe to call at any time."""


Hire = Callable[[Setup], Awaitable[WorkerLink]]
"""Starts a worker and waits until there is room for it. Raises WorkerLost where it dies of that."""
