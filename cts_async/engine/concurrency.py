"""How many requests may be under way at once, found by trying, and which refusals say that it was too many.

The congestion window of TCP with requests for packets: it doubles per round trip until the first cut (slow start,
RFC 5681). Plain AIMD takes every refusal for congestion and settles where a share p of refusals at random lets it,
at sqrt((2 - d) / (2 d p)) requests for a cut by d (Mathis et al., 1997): 7 at 3 %, whatever the server could do. So
refusals are judged by their share, an exponentially weighted average as in DCTCP (Alizadeh et al., 2010; RFC 8257):

- A refusal while the share is below NOISE is isolated: it costs half a place, and its request waits alone.
- Above, it is overload: one cut per episode by half the share (by half at the end of slow start, where RFC 8257
  begins with a share of 1). An episode ends with the first outcome of a request that was sent after the cut.
- After the first cut the window grows by experiments, a round trip each: up to a quarter more places, kept if they
  bring hardly more refusals than before, else taken back; the next one is half as large, and later. Random
  refusals do not depend on the size of the window, so they do not stop its growth; those of a full server do.

Pure. Requests are known by their numbers in the order of sending: `number` is the one that an outcome is of, `sent`
the newest one's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, sqrt
from typing import Final

FIRST: Final = 8.0
"""Places at a provider of which nothing is known."""
NOISE: Final = 0.10
"""Share of refusals below which they are isolated ones."""
MEMORY: Final = 64
"""Outcomes that the share remembers at least. With refusals of 3 % at random it then passes NOISE once in 33,000
outcomes; with 32 once in 1,200, with 16 once in 170."""
LONG_MEMORY: Final = 256
"""Outcomes by which the refusals are known that have nothing to do with the size of the window."""
LEAST_STEP, MOST_STEP = 1 / 16, 1 / 4
"""Places that an experiment adds, as a share of the window."""
MAX_HOLD: Final = 16
"""Most round trips between a failed experiment and the next."""


@dataclass(slots=True)
class Share:
    """An exponentially weighted share of refusals; before the first outcome it is 0."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, refused: float, gain: float) -> None:
        self.total += gain * (refused - self.total)
        self.weight += gain * (1.0 - self.weight)

    @property
    def seen(self) -> float:
        """The share of what there was, be it ever so little; `total` takes what is missing for answers."""
        return self.total / self.weight if self.weight else 0.0


