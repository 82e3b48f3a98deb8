"""When something may be sent: the ways in which servers count, each as a gate.

Two rules: the lane asks for its oldest caller only, so nothing starves, and what was taken can be settled
later (an estimate of tokens becomes the true number). Amounts are requests or tokens, time is the event
loop's, in seconds.

What a provider's answer says of its limits, whatever its headers are called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Literal, Protocol

from aiolimiter import AsyncLimiter

from cts_async.engine.meters import MARGIN_S, BucketMeter, KindFinder, Meter, SlidingMeter, Use

LimitKind = Literal["paced", "sliding", "bucket", "auto"]

RESERVE: Final = 0.2
"""Share of a limit of which nothing is let out ahead."""


class Gate(Protocol):
    limit: float
    """Requests or tokens in a window."""

    @property
    def per_min(self) -> float:
        """Requests or tokens that it lets through in a minute just now."""

    @property
    def sure(self) -> bool:
        """Whether it knows how the server counts."""

    def has_room(self, amount: float) -> bool:
        """Whether `amount` may be sent now."""

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        """Count `amount`, for which there is room, as sent `now`. True if it goes as a probe (see `kind`).

        With `by` it may be sent until then: where dates are kept it is counted as sent `by`, until it is redated.
        """

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        """What was taken as sent by `was` had been sent at `sent_at`."""

    def count(self, now: float, uses: Iterable[Use]) -> None:
        """Others took this lately."""

    def empty(self, now: float) -> None:
        """Nobody knows what was taken lately: begin with nothing, where no dates are kept."""

    async def wait(self, amount: float) -> None:
        """Return when there may be room for `amount`, or something has changed and it is worth asking again."""

    def settle(self, sent_at: float, taken: float, actual: float) -> None:
        """What was taken as `taken` at `sent_at` turned out to be `actual`: give back or charge the difference."""

    def room(self) -> float:
        """How much may be sent now, as far as this gate keeps account of it; infinite where it does not."""

    def spare(self) -> float:
        """How much may be let out now that may be used a moment later, or never: nothing near the limit."""

    def speed_up(self, now: float) -> None:
        """All is well: what was slowed down after a refusal recovers a little."""

    def probed(self, *, served: Literal[True] | None) -> None:
        """A probe was served, or nobody knows what became of it."""


class PacedGate:
    """An even flow, for servers that enforce a minute's limit in shorter slices.

    aiolimiter's leaky bucket holds a little more than one request: the extra is the grid on which a late
    wake-up is made good, so that being woken 2 ms late each time does not lower the rate.
    """

    SHARE, LATENESS_S = 0.99, 0.005
    """Of the limit: else the 21st of 20 a second arrives a millisecond too early as often as too late. What is
    made good of being late is half of what that leaves free in a second."""
    COLD, COLD_S = 0.05, 1.5
    """What is sent first takes longer to arrive than what follows, since connections have to be made: for so long
    each takes so much more of the flow, or a second that begins with it would hold one too many."""
    SPARE_S = 0.003
    """Of the rate: so much more at once than an even flow has keeps within the limit in every second."""
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
        """Begin to flow; `first` may be sent at once."""
        rate = self._share * self.limit / self._window_s
        self._capacity = self._smallest + rate * self.LATENESS_S
        self._limiter = AsyncLimiter(self._capacity, self._capacity / rate)
        _at_once(self._limiter.acquire(self._capacity - first))

    def slow_down(self, now: float, least: float = 0.0) -> None:
        """The server refused what this flow let through: a little less from now on, until it has gone well.

        By this it does not fall below a share of `least` of the limit.
        """
        slower = max(self.SLOWEST, self._share * self.SLOWER, min(self._share, least))
        if slower < self._share:
            self._share, self._changed_at = slower, now
            self._flow()

    def delay(self, seconds: float) -> None:
        """Stand still for so long."""
        self._debt += seconds * self._share * self.limit / self._window_s

    def speed_up(self, now: float) -> None:
        if self._share < self.SHARE and now - self._changed_at > self.FASTER_AFTER_S:
            self._share, self._changed_at = min(self.SHARE, self._share + self.FASTER), now
            self._flow()

    def probed(self, *, served: Literal[True] | None) -> None:
        return  # an even flow sends none

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
        # Paid in parts, since aiolimiter serves nothing larger than its bucket; what was paid stays paid.
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

    def empty(self, now: float) -> None:
        self._flow()

    def room(self) -> float:
        return inf

    def spare(self) -> float:
        return self._share * self.limit / self._window_s * self.SPARE_S


class MeterGate:
    """A gate that asks a meter; whoever waits at it is woken when something changes."""

    def __init__(
        self, meter: SlidingMeter | BucketMeter | KindFinder, window_s: float, per_min: float
    ) -> None:
        self._meter: Meter = meter
        self.per_min = per_min
        self.window_s = window_s
        self.finder = meter if isinstance(meter, KindFinder) else None
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
        """Whether what was sent at which time still matters."""
        return not isinstance(self._meter, BucketMeter)

    def count(self, now: float, uses: Iterable[Use]) -> None:
        self._meter.count(now, uses)
        self._changed.set()

    def empty(self, now: float) -> None:
        self._meter.empty(now)
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

    def spare(self) -> float:
        room = self.finder.least_room(_now()) if self.finder else self.room()
        return max(0.0, room - RESERVE * self.limit)

    def charge(self, amount: float, lasting_s: float | None) -> None:
        """Others took `amount`; it is there again after `lasting_s` (None: after a whole window)."""
        self._meter.charge(_now(), amount, self.window_s if lasting_s is None else lasting_s)

    def speed_up(self, now: float) -> None:
        return  # only an even flow is slowed down

    def probed(self, *, served: Literal[True] | None) -> None:
        if self.finder:
            self.finder.served() if served else self.finder.unsure()
            self.told()

    def told(self) -> None:
        """Something was learned: whoever waits should ask again."""
        self._changed.set()


def make_gate(
    kind: LimitKind, per_min: float, window_s: float, *, smallest: float = 1.0, slack_s: float = 0.0
) -> PacedGate | MeterGate:
    """A gate for `per_min` requests or tokens; `smallest` is the least amount worth pacing apart.

    What is taken may be sent up to `slack_s` later: then `take` is told by when.
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
            return MeterGate(KindFinder(limit, window_s, slack_s), window_s, per_min)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _at_once(acquiring: Coroutine[Any, Any, None]) -> None:
    """Acquire what there is capacity for: such a coroutine ends without waiting for anything."""
    try:
        acquiring.send(None)
    except StopIteration:
        return
    acquiring.close()
    raise RuntimeError("a limiter with capacity made its caller wait")


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit: `limit` a minute, `remaining` of it now, all of it again in `reset_s`; None where not said."""

    limit: float
    remaining: float | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Quotas:
    """An account's limits of requests and of tokens; None where an answer does not name one."""

    requests: Quota | None = None
    tokens: Quota | None = None
