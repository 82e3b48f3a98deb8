"""Outages and overload of a provider: the circuit breaker, refusals, and the window of concurrent requests.

All are state machines without clock or I/O: the caller passes the time (seconds, monotonic), and numbers requests in
the order of sending: `number` is that of the request whose outcome is reported, `sent` that of the newest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf, sqrt
from typing import Final

# --- The circuit breaker --------------------------------------------------------------------------------
#
# Closed (normal), open (an outage: nobody sends), probing (one request tests the provider). Two rules. An outage must be
# the provider's, not one poisoned request's, so failures of a single step open the circuit only when the provider could
# not be reached at all, or says that it serves nobody (503, 529). And while it is open, one probe at a time is sent,
# ever more rarely, so that probing prolongs an outage by a sixtieth at most.

PROBE_SHARE: Final = 1 / 60
"""The time until the next probe as a share of the outage so far."""
FEW: Final = 3
"""The most steps that may all be poisoned; more failing steps are an outage."""
PROBE_PATIENCE_S: Final = 5.0
"""How long a probe without an outcome blocks the next."""


@dataclass(slots=True)
class Circuit:
    """`threshold` transient failures in a row, with no success in between, open the circuit."""

    threshold: int = 5
    first_probe_s: float = 1.0
    max_probe_s: float = 30.0
    opened_at: float | None = None
    reason: str = ""
    _failures: int = 0
    _failed_steps: set[str] = field(default_factory=set)
    _own_fault: bool = True
    _probing: bool = False
    _next_probe_at: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    def wait_s(self, now: float) -> float:
        """Seconds until a request may be sent; 0 means now."""
        if self.opened_at is None:
            return 0.0
        return max(0.0, self._next_probe_at - now)

    def sending(self, now: float) -> bool:
        """Record that a request is sent. True if the circuit is open, and the request is its probe."""
        if self.opened_at is None:
            return False
        # A probe that hangs must not hide for as long that the provider is back.
        self._probing = True
        self._next_probe_at = now + max(PROBE_PATIENCE_S, self._pause_s(now))
        return True

    def abandoned(self, now: float) -> None:
        """Record that the probe ended without a verdict on the provider (cancelled): another may be sent."""
        if self._probing:
            self._probing, self._next_probe_at = False, now

    def suspects(self) -> frozenset[str]:
        """The failing steps where the provider may be up: so few that all of them may be poisoned, and none failed in
        a way that only the provider can cause. Empty where it is an outage."""
        if self._own_fault and len(self._failed_steps) <= FEW:
            return frozenset(self._failed_steps)
        return frozenset()

    @property
    def is_quiet(self) -> bool:
        """True if an answer would change nothing here: no failure has been counted since the last one."""
        return not self._failures and self.opened_at is None

    def succeeded(self) -> bool:
        """Record that the provider answered. True if that ended an outage."""
        if not self._failures and self.opened_at is None:
            return False
        was_open = self.is_open
        self.opened_at, self._failures, self._probing, self._own_fault = None, 0, False, True
        self._failed_steps.clear()
        return was_open

    def failed(
        self,
        now: float,
        step_key: str,
        reason: str,
        *,
        whole_server: bool,
        probe: bool = False,
        own_fault: bool = False,
    ) -> bool:
        """Record a failure of a `probe` or another request, which may be the request's `own_fault`, or say that the
        `whole_server` is unreachable or overloaded.

        True if that began an outage.
        """
        self._failures += 1
        self._own_fault = self._own_fault and own_fault
        self._failed_steps.add(step_key)
        if self.opened_at is not None:
            # Requests sent before the outage still fail for a while: they are not the probe's verdict.
            if probe:
                self._schedule_probe(now)
            return False
        if self._failures < self.threshold:
            return False
        if len(self._failed_steps) < 2 and not whole_server:
            return False  # it may be poisoned
        self.opened_at, self.reason = now, reason
        self._schedule_probe(now)
        return True

    def _schedule_probe(self, now: float) -> None:
        self._next_probe_at = now + self._pause_s(now)
        self._probing = False

    def _pause_s(self, now: float) -> float:
        lasted_s = 0.0
        if self.opened_at is not None:
            lasted_s = now - self.opened_at
        return min(self.max_probe_s, max(self.first_probe_s, lasted_s * PROBE_SHARE))


# --- Refusals -------------------------------------------------------------------------------------------
#
# Two kinds of refusal may be about one request or about the account: 429 (a request larger than the account's limits, or
# an account without quota) and 403 (a content filter or firewall, or an account without rights). What tells them apart
# is whether others are answered.

OVERTAKEN: Final = 2
"""How often others were answered between two refusals of a step before it counts as refused for good. With 3 % of
random refusals that happens to one step in 37,000."""
MOST_OVERTAKEN: Final = 10_000
"""Steps that are remembered as overtaken; older ones are forgotten together."""


@dataclass(slots=True)
class LimitedSteps:
    """Steps refused for the account's limits since its last answer: in an outage, or each for good."""

    counts: Counter[str] = field(default_factory=Counter)
    """Refusals by step since the last answer."""
    _since: float = 0.0
    unanswered: dict[str, int] = field(default_factory=dict)
    """By refused step, the number of the newest request when it was last refused; while there are any, each answer has
    to be recorded."""
    _overtaken: Counter[str] = field(default_factory=Counter)

    def refused(self, now: float, step_key: str, sent: int) -> None:
        """Record that a step was refused."""
        if not self.counts:
            self._since = now
        self.counts[step_key] += 1
        self.unanswered[step_key] = sent

    def answered(self, number: int) -> None:
        """Record that the provider answered a request of any step."""
        if len(self._overtaken) > MOST_OVERTAKEN:
            self._overtaken.clear()
        # What was sent before a step was refused says nothing about the account since.
        overtaken = [step_key for step_key, sent in self.unanswered.items() if number > sent]
        for step_key in overtaken:
            self._overtaken[step_key] += 1
            del self.unanswered[step_key]
        self.counts.clear()

    def idled(self, seconds: float) -> None:
        """Record that nobody wanted an answer for some time: that is no part of an outage."""
        self._since += seconds

    def lasted_s(self, now: float) -> float:
        """Seconds since the first refusal after the last answer; 0 without one."""
        if not self.counts:
            return 0.0
        return now - self._since

    @property
    def are_many(self) -> bool:
        """True if so many steps are refused that it cannot be the fault of all of them."""
        return len(self.counts) > FEW

    @property
    def is_outage(self) -> bool:
        """True if nothing shows that it is the refused steps' own fault, however few they are."""
        return self.are_many or any(not self.is_hopeless(step_key) for step_key in self.counts)

    def is_hopeless(self, step_key: str) -> bool:
        """True if a step was refused again and again while others were answered."""
        return self._overtaken[step_key] >= OVERTAKEN


