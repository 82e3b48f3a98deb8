"""What the limiter knows of one account: its limits, the permits that are out, the places, and who has to tell what.

Two rules. A permit counts as used at the last moment when it may be, until its worker says when it was. And whoever
does not know what was sent in the last window lets nobody send: it waits to be told, or until the window has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import Any, Final

from cts_async.cluster.asks import (
    LEASE_S,
    PLACES_S,
    Heard,
    History,
    LaneGrant,
    Let,
    Lot,
    LotReport,
    Refusals,
    Report,
)
from cts_async.cluster.lots import FORGOTTEN_S, Lots
from cts_async.cluster.places import PlaceBook
from cts_async.engine.account import Account, LaneLimits, LimitOf, Permit
from cts_async.engine.lane import SHORT_PAUSE_S
from cts_async.engine.meters import MARGIN_S
from cts_async.engine.ratelimit import Quota, Quotas

MIN_AHEAD_S, MAX_AHEAD_S = 0.02, 0.3
"""A permit of an even flow is given so long before its time that it is there in time, however slow the way."""
LATE_S: Final = 0.005
"""By so much a request may be later than its place in an even flow, before what follows has to wait for it."""
AHEAD_LESS: Final = 0.001
"""Seconds a second by which that may become less: a tenth of what an even flow leaves free."""
EVEN_LEASE_S: Final = 0.1
"""After that its place in the flow has passed."""
WANTS_S: Final = 0.2
"""An answered worker's next ask is there by then."""

Want = tuple[int, float]
"""A waiting job's number, and about how many tokens it needs."""
View = tuple[int, bool, bool, bool, float]
"""Epoch, whether each request is counted, known, even, paused until."""
LetOut = Callable[[str, str, Let], None]
"""Hands a permit to a worker: by account and worker."""


@dataclass(slots=True)
class _Out:
    """A permit that is with a worker."""

    worker: str
    permit: Permit
    by: float


@dataclass(slots=True)
class Tally:
    """What has become of permits."""

    given: int = 0
    used: int = 0
    returned: int = 0
    forgotten: int = 0
    refused: int = 0


@dataclass(slots=True)
class _Member:
    """A worker that uses the account."""

    wants: list[Want] = field(default_factory=list)
    """Oldest last."""
    wants_until: float = inf
    refused: int = 0
    trip_s: float = 0.0


