"""What a worker may send before it asks: lots in hand, and how much to ask for by the pace at which it sends.

A lot is used from the oldest on. What has become of it is counted, and said once nothing more will be used of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Final

from cts_async.cluster.asks import Lot, LotReport
from cts_async.cluster.lots import LEAST, MOST

AHEAD_S: Final = 0.35
"""The stock lasts for so long at the pace of late, and the way to the limiter and back."""
LOW_S: Final = 0.2
"""It is filled up when it would last no longer than this."""
DRY_S: Final = 0.05
"""And at once when it would last no longer than this."""
MEASURE_S: Final = 0.1
"""The pace is measured over so long at least."""
SLOWER: Final = 0.7
"""Of a pace that has fallen is kept: it may have been held up."""


@dataclass(slots=True)
class InStock:
    """A lot in use, with its end by the clock here."""

    lot: Lot
    end: float
    left: int
    """Requests that may still be sent."""
    tokens_left: float
    used_at: float = 0.0
    """By the clock here."""
    over: bool = False
    ended: int = 0
    charged: float = 0.0
    took: float = 0.0
    worst: float = 0.0
    refused: int = 0
    refused_tokens: float = 0.0
    wait_s: float | None = None
    said: int = -1
    """How many had ended when that was last heard."""

    def served(self, charged: float, took: float | None) -> None:
        """A request that was charged `charged` tokens was answered."""
        self.ended += 1
        if took is not None and charged:
            self.charged += charged
            self.took += took
            self.worst = max(self.worst, took / charged * self.lot.token_margin)

    def was_refused(self, charged: float, wait_s: float | None) -> None:
        """The same of one that was refused."""
        self.ended += 1
        self.refused += 1
        self.refused_tokens += charged
        self.wait_s = wait_s

    def report(self, ahead_s: float) -> LotReport:
        """What has become of it; the far clock is at most `ahead_s` ahead."""
        return LotReport(
            self.lot.id,
            self.lot.requests - self.left,
            self.lot.tokens - self.tokens_left,
            self.used_at + ahead_s,
            self.ended,
            self.charged,
            self.took,
            self.worst,
            self.refused,
            self.refused_tokens,
            self.wait_s,
        )


class Stock:
    """Time is passed in, by the clock here."""

    def __init__(self) -> None:
        self._lots: deque[InStock] = deque()
        """Those that are not over, the oldest first."""
        self._over: dict[int, InStock] = {}
        """By number, until all that was sent of them has ended, and that was heard."""
        self.left = 0
        """Requests that may still be sent."""
        self._pace = 0.0
        self._tokens_each = 0.0
        self._since = 0.0
        self._sent = 0
        self._tokens = 0.0

    def add(self, lot: Lot, end: float) -> None:
        """A lot that came."""
        self._lots.append(InStock(lot, end, lot.requests, lot.tokens))
        self.left += lot.requests

    def has_room(self, now: float, tokens: float) -> bool:
        """Whether a request of about `tokens` may be sent now."""
        return self.left > 0 and self._first(now, tokens) is not None

    def take(self, now: float, tokens: float, room_at: float | None = None) -> InStock | None:
        """Send a request of about `tokens`, for which there was room at `room_at` (None: `now`).

        Gives the lot that it is sent of; None where there is none for it.
        """
        one = self._first(now if room_at is None else room_at, tokens) if self.left else None
        if one is None:
            return None
        one.left -= 1
        one.tokens_left -= tokens * one.lot.token_margin
        one.used_at = now
        self.left -= 1
        if not one.left:
            self._end(one)
        return one

    def _first(self, now: float, tokens: float) -> InStock | None:
        for one in self._lots:
            if one.end > now and one.tokens_left >= tokens * one.lot.token_margin:
                return one
        return None

    def _end(self, one: InStock) -> None:
        one.over = True
        self.left -= one.left
        self._lots.remove(one)
        self._over[one.lot.id] = one

    def next_end(self) -> float:
        """When the next lot ends; infinite without one."""
        return min((one.end for one in self._lots), default=inf)

    def expire(self, now: float) -> bool:
        """End the lots whose time is over: what is left of them goes back. True if there were any."""
        ending = [one for one in self._lots if one.end <= now]
        for one in ending:
            self._end(one)
        return bool(ending)

    def clear(self) -> None:
        """All lots are void."""
        self._lots.clear()
        self._over.clear()
        self.left = 0

    # What is asked for.

    def sent(self, tokens: float) -> None:
        """A request of about `tokens` was sent, by whatever leave."""
        self._sent += 1
        self._tokens += tokens

    @property
    def low(self) -> bool:
        """Whether it should be filled up."""
        return self.left < self._pace * LOW_S

    @property
    def dry(self) -> bool:
        """Whether it should be filled up at once."""
        return self.left < self._pace * DRY_S

    def ahead(self, now: float, trip_s: float) -> tuple[int, float]:
        """Requests that will soon be sent, beyond those that there is leave for, and about how many tokens they need."""
        lasted_s = now - self._since
        if lasted_s >= MEASURE_S:
            self._pace = max(self._sent / lasted_s, self._pace * SLOWER)
            if self._sent:
                self._tokens_each = self._tokens / self._sent
            self._since, self._sent, self._tokens = now, 0, 0.0
        n = min(MOST, int(self._pace * (AHEAD_S + trip_s))) - self.left
        return (n, n * self._tokens_each) if self.low and n >= LEAST else (0, 0.0)

    # What is said.

    def reports(self, ahead_s: float) -> tuple[LotReport, ...]:
        """What is not known to have been heard of the lots that are over."""
        return tuple(one.report(ahead_s) for one in self._over.values() if one.ended > one.said)

    def heard(self, reports: tuple[LotReport, ...]) -> None:
        """These were heard."""
        for report in reports:
            one = self._over.get(report.lot)
            if one is None:
                continue
            one.said = max(one.said, report.ended)
            if one.said >= report.used:
                del self._over[report.lot]
