"""A worker's lanes: the ordinary ones, whose accounts are held by the limiter.

A worker always has an ask with the limiter, which answers it when there is something to grant. A second one goes out
when there is something new to ask for or to report; the limiter then answers the first at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol

import anyio

from cts_async.cluster.limiter import (
    GATHER_S,
    HOLD_S,
    Ask,
    Grant,
    GrantedPermit,
    LaneAsk,
    LaneGrant,
    Report,
)
from cts_async.engine.account import LaneLimits, LimitOf, Permit
from cts_async.engine.events import Events, LimitLearned
from cts_async.engine.lane import Lane
from cts_async.engine.ratelimit import Quotas

REPORT_S: Final = 0.02
"""Reports wait no longer than this for an ask to travel with."""
LOST_S: Final = HOLD_S + 4.0
"""An ask without an answer for so long never gets one."""
FIRST_RETRY_S, MAX_RETRY_S = 0.05, 1.0
GOODBYE_S: Final = 2.0
MOST_WANTS: Final = 256
"""Permits that one ask is for."""
ASKS_PER_S: Final = 1000.0
"""Of all workers together: an ask costs the limiter about 0.3 ms."""


class LimiterLost(Exception):
    """The limiter cannot be reached; nobody knows whether it received the ask."""


class LimiterLink(Protocol):
    """The way to the limiter."""

    async def ask(self, ask: Ask) -> Grant:
        """Raises LimiterLost."""


@dataclass(slots=True)
class _Stocked:
    """A permit that was granted and is not used; times are of this process's clock."""

    permit: GrantedPermit
    granted_at: float
    """The earliest that it can have been granted."""

    @property
    def until(self) -> float:
        return self.granted_at + self.permit.lease_s


