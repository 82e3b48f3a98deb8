"""How servers count what they are sent: a window that slides, or a bucket that refills. Pure: time is passed in.

A meter keeps the server's account from our side. It has to be a little stricter than the server, because
requests are counted here when sent and there when they arrive: `margin_s` is the difference it allows for.
Amounts are requests or tokens; one above the whole limit counts as the limit, else it could never go.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

MARGIN_S: Final = 0.4
"""0.25-0.5 s covers the difference between sending and arrival; 0.03 s met hundreds of refusals."""

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


class SlidingMeter:
    """An exact log of the last window: bursts are allowed, no window ever holds more than the limit."""

    def __init__(self, limit: float, window_s: float, margin_s: float = MARGIN_S) -> None:
        self.limit = limit
        self._span_s = window_s + margin_s
        self._log: OrderedDict[float, float] = OrderedDict()
        """By the time when it leaves the window."""
        self._used = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        self._forget(now)
        excess = self._used + min(amount, self.limit) - self.limit
        if excess > _TINY:
            for leaves_at, held in self._log.items():
                excess -= held
                if excess <= _TINY:
                    return leaves_at - now
        return 0.0

    def room(self, now: float) -> float:
        self._forget(now)
        return self.limit - self._used

    def take(self, now: float, amount: float) -> bool:
        self._add(now + self._span_s, min(amount, self.limit))
        return False

    def charge(self, now: float, amount: float, lasting_s: float) -> None:
        leaves_at = now + min(lasting_s, self._span_s)
        later = [at for at in self._log if at > leaves_at]
        self._add(leaves_at, min(amount, self.limit))
        for at in later:
            self._log.move_to_end(at)

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

    def _add(self, leaves_at: float, amount: float) -> None:
        self._log[leaves_at] = self._log.get(leaves_at, 0.0) + amount
        self._used += amount

    def _forget(self, now: float) -> None:
        while self._log and (leaves_at := next(iter(self._log))) <= now:
            self._used -= self._log.pop(leaves_at)
        if not self._log:
            self._used = 0.0


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


def _owed(taken: float, actual: float, most: float) -> float:
    """What is still to be counted of `actual` where `taken` was counted, as `most` if it was more; negative:
    what is given back."""
    return actual - taken if actual > taken else min(actual, most) - min(taken, most)
