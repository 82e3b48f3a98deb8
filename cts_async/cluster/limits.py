"""Limits for all workers together: the head has the ordinary lanes and the budget, and workers ask it for permits.

A permit allows one request, and has to be used within half a second of its grant. No window of a limit is exceeded,
whatever is late or lost, and no clocks are compared:

- A permit counts as used at its end, until its worker reports how long after the grant it was used. A worker knows an
  upper bound of that: the grant was given a known time after its last update had arrived, and that was after it
  was sent.
- A permit of a worker that is lost stays counted.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import chain, count
from math import ceil, fsum, inf
from typing import Any, ClassVar, Final

import anyio.abc

from cts_async.engine.account import Account, LaneLimits, Permit
from cts_async.engine.budget import NOTHING, Budget, BudgetLimits, Deadline
from cts_async.engine.events import Cost, Events
from cts_async.engine.lane import Lane, Waiter
from cts_async.engine.ratelimit import PacedGate, Quotas
from cts_async.errors import NoFreeDescriptor, RateLimited, RunStopped, TransientError
from cts_async.records import message, value
from cts_async.runs.journal import SpentPart

LEASE_S: Final = 0.5
"""For how long after its grant a permit may be used."""
EVEN_LEASE_S: Final = 0.08
"""The same in an even flow, where a late request comes too close to the next one. A flow at 99 % of its limit leaves
0.1 s free in a window of 10 s, less 5 ms by which a request may be early; a permit must not use up more than that."""
DATES_PER_S: Final = 200.0
"""Times of use are rounded up to one of so many: permits that are used together count as one amount."""
LATE_S: Final = 0.010
"""A request of an even flow may be late by what the flow leaves free in a second; the flow waits for the rest."""

LEAST_TOGETHER: Final = 4
"""Waiting requests that are let in together; fewer one by one, which costs less then."""

# --- Messages between workers and the head about limits


@value
class RemoteAccount:
    """A provider account that a worker uses, with the name and limits of its lane."""

    account: str
    name: str
    limits: LaneLimits


@message
class PermitRequests:
    """Requests for permits of one account, a column for each field: one object for all of them travels faster than one
    each. The answer to each is a permit, or the RunStopped that ended the lane. Fields as in `Lane.admit`."""

    numbers: list[int] = field(default_factory=list)
    """Of the requests, in order."""
    seqs: list[int] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    step_keys: list[str] = field(default_factory=list)
    reserved: list[float] = field(default_factory=list)


@message
class Records:
    """Steps that a worker has executed, for the journal of a run."""

    numbers: list[int] = field(default_factory=list)
    """Of the requests whose steps wait for an answer, which is None."""
    keys: list[str | None] = field(default_factory=list)
    """None for a step that failed."""
    lines: bytearray = field(default_factory=bytearray)
    """One after the other: in one piece they are read, and written, without a look at each."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of each line."""
    part: SpentPart | None = None
    """What a summary counts of the steps; None where it reads them."""


@value
class Reserve:
    """Asks for a part of the budget; the answer is None. Fields as in `Budget.reserve`."""

    seq: int
    most: Cost


@message
class Grant:
    """Permits that were granted at the same time."""

    at: float
    """By the head's clock; as it travels, seconds after the head received the worker's last update."""
    lease_s: float
    in_outage: bool
    """Whether their requests are sent during an outage: then a failure costs no retry."""
    is_last: bool
    """Whether their steps are given up if these fail."""
    numbers: list[int] = field(default_factory=list)
    """Of the requests that are answered with them."""


@value
class Failure:
    """A permit whose request failed, or may have been counted or not (`error` is None then)."""

    used_s: float
    error: TransientError | None = None
    step_key: str = ""


Terms = tuple[float, float, bool, bool]
"""What permits have in common that are in one Grant: its fields but `numbers`."""


@message
class Reports:
    """What became of permits of one account, by the number of the request that was answered with each.

    `used_s` is an upper bound of the seconds between grant and use.
    """

    used: dict[int, float] = field(default_factory=dict)
    """Of permits whose requests are under way: `used_s`."""
    served: list[int] = field(default_factory=list)
    """Requests that were answered, in order; the next two are columns beside it."""
    served_used_s: list[float] = field(default_factory=list)
    tokens: list[float | None] = field(default_factory=list)
    """That each took; None where the answer does not say."""
    quotas: dict[int, Quotas] = field(default_factory=dict)
    """The limits that an answer named."""
    failed: dict[int, Failure] = field(default_factory=dict)

    def used_s(self) -> Iterator[tuple[int, float]]:
        """The `used_s` of all of them."""
        yield from self.used.items()
        yield from zip(self.served, self.served_used_s, strict=True)
        for number, failure in self.failed.items():
            yield number, failure.used_s


