"""A worker's budget: what the head allows it, as little ahead of its need as will do.

As `engine.budget`, but its lines move, and whether the budget is spent is not for one worker to say: a call that does
not fit waits until more is allowed, or until the run is stopped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf

from cts_async.config import BudgetConfig
from cts_async.engine.budget import NOTHING, Budget, Deadline, Lines
from cts_async.engine.events import Cost
from cts_async.protocol.resources import deadline_in

LOOK_BACK_S = 1.0
"""A worker's pace is judged by about so much of the time that is past."""
AHEAD = 2
"""How many times what that time took it would like to have besides."""
_GRAIN_S = LOOK_BACK_S / 8


def open_allowed(
    asked: BudgetConfig | None, deadline_s: float | None, wake: Callable[[], None]
) -> AllowedBudget | None:
    """The budget of a worker that is told `asked` and, as the seconds left, the deadline; needs a running loop.

    None where nothing is asked for. `wake` as in AllowedBudget.
    """
    if asked is None or not asked.given:
        return None
    deadline = None
    if asked.deadline is not None and deadline_s is not None:
        deadline = deadline_in(deadline_s, asked.deadline)
    return AllowedBudget(Lines(asked.max_calls, asked.max_tokens, asked.max_usd), deadline, wake)


class AllowedBudget(Budget):
    """Lines where `drawn` has some, at nothing until more is allowed.

    `wake` is called when a call begins to be the next one and has to wait, and when nothing is under way any more
    while one waits: the head had better hear of it at once. It must not call back.
    """

    def __init__(
        self, drawn: Lines, deadline: Deadline | None = None, wake: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(_up_to(drawn, NOTHING), deadline=deadline)
        self._drawn, self._wake = drawn, wake
        self._woken_for: object = None
        self._past: deque[tuple[float, Cost]] = deque([(-inf, NOTHING)])
        """When what was spent and reserved."""

    def allow(self, allowed: Cost) -> None:
        """So much may be spent in all since this worker began; less than before takes effect with the next call."""
        lines = _up_to(self._drawn, allowed)
        if lines != self.lines:
            self.lines = lines
            self._serve()

    @property
    def short(self) -> Cost | None:
        """The most that the next call may cost, where it has to wait."""
        return self._waiting[0][2] if self._waiting else None

    def wants(self) -> Cost:
        """What there would be use for in all: for what is spent, under way or waiting, and for the next two seconds.

        To be asked now and then, since it goes by what has changed in between.
        """
        committed = self.spent + self.reserved
        wanted = committed
        for _, _, most, granted in self._waiting:
            if not granted.done():
                wanted += most
        then = self._a_while_ago(committed)
        return Cost(
            wanted.calls + AHEAD * max(0, committed.calls - then.calls),
            wanted.tokens + AHEAD * max(0.0, committed.tokens - then.tokens),
            wanted.usd + AHEAD * max(0.0, committed.usd - then.usd),
        )

    def _a_while_ago(self, committed: Cost) -> Cost:
        now = asyncio.get_running_loop().time()
        if now - self._past[-1][0] >= _GRAIN_S:
            self._past.append((now, committed))
        while len(self._past) > 1 and self._past[1][0] <= now - LOOK_BACK_S:
            self._past.popleft()
        return self._past[0][1]

    def _left_waiting(self) -> None:
        waits = self._waiting[0][3]
        if waits is not self._woken_for or not self.in_flight:
            self._woken_for = waits
            self._wake()


def _up_to(drawn: Lines, allowed: Cost) -> Lines:
    """What is allowed, where a line is drawn."""
    return Lines(
        None if drawn.max_calls is None else allowed.calls,
        None if drawn.max_tokens is None else allowed.tokens,
        None if drawn.max_usd is None else allowed.usd,
    )
