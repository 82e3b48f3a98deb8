"""One provider account: who may send to it, when, and in which order.

All roles that use the account share its lane. The oldest instance is served first through every wait,
so instances finish steadily and a large request never starves behind small ones. A free lane admits at
once, a caller that leaves lets the next one in, and what has to wait for time to pass (a gate, a pause,
an outage) is waited for by one long-lived dispatcher for everybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Literal

from cts_async.engine.circuit import Circuit
from cts_async.engine.concurrency import ConcurrencyWindow
from cts_async.engine.events import CircuitChanged, Events, LanePaused, LimitLearned
from cts_async.engine.kind import PLENTY
from cts_async.engine.limits import Gate, LimitKind, MeterGate, PacedGate, make_gate
from cts_async.engine.quota import Quota, Quotas
from cts_async.errors import ProviderDown, RateLimited, RunStopped, TimedOut, TransientError

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
SHORT_PAUSE_S = 2.0
"""After a longer pause nobody knows how things stand: one request asks before the others follow."""
RARE_S = 10.0
"""Refusals further apart than this are exceptions where the limits are known."""
TOKEN_GRAIN = 500.0
"""Tokens are paced in grains of about this many: finer would only cost wake-ups."""

FIRST_CAUTION, MAX_CAUTION, FORGET = 1.2, 4.0, 0.001
"""Estimates are charged with the worst factor by which one was too low lately: what is not used comes back
within a second or two, and costs nothing, but what was not charged is refused."""
MINUTE_S = 60.0
_OVERLOADED = frozenset({503, 529})


LimitOf = Literal["requests", "tokens"]


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """What the account allows; None where no limit is known.

    Without any known limit, or where nobody told how the server counts (`auto`), concurrency finds its own
    level under `max_concurrency`. `raisable` lets the provider's own word raise a limit, not only lower it.
    """

    requests_per_min: float | None = None
    tokens_per_min: float | None = None
    max_concurrency: int = 64
    kind: LimitKind = "paced"
    window_s: float = 60.0
    max_outage_s: float = 900.0
    raisable: bool = True

    @property
    def known(self) -> bool:
        """Whether the gates alone keep the account's limits, so that no care is needed at first."""
        return self.kind != "auto" and (self.requests_per_min, self.tokens_per_min) != (None, None)


@dataclass(slots=True)
class Permit:
    """Leave to send one request, with what it was charged and how the account stood."""

    tokens: float
    sent_at: float
    caution: float = 1.0
    """The factor over the estimate that `tokens` hold."""
    number: int = 0
    """Of all requests sent on this lane."""
    tokens_sent: float = 0.0
    """All tokens charged on this lane, this request's among them."""
    rooms: tuple[float, float] = (inf, inf)
    """Requests and tokens that could still be sent after this one."""
    probes: tuple[Gate, ...] = ()
    """Gates that learn from this request's fate."""
    looks: bool = False
    """Whether it looks if an outage is over."""


@dataclass(slots=True, frozen=True)
class _Waiter:
    tokens: float
    granted: asyncio.Future[Permit]