class Ledger:
    """One account. `untold` are workers that may have sent, and have yet to say what; `died_at` when the last died
    that cannot say it any more (None: none)."""

    def __init__(
        self,
        name: str,
        limits: LaneLimits,
        let_out: LetOut,
        *,
        untold: Iterable[str] = (),
        died_at: float = -inf,
        complete: bool = True,
    ) -> None:
        now = _now()
        self.name, self.limits = name, limits
        self.account = Account(limits, LEASE_S)
        self._lots = Lots(self.account)
        self.places = PlaceBook(limits.max_concurrency)
        self.tally = Tally()
        self.epoch = 0
        self.members: dict[str, _Member] = {}
        self.untold: dict[str, float] = dict.fromkeys(untold, now + PLACES_S + LEASE_S)
        """Until when each may still be sending on its own, if it is not heard of."""
        self._let_out = let_out
        self._counting = complete and not self.untold
        """Whether what was sent in the last window is known."""
        self._died_at = died_at
        self._known_since = -inf
        self._sends: list[tuple[float, float, float]] = []
        """What workers say that they sent, and who has said it."""
        self._tellers: set[str] = set()
        self._unreported: dict[int, _Out] = {}
        self._tokens_out = 0.0
        """Charged for those."""
        self._under_way: dict[int, _Out] = {}
        self._last_id = 0
        self._paused_until = 0.0
        self._episode_began = -inf
        self._learned: dict[str, list[tuple[LimitOf, float]]] = {}
        self._work = asyncio.Event()
        self._opens_at = 0.0
        self._ahead_s, self._ahead_at = MIN_AHEAD_S, now
        self._late_s, self._late_at = LATE_S, -inf
        self._seen = self._view()

    # How it stands, for its workers.

    @property
    def rated(self) -> bool:
        """Whether a limit is known that requests or tokens have to keep to."""
        return self.account.allowed != (None, None)

    @property
    def counted(self) -> bool:
        """Whether each request needs a permit."""
        return self.rated or not self._counting

    def _view(self) -> View:
        """What all its workers should know at once."""
        return (self.epoch, self.counted, self.account.known, self.account.even, self._paused_until)

    def changed(self) -> bool:
        """Whether something has changed since this was last asked that all its workers should know."""
        before, self._seen = self._seen, self._view()
        return before != self._seen

    def standing(self, worker: str) -> tuple[int, View]:
        """What a worker should know."""
        return self.places.let(worker), self._view()

    def wants(self, worker: str) -> bool:
        """Whether jobs of the worker wait for a permit."""
        return bool(self.members[worker].wants)

    def status(self, now: float) -> dict[str, Any]:
        """How it stands, as plain numbers."""
        requests_per_min, tokens_per_min = self.account.allowed
        return {
            "requests_per_min": requests_per_min,
            "tokens_per_min": tokens_per_min,
            "workers": len(self.members),
            "untold": len(self.untold),
            "places": self.places.total,
            "places_held": self.places.held,
            "permits_wanted": sum(len(member.wants) for member in self.members.values()),
            "paused_s": max(0.0, self._paused_until - now, self._opens_at - now),
            **asdict(self.tally),
        }

    def grant(self, worker: str, number: int, permits: tuple[Let, ...], lot: Lot | None) -> LaneGrant:
        """Its part of grant `number` to a worker."""
        return LaneGrant(
            self.name,
            self.places.say(worker, number),
            self.epoch,
            self.counted,
            self.account.known,
            self.account.even,
            self.account.allowed,
            self._paused_until,
            permits,
            tuple(self._learned.pop(worker, ())),
            lot,
        )

    # What workers say.

    def joined(self, worker: str, trip_s: float) -> None:
        """A worker uses the account; its asks and answers take `trip_s`, together."""
        self.members.setdefault(worker, _Member()).trip_s = trip_s
        # The same for all, or the flow would not be even: who was just answered asks again, and is answered again.
        slow_s = 1.5 * max(member.trip_s for member in self.members.values())
        now = _now()
        least_s = self._ahead_s - AHEAD_LESS * (now - self._ahead_at)
        self._ahead_s, self._ahead_at = max(least_s, min(MAX_AHEAD_S, MIN_AHEAD_S + slow_s)), now

    def want(self, worker: str, wants: Iterable[Want]) -> None:
        """These jobs of a worker wait, oldest first; they take the place of those said before."""
        member = self.members[worker]
        member.wants, member.wants_until = [*wants][::-1], inf
        if member.wants:
            self._work.set()

    def answered(self, worker: str) -> None:
        """A worker's ask is answered: what it still wants it wants until the next, which is on its way."""
        if worker in self.members:
            self.members[worker].wants_until = _now() + WANTS_S

    def report(self, report: Report) -> None:
        """What has become of a permit; what is known already is said in vain."""
        out = self._unreported.pop(report.permit, None)
        if out is not None:
            self._tokens_out -= out.permit.tokens
            if report.fate == "unused":
                self.account.give_back(out.permit)
                self.tally.returned += 1
                return
            self.tally.used += 1
            self.account.redate(out.permit, min(out.by, report.used_at))
            self._wait_for(report.late_s)
            self._under_way[report.permit] = out
        if report.fate == "used" or report.permit not in self._under_way:
            return
        permit = self._under_way.pop(report.permit).permit
        match report.fate:
            case "served":
                self.account.served(permit, report.tokens)
            case "refused":
                self._refused(permit, report.wait_s)
            case _:
                self.account.lost(permit)

    def _wait_for(self, late_s: float) -> None:
        """A request was sent so late: unless all that follows is, too, the second that begins with it holds one too
        many. Of those of one second the latest counts."""
        now = _now()
        if now - self._late_at > 1.0:
            self._late_s = LATE_S
        if late_s > self._late_s:
            self.account.delay(late_s - self._late_s)
            self._late_s, self._late_at = late_s, now

    def lot_report(self, report: LotReport) -> None:
        """What has become of a lot."""
        new = self._lots.report(report)
        self.tally.used += new.used
        self.tally.returned += new.returned
        if new.permit:
            for _ in range(new.refused):
                self._refused(new.permit, report.wait_s)

    def _refused(self, permit: Permit, wait_s: float | None) -> None:
        self.account.refused(permit, wait_s)
        if permit.sent_at > self._episode_began:
            self._episode_began = _now()
            self.account.slow_down(self._episode_began)

    def refusals(self, worker: str, refusals: Refusals) -> None:
        """A worker was refused: where the provider says for how long, nobody sends before that has passed."""
        member = self.members[worker]
        if refusals.count <= member.refused:
            return
        self.tally.refused += refusals.count - member.refused
        member.refused = refusals.count
        now = _now()
        exception = self.account.known and self.account.seldom_refuses
        wait_s = refusals.wait_s or 0.0
        if not (exception and wait_s <= SHORT_PAUSE_S):
            self._paused_until = max(self._paused_until, now + wait_s)

    def heard(self, worker: str, heard: Heard) -> None:
        """What an answer said of the limits."""
        out = self._unreported.get(heard.permit) or self._under_way.get(heard.permit)
        known = out.permit if out else self._lots.permit(heard.permit)
        if known is None and self.rated:
            return  # nobody knows how the account stood when that was sent
        permit = known or Permit(0.0, heard.sent_at, number=self.account.sent)
        rated = self.rated
        self._learned.setdefault(worker, []).extend(self.account.learn(_now(), permit, heard.quotas))
        if self.rated and not rated and self._counting:
            told = heard.quotas.requests or heard.quotas.tokens
            remaining = told is not None and told.remaining is not None
            self._recount(heard.sent_at - MARGIN_S if remaining else -inf)

    def _recount(self, known_since: float) -> None:
        """Limits are known from now on: each worker has to say what it sent after `known_since`."""
        self.epoch += 1
        self._counting, self._known_since = False, known_since
        self.untold = dict.fromkeys(self.members, _now() + PLACES_S + LEASE_S)

    def tells(self, worker: str, history: History) -> None:
        """What a worker sent in the last window."""
        if history.epoch != self.epoch or self._counting or worker in self._tellers:
            return
        self._tellers.add(worker)
        self._sends += history.sends
        if history.quotas and not self.rated:
            permit = Permit(0.0, _now(), number=self.account.sent)
            list(self.account.learn(_now(), permit, _limits_of(history.quotas)))
        self.told(worker)

    def told(self, worker: str) -> None:
        """A worker has said all that it sent."""
        if self.untold.pop(worker, None) is not None:
            self._work.set()

    def expect(self, untold: Iterable[str], died_at: float) -> None:
        """All workers that may have sent are known by now: `untold` have yet to say what."""
        self._died_at = max(self._died_at, died_at)
        if self.epoch == 0 and not self._counting:
            until = _now() + PLACES_S + LEASE_S
            self.untold |= {worker: until for worker in untold if worker not in self.untold}
        self._work.set()

    def gone(self, worker: str, died_at: float) -> None:
        """A worker is dead: what it had is free, and what it did not say nobody will."""
        self.members.pop(worker, None)
        self.places.gone(worker)
        unsaid = self.untold.pop(worker, None) is not None
        if unsaid or not self.rated:
            self._died_at = max(self._died_at, died_at)
        for number in [n for n, out in self._under_way.items() if out.worker == worker]:
            self.account.lost(self._under_way.pop(number).permit)
        self._lots.gone(worker)
        self._work.set()

    # Letting permits out.

    async def dispatch(self, complete: Callable[[], bool], stirred: Callable[[], None]) -> None:
        """Wait for time to pass on behalf of all workers, until cancelled.

        `complete` says whether all workers are known that may have sent; `stirred` is told when something may
        have changed that workers should know.
        """
        while True:
            self._work.clear()
            self._count_again(complete())
            self.pump()
            stirred()
            wanting = [member.wants[-1] for _, member in self._wanting(_now())]
            wait_s = self._held_s(wanted=bool(wanting))
            if wait_s == 0:
                await self.account.wait(min(wanting)[1])
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s and max(0.001, wait_s)):
                    await self._work.wait()

    def _letting(self, now: float) -> bool:
        """Whether anything is let out just now, if there is room."""
        if self.account.awaited or not self._counting or not self.rated:
            return False
        return now >= max(self._paused_until, self._opens_at)

    def ahead(self, worker: str, requests: int, tokens: float) -> Lot | None:
        """Leave for requests that a worker will soon send, where there is plenty of room and nobody waits for it."""
        now = _now()
        if requests <= 0 or not self._letting(now) or self._wanting(now):
            return None
        self._last_id += 1
        lot = self._lots.let(worker, self._last_id, now, requests, tokens)
        if lot:
            self.tally.given += lot.requests
        return lot

    def pump(self) -> None:
        """Let out what there is room for, to the oldest jobs first."""
        now = _now()
        self._forget(now)
        if not self._letting(now):
            return
        heads = [(*member.wants[-1], worker) for worker, member in self._wanting(now)]
        heapify(heads)
        while heads and self.account.has_room(heads[0][1]):
            _, tokens, worker = heads[0]
            wants = self.members[worker].wants
            wants.pop()
            self._let_out(self.name, worker, self._let(worker, tokens, now))
            if wants:
                heapreplace(heads, (*wants[-1], worker))
            else:
                heappop(heads)

    def _let(self, worker: str, tokens: float, now: float) -> Let:
        even = self.account.even
        start = now + self._ahead_s if even else now
        by = start + EVEN_LEASE_S if even else now + LEASE_S
        permit = self.account.take(now, tokens, by)
        # Of those that are out any may be sent after this one, and counted by a server after it.
        permit.number -= len(self._unreported) + self._lots.requests
        permit.tokens_sent -= self._tokens_out + self._lots.tokens
        self._tokens_out += permit.tokens
        self._last_id += 1
        self._unreported[self._last_id] = _Out(worker, permit, by)
        self.tally.given += 1
        covers = inf if self.account.allowed[1] is None else tokens
        doubts = self.account.doubts(permit)
        return Let(
            self._last_id, start if even else 0.0, by, covers, permit.tokens, permit.token_margin, doubts
        )

    def _forget(self, now: float) -> None:
        """Give up permits of which nobody will say anything: they stay counted."""
        self.tally.forgotten += self._lots.forget(now)
        while self._unreported:
            number, out = next(iter(self._unreported.items()))
            if out.by + FORGOTTEN_S > now:
                return
            self.account.lost(out.permit)
            self._tokens_out -= out.permit.tokens
            del self._unreported[number]
            self.tally.forgotten += 1

    def _count_again(self, complete: bool) -> None:
        """Begin to let out permits once everybody has told what he sent, or is known to send nothing more."""
        now = _now()
        for worker in [worker for worker, until in self.untold.items() if until <= now]:
            self._died_at = max(self._died_at, self.untold.pop(worker))
        if self._counting or self.untold or not complete:
            return
        self._counting = True
        if self.rated:
            self.account.count(now, sorted(send for send in self._sends if send[0] >= self._known_since))
            if self.epoch == 0:
                self.account.empty(now)
            if self.account.dated and self._died_at > self._known_since:
                self._opens_at = self._died_at + self.limits.window_s + MARGIN_S + LEASE_S
        self._sends.clear()
        self._tellers.clear()

    def _wanting(self, now: float) -> list[tuple[str, _Member]]:
        return [(w, m) for w, m in self.members.items() if m.wants and m.wants_until > now]

    def _held_s(self, *, wanted: bool) -> float | None:
        """Seconds until a permit may be let out if there is room; None: until something happens."""
        now = _now()
        if self.untold:
            return max(0.001, min(self.untold.values()) - now)
        if not self._counting or not self.rated or not wanted:
            return None
        return max(0.0, self._paused_until - now, self._opens_at - now)


def _limits_of(quotas: Quotas) -> Quotas:
    """The limits alone: how much was left of them is told by what was sent."""
    requests, tokens = quotas.requests, quotas.tokens
    return Quotas(Quota(requests.limit) if requests else None, Quota(tokens.limit) if tokens else None)


def _now() -> float:
    return asyncio.get_running_loop().time()
