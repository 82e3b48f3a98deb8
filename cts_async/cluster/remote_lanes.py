"""A worker's lanes: the ordinary ones, whose accounts are held by the limiter.

A worker always has an ask with the limiter, which answers it when there is something to grant. A second one goes out
when there is something new to ask for or to report; the limiter then answers the first at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

import anyio

from cts_async.cluster.limiter import (
    GATHER_S,
    HOLD_S,
    Ask,
    Grant,
    GrantedPermit,
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


class RemoteAccount:
    """The `Accounting` of a lane whose account is held by the limiter. `run` keeps it supplied with permits.

    `lane` has to be set before; `wake` is set when there is something to ask.
    """

    def __init__(
        self, worker: str, name: str, limits: LaneLimits, link: LimiterLink, gap_s: float, events: Events
    ) -> None:
        self.lane: Lane
        self._events = events
        self._worker, self._name, self._limits, self._link, self._gap_s = worker, name, limits, link, gap_s
        self.known, self.even, self.sent = limits.known, False, 0
        self.allowed = (limits.requests_per_min, limits.tokens_per_min)
        self.wake = asyncio.Event()
        self._reports: dict[int, Report] = {}
        """By permit, what the limiter has not been told."""
        self._reports_since = inf
        self._last_report: Report | None = None
        self._last_quotas: Quotas | None = None
        self._told_wants: tuple[tuple[int, float], ...] = ()
        self._stock: list[_Stocked] = []
        self._used: dict[int, GrantedPermit] = {}
        """Permits of requests under way, by the request's number."""
        self._changed = asyncio.Event()
        self._generation, self._heard, self._number = "", 0, 0
        self._under_way = self._failures = 0
        self._asked_at = self._retry_at = -inf

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
        # A little ahead: between this question and `take` no permit must become too old.
        return self._fit(_now() + 0.001, tokens) is not None

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
        self._last_quotas = quotas
        if self._last_report is None:
            self._report(Report(0, "served", quotas=quotas))
        else:
            self._last_report.quotas = quotas  # of the answer that has just been reported
        return ()

    def _fit(self, now: float, tokens: float) -> _Stocked | None:
        """The smallest permit that is valid and covers `tokens`."""
        fits = (one for one in self._stock if one.until > now and one.permit.covers >= tokens)
        return min(fits, key=lambda one: (one.permit.covers, one.until), default=None)

    def _end(self, permit: Permit, report: Report) -> GrantedPermit | None:
        used, self._last_report = self._used.pop(permit.number, None), None
        if used is not None:
            earlier = self._reports.get(used.id)
            report.permit, report.used_s = used.id, earlier.used_s if earlier else 0.0
            self._last_report = report
            self._report(report)
        return used

    def _report(self, report: Report) -> None:
        if not self._reports:
            self._reports_since = _now()
            self.wake.set()
        self._reports[report.permit] = report

    # The exchange with the limiter.

    async def run(self) -> None:
        """Keep asking, until cancelled."""
        async with anyio.create_task_group() as asking:
            while True:
                self.wake.clear()
                now = _now()
                wait_s = self._next_ask_at(now) - now
                if wait_s <= 0:
                    self._under_way += 1
                    asking.start_soon(self._exchange, self._ask(), now)
                    continue
                with suppress(TimeoutError):
                    # Not less than a millisecond: a timer may fire early, and must not do so over and over.
                    async with asyncio.timeout(max(0.001, wait_s) if wait_s < inf else None):
                        await self.wake.wait()

    def _next_ask_at(self, now: float) -> float:
        if self._under_way > 1:
            return inf
        soonest = max(self._asked_at + self._gap_s, self._retry_at)
        wants = self._wants()
        if not self._under_way or (wants and wants != self._told_wants):
            return soonest
        next_end = min((one.until for one in self._stock), default=inf)
        return max(soonest, min(self._reports_since + REPORT_S, next_end))

    def _wants(self) -> tuple[tuple[int, float], ...]:
        """Requests that could be sent if there were permits, oldest first."""
        room = int(self.lane.window.size) - self.lane.in_flight
        valid = sorted(one.permit.covers for one in self._stock)
        oldest = self.lane.oldest(min(room, MOST_WANTS) + len(valid)) if room > 0 else []
        uncovered = []
        for number, tokens in oldest:
            if valid and valid[-1] >= tokens:
                valid.pop()
            else:
                uncovered.append((number, tokens))
        return tuple(uncovered[: max(0, room)])

    def _ask(self) -> Ask:
        self._number += 1
        self._asked_at = _now()
        for stocked in [one for one in self._stock if one.until <= self._asked_at]:
            self._stock.remove(stocked)
            self._report(Report(stocked.permit.id, "unused"))
        self._told_wants = self._wants()
        reports, self._reports, self._reports_since = tuple(self._reports.values()), {}, inf
        self._last_report = None
        return Ask(
            self._worker,
            self._name,
            self._limits,
            self._number,
            self._generation,
            self._heard,
            self.lane.in_flight,
            self._told_wants,
            reports,
            self._last_quotas,
        )

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
            self.wake.set()

    def _failed(self, ask: Ask) -> None:
        """An ask was lost: report again what it reported, a little later."""
        self._retry_at = _now() + min(MAX_RETRY_S, FIRST_RETRY_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        if ask.generation == self._generation:
            for report in ask.reports:
                self._reports.setdefault(report.permit, report)
            self._reports_since, self._told_wants = -inf, ()

    def _answered(self, ask: Ask, asked_at: float, grant: Grant) -> None:
        if grant.generation != self._generation:
            if ask.generation != self._generation:
                return  # from a limiter before this one
            # Another limiter, which knows nothing of earlier permits.
            self._generation, self._heard = grant.generation, 0
            self._stock.clear()
            self._reports.clear()
            self._used.clear()
            self._last_report, self._reports_since, self._told_wants = None, inf, ()
        elif not grant.number:
            self._failed(ask)  # it takes this worker for dead
            return
        self._failures, self._retry_at = 0, -inf
        self._stock += [_Stocked(permit, asked_at + permit.after_s) for permit in grant.permits]
        if grant.number > self._heard:
            self._heard = grant.number
            self.known, self.even, self.allowed = grant.known, grant.even, grant.allowed
        for what, per_min in grant.learned:
            self._events.emit(LimitLearned(self.lane.name, what, per_min))
        self._changed.set()


class RemoteLanes:
    """`lane` makes lanes (a `crew.LaneOf`), `run` keeps them supplied."""

    def __init__(self, worker: str, workers: int, link: LimiterLink, events: Events) -> None:
        self._worker, self._link, self._events = worker, link, events
        self._gap_s = max(GATHER_S, workers / ASKS_PER_S)
        self._new: asyncio.Queue[RemoteAccount] = asyncio.Queue()

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        """The lane of an account."""
        remote = RemoteAccount(self._worker, account, limits, self._link, self._gap_s, self._events)
        remote.lane = Lane(name, limits, self._events, remote)
        self._new.put_nowait(remote)
        return remote.lane

    async def run(self) -> None:
        """Keep up the exchange with the limiter, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                group.start_soon((await self._new.get()).run)


def _now() -> float:
    return asyncio.get_running_loop().time()