# --- The head's side


class LeasedAccount(Account):
    """An account whose permits are used within a lease after they were taken, by other processes."""

    settles_together: ClassVar[bool] = True

    def __init__(self, limits: LaneLimits) -> None:
        super().__init__(limits, LEASE_S)
        self._late_s, self._late_at = LATE_S, -inf

    def take(self, now: float, tokens: float, by: float | None = None, *, reserved: float = 0.0) -> Permit:
        until = now + LEASE_S
        if type(self._requests) is PacedGate or type(self._tokens) is PacedGate:
            until = now + EVEN_LEASE_S
        permit = Account.take(self, now, tokens, until, reserved=reserved)
        permit.leased_at = now
        return permit

    def used(self, uses: Iterable[tuple[Permit, float]], now: float) -> None:
        """Record that permits were used at most so many seconds after their grants; the first report of each counts."""
        latest_s = 0.0
        by_dates: defaultdict[tuple[float, float], list[Permit]] = defaultdict(list)
        for permit, after_s in uses:
            if permit.leased_at is None:
                continue
            sent_at = ceil((permit.leased_at + after_s) * DATES_PER_S) / DATES_PER_S
            if sent_at < permit.sent_at:
                by_dates[permit.sent_at, sent_at].append(permit)
            permit.leased_at = None
            latest_s = max(latest_s, after_s)
        for (was, sent_at), permits in by_dates.items():
            self.redate(was, sent_at, permits)
        self._note_lateness(latest_s, now)

    def settle_together(self, served: Iterable[tuple[Permit, float | None]]) -> None:
        """Replace the token estimates of requests by the true numbers, as far as they are known; those sent at the same
        time in one."""
        if self._tokens is None:
            return
        too_low: defaultdict[float, list[tuple[float, float]]] = defaultdict(list)
        too_high: defaultdict[float, list[tuple[float, float]]] = defaultdict(list)
        for permit, tokens_used in served:
            if tokens_used is None:
                continue
            charged = tokens_used
            if self.reserves:
                charged = max(tokens_used, permit.tokens)
            # Apart: what was too little is counted from now, and what was too much given back where it was taken.
            if charged > permit.tokens:
                too_low[permit.sent_at].append((permit.tokens, charged))
            else:
                too_high[permit.sent_at].append((permit.tokens, charged))
        # In this order, since a bucket that is full takes nothing back.
        for sent_at, pairs in chain(too_high.items(), too_low.items()):
            estimate = fsum(tokens for tokens, _ in pairs)
            if estimate <= self._tokens.limit:
                pairs = [(estimate, fsum(charged for _, charged in pairs))]
            for tokens, charged in pairs:
                self._tokens.settle(sent_at, tokens, charged)

    def _note_lateness(self, latest_s: float, now: float) -> None:
        # An even flow waits for a late request; of those within a second the latest counts.
        if now - self._late_at > 1.0:
            self._late_s = LATE_S
        if latest_s > self._late_s:
            self.delay(latest_s - self._late_s)
            self._late_s, self._late_at = latest_s, now


