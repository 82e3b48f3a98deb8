"""What runs inside Ray's processes: a worker, or the limiter, each by itself."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import anyio.to_thread
import ray

from cts_async.cluster.asks import Ask
from cts_async.cluster.limiter import Limiter
from cts_async.cluster.messages import Begun, Turn
from cts_async.cluster.needs import Arrival, NeededFile
from cts_async.cluster.ray_links import RayLimiterLink, packed
from cts_async.cluster.shared_lanes import SharedLanes
from cts_async.cluster.trades import Setup
from cts_async.cluster.worker import Worker
from cts_async.engine.processes import collect_seldom
from cts_async.errors import UsageError


class WorkerActor:
    """A worker. Its keys are those in the environment of the process that Ray has started for it."""

    def __init__(self, setup: Setup, limiter: Any, directory: str | None) -> None:
        """`directory` is where the head stands, for workers on its machine: relative paths mean the same there."""
        if directory is not None:
            with suppress(OSError):
                os.chdir(directory)
        lanes = partial(SharedLanes, setup.worker, RayLimiterLink(limiter))
        self._needs = setup.trade.needs
        self._arrival: Arrival | None = None
        self._worker = Worker(setup, os.environ, lanes=lanes)
        self._work: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Return: then there is a process."""

    async def lacking(self) -> tuple[NeededFile, ...]:
        """The files that its machine has to have, and has not."""
        return await anyio.to_thread.run_sync(self._needs.lacking)

    async def arrive(self, file: NeededFile, part: bytes) -> str:
        """Take a part of a file, the last of which is empty. Why that cannot be; "" where all is well."""
        try:
            self._arrival = self._arrival or Arrival(file)
            if part:
                self._arrival.add(part)
            else:
                await anyio.to_thread.run_sync(self._arrival.end)
                self._arrival = None
        except UsageError as error:
            self._arrival = None
            return str(error)
        return ""

    async def begin(self) -> Begun:
        """See links.WorkerLink."""
        collect_seldom()
        self._work = asyncio.create_task(self._worker.run())
        return await self._worker.begin()

    async def turn(self, packed_turn: bytes) -> bytes:
        """See links.WorkerLink; both ways as `ray_links.packed`."""
        turn: Turn = pickle.loads(packed_turn)
        return packed(await self._worker.turn(turn))


class LimiterActor:
    """The limiter. When its process dies, Ray starts it anew, and it has to find out what it let out before."""

    def __init__(self) -> None:
        anew = ray.get_runtime_context().was_current_actor_reconstructed
        self._limiter = Limiter(fresh=not anew)
        self._work: asyncio.Task[None] | None = None

    def _begun(self) -> Limiter:
        """At work from the first call on: an actor's loop does not run before."""
        if self._work is None:
            collect_seldom()
            self._work = asyncio.create_task(self._limiter.run())
            self._work.add_done_callback(lambda _: os._exit(1))  # it never ends by itself: Ray starts another
        return self._limiter

    async def ask(self, packed_ask: bytes) -> bytes:
        """See asks.LimiterLink; both ways as `ray_links.packed`."""
        ask: Ask = pickle.loads(packed_ask)
        return packed(await self._begun().ask(ask))

    async def roster(self, workers: Mapping[str, float | None]) -> None:
        """See Limiter.roster."""
        self._begun().roster(workers)

    async def gone(self, worker: str) -> None:
        """See Limiter.gone."""
        self._begun().gone(worker)

    async def pid(self) -> int:
        """Its process."""
        return os.getpid()

    async def status(self) -> tuple[str, Mapping[str, Any]]:
        """Which incarnation it is, and how its accounts are doing."""
        limiter = self._begun()
        return limiter.generation, limiter.status()
