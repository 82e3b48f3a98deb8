"""A budget: no attempt is sent that could exceed a limit of calls, tokens or dollars, or end after a deadline.

Before an attempt the most it may cost is reserved; afterwards its true cost replaces the reservation. So while no
attempt costs more than was reserved for it, the amount spent never exceeds a limit, whatever is in flight and in
whatever order it returns; an attempt that costs more may exceed it by that excess. Oldest first, as everywhere: a
reservation that does not fit waits until something in flight returns, and only when nothing is in flight any more is
the budget spent.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from statistics import median

from cts_async.engine.events import BudgetUsed, Cost, Events
from cts_async.errors import BudgetSpent, DeadlineReached, RunStopped

NOTHING = Cost()
GRAIN_USD = 1e-9
"""Sums of dollars are compared to within this: smaller differences are rounding."""
REMEMBERED = 50
"""The latest latencies of a lane from which its next step's duration is predicted."""


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """The limits of a budget; None where there is none."""

    max_calls: int | None = None
    max_tokens: float | None = None
    max_usd: float | None = None

    def exceeded(self, total: Cost) -> str | None:
        """The first limit that `total` exceeds ("calls", "tokens", "usd"), if any; equal to it is within."""
        if self.max_calls is not None and total.calls > self.max_calls:
            return "calls"
        if self.max_tokens is not None and total.tokens > self.max_tokens:
            return "tokens"
        if self.max_usd is not None and total.usd > self.max_usd + GRAIN_USD:
            return "usd"
        return None


class Deadline:
    """A time by which the run is over: `at` by the loop's clock, `text` in messages.

    A step is started while at least half of its lane's last 50 attempts took no longer than the time that is left, and
    always before its lane has finished any.
    """

    def __init__(self, at: float, text: str) -> None:
        self.at, self._text = at, text
        self._latencies: defaultdict[str, deque[float]] = defaultdict(partial(deque, maxlen=REMEMBERED))

    def learn(self, lane: str, latency_s: float) -> None:
        """Record an attempt's duration."""
        self._latencies[lane].append(latency_s)

    def check(self, lane: str, now: float) -> None:
        """Raise DeadlineReached if a step that starts now is unlikely to end in time."""
        expected_s = 0.0
        latencies = self._latencies.get(lane)
        if latencies:
            expected_s = median(latencies)
        if now + expected_s >= self.at:
            raise self.reached("is too near to start anything more")

    def reached(self, problem: str = "has come") -> DeadlineReached:
        """The reason to stop with."""
        return DeadlineReached(
            f"the deadline ({self._text}) {problem}; completed work is saved, the same command with a later "
            "--deadline resumes"
        )


class Budget:
    """Call `reserve`, then `settle` the same amount exactly once. `spent` begins with what earlier sessions spent."""

    def __init__(
        self,
        limits: BudgetLimits,
        spent: Cost = NOTHING,
        *,
        deadline: Deadline | None = None,
        events: Events | None = None,
    ) -> None:
        self.limits, self.spent, self.deadline = limits, spent, deadline
        self.reserved = NOTHING
        self.in_flight = 0
        if events is None:
            events = Events()
        self._events = events
        self._waiting: list[tuple[int, int, Cost, asyncio.Future[None]]] = []
        self._order = count()
        self._stopped: RunStopped | None = None

    async def reserve(self, seq: int, cost: Cost) -> None:
        """Reserve the most that one attempt may cost; lower `seq` (older job) goes first.

        Raises BudgetSpent if it does not fit though nothing is in flight any more, RunStopped when the run ends while
        waiting. Cancelling a waiter reserves nothing.
        """
        if self._stopped:
            raise self._stopped
        if not self._waiting and self._fits(cost):
            self._take(cost)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The number keeps the order of equally old ones, and the heap from comparing costs.
        heappush(self._waiting, (seq, next(self._order), cost, granted))
        self._serve()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                # Granted and cancelled in the same turn of the loop.
                self.settle(cost, NOTHING)
            else:
                self._serve()  # others may have waited behind it
            raise

    def settle(self, reserved: Cost, true: Cost) -> None:
        """Replace the reservation of an attempt that is over by its `true` cost (NOTHING: it was never sent)."""
        self.in_flight -= 1
        self.reserved -= reserved
        if not self.in_flight:
            # Sums of fractions drift: with nothing in flight, nothing is reserved.
            self.reserved = NOTHING
        self.spent += true
        limits = self.limits
        self._events.emit(BudgetUsed(self.spent, limits.max_calls, limits.max_tokens, limits.max_usd))
        self._serve()

    def stop(self, reason: RunStopped) -> None:
        """Grant no reservation any more; `reason` is raised in all waiters."""
        self._stopped = self._stopped or reason
        for _, _, _, granted in self._waiting:
            if not granted.done():
                granted.set_exception(reason)
        self._waiting.clear()

    def _fits(self, cost: Cost) -> bool:
        return self.limits.exceeded(self.spent + self.reserved + cost) is None

    def _take(self, cost: Cost) -> None:
        self.in_flight += 1
        self.reserved += cost

    def _serve(self) -> None:
        while self._waiting:
            _, _, cost, granted = self._waiting[0]
            if not granted.done():
                if not self._fits(cost):
                    break  # a smaller one further behind waits, too: the oldest goes first
                self._take(cost)
                granted.set_result(None)
            heappop(self._waiting)
        # Nothing is in flight that could give back what it does not use: the oldest would wait for ever.
        if self._waiting and not self.in_flight:
            self.stop(exhausted(self.limits, self.spent, self._waiting[0][2]))


def exhausted(limits: BudgetLimits, spent: Cost, next_cost: Cost) -> BudgetSpent:
    """The reason to stop where a call that may cost `next_cost` exceeds a limit, and nothing will be given back."""
    name = limits.exceeded(spent + next_cost)
    assert name, "a reservation that fits is granted"
    used, limit = amount(name, getattr(spent, name)), amount(name, getattr(limits, f"max_{name}"))
    may_cost = ""
    if name != "calls":
        may_cost = f", and the next call may cost {amount(name, getattr(next_cost, name))}"
    return BudgetSpent(
        f"the budget is spent: {used} of --max-{name} {limit}{may_cost}; "
        f"the same command with a higher --max-{name} resumes"
    )


def amount(name: str, value: float) -> str:
    """A number as people read it: `$0.0312`, `12,000`; dollars to a millionth below one."""
    if name != "usd":
        return f"{value:,.0f}"
    if value >= 1 or value == 0:
        return f"${value:,.2f}"
    return "$" + f"{value:.6f}".rstrip("0")