@dataclass(slots=True)
class RemoteAccount:
    """The `Accounting` of a lane whose account is held by the limiter. `wake` is set when there is something to ask."""

    limits: LaneLimits
    wake: asyncio.Event
    known: bool = False
    even: bool = False
    sent: int = 0
    allowed: tuple[float | None, float | None] = (None, None)
    reports: dict[int, Report] = field(default_factory=dict)
    """By permit, what the limiter has not been told."""
    reports_since: float = inf
    last_quotas: Quotas | None = None
    told_wants: tuple[tuple[int, float], ...] = ()
    _stock: list[_Stocked] = field(default_factory=list)
    _used: dict[int, GrantedPermit] = field(default_factory=dict)
    """Permits of requests under way, by the request's number."""
    _last: Report | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.known = self.limits.known
        self.allowed = (self.limits.requests_per_min, self.limits.tokens_per_min)

    # What a lane asks (see `Accounting`).

    @property
    def awaited(self) -> bool:
        return False  # whoever comes may take what is in stock

    @property
    def reserves(self) -> bool:
        return False

    def wanted(self) -> None:
        self.wake.set()

    def has_room(self, tokens: float) -> bool:
        return self._fit(_now(), tokens) is not None

    async def wait(self, tokens: float) -> None:
        self._changed.clear()
        self.wake.set()
        await self._changed.wait()

    def take(self, now: float, tokens: float, *, reserved: float = 0.0) -> Permit:
        self.sent += 1
        fit = self._fit(now, tokens)
        assert fit is not None, "the lane asks for room first"
        self._stock.remove(fit)
        self._used[self.sent] = fit.permit
        self._report(Report(fit.permit.id, "used", used_s=max(0.0, now - fit.granted_at)))
        return Permit(tokens, now, number=self.sent)

    def served(self, permit: Permit, tokens_used: float | None) -> None:
        self._end(permit, Report(0, "served", tokens=tokens_used))

    def lost(self, permit: Permit) -> None:
        self._end(permit, Report(0, "lost"))

    def refused(self, permit: Permit, wait_s: float | None) -> bool:
        used = self._end(permit, Report(0, "refused", wait_s=wait_s))
        return used is not None and used.in_doubt

    def slow_down(self, now: float) -> bool:
        return self.even  # the limiter does it when it hears of the refusal

    def learn(self, now: float, permit: Permit, quotas: Quotas) -> Iterable[tuple[LimitOf, float]]:
        self.last_quotas = quotas
        if self._last is None:
            self._report(Report(0, "served", quotas=quotas))
        else:
            self._last.quotas = quotas  # of the answer that has just been reported
        return ()

    def _fit(self, now: float, tokens: float) -> _Stocked | None:
        """The smallest permit that is valid and covers `tokens`."""
        fits = (one for one in self._stock if one.until > now and one.permit.covers >= tokens)
        return min(fits, key=lambda one: (one.permit.covers, one.until), default=None)

    def _end(self, permit: Permit, report: Report) -> GrantedPermit | None:
        used, self._last = self._used.pop(permit.number, None), None
        if used is not None:
            earlier = self.reports.get(used.id)
            report.permit, report.used_s = used.id, earlier.used_s if earlier else 0.0
            self._last = report
            self._report(report)
        return used

    def _report(self, report: Report) -> None:
        if not self.reports:
            self.reports_since = _now()
            self.wake.set()
        self.reports[report.permit] = report

    # What goes to the limiter and comes from it.

    def wants(self, lane: Lane) -> tuple[tuple[int, float], ...]:
        """Requests that could be sent if there were permits."""
        room = int(lane.window.size) - lane.in_flight
        valid = sorted(one.permit.covers for one in self._stock)
        oldest = lane.oldest(min(room, MOST_WANTS) + len(valid)) if room > 0 else []
        uncovered = []
        for number, tokens in oldest:
            if valid and valid[-1] >= tokens:
                valid.pop()
            else:
                uncovered.append((number, tokens))
        return tuple(uncovered[: max(0, room)])

    def urgent(self, lane: Lane, now: float) -> bool:
        """Whether the limiter should hear more than it was told in the ask that it has."""
        if self.reports and now >= self.reports_since + REPORT_S:
            return True
        wants = self.wants(lane)
        return bool(wants) and wants != self.told_wants

    def ask(self, name: str, lane: Lane) -> LaneAsk:
        """What there is to say now."""
        self.expire(_now())
        self.told_wants = self.wants(lane)
        reports, self.reports, self.reports_since = tuple(self.reports.values()), {}, inf
        self._last = None
        return LaneAsk(
            name,
            self.limits,
            lane.in_flight,
            self.told_wants,
            reports,
            self.last_quotas,
        )

    def not_heard(self, ask: LaneAsk) -> None:
        """An ask was lost: report again what it reported."""
        for report in ask.reports:
            self.reports.setdefault(report.permit, report)
        self.reports_since, self.told_wants = -inf, ()

    def granted(self, grant: LaneGrant, asked_at: float, *, newest: bool) -> None:
        """The limiter's answer to an ask that was sent at `asked_at`."""
        self._stock += [_Stocked(permit, asked_at + permit.after_s) for permit in grant.permits]
        if newest:
            self.known, self.even, self.allowed = grant.known, grant.even, grant.allowed
        self._changed.set()

    def expire(self, now: float) -> None:
        """Give back permits that are too old to be used."""
        for stocked in [one for one in self._stock if one.until <= now]:
            self._stock.remove(stocked)
            self._report(Report(stocked.permit.id, "unused"))

    def next_end(self) -> float:
        """When the next permit in stock becomes too old."""
        return min((one.until for one in self._stock), default=inf)

    def begin_again(self) -> None:
        """There is another limiter, which knows nothing of earlier permits."""
        self._stock.clear()
        self.reports.clear()
        self._used.clear()
        self._last, self.reports_since, self.told_wants = None, inf, ()


