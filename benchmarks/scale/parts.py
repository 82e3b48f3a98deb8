"""What a simulated cluster is made of: servers that do one thing after the other, and workers."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heapreplace

from cts_async.cluster.messages import Piece
from cts_async.cluster.worker import TURN_S


class Server:
    """Does one thing after the other."""

    def __init__(self) -> None:
        self._free_at = self.busy_s = 0.0

    async def use(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + seconds
        self.busy_s += seconds
        await asyncio.sleep(self._free_at - now)


class Worker:
    """A core, and so many calls in flight. When pieces begin and end is known when they come: none is an event."""

    def __init__(
        self, in_flight: int, call_s: float, latency: Callable[[], float], rng: random.Random
    ) -> None:
        self._in_flight, self._call_s, self._latency, self._rng = in_flight, call_s, latency, rng
        self._places: list[float] = []
        """When each call that may be under way has ended."""
        self._core_free_at = 0.0
        self._begins: deque[float] = deque()
        self._ends: list[tuple[float, int]] = []

    def take(self, pieces: Sequence[Piece], now: float) -> None:
        """Begin each as soon as a place is free, and send it as soon as the core is."""
        for piece in pieces:
            if len(self._places) < self._in_flight:
                end = now + self._latency() * self._rng.random()
                heappush(self._places, end)
            else:
                begun = max(now, self._places[0])
                self._core_free_at = max(begun, self._core_free_at) + self._call_s
                end = self._core_free_at + self._latency()
                heapreplace(self._places, end)
                self._begins.append(begun)
            heappush(self._ends, (end, piece.seq))

    async def turn(self, pieces: Sequence[Piece]) -> list[int]:
        """Take pieces; give the numbers of those that have ended, once half of what waits is begun (`Hand.low`)."""
        now = asyncio.get_running_loop().time()
        self.take(pieces, now)
        while self._begins and self._begins[0] <= now:
            self._begins.popleft()
        waiting = len(self._begins)
        low = max(1, waiting // 2)
        low_s = self._begins[waiting - low] - now if waiting else 0.0 if pieces else TURN_S
        await asyncio.sleep(min(TURN_S, low_s))
        now, ended = asyncio.get_running_loop().time(), []
        while self._ends and self._ends[0][0] <= now:
            ended.append(heappop(self._ends)[1])
        return ended

    def __len__(self) -> int:
        return len(self._ends)
