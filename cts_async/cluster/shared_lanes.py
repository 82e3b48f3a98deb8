"""A worker's lanes: each account's part that the limiter lets it have, kept up by asking over and over.

One ask is always with the limiter. A second goes when there is something new to ask for or to say; the limiter then
answers the first at once. Without an answer for `PLACES_S` nothing more is sent.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Final

import anyio

from cts_async.cluster.asks import HOLD_S, PLACES_S, Ask, Grant, LaneGrant, LimiterLink, LimiterLost
from cts_async.cluster.far_clock import FarClock
from cts_async.cluster.leased import LeasedAccount
from cts_async.engine.account import LaneLimits
from cts_async.engine.events import Events, LimitLearned
from cts_async.engine.lane import Lane

REPORT_S: Final = 0.1
"""What has become of permits is said at least so often."""
LOST_S: Final = HOLD_S + 4.0
"""An ask that is not answered in this time never will be."""
FIRST_RETRY_S, MAX_RETRY_S = 0.05, 1.0
GOODBYE_S: Final = 2.0


@dataclass(slots=True)
class _Shared:
    """A lane, and the account behind it."""

    lane: Lane
    account: LeasedAccount


class SharedLanes:
    """`lane` makes lanes (a `protocol.crew.LaneOf`), `run` keeps them supplied, `aclose` gives everything back."""

    def __init__(self, worker: str, link: LimiterLink, events: Events) -> None:
        self._worker, self._link, self._events = worker, link, events
        self._lanes: dict[str, _Shared] = {}
        self._clock = FarClock()
        self._generation = ""
        self._acted_on = 0
        self._number = 0
        self._under_way = 0
        self._asked_at = -inf
        self._answered_at = -inf
        """When the last ask was sent that was answered."""
        self._gap_s = 0.0
        self._failures = 0
        self._retry_at = -inf
        self._wake = asyncio.Event()

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        """The lane of an account, without places at first."""
        leased = LeasedAccount(limits, self._wake.set)
        lane = Lane(name, limits, self._events, leased)
        lane.let(0)
        leased.begin_again(self._clock)
        self._lanes[account] = _Shared(lane, leased)
        self._wake.set()
        return lane

    async def run(self) -> None:
        """Keep up the exchange with the limiter, until cancelled."""
        async with anyio.create_task_group() as asking:
            while True:
                self._wake.clear()
                now = _now()
                self._expire(now)
                next_s = self._ask_at() - now
                if next_s <= 0:
                    self._under_way += 1
                    asking.start_soon(self._exchange, self._ask(now))
                    continue
                next_s = min(next_s, self._next_end() - now)
                with suppress(TimeoutError):
                    # Not less than a millisecond: a timer may be early, and must not be so over and over.
                    async with asyncio.timeout(max(0.001, next_s) if next_s < inf else None):
                        await self._wake.wait()

    async def aclose(self) -> None:
        """Give everything back; to be called when `run` was cancelled and no request is under way."""
        for shared in self._lanes.values():
            shared.account.give_back()
        with suppress(LimiterLost, TimeoutError):
            async with asyncio.timeout(GOODBYE_S):
                await self._link.ask(self._ask(_now(), leaving=True))

    def _ask_at(self) -> float:
        """When to ask next."""
        if not self._lanes or self._under_way > 1:
            return inf
        soonest = max(self._asked_at + self._gap_s, self._retry_at)
        accounts = [shared.account for shared in self._lanes.values()]
        if not self._under_way or any(account.urgent for account in accounts):
            return soonest
        if any(account.unsaid for account in accounts):
            return max(soonest, self._asked_at + REPORT_S)
        return inf

    def _next_end(self) -> float:
        """When something that was granted ends next."""
        ends = (shared.account.next_end() for shared in self._lanes.values())
        places_end = self._answered_at + PLACES_S
        return min(*ends, places_end if self._answered_at > -inf else inf, inf)

    def _expire(self, now: float) -> None:
        for shared in self._lanes.values():
            shared.account.expire(now)
        if self._answered_at + PLACES_S <= now:
            self._answered_at = -inf
            for shared in self._lanes.values():
                shared.account.shut()
                shared.lane.let(0)

    def _ask(self, now: float, *, leaving: bool = False) -> Ask:
        self._number += 1
        self._asked_at = now
        return Ask(
            self._worker,
            self._number,
            now,
            self._generation,
            self._acted_on,
            tuple(shared.account.ask(shared.lane, name) for name, shared in self._lanes.items()),
            self._clock.trip_s,
            self._clock.sure,
            leaving,
        )

    async def _exchange(self, ask: Ask) -> None:
        try:
            async with asyncio.timeout(LOST_S):
                grant = await self._link.ask(ask)
        except (LimiterLost, TimeoutError):
            self._failed()
        else:
            self._answered(ask, grant)
        finally:
            self._under_way -= 1
            self._wake.set()

    def _failed(self) -> None:
        self._retry_at = _now() + min(MAX_RETRY_S, FIRST_RETRY_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        for shared in self._lanes.values():
            shared.account.unsaid = True

    def _answered(self, ask: Ask, grant: Grant) -> None:
        now = _now()
        if grant.generation != self._generation:
            if ask.generation != self._generation:
                return  # from a limiter before this one
            self._generation, self._acted_on, self._clock = grant.generation, 0, FarClock()
            self._failures, self._retry_at = 0, -inf
            for shared in self._lanes.values():
                shared.account.begin_again(self._clock)
        elif not grant.number:
            self._failed()  # it counts this worker as dead
            return
        self._clock.heard(ask.sent_at, grant.received_at, grant.granted_at, now)
        if not grant.number or ask.generation not in ("", self._generation):
            return
        self._failures, self._retry_at = 0, -inf
        self._answered_at = max(self._answered_at, ask.sent_at)
        self._gap_s = grant.gap_s
        newest = grant.number > self._acted_on
        self._acted_on = max(self._acted_on, grant.number)
        for asked in ask.lanes:
            self._lanes[asked.account].account.heard(asked)
        for given in grant.lanes:
            self._give(given, newest=newest)

    def _give(self, given: LaneGrant, *, newest: bool) -> None:
        shared = self._lanes[given.account]
        shared.account.granted(given, newest=newest)
        for what, per_min in given.learned:
            self._events.emit(LimitLearned(shared.lane.name, what, per_min))
        if newest and given.places != shared.lane.window.ceiling:
            shared.lane.let(given.places)
            shared.account.owes = shared.lane.in_flight > given.places
            shared.account.urgent = True


def _now() -> float:
    return asyncio.get_running_loop().time()
