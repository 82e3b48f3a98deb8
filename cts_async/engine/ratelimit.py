"""Rate limits: how servers count what they are sent (meters), and gates that keep our sending within it.

A meter mirrors the server's count on our side. It has to be a little stricter than the server, because requests are
counted here when sent and there when they arrive: `margin_s` is the difference it allows for. Meters have no clock and
no I/O; gates ask them with the event loop's time. What was taken can be settled later (an estimate of tokens becomes
the true number). Amounts are requests or tokens; one above the whole limit counts as the limit, since it could never be
sent otherwise. Times are in seconds.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Literal

from aiolimiter import AsyncLimiter

LimitKind = Literal["paced", "sliding", "bucket", "auto"]


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit: `limit` a minute, `remaining` now, all of it available again in `reset_s`; None where not named."""

    limit: float
    remaining: float | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Quotas:
    """An account's limits of requests and of tokens; None where a response does not name one."""

    requests: Quota | None = None
    tokens: Quota | None = None


# --- Meters -------------------------------------------------------------------------------------------

MARGIN_S: Final = 0.4
"""Seconds between sending and arrival. Measured: 0.25-0.5 s met no refusal, 0.03 s hundreds in 2,000 calls."""

Use = tuple[float, float]
"""The time at which something was sent at the latest, and its amount."""

_TINY: Final = 1e-9


class SlidingMeter:
    """An exact log of the last window: bursts are allowed, no window ever holds more than the limit."""

    def __init__(self, limit: float, window_s: float, margin_s: float = MARGIN_S) -> None:
        self.limit = limit
        self._span_s = window_s + margin_s
        self._log: dict[float, float] = {}
        """Amounts by the time at which they leave the window."""
        self._leaving: list[float] = []
        """Those times in order; the first `_gone` have passed."""
        self._gone = 0
        self._used = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        """Seconds until `amount` may be sent if nothing else is; 0 means now."""
        self._forget(now)
        excess = self._used + min(amount, self.limit) - self.limit
        if excess > _TINY:
            for i in range(self._gone, len(self._leaving)):
                excess -= self._log[self._leaving[i]]
                if excess <= _TINY:
                    return self._leaving[i] - now
        return 0.0

    def room(self, now: float) -> float:
        """How much may be sent now; negative where more was sent than there was room for."""
        self._forget(now)
        return self.limit - self._used

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        """Count `amount` as sent, also where there was no room for it. True if it is a probe (see `LimitDetector`).

        With `by` it may be sent until then: where times are kept it counts as sent at `by`, until it is redated.
        """
        sent_at = now
        if by is not None:
            sent_at = by
        self._add(sent_at + self._span_s, min(amount, self.limit))
        return False

    def charge(self, now: float, amount: float, lasting_s: float) -> None:
        """Count `amount` that others took; it is available again after `lasting_s`."""
        self._add(now + min(lasting_s, self._span_s), min(amount, self.limit))

    def settle(self, now: float, sent_at: float, estimate: float, actual: float) -> None:
        """Replace what was taken as `estimate` at `sent_at` by `actual`: give back or charge the difference."""
        difference = _owed(estimate, actual, self.limit)
        if difference > 0:
            # Counted from now: later than the call itself, so the window can only be safer.
            self._add(now + self._span_s, difference)
            return
        # Given back where it was taken: taken from any other entry it would leave the window at a wrong time.
        leaves_at = sent_at + self._span_s
        if leaves_at in self._log:
            self._log[leaves_at] += difference
            self._used += difference

    def give_back(self, now: float, taken_at: float, by: float, amount: float) -> None:
        """Give back what was taken at `taken_at`, to be sent by `by`, and never was."""
        self.settle(now, by, amount, 0.0)

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        """Correct the time of what was taken as sent at `was`: it was sent at `sent_at`."""
        leaves_at = was + self._span_s
        if leaves_at in self._log:
            amount = min(amount, self.limit)
            self._log[leaves_at] -= amount
            self._used -= amount
            self._add(sent_at + self._span_s, amount)

    def count(self, now: float, uses: Iterable[Use]) -> None:
        """Count what others took lately, from the times when they did, where times are kept."""
        for sent_at, amount in uses:
            if sent_at + self._span_s > now:
                self._add(sent_at + self._span_s, amount)

    def uses(self) -> list[Use]:
        """The times and amounts in the window."""
        return [(leaves_at - self._span_s, amount) for leaves_at, amount in self._log.items()]

    def _add(self, leaves_at: float, amount: float) -> None:
        if leaves_at not in self._log:
            self._log[leaves_at] = 0.0
            insort(self._leaving, leaves_at, lo=self._gone)
        self._log[leaves_at] += amount
        self._used += amount

    def _forget(self, now: float) -> None:
        leaving, gone = self._leaving, self._gone
        while gone < len(leaving) and leaving[gone] <= now:
            self._used -= self._log.pop(leaving[gone])
            gone += 1
        if gone == len(leaving):
            self._used = 0.0
        if 2 * gone >= len(leaving):
            del leaving[:gone]
            gone = 0
        self._gone = gone


