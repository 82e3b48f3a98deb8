"""Arithmetic of progress: the growth of a counter in the last minute, a running mean, and the time left."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Final

MINUTE_S: Final = 60.0
RESOLUTION_S: Final = 0.5
"""Readings closer together than this are not kept."""
MIN_JOBS: Final = 3
"""Jobs that must end before a time is estimated; a third of all jobs if that is less."""
WINDOW_S: Final = 60.0
"""The pace is measured over the second half of the time, and over WINDOW_S at least."""
SAMPLES: Final = 100
_Z: Final = 1.959964
_T_975: Final = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""97.5 % points of Student's t for 1 to 10 degrees of freedom."""


class LastMinute:
    """Growth of a counter in the last minute. `now` is in seconds and never decreases."""

    def __init__(self, now: float, total: float) -> None:
        self._readings: deque[tuple[float, float]] = deque([(now, total)])

    def grown(self, now: float, total: float) -> float:
        """What was added in the last minute, or since the first reading if that is less long ago."""
        readings = self._readings
        while len(readings) > 1 and readings[1][0] <= now - MINUTE_S:
            readings.popleft()
        since = readings[0][1]
        if now - readings[-1][0] >= RESOLUTION_S:
            readings.append((now, total))
        return total - since


class RunningMean:
    """Mean and variance after Welford (1962): no score is kept, and rounding errors do not accumulate."""

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
        """mean ± t · s / sqrt(n), Student's t with n - 1 degrees of freedom; None for fewer than two scores."""
        if self.n < 2:
            return None
        half = t_975(self.n - 1) * math.sqrt(self._squares / (self.n - 1) / self.n)
        return self.mean - half, self.mean + half


def t_975(df: int) -> float:
    """The 97.5 % point of Student's t with `df` >= 1 degrees of freedom, within 0.0002.

    Beyond the table the expansion of Abramowitz and Stegun, 26.7.5: importing scipy.stats would delay every run.
    """
    if df <= len(_T_975):
        return _T_975[df - 1]
    z, z3, z5, z7 = _Z, _Z**3, _Z**5, _Z**7
    first, second = (z3 + z) / 4, (5 * z5 + 16 * z3 + 3 * z) / 96
    third = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384
    return z + first / df + second / df**2 + third / df**3


class Pace:
    """Time left for a group of jobs, from steps: jobs may be long and end all at once.

    Replayed steps take no time and do not count towards the pace. Until some jobs have ended, nobody knows how many
    steps a job has, and no time is estimated. Times are seconds of one clock, which `hold` stops.
    """

    def __init__(self) -> None:
        self.n_ended = 0
        self._executed = 0
        """Steps executed, and jobs ended."""
        self._counted, self._counted_of_ended = 0, 0
        """Steps reported in bulk as executed: all, and those of ended jobs."""
        self._of_ended = 0
        """Steps of ended jobs, replayed ones included."""
        self._active: dict[str, int] = {}
        """By unfinished job, its steps so far."""
        self._held_s, self._held_since = 0.0, math.inf
        self._samples: list[tuple[float, int]] = []

    def began(self, now: float) -> None:
        """The first job begins; later calls do nothing."""
        if not self._samples:
            self._samples.append((self._time(now), 0))

    def stepped(self, job: str, *, replayed: bool) -> None:
        """A step of a job has a result."""
        self._active[job] = self._active.get(job, 0) + 1
        self._executed += not replayed

    def ended(self, job: str) -> None:
        """A job ended. This counts like a step, since some jobs have none."""
        self.ended_in_bulk(1, executed=0, steps=self._active.pop(job, 0))

    def counted(self, executed: int) -> None:
        """Steps were executed, in whichever jobs."""
        self._counted += executed

    def ended_in_bulk(self, jobs: int, *, executed: int, steps: int) -> None:
        """Jobs ended that had `steps` steps, of which `executed` were executed."""
        self._of_ended += steps + jobs
        self._executed += jobs
        self._counted_of_ended += executed
        self.n_ended += jobs

    def hold(self, now: float, *, held: bool) -> None:
        """Stop the clock while nothing can proceed (`held`)."""
        if held and self._held_since == math.inf:
            self._held_since = now
        elif not held and self._held_since < math.inf:
            self._held_s += now - self._held_since
            self._held_since = math.inf

    def left_s(self, n_left: int, now: float) -> float | None:
        """Seconds for `n_left` jobs, active ones included; None while unknown."""
        if n_left <= 0:
            return 0.0
        rate = self._steps_per_s(self._time(now))
        if self._held_since < math.inf or self.n_ended < min(
            MIN_JOBS, math.ceil((n_left + self.n_ended) / 3)
        ):
            return None
        per_job = self._of_ended / self.n_ended
        # A job that has more steps than the average is nearly done.
        done = sum(min(steps, per_job - 1) for steps in self._active.values())
        return max(0.0, n_left * per_job - done) / rate if rate else None

    def _time(self, now: float) -> float:
        return min(now, self._held_since) - self._held_s

    def _steps_per_s(self, now: float) -> float:
        """Recent rate if enough happened recently; 0 while unknown."""
        if not self._samples:
            return 0.0
        samples, (first_at, _) = self._samples, self._samples[0]
        # Only the first of the two bulk counts knows active jobs, but it may arrive later than the second.
        executed = self._executed + max(self._counted, self._counted_of_ended)
        elapsed = now - first_at
        recent = now - max(WINDOW_S, elapsed / 2)
        since, before = next((one for one in reversed(samples) if one[0] <= recent), samples[0])
        if executed - before < MIN_JOBS:
            since, before = samples[0]
        if now - samples[-1][0] >= max(1.0, elapsed / SAMPLES):
            samples.append((now, executed))
        return (executed - before) / (now - since) if now > since else 0.0