class SharedLane(Lane):
    """An account's lane, of which workers get permits."""

    def __init__(self, name: str, limits: LaneLimits, events: Events) -> None:
        self.account = LeasedAccount(limits)
        super().__init__(name, limits, events, self.account)
        self._outage = False

    def permit_now(self, tokens: float, reserved: float, now: float) -> Permit | None:
        """A permit if there is room and nobody else waits for it; None: `request` it. Raises RunStopped."""
        if self.stopped:
            raise self.stopped
        if self._limited.unanswered:
            self._note_idle_time()
        if self._waiting:
            return None
        charge = self._charge(tokens, reserved)
        if not self._is_free(now, charge):
            return None
        return self._send(now, charge, reserved)

    def permits_now(self, requests: PermitRequests, now: float) -> list[Permit]:
        """Permits for all of these requests; none where one of them has to wait, or to be looked at by itself."""
        is_usual = self._account.sent > 0 and not self._limited.unanswered and not self._waiting
        if self.stopped or not is_usual or self._held_s(now) != 0 or self.circuit.opened_at is not None:
            return []
        if self.in_flight + len(requests.numbers) > self.window.size:
            return []
        charges: Sequence[float] = requests.tokens
        if self.account.reserves:
            charges = list(map(self._charge, requests.tokens, requests.reserved))
        permits = self.account.take_together(now, charges, now + LEASE_S, requests.reserved)
        if permits and not self.in_flight:
            self._alive_at = now
        self.in_flight += len(permits)
        return permits

    def _pump(self) -> None:
        """As in `Lane`, but take permits of as many as there is room for together."""
        n = min(len(self._waiting), ceil(self.window.size - self.in_flight))
        now = asyncio.get_running_loop().time()
        # The first request of all, and probes in an outage, are looked at one by one.
        is_usual = self.account.sent > 0 and self.circuit.opened_at is None and self._held_s(now) == 0
        if n >= LEAST_TOGETHER and is_usual:
            charge = self._charge(self._waiting[0].tokens, self._waiting[0].reserved)
            if self.account.has_ample_room(n, n * charge):
                self._let_in(self._pop_oldest(n), now)
        super()._pump()

    def _let_in(self, waiters: Sequence[Waiter], now: float) -> None:
        """Give these permits that are taken together; where that is not possible, they wait on."""
        charges = [self._charge(waiter.tokens, waiter.reserved) for waiter in waiters]
        reserved = [waiter.reserved for waiter in waiters]
        permits = self.account.take_together(now, charges, now + LEASE_S, reserved)
        if not permits:
            for waiter in waiters:
                heappush(self._waiting, waiter)
            return
        if not self.in_flight:
            self._alive_at = now
        self.in_flight += len(permits)
        for waiter, permit in zip(waiters, permits, strict=True):
            waiter.granted.set_result(permit)

    def _pop_oldest(self, n: int) -> list[Waiter]:
        """Remove the `n` oldest of those that still wait, or as many as there are."""
        waiters: list[Waiter] = []
        while self._waiting and len(waiters) < n:
            waiter = heappop(self._waiting)
            if not waiter.granted.done():
                waiters.append(waiter)
        return waiters

    @property
    def has_queue(self) -> bool:
        """True if requests wait for permits."""
        return bool(self._waiting)

    def request(self, seq: int, tokens: float, step_key: str, reserved: float) -> asyncio.Future[Permit]:
        """`admit` without a task that waits, for what `permit_now` has no permit."""
        return self._queue(seq, tokens, step_key, reserved)

    def terms_of(self, permit: Permit, step_key: str) -> Terms:
        """On which terms a permit is granted."""
        assert permit.leased_at is not None, "nobody has used it yet"
        lease_s = permit.sent_at - permit.leased_at
        return permit.leased_at, lease_s, self._outage, step_key in self._hopeless

    @property
    def given_up(self) -> Set[str]:
        """Keys of steps that are given up if they fail once more."""
        return self._hopeless

    def served(self, permit: Permit, tokens: float | None, quotas: Quotas) -> None:
        """Record that the request of a permit was answered, with the limits that the answer named."""
        self.succeeded(permit, tokens, quotas)
        self._outage = False

    def served_together(self, answers: Sequence[tuple[Permit, float | None]]) -> None:
        """Record that the requests of permits were answered, and how many tokens each took, if that is known."""
        if answers:
            self.succeeded_together(answers)
            self._outage = False

    def has_failed(self, permit: Permit, failure: Failure) -> None:
        """Record that the request of a permit failed, or that nobody knows what became of it."""
        if failure.error is None:
            self.abandoned(permit)
        else:
            self._outage = self.failed(permit, failure.error, failure.step_key)

    def unused(self, permit: Permit) -> None:
        """Take a permit back that was not used and never will be."""
        self.account.give_back(permit)
        permit.probes = ()
        self.abandoned(permit)


@dataclass
class Limits:
    """All lanes, by account, and the budget. `on_spent` is called with the reason when that is spent."""

    budget: Budget | None
    events: Events
    background: anyio.abc.TaskGroup
    on_spent: Callable[[RunStopped], None]
    lanes: dict[str, SharedLane] = field(default_factory=dict)

    @property
    def somebody_waits(self) -> bool:
        """True if a request waits for a permit, whose lane is full, paused or at its limit."""
        return any(lane.has_queue for lane in self.lanes.values())

    def open(self, accounts: Iterable[RemoteAccount]) -> None:
        """Open a lane for each account that has none."""
        for remote in accounts:
            if remote.account not in self.lanes:
                lane = SharedLane(remote.name, remote.limits, self.events)
                self.lanes[remote.account] = lane
                self.background.start_soon(lane.dispatch)


