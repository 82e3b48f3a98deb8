"""Rate limits: a gate for each way in which servers count, and the limits that responses name.

A gate is asked for the lane's oldest caller only, so nothing starves, and what was taken can be settled later (an
estimate of tokens becomes the true number). Amounts are requests or tokens, time is the event loop's, in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, Protocol

from aiolimiter import AsyncLimiter

from cts_async.engine.meters import MARGIN_S, BucketMeter, LimitDetector, Meter, SlidingMeter, Use

LimitKind = Literal["paced", "sliding", "bucket", "auto"]


class Gate(Protocol):
    limit: float
    """Requests or tokens in a window."""

    @property
    def per_min(self) -> float:
        """Requests or tokens that it lets through in a minute at present."""

    @property
    def sure(self) -> bool:
        """True if it is known how the server counts."""

    def has_room(self, amount: float) -> bool:
        """True if `amount` may be sent now."""

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        """Count `amount`, for which there is room, as sent `now`. True if it is a probe (see `LimitDetector`).

        With `by` it may be sent until then: where times are kept it counts as sent at `by`, until it is redated.
        """

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        """Correct the time of what was taken with `by` = `was`: it was sent at `sent_at`."""

    def count(self, now: float, uses: Iterable[Use]) -> None:
        """Count what others took lately."""

    async def wait(self, amount: float) -> None:
        """Return when there may be room for `amount`, or after a change, when it is worth asking again."""

    def settle(self, sent_at: float, taken: float, actual: float) -> None:
        """Replace what was taken as `taken` at `sent_at` by `actual`: give back or charge the difference."""

    def room(self) -> float:
        """How much may be sent now; infinite where the gate does not count it."""

    def speed_up(self, now: float) -> None:
        """Recover a little from a slowdown after a refusal."""

    def probed(self, *, served: Literal[True] | None) -> None:
        """Record that a probe was served, or (None) that its outcome is unknown."""


class PacedGate:
    """Evenly paced sending, for servers that enforce a minute's limit in shorter slices.

    aiolimiter's leaky bucket holds a little more than one request: the extra is the grid on which a late wake-up is
    made up for, so that being woken 2 ms late each time does not lower the rate.
    """

    SHARE, LATENESS_S = 0.99, 0.005
    """The share of the limit that is used: at 1.0 the 21st of 20 a second would arrive a millisecond too early as often
    as too late. The lateness that is made up for is half of what that leaves free in a second."""
    COLD, COLD_S = 0.05, 1.5
    """The first requests take longer to arrive than those that follow, since connections have to be made: during the
    first COLD_S seconds each takes COLD more of the rate, or a second that begins with them would hold one too many."""
    SLOWER, FASTER, FASTER_AFTER_S, SLOWEST = 0.95, 0.01, 10.0, 0.1

    def __init__(
        self, limit: float, window_s: float = 60.0, smallest: float = 1.0, *, empty: bool = False
    ) -> None:
        self.limit, self._window_s, self._smallest = limit, window_s, smallest
        self._share, self._changed_at = self.SHARE, 0.0
        self._debt = 0.0
        self._cold_until: float | None = None
        self._flow(first=0.0 if empty else smallest)

    def _flow(self, first: float = 0.0) -> None:
        """Start a limiter at the present rate; `first` may be sent at once."""
        rate = self._share * self.limit / self._window_s
        self._capacity = self._smallest + rate * self.LATENESS_S
        self._limiter = AsyncLimiter(self._capacity, self._capacity / rate)
        _at_once(self._limiter.acquire(self._capacity - first))

    def slow_down(self, now: float, least: float = 0.0) -> None:
        """Lower the rate a little after a refusal, until `speed_up`; not below the share `least` of the limit."""
        slower = max(self.SLOWEST, self._share * self.SLOWER, min(self._share, least))
        if slower < self._share:
            self._share, self._changed_at = slower, now
            self._flow()

    def delay(self, seconds: float) -> None:
        """Admit nothing for `seconds` more."""
        self._debt += seconds * self._share * self.limit / self._window_s

    def speed_up(self, now: float) -> None:
        if self._share < self.SHARE and now - self._changed_at > self.FASTER_AFTER_S:
            self._share, self._changed_at = min(self.SHARE, self._share + self.FASTER), now
            self._flow()

    def probed(self, *, served: Literal[True] | None) -> None:
        return  # a paced gate sends no probes

    @property
    def per_min(self) -> float:
        return self.limit * self._share / self.SHARE * 60.0 / self._window_s

    @property
    def sure(self) -> bool:
        return True

    def has_room(self, amount: float) -> bool:
        due = amount + self._debt
        return due <= self._capacity and (due <= 0 or self._limiter.has_capacity(due))

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        self._debt += amount
        if self._debt > 0:
            _at_once(self._limiter.acquire(self._debt))
            self._debt = 0.0
        if self._cold_until is None:
            several_a_second = self.limit > self._window_s * self._smallest
            self._cold_until = now + self.COLD_S if several_a_second else now
        if now < self._cold_until:
            self._debt += self.COLD * amount
        return False

    async def wait(self, amount: float) -> None:
        # Acquired in parts, since aiolimiter grants nothing larger than its bucket; what was acquired stays so.
        while amount + self._debt > 0:
            part = min(amount + self._debt, self._capacity)
            await self._limiter.acquire(part)
            self._debt -= part

    def settle(self, sent_at: float, taken: float, actual: float) -> None:
        self._debt += actual - taken

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        return

    def count(self, now: float, uses: Iterable[Use]) -> None:
        return

    def room(self) -> float:
        return inf


class MeterGate:
    """A gate that asks a meter; waiters are woken when something changes."""

    def __init__(
        self, meter: SlidingMeter | BucketMeter | LimitDetector, window_s: float, per_min: float
    ) -> None:
        self._meter: Meter = meter
        self.per_min = per_min
        self.window_s = window_s
        self.finder = meter if isinstance(meter, LimitDetector) else None
        self.limit = meter.limit
        self._changed = asyncio.Event()

    @property
    def sure(self) -> bool:
        return self.finder is None or self.finder.kind != "unknown"

    def has_room(self, amount: float) -> bool:
        return self._meter.wait_s(_now(), amount) == 0

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        if self.finder:
            return self.finder.take(now, amount, by)
        return self._meter.take(by if by is not None and self.dated else now, amount)

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        self._meter.redate(was, sent_at, amount)
        self._changed.set()

    @property
    def dated(self) -> bool:
        """True if it matters what was sent at which time."""
        return not isinstance(self._meter, BucketMeter)

    def count(self, now: float, uses: Iterable[Use]) -> None:
        self._meter.count(now, uses)
        self._changed.set()

    async def wait(self, amount: float) -> None:
        wait_s = self._meter.wait_s(_now(), amount)
        if wait_s > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    def settle(self, sent_at: float, taken: float, actual: float) -> None:
        self._meter.settle(_now(), sent_at, taken, actual)
        if actual < taken:
            self._changed.set()

    def room(self) -> float:
        return self._meter.room(_now())

    def charge(self, amount: float, lasting_s: float | None) -> None:
        """Count `amount` that others took; it is available again after `lasting_s` (None: after a whole window)."""
        self._meter.charge(_now(), amount, self.window_s if lasting_s is None else lasting_s)

    def speed_up(self, now: float) -> None:
        return  # only paced gates are slowed down

    def probed(self, *, served: Literal[True] | None) -> None:
        if self.finder:
            self.finder.served() if served else self.finder.unsure()
            self.notify()

    def notify(self) -> None:
        """Wake the waiter, to ask again."""
        self._changed.set()


def make_gate(
    kind: LimitKind, per_min: float, window_s: float, *, smallest: float = 1.0, slack_s: float = 0.0
) -> PacedGate | MeterGate:
    """A gate for `per_min` requests or tokens; `smallest` is the least amount that is paced separately.

    With `slack_s`, what is taken may be sent up to that much later: then `take` gets the latest time.
    """
    limit = per_min * window_s / 60.0
    match kind:
        case "paced":
            return PacedGate(limit, window_s, smallest)
        case "sliding":
            return MeterGate(SlidingMeter(limit, window_s), window_s, per_min)
        case "bucket":
            return MeterGate(BucketMeter(limit, limit / window_s, MARGIN_S + slack_s), window_s, per_min)
        case "auto":
            return MeterGate(LimitDetector(limit, window_s, slack_s), window_s, per_min)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _at_once(acquiring: Coroutine[Any, Any, None]) -> None:
    """Run an acquisition for which there is capacity: such a coroutine ends without waiting."""
    try:
        acquiring.send(None)
    except StopIteration:
        return
    acquiring.close()
    raise RuntimeError("a limiter with capacity made its caller wait")


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit: `limit` a minute, `remaining` now, all of it available again in `reset_s`; None where not said."""

    limit: float
    remaining: float | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Quotas:
    """An account's limits of requests and of tokens; None where a response does not name one."""

    requests: Quota | None = None
    tokens: Quota | None = None
