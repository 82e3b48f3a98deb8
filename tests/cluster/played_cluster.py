"""A head and its workers in virtual time, as far as a budget is concerned: turns and news that take their time.

A worker that is lost goes on: the head only does not hear of it any more. So does one that is cut off from its head,
and a line has to hold for everything that anybody spends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from cts_async.cluster.budget import AllowedBudget, BudgetPool
from cts_async.cluster.messages import News
from cts_async.engine.budget import GRAIN_USD, NOTHING, Lines
from cts_async.engine.events import Cost, Events
from cts_async.errors import BudgetSpent

POLL_S = 0.25


@dataclass
class Played:
    """One worker: its budget, and what wakes its answer to a turn."""

    name: str
    budget: AllowedBudget
    urgent: asyncio.Event
    lost: bool = False


@dataclass
class PlayedCluster:
    """Made within a running loop. `trip_s` is the longest that a message takes one way; each takes another time."""

    lines: Lines
    spent: Cost = NOTHING
    seed: int = 0
    trip_s: float = 0.01
    stop: Callable[[BudgetSpent], None] = lambda reason: None
    """Told once when the budget is spent."""
    workers: list[Played] = field(default_factory=list)
    over: BudgetSpent | None = None
    waited: list[Cost] = field(default_factory=list)
    """What the next calls of those who waited might have cost, when it was over."""
    turns: int = 0
    excess: Cost = NOTHING
    """What attempts cost beyond their reservations."""
    events: Events = field(default_factory=Events)

    def __post_init__(self) -> None:
        self.pool = BudgetPool(self.lines, self.spent, self.events)
        self._short: dict[str, Cost | None] = {}
        self._rng = random.Random(f"messages/{self.seed}")

    def worker(self) -> Played:
        """One more, not yet asked for its first turn."""
        urgent = asyncio.Event()
        budget = AllowedBudget(self.lines, None, urgent.set)
        played = Played(f"w{len(self.workers)}", budget, urgent)
        self.workers.append(played)
        return played

    async def ask(self, worker: Played) -> None:
        """The head's side of a worker, until the worker is lost or the task is cancelled."""
        self.pool.joined(worker.name)
        while not worker.lost:
            allowed = self.pool.allow(worker.name)
            await self._trip()
            news = await self._answered(worker, allowed)
            await self._trip()
            self.pool.heard(worker.name, news)
            self._short[worker.name] = news.short
            self.turns += 1
            if self.over is None and (reason := self.pool.spent()):
                self.over = reason
                self.waited = [short for short in self._short.values() if short]
                self.stop(reason)

    async def _trip(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, self.trip_s))

    async def _answered(self, worker: Played, allowed: Cost | None) -> News:
        """What a worker does with a turn: take it in, and answer at once where it is urgent."""
        budget = worker.budget
        if allowed is not None:
            budget.allow(allowed)
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await worker.urgent.wait()
        worker.urgent.clear()
        return News(spent=budget.spent, reserved=budget.reserved, short=budget.short)

    def lose(self, worker: Played) -> None:
        """The head hears nothing of it from now on, whatever is on its way."""
        worker.lost = True
        self.pool.lost(worker.name)

    def check(self) -> None:
        """All that was ever spent and is under way anywhere, beside the lines: to within a grain for each worker."""
        total = self.spent
        for worker in self.workers:
            total += worker.budget.spent + worker.budget.reserved
        grains = Cost(0, 0, GRAIN_USD * (len(self.workers) + 1))
        assert self.lines.crossed(total - grains - self.excess) is None, (self.lines, total)

    @property
    def total(self) -> Cost:
        """What was really spent."""
        total = self.spent
        for worker in self.workers:
            total += worker.budget.spent
        return total
