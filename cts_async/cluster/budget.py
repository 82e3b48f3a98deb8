"""A budget for all workers together: the head hands out allowances, and workers spend within them.

What a worker may have spent is never more than the larger of its last allowance and what it says was spent and
reserved. The sum of that over all workers, with what earlier sessions spent, stays within every line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cts_async.cluster.messages import News
from cts_async.config import BudgetConfig
from cts_async.engine.budget import NOTHING, Budget, Deadline, Lines, exhausted
from cts_async.engine.events import BudgetUsed, Cost, Events
from cts_async.errors import BudgetSpent
from cts_async.protocol.resources import deadline_in


def allowed_budget(
    asked: BudgetConfig | None, deadline_s: float | None, wake: Callable[[], None]
) -> AllowedBudget | None:
    """A worker's budget, None where none is asked for; `deadline_s` are the seconds left."""
    if asked is None or not asked.given:
        return None
    deadline = None
    if asked.deadline is not None and deadline_s is not None:
        deadline = deadline_in(deadline_s, asked.deadline)
    return AllowedBudget(Lines(asked.max_calls, asked.max_tokens, asked.max_usd), deadline, wake)


class AllowedBudget(Budget):
    """A worker's part of a budget. A call that does not fit waits until more is allowed, or until the run is stopped.

    `wake` is called when the head should hear of that.
    """

    def __init__(self, drawn: Lines, deadline: Deadline | None, wake: Callable[[], None]) -> None:
        super().__init__(_within(drawn, NOTHING), deadline=deadline)
        self._drawn, self._wake = drawn, wake
        self._woken_for: object = None

    def allow(self, allowed: Cost) -> None:
        """So much may be spent in all since this worker began; a smaller sum counts from the next call on."""
        lines = _within(self._drawn, allowed)
        if lines != self.lines:
            self.lines = lines
            self._serve()

    @property
    def short(self) -> Cost | None:
        """The most that the next call may cost, if it has to wait."""
        return self._waiting[0][2] if self._waiting else None

    def _left_waiting(self) -> None:
        waits = self._waiting[0][3]
        if waits is not self._woken_for or not self.in_flight:
            self._woken_for = waits
            self._wake()


@dataclass(slots=True)
class _Share:
    """A worker's part: what it said last, and the most that it may have spent."""

    spent: Cost = NOTHING
    committed: Cost = NOTHING
    """Spent and reserved."""
    allowed: Cost = NOTHING
    ceiling: Cost = NOTHING
    """What it was allowed, or the allowance before that while it may not know of the last one."""
    short: Cost | None = None

    @property
    def held(self) -> Cost:
        return _most(self.ceiling, self.committed)


class BudgetPool:
    """The head's side: `allow` before each turn of a worker, `heard` after it, `lost` when it is gone."""

    def __init__(self, lines: Lines, spent: Cost, events: Events) -> None:
        self._lines, self._events = lines, events
        self._before = spent
        """Spent by earlier sessions, and at most by workers that are gone."""
        self._shares: dict[str, _Share] = {}

    def joined(self, worker: str) -> None:
        self._shares[worker] = _Share()

    def allow(self, worker: str) -> Cost:
        """What a worker may spend in all: a part of what is left, or nothing more while others are short of it."""
        share = self._shares[worker]
        others = [one for name, one in self._shares.items() if name != worker]
        held = sum((one.held for one in others), self._before + share.committed)
        free = self._left(held)
        if share.short:
            if self._lines.crossed(held + share.short):
                free = NOTHING  # another's next call may need less
        elif any(one.short for one in others):
            free = NOTHING
        else:
            n = len(self._shares)
            free = Cost(free.calls // n, free.tokens / n, free.usd / n)
        share.allowed = share.committed + free
        share.ceiling = _most(share.ceiling, share.allowed)
        return share.allowed

    def heard(self, worker: str, news: News) -> None:
        """What a worker has spent and reserved, after its last allowance."""
        share = self._shares[worker]
        changed = news.spent != share.spent
        share.ceiling = share.allowed
        share.spent, share.committed, share.short = news.spent, news.spent + news.reserved, news.short
        if changed:
            spent = sum((one.spent for one in self._shares.values()), self._before)
            lines = self._lines
            self._events.emit(BudgetUsed(spent, lines.max_calls, lines.max_tokens, lines.max_usd))

    def lost(self, worker: str) -> None:
        """A worker is gone: all that it may have spent counts as spent."""
        if share := self._shares.pop(worker, None):
            self._before += share.held

    def left(self, worker: str) -> None:
        """A worker has ended in order."""
        if share := self._shares.pop(worker, None):
            self._before += share.spent

    def spent(self) -> BudgetSpent | None:
        """The reason to stop, if a call waits that will never fit, since nothing is under way or allowed elsewhere."""
        shares = list(self._shares.values())
        if any((one.committed if one.short else one.held) != one.spent for one in shares):
            return None
        total = sum((one.spent for one in shares), self._before)
        waiting = [one.short for one in shares if one.short]
        if not waiting or not all(self._lines.crossed(total + short) for short in waiting):
            return None
        return exhausted(self._lines, total, waiting[0])

    def _left(self, total: Cost) -> Cost:
        lines = self._lines
        return Cost(
            0 if lines.max_calls is None else max(0, lines.max_calls - total.calls),
            0.0 if lines.max_tokens is None else max(0.0, lines.max_tokens - total.tokens),
            0.0 if lines.max_usd is None else max(0.0, lines.max_usd - total.usd),
        )


def _within(drawn: Lines, allowed: Cost) -> Lines:
    """What is allowed, where a line is drawn."""
    return Lines(
        None if drawn.max_calls is None else allowed.calls,
        None if drawn.max_tokens is None else allowed.tokens,
        None if drawn.max_usd is None else allowed.usd,
    )


def _most(one: Cost, other: Cost) -> Cost:
    return Cost(max(one.calls, other.calls), max(one.tokens, other.tokens), max(one.usd, other.usd))
