"""The provider's limits for many workers: one limiter lets rates and places out to them.

Rates go out as permits of half a second, places as leases that are kept while workers ask. The limiter holds a worker's
ask until it has something for it; what it must know to be strict (`ledger`) it is told in the asks.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import anyio

from cts_async.cluster.asks import HOLD_S, PLACES_S, Ask, Grant, LaneAsk, Let, Lot
from cts_async.cluster.ledger import Ledger, View
from cts_async.cluster.places import Demand

GATHER_S: Final = 0.005
"""A worker that wants more than there is just now is answered once for all that becomes free in so long."""
ASKS_PER_S: Final = 1000.0
"""Of all workers together: a third of a core, where one costs 0.3 ms."""
SILENT_S: Final = 900.0
"""Of a worker that was not heard of for so long no request is under way any more."""


@dataclass(slots=True)
class _Asker:
    """A worker that asks."""

    heard_at: float
    number: int = 0
    """Of its newest ask."""
    granted: int = 0
    """Of the last grant to it."""
    held: asyncio.Event | None = None
    """Answers the ask that waits."""
    lets: dict[str, list[Let]] = field(default_factory=dict)
    """Permits for its next answer, by account."""
    lots: dict[str, Lot] = field(default_factory=dict)
    """The same of what it is given ahead."""
    unheard: list[tuple[int, str, int]] = field(default_factory=list)
    """Grants that it had not acted on when it last asked: number, account, requests that it has leave for by them."""
    accounts: dict[str, tuple[int, View] | None] = field(default_factory=dict)
    """What it was told last of each: its places, and how the account stands."""


class Limiter:
    """`ask` is for workers, `roster` and `gone` are the head's; `run` has to be under way.

    One that takes the place of another (`fresh` is False) lets out nothing before it has been given the roster
    and been told what was sent lately.
    """

    def __init__(self, *, fresh: bool = True) -> None:
        self.generation = secrets.token_hex(8)
        self._complete = fresh
        """Whether all workers that may have sent before are known."""
        self._untold: dict[str, float] = {}
        """Workers of an earlier limiter that have not told this one what they hold, and until when they may."""
        self._told: set[str] = set()
        self._gone: set[str] = set()
        self._died_at = -inf
        self._ledgers: dict[str, Ledger] = {}
        self._askers: dict[str, _Asker] = {}
        self._new: list[Ledger] = []
        self._work = asyncio.Event()

    async def run(self) -> None:
        """Let time pass for all accounts, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                self._work.clear()
                for ledger in self._new:
                    group.start_soon(ledger.dispatch, lambda: self._complete, self._stirred)
                self._new.clear()
                self._forget_silent(_now())
                with suppress(TimeoutError):
                    async with asyncio.timeout(PLACES_S):
                        await self._work.wait()

    async def ask(self, ask: Ask) -> Grant:
        """Take in what a worker says, and answer when there is something for it, or after a while."""
        received_at = _now()
        stranger = ask.generation not in ("", self.generation)
        if ask.worker in self._gone or stranger:
            return self._nothing(received_at)
        asker = self._askers.setdefault(ask.worker, _Asker(received_at))
        asker.heard_at = received_at
        newest = ask.number > asker.number
        self._hear(asker, ask, newest=newest)
        if ask.leaving:
            self.gone(ask.worker)
            return self._nothing(received_at)
        if newest:
            await self._hold(asker, ask)
        return self._grant(ask.worker, asker, received_at)

    async def _hold(self, asker: _Asker, ask: Ask) -> None:
        """Wait until there is something for a worker; its ask before this one is answered."""
        if asker.held:
            asker.held.set()
        asker.number, asker.held = ask.number, (released := asyncio.Event())
        if asker.lets or not ask.hold:
            released.set()
        self._stirred()
        for lane in ask.lanes:
            ledger = self._ledgers[lane.account]
            ledger.pump()
            requests = lane.ahead[0] - self._on_their_way(asker, ask, lane.account)
            if requests > 0 and (lot := self._let_ahead(ledger, ask.worker, requests, lane)):
                asker.lots[lane.account] = lot
                released.set()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(HOLD_S):
                    await released.wait()
        finally:
            if asker.held is released:
                asker.held = None
                for name in asker.accounts:
                    self._ledgers[name].answered(ask.worker)

    def roster(self, workers: Mapping[str, float | None]) -> None:
        """All workers that ever were: None for those alive, else seconds for which each is known to be dead."""
        now = _now()
        for worker, dead_s in workers.items():
            if dead_s is not None and worker not in self._gone:
                self._gone.add(worker)
                self._died_at = max(self._died_at, now - dead_s)
        if not self._complete:
            heard = self._told | self._gone
            alive = [w for w, dead_s in workers.items() if dead_s is None and w not in heard]
            self._untold = dict.fromkeys(alive, now + SILENT_S)
            self._complete = True
            for ledger in self._ledgers.values():
                ledger.expect(alive, self._died_at)
        self._stirred()

    def gone(self, worker: str) -> None:
        """A worker is dead, and so are its connections: what it held is free."""
        now = _now()
        unknown = not self._complete and worker not in self._told | self._gone
        self._gone.add(worker)
        if self._untold.pop(worker, None) is not None or unknown:
            self._died_at = max(self._died_at, now)
        asker = self._askers.pop(worker, None)
        if asker and asker.held:
            asker.held.set()
        for ledger in self._ledgers.values():
            ledger.gone(worker, now)
        self._stirred()

    def status(self) -> Mapping[str, Mapping[str, Any]]:
        """How each account stands, as plain numbers."""
        now = _now()
        return {name: ledger.status(now) for name, ledger in self._ledgers.items()}

    # What is said.

    def _hear(self, asker: _Asker, ask: Ask, *, newest: bool) -> None:
        for lane in ask.lanes:
            ledger = self._ledgers.get(lane.account) or self._open(lane)
            asker.accounts.setdefault(lane.account, None)
            self._hear_of(ledger, ask, lane)
            if newest:
                demand = Demand(lane.busy + lane.waiting, lane.oldest)
                ledger.places.heard(ask.worker, ask.heard, lane.places, lane.busy, demand)
                ledger.want(ask.worker, lane.wants[self._on_their_way(asker, ask, lane.account) :])
        if ask.worker not in self._told:
            self._told.add(ask.worker)
            self._untold.pop(ask.worker, None)
            for ledger in self._ledgers.values():
                if ledger.epoch == 0:
                    ledger.told(ask.worker)

    def _hear_of(self, ledger: Ledger, ask: Ask, lane: LaneAsk) -> None:
        ledger.joined(ask.worker, ask.trip_s)
        if lane.history:
            ledger.tells(ask.worker, lane.history)
        for heard in lane.heard:
            ledger.heard(ask.worker, heard)
        for report in lane.reports:
            ledger.report(report)
        for lot_report in lane.lots:
            ledger.lot_report(lot_report)
        if lane.refusals:
            ledger.refusals(ask.worker, lane.refusals)

    def _on_their_way(self, asker: _Asker, ask: Ask, account: str) -> int:
        """How many permits there are for the oldest of a worker's jobs that it did not know of when it asked."""
        asker.unheard = [grant for grant in asker.unheard if grant[0] > ask.heard]
        given = sum(permits for _, name, permits in asker.unheard if name == account)
        lot = asker.lots.get(account)
        return given + len(asker.lets.get(account, ())) + (lot.requests if lot else 0)

    def _open(self, lane: LaneAsk) -> Ledger:
        ledger = Ledger(
            lane.account,
            lane.limits,
            self._let_out,
            untold=self._untold,
            died_at=self._died_at,
            complete=self._complete,
        )
        self._ledgers[lane.account] = ledger
        self._new.append(ledger)
        self._work.set()
        return ledger

    # What is given.

    def _let_ahead(self, ledger: Ledger, worker: str, requests: int, lane: LaneAsk) -> Lot | None:
        asked, tokens = lane.ahead
        return ledger.ahead(worker, requests, tokens * requests / asked)

    def _let_out(self, account: str, worker: str, let: Let) -> None:
        asker = self._askers[worker]
        held = asker.held
        if held and not asker.lets:
            asyncio.get_running_loop().call_later(GATHER_S, held.set)
        asker.lets.setdefault(account, []).append(let)
        if held and not any(self._ledgers[name].wants(worker) for name in asker.accounts):
            held.set()

    def _stirred(self) -> None:
        """Something may have changed: move places, and answer those who should know."""
        may_move = self._complete and not self._untold
        for name, ledger in self._ledgers.items():
            stirred = ledger.places.plan() if may_move else []
            if ledger.changed():
                stirred = list(ledger.members)
            for worker in stirred:
                asker = self._askers.get(worker)
                if asker and asker.held and asker.accounts[name] != ledger.standing(worker):
                    asker.held.set()

    def _grant(self, worker: str, asker: _Asker, received_at: float) -> Grant:
        if self._askers.get(worker) is not asker:
            return self._nothing(received_at)
        asker.granted += 1
        lanes = []
        for name in asker.accounts:
            ledger = self._ledgers[name]
            asker.accounts[name] = ledger.standing(worker)
            lets, lot = tuple(asker.lets.pop(name, ())), asker.lots.pop(name, None)
            if lets or lot:
                requests = len(lets) + (lot.requests if lot else 0)
                asker.unheard.append((asker.granted, name, requests))
            lanes.append(ledger.grant(worker, asker.granted, lets, lot))
        gap_s = len(self._askers) / ASKS_PER_S
        return Grant(self.generation, asker.granted, received_at, _now(), gap_s, tuple(lanes))

    def _nothing(self, received_at: float) -> Grant:
        return Grant(self.generation, 0, received_at, _now(), 0.0, ())

    def _forget_silent(self, now: float) -> None:
        for worker in [worker for worker, until in self._untold.items() if until <= now]:
            del self._untold[worker]
        for worker, asker in self._askers.items():
            if asker.accounts and asker.held is None and asker.heard_at + SILENT_S <= now:
                for name in asker.accounts:
                    self._ledgers[name].gone(worker, asker.heard_at + PLACES_S)
                asker.accounts.clear()


def _now() -> float:
    return asyncio.get_running_loop().time()