class BucketMeter:
    """A meter for a bucket of `capacity` that refills at `rate` a second; a larger amount counts as `capacity`."""

    def __init__(self, capacity: float, rate: float, margin_s: float = MARGIN_S) -> None:
        # A full bucket gains nothing until the first request arrives: what it would have gained does not count.
        self.limit, self._rate = capacity - rate * margin_s, rate
        if self.limit < min(capacity, 1.0):
            # Not even one request would fit: each gap is made longer instead.
            self.limit, self._rate = min(capacity, 1.0), rate / (1.0 + rate * margin_s)
        self._capacity = capacity
        self._level, self._checked_at = self.limit, 0.0
        self._gain_revoked_until = 0.0
        """`give_back` has revoked what was gained before."""

    def wait_s(self, now: float, amount: float) -> float:
        lacking = min(amount, self.limit) - self.room(now)
        if lacking <= _TINY:
            return 0.0
        return lacking / self._rate

    def room(self, now: float) -> float:
        self._level = min(self.limit, self._level + (now - self._checked_at) * self._rate)
        self._checked_at = now
        return self._level

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        self._level = self.room(now) - min(amount, self._capacity)
        return False

    def charge(self, now: float, amount: float, lasting_s: float) -> None:
        self._level = self.room(now) - min(amount, lasting_s * self._rate)

    def settle(self, now: float, sent_at: float, estimate: float, actual: float) -> None:
        self._level = min(self.limit, self.room(now) - _owed(estimate, actual, self._capacity))

    def give_back(self, now: float, taken_at: float, by: float, amount: float) -> None:
        # The server's bucket may have been full all the time since, and then it has gained nothing.
        gained = max(0.0, now - max(taken_at, self._gain_revoked_until)) * self._rate
        self._gain_revoked_until = now
        self._level = min(self.limit, self.room(now) + min(amount, self._capacity) - gained)

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        return  # a bucket keeps no times: what may be sent later than taken is deducted from its capacity

    def count(self, now: float, uses: Iterable[Use]) -> None:
        self._level = self.room(now) - sum(amount for _, amount in uses)


def _owed(estimate: float, actual: float, limit: float) -> float:
    """The amount to count beyond an estimate (which counted as `limit` at most) for `actual`; negative: to give back."""
    if actual > estimate:
        return actual - estimate
    return min(actual, limit) - min(estimate, limit)


_ServerKind = Literal["unknown", "bucket", "sliding", "paced"]

PLENTY: Final = 0.15
"""Share of the limit that must have been free for a refusal to mean that bursts are not allowed."""
AGAIN: Final = 1 / 4
"""The time until another probe after one that was refused, in windows; it doubles each time."""


