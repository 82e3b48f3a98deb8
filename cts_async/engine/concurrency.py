"""How many requests may be under way at once, where only trying tells: slow start, then careful growth.

The congestion window of TCP Reno (Jacobson, "Congestion avoidance and control", 1988; RFC 5681) with
requests for packets: doubling per round trip up to the threshold, one more per round trip above it, and
half after a refusal, once per episode. Where the limits are known a refusal is an exception, not the way to
find them, and a first one takes less. Pure.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 8.0
"""What a provider of whom nothing is known is sent at first."""
GENTLE: Final = 0.85


class ConcurrencyWindow:
    """`size` requests may be under way, never more than `ceiling`."""

    __slots__ = ("_threshold", "ceiling", "size")

    def __init__(self, ceiling: int, *, known: bool) -> None:
        self.ceiling = ceiling
        self._threshold = float(ceiling)
        self.size = float(ceiling) if known else min(FIRST, ceiling)

    def answered(self, in_flight: int) -> None:
        """A request was answered while `in_flight` were under way, itself among them."""
        # A window that is not used says nothing about whether a larger one would be good.
        if self.size < self.ceiling and 2 * in_flight >= self.size:
            step = 1.0 if self.size < self._threshold else 1.0 / self.size
            self.size = min(self.size + step, float(self.ceiling))

    def refused(self, in_flight: int, *, gently: bool = False) -> None:
        """The first refusal of an episode: what was under way was too much."""
        share = GENTLE if gently else 0.5
        self._threshold = self.size = max(1.0, min(self.size, in_flight) * share)

    def resize(self, ceiling: int, *, known: bool) -> None:
        """Another ceiling from now on; what was learned below it stays."""
        if known and self.size >= self.ceiling:
            self.size = float(ceiling)
        self.ceiling = ceiling
        self.size = min(max(self.size, 1.0), float(ceiling))

    def restart(self, size: float = 1.0) -> None:
        """Begin again, after a pause: nobody knows how things stand, so the first one asks."""
        self.size = min(self.size, size)

    def reopen(self, *, known: bool) -> None:
        """Begin again after an outage, which said nothing about how much is too much."""
        self._threshold = float(self.ceiling)
        self.size = float(self.ceiling) if known else min(FIRST, self.ceiling)