class ConcurrencyWindow:
    """`size` requests may be under way, never more than `ceiling`."""

    __slots__ = (
        "_allowed",
        "_answered",
        "_asking",
        "_cut_at",
        "_extra",
        "_hold",
        "_left",
        "_most_used",
        "_noise",
        "_refused",
        "_round_at",
        "_share",
        "_step",
        "_threshold",
        "_wait",
        "ceiling",
        "size",
    )

    def __init__(self, ceiling: int, *, known: bool) -> None:
        self.ceiling = ceiling
        self.size = float(ceiling) if known else min(FIRST, ceiling)
        self._threshold = inf
        """Slow start ends here; infinite before the first cut."""
        self._share, self._noise = Share(), Share()
        """Of refusals since the last cut, but for what experiments met: lately, and in the long run."""
        self._cut_at = 0
        self._answered = False
        """Whether a request that was sent after the last cut has been answered."""
        self._asking = not known
        """Whether nobody has been answered since a pause for everybody, or at all where nothing is known."""
        self._round_at = 0
        self._left = 0
        """Outcomes until the round trip is over."""
        self._extra = 0.0
        """Places that are an experiment in this round trip; 0 in one without."""
        self._refused, self._allowed = 0, 0.0
        """In this experiment so far, and with how many more it fails."""
        self._most_used = 0
        self._step = MOST_STEP
        self._wait, self._hold = 0, 1
        """Round trips until the next experiment, and after the next one that fails."""

    def answered(self, number: int, sent: int, in_flight: int) -> None:
        """A request was answered while `in_flight` were under way, itself among them."""
        if number <= self._cut_at:
            return
        self._answered, self._asking = True, False
        in_round = number > self._round_at
        if not (in_round and self._extra):
            self._count(0.0)
        if self.size < self._threshold:
            # A window that is not used says nothing about whether a larger one would be good.
            if self.size < self.ceiling and 2 * in_flight >= self.size:
                self.size = min(self.size + 1.0, float(self.ceiling))
                if self.size >= self._threshold:
                    self._wait = 1
                    self._begin_round(sent)
        elif in_round:
            self._most_used = max(self._most_used, in_flight)
            self._end_round(sent)

    def refused(self, number: int, sent: int, in_flight: int) -> bool:
        """A request was refused while `in_flight` were under way, itself among them.

        True if that began an episode of overload; False for an isolated refusal, and for one that an earlier cut
        or an experiment has caused.
        """
        if number <= self._cut_at:
            return False
        in_round = number > self._round_at
        if in_round and self._extra:
            # Perhaps the experiment's own doing: it decides about the experiment and nothing else.
            self._refused += 1
            if self._refused > self._allowed:
                self._fail(sent)
            else:
                self._end_round(sent)
            return False
        self._count(1.0)
        if self._share.total >= NOISE or self._asking:
            self._cut(sent, in_flight)
            return True
        slow_start = self.size < self._threshold
        if slow_start or in_round:
            self.size = max(1.0, self.size - 0.5)
        if not slow_start and in_round:
            self._threshold = min(self._threshold, self.size)
            self._end_round(sent)
        return False

    def resize(self, ceiling: int, *, known: bool) -> None:
        """Another ceiling from now on; what was learned below it stays."""
        if known and self.size >= self.ceiling:
            self.size = float(ceiling)
        self.ceiling = ceiling
        self.size = min(max(self.size, 1.0), float(ceiling))

    def paused(self, *, keep: bool) -> None:
        """Everybody pauses, and one request asks how things stand before the others follow; `keep` lets all ask."""
        if not keep:
            self.size, self._extra = 1.0, 0.0
        self._asking = True

    def reopen(self, *, known: bool) -> None:
        """Begin again after an outage, which said nothing about how much is too much."""
        self.size = min(self.ceiling, self._threshold, inf if known else FIRST)
        self._share, self._noise = Share(), Share()
        self._extra = 0.0

    def _count(self, refused: float) -> None:
        self._share.add(refused, 1.0 / max(MEMORY, self.size))
        self._noise.add(refused, 1.0 / LONG_MEMORY)

    def _cut(self, sent: int, in_flight: int) -> None:
        slow_start = self._threshold == inf
        share = 1.0 if slow_start or self._asking else self._share.seen
        self.size = max(1.0, min(self.size, in_flight) * (1.0 - share / 2))
        if self._answered:  # where everybody is refused, it is not for their number
            self._threshold = self.size
        self._share, self._noise = Share(), Share()
        self._extra, self._answered = 0.0, False
        self._step, self._wait, self._hold = MOST_STEP, 1, 1
        self._cut_at = sent
        self._begin_round(sent)

    def _begin_round(self, sent: int) -> None:
        self._round_at, self._refused, self._most_used = sent, 0, 0
        noise = self._noise.seen * self.size
        # What an experiment brings has to stand out from the noise, whose deviation is its square root.
        least = max(1.0, min(4.0 * sqrt(noise), MOST_STEP * self.size))
        if self._wait <= 0 and self.ceiling - self.size >= least:
            self._extra = min(max(least, self._step * self.size), self.ceiling - self.size)
            self._allowed = noise + self._extra / 2
            self.size += self._extra
        self._left = ceil(self.size)

    def _end_round(self, sent: int) -> None:
        """Another outcome of this round trip; with the last one it ends."""
        self._left -= 1
        if self._left > 0:
            return
        if not self._extra:
            self._wait -= 1
        elif self._most_used > self.size - self._extra:
            self._step, self._hold = min(MOST_STEP, 2 * self._step), 1
        else:
            self.size = max(1.0, self.size - self._extra)  # nobody used it
        self._extra = 0.0
        self._begin_round(sent)

    def _fail(self, sent: int) -> None:
        """Take an experiment back, and what its requests still have to say with it."""
        self.size = max(1.0, self.size - self._extra)
        self._extra = 0.0
        self._step = max(LEAST_STEP, self._step / 2)
        self._wait, self._hold = self._hold, min(2 * self._hold, MAX_HOLD)
        self._cut_at = sent
        self._begin_round(sent)