class LimitDetector:
    """Detects whether a provider enforces a token bucket or a sliding window, by running both models until one is
    falsified. A meter for `limit` per `window_s` meanwhile; its times are up to `slack_s` later than the true ones.

    What both models allow is simply sent. Where only the bucket would allow more, one request is sent as a probe: if
    it is served, the server keeps a bucket; if refused, a window. Except if it is refused for a much shorter time than
    a window would need: then it was a little early for a bucket, and the next probe decides. The verdict "window" may
    be wrong, where another client had emptied a bucket, so further probes follow, ever more rarely. A served probe is
    proof.

    A refusal where both models had plenty of room means slices shorter than a minute, or other clients on the same
    account: then only even pacing is safe, which is a `PacedGate`'s task.
    """

    def __init__(self, limit: float, window_s: float, slack_s: float = 0.0) -> None:
        self.limit = limit
        self._bucket = BucketMeter(limit, limit / window_s, MARGIN_S + slack_s)
        self._sliding = SlidingMeter(limit, window_s)
        # For a verdict the window must have been full however late our requests arrived, and only what was truly sent
        # counts.
        self._strict = SlidingMeter(limit, window_s, -MARGIN_S - slack_s)
        self.kind: _ServerKind = "unknown"
        self.probing = False
        self._probe_at, self._again_s = 0.0, AGAIN * window_s
        """The earliest time of the next probe, and the time after it until another one if it is refused."""
        self._proof = True
        """True if only a bucket would serve the newest probe: it was sent after the last verdict."""

    def wait_s(self, now: float, amount: float) -> float:
        bucket_s = self._bucket.wait_s(now, amount)
        if self.kind == "bucket":
            return bucket_s
        sliding_s = self._sliding.wait_s(now, amount)
        if sliding_s == 0 and self.kind == "unknown":
            return bucket_s
        if sliding_s == 0:
            return 0.0
        if self.probing or self._strict.wait_s(now, amount) == 0:
            return sliding_s
        return min(sliding_s, max(bucket_s, self._probe_at - now))

    def room(self, now: float) -> float:
        return self._meter.room(now)

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        """Count `amount` as sent; True if it is a probe, whose outcome must then be reported."""
        probe = self.kind != "bucket" and self._sliding.wait_s(now, amount) > 0
        for meter in self._alive:
            if by is None or meter is not self._strict:
                meter.take(now, amount, by)
        self.probing = self.probing or probe
        self._proof = self._proof or probe
        return probe

    def charge(self, now: float, amount: float, lasting_s: float) -> None:
        for meter in self._alive:
            meter.charge(now, amount, lasting_s)

    def settle(self, now: float, sent_at: float, estimate: float, actual: float) -> None:
        for meter in self._alive:
            meter.settle(now, sent_at, estimate, actual)

    def give_back(self, now: float, taken_at: float, by: float, amount: float) -> None:
        for meter in self._alive:
            meter.give_back(now, taken_at, by, amount)

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        for meter in self._alive:
            if meter is self._strict:
                meter.take(sent_at, amount)
            else:
                meter.redate(was, sent_at, amount)

    def count(self, now: float, uses: Iterable[Use]) -> None:
        # Not counted by the strict one: where that is not full, no probe is sent.
        uses = list(uses)
        self._bucket.count(now, uses)
        self._sliding.count(now, uses)

    def probed(self, *, served: Literal[True] | None) -> None:
        """Record that a probe was served, which only a bucket could do, or (None) that its outcome is unknown."""
        self.probing = False
        if served and self._proof and self.kind != "paced":
            self.kind = "bucket"

    def refused(
        self, now: float, *, probe: bool, room: float, wait_s: float | None = None, isolated: bool = False
    ) -> None:
        """Record a refusal for `wait_s` (None: not named) of a request that had left `room` (infinite: this limit was
        not known when it was sent). With plenty of room, an `isolated` refusal says nothing about the limit."""
        self.probing = self.probing and not probe
        if room > PLENTY * self.limit:
            if room < inf and not isolated:
                self.kind = "paced"
            return
        if self.kind == "bucket":
            return
        self._bucket.charge(now, max(0.0, self._bucket.room(now)), inf)  # if it is one, it is empty
        # A full window would refuse until the oldest amount leaves it.
        window_needs_s = self._strict.wait_s(now, max(0.0, self._strict.room(now)) + 1.0)
        if wait_s is not None and wait_s < window_needs_s / 2:
            self.kind = "unknown"
        else:
            # The probe itself, or one of the last requests before it, which it overtook on the way.
            if probe or self.kind != "sliding":
                self._probe_at = now + self._again_s
            if probe:
                self._again_s *= 2
            self.kind, self._proof = "sliding", False

    @property
    def _meter(self) -> SlidingMeter | BucketMeter:
        if self.kind == "bucket":
            return self._bucket
        return self._sliding

    @property
    def _alive(self) -> tuple[SlidingMeter | BucketMeter, ...]:
        """The models that may still be right: a served probe is proof of a bucket."""
        if self.kind == "bucket":
            return (self._bucket,)
        return (self._bucket, self._sliding, self._strict)