@dataclass(slots=True)
class ForbiddenSteps:
    """Steps refused with 403 in a row: a few may be refused for their content, more are an account that is."""

    steps: set[str] = field(default_factory=set)

    def forbidden(self, step_key: str) -> bool:
        """Record a 403 that names neither key nor account. True if it has to be the account's."""
        self.steps.add(step_key)
        return len(self.steps) > FEW

    def answered(self) -> None:
        """Record that the provider answered a request: its key is good."""
        self.steps.clear()


# --- The window of concurrent requests ------------------------------------------------------------------
#
# How many requests may be in flight at once, and which refusals mean that it was too many.
#
# The congestion window of TCP with requests for packets: it doubles per round trip until the first cut (slow start,
# RFC 5681). Plain AIMD takes every refusal for congestion and settles where a share p of random refusals lets it, at
# sqrt((2 - d) / (2 d p)) requests for a cut by d (Mathis et al., 1997): 7 at 3 %, whatever the server could do. So
# refusals are judged by their share, an exponentially weighted average as in DCTCP (Alizadeh et al., 2010; RFC 8257):
#
# - A refusal while the share is below NOISE is isolated: it costs half a slot, and only its own request waits.
# - Above, it is overload: one cut per episode by half the share (by half at the end of slow start, where RFC 8257
#   begins with a share of 1). An episode ends with the first outcome of a request that was sent after the cut.
# - After the first cut the window grows by experiments of a round trip each: up to a quarter more slots, kept if they
#   bring hardly more refusals than before, else taken back; the next one is half as large, and later. Random refusals
#   do not depend on the size of the window, so they do not stop its growth; those of a full server do.

