"""One provider's limit let out to many workers, in virtual time: is it used, and how busy is the limiter?

Limiter and workers' lanes are the real ones. An ask takes the limiter what `Costs` says, one after the other, and a
millisecond there and back; every worker always has more to send than it may.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import log
from typing import Any
from unittest.mock import patch

from virtual_time import run_virtual

from benchmarks.scale.costs import Costs
from benchmarks.scale.flow import SIGMA
from benchmarks.scale.parts import Server
from cts_async.cluster.asks import Ask, Grant
from cts_async.cluster.ledger import Ledger
from cts_async.cluster.limiter import Limiter
from cts_async.cluster.shared_lanes import SharedLanes
from cts_async.engine.account import LaneLimits
from cts_async.engine.events import Events
from cts_async.engine.lane import Lane

SETTLING_S, SETTLING_EACH_S, MEASURED_S = 4.0, 1 / 32, 6.0
"""Before anything is counted, and more of that for each worker; what is counted."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Who shares which limit."""

    workers: int
    per_min: float | None
    """Requests a minute that the provider allows; None where only places are let out."""
    latency_s: float
    places: int
    """Requests that it allows at once."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """What it came to."""

    calls_s: float
    asks_s: float
    busy: float
    """Of the limiter's core, 0 to 1."""
    asks: int
    """In all, from the start."""

    def used(self, shared: Shared) -> float:
        """The share of what was allowed."""
        allowed_s = shared.places / shared.latency_s
        if shared.per_min:
            allowed_s = min(allowed_s, shared.per_min / 60)
        return self.calls_s / allowed_s


def use_of(shared: Shared, costs: Costs) -> Use:
    """Let it run for a few virtual seconds."""
    return run_virtual(lambda: _Account(shared, costs).run())


def spent_by_limiter(shared: Shared, costs: Costs) -> tuple[float, Use]:
    """Seconds of CPU that the limiter really takes in such a run: for all that it does in it."""
    watch = _Stopwatch()
    ask, dispatch = Limiter.ask, Ledger.dispatch
    with (
        patch.object(Limiter, "ask", lambda *given: watch.timed(ask(*given))),
        patch.object(Ledger, "dispatch", lambda *given: watch.timed(dispatch(*given))),
    ):
        use = use_of(shared, costs)
    return watch.spent_s, use


class _Stopwatch:
    """Counts the time in which a coroutine runs, and not that in which it waits."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    async def timed(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What `work` gives."""
        return await _Steps(work, self)


class _Steps:
    def __init__(self, work: Coroutine[Any, Any, Any], watch: _Stopwatch) -> None:
        self._work, self._watch = work, watch

    def __await__(self) -> Generator[Any, None, Any]:
        step = partial(self._work.send, None)
        while True:
            began = time.process_time()
            try:
                waits_for = step()
            except StopIteration as ended:
                return ended.value
            finally:
                self._watch.spent_s += time.process_time() - began
            try:
                yield waits_for
                step = partial(self._work.send, None)
            except BaseException as error:  # a cancellation is the work's own to hear
                step = partial(self._work.throw, error)


class _Account:
    """An account, its limiter, and all who use it."""

    def __init__(self, shared: Shared, costs: Costs) -> None:
        self._shared, self._costs = shared, costs
        self._rng = random.Random(f"{shared.seed}/{shared.workers}/{shared.per_min}")
        self._mu = log(shared.latency_s) - SIGMA**2 / 2
        self._limiter, self._server = Limiter(), Server()
        self._calls = self._asks = 0

    async def run(self) -> Use:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._limiter.run())]
            for n in range(self._shared.workers):
                lanes = SharedLanes(f"w{n}", self, Events())
                lane = lanes.lane("account", "account", self._limits())
                tasks += [group.create_task(lanes.run()), group.create_task(lane.dispatch())]
                tasks += [group.create_task(self._send(lane, count())) for _ in range(self._callers())]
            await asyncio.sleep(SETTLING_S + SETTLING_EACH_S * self._shared.workers)
            before = self._counts()
            await asyncio.sleep(MEASURED_S)
            after = self._counts()
            for task in tasks:
                task.cancel()
        calls, asks, busy_s = (b - a for a, b in zip(before, after, strict=True))
        return Use(calls / MEASURED_S, asks / MEASURED_S, min(1.0, busy_s / MEASURED_S), self._asks)

    async def ask(self, ask: Ask) -> Grant:
        """The way to the limiter."""
        costs = self._costs
        self._asks += 1
        await asyncio.sleep(costs.trip_us / 2e6)
        ask_us = costs.call_us + costs.ask_us + costs.ask_worker_us * self._shared.workers
        await self._server.use(ask_us / 1e6)
        grant = await self._limiter.ask(ask)
        await asyncio.sleep(costs.trip_us / 2e6)
        return grant

    async def _send(self, lane: Lane, numbers: count[int]) -> None:
        """Send one request after the other."""
        while True:
            permit = await lane.admit(next(numbers))
            await asyncio.sleep(self._rng.lognormvariate(self._mu, SIGMA))
            lane.succeeded(permit, None)
            self._calls += 1

    def _callers(self) -> int:
        """Twice a worker's part of all that may be under way."""
        shared = self._shared
        places = shared.places
        if shared.per_min:
            places = min(places, int(shared.per_min / 60 * shared.latency_s) + 1)
        return max(2, 2 * places // shared.workers)

    def _limits(self) -> LaneLimits:
        shared = self._shared
        return LaneLimits(
            requests_per_min=shared.per_min, max_concurrency=shared.places, kind="paced", raisable=False
        )

    def _counts(self) -> tuple[float, ...]:
        return self._calls, self._asks, self._server.busy_s
