"""A lane: who may send to one provider account, when, and in which order.

All roles that use the account share its lane. The oldest instance is served first through every wait, so instances
finish steadily and a large request never starves behind small ones. A free lane admits at once, a caller that leaves
lets the next one in, and one long-lived dispatcher waits on behalf of all callers for time to pass (a gate, a pause,
an outage).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple

from cts_async.engine.account import Account, LaneLimits, Permit
from cts_async.engine.events import (
    CircuitChanged,
    Events,
    LaneInUse,
    LanePaused,
    LaneStatus,
    LimitLearned,
    Notice,
)
from cts_async.engine.overload import Circuit, ConcurrencyWindow, ForbiddenSteps, LimitedSteps
from cts_async.engine.ratelimit import Quotas
from cts_async.errors import (
    NoCapacity,
    NoFreeDescriptor,
    ProviderDown,
    ProviderGone,
    ProviderRefused,
    RateLimited,
    RequestForbidden,
    RunStopped,
    TimedOut,
    TransientError,
)

__all__ = ["Lane", "LaneLimits", "Permit", "Waiter"]

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
SHORT_PAUSE_S = 2.0
"""After a longer pause the provider's state is unknown: one request goes before the others follow."""
FIRST_ANSWER_S = 60.0
"""How long a provider that never answered may be unreachable: a wrong address or proxy does not mend itself."""
PAUSE_SHARE = 1 / 8
"""The pause after a refusal as a share of the time for which all requests have been refused, so that a pause is longer
than necessary by this share at most."""
UNHELPFUL, LONGER_S = 2, 15.0
"""From the second episode on with no success in between, a Retry-After has proved too short: the pause becomes as long
as it would be without the header, up to LONGER_S."""
ALIVE_S = 5.0
"""A provider that answers 503 or 529 is overloaded, not down, if it has answered others within this time and more are
in flight."""
IDLE_S = 60.0
"""A longer time in which no caller has a request under way, waits or rests between two attempts is no part of an outage.
(On the head of a cluster callers rest elsewhere, unseen, but not for so long.)"""
_OVERLOADED = frozenset({503, 529})
_OWN_FAULT = frozenset({None, 200, 500})
"""Statuses that a request itself may have caused: no response in time, a broken one, an internal error."""


class Waiter(NamedTuple):
    """A caller that waits for permission; its first fields order the queue."""

    seq: int
    order: int
    tokens: float
    reserved: float
    granted: asyncio.Future[Permit]