class Lane:
    """`async with`-less on purpose: `admit`, then exactly one of `succeeded`, `failed`, `abandoned`."""

    def __init__(self, name: str, limits: LaneLimits, events: Events | None = None) -> None:
        self.name, self.limits = name, limits
        self.in_flight = 0
        self.circuit = Circuit()
        self.window = ConcurrencyWindow(limits.max_concurrency, known=limits.known)
        self._events = Events() if events is None else events
        self._requests = self._gate(limits.requests_per_min)
        self._tokens = self._gate(limits.tokens_per_min, smallest=TOKEN_GRAIN)
        self._waiting: list[tuple[int, int, _Waiter]] = []
        self._order = count()
        self._work = asyncio.Event()
        self._at_gate: asyncio.Timeout | None = None
        self._sent = 0
        self._tokens_sent = 0.0
        self._caution = FIRST_CAUTION
        self._lowest: dict[LimitOf, tuple[float, float]] = {}
        """The lowest limit that answers named lately, and when one last did."""
        self._paused_until = 0.0
        self._pause_s = 0.0
        self._episode_began = -inf
        self._stopped: RunStopped | None = None
        self._ended = asyncio.Event()
        self._resting = 0

    def _gate(self, per_min: float | None, smallest: float = 1.0) -> Gate | None:
        if per_min is None:
            return None
        return make_gate(self.limits.kind, per_min, self.limits.window_s, smallest=smallest)

    @property
    def waiting(self) -> int:
        return sum(not waiter.granted.done() for _, _, waiter in self._waiting)

    @property
    def stopped(self) -> RunStopped | None:
        """Why nobody is admitted any more, if so."""
        return self._stopped

    @property
    def paused_s(self) -> float:
        """Seconds for which nobody may send because the provider asked for less."""
        return max(0.0, self._paused_until - asyncio.get_running_loop().time())

    async def admit(self, seq: int, tokens: float = 0.0) -> Permit:
        """Wait for leave to send one request of about `tokens`; lower `seq` (older instance) goes first.

        Raises RunStopped when the run ends while waiting. A cancelled waiter takes nothing with it.
        """
        if self._stopped:
            raise self._stopped
        if not self._waiting and self._free_now(tokens):
            return self._send(tokens)
        granted: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (seq, next(self._order), _Waiter(tokens, granted)))
        if self.in_flight < self.window.size:
            self._work.set()
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.abandoned(granted.result())
            raise

    async def rest(self, seconds: float) -> None:
        """Wait before another attempt, but not when nobody is admitted any more: `admit` then says why."""
        self._resting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return
        finally:
            self._resting -= 1

    def succeeded(self, permit: Permit, tokens_used: float | None, quotas: Quotas | None = None) -> None:
        """The provider answered; `tokens_used` settles the estimate (None: it did not say)."""
        self._settle(permit, tokens_used)
        self._pause_s = 0.0
        if permit.sent_at > self._episode_began:
            self.window.answered(self.in_flight)
        for gate in permit.probes:
            gate.probed(served=True)
        if self._requests:
            self._requests.speed_up(permit.sent_at)
        if self._tokens:
            self._tokens.speed_up(permit.sent_at)
        if self.circuit.succeeded():
            self.window.reopen(known=self._known)
            self._events.emit(CircuitChanged(self.name, open=False, reason="the provider answers again"))
        if quotas:
            self._learn(permit, quotas)
        self._leave()

    def failed(self, permit: Permit, error: TransientError, step_key: str) -> bool:
        """The provider could not answer. True if an outage is under way, so that it costs no retry."""
        now = asyncio.get_running_loop().time()
        if isinstance(error, RateLimited):
            self._settle(permit, 0.0)
            self._refund(permit)
            self._refused(permit, error, now)
            self._look_no_more(permit)
        else:
            self._unprobe(permit)
            overloaded = error.status in _OVERLOADED or isinstance(error, TimedOut)
            if overloaded and not self.circuit.is_open and permit.sent_at > self._episode_began:
                self._episode_began = now
                self.window.refused(self.in_flight, gently=self._known)
            self._count_failure(permit, error, step_key, now)
            self._refuse_to_wait(error, error.retry_after_s or 0.0)
        self._leave()
        if self.circuit.is_open:
            self._work.set()  # an outage is timed even while everybody rests
        return self.circuit.is_open

    def abandoned(self, permit: Permit) -> None:
        """The attempt was cancelled: nobody knows what the server counted, so the charge stays."""
        self._look_no_more(permit)
        self._unprobe(permit)
        self._leave()

    def stop(self, reason: RunStopped) -> None:
        """Nobody is admitted any more; everybody who waits is told `reason`."""
        self._stopped = self._stopped or reason
        for _, _, waiter in self._waiting:
            if not waiter.granted.done():
                waiter.granted.set_exception(self._stopped)
        self._waiting.clear()
        self._ended.set()
        self._work.set()

    async def dispatch(self) -> None:
        """Wait for time to pass on behalf of everybody, until cancelled: one long-lived task per lane."""
        loop = asyncio.get_running_loop()
        while True:
            self._work.clear()
            self._pump()
            wait_s = self._held_s(loop.time()) if self._waiting else None
            if wait_s == 0:
                await self._wait_at_gates()
                continue
            patience_s = self._patience_s(loop.time())
            if patience_s is not None:
                if patience_s <= 0:
                    self._give_up(loop.time())
                    continue
                wait_s = patience_s if wait_s is None else min(wait_s, patience_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._work.wait()

    async def _wait_at_gates(self) -> None:
        """Wait until the gates may let the oldest through."""
        tokens = self._waiting[0][2].tokens * self._caution
        try:
            async with asyncio.timeout(None) as self._at_gate:
                if self._requests and not self._requests.has_room(1.0):
                    await self._requests.wait(1.0)
                elif self._tokens and not self._tokens.has_room(tokens):
                    await self._tokens.wait(tokens)
        except TimeoutError:
            return  # there is another gate now
        finally:
            self._at_gate = None

    def _pump(self) -> None:
        """Let in as many of the oldest as may go now."""
        while self._waiting:
            waiter = self._waiting[0][2]
            if waiter.granted.done():
                heappop(self._waiting)
            elif self._free_now(waiter.tokens):
                heappop(self._waiting)
                waiter.granted.set_result(self._send(waiter.tokens))
            else:
                return

    def _held_s(self, now: float) -> float | None:
        """Seconds until slots, pause and circuit let somebody send; None: until something happens."""
        if self.in_flight >= self.window.size:
            return None
        return max(self.circuit.wait_s(now), self._paused_until - now, 0.0)

    def _free_now(self, tokens: float) -> bool:
        if self._held_s(asyncio.get_running_loop().time()) != 0:
            return False
        return (self._requests is None or self._requests.has_room(1.0)) and (
            self._tokens is None or self._tokens.has_room(tokens * self._caution)
        )

    def _send(self, tokens: float) -> Permit:
        tokens *= self._caution
        self.in_flight += 1
        self._sent += 1
        self._tokens_sent += tokens
        now = asyncio.get_running_loop().time()
        looks = self.circuit.sending(now)
        permit = Permit(tokens, now, self._caution, self._sent, self._tokens_sent, looks=looks)
        requests, of_tokens = self._requests, self._tokens
        if requests or of_tokens:
            if requests and requests.take(now, 1.0):
                permit.probes = (requests,)
            if of_tokens and of_tokens.take(now, tokens):
                permit.probes = (*permit.probes, of_tokens)
            permit.rooms = (_room(requests), _room(of_tokens))
        return permit

    def _leave(self) -> None:
        self.in_flight -= 1
        # What the dispatcher is waiting for at a gate must not be taken from under it.
        if self._waiting and not self._at_gate:
            self._pump()
            if self._waiting and self.in_flight < self.window.size:
                self._work.set()

    def _settle(self, permit: Permit, tokens_used: float | None) -> None:
        if self._tokens is None or tokens_used is None:
            return
        self._tokens.settle(permit.sent_at, permit.tokens, tokens_used)
        if permit.tokens and tokens_used:
            ratio = tokens_used / permit.tokens * permit.caution
            decayed = self._caution + FORGET * (max(1.0, ratio) - self._caution)
            self._caution = min(MAX_CAUTION, max(ratio, decayed))

    def _refund(self, permit: Permit) -> None:
        """A refused request does not count; in an even flow its place has passed."""
        if isinstance(self._requests, MeterGate):
            self._requests.settle(permit.sent_at, 1.0, 0.0)

    def _unprobe(self, permit: Permit) -> None:
        for gate in permit.probes:
            gate.probed(served=None)

    def _refused(self, permit: Permit, error: RateLimited, now: float) -> None:
        """Slow down for everybody, once per episode, and for as long as the provider says."""
        expected, known = self._expected(permit), self._known
        wait_s = error.retry_after_s
        self._requests = self._taught(self._requests, permit, permit.rooms[0], wait_s)
        self._tokens = self._taught(self._tokens, permit, permit.rooms[1], wait_s, TOKEN_GRAIN)
        rare = known and now - self._episode_began > RARE_S
        new = permit.sent_at > self._episode_began
        if new:
            self._begin_episode(now, expected=expected, rare=rare)
        pause_s = self._pause_s if error.retry_after_s is None else error.retry_after_s
        self._refuse_to_wait(error, pause_s)
        if rare and error.retry_after_s is not None and pause_s <= SHORT_PAUSE_S:
            return  # an exception: the refused one waits, as its retry does by itself
        until = now + pause_s
        if pause_s > 0 and until > self._paused_until:
            self._paused_until = until
            self._events.emit(LanePaused(self.name, until - now))
            if new and not expected and not (known and pause_s <= SHORT_PAUSE_S):
                self.window.restart()

    def _refuse_to_wait(self, error: TransientError, pause_s: float) -> None:
        """Stop where the provider asks for more patience than the user has."""
        if pause_s > self.limits.max_outage_s:
            self.stop(
                ProviderDown(f"{error}: it asks for a pause of {pause_s:.0f} s; the same command resumes")
            )

    @property
    def _known(self) -> bool:
        """Whether limits are known by now, so that a refusal is an exception and not the way to find them."""
        if self.limits.known:
            return True
        gates = (self._requests, self._tokens)
        return any(gate is not None and gate.sure for gate in gates)

    def _expected(self, permit: Permit) -> bool:
        """Whether the request went to find out how the server counts: then its refusal does not say that
        we are too fast."""
        return any(
            isinstance(gate, MeterGate) and not gate.sure and room <= PLENTY * gate.limit
            for gate, room in zip((self._requests, self._tokens), permit.rooms, strict=True)
        )

    def _taught(
        self, gate: Gate | None, permit: Permit, room: float, lasting_s: float | None, smallest: float = 1.0
    ) -> Gate | None:
        """The gate after a refusal of a request that left `room`."""
        if not isinstance(gate, MeterGate):
            return gate
        if gate.finder:
            gate.finder.refused(probe=gate in permit.probes, room=room)
            if gate.finder.kind == "paced":
                gate.told()
                return PacedGate(gate.limit, self.limits.window_s, smallest, empty=True)
        left = gate.room()
        if gate.sure and 0 < left <= PLENTY * gate.limit:
            gate.charge(left, lasting_s)  # the server sees less room than we do
        gate.told()
        return gate

    def _begin_episode(self, now: float, *, expected: bool, rare: bool) -> None:
        # Everything sent before the episode began says the same thing once more: it must not add up.
        self._episode_began = now
        self._pause_s = min(MAX_PAUSE_S, self._pause_s * 2 or FIRST_PAUSE_S)
        paced = [gate for gate in (self._requests, self._tokens) if isinstance(gate, PacedGate)]
        for gate in paced:
            gate.slow_down(now)
        if not expected and not (rare and paced):
            self.window.refused(self.in_flight, gently=rare)

    def _learn(self, permit: Permit, quotas: Quotas) -> None:
        if self.limits.window_s != MINUTE_S:
            return  # somebody knows better than the headers, which speak of minutes
        if quotas.requests:
            since = float(self._sent - permit.number)
            self._requests = self._agreed("requests", self._requests, quotas.requests, permit.rooms[0], since)
        if quotas.tokens:
            since = self._tokens_sent - permit.tokens_sent
            self._tokens = self._agreed("tokens", self._tokens, quotas.tokens, permit.rooms[1], since)

    def _agreed(self, what: LimitOf, gate: Gate | None, quota: Quota, room: float, since: float) -> Gate:
        """The gate that agrees with what the provider said of `what`.

        `room` is what we thought was left when that request went, `since` what has been sent after it: the
        provider may have counted any of it already.
        """
        now = asyncio.get_running_loop().time()
        lowest, named_at = self._lowest.get(what, (quota.limit, now))
        if quota.limit > 1.01 * lowest and now - named_at <= MINUTE_S and gate:
            return gate  # models of one account may have limits of their own: the strictest holds
        self._lowest[what] = (quota.limit, now)
        limit = quota.limit if gate is None or self.limits.raisable else min(quota.limit, gate.limit)
        if gate is None or abs(limit - gate.limit) > 0.01 * limit:
            return self._learned(what, gate, limit, quota, since)
        if quota.remaining is not None and room < inf and isinstance(gate, MeterGate):
            # What is missing may have been charged already, on the word of another answer.
            foreign = min(room - since, gate.room()) - quota.remaining
            if foreign > 1.0:
                # Somebody else uses the account too, or this run was here a moment ago.
                gate.charge(foreign, quota.reset_s)
        return gate

    def _learned(self, what: LimitOf, gate: Gate | None, limit: float, quota: Quota, since: float) -> Gate:
        kind: LimitKind = self.limits.kind if gate else "auto"
        learned = make_gate(kind, limit, MINUTE_S, smallest=TOKEN_GRAIN if what == "tokens" else 1.0)
        if isinstance(learned, MeterGate):
            sent = self._sent if what == "requests" else self._tokens_sent
            used = sent if quota.remaining is None else max(0.0, quota.limit - quota.remaining) + since
            learned.charge(min(limit, used), quota.reset_s)
        if self._at_gate and not self._at_gate.expired():
            self._at_gate.reschedule(0.0)  # perhaps at the one that is replaced
        self._work.set()
        self._events.emit(LimitLearned(self.name, what, limit))
        return learned

    def _look_no_more(self, permit: Permit) -> None:
        if permit.looks:
            self.circuit.abandoned(asyncio.get_running_loop().time())

    def _count_failure(self, permit: Permit, error: TransientError, step_key: str, now: float) -> None:
        reason = str(error)
        # Who takes a request and never answers it was reached: it may be the request's own fault.
        unreachable = error.status is None and (error.unsent or not isinstance(error, TimedOut))
        if self.circuit.failed(now, step_key, reason, unreachable=unreachable, probe=permit.looks):
            self._events.emit(CircuitChanged(self.name, open=True, reason=reason))

    def _patience_s(self, now: float) -> float | None:
        """Seconds that an outage may still last; None without one, or where nobody is held up by it."""
        opened_at = self.circuit.opened_at
        if opened_at is None or self._stopped or not (self._waiting or self._resting):
            return None
        return opened_at + self.limits.max_outage_s - now

    def _give_up(self, now: float) -> None:
        lasted_s = now - (self.circuit.opened_at or 0.0)
        self.stop(
            ProviderDown(
                f"{self.name} has been down for {lasted_s:.0f} s ({self.circuit.reason}); "
                "nothing is lost, the same command resumes"
            )
        )


def stop_all(lanes: Sequence[Lane], reason: RunStopped) -> None:
    """Stop every lane for the same reason."""
    for lane in lanes:
        lane.stop(reason)


def _room(gate: Gate | None) -> float:
    return gate.room() if gate else inf