class ReservationDetector:
    """Detects a server that charges prompt + max_tokens when a request arrives, and never gives back what is not used.

    Such a server refuses requests while their reservations of the last window are above the limit, though little of
    them was used; one that counts what was used serves them. `charged` is the verdict.
    """

    REFUSED, SHARE = 4, 0.2
    """Refusals above the limit (by reservations) that a verdict takes, and their least share of such requests."""

    def __init__(self, limit: float, window_s: float) -> None:
        self.limit = limit
        self.charged = False
        self._log = SlidingMeter(limit, window_s, 0.0)
        self._served = self._refused = 0

    def take(self, now: float, reserved: float) -> bool:
        """Count a request; True if the limit is exceeded with it."""
        self._log.take(now, reserved)
        return self._log.room(now) < 0

    def take_together(self, now: float, reservations: Sequence[float]) -> list[bool]:
        """`take` for several requests: counted as one where the limit is not exceeded with all of them."""
        total = sum(reservations)
        if self._log.room(now) < total:
            # Where none is known, there is nothing to count.
            return [reserved > 0 and self.take(now, reserved) for reserved in reservations]
        self._log.take(now, total)
        return [False] * len(reservations)

    def served_above(self) -> None:
        """Record that a request was answered that exceeded the limit by its reservation."""
        self._served += 1

    def refused(self, now: float, sent_at: float, reserved: float, *, above: bool, plenty: bool) -> bool:
        """Record a refusal, with `plenty` of room by what was used. True if that brought the verdict."""
        self._log.settle(now, sent_at, reserved, 0.0)
        self._refused += above and plenty
        share = self._refused / max(1, self._served + self._refused)
        if self.charged or self._refused < self.REFUSED or share < self.SHARE:
            return False
        self.charged = True
        return True

    def uses(self) -> list[Use]:
        """The reservations of the last window."""
        return self._log.uses()


# --- Gates --------------------------------------------------------------------------------------------
#
# A gate is one limit of an account. It is asked for the lane's oldest caller only, so nothing starves.


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
    PORTION_S = 0.001
    """Above 1,000 requests a second they are taken from the limiter in portions of this time: one by one each would cost
    several microseconds, and a fifth of the grid shows on no server."""
    SLOWER, FASTER, FASTER_AFTER_S, SLOWEST = 0.95, 0.01, 10.0, 0.1
    sure: Final = True
    """It does not matter here how the server counts."""

    def __init__(
        self, limit: float, window_s: float = 60.0, smallest: float = 1.0, *, empty: bool = False
    ) -> None:
        self.limit, self._window_s, self._smallest = limit, window_s, smallest
        self._share, self._changed_at = self.SHARE, 0.0
        self._debt = 0.0
        self._cold_until: float | None = None
        self._start_flow(at_once=0.0 if empty else smallest)

    def _start_flow(self, at_once: float = 0.0) -> None:
        """Start a limiter at the present rate; the amount `at_once` may be sent now."""
        rate = self._share * self.limit / self._window_s
        self._capacity = self._smallest + rate * self.LATENESS_S
        self._portion = rate * self.PORTION_S
        if self._portion < self._smallest:
            self._portion = 0.0
        self._limiter = AsyncLimiter(self._capacity, self._capacity / rate)
        _run_at_once(self._limiter.acquire(self._capacity - at_once))

    def slow_down(self, now: float, least: float = 0.0) -> None:
        """Lower the rate a little after a refusal, until `speed_up`; not below the share `least` of the limit."""
        slower = max(self.SLOWEST, self._share * self.SLOWER, min(self._share, least))
        if slower < self._share:
            self._share, self._changed_at = slower, now
            self._start_flow()

    def delay(self, seconds: float) -> None:
        """Admit nothing for `seconds` more."""
        self._debt += seconds * self._share * self.limit / self._window_s

    def speed_up(self, now: float) -> None:
        """Recover a little from a slowdown."""
        if self._share < self.SHARE and now - self._changed_at > self.FASTER_AFTER_S:
            self._share, self._changed_at = min(self.SHARE, self._share + self.FASTER), now
            self._start_flow()

    @property
    def is_slow(self) -> bool:
        """True while it has to recover from a slowdown."""
        return self._share < self.SHARE

    @property
    def per_min(self) -> float:
        """Requests or tokens that it lets through in a minute at present."""
        return self.limit * self._share / self.SHARE * 60.0 / self._window_s

    def has_room(self, amount: float) -> bool:
        """True if `amount` may be sent now."""
        due = amount + self._debt
        if due > self._capacity:
            return False
        return due <= 0 or self._limiter.has_capacity(due)

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        """Count `amount`, for which there is room, as sent `now`. False: it is no probe."""
        self._debt += amount
        if self._debt > 0:
            due, self._debt = self._debt, 0.0
            if self._portion and self._limiter.has_capacity(due + self._portion):
                due += self._portion
                self._debt = -self._portion
            _run_at_once(self._limiter.acquire(due))
        if self._cold_until is None:
            self._cold_until = now
            several_a_second = self.limit > self._window_s * self._smallest
            if several_a_second:
                self._cold_until += self.COLD_S
        if now < self._cold_until:
            self._debt += self.COLD * amount
        return False

    async def wait(self, amount: float) -> None:
        """Return when there may be room for `amount`, or after a change, when it is worth asking again."""
        # Acquired in parts, since aiolimiter grants nothing larger than its bucket; what was acquired stays so.
        while amount + self._debt > 0:
            part = min(amount + self._debt, self._capacity)
            await self._limiter.acquire(part)
            self._debt -= part

    def settle(self, sent_at: float, estimate: float, actual: float) -> None:
        """Replace what was taken as `estimate` at `sent_at` by `actual`: give back or charge the difference."""
        self._debt += actual - estimate


