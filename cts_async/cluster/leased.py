"""A worker's part of an account: what the limiter lets it have, and what has become of it.

Two rules. Where requests are counted nothing is sent without a permit that is valid by the limiter's clock, however
that stands. And what has become of a permit is said until it was heard.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Final

from cts_async.cluster.asks import LEASE_S, Fate, Heard, History, LaneAsk, LaneGrant, Let, Refusals, Report
from cts_async.cluster.far_clock import FarClock
from cts_async.cluster.sent_log import SentLog
from cts_async.cluster.stock import InStock, Stock
from cts_async.engine.account import FIRST_MARGIN, LaneLimits, LimitOf, Permit
from cts_async.engine.lane import Lane
from cts_async.engine.meters import MARGIN_S
from cts_async.engine.ratelimit import Quotas

HEARD_EVERY_S: Final = 0.2
"""Answers say all the time what is left: so often is enough to pass it on, where the limits are those known."""
SOON_S: Final = 0.03
"""What was just asked for is not asked for again because it does not last."""
MOST_WANTS: Final = 64
"""Permits that are asked for at once."""

Limits = tuple[float | None, float | None]
"""Requests and tokens a minute."""


@dataclass(slots=True)
class Leased(Permit):
    """A permit in use."""

    id: int = 0
    """Of the permit or the lot."""
    doubts: bool = False
    lot: InStock | None = None
    late_s: float = 0.0


@dataclass(slots=True)
class _InHand:
    """A permit that waits for its request, with its time by the clock here."""

    let: Let
    start: float
    end: float


class LeasedAccount:
    """An `engine.account.Accounting`. `stir` is called when there is something to ask or to say."""

    def __init__(self, limits: LaneLimits, stir: Callable[[], None]) -> None:
        self.limits = limits
        self.urgent = False
        """Whether a request waits for what the limiter has not been asked for."""
        self.unsaid = False
        """Whether there is something that the limiter has not been told."""
        self.owes = False
        """Whether more requests are under way than there are places."""
        self._stir = stir
        self._clock = FarClock()
        self._in_hand: list[_InHand] = []
        self._stock = Stock()
        self._reports: dict[int, Report] = {}
        """By permit, until they were heard."""
        self._heard: dict[Limits, Heard] = {}
        self._heard_at = -inf
        self._quotas: Quotas | None = None
        self._refusals: Refusals | None = None
        self._log = SentLog(limits.window_s + LEASE_S + MARGIN_S)
        self._sent = 0
        self._open = False
        self._counted = True
        self._known, self._even = limits.known, limits.kind == "paced"
        self._allowed: Limits = (limits.requests_per_min, limits.tokens_per_min)
        self._paused_until = 0.0
        self._epoch = 0
        self._tells = False
        self._asked = False
        """Whether the newest ask says that somebody waits."""
        self._asked_at = -inf
        self._room_at = inf
        """When it was last seen that there is room."""
        self._changed = asyncio.Event()

    # For its lane: see `Accounting`.

    @property
    def known(self) -> bool:
        return self._known

    @property
    def sent(self) -> int:
        return self._sent

    @property
    def allowed(self) -> Limits:
        """Of the account, for all its workers together."""
        return self._allowed

    @property
    def awaited(self) -> bool:
        return False  # what is in hand is there for whoever is the oldest

    @property
    def reserves(self) -> bool:
        return False  # the limiter is not told what requests reserve

    def wanted(self) -> None:
        if not self._asked and not self.urgent:
            self.urgent = True
            self._stir()

    def has_room(self, tokens: float) -> bool:
        now = _now()
        if not self._open or now < self._paused_until:
            return False
        self._room_at = now
        return not self._counted or self._fit(now, tokens) is not None or self._stock.has_room(now, tokens)

    async def wait(self, tokens: float) -> None:
        self.wanted()
        self._changed.clear()
        now = _now()
        starts = [held.start for held in self._in_hand if held.start > now]
        if now < self._paused_until:
            starts.append(self._paused_until)
        with suppress(TimeoutError):
            # Not less than a millisecond: a timer may be early, and must not be so over and over.
            async with asyncio.timeout(max(0.001, min(starts) - now) if starts else None):
                await self._changed.wait()

    def take(self, now: float, tokens: float, *, reserved: float = 0.0) -> Permit:
        self._sent += 1
        if not self._counted:
            self._log.add(now, 1.0, tokens * FIRST_MARGIN)
            return Permit(tokens, now, number=self._sent)
        self._stock.sent(tokens)
        # A permit may end between two looks at the clock: what there was room for may go.
        room_at = min(now, self._room_at)
        held = self._fit(room_at, tokens)
        if held is None:
            return self._take_of_stock(now, tokens, room_at)
        self._in_hand.remove(held)
        let = held.let
        self._log.add(now, 1.0, let.tokens)
        late_s = now - held.start if let.start else 0.0
        self._report(Report(let.id, "used", self._clock.latest_there(now), late_s=late_s))
        return Leased(
            let.tokens, now, let.token_margin, self._sent, id=let.id, doubts=let.doubts, late_s=late_s
        )

    def _take_of_stock(self, now: float, tokens: float, room_at: float) -> Permit:
        lot = self._stock.take(now, tokens, room_at)
        if lot is None:
            raise RuntimeError("a request was sent without a permit")
        charged = tokens * lot.lot.token_margin
        self._log.add(now, 1.0, charged)
        if self._stock.dry and not self.urgent and now - self._asked_at >= SOON_S:
            self.urgent = True
            self._stir()
        elif lot.over or self._stock.low:
            self._say()
        return Leased(charged, now, lot.lot.token_margin, self._sent, id=lot.lot.id, lot=lot)

    def served(self, permit: Permit, tokens_used: float | None) -> None:
        if tokens_used is not None and tokens_used > permit.tokens:
            self._log.add(_now(), 0.0, tokens_used - permit.tokens)
        self._ended(permit, "served", tokens=tokens_used)

    def lost(self, permit: Permit) -> None:
        self._ended(permit, "lost")

    def refused(self, permit: Permit, wait_s: float | None) -> bool:
        count = self._refusals.count + 1 if self._refusals else 1
        self._refusals = Refusals(count, wait_s)
        self._ended(permit, "refused", wait_s=wait_s)
        self._say()
        return isinstance(permit, Leased) and permit.doubts

    def slow_down(self, now: float) -> bool:
        return self._even  # the limiter does it, once for all workers

    def learn(self, now: float, permit: Permit, quotas: Quotas) -> Iterable[tuple[LimitOf, float]]:
        requests, tokens = quotas.requests, quotas.tokens
        limits = (requests.limit if requests else None, tokens.limit if tokens else None)
        new = limits != self._allowed and limits not in self._heard
        if self._clock.known and (new or now - self._heard_at >= HEARD_EVERY_S):
            self._heard_at, self._quotas = now, quotas
            number = permit.id if isinstance(permit, Leased) else 0
            self._heard[limits] = Heard(quotas, self._clock.latest_there(permit.sent_at), number)
            self._say()
        return ()  # the limiter says what is new by it

    def _fit(self, now: float, tokens: float) -> _InHand | None:
        """Of the permits whose time it is, the smallest that covers `tokens`."""
        best: _InHand | None = None
        for held in self._in_hand:
            covers = held.let.covers
            if held.start <= now <= held.end and covers >= tokens and (not best or covers < best.let.covers):
                best = held
                if covers == inf:
                    break
        return best

    def _ended(
        self, permit: Permit, fate: Fate, *, tokens: float | None = None, wait_s: float | None = None
    ) -> None:
        if isinstance(permit, Leased) and permit.lot:
            self._ended_of(permit.lot, permit, fate, tokens, wait_s)
        elif isinstance(permit, Leased) and self._clock.known:
            used_at = self._clock.latest_there(permit.sent_at)
            self._report(Report(permit.id, fate, used_at, tokens, wait_s, permit.late_s))
        if self.owes:
            self.urgent = True
            self._stir()

    def _ended_of(
        self, lot: InStock, permit: Permit, fate: Fate, tokens: float | None, wait_s: float | None
    ) -> None:
        """A request of a lot has ended."""
        if fate == "refused":
            lot.was_refused(permit.tokens, wait_s)
            self._stock.expire(inf)  # how much room there is is in doubt
        else:
            lot.served(permit.tokens, tokens)
        if lot.over:
            self._say()

    def _report(self, report: Report) -> None:
        self._reports[report.permit] = report
        self._say()

    def _say(self) -> None:
        if not self.unsaid:
            self.unsaid = True
            self._stir()

    # For whoever asks the limiter.

    def ask(self, lane: Lane, name: str) -> LaneAsk:
        """How the lane stands, and everything that is not known to have been heard."""
        self.urgent = self.unsaid = False
        now, places = _now(), lane.window.ceiling
        self._asked_at = now
        self.owes = lane.in_flight > places
        waiting = 0 if lane.stopped else lane.waiting
        if lane.window.size < places:
            # As long as it has to find out how much is too much, more places would be of no use.
            waiting = min(waiting, max(0, 2 * int(lane.window.size) - lane.in_flight))
        may_go = int(lane.window.size) - lane.in_flight
        unsure = self._even and not self._clock.sure
        if not self._counted or unsure or lane.paused_s or lane.circuit.wait_s(now):
            may_go = 0
        oldest = lane.oldest(max(1, min(may_go, MOST_WANTS))) if waiting else []
        wants = self._uncovered(oldest) if may_go > 0 else ()
        self._asked = bool(wants) or (waiting > 0 and lane.in_flight >= places)
        sends = self._counted and not lane.stopped and not lane.paused_s and not lane.circuit.wait_s(now)
        return LaneAsk(
            name,
            self.limits,
            places,
            lane.in_flight,
            waiting,
            oldest[0][0] if oldest else None,
            wants,
            tuple(self._reports.values()),
            tuple(self._heard.values()),
            self._refusals,
            self._history() if self._tells else None,
            self._stock.ahead(now, self._clock.trip_s) if sends else (0, 0.0),
            self._stock.reports(self._clock.latest_there(0.0)) if self._clock.known else (),
        )

    def _uncovered(self, jobs: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
        """Those of the jobs for which there is no permit in hand."""
        covers = sorted(held.let.covers for held in self._in_hand)
        wants = []
        for seq, tokens in jobs:
            fits = bisect_left(covers, tokens)
            if fits < len(covers):
                del covers[fits]
            else:
                wants.append((seq, tokens))
        return tuple(wants)

    def _history(self) -> History:
        there = self._clock.latest_there
        sends = tuple((there(at), requests, tokens) for at, requests, tokens in self._log.entries())
        return History(self._epoch, sends, self._quotas)

    def heard(self, asked: LaneAsk) -> None:
        """What an ask said was heard: it need not be said again."""
        for report in asked.reports:
            if self._reports.get(report.permit) is report:
                del self._reports[report.permit]
        for limits, heard in [*self._heard.items()]:
            if heard in asked.heard:
                del self._heard[limits]
        self._stock.heard(asked.lots)
        if asked.history and asked.history.epoch == self._epoch:
            self._tells = False

    def begin_again(self, clock: FarClock) -> None:
        """There is another limiter, whose clock is `clock`: what the last one gave is void, and nothing is sent
        before this one has been told what was."""
        self._clock = clock
        self._in_hand.clear()
        self._stock.clear()
        self._reports.clear()
        self._heard.clear()
        self._counted, self._epoch, self._tells, self.unsaid = True, 0, True, True

    def granted(self, grant: LaneGrant, *, newest: bool) -> None:
        """What the limiter gives; of an older grant only the permits count."""
        now = _now()
        if newest:
            if grant.epoch != self._epoch:
                self._epoch, self._tells, self.unsaid = grant.epoch, True, True
            self._open, self._counted = True, grant.counted
            self._known, self._even, self._allowed = grant.known, grant.even, grant.allowed
            self._paused_until = self._clock.surely_after(grant.paused_until) if grant.paused_until else 0.0
        for let in grant.permits:
            start = self._clock.about(let.start) if let.start else now
            self._in_hand.append(_InHand(let, start, self._clock.surely_before(let.end)))
        if grant.lot:
            self._stock.add(grant.lot, self._clock.surely_before(grant.lot.end))
        self._changed.set()

    def shut(self) -> None:
        """The limiter was not heard of for too long: nothing is sent."""
        self._open = False

    def next_end(self) -> float:
        """When the next of the permits in hand ends; infinite without one."""
        return min(self._stock.next_end(), *(held.end for held in self._in_hand), inf)

    def expire(self, now: float) -> None:
        """Give back the permits whose time is over."""
        if self._stock.expire(now):
            self._say()
        for held in [held for held in self._in_hand if held.end <= now]:
            self._in_hand.remove(held)
            self._report(Report(held.let.id, "unused"))

    def give_back(self) -> None:
        """Give back all permits."""
        self.expire(inf)


def _now() -> float:
    return asyncio.get_running_loop().time()
