"""One process that holds every provider account's limits for all workers.

Each request needs a permit, which is valid for half a second. A permit counts toward the account's concurrency until
its worker reports that the request has ended.

No window of a limit is exceeded, whatever is late, lost or dead, and no clocks are compared:

- A permit counts as used at its end, until its worker reports how long after the grant it was used. A worker knows an
  upper bound of that: the grant was given a known time after its ask had arrived, and the ask arrived after it was sent.
- A permit of which nothing is heard stays counted.
- A limiter that takes the place of a dead one does not know what was sent before. It grants nothing for one window of
  each limit, and for as long as workers may take to tell it what they have under way.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import Final, Literal

import anyio

from cts_async.engine.account import Account, LaneLimits, LimitOf, Permit
from cts_async.engine.lane import SHORT_PAUSE_S
from cts_async.engine.ratelimit import MARGIN_S, Quotas
from cts_async.values import value

HOLD_S: Final = 1.0
"""The longest that the limiter waits before it answers an ask."""
LEASE_S: Final = 0.5
"""For how long after its grant a permit may be used."""
EVEN_LEASE_S: Final = 0.08
"""The same in an even flow, where a late request comes too close to the next one. A flow at 99 % of its limit leaves
0.1 s free in a window of 10 s, less 5 ms by which a request may be early; a permit must not use up more than that."""
SETTLE_S: Final = 10.0
"""By then all workers have told a new limiter what they have under way."""
GATHER_S: Final = 0.003
"""An answer waits so long for more permits to travel with it."""
FORGOTTEN_S: Final = 5.0
"""A permit whose worker has asked so long after its end, and not mentioned it, never reached that worker."""
LATE_S: Final = 0.010
"""A request of an even flow may be late by what the flow leaves free in a second; the flow waits for the rest."""
MAX_USES: Final = 1000
"""Requests that are remembered until a limit is known: a provider that names one does so in its first answers."""

Outcome = Literal["used", "served", "refused", "lost", "unused"]
"""Of a permit: its request is under way; was answered; was refused for the account's limits; may have been counted or
not; was never sent."""


@dataclass(slots=True)
class Report:
    """What became of a permit. `permit` is 0 for one of an earlier limiter."""

    permit: int
    outcome: Outcome
    used_s: float = 0.0
    """Upper bound of the seconds between grant and use."""
    tokens: float | None = None
    """That the answer says were used."""
    wait_s: float | None = None
    """For how long a refused request was told to wait."""
    quotas: Quotas | None = None
    """What the answer said of the account's limits."""


@value
class Ask:
    """A worker's message about an account; it takes the place of an earlier one, which is answered at once."""

    worker: str
    account: str
    limits: LaneLimits
    number: int
    generation: str
    """Of the limiter that it last heard from; "" for none."""
    heard: int
    """The last grant of that limiter that it has processed."""
    in_flight: int
    wants: tuple[tuple[int, float], ...] = ()
    """Requests that wait for a permit, oldest first: the number of the job, and about how many tokens it needs."""
    reports: tuple[Report, ...] = ()
    quotas: Quotas | None = None
    """The last that any answer said, for a limiter that does not know it."""


@value
class GrantedPermit:
    """Permission to send one request of up to `covers` estimated tokens."""

    id: int
    after_s: float
    """Seconds from the arrival of the ask that this answers to the grant; negative where it came before."""
    lease_s: float
    covers: float
    in_doubt: bool
    """Whether a refusal would only say how the server counts."""


@value
class Grant:
    """The answer to an ask. `number` counts a worker's grants; 0 if the worker counts as dead."""

    generation: str
    number: int
    permits: tuple[GrantedPermit, ...] = ()
    known: bool = False
    even: bool = False
    allowed: tuple[float | None, float | None] = (None, None)
    learned: tuple[tuple[LimitOf, float], ...] = ()
    """Limits a minute that are known through this worker's reports."""


