"""What a worker has sent to an account in the last window, in case the limiter loses count. Pure: time is passed in."""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Final

from cts_async.cluster.asks import Sends

SLOTS: Final = 600
"""To a window: a tenth of a second in a minute."""


class SentLog:
    """Counts by slots of time, each entry in the one that ends next: dated late, never early."""

    __slots__ = ("_log", "_slot_s", "_window_s")

    def __init__(self, window_s: float) -> None:
        self._window_s, self._slot_s = window_s, window_s / SLOTS
        self._log: deque[list[float]] = deque()

    def add(self, now: float, requests: float, tokens: float) -> None:
        """So much was sent `now`, which is never earlier than before."""
        until = ceil(now / self._slot_s) * self._slot_s
        if self._log and self._log[-1][0] >= until:
            self._log[-1][1] += requests
            self._log[-1][2] += tokens
            return
        self._log.append([until, requests, tokens])
        while self._log[0][0] < now - self._window_s:
            self._log.popleft()

    def entries(self) -> Sends:
        """What was sent in the last window: (time, requests, tokens), by time."""
        return tuple((until, requests, tokens) for until, requests, tokens in self._log)