class RemoteLanes:
    """`lane` makes lanes (a `crew.LaneOf`), `run` keeps them supplied, `aclose` gives everything back."""

    def __init__(self, worker: str, workers: int, link: LimiterLink, events: Events) -> None:
        self._worker, self._link, self._events = worker, link, events
        self._gap_s = max(GATHER_S, workers / ASKS_PER_S)
        self._lanes: dict[str, tuple[Lane, RemoteAccount]] = {}
        self._generation = ""
        self._heard = 0
        self._number = 0
        self._under_way = 0
        self._asked_at = -inf
        self._failures = 0
        self._retry_at = -inf
        self._wake = asyncio.Event()

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        """The lane of an account."""
        remote = RemoteAccount(limits, self._wake)
        lane = Lane(name, limits, self._events, remote)
        self._lanes[account] = lane, remote
        self._wake.set()
        return lane

    async def run(self) -> None:
        """Keep up the exchange with the limiter, until cancelled."""
        async with anyio.create_task_group() as asking:
            while True:
                self._wake.clear()
                now = _now()
                wait_s = self._next_ask_at(now) - now
                if wait_s <= 0:
                    self._under_way += 1
                    asking.start_soon(self._exchange, self._ask(), now)
                    continue
                with suppress(TimeoutError):
                    # Not less than a millisecond: a timer may fire early, and must not do so over and over.
                    async with asyncio.timeout(max(0.001, wait_s) if wait_s < inf else None):
                        await self._wake.wait()

    async def aclose(self) -> None:
        """Give everything back; call it when `run` was cancelled and no request is under way."""
        for _, account in self._lanes.values():
            account.expire(inf)
        with suppress(LimiterLost, TimeoutError):
            async with asyncio.timeout(GOODBYE_S):
                await self._link.ask(self._ask(leaving=True))

    def _next_ask_at(self, now: float) -> float:
        if not self._lanes or self._under_way > 1:
            return inf
        soonest = max(self._asked_at + self._gap_s, self._retry_at)
        if not self._under_way or any(account.urgent(lane, now) for lane, account in self._lanes.values()):
            return soonest
        accounts = [account for _, account in self._lanes.values()]
        due = min(min(account.reports_since + REPORT_S, account.next_end()) for account in accounts)
        return max(soonest, due)

    def _ask(self, *, leaving: bool = False) -> Ask:
        self._number += 1
        self._asked_at = _now()
        lanes = tuple(account.ask(name, lane) for name, (lane, account) in self._lanes.items())
        return Ask(self._worker, self._number, self._generation, self._heard, lanes, leaving)

    async def _exchange(self, ask: Ask, asked_at: float) -> None:
        try:
            async with asyncio.timeout(LOST_S):
                grant = await self._link.ask(ask)
        except (LimiterLost, TimeoutError):
            self._failed(ask)
        else:
            self._answered(ask, asked_at, grant)
        finally:
            self._under_way -= 1
            self._wake.set()

    def _failed(self, ask: Ask) -> None:
        self._retry_at = _now() + min(MAX_RETRY_S, FIRST_RETRY_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        if ask.generation == self._generation:
            for asked in ask.lanes:
                self._lanes[asked.account][1].not_heard(asked)

    def _answered(self, ask: Ask, asked_at: float, grant: Grant) -> None:
        if grant.generation != self._generation:
            if ask.generation != self._generation:
                return  # from a limiter before this one
            self._generation, self._heard = grant.generation, 0
            for _, account in self._lanes.values():
                account.begin_again()
        elif not grant.number:
            self._failed(ask)  # it takes this worker for dead
            return
        self._failures, self._retry_at = 0, -inf
        newest = grant.number > self._heard
        self._heard = max(self._heard, grant.number)
        for given in grant.lanes:
            lane, account = self._lanes[given.account]
            account.granted(given, asked_at, newest=newest)
            for what, per_min in given.learned:
                self._events.emit(LimitLearned(lane.name, what, per_min))


def _now() -> float:
    return asyncio.get_running_loop().time()