class WorkerShare:
    """What one worker has of the limits. `answer` is called with a request's number and its answer, `grant` with the
    numbers of requests for permits and the terms of these permits."""

    def __init__(
        self,
        limits: Limits,
        answer: Callable[[int, object], None],
        grant: Callable[[Sequence[int], Terms], None],
    ) -> None:
        self.limits, self._answer, self._grant = limits, answer, grant
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._permits: defaultdict[str, dict[int, Permit]] = defaultdict(dict)
        """By account and by the number of the request."""
        self._reserved: dict[int, Cost] = {}

    def admit(self, account: str, requests: PermitRequests, now: float) -> None:
        """Answer requests for permits, now or as soon as there is room."""
        lane, permits = self.limits.lanes[account], self._permits[account]
        permits_of_all = lane.permits_now(requests, now)
        if permits_of_all and lane.given_up.isdisjoint(requests.step_keys):
            # They were taken together, and have the same terms.
            permits.update(zip(requests.numbers, permits_of_all, strict=True))
            self._grant(requests.numbers, lane.terms_of(permits_of_all[0], ""))
            return
        if permits_of_all:
            for number, granted, step_key in zip(
                requests.numbers, permits_of_all, requests.step_keys, strict=True
            ):
                permits[number] = granted
                self._grant([number], lane.terms_of(granted, step_key))
            return
        columns = (requests.numbers, requests.seqs, requests.tokens, requests.step_keys, requests.reserved)
        for number, seq, tokens, step_key, reserved in zip(*columns, strict=True):
            try:
                permit = lane.permit_now(tokens, reserved, now)
            except RunStopped as reason:
                self._answer(number, reason)
                continue
            if permit is not None:
                permits[number] = permit
                self._grant([number], lane.terms_of(permit, step_key))
                continue
            waiting = lane.request(seq, tokens, step_key, reserved)
            waiting.add_done_callback(partial(self._admitted, number, account, step_key))
            self._waiting[number] = waiting

    def reserve(self, number: int, request: Reserve) -> None:
        """Answer a request for a part of the budget as soon as there is room."""
        waiting = asyncio.ensure_future(self._reserve(number, request))
        waiting.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._waiting[number] = waiting

    def withdraw(self, number: int) -> None:
        """Cancel a request whose answer is not wanted any more, or came too late."""
        if number in self._reserved:
            self.settle(number, NOTHING)
        elif number in self._waiting:
            self._waiting.pop(number).cancel()
        else:
            for account, permits in self._permits.items():
                if number in permits:
                    self.limits.lanes[account].unused(permits.pop(number))

    def report(self, account: str, reports: Reports, now: float) -> None:
        """Record the outcomes of permits."""
        lane, permits = self.limits.lanes[account], self._permits[account]
        # For all of them, before one leaves its lane and lets in who waits for room.
        uses = [(permits[number], used_s) for number, used_s in reports.used_s() if number in permits]
        lane.account.used(uses, now)
        served = []
        for number, tokens in zip(reports.served, reports.tokens, strict=True):
            if number in permits:
                served.append((number, permits.pop(number), tokens))
        lane.account.settle_together((permit, tokens) for _, permit, tokens in served)
        answers: list[tuple[Permit, float | None]] = []
        for number, permit, tokens in served:
            if number not in reports.quotas:
                answers.append((permit, tokens))
                continue
            lane.served_together(answers)
            answers = []
            lane.served(permit, tokens, reports.quotas[number])
        lane.served_together(answers)
        for number, failure in reports.failed.items():
            if number in permits:
                lane.has_failed(permits.pop(number), failure)

    def settle(self, number: int, cost: Cost) -> None:
        """Replace the reservation of a call that is over by its true cost."""
        reserved = self._reserved.pop(number, None)
        if reserved is not None and self.limits.budget:
            self.limits.budget.settle(reserved, cost)

    def lose(self) -> None:
        """Cancel the requests of a worker that is gone; all that it may have spent counts as spent."""
        for number in list(self._waiting):
            self._waiting.pop(number).cancel()
        for number, reserved in list(self._reserved.items()):
            self.settle(number, reserved)

    def free(self) -> None:
        """Release its permits: nothing that the worker sent is under way any more."""
        for account, permits in self._permits.items():
            for permit in permits.values():
                self.limits.lanes[account].abandoned(permit)
        self._permits.clear()

    def _admitted(self, number: int, account: str, step_key: str, granted: asyncio.Future[Permit]) -> None:
        is_waiting = self._waiting.pop(number, None) is not None
        if granted.cancelled():
            return
        reason = granted.exception()
        if reason:
            self._answer(number, reason)
            return
        permit, lane = granted.result(), self.limits.lanes[account]
        if is_waiting:
            self._permits[account][number] = permit
            self._grant([number], lane.terms_of(permit, step_key))
        else:  # withdrawn after it was granted, and before this callback ran
            lane.unused(permit)

    async def _reserve(self, number: int, ask: Reserve) -> None:
        assert self.limits.budget, "workers have a budget only if the head has one"
        try:
            await self.limits.budget.reserve(ask.seq, ask.most)
        except RunStopped as reason:
            self.limits.on_spent(reason)
        else:
            self._reserved[number] = ask.most
            self._answer(number, None)


