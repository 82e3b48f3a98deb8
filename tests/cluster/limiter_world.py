"""A limiter, its workers and a strict provider in virtual time, with a network between them that can be bad."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from fake_limits import Allowance, ServerLimits

from cts_async.cluster.limiter import Ask, Grant, Limiter
from cts_async.cluster.remote_lanes import LimiterLost, RemoteLanes
from cts_async.engine.events import Events
from cts_async.engine.lane import Lane, LaneLimits, Permit
from cts_async.errors import RateLimited
from cts_async.llm.responses import quotas_in

ACCOUNT = "provider/account"


@dataclass
class Network:
    """Between workers and whichever limiter there is now: late, and at times it loses asks and answers."""

    rng: random.Random
    delay_s: tuple[float, float] = (0.001, 0.05)
    loss: float = 0.0
    limiter: Limiter | None = None
    asks: int = 0
    cut_off: set[str] = field(default_factory=set)

    async def ask(self, ask: Ask) -> Grant:
        self.asks += 1
        await asyncio.sleep(self.rng.uniform(*self.delay_s))
        limiter = self.limiter
        if limiter is None or self._lost(ask.worker):
            raise LimiterLost("nobody there")
        grant = await limiter.ask(ask)
        await asyncio.sleep(self.rng.uniform(*self.delay_s))
        if self.limiter is not limiter or self._lost(ask.worker):
            raise LimiterLost("gone meanwhile")
        return grant

    def _lost(self, worker: str) -> bool:
        return worker in self.cut_off or self.rng.random() < self.loss


@dataclass
class Provider:
    """Counts strictly at the moment when a request is sent, and remembers the most that was under way."""

    allowance: Allowance
    latency_s: Callable[[], float]
    served: int = 0
    refused: int = 0
    busy: int = 0
    most_busy: int = 0
    last_end: float = 0.0
    sent_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limits = ServerLimits(self.allowance)

    async def take(self, lane: Lane, permit: Permit, tokens: float) -> bool:
        """Serve a request; False if it is refused."""
        loop = asyncio.get_running_loop()
        verdict = self.limits.arrive(loop.time(), tokens)
        if not verdict.ok:
            self.refused += 1
            lane.failed(permit, RateLimited("slower", retry_after_s=verdict.retry_after_s, status=429), "k")
            return False
        self.sent_at.append(loop.time())
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            await asyncio.sleep(self.latency_s())
        except asyncio.CancelledError:
            lane.abandoned(permit)
            raise
        finally:
            self.busy -= 1
            self.limits.left()
        self.served += 1
        self.last_end = loop.time()
        told = quotas_in({name.lower(): value for name, value in verdict.headers.items()}, loop.time())
        lane.succeeded(permit, tokens or None, told)
        return True


class Worker:
    """Sends jobs through its lane, as many side by side as it is given room for."""

    def __init__(
        self, name: str, network: Network, provider: Provider, limits: LaneLimits, width: int = 64
    ) -> None:
        self.name = name
        self.shared = RemoteLanes(name, 4, network, Events())
        self.lane = self.shared.lane(ACCOUNT, "model", limits)
        self._network, self._provider, self._width = network, provider, width
        self.done = 0

    async def run(self, jobs: Iterable[tuple[int, float]]) -> None:
        """Do jobs (number, tokens) in order; ends when all are done."""
        stream = iter(jobs)
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(run()) for run in (self.shared.run, self.lane.dispatch)]
            async with asyncio.TaskGroup() as senders:
                for _ in range(self._width):
                    senders.create_task(self._send(stream))
            for task in background:
                task.cancel()
        if self._network.limiter:
            self._network.limiter.gone(self.name)  # as a head does

    async def _send(self, jobs: Iterable[tuple[int, float]]) -> None:
        for seq, tokens in jobs:
            while True:
                permit = await self.lane.admit(seq, tokens)
                if await self._provider.take(self.lane, permit, tokens):
                    break
            self.done += 1


async def with_limiter(network: Network, body: Callable[[], Awaitable[None]]) -> None:
    """Do something while a fresh limiter runs."""
    network.limiter = Limiter()
    running = asyncio.create_task(network.limiter.run())
    try:
        await body()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