class Lane:
    """Call `admit`, then exactly one of `succeeded`, `failed`, `abandoned`.

    Not an `async with` block: on the way of every call, a context manager costs more than it saves.
    """

    def __init__(
        self,
        name: str,
        limits: LaneLimits,
        events: Events | None = None,
        account: Account | None = None,
    ) -> None:
        self.name, self.limits = name, limits
        self.in_flight = 0
        self.circuit = Circuit()
        self.window = ConcurrencyWindow(limits.max_concurrency, limits_known=limits.are_known)
        if events is None:
            events = Events()
        if account is None:
            account = Account(limits)
        self._events, self._account = events, account
        self._waiting: list[Waiter] = []
        self._order = count()
        self._work = asyncio.Event()
        self._paused_until = 0.0
        self._pause_s = 0.0
        self._episodes = 0
        """Episodes of refusals since the last success."""
        self._episode_began = 0
        """The number of the newest request when the last episode began."""
        self._alive_at = -inf
        """When the provider last answered, or was sent a request while none was in flight."""
        self._unsettled: list[tuple[Permit, TransientError, str]] = []
        """Overload responses that become circuit failures if the other requests in flight fail, too."""
        self._limited = LimitedSteps()
        self._forbidden = ForbiddenSteps()
        self._left_at = 0.0
        """When a caller last left or stopped resting; kept while steps are refused."""
        self.stopped: RunStopped | None = None
        """The reason why nobody is admitted any more; None while the lane is in use."""
        self._ended = asyncio.Event()
        self._hopeless: set[str] = set()
        self._resting = 0
        self._tokens_used = 0.0
        self._answers_429 = 0
        self._short_of_files = False
        self._reached = False
        """True once anything has come from the provider's server."""

    @property
    def waiting(self) -> int:
        return sum(not waiter.granted.done() for waiter in self._waiting)

    def status(self, now: float) -> LaneStatus:
        """A snapshot at `now`, by the clock of the loop that uses the lane; may be called in another thread."""
        circuit, gone = self.circuit, isinstance(self.stopped, ProviderGone)
        probe_s, reason = None, ""
        if gone:
            reason = str(self.stopped)
        elif circuit.is_open:
            probe_s, reason = circuit.wait_s(now), circuit.reason
        requests_per_min, tokens_per_min = self._account.allowed
        return LaneStatus(
            name=self.name,
            in_flight=self.in_flight,
            waiting=self.waiting,
            places=int(self.window.size),
            sent=self._account.sent,
            tokens=self._tokens_used,
            requests_per_min=requests_per_min,
            tokens_per_min=tokens_per_min,
            answers_429=self._answers_429,
            paused_s=max(0.0, self._paused_until - now),
            probe_s=probe_s,
            reason=reason,
            gone=gone,
        )

    async def admit(
        self, seq: int, tokens: float = 0.0, step_key: str = "", *, reserved: float = 0.0
    ) -> Permit:
        """Wait for permission to send one request of about `tokens`; lower `seq` (older instance) goes first.

        `reserved` are the tokens of its prompt and of the longest reply it allows; 0 where that is not known. A step
        that was refused for limits twice, with no success in between, queues behind those that wait already. Raises
        RunStopped when the run ends while waiting. Cancelling a waiter charges nothing.
        """
        if self.stopped:
            raise self.stopped
        if self._limited.unanswered:
            self._note_idle_time()
        if not self._waiting:
            now, charge = asyncio.get_running_loop().time(), tokens
            if self._account.reserves:
                charge = self._charge(tokens, reserved)
            if self._is_free(now, charge):
                return self._send(now, charge, reserved)
        granted = self._queue(seq, tokens, step_key, reserved)
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                # Granted and cancelled in the same turn of the loop: nothing is sent with this permit.
                self.abandoned(granted.result())
            raise

    def _queue(self, seq: int, tokens: float, step_key: str, reserved: float) -> asyncio.Future[Permit]:
        granted: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        if self._waiting and self._limited.counts[step_key] > 1:
            # A request that is too large for the account would hold up all others for as long as it is tried.
            seq = max(seq, *(waiter.seq for waiter in self._waiting))
        heappush(self._waiting, Waiter(seq, next(self._order), tokens, reserved, granted))
        if self.in_flight < self.window.size:
            self._work.set()
        return granted

    async def sleep(self, seconds: float) -> None:
        """Sleep before another attempt, but wake when the lane is stopped: `admit` then raises the reason."""
        self._resting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return
        finally:
            self._resting -= 1
            self._left_at = asyncio.get_running_loop().time()

    def succeeded(self, permit: Permit, tokens_used: float | None, quotas: Quotas | None = None) -> None:
        """Record that the provider answered; `tokens_used` settles the estimate (None: it did not say)."""
        self._account.served(permit, tokens_used)
        self._reached = True
        self._tokens_used += tokens_used or 0.0
        self._pause_s, self._episodes = 0.0, 0
        if self._limited.unanswered:
            self._limited.answered(permit.number)
        if self._forbidden.steps:
            self._forbidden.answered()
        now = self._alive_at = asyncio.get_running_loop().time()
        if self._unsettled:
            self._unsettled.clear()
        self.window.answered(permit.number, self._account.sent, self.in_flight)
        opened_at = self.circuit.opened_at
        if self.circuit.succeeded():
            if opened_at is not None and permit.sent_at > opened_at:
                self.window.reopen(limits_known=self._account.knows_limits)
            self._events.emit(CircuitChanged(self.name, open=False, reason="the provider answers again"))
        if quotas:
            for unit, per_min in self._account.learn(now, permit, quotas):
                self._work.set()
                self._events.emit(LimitLearned(self.name, unit, per_min))
        # Last: it admits the next caller, by what has been recorded until then.
        self._leave()

    def succeeded_together(self, answers: Sequence[tuple[Permit, float | None]]) -> None:
        """`succeeded` for several requests whose answers named no limits, in their order.

        Whoever waits for their places is let in when all of them are recorded.
        """
        if not answers:
            return
        is_quiet = self.circuit.is_quiet and not self._unsettled
        if self._limited.unanswered or self._forbidden.steps or not is_quiet:
            # What is recorded of one answer may change what becomes of the next.
            for permit, tokens_used in answers:
                self.succeeded(permit, tokens_used)
            return
        self._account.served_together(answers)
        self._reached = True
        self._pause_s, self._episodes = 0.0, 0
        self._alive_at = asyncio.get_running_loop().time()
        numbers = [permit.number for permit, _ in answers]
        n_waiting = 0
        if not self._account.awaited:
            n_waiting = len(self._waiting)
        self.window.answered_together(numbers, self._account.sent, self.in_flight, n_waiting)
        for _, tokens_used in answers:
            self._tokens_used += tokens_used or 0.0
        self._leave(len(answers))

    def forbidden(self, permit: Permit, error: RequestForbidden, step_key: str) -> ProviderRefused | None:
        """Record that the provider answered 403. The reason to stop if it must be the account's, not the request's."""
        # The provider answers, so it is up; but this is no answer that would show a good key.
        forbidden, self._forbidden = self._forbidden, ForbiddenSteps()
        self.succeeded(permit, None)
        self._forbidden = forbidden
        if not forbidden.forbidden(step_key):
            return None
        return ProviderRefused(
            f"{error} ({len(forbidden.steps)} different requests in a row were refused like this and none was answered: "
            "check the key and what its account may do; the same command resumes, and with --retry-failed "
            "repeats those that were refused before)"
        )

    def failed(self, permit: Permit, error: TransientError, step_key: str) -> bool:
        """Record that the provider could not answer. True during an outage, in which a failure costs no retry.

        Refusing all requests for limits counts as an outage, too.
        """
        if isinstance(error, NoFreeDescriptor):
            return self._stay_below_open_files(permit, error)
        now = asyncio.get_running_loop().time()
        self._reached = self._reached or not _is_unreachable(error)
        if isinstance(error, RateLimited):
            self._refused(permit, error, now)
            self._release_probe(permit)
            self._count_refusal(error, step_key, now)
            outage = self._limited.are_many
        else:
            self._account.lost(permit)
            refused = error.status in _OVERLOADED
            is_overload = refused or isinstance(error, TimedOut)
            # In an outage nothing is learned about how many requests are too many.
            if is_overload and not self.circuit.is_open:
                begins_episode = self.window.refused(permit.number, self._account.sent, self.in_flight)
                if begins_episode:
                    self._episode_began = self._account.sent
            self._unsettled.append((permit, error, step_key))
            alive = self.in_flight > 1 and now - self._alive_at < ALIVE_S
            if self.circuit.is_open or not (refused and alive):
                for failed_permit, failure, failed_key in self._unsettled:
                    self._count_failure(failed_permit, failure, failed_key, now)
                self._unsettled.clear()
            self._check_pause(error)
            outage = self.circuit.is_open
        self._leave()
        if self.circuit.is_open:
            self._work.set()  # an outage is timed even while everybody rests
        return outage

    def _stay_below_open_files(self, permit: Permit, error: NoFreeDescriptor) -> bool:
        """Send no more at once than had a connection. True while others are in flight, whose ends make room."""
        n_connected = self.in_flight - 1
        self.window.lower_ceiling(n_connected)
        self._release_probe(permit)
        # Nothing was sent, so the server has counted nothing.
        self._account.give_back(permit)
        if not self._short_of_files:
            self._short_of_files = True
            self._events.emit(Notice(f"{error}; until then fewer requests are sent at once"))
        self._leave()
        return n_connected > 0

    def may_be_outage(self, step_key: str) -> bool:
        """True unless a step was refused for limits again and again while others were answered: as long as that is not
        so, waiting costs it no retry, and `max_outage_s` ends it."""
        return not self._limited.is_hopeless(step_key)

    def gave_up(self, step_key: str) -> bool:
        """True if a step is not worth another attempt, though its provider is up."""
        return step_key in self._hopeless

    def abandoned(self, permit: Permit) -> None:
        """Record that the attempt was cancelled: what the server counted is unknown, so the charge stays."""
        self._release_probe(permit)
        self._account.lost(permit)
        self._leave()

    def stop(self, reason: RunStopped) -> None:
        """Admit nobody any more; `reason` is raised in all waiters."""
        # The first reason counts, as in the runner.
        self.stopped = self.stopped or reason
        for waiter in self._waiting:
            if not waiter.granted.done():
                waiter.granted.set_exception(self.stopped)
        self._waiting.clear()
        self._ended.set()
        self._work.set()

    async def dispatch(self) -> None:
        """Wait on behalf of all callers, until cancelled: one long-lived task per lane."""
        loop = asyncio.get_running_loop()
        while True:
            self._work.clear()
            self._pump()
            wait_s = None
            if self._waiting:
                wait_s = self._held_s(loop.time())
            if wait_s == 0:  # only a gate is in the way
                oldest = self._waiting[0]
                await self._account.wait(self._charge(oldest.tokens, oldest.reserved))
                continue
            patience_s = self._patience_s(loop.time())
            if patience_s is not None:
                if patience_s <= 0:
                    self._give_up(loop.time())
                    continue
                if wait_s is None:
                    wait_s = patience_s
                wait_s = min(wait_s, patience_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._work.wait()

    def _pump(self) -> None:
        """Admit as many of the oldest waiters as may go now."""
        while self._waiting:
            oldest = self._waiting[0]
            if oldest.granted.done():
                # Cancelled: who leaves stays in the heap until its turn.
                heappop(self._waiting)
                continue
            now, charge = asyncio.get_running_loop().time(), self._charge(oldest.tokens, oldest.reserved)
            if not self._is_free(now, charge):
                return
            heappop(self._waiting)
            oldest.granted.set_result(self._send(now, charge, oldest.reserved))

    def _held_s(self, now: float) -> float | None:
        """Seconds until slots, pause and circuit admit a request; None: until something happens."""
        if self.in_flight >= self.window.size:
            return None
        if self.circuit.opened_at is None and now >= self._paused_until:
            return 0.0
        return max(self.circuit.wait_s(now), self._paused_until - now, 0.0)

    def _charge(self, tokens: float, reserved: float) -> float:
        """The tokens that a request is charged when it is sent."""
        if self._account.reserves:
            return max(tokens, reserved)
        return tokens

    def _is_free(self, now: float, charge: float) -> bool:
        """True if a request that is charged so many tokens may be sent now."""
        return self._held_s(now) == 0 and self._account.has_room(charge)

    def _send(self, now: float, charge: float, reserved: float) -> Permit:
        if not self.in_flight:
            self._alive_at = now
        self.in_flight += 1
        permit = self._account.take(now, charge, reserved=reserved)
        if permit.number == 1:
            loop = asyncio.get_running_loop()
            self._events.emit(LaneInUse(self.name, lambda: self.status(loop.time())))
        if self.circuit.opened_at is not None:
            permit.is_outage_probe = self.circuit.sending(now)
        return permit

    def _leave(self, n: int = 1) -> None:
        """Let `n` requests leave, and those in that waited for their places."""
        self.in_flight -= n
        if self._limited.unanswered:
            self._left_at = asyncio.get_running_loop().time()
        # The caller at a gate is the oldest: nobody may take the place for which it waits.
        if self._waiting and not self._account.awaited:
            self._pump()
            if self._waiting and self.in_flight < self.window.size:
                self._work.set()

    def _refused(self, permit: Permit, error: RateLimited, now: float) -> None:
        """Slow down for all callers, once per episode, and pause for as long as the provider says."""
        self._answers_429 += 1
        expected = self._account.refused(permit, error.retry_after_s)
        self._check_pause(error)
        begins_episode = permit.number > self._episode_began
        if begins_episode and not expected:
            is_overload = self.window.refused(permit.number, self._account.sent, self.in_flight)
            if not is_overload:
                self._account.slow_down(now)
                return  # an isolated refusal: only its own request waits
        if begins_episode:
            self._begin_episode(now)
        elif now >= self._paused_until:
            return  # sent before an episode that is over by now
        pause_s = self._pause_s
        if error.retry_after_s is not None:
            pause_s = error.retry_after_s
        if self._episodes >= UNHELPFUL:
            pause_s = max(pause_s, min(self._pause_s, LONGER_S))
        until = now + pause_s
        if pause_s > 0 and until > self._paused_until:
            self._paused_until = until
            self._events.emit(LanePaused(self.name, until - now))
        if begins_episode:
            # Where limits are unknown, refusals are the way to find them: after any pause one request goes first.
            short_s = SHORT_PAUSE_S if self._account.knows_limits else 0.0
            self.window.paused(keep=pause_s <= short_s)

    def _count_refusal(self, error: RateLimited, step_key: str, now: float) -> None:
        """Stop where all requests have been refused for longer than an outage may last, however few they are."""
        self._limited.refused(now, step_key, self._account.sent)
        lasted_s = self._limited.lasted_s(now)
        if lasted_s > self._patience_for(error) and self._limited.is_outage:
            self.stop(
                ProviderDown(
                    f"{self.name} has refused all requests for {lasted_s:.0f} s ({error}); "
                    "completed work is saved, the same command resumes"
                )
            )

    def _patience_for(self, error: TransientError) -> float:
        """Seconds for which all requests may be refused like this; a slower tier may have a longer patience."""
        if isinstance(error, NoCapacity):
            return max(error.patience_s, self.limits.max_outage_s)
        return self.limits.max_outage_s

    def _note_idle_time(self) -> None:
        """Called before a caller comes, while steps are refused."""
        if self.in_flight or self._waiting or self._resting:
            return
        idle_s = asyncio.get_running_loop().time() - self._left_at
        if idle_s > IDLE_S:
            self._limited.idled(idle_s)

    def _check_pause(self, error: TransientError) -> None:
        """Stop where the provider asks for a longer pause than `max_outage_s`."""
        pause_s = error.retry_after_s or 0.0
        if pause_s > self._patience_for(error):
            self.stop(
                ProviderDown(
                    f"{error}: it requests a pause of {round(pause_s):.10g} s; the same command resumes"
                )
            )

    def _begin_episode(self, now: float) -> None:
        # Everything sent before the episode began is refused for the same reason: it must not add up.
        self._episode_began = self._account.sent
        self._episodes += 1
        lasted_s = self._limited.lasted_s(now)
        self._pause_s = min(MAX_PAUSE_S, max(FIRST_PAUSE_S, PAUSE_SHARE * lasted_s))
        self._account.slow_down(now)

    def _release_probe(self, permit: Permit) -> None:
        if permit.is_outage_probe:
            self.circuit.abandoned(asyncio.get_running_loop().time())

    def _count_failure(self, permit: Permit, error: TransientError, step_key: str, now: float) -> None:
        reason = str(error)
        unreachable = _is_unreachable(error)
        own_fault = not unreachable and error.status in _OWN_FAULT
        # What says that the whole server is busy is an outage where only one step waits, too.
        whole_server = unreachable or error.status in _OVERLOADED
        if self.circuit.failed(
            now,
            step_key,
            reason,
            whole_server=whole_server,
            probe=permit.is_outage_probe,
            own_fault=own_fault,
        ):
            self._events.emit(CircuitChanged(self.name, open=True, reason=reason))

    def _patience_s(self, now: float) -> float | None:
        """Seconds that an outage may still last; None without one, or where nobody waits for its end."""
        opened_at = self.circuit.opened_at
        if opened_at is None or self.stopped or not (self._waiting or self._resting):
            return None
        lasting_s = self.limits.max_outage_s
        if not self._reached:
            lasting_s = min(FIRST_ANSWER_S, lasting_s)
        return opened_at + lasting_s - now

    def _give_up(self, now: float) -> None:
        suspects = self.circuit.suspects()
        if suspects:
            # No other requests are left that could tell an outage from requests that can never succeed.
            self._hopeless |= suspects
            self.circuit.succeeded()
            reason = f"only {len(suspects)} requests fail; they are given up"
            self._events.emit(CircuitChanged(self.name, open=False, reason=reason))
            return
        lasted_s = now - (self.circuit.opened_at or 0.0)
        hint = ""
        if not self._reached:
            hint = "it never answered: check its address (base_url) and the proxy (HTTPS_PROXY) with cts doctor; "
        self.stop(
            ProviderDown(
                f"{self.name} has been down for {lasted_s:.0f} s ({self.circuit.reason}); "
                f"{hint}completed work is saved, the same command resumes"
            )
        )


def _is_unreachable(error: TransientError) -> bool:
    """True if there was no server; one that accepts a request and never answers was reached."""
    if error.status is not None:
        return False
    return error.unsent or not isinstance(error, TimedOut)
