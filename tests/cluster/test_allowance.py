"""A worker spends what it is allowed and not a token more, and says in time that it needs more."""

from __future__ import annotations

import asyncio
import time

import pytest
from virtual_time import run_virtual

from cts_async.cluster.allowance import AllowedBudget, open_allowed
from cts_async.config import BudgetConfig
from cts_async.engine.budget import NOTHING, Lines
from cts_async.engine.events import Cost
from cts_async.engine.runner import interrupted
from cts_async.errors import DeadlineReached, Interrupted


class Watched:
    """A budget with a line at 1,000 tokens, of which nothing is allowed yet, and how often it has called."""

    def __init__(self, drawn: Lines | None = None) -> None:
        self.woken = 0
        self.budget = AllowedBudget(drawn or Lines(max_tokens=1_000), wake=self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def asks(self, seq: int, most: float) -> asyncio.Task[None]:
        return asyncio.create_task(self.budget.reserve(seq, Cost(1, most)))


def test_nothing_is_begun_before_something_is_allowed() -> None:
    async def main() -> None:
        watched = Watched()
        call = watched.asks(0, 60)
        await asyncio.sleep(100)
        assert not call.done()
        assert watched.budget.short == Cost(1, 60)
        watched.budget.allow(Cost(1, 59))
        await asyncio.sleep(100)
        assert not call.done()
        watched.budget.allow(Cost(1, 60))
        await call
        assert watched.budget.short is None
        assert watched.budget.reserved == Cost(1, 60)

    run_virtual(main)


def test_what_is_allowed_counts_from_the_beginning() -> None:
    async def main() -> None:
        watched = Watched()
        watched.budget.allow(Cost(9, 100))
        await watched.asks(0, 60)
        watched.budget.settle(Cost(1, 60), Cost(1, 30))
        # 30 are spent: of 100 in all, 70 are left.
        await watched.asks(1, 70)
        last = watched.asks(2, 1)
        await asyncio.sleep(0)
        assert not last.done()
        last.cancel()

    run_virtual(main)


def test_where_no_line_is_drawn_nothing_has_to_be_allowed() -> None:
    async def main() -> None:
        watched = Watched(Lines(max_calls=5))
        watched.budget.allow(Cost(1, 0, 0.0))
        await watched.budget.reserve(0, Cost(1, 1e9, 1e9))

    run_virtual(main)


def test_less_than_before_leaves_what_is_under_way_alone_and_begins_nothing() -> None:
    async def main() -> None:
        watched = Watched()
        watched.budget.allow(Cost(9, 100))
        await watched.asks(0, 60)
        watched.budget.allow(NOTHING)
        waits = watched.asks(1, 10)
        await asyncio.sleep(0)
        assert watched.budget.reserved == Cost(1, 60)
        watched.budget.settle(Cost(1, 60), Cost(1, 20))
        await asyncio.sleep(0)
        assert not waits.done()
        watched.budget.allow(Cost(2, 30))
        await waits

    run_virtual(main)


def test_the_oldest_waits_in_front() -> None:
    async def main() -> None:
        watched = Watched()
        young, old = watched.asks(5, 10), watched.asks(2, 80)
        await asyncio.sleep(0)
        assert watched.budget.short == Cost(1, 80)
        watched.budget.allow(Cost(9, 85))
        await old
        assert not young.done()

    run_virtual(main)


def test_the_head_is_called_when_somebody_begins_to_wait_and_when_nothing_is_under_way_any_more() -> None:
    async def main() -> None:
        watched = Watched()
        watched.budget.allow(Cost(9, 100))
        await watched.asks(0, 50)
        await watched.asks(0, 50)
        assert watched.woken == 0
        first = watched.asks(1, 40)
        await asyncio.sleep(0)
        assert watched.woken == 1
        second = watched.asks(2, 40)
        await asyncio.sleep(0)
        watched.budget.settle(Cost(1, 50), Cost(1, 50))
        assert watched.woken == 1  # known already, and something may return yet
        watched.budget.settle(Cost(1, 50), Cost(1, 50))
        assert watched.woken == 2
        watched.budget.allow(Cost(9, 140))
        await first
        assert watched.woken == 3  # now it is the second who is the next one
        watched.budget.allow(Cost(9, 180))
        await second
        assert watched.woken == 3

    run_virtual(main)


def test_the_same_allowance_again_wakes_nobody() -> None:
    async def main() -> None:
        watched = Watched()
        call = watched.asks(0, 60)
        await asyncio.sleep(0)
        for _ in range(5):
            watched.budget.allow(NOTHING)
        assert watched.woken == 1
        call.cancel()

    run_virtual(main)


def test_a_worker_wants_what_waits_and_twice_what_the_last_second_took() -> None:
    async def main() -> None:
        watched = Watched()
        budget = watched.budget
        assert budget.wants() == NOTHING
        waits = [watched.asks(i, 50) for i in range(3)]
        await asyncio.sleep(0.5)
        assert budget.wants() == Cost(3, 150)  # nothing was taken so far
        budget.allow(Cost(2, 100))
        await asyncio.sleep(0.1)
        # 100 taken, 50 waiting, and two were begun within a second.
        assert budget.wants() == Cost(2 + 1 + 2 * 2, 100 + 50 + 2 * 100)
        waits[2].cancel()
        await asyncio.sleep(0.2)
        assert budget.wants() == Cost(2 + 2 * 2, 100 + 2 * 100)
        budget.settle(Cost(1, 50), Cost(1, 10))
        await asyncio.sleep(2.0)
        assert budget.wants() == Cost(2, 60)  # idle since: no more than it has

    run_virtual(main)


def test_who_waits_when_the_run_stops_is_told_why() -> None:
    async def main() -> None:
        watched = Watched()
        call = watched.asks(0, 60)
        await asyncio.sleep(0)
        watched.budget.stop(interrupted())
        with pytest.raises(Interrupted):
            await call
        assert watched.budget.short is None

    run_virtual(main)


def test_a_deadline_comes_as_the_seconds_that_are_left() -> None:
    async def main() -> None:
        # The worker's own clock is an hour behind: what counts is what the head measured.
        asked = BudgetConfig(deadline=time.time() + 3_630)
        budget = open_allowed(asked, 30.0, lambda: None)
        assert budget is not None
        assert budget.deadline is not None
        assert budget.deadline.at == pytest.approx(30.0)
        with pytest.raises(DeadlineReached, match="resumes"):
            budget.deadline.check("lane", 30.1)
        await budget.reserve(0, Cost(1, 1e9))  # no line is drawn

    run_virtual(main)


def test_lines_are_drawn_where_they_were_asked_for() -> None:
    async def main() -> None:
        budget = open_allowed(BudgetConfig(max_tokens=500, max_usd=2.0), None, lambda: None)
        assert budget is not None
        assert budget.deadline is None
        assert budget.lines == Lines(max_tokens=0, max_usd=0)
        budget.allow(Cost(3, 70, 0.5))
        assert budget.lines == Lines(max_tokens=70, max_usd=0.5)

    run_virtual(main)


def test_where_nothing_is_asked_for_there_is_no_budget() -> None:
    assert open_allowed(None, None, lambda: None) is None
    assert open_allowed(BudgetConfig(), None, lambda: None) is None