class MeterGate:
    """A gate that asks a meter, and wakes its waiter when something changes. Methods as in the meter and `PacedGate`."""

    def __init__(
        self, meter: SlidingMeter | BucketMeter | LimitDetector, window_s: float, per_min: float
    ) -> None:
        self._meter = meter
        self.per_min, self.window_s = per_min, window_s
        self.detector: LimitDetector | None = None
        if isinstance(meter, LimitDetector):
            self.detector = meter
        self.limit = meter.limit
        self._changed = asyncio.Event()

    @property
    def sure(self) -> bool:
        """True if it is known how the server counts."""
        return self.detector is None or self.detector.kind != "unknown"

    def has_room(self, amount: float) -> bool:
        return self._meter.wait_s(_loop_time(), amount) == 0

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        return self._meter.take(now, amount, by)

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        self._meter.redate(was, sent_at, amount)
        self._changed.set()

    def count(self, now: float, uses: Iterable[Use]) -> None:
        self._meter.count(now, uses)
        self._changed.set()

    async def wait(self, amount: float) -> None:
        wait_s = self._meter.wait_s(_loop_time(), amount)
        if wait_s > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    def settle(self, sent_at: float, estimate: float, actual: float) -> None:
        self._meter.settle(_loop_time(), sent_at, estimate, actual)
        if actual < estimate:
            self._changed.set()

    def give_back(self, taken_at: float, by: float, amount: float) -> None:
        self._meter.give_back(_loop_time(), taken_at, by, amount)
        self._changed.set()

    def room(self) -> float:
        return self._meter.room(_loop_time())

    def charge(self, amount: float, lasting_s: float | None) -> None:
        """Count `amount` that others took; it is available again after `lasting_s` (None: after a whole window)."""
        if lasting_s is None:
            lasting_s = self.window_s
        self._meter.charge(_loop_time(), amount, lasting_s)

    def probed(self, *, served: Literal[True] | None) -> None:
        if self.detector:
            self.detector.probed(served=served)
            self.notify()

    def notify(self) -> None:
        """Wake the waiter, to ask again."""
        self._changed.set()


Gate = PacedGate | MeterGate


def make_gate(
    kind: LimitKind, per_min: float, window_s: float, *, smallest: float = 1.0, slack_s: float = 0.0
) -> Gate:
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


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _run_at_once(acquiring: Coroutine[Any, Any, None]) -> None:
    """Run an acquisition for which there is capacity: such a coroutine ends without waiting."""
    try:
        acquiring.send(None)
    except StopIteration:
        return
    acquiring.close()
    raise RuntimeError("a limiter with capacity made its caller wait")
