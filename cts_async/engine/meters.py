"""How servers count what they are sent: a window that slides, or a bucket that refills. Pure: time is passed in.

A meter keeps the server's account from our side. It has to be a little stricter than the server, because
requests are counted here when sent and there when they arrive: `margin_s` is the difference it allows for.
Amounts are requests or tokens; one above the whole limit counts as the limit, else it could never go.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Final, Protocol

MARGIN_S: Final = 0.4
"""0.25-0.5 s covers the difference between sending and arrival; 0.03 s met hundreds of refusals."""

Use = tuple[float, float]
"""When something was sent, at the latest, and how much of what a meter counts."""

_TINY: Final = 1e-9


class Meter(Protocol):
    def wait_s(self, now: float, amount: float) -> float:
        """Seconds until `amount` may be sent if nothing else is; 0 is now."""

    def room(self, now: float) -> float:
        """How much may be sent now; negative where more was sent than there was room for."""

    def take(self, now: float, amount: float) -> bool:
        """Count `amount` as sent, also where there was no room for it. True if it goes as a probe."""

    def charge(self, now: float, amount: float, lasting_s: float) -> None:
        """Somebody else took `amount`; after `lasting_s` it is there again."""

    def settle(self, now: float, sent_at: float, taken: float, actual: float) -> None:
        """What was taken as `taken` at `sent_at` turned out to be `actual`: give back or charge the difference."""

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        """What was taken as sent at `was` had been sent at `sent_at`."""

    def count(self, now: float, uses: Iterable[Use]) -> None:
        """Others took this lately: it counts from when they did, where dates are kept."""

    def empty(self, now: float) -> None:
        """Nobody knows what was taken lately, where no dates are kept: nothing is left."""


class SlidingMeter:
    """An exact log of the last window: bursts are allowed, no window ever holds more than the limit."""

    def __init__(self, limit: float, window_s: float, margin_s: float = MARGIN_S) -> None:
        self.limit = limit
        self._span_s = window_s + margin_s
        self._log: dict[float, float] = {}
        """By the time when it leaves the window."""
        self._leaving: list[float] = []
        """Those times in order; the first `_gone` have passed."""
        self._gone = 0
        self._used = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        self._forget(now)
        excess = self._used + min(amount, self.limit) - self.limit
        if excess > _TINY:
            for i in range(self._gone, len(self._leaving)):
                excess -= self._log[self._leaving[i]]
                if excess <= _TINY:
                    return self._leaving[i] - now
        return 0.0

    def room(self, now: float) -> float:
        self._forget(now)
        return self.limit - self._used

    def take(self, now: float, amount: float) -> bool:
        self._add(now + self._span_s, min(amount, self.limit))
        return False

    def charge(self, now: float, amount: float, lasting_s: float) -> None:
        self._add(now + min(lasting_s, self._span_s), min(amount, self.limit))

    def settle(self, now: float, sent_at: float, taken: float, actual: float) -> None:
        difference = _owed(taken, actual, self.limit)
        if difference > 0:
            # Dated now: later than the call itself, so the window can only be safer.
            self._add(now + self._span_s, difference)
            return
        # Given back where it was taken: from any other entry it would leave the window at a wrong time.
        leaves_at = sent_at + self._span_s
        if leaves_at in self._log:
            self._log[leaves_at] += difference
            self._used += difference

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        """What was taken as sent at `was` had been sent at `sent_at`."""
        leaves_at = was + self._span_s
        if leaves_at in self._log:
            amount = min(amount, self.limit)
            self._log[leaves_at] -= amount
            self._used -= amount
            self._add(sent_at + self._span_s, amount)

    def count(self, now: float, uses: Iterable[Use]) -> None:
        for sent_at, amount in uses:
            if sent_at + self._span_s > now:
                self._add(sent_at + self._span_s, amount)

    def empty(self, now: float) -> None:
        return  # what was taken is counted

    def uses(self) -> list[Use]:
        """What is in the window."""
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
    """A bucket of `capacity` that refills at `rate` a second; a capacity of about one request is an even flow.

    What is larger than the bucket goes when it is full and leaves a debt, of `most` at most.
    """

    def __init__(
        self, capacity: float, rate: float, margin_s: float = MARGIN_S, most: float | None = None
    ) -> None:
        # A full bucket gains nothing until the first request is there: what it would have gained is not ours.
        self.limit, self._rate = capacity - rate * margin_s, rate
        if self.limit < min(capacity, 1.0):
            # Not even one request would fit: then each gap has to be longer instead.
            self.limit, self._rate = min(capacity, 1.0), rate / (1.0 + rate * margin_s)
        self._most = capacity if most is None else most
        self._level, self._checked_at = self.limit, 0.0

    def wait_s(self, now: float, amount: float) -> float:
        lacking = min(amount, self.limit) - self.room(now)
        return lacking / self._rate if lacking > _TINY else 0.0

    def room(self, now: float) -> float:
        self._level = min(self.limit, self._level + (now - self._checked_at) * self._rate)
        self._checked_at = now
        return self._level

    def take(self, now: float, amount: float) -> bool:
        self._level = self.room(now) - min(amount, self._most)
        return False

    def charge(self, now: float, amount: float, lasting_s: float) -> None:
        self._level = self.room(now) - min(amount, lasting_s * self._rate)

    def settle(self, now: float, sent_at: float, taken: float, actual: float) -> None:
        self._level = min(self.limit, self.room(now) - _owed(taken, actual, self._most))

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        return  # a bucket keeps no dates: what may go later than it is taken is kept back from its capacity

    def count(self, now: float, uses: Iterable[Use]) -> None:
        self._level = self.room(now) - sum(amount for _, amount in uses)

    def empty(self, now: float) -> None:
        self._level, self._checked_at = 0.0, now


def _owed(taken: float, actual: float, most: float) -> float:
    """What is still to be counted of `actual` where `taken` was counted, as `most` if it was more; negative:
    what is given back."""
    return actual - taken if actual > taken else min(actual, most) - min(taken, most)
