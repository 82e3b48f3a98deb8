"""Arithmetic of progress: the growth of a counter in the last minute, a running mean, and the time left."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
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


_Z: Final = 1.959964
_T_975: Final = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""Student's t, its 97.5 % point for 1 to 10 degrees of freedom."""


class RunningMean:
    """Mean and variance after Welford (1962): no score is kept, and nothing is lost to rounding."""

    __slots__ = ("_squares", "mean", "n")

    def __init__(self) -> None:
        self.n, self.mean, self._squares = 0, 0.0, 0.0

    def add(self, scores: Iterable[float]) -> None:
        """Take in further scores."""
        for score in scores:
            self.n += 1
            off = score - self.mean
            self.mean += off / self.n
            self._squares += off * (score - self.mean)

    def interval(self) -> tuple[float, float] | None:
        """mean ± t · s / sqrt(n), Student's t with n - 1 degrees of freedom; None for less than two scores."""
        if self.n < 2:
            return None
        half = t_975(self.n - 1) * math.sqrt(self._squares / (self.n - 1) / self.n)
        return self.mean - half, self.mean + half


def t_975(df: int) -> float:
    """The point below which Student's t with `df` >= 1 degrees of freedom lies with 97.5 %, to within 0.0002.

    Beyond the table by Abramowitz and Stegun, 26.7.5: loading a library of distributions would hold up the run.
    """
    if df <= len(_T_975):
        return _T_975[df - 1]
    z, z3, z5, z7 = _Z, _Z**3, _Z**5, _Z**7
    first, second = (z3 + z) / 4, (5 * z5 + 16 * z3 + 3 * z) / 96
    third = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384
    return z + first / df + second / df**2 + third / df**3


FEW: Final = 3
"""Jobs that have to end before anything is said; a third of them all where that is less."""
WINDOW_S: Final = 60.0
"""The pace is that of the second half of the time, and at least of so long."""
SAMPLES: Final = 100


class Pace:
    """The pace of one group of jobs. Times are seconds of one clock, which `hold` stops."""

    def __init__(self) -> None:
        self.n_ended = 0
        self._executed = 0
        """Steps that were executed, and jobs that ended."""
        self._told, self._told_of_ended = 0, 0
        """Steps that were counted in bulk and executed: as such, and as steps of the jobs that ended."""
        self._of_ended = 0
        """Steps of the jobs that ended, remembered ones among them."""
        self._under_way: dict[str, int] = {}
        """By job, its steps so far."""
        self._held_s, self._held_since = 0.0, math.inf
        self._samples: list[tuple[float, int]] = []

    def began(self, now: float) -> None:
        """Jobs begin."""
        self._samples.append((self._time(now), 0))

    @property
    def begun(self) -> bool:
        """Whether any job has begun."""
        return bool(self._samples)

    def stepped(self, job: str, *, replayed: bool) -> None:
        """A step of the job has a result."""
        self._under_way[job] = self._under_way.get(job, 0) + 1
        self._executed += not replayed

    def ended(self, job: str) -> None:
        """The job ended; ending is as much as a step, since some jobs have none."""
        self._of_ended += self._under_way.pop(job, 0) + 1
        self._executed += 1
        self.n_ended += 1

    def counted(self, executed: int) -> None:
        """So many steps were executed, in whatever jobs."""
        self._told += executed

    def ended_in_bulk(self, jobs: int, *, executed: int, steps: int) -> None:
        """So many jobs ended, with so many steps in them, of which so many were executed."""
        self._of_ended += steps + jobs
        self._executed += jobs
        self._told_of_ended += executed
        self.n_ended += jobs

    def hold(self, now: float, *, held: bool) -> None:
        """Nothing can go on (`held`), or it can again: such time is no part of the pace."""
        if held and self._held_since == math.inf:
            self._held_since = now
        elif not held and self._held_since < math.inf:
            self._held_s += now - self._held_since
            self._held_since = math.inf

    def left_s(self, n_left: int, now: float) -> float | None:
        """Seconds for `n_left` jobs, those under way among them; None where it cannot be told."""
        if n_left <= 0:
            return 0.0
        rate = self._steps_per_s(self._time(now))
        if self._held_since < math.inf or self.n_ended < min(FEW, math.ceil((n_left + self.n_ended) / 3)):
            return None
        per_job = self._of_ended / self.n_ended
        # What is further than most are is as good as done.
        done = sum(min(steps, per_job - 1) for steps in self._under_way.values())
        return max(0.0, n_left * per_job - done) / rate if rate else None

    def _time(self, now: float) -> float:
        return min(now, self._held_since) - self._held_s

    def _steps_per_s(self, now: float) -> float:
        """Of the recent past, where enough has happened in it; 0 where none is known."""
        if not self._samples:
            return 0.0
        samples, (first_at, _) = self._samples, self._samples[0]
        # Of jobs under way only the first number has the steps, and it may come later than the second.
        executed = self._executed + max(self._told, self._told_of_ended)
        elapsed = now - first_at
        recent = now - max(WINDOW_S, elapsed / 2)
        since, before = next((one for one in reversed(samples) if one[0] <= recent), samples[0])
        if executed - before < FEW:
            since, before = samples[0]
        if now - samples[-1][0] >= max(1.0, elapsed / SAMPLES):
            samples.append((now, executed))
        return (executed - before) / (now - since) if now > since else 0.0