# --- A worker's side


class Requests:
    """A worker's requests and reports to the head. `wake` is called when there is something new."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self._numbers = count(1)
        self._waiting: dict[int, tuple[object, asyncio.Future[Any]]] = {}
        self.n_unsent = 0
        """Questions that are not sent yet, and hold up those who ask."""
        self.unsent: list[tuple[int, Any]] = []
        self.permits: dict[str, PermitRequests] = {}
        """By account, requests for permits that are not sent yet."""
        self.records: dict[int, Records] = {}
        """By the number of a run, steps that are not sent yet."""
        self.withdrawn: list[int] = []
        self.reports: defaultdict[str, Reports] = defaultdict(Reports)
        """By account, what became of permits and is not sent yet."""
        self.settled: list[tuple[int, Cost]] = []

    async def ask(self, request: object, owner: object = None) -> tuple[int, Any]:
        """The request's number, and the head's answer. Raises the reason if the answer is one, or `owner` is stopped."""
        number = next(self._numbers)
        self.unsent.append((number, request))
        self.n_unsent += 1
        return number, await self._answer_to(number, owner)

    async def ask_permit(
        self, account: str, seq: int, tokens: float, step_key: str, reserved: float, owner: object
    ) -> tuple[int, Grant]:
        """The request's number, and the Grant that answers it. Raises as `ask`."""
        number = next(self._numbers)
        requests = self.permits.get(account)
        if requests is None:
            requests = self.permits[account] = PermitRequests()
        requests.numbers.append(number)
        requests.seqs.append(seq)
        requests.tokens.append(tokens)
        requests.step_keys.append(step_key)
        requests.reserved.append(reserved)
        self.n_unsent += 1
        return number, await self._answer_to(number, owner)

    def send_record(self, run: int, key: str | None, line: bytes) -> Records:
        """Have the head append a step's line to the journal of a run; returns the records that it is sent with."""
        records = self.records.get(run)
        if records is None:
            records = self.records[run] = Records()
        records.keys.append(key)
        records.lines += line
        records.sizes.append(len(line))
        self.wake()
        return records

    async def append(self, run: int, key: str | None, line: bytes) -> None:
        """`send_record`, and wait until the head has appended it. Raises as `ask`."""
        number = next(self._numbers)
        self.n_unsent += 1
        self.send_record(run, key, line).numbers.append(number)
        await self._answer_to(number, None)

    async def _answer_to(self, number: int, owner: object) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = owner, answered
        self.wake()
        try:
            return await answered
        except BaseException:
            self.withdraw(number)
            raise

    def withdraw(self, number: int) -> None:
        """Tell the head that an answer is not wanted any more, or came too late."""
        self._waiting.pop(number, None)
        self.withdrawn.append(number)
        self.wake()

    def report_used(self, account: str, number: int, used_s: float) -> None:
        self.reports[account].used[number] = used_s
        self.wake()

    def report_served(
        self, account: str, number: int, used_s: float, tokens: float | None, quotas: Quotas | None
    ) -> None:
        reports = self.reports[account]
        # One report for a permit whose use the head does not know yet.
        reports.used.pop(number, None)
        reports.served.append(number)
        reports.served_used_s.append(used_s)
        reports.tokens.append(tokens)
        if quotas:
            reports.quotas[number] = quotas
        self.wake()

    def report_failed(self, account: str, number: int, failure: Failure) -> None:
        reports = self.reports[account]
        reports.used.pop(number, None)
        reports.failed[number] = failure
        self.wake()

    def settle(self, number: int, cost: Cost) -> None:
        self.settled.append((number, cost))
        self.wake()

    def answer(self, answers: Mapping[int, object], grants: Iterable[Grant], update_sent_at: float) -> None:
        """Hand out the head's answers; its last update was sent at the given time."""
        for grant in grants:
            # The head counts from the arrival of that update, which was not before it was sent: so the permits are no
            # younger than this says.
            grant.at += update_sent_at
            for number in grant.numbers:
                self._hand_out(number, grant)
        for number, answer in answers.items():
            self._hand_out(number, answer)

    def _hand_out(self, number: int, answer: object) -> None:
        _, answered = self._waiting.pop(number, (None, None))
        if answered is None or answered.done():
            return  # withdrawn
        if isinstance(answer, RunStopped):
            answered.set_exception(answer)
        else:
            answered.set_result(answer)

    def stop(self, reason: RunStopped, owner: object) -> None:
        """Answer the requests of one owner with `reason`."""
        for waiting_owner, answered in self._waiting.values():
            if waiting_owner is owner and not answered.done():
                answered.set_exception(reason)


