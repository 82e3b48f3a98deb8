"""How much of a number that only grows came in the last minute, from looks at it now and then."""

from __future__ import annotations

from collections import deque
from typing import Final

MINUTE_S: Final = 60.0
GRAIN_S: Final = 0.5
"""Looks closer together than this are one."""


class LastMinute:
    """`now` is in seconds and never goes back."""

    def __init__(self, now: float, total: float) -> None:
        self._looks: deque[tuple[float, float]] = deque([(now, total)])

    def grown(self, now: float, total: float) -> float:
        """What was added in the last minute, or since the first look where that is less long ago."""
        looks = self._looks
        while len(looks) > 1 and looks[1][0] <= now - MINUTE_S:
            looks.popleft()
        since = looks[0][1]
        if now - looks[-1][0] >= GRAIN_S:
            looks.append((now, total))
        return total - since
