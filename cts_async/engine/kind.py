"""A limit whose way of counting nobody told us: both possible ways are kept side by side until one is ruled out.

What a bucket and a sliding window both allow is simply sent. Where only the bucket would allow more, one
request goes ahead as a probe: if it is served the server keeps a bucket, if it is refused, a window. A
refusal where both had plenty of room means shorter slices than a minute, or others on the same account:
then an even flow is the only safe thing, which is not this meter's to keep. Pure: time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final, Literal

from cts_async.engine.meters import MARGIN_S, BucketMeter, Meter, SlidingMeter, Use

Kind = Literal["unknown", "bucket", "sliding", "paced"]

PLENTY: Final = 0.15
"""Share of the limit that must have been free for a refusal to say that bursts are not allowed."""


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

    def wait_s(self, now: float, amount: float) -> float:
        if self.kind != "unknown":
            return self._meter.wait_s(now, amount)
        sliding_s = self._sliding.wait_s(now, amount)
        if sliding_s == 0:
            return self._bucket.wait_s(now, amount)
        if self.probing or self._strict.wait_s(now, amount) == 0:
            return sliding_s
        return min(sliding_s, self._bucket.wait_s(now, amount))

    def room(self, now: float) -> float:
        return self._meter.room(now)

    def least_room(self, now: float) -> float:
        """How much may be sent now, however the server counts."""
        return min(meter.room(now) for meter in self._alive if meter is not self._strict)

    def take(self, now: float, amount: float, by: float | None = None) -> bool:
        """Count `amount`, sent `by` then at the latest; True if it goes as a probe, whose fate must then be told."""
        probe = self.kind == "unknown" and self._sliding.wait_s(now, amount) > 0
        for meter in self._alive:
            if by is None or meter is not self._strict:
                meter.take(now if by is None or meter is self._bucket else by, amount)
        self.probing = self.probing or probe
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
        self._decide("bucket")

    def unsure(self) -> None:
        """The probe was lost on the way: another may go."""
        self.probing = False

    def refused(self, *, probe: bool, room: float) -> None:
        """A request was refused that left `room` when it was sent (infinite: this limit was not known then)."""
        self.probing = self.probing and not probe
        if room <= PLENTY * self.limit:
            # The probe itself, or one of the last before it, which it has overtaken on the way.
            self._decide("sliding")
        elif room < inf:
            self.kind = "paced"

    def _decide(self, kind: Kind) -> None:
        if self.kind == "unknown":
            self.kind = kind

    @property
    def _meter(self) -> Meter:
        return self._bucket if self.kind == "bucket" else self._sliding

    @property
    def _alive(self) -> tuple[Meter, ...]:
        return (self._bucket, self._sliding, self._strict) if self.kind == "unknown" else (self._meter,)