FIRST: Final = 8.0
"""Slots at a provider with unknown limits."""
NOISE: Final = 0.10
"""Share of refusals below which they count as isolated."""
MEMORY: Final = 64
"""Outcomes that the share averages over at least. With 3 % of random refusals it then exceeds NOISE once in 33,000
outcomes; with 32 once in 1,200, with 16 once in 170 (simulated)."""
LONG_MEMORY: Final = 256
"""Outcomes that the share of random refusals averages over, those that do not depend on the window's size."""
LEAST_STEP, MOST_STEP = 1 / 16, 1 / 4
"""Slots that an experiment adds, as a share of the window."""
MAX_HOLD: Final = 16
"""The most round trips between a failed experiment and the next."""


@dataclass(slots=True)
class Share:
    """An exponentially weighted share of refusals; before the first outcome it is 0."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, refused: float, gain: float) -> None:
        self.total += gain * (refused - self.total)
        self.weight += gain * (1.0 - self.weight)

    def add_answers(self, n: int, gain: float) -> None:
        """`add` for `n` requests that were answered."""
        total, weight = self.total, self.weight
        for _ in range(n):
            total -= gain * total
            weight += gain * (1.0 - weight)
        self.total, self.weight = total, weight

    @property
    def seen(self) -> float:
        """The share among the outcomes so far, however few; `total` counts missing ones as answered."""
        if not self.weight:
            return 0.0
        return self.total / self.weight


class ConcurrencyWindow:
    """`size` requests may be in flight, never more than `ceiling`."""

    def __init__(self, ceiling: int, *, limits_known: bool) -> None:
        self.ceiling = ceiling
        # With limits that gates keep there is nothing to find.
        self.size = float(ceiling) if limits_known else min(FIRST, ceiling)
        self._threshold = inf
        """Slow start ends here; infinite before the first cut."""
        self._share, self._noise = Share(), Share()
        """Refusals since the last cut outside experiments: lately, and in the long run."""
        self._cut_at = 0
        self._answered = False
        """True if a request that was sent after the last cut has been answered."""
        self._asking = not limits_known
        """True while no request has been answered since a pause for all, or at all where limits are unknown."""
        self._round_at = 0
        self._left = 0
        """Outcomes until the round trip ends."""
        self._extra = 0.0
        """Slots that are an experiment in this round trip; 0 without one."""
        self._refused, self._allowed = 0, 0.0
        """Refusals in this experiment, and the number above which it fails."""
        self._most_used = 0
        self._step = MOST_STEP
        self._wait, self._hold = 0, 1
        """Round trips until the next experiment, and until another after the next one that fails."""

    def answered(self, number: int, sent: int, in_flight: int) -> None:
        """Record that a request was answered while `in_flight` were in flight, itself included."""
        if number <= self._cut_at:
            return
        self._answered, self._asking = True, False
        in_round = number > self._round_at
        if not (in_round and self._extra):
            self._count(0.0)
        if self.size < self._threshold:
            # A window that is not used does not show whether a larger one would be good.
            if self.size < self.ceiling and 2 * in_flight >= self.size:
                self.size = min(self.size + 1.0, float(self.ceiling))
                if self.size >= self._threshold:
                    self._wait = 1
                    self._begin_round(sent)
        elif in_round:
            self._most_used = max(self._most_used, in_flight)
            self._end_round(sent)

    def answered_together(self, numbers: Sequence[int], sent: int, in_flight: int, n_waiting: int) -> None:
        """`answered` for several requests, each of which leaves its place to one of `n_waiting`, if there are any."""
        is_full = self.size == self.ceiling and self.size < self._threshold
        if not is_full or self._extra or not numbers or min(numbers) <= self._cut_at:
            for number in numbers:
                self.answered(number, sent, in_flight)
                if n_waiting:
                    n_waiting -= 1
                    sent += 1
                else:
                    in_flight -= 1
            return
        # At its ceiling, and never cut: there is nothing but to count.
        self._answered, self._asking = True, False
        self._share.add_answers(len(numbers), 1.0 / max(self.size, MEMORY))
        self._noise.add_answers(len(numbers), 1.0 / LONG_MEMORY)

    def refused(self, number: int, sent: int, in_flight: int) -> bool:
        """Record that a request was refused while `in_flight` were in flight, itself included.

        True if that begins an episode of overload; False for an isolated refusal, and for one that belongs to an
        earlier cut or an experiment.
        """
        if number <= self._cut_at:
            return False
        in_round = number > self._round_at
        if in_round and self._extra:
            # Perhaps caused by the experiment: it decides about the experiment and nothing else.
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

    def paused(self, *, keep: bool) -> None:
        """Record a pause for all callers: one request goes before the others follow, unless `keep`."""
        if not keep:
            self.size, self._extra = 1.0, 0.0
        self._asking = True

    def lower_ceiling(self, places: int) -> None:
        """Allow at most so many requests in flight from now on, and one at least."""
        self.ceiling = min(self.ceiling, max(1, places))
        self.size = min(self.size, float(self.ceiling))
        self._extra = 0.0

    def reopen(self, *, limits_known: bool) -> None:
        """Begin again after an outage, which showed nothing about how many requests are too many."""
        self.size = min(self.ceiling, self._threshold)
        if not limits_known:
            self.size = min(self.size, FIRST)
        self._share, self._noise = Share(), Share()
        self._extra = 0.0

    def _count(self, refused: float) -> None:
        memory = self.size
        if memory < MEMORY:
            memory = MEMORY
        self._share.add(refused, 1.0 / memory)
        self._noise.add(refused, 1.0 / LONG_MEMORY)

    def _cut(self, sent: int, in_flight: int) -> None:
        share = self._share.seen
        # The end of slow start, or a server that has answered nothing since a pause.
        if self._threshold == inf or self._asking:
            share = 1.0
        self.size = max(1.0, min(self.size, in_flight) * (1.0 - share / 2))
        if self._answered:  # where all requests are refused, it is not for their number
            self._threshold = self.size
        self._share, self._noise = Share(), Share()
        self._extra, self._answered = 0.0, False
        self._step, self._wait, self._hold = MOST_STEP, 1, 1
        self._cut_at = sent
        self._begin_round(sent)

    def _begin_round(self, sent: int) -> None:
        self._round_at, self._refused, self._most_used = sent, 0, 0
        noise = self._noise.seen * self.size
        # An experiment's refusals have to stand out from the noise, whose deviation is its square root.
        least = max(1.0, min(4.0 * sqrt(noise), MOST_STEP * self.size))
        if self._wait <= 0 and self.ceiling - self.size >= least:
            self._extra = min(max(least, self._step * self.size), self.ceiling - self.size)
            self._allowed = noise + self._extra / 2
            self.size += self._extra
        self._left = ceil(self.size)

    def _end_round(self, sent: int) -> None:
        """Count an outcome of this round trip, which ends with the last one."""
        self._left -= 1
        if self._left > 0:
            return
        if not self._extra:
            self._wait -= 1
        elif self._most_used > self.size - self._extra:
            self._step, self._hold = min(MOST_STEP, 2 * self._step), 1
        else:
            self.size = max(1.0, self.size - self._extra)  # the extra slots were not used
        self._extra = 0.0
        self._begin_round(sent)

    def _fail(self, sent: int) -> None:
        """Take an experiment back; outcomes of its requests that are still to come are ignored."""
        self.size = max(1.0, self.size - self._extra)
        self._extra = 0.0
        self._step = max(LEAST_STEP, self._step / 2)
        self._wait, self._hold = self._hold, min(2 * self._hold, MAX_HOLD)
        self._cut_at = sent
        self._begin_round(sent)
