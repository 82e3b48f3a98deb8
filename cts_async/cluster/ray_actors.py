"""What runs inside Ray's processes: a worker, or the limiter, each by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import ray

from cts_async.cluster.asks import Ask, Grant
from cts_async.cluster.limiter import Limiter
from cts_async.cluster.messages import Begun, News, Turn
from cts_async.cluster.ray_links import RayLimiterLink
from cts_async.cluster.trades import Setup
from cts_async.cluster.worker import Worker
from cts_async.engine.collector import collect_seldom

T = TypeVar("T")


class WorkerActor:
    """A worker. Keys are those in the environment of the process that Ray has started for it."""

    def __init__(self, setup: Setup, limiter: Any, directory: str | None) -> None:
        """`directory` is where the head stands, for workers on its machine: relative paths mean the same there."""
        if directory is not None:
            with suppress(OSError):
                os.chdir(directory)
        self._worker = Worker(setup, os.environ, link_to_limiter=RayLimiterLink(limiter))
        self._work: asyncio.Task[None] | None = None

    async def begin(self) -> Begun:
        collect_seldom()
        self._work = asyncio.create_task(self._worker.run())
        return await self._unless_it_fails(self._worker.begin())

    async def turn(self, turn: Turn) -> News:
        return await self._unless_it_fails(self._worker.turn(turn))

    async def _unless_it_fails(self, answer: Coroutine[Any, Any, T]) -> T:
        """The answer, or the error that has ended the work in the meantime, which nobody else would hear of."""
        assert self._work is not None
        answering = asyncio.ensure_future(answer)
        await asyncio.wait({answering, self._work}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done() and self._work.done() and (error := self._work.exception()):
            answering.cancel()
            raise error
        return await answering


class LimiterActor:
    """The limiter. When its process dies, Ray starts it anew, and it has to find out what it let out before."""

    def __init__(self) -> None:
        anew = ray.get_runtime_context().was_current_actor_reconstructed
        self._limiter = Limiter(fresh=not anew)
        self._work: asyncio.Task[None] | None = None

    def _begin(self) -> None:
        """At the first call: an actor's loop does not run before."""
        if self._work is None:
            collect_seldom()
            self._work = asyncio.create_task(self._limiter.run())
            self._work.add_done_callback(lambda _: os._exit(1))  # then Ray starts another

    async def ask(self, ask: Ask) -> Grant:
        self._begin()
        return await self._limiter.ask(ask)

    async def roster(self, workers: Mapping[str, float | None]) -> None:
        self._begin()
        self._limiter.roster(workers)

    async def gone(self, worker: str) -> None:
        self._begin()
        self._limiter.gone(worker)

    async def status(self) -> tuple[str, Mapping[str, Any]]:
        """The incarnation, and how its accounts are doing."""
        self._begin()
        return self._limiter.generation, self._limiter.status()