@dataclass(slots=True)
class _Granted:
    """A permit that is with a worker, granted at `at`."""

    worker: str
    permit: Permit
    at: float
    by: float


@dataclass(slots=True)
class _Worker:
    """A worker that uses the account."""

    number: int = 0
    """Of its newest ask."""
    granted: int = 0
    """Of the last grant to it."""
    held: asyncio.Event | None = None
    """Set to answer the ask that waits."""
    heard_at: float = 0.0
    adopted: int = 0
    """Requests under way with permits of an earlier limiter, at most."""
    unheard: list[tuple[int, int]] = field(default_factory=list)
    """Grants that it had not processed when it last asked: number, permits."""
    wants: list[tuple[int, float]] = field(default_factory=list)
    """Oldest last."""
    pending: list[tuple[float, GrantedPermit]] = field(default_factory=list)
    """Permits for its next answer, each with the time of its grant."""
    learned: list[tuple[LimitOf, float]] = field(default_factory=list)


class AccountLimiter:
    """One account: its limits, the permits that are out, and its workers. `run` has to be running."""

    def __init__(self, limits: LaneLimits, generation: str, replaced_at: float | None) -> None:
        """`replaced_at` is when this limiter took the place of another, None for the first."""
        self.limits, self.generation = limits, generation
        self.account = Account(limits, LEASE_S)
        self._replaced_at = replaced_at
        self._workers: dict[str, _Worker] = {}
        self._last_permit = 0
        self._paused_until = -inf
        self._work = asyncio.Event()
        self._granted: dict[int, _Granted] = {}
        """Permits that nobody has said to be used, oldest first."""
        self._under_way: dict[int, _Granted] = {}
        self._tokens_out = 0.0
        """Charged for `_granted`."""
        self._uses: list[tuple[float, float, float]] = []
        """(time, requests, tokens) sent while no limit was known."""
        self._charged = 0.0
        """The tokens of all permits ever granted."""
        self._episode_began = -inf
        self._late_s, self._late_at = LATE_S, -inf

    @property
    def _limited(self) -> bool:
        """Whether a limit of requests or tokens is known."""
        return self.account.allowed != (None, None)

    def _held_s(self, now: float) -> float:
        """Seconds until a permit may be granted, if there is room."""
        opens_at = -inf
        if self._replaced_at is not None:
            unknown_s = self.limits.window_s + LEASE_S + MARGIN_S if self._limited else 0.0
            opens_at = self._replaced_at + max(SETTLE_S, unknown_s)
        return max(0.0, self._paused_until - now, opens_at - now)

    @property
    def _full(self) -> bool:
        """Whether as many requests are under way as may be at once."""
        n = (
            len(self._granted)
            + len(self._under_way)
            + sum(worker.adopted for worker in self._workers.values())
        )
        return n >= self.limits.max_concurrency

    async def ask(self, ask: Ask) -> Grant:
        """Take in a worker's reports, and answer when there is something for it, or after HOLD_S."""
        received_at = _now()
        worker = self._workers.setdefault(ask.worker, _Worker())
        worker.heard_at = received_at
        known = ask.generation == self.generation
        worker.adopted = min(worker.adopted, ask.in_flight) if known else ask.in_flight
        if ask.quotas and not known:
            self._report(Report(0, "served", quotas=ask.quotas), received_at)
        for report in ask.reports if known else ():
            worker.learned += self._report(report, received_at)
        if ask.number > worker.number:
            worker.number = ask.number
            await self._hold(worker, ask)
        if self._workers.get(ask.worker) is not worker:
            return Grant(self.generation, 0)
        return self._answer(worker, received_at)

    def gone(self, name: str) -> None:
        """Nothing that a worker sent is under way any more."""
        worker = self._workers.pop(name, None)
        if worker and worker.held:
            worker.held.set()
        for number in [n for n, granted in self._under_way.items() if granted.worker == name]:
            self.account.lost(self._under_way.pop(number).permit)
        self._forget()
        self._work.set()

    async def run(self) -> None:
        """Grant permits as time passes, until cancelled."""
        forget_at = 0.0
        while True:
            self._work.clear()
            now = _now()
            if now >= forget_at:
                self._forget()
                forget_at = now + FORGOTTEN_S
            self._pump()
            oldest = min(
                (worker.wants[-1] for worker in self._workers.values() if worker.wants), default=None
            )
            held_s = self._held_s(now)
            if oldest and held_s == 0 and not self._full and not self.account.has_room(oldest[1]):
                await self.account.wait(oldest[1])
                continue
            # Without anything to wait for, look now and then whether there are permits to forget.
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.001, held_s) if oldest and held_s else FORGOTTEN_S):
                    await self._work.wait()

    async def _hold(self, worker: _Worker, ask: Ask) -> None:
        """Wait until there is something for a worker; an earlier ask of it is answered."""
        if worker.held:
            worker.held.set()
        held = worker.held = asyncio.Event()
        heard = ask.heard if ask.generation == self.generation else 0
        worker.unheard = [grant for grant in worker.unheard if grant[0] > heard]
        on_their_way = sum(n for _, n in worker.unheard) + len(worker.pending)
        worker.wants = [*ask.wants[on_their_way:]][::-1]
        self._pump()
        self._work.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(HOLD_S):
                await held.wait()
        if worker.held is held:
            worker.held = None
            worker.wants.clear()

    def _answer(self, worker: _Worker, received_at: float) -> Grant:
        worker.granted += 1
        pending, worker.pending = worker.pending, []
        learned, worker.learned = worker.learned, []
        if pending:
            worker.unheard.append((worker.granted, len(pending)))
        permits = (replace(permit, after_s=at - received_at) for at, permit in pending)
        account = self.account
        return Grant(
            self.generation,
            worker.granted,
            tuple(permits),
            account.known,
            account.even,
            account.allowed,
            tuple(learned),
        )

    def _pump(self) -> None:
        """Grant what there is room for, to the oldest jobs first."""
        now = _now()
        if self.account.awaited or self._held_s(now) > 0:
            return
        oldest = [(*worker.wants[-1], name) for name, worker in self._workers.items() if worker.wants]
        heapify(oldest)
        while oldest and not self._full and self.account.has_room(oldest[0][1]):
            _, tokens, name = oldest[0]
            worker = self._workers[name]
            worker.wants.pop()
            worker.pending.append((now, self._grant(name, tokens, now)))
            if worker.held and len(worker.pending) == 1:
                asyncio.get_running_loop().call_later(GATHER_S, worker.held.set)
            if worker.wants:
                heapreplace(oldest, (*worker.wants[-1], name))
            else:
                heappop(oldest)

    def _grant(self, worker: str, tokens: float, now: float) -> GrantedPermit:
        """Charge a permit."""
        lease_s = EVEN_LEASE_S if self.account.even else LEASE_S
        permit = self.account.take(now, tokens, now + lease_s)
        self._charged = permit.tokens_sent
        # Any of those that are out may be sent, and counted by the server, after this one.
        permit.number -= len(self._granted)
        permit.tokens_sent -= self._tokens_out
        self._tokens_out += permit.tokens
        self._last_permit += 1
        self._granted[self._last_permit] = _Granted(worker, permit, now, now + lease_s)
        covers = inf if self.account.allowed[1] is None else tokens
        return GrantedPermit(self._last_permit, 0.0, lease_s, covers, self.account.doubts(permit))

    def _report(self, report: Report, now: float) -> list[tuple[LimitOf, float]]:
        """Take in what became of a permit; gives limits that are new by it. Unknown permits are ignored."""
        granted = self._granted.pop(report.permit, None)
        if granted:
            self._tokens_out -= granted.permit.tokens
            if report.outcome == "unused":
                self.account.give_back(granted.permit)
                self._work.set()
                return []
            self.account.redate(granted.permit, min(granted.by, granted.at + report.used_s))
            self._shift_flow(report.used_s, now)
            if not self._limited and len(self._uses) < MAX_USES:
                self._uses.append((granted.permit.sent_at, 1.0, granted.permit.tokens))
            self._under_way[report.permit] = granted
        if report.outcome == "used":
            return []
        ended = self._under_way.pop(report.permit, None)
        if ended:
            self._ended(ended.permit, report, now)
        if report.quotas and (ended or not self._limited):
            self._work.set()
            return self._learn(ended.permit if ended else Permit(0.0, now), report.quotas, now)
        return []

    def _learn(self, permit: Permit, quotas: Quotas, now: float) -> list[tuple[LimitOf, float]]:
        """Take in the limits that the answer to `permit` named."""
        if self._limited:
            return list(self.account.learn(now, permit, quotas))
        # The first word of a limit: what the server had left is known for the moment when that request was sent, and
        # what was sent since from the workers' reports.
        permit.number, permit.tokens_sent = self.account.sent, self._charged
        learned = list(self.account.learn(now, permit, quotas))
        since = [use for use in self._uses if use[0] > permit.sent_at - MARGIN_S]
        since += [(granted.by, 1.0, granted.permit.tokens) for granted in self._granted.values()]
        self.account.count(now, sorted(since))
        self._uses.clear()
        return learned

    def _ended(self, permit: Permit, report: Report, now: float) -> None:
        if report.outcome == "served":
            self.account.served(permit, report.tokens)
        elif report.outcome == "refused":
            self._refused(permit, report.wait_s, now)
        else:
            self.account.lost(permit)
        self._work.set()

    def _refused(self, permit: Permit, wait_s: float | None, now: float) -> None:
        expected = self.account.refused(permit, wait_s)
        isolated = self.account.known and self.account.seldom_refuses and (wait_s or 0.0) <= SHORT_PAUSE_S
        if not isolated:
            self._paused_until = max(self._paused_until, now + (wait_s or 0.0))
        if not expected and permit.sent_at > self._episode_began:
            self._episode_began = now
            self.account.slow_down(now)

    def _shift_flow(self, late_s: float, now: float) -> None:
        """Have an even flow wait for a late request; of those within a second the latest counts."""
        if now - self._late_at > 1.0:
            self._late_s = LATE_S
        if late_s > self._late_s:
            self.account.delay(late_s - self._late_s)
            self._late_s, self._late_at = late_s, now

    def _forget(self) -> None:
        """Give up permits whose answers were lost; they stay counted in the limits of rates."""
        for number, granted in list(self._granted.items()):
            worker = self._workers.get(granted.worker)
            if worker is None or worker.heard_at > granted.by + FORGOTTEN_S:
                self._tokens_out -= granted.permit.tokens
                self.account.lost(granted.permit)
                del self._granted[number]


class Limiter:
    """`ask` is for workers, `gone` for the head; `run` has to be running. One that replaces another is not `fresh`."""

    def __init__(self, *, fresh: bool = True) -> None:
        self.generation = secrets.token_hex(8)
        self._replaced_at = None if fresh else _now()
        self._accounts: dict[str, AccountLimiter] = {}
        self._gone: set[str] = set()
        self._new: asyncio.Queue[AccountLimiter] = asyncio.Queue()

    async def run(self) -> None:
        """Serve all accounts, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                group.start_soon((await self._new.get()).run)

    async def ask(self, ask: Ask) -> Grant:
        """See AccountLimiter.ask."""
        if ask.worker in self._gone:
            return Grant(self.generation, 0)
        if ask.account not in self._accounts:
            self._accounts[ask.account] = AccountLimiter(ask.limits, self.generation, self._replaced_at)
            self._new.put_nowait(self._accounts[ask.account])
        return await self._accounts[ask.account].ask(ask)

    def gone(self, worker: str) -> None:
        """Nothing that a worker sent is under way any more: what it held is free. It gets nothing any more."""
        self._gone.add(worker)
        for account in self._accounts.values():
            account.gone(worker)


def _now() -> float:
    return asyncio.get_running_loop().time()