class RemoteLane(Lane):
    """A worker's way to a lane of the head."""

    def __init__(self, account: RemoteAccount, requests: Requests) -> None:
        super().__init__(account.name, account.limits)
        self.account, self._requests = account, requests
        self._permits: dict[int, tuple[Grant, float]] = {}
        """By number: the grant, and how long after it the permit was used."""
        self._newest = 0
        """The number of the newest of them."""

    async def admit(
        self, seq: int, tokens: float = 0.0, step_key: str = "", *, reserved: float = 0.0
    ) -> Permit:
        if self.stopped:
            raise self.stopped
        account = self.account.account
        while True:
            number, grant = await self._requests.ask_permit(account, seq, tokens, step_key, reserved, self)
            now = _now()
            used_s = max(0.0, now - grant.at)
            if used_s < grant.lease_s:
                break
            # Too late: it is given back unused, and another one is asked for.
            self._requests.withdraw(number)
        if grant.is_last:
            self._hopeless.add(step_key)
        self.in_flight += 1
        self._permits[number] = grant, used_s
        self._newest = max(self._newest, number)
        self._requests.report_used(account, number, used_s)
        return Permit(tokens, now, number=number)

    def succeeded(self, permit: Permit, tokens_used: float | None, quotas: Quotas | None = None) -> None:
        _, used_s = self._used(permit)
        # Whether a step or the account is refused shows in this worker's own requests.
        self._limited.answered(permit.number)
        self._forbidden.answered()
        self._requests.report_served(self.account.account, permit.number, used_s, tokens_used, quotas)

    def failed(self, permit: Permit, error: TransientError, step_key: str) -> bool:
        grant, used_s = self._used(permit)
        if isinstance(error, RateLimited):
            self._limited.refused(_now(), step_key, self._newest)
        self._report_failed(permit, Failure(used_s, error, step_key))
        if isinstance(error, NoFreeDescriptor):
            # Whoever else is in flight here makes room at its end, as in `Lane`.
            return self.in_flight > 0
        return grant.in_outage

    def abandoned(self, permit: Permit) -> None:
        _, used_s = self._used(permit)
        self._report_failed(permit, Failure(used_s))

    def stop(self, reason: RunStopped) -> None:
        super().stop(reason)
        self._requests.stop(reason, self)

    async def dispatch(self) -> None:
        return  # the head does

    def _report_failed(self, permit: Permit, failure: Failure) -> None:
        self._requests.report_failed(self.account.account, permit.number, failure)

    def _used(self, permit: Permit) -> tuple[Grant, float]:
        self.in_flight -= 1
        return self._permits.pop(permit.number)


class RemoteBudget(Budget):
    """A worker's way to the budget of the head; the deadline is its own."""

    def __init__(self, requests: Requests, deadline: Deadline | None) -> None:
        super().__init__(BudgetLimits(), deadline=deadline)
        self._requests = requests
        self._numbers: defaultdict[Cost, list[int]] = defaultdict(list)
        """By amount, reservations of calls under way."""

    async def reserve(self, seq: int, most: Cost) -> None:
        if self._stopped:
            raise self._stopped
        number, _ = await self._requests.ask(Reserve(seq, most), self)
        self._numbers[most].append(number)

    def settle(self, reserved: Cost, true: Cost) -> None:
        numbers = self._numbers[reserved]
        self._requests.settle(numbers.pop(), true)
        if not numbers:
            # Nearly every call has another amount.
            del self._numbers[reserved]

    def stop(self, reason: RunStopped) -> None:
        super().stop(reason)
        self._requests.stop(reason, self)


def _now() -> float:
    return asyncio.get_running_loop().time()
