"""When something may be sent: the ways in which servers count, each as a gate.

Two rules: a gate is only ever waited at by one caller at a time (the lane's dispatcher, which serves the
oldest instance first, so nothing starves), and what was taken can be settled later (an estimate of
tokens becomes the true number). Amounts are requests or tokens, time is the event loop's, in seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Literal, Protocol

from aiolimiter import AsyncLimiter

LimitKind = Literal["paced", "sliding", "bucket"]

SLIDING_MARGIN_S = 0.4
"""Requests are counted when sent but arrive a little later; 0.25-0.5 s covers the difference."""


class Gate(Protocol):
    def has_room(self, amount: float) -> bool:
        """Whether `take(amount)` would return without waiting."""

    async def take(self, amount: float) -> None:
        """Wait until `amount` may be sent and count it. Amounts above the whole limit count as the limit."""

    def settle(self, taken: float, actual: float) -> None:
        """What was taken as `taken` turned out to be `actual`: give back or charge the difference."""


class PacedGate:
    """An even flow, for servers that enforce a minute's limit in shorter slices.

    aiolimiter's leaky bucket holds a little more than one request: the extra is the grid on which a late
    wake-up is made good, so that being woken 2 ms late each time does not lower the rate.
    """

    LATENESS_S = 0.02

    def __init__(self, per_min: float, smallest: float = 1.0) -> None:
        rate = per_min / 60.0
        self._capacity = smallest + max(0.5 * smallest, rate * self.LATENESS_S)
        self._limiter = AsyncLimiter(self._capacity, self._capacity / rate)
        self._debt = 0.0

    def has_room(self, amount: float) -> bool:
        due = amount + self._debt
        return due <= self._capacity and (due <= 0 or self._limiter.has_capacity(due))

    async def take(self, amount: float) -> None:
        due, self._debt = amount + self._debt, 0.0
        while due > 0:
            part = min(due, self._capacity)
            await self._limiter.acquire(part)
            due -= part
        self._debt = due

    def settle(self, taken: float, actual: float) -> None:
        self._debt += actual - taken


class SlidingGate:
    """An exact log of the last window: bursts are allowed, no window ever holds more than the limit."""

    def __init__(self, limit: float, window_s: float, margin_s: float = SLIDING_MARGIN_S) -> None:
        self._limit, self._span_s = limit, window_s + margin_s
        self._log: deque[tuple[float, float]] = deque()
        self._used = 0.0

    def has_room(self, amount: float) -> bool:
        self._forget(asyncio.get_running_loop().time())
        return self._used + min(amount, self._limit) <= self._limit + 1e-9

    async def take(self, amount: float) -> None:
        amount = min(amount, self._limit)
        loop = asyncio.get_running_loop()
        while not self.has_room(amount):  # noqa: ASYNC110
            await asyncio.sleep(max(0.0, self._room_at(amount) - loop.time()))
        self._log.append((loop.time(), amount))
        self._used += amount

    def settle(self, taken: float, actual: float) -> None:
        # The difference is dated now: later than the call itself, so the window can only be safer.
        difference = actual - min(taken, self._limit)
        if difference > 0:
            self._log.append((asyncio.get_running_loop().time(), difference))
            self._used += difference
        else:
            self._give_back(-difference)

    def _give_back(self, amount: float) -> None:
        while amount > 0 and self._log:
            at, held = self._log.pop()
            back = min(held, amount)
            self._used -= back
            amount -= back
            if held > back:
                self._log.append((at, held - back))

    def _forget(self, now: float) -> None:
        while self._log and self._log[0][0] + self._span_s <= now:
            self._used -= self._log.popleft()[1]
        if not self._log:
            self._used = 0.0

    def _room_at(self, amount: float) -> float:
        excess = self._used + amount - self._limit
        for at, held in self._log:
            excess -= held
            if excess <= 1e-9:
                return at + self._span_s
        raise AssertionError("an empty window has room for the whole limit")


class BucketGate:
    """A token bucket: a full minute's worth at once, then a steady refill."""

    def __init__(self, per_window: float, window_s: float) -> None:
        self._capacity, self._rate = per_window, per_window / window_s
        self._level, self._checked_at = per_window, -1.0

    def has_room(self, amount: float) -> bool:
        self._refill(asyncio.get_running_loop().time())
        return self._level + 1e-9 >= min(amount, self._capacity)

    async def take(self, amount: float) -> None:
        amount = min(amount, self._capacity)
        while not self.has_room(amount):  # noqa: ASYNC110
            await asyncio.sleep((amount - self._level) / self._rate)
        self._level -= amount

    def settle(self, taken: float, actual: float) -> None:
        self._level = min(self._capacity, self._level + min(taken, self._capacity) - actual)

    def _refill(self, now: float) -> None:
        if self._checked_at >= 0:
            self._level = min(self._capacity, self._level + (now - self._checked_at) * self._rate)
        self._checked_at = now


def make_gate(kind: LimitKind, per_min: float, window_s: float, *, smallest: float = 1.0) -> Gate:
    """A gate for `per_min` requests or tokens; `smallest` is the least amount worth pacing apart."""
    if kind == "paced":
        return PacedGate(per_min, smallest)
    per_window = per_min * window_s / 60.0
    return SlidingGate(per_window, window_s) if kind == "sliding" else BucketGate(per_window, window_s)
