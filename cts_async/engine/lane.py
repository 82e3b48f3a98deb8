"""One provider account: who may send to it, when, and in which order.

All roles that use the account share its lane. The oldest instance is served first through every wait,
so instances finish steadily and a large request never starves behind small ones. A free lane admits
at once; otherwise one long-lived dispatcher per lane does the waiting for everybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from cts_async.engine.circuit import Circuit
from cts_async.engine.events import CircuitChanged, Events, LanePaused
from cts_async.engine.limits import Gate, LimitKind, make_gate
from cts_async.errors import ProviderDown, RateLimited, RunStopped, TransientError

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
TOKEN_GRAIN = 500.0
"""Tokens are paced in grains of about this many: finer would only cost wake-ups."""


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """What the account allows; None where no limit is known."""

    requests_per_min: float | None = None
    tokens_per_min: float | None = None
    max_concurrency: int = 64
    kind: LimitKind = "paced"
    window_s: float = 60.0
    max_outage_s: float = 900.0


@dataclass(slots=True)
class Permit:
    """Leave to send one request, with what it was charged."""

    tokens: float
    sent_at: float


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
        self._events = events or Events()
        self._requests = self._gate(limits.requests_per_min)
        self._tokens = self._gate(limits.tokens_per_min, smallest=TOKEN_GRAIN)
        self._waiting: list[tuple[int, int, _Waiter]] = []
        self._chosen: _Waiter | None = None
        self._order = count()
        self._work = asyncio.Event()
        self._paused_until = 0.0
        self._pause_s = 0.0
        self._episode_began = -1.0
        self._stopped: RunStopped | None = None
        self._dispatching = False

    def _gate(self, per_min: float | None, smallest: float = 1.0) -> Gate | None:
        if per_min is None:
            return None
        return make_gate(self.limits.kind, per_min, self.limits.window_s, smallest=smallest)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

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
        if not self._waiting and not self._dispatching and self._free_now(tokens):
            await self._take(tokens)
            return self._send(tokens)
        granted: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (seq, next(self._order), _Waiter(tokens, granted)))
        self._work.set()
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.abandoned(granted.result())
            raise

    def succeeded(self, permit: Permit, tokens_used: float | None) -> None:
        """The provider answered; `tokens_used` settles the estimate (None: it did not say)."""
        self._settle(permit, tokens_used)
        self._pause_s = 0.0
        if self.circuit.succeeded():
            self._events.emit(CircuitChanged(self.name, open=False, reason="the provider answers again"))
        self._leave()

    def failed(self, permit: Permit, error: TransientError, step_key: str) -> bool:
        """The provider could not answer. True if an outage is under way, so that it costs no retry."""
        now = asyncio.get_running_loop().time()
        if isinstance(error, RateLimited):
            self._slow_down(permit, error, now)
            self.circuit.abandoned()
            self._settle(permit, 0.0)
        else:
            self._count_failure(error, step_key, now)
        self._leave()
        return self.circuit.is_open

    def abandoned(self, permit: Permit) -> None:
        """The attempt was cancelled: nobody knows what the server counted, so the charge stays."""
        self.circuit.abandoned()
        self._leave()

    def stop(self, reason: RunStopped) -> None:
        """Nobody is admitted any more; everybody who waits is told `reason`."""
        self._stopped = self._stopped or reason
        chosen = [self._chosen] if self._chosen else []
        for waiter in [*chosen, *(waiter for _, _, waiter in self._waiting)]:
            if not waiter.granted.done():
                waiter.granted.set_exception(reason)
        self._waiting.clear()
        self._work.set()

    async def dispatch(self) -> None:
        """Serve the waiters until cancelled: one long-lived task per lane."""
        while True:
            await self._until_someone_can_go()
            self._dispatching = True
            try:
                await self._admit_oldest()
            finally:
                self._dispatching = False

    async def _until_someone_can_go(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._drop_dead_waiters()
            self._work.clear()
            wait_s = self._wait_s(loop.time()) if self._waiting else None
            if wait_s == 0:
                return
            if self._waiting and self.circuit.is_open:
                self._give_up_after_outage(loop.time())
            try:
                async with asyncio.timeout(wait_s):
                    await self._work.wait()
            except TimeoutError:
                continue

    async def _admit_oldest(self) -> None:
        if self._requests:
            await self._requests.take(1.0)
        self._drop_dead_waiters()
        if not self._waiting or self._wait_s(asyncio.get_running_loop().time()) != 0:
            self._refund(1.0, 0.0)
            return
        _, _, waiter = heappop(self._waiting)
        # The oldest is chosen; it keeps its turn however many tokens it has to wait for.
        self._chosen = waiter
        try:
            if self._tokens:
                await self._tokens.take(waiter.tokens)
        except BaseException:
            waiter.granted.cancel()
            raise
        finally:
            self._chosen = None
        if waiter.granted.done():
            self._refund(1.0, waiter.tokens)
        else:
            waiter.granted.set_result(self._send(waiter.tokens))

    def _drop_dead_waiters(self) -> None:
        while self._waiting and self._waiting[0][2].granted.done():
            heappop(self._waiting)

    def _wait_s(self, now: float) -> float | None:
        """Seconds until slots, pause and circuit let somebody send; None: until something happens."""
        if self.in_flight >= self.limits.max_concurrency:
            return None
        circuit_s = self.circuit.wait_s(now)
        return None if circuit_s is None else max(circuit_s, self._paused_until - now, 0.0)

    def _free_now(self, tokens: float) -> bool:
        return (
            self._wait_s(asyncio.get_running_loop().time()) == 0
            and (self._requests is None or self._requests.has_room(1.0))
            and (self._tokens is None or self._tokens.has_room(tokens))
        )

    async def _take(self, tokens: float) -> None:
        if self._requests:
            await self._requests.take(1.0)
        if self._tokens:
            await self._tokens.take(tokens)

    def _send(self, tokens: float) -> Permit:
        self.in_flight += 1
        self.circuit.sending()
        return Permit(tokens, asyncio.get_running_loop().time())

    def _leave(self) -> None:
        self.in_flight -= 1
        self._work.set()

    def _settle(self, permit: Permit, tokens_used: float | None) -> None:
        if self._tokens and tokens_used is not None:
            self._tokens.settle(permit.tokens, tokens_used)

    def _refund(self, requests: float, tokens: float) -> None:
        if self._requests and requests:
            self._requests.settle(requests, 0.0)
        if self._tokens and tokens:
            self._tokens.settle(tokens, 0.0)

    def _slow_down(self, permit: Permit, error: RateLimited, now: float) -> None:
        # Everything sent before the episode began says the same thing once more: it must not add up.
        if permit.sent_at > self._episode_began:
            self._pause_s = min(MAX_PAUSE_S, self._pause_s * 2 or FIRST_PAUSE_S)
            self._episode_began = now
        pause_s = self._pause_s if error.retry_after_s is None else error.retry_after_s
        if pause_s > self.limits.max_outage_s:
            self.stop(
                ProviderDown(f"{error}: it asks for a pause of {pause_s:.0f} s; the same command resumes")
            )
        until = now + pause_s
        if until > self._paused_until:
            self._paused_until = until
            self._events.emit(LanePaused(self.name, until - now))

    def _count_failure(self, error: TransientError, step_key: str, now: float) -> None:
        reason = str(error)
        if self.circuit.failed(now, step_key, reason, unreachable=error.status is None):
            self._events.emit(CircuitChanged(self.name, open=True, reason=reason))

    def _give_up_after_outage(self, now: float) -> None:
        opened_at = self.circuit.opened_at
        if opened_at is not None and now - opened_at >= self.limits.max_outage_s:
            self.stop(
                ProviderDown(
                    f"{self.name} has been down for {now - opened_at:.0f} s ({self.circuit.reason}); "
                    "nothing is lost, the same command resumes"
                )
            )


def stop_all(lanes: Sequence[Lane], reason: RunStopped) -> None:
    """Stop every lane for the same reason."""
    for lane in lanes:
        lane.stop(reason)
