"""Another process's clock, known within bounds: nothing is assumed but that both run equally fast.

An ask that was sent before it was received, and an answer that was given before it came, are a bound each
(Cristian, "Probabilistic clock synchronization", 1989). The tightest of all exchanges hold, loosened with time.
Pure: time is passed in.
"""

from __future__ import annotations

from math import inf
from typing import Final

DRIFT: Final = 1e-4
"""Seconds a second by which two clocks may differ: several times what quartz does."""
SURE: Final = 16
"""Exchanges after which it is known well how a clock stands."""
FORGET: Final = 0.999
"""Of the slowest exchange, with each that is faster."""


class FarClock:
    """Translates between the clock at hand (`here`) and the far one (`there`)."""

    __slots__ = ("_ahead_at_least", "_ahead_at_most", "_heard_at", "exchanges", "trip_s")

    def __init__(self) -> None:
        self.exchanges = 0
        self.trip_s = 0.0
        """What a slow exchange takes on the way there and back, of late."""
        self._ahead_at_least, self._ahead_at_most = -inf, inf
        self._heard_at = 0.0

    @property
    def known(self) -> bool:
        """Whether anything is known of the far clock."""
        return self.exchanges > 0

    @property
    def sure(self) -> bool:
        """Whether `about` is as good as it gets."""
        return self.exchanges >= SURE

    def heard(self, sent_at: float, received_there: float, answered_there: float, now: float) -> None:
        """An exchange: sent and answered `now` by the clock here, received and answered by the one there."""
        self.exchanges += 1
        trip_s = now - sent_at - (answered_there - received_there)
        self.trip_s = max(trip_s, self.trip_s * FORGET)
        loose_s = DRIFT * max(0.0, now - self._heard_at)
        self._heard_at = max(self._heard_at, now)
        at_most = received_there - sent_at + DRIFT * (now - sent_at)
        self._ahead_at_most = min(self._ahead_at_most + loose_s, at_most)
        self._ahead_at_least = max(self._ahead_at_least - loose_s, answered_there - now)

    def latest_there(self, here: float) -> float:
        """The latest that it can be there when it is `here`."""
        return here + self._ahead_at_most

    def surely_before(self, there: float) -> float:
        """When it is this time here, it is not later than `there` there."""
        return there - self._ahead_at_most

    def surely_after(self, there: float) -> float:
        """When it is this time here, it is not earlier than `there` there."""
        return there - self._ahead_at_least

    def about(self, there: float) -> float:
        """The time here when it is `there`, as well as that is known: half a round trip off at most."""
        return there - (self._ahead_at_least + self._ahead_at_most) / 2.0
