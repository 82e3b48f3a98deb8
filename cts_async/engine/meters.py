"""How servers count what they are sent: a window that slides, or a bucket that refills. Pure: time is passed in.

A meter keeps the server's account from our side. It has to be a little stricter than the server, because
requests are counted here when sent and there when they arrive: `margin_s` is the difference it allows for.
Amounts are requests or tokens; one above the whole limit counts as the limit, else it could never go.

A limit whose way of counting nobody told us: both possible ways are kept side by side until one is ruled out.

What a bucket and a sliding window both allow is simply sent. Where only the bucket would allow more, one
request goes ahead as a probe: if it is served the server keeps a bucket, if it is refused, a window. Unless it is
refused for a much shorter time than a window would need: then it came a little early for a bucket, and the next one
decides. A window is a verdict that may be wrong, where somebody else had used a bucket up: another probe goes
later, ever more rarely. A served one is proof.

A refusal where both had plenty of room means shorter slices than a minute, or others on the same account:
then an even flow is the only safe thing, which is not this meter's to keep. Pure: time is passed in.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from math import inf
from typing import Final, Literal, Protocol

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


Kind = Literal["unknown", "bucket", "sliding", "paced"]

PLENTY: Final = 0.15
"""Share of the limit that must have been free for a refusal to say that bursts are not allowed."""
AGAIN: Final = 1 / 4
"""Of a window, until another probe goes after one that was refused; twice as long each time."""


class KindFinder:
    """A meter for `limit` per `window_s`, of a kind it finds out.

    What it counts is dated up to `slack_s` later than it may have been sent.
    """

    def __init__(self, limit: float, window_s: float, slack_s: float = 0.0) -> None:
        self.limit = limit
        self._bucket = BucketMeter(limit, limit / window_s, MARGIN_S + slack_s)
        self._sliding = SlidingMeter(limit, window_s)
        # For a verdict the window must have been full however late our requests arrived, and of what may be sent
        # only what was counts.
        self._strict = SlidingMeter(limit, window_s, -MARGIN_S - slack_s)
        self.kind: Kind = "unknown"
        self.probing = False
        self._probe_at, self._again_s = 0.0, AGAIN * window_s
        """When the next probe may go at the earliest, and how long after it the one after it if it is refused."""
        self._proof = True
        """Whether the newest probe would be served by a bucket only: it was sent after the last verdict."""

    def wait_s(self, now: float, amount: float) -> float:
        bucket_s = self._bucket.wait_s(now, amount)
        if self.kind == "bucket":
            return bucket_s
        sliding_s = self._sliding.wait_s(now, amount)
        if sliding_s == 0:
            return bucket_s if self.kind == "unknown" else 0.0
        if self.probing or self._strict.wait_s(now, amount) == 0:
            return sliding_s
        return min(sliding_s, max(bucket_s, self._probe_at - now))

    def room(self, now: float) -> float:
        return self._meter.room(now)

    def least_room(self, now: float) -> float:
        """How much may be sent now, however the server counts."""
        return min(meter.room(now) for meter in self._alive if meter is not self._strict)

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        """Count `amount`, sent `by` then at the latest; True if it goes as a probe, whose fate must then be told."""
        probe = self.kind != "bucket" and self._sliding.wait_s(now, amount) > 0
        for meter in self._alive:
            if by is None or meter is not self._strict:
                meter.take(now if by is None or meter is self._bucket else by, amount)
        self.probing = self.probing or probe
        self._proof = self._proof or probe
        return probe

    def charge(self, now: float, amount: float, lasting_s: float) -> None:
        for meter in self._alive:
            meter.charge(now, amount, lasting_s)

    def settle(self, now: float, sent_at: float, taken: float, actual: float) -> None:
        for meter in self._alive:
            meter.settle(now, sent_at, taken, actual)

    def redate(self, was: float, sent_at: float, amount: float) -> None:
        for meter in self._alive:
            if meter is self._strict:
                meter.take(sent_at, amount)
            else:
                meter.redate(was, sent_at, amount)

    def count(self, now: float, uses: Iterable[Use]) -> None:
        # The strict one is not told: where it is not full, no probe goes.
        uses = list(uses)
        self._bucket.count(now, uses)
        self._sliding.count(now, uses)

    def empty(self, now: float) -> None:
        self._bucket.empty(now)

    def served(self) -> None:
        """The probe was answered: only a bucket could."""
        self.probing = False
        if self._proof and self.kind != "paced":
            self.kind = "bucket"

    def unsure(self) -> None:
        """The probe was lost on the way: another may go."""
        self.probing = False

    def refused(
        self, now: float, *, probe: bool, room: float, wait_s: float | None = None, isolated: bool = False
    ) -> None:
        """A request was refused for `wait_s` (None: not said) that left `room` when it was sent (infinite: this limit
        was not known then). With plenty of room an `isolated` refusal says nothing about the limit."""
        self.probing = self.probing and not probe
        if room > PLENTY * self.limit:
            if room < inf and not isolated:
                self.kind = "paced"
            return
        if self.kind == "bucket":
            return
        self._bucket.charge(now, max(0.0, self._bucket.room(now)), inf)  # if it is one, it is empty
        if wait_s is not None and wait_s < self._window_needs_s(now) / 2:
            self.kind = "unknown"
        else:
            # The probe itself, or one of the last before it, which it has overtaken on the way.
            if probe or self.kind != "sliding":
                self._probe_at = now + self._again_s
            if probe:
                self._again_s *= 2
            self.kind, self._proof = "sliding", False

    def _window_needs_s(self, now: float) -> float:
        """Seconds for which a window would refuse if it were full: until the oldest of what is in it leaves."""
        return self._strict.wait_s(now, max(0.0, self._strict.room(now)) + 1.0)

    @property
    def _meter(self) -> Meter:
        return self._bucket if self.kind == "bucket" else self._sliding

    @property
    def _alive(self) -> tuple[Meter, ...]:
        return (self._bucket,) if self.kind == "bucket" else (self._bucket, self._sliding, self._strict)


class ReservationDetector:
    """Detects a server that charges prompt + max_tokens when a request arrives, and never gives back what is not used.

    Such a server refuses requests while their reservations of the last window are above the limit, though little of
    them was used; one that counts what was used serves them. `charged` is the verdict.
    """

    REFUSED, SHARE = 4, 0.2
    """Refusals above the limit by reservations that it takes, and their share of what was sent then."""

    def __init__(self, limit: float, window_s: float) -> None:
        self.limit = limit
        self.charged = False
        self._log = SlidingMeter(limit, window_s, 0.0)
        self._served = self._refused = 0

    def take(self, now: float, reserved: float) -> bool:
        """Count a request; True if the limit is passed with it."""
        self._log.take(now, reserved)
        return self._log.room(now) < 0

    def served(self, *, above: bool) -> None:
        """A request was answered that passed the limit by its reservation, or did not."""
        self._served += above

    def refused(self, now: float, sent_at: float, reserved: float, *, above: bool, plenty: bool) -> bool:
        """A request was refused, with `plenty` of room by what was used. True if that brought the verdict."""
        self._log.settle(now, sent_at, reserved, 0.0)
        self._refused += above and plenty
        share = self._refused / max(1, self._served + self._refused)
        if self.charged or self._refused < self.REFUSED or share < self.SHARE:
            return False
        self.charged = True
        return True

    def uses(self) -> list[Use]:
        """What was reserved in the last window."""
        return self._log.uses()
