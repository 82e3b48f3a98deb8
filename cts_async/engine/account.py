"""The limits of one provider account: a gate for requests, one for tokens, and what responses teach about them.

Two rules. Evidence beats assumption: the provider's own headers come first, then its refusals, then the configuration.
And every permit remembers the state of the account, since a response describes the moment when its request was sent,
not the one when it comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Final, Literal

from cts_async.engine.overload import NOISE
from cts_async.engine.ratelimit import (
    PLENTY,
    Gate,
    LimitKind,
    MeterGate,
    PacedGate,
    Quota,
    Quotas,
    ReservationDetector,
    make_gate,
)

LimitUnit = Literal["requests", "tokens"]

TOKEN_GRAIN: Final = 500.0
"""Tokens are paced in portions of about this size: finer would only cost wake-ups."""
FIRST_MARGIN, MAX_MARGIN, MARGIN_DECAY = 1.2, 4.0, 0.001
"""Estimates are charged with the worst factor by which one was too low lately: an overcharge is given back within a
second or two and costs nothing, while an undercharge is refused by the server."""
MINUTE_S: Final = 60.0
REFUSALS_GAIN: Final = 1 / 64
SAME_LIMIT: Final = 0.01
"""Limits that differ by no more than this share are the same."""


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """The configured limits of an account; None where no limit is known.

    Without any known limit, or where it is unknown how the server counts (`auto`), concurrency finds its own level
    under `max_concurrency`. `raisable` lets the provider's headers raise a limit, not only lower it.
    """

    requests_per_min: float | None = None
    tokens_per_min: float | None = None
    max_concurrency: int = 64
    kind: LimitKind = "paced"
    window_s: float = 60.0
    max_outage_s: float = 900.0
    raisable: bool = True

    @property
    def are_known(self) -> bool:
        """True if the gates alone keep the account's limits, so that concurrency may start at its ceiling."""
        return self.kind != "auto" and (self.requests_per_min, self.tokens_per_min) != (None, None)


@dataclass(slots=True)
class Permit:
    """Permission to send one request: its token charge and a snapshot of the account."""

    tokens: float
    sent_at: float
    token_margin: float = 1.0
    """The factor over the estimate that `tokens` includes."""
    number: int = 0
    """Its number among all requests sent on this account."""
    tokens_sent: float = 0.0
    """All tokens charged to this account so far, this request's included."""
    rooms: tuple[float, float] = (inf, inf)
    """Requests and tokens that could still be sent after this one."""
    probes: tuple[MeterGate, ...] = ()
    """Gates that learn how the server counts from this request's outcome."""
    is_outage_probe: bool = False
    """True if it is sent to find out whether an outage is over."""
    reserved: float = 0.0
    """Tokens of prompt and longest reply; 0 where they are not known."""
    above: bool = False
    """True if the reservations exceed the token limit with this request."""
    leased_at: float | None = None
    """When another process was given it, which may use it until `sent_at`; None once it is known when it did."""


class Account:
    """Charges each request when it is sent (`take`), and corrects the charge by its outcome."""

    settles_together: ClassVar[bool] = False
    """Whether estimates of tokens are replaced for many requests at once, before `served` is called for each."""

    def __init__(self, limits: LaneLimits, slack_s: float = 0.0) -> None:
        """With `slack_s`, requests may be sent up to that much later than taken: `take` gets the latest time, and
        `redate` the true one."""
        self.limits = limits
        self._slack_s = slack_s
        self._requests = self._make_gate(limits.requests_per_min)
        self._tokens = self._make_gate(limits.tokens_per_min, smallest=TOKEN_GRAIN)
        self._at_gate: asyncio.Timeout | None = None
        self.sent = 0
        """Requests sent so far."""
        self._tokens_sent = 0.0
        self._margin = FIRST_MARGIN
        self._reservations = self._make_detector()
        self.reserves = False
        """True if the server charges what a request reserves, not what it uses."""
        self._slowed = False
        """True if paced gates are below their full rate, and recover with every answer."""
        self._refusals = 0.0
        """The share of refusals, exponentially weighted."""
        self._lowest: dict[LimitUnit, tuple[float, float]] = {}
        """The lowest limit that responses named lately, and when one last did."""

    def _make_gate(self, per_min: float | None, smallest: float = 1.0) -> Gate | None:
        if per_min is None:
            return None
        return make_gate(
            self.limits.kind, per_min, self.limits.window_s, smallest=smallest, slack_s=self._slack_s
        )

    def _make_detector(self) -> ReservationDetector | None:
        if self._tokens is None:
            return None
        return ReservationDetector(self._tokens.limit, self.limits.window_s)

    @property
    def knows_limits(self) -> bool:
        """True if limits are known by now, so that a refusal is an exception and not the way to find them."""
        if self.limits.are_known:
            return True
        for gate in (self._requests, self._tokens):
            if gate is not None and gate.sure:
                return True
        return False

    @property
    def seldom_refuses(self) -> bool:
        """True while refusals are isolated ones (see `overload`)."""
        return self._refusals < NOISE

    @property
    def allowed(self) -> tuple[float | None, float | None]:
        """Requests and tokens a minute that may be sent at present, as far as limits are known."""
        requests_per_min, tokens_per_min = None, None
        if self._requests:
            requests_per_min = self._requests.per_min
        if self._tokens:
            tokens_per_min = self._tokens.per_min
        return requests_per_min, tokens_per_min

    @property
    def paced(self) -> list[PacedGate]:
        """The gates, of requests or tokens, that admit each request at a time of its own."""
        return [gate for gate in (self._requests, self._tokens) if isinstance(gate, PacedGate)]

    @property
    def awaited(self) -> bool:
        """True while a caller is blocked on a gate; admitting others would take its slot."""
        return self._at_gate is not None

    def has_room(self, tokens: float) -> bool:
        """True if a request of about `tokens` may be sent now."""
        if self._requests is not None and not self._requests.has_room(1.0):
            return False
        return self._tokens is None or self._tokens.has_room(tokens * self._margin)

    def has_ample_room(self, n: int, tokens: float) -> bool:
        """True if `n` requests of about `tokens` in all may be sent now, and none of them would be a probe."""
        if not _has_ample_room(self._requests, n):
            return False
        return _has_ample_room(self._tokens, tokens * self._margin)

    async def wait(self, tokens: float) -> None:
        """Return when there may be room for a request of about `tokens`, or it is worth asking again."""
        tokens *= self._margin
        try:
            async with asyncio.timeout(None) as self._at_gate:
                if self._requests and not self._requests.has_room(1.0):
                    await self._requests.wait(1.0)
                elif self._tokens and not self._tokens.has_room(tokens):
                    await self._tokens.wait(tokens)
        except TimeoutError:
            return  # the gate has been replaced
        finally:
            self._at_gate = None

    def take(self, now: float, tokens: float, by: float | None = None, *, reserved: float = 0.0) -> Permit:
        """Charge a request of about `tokens` that is sent `now`, or at the time `by` at the latest."""
        tokens *= self._margin
        self.sent += 1
        self._tokens_sent += tokens
        sent_at = now
        if by is not None:
            sent_at = by
        permit = Permit(tokens, sent_at, self._margin, self.sent, self._tokens_sent)
        request_gate, token_gate = self._requests, self._tokens
        if request_gate or token_gate:
            if request_gate and request_gate.take(now, 1.0, by) and type(request_gate) is MeterGate:
                permit.probes += (request_gate,)
            if token_gate and token_gate.take(now, tokens, by) and type(token_gate) is MeterGate:
                permit.probes += (token_gate,)
            if type(request_gate) is MeterGate or type(token_gate) is MeterGate:
                permit.rooms = (_room(request_gate), _room(token_gate))
        if reserved and self._reservations:
            permit.reserved = reserved
            permit.above = self._reservations.take(now, reserved)
        return permit

    def take_together(
        self, now: float, tokens: Sequence[float], by: float, reserved: Sequence[float]
    ) -> list[Permit]:
        """`take` for several requests that another process sends, at the time `by` at the latest, and whose charges are
        counted as one; none is taken, and the list empty, where each has to be looked at: unless all gates are meters
        that have room for all of them."""
        charges = [amount * self._margin for amount in tokens]
        request_gate, token_gate = self._requests, self._tokens
        if (
            not charges
            or not _has_ample_room(request_gate, len(charges))
            or not _has_ample_room(token_gate, sum(charges))
        ):
            return []
        request_room, token_room = _room(request_gate), _room(token_gate)
        if request_gate:
            request_gate.take(now, len(charges), by)
        if token_gate:
            token_gate.take(now, sum(charges), by)
        if self._reservations is None:
            reserved, above = [0.0] * len(charges), [False] * len(charges)
        else:
            above = self._reservations.take_together(now, reserved)
        permits = []
        for charge, reservation, is_above in zip(charges, reserved, above, strict=True):
            self.sent += 1
            self._tokens_sent += charge
            request_room, token_room = request_room - 1.0, token_room - charge
            rooms = request_room, token_room
            permits.append(
                Permit(
                    charge,
                    by,
                    self._margin,
                    self.sent,
                    self._tokens_sent,
                    rooms,
                    reserved=reservation,
                    above=is_above,
                    leased_at=now,
                )
            )
        return permits

    def redate(self, was: float, sent_at: float, permits: Sequence[Permit]) -> None:
        """Correct the time of requests taken with `by`, which was `was`: they were sent at `sent_at`."""
        amounts = [1.0] * len(permits), [permit.tokens for permit in permits]
        for gate, gate_amounts in zip((self._requests, self._tokens), amounts, strict=True):
            if type(gate) is not MeterGate:
                continue
            if sum(gate_amounts) <= gate.limit:
                gate.redate(was, sent_at, sum(gate_amounts))
                continue
            # A meter counts no more than the limit at once.
            for amount in gate_amounts:
                gate.redate(was, sent_at, amount)
        for permit in permits:
            permit.sent_at = sent_at

    def give_back(self, permit: Permit) -> None:
        """Give the charge back of a request that was never sent. Where requests are paced, its turn has passed."""
        self.lost(permit)
        taken_at = permit.sent_at
        if permit.leased_at is not None:
            taken_at = permit.leased_at
        for gate, amount in ((self._requests, 1.0), (self._tokens, permit.tokens)):
            if isinstance(gate, MeterGate):
                gate.give_back(taken_at, permit.sent_at, amount)
        if isinstance(self._tokens, PacedGate):
            self._tokens.settle(permit.sent_at, permit.tokens, 0.0)

    def served(self, permit: Permit, tokens_used: float | None) -> None:
        """Record that the request was answered: its token estimate becomes the true number (None: unknown)."""
        if self._tokens and tokens_used is not None:
            if not self.settles_together:
                charged = tokens_used
                if self.reserves:
                    charged = max(tokens_used, permit.tokens)
                self._tokens.settle(permit.sent_at, permit.tokens, charged)
            if permit.tokens and tokens_used:
                # By the estimate itself, without the margin that the charge had in it.
                ratio = tokens_used / permit.tokens * permit.token_margin
                aim = ratio
                if ratio < 1.0:
                    aim = 1.0
                margin = self._margin + MARGIN_DECAY * (aim - self._margin)
                if ratio > margin:
                    margin = min(MAX_MARGIN, ratio)
                self._margin = margin
        if self._reservations and permit.above:
            self._reservations.served_above()
        for gate in permit.probes:
            gate.probed(served=True)
        self._refusals *= 1.0 - REFUSALS_GAIN
        if self._slowed:
            self._speed_up(permit.sent_at)

    def served_together(self, answers: Sequence[tuple[Permit, float | None]]) -> None:
        """`served` for several requests, in their order."""
        # Without a limit of tokens, and while nothing is refused, an answer concerns only the gates that probe with it.
        concerns_probes_only = self._tokens is None and not self._refusals and not self._slowed
        for permit, tokens_used in answers:
            if permit.probes or not concerns_probes_only:
                self.served(permit, tokens_used)

    def _speed_up(self, now: float) -> None:
        self._slowed = False
        for gate in self.paced:
            gate.speed_up(now)
            if gate.is_slow:
                self._slowed = True

    def lost(self, permit: Permit) -> None:
        """Record that it is unknown whether the server counted the request."""
        for gate in permit.probes:
            gate.probed(served=None)

    def refused(self, permit: Permit, wait_s: float | None) -> bool:
        """Record that the request was refused for the account's limits, for `wait_s` (None: not named).

        True if it was sent to find out how the server counts: then the refusal does not mean that we are too fast.
        """
        self._refusals += REFUSALS_GAIN * (1.0 - self._refusals)
        # Servers do not count a refused request; where requests are paced, its turn has passed.
        if isinstance(self._requests, MeterGate):
            self._requests.settle(permit.sent_at, 1.0, 0.0)
        if isinstance(self._tokens, MeterGate):
            self._tokens.settle(permit.sent_at, permit.tokens, 0.0)
        expected = bool(permit.probes)
        for gate, room in zip((self._requests, self._tokens), permit.rooms, strict=True):
            if isinstance(gate, MeterGate) and not gate.sure and room <= PLENTY * gate.limit:
                expected = True
        self._requests = self._after_refusal(self._requests, permit, permit.rooms[0], wait_s)
        self._tokens = self._after_refusal(self._tokens, permit, permit.rooms[1], wait_s, TOKEN_GRAIN)
        if permit.reserved:
            self._suspect(permit)
        return expected

    def _suspect(self, permit: Permit) -> None:
        """Tell the reservation detector of a refusal, and begin to charge reservations on its verdict."""
        detector, token_gate, now = self._reservations, self._tokens, asyncio.get_running_loop().time()
        if detector is None or token_gate is None:
            return
        plenty = True
        for gate, room in zip((self._requests, token_gate), permit.rooms, strict=True):
            if gate is not None and room <= PLENTY * gate.limit:
                plenty = False
        if not detector.refused(now, permit.sent_at, permit.reserved, above=permit.above, plenty=plenty):
            return
        self.reserves = True
        self._margin = 1.0  # reservations are no estimates
        kind = self.limits.kind
        if isinstance(token_gate, MeterGate) and token_gate.detector:
            # As configured, or because the limit was learned from a response.
            kind = "auto"
        window_s = self.limits.window_s
        per_min = token_gate.limit * MINUTE_S / window_s
        self._tokens = make_gate(kind, per_min, window_s, smallest=TOKEN_GRAIN, slack_s=self._slack_s)
        if isinstance(self._tokens, MeterGate):
            self._tokens.count(now, detector.uses())
        self._leave_gate()

    def _leave_gate(self) -> None:
        """Wake the caller that waits at a gate, which may have been replaced."""
        if self._at_gate and not self._at_gate.expired():
            self._at_gate.reschedule(0.0)

    def _after_refusal(
        self, gate: Gate | None, permit: Permit, room: float, lasting_s: float | None, smallest: float = 1.0
    ) -> Gate | None:
        """The gate after a refusal of a request that had left `room`."""
        if not isinstance(gate, MeterGate):
            return gate
        if gate.detector:
            gate.detector.refused(
                asyncio.get_running_loop().time(),
                probe=gate in permit.probes,
                room=room,
                wait_s=lasting_s,
                isolated=self.seldom_refuses,
            )
            if gate.detector.kind == "paced":
                gate.notify()
                return PacedGate(gate.limit, self.limits.window_s, smallest, empty=True)
        room_now = gate.room()
        if gate.sure and 0 < room_now <= PLENTY * gate.limit:
            gate.charge(room_now, lasting_s)  # by the server's count there is less room than by ours
        gate.notify()
        return gate

    def slow_down(self, now: float) -> None:
        """Lower the rate a little, where requests are paced."""
        least = 0.0
        if self.seldom_refuses:
            # A server that refuses a share of paced requests serves the rest: its limit cannot be much lower.
            least = 1.0 - 4.0 * self._refusals
        self._slowed = True
        for gate in self.paced:
            gate.slow_down(now, least)

    def delay(self, seconds: float) -> None:
        """Hold paced gates back for `seconds`, since what was taken lately is sent that much later."""
        for gate in self.paced:
            gate.delay(seconds)

    def learn(self, now: float, permit: Permit, quotas: Quotas) -> Iterable[tuple[LimitUnit, float]]:
        """Update the limits by a response's headers; yields the limits per minute that changed."""
        if self.limits.window_s != MINUTE_S:
            return  # the configuration knows better than the headers, which are about minutes
        if quotas.requests:
            gate, since = self._requests, float(self.sent - permit.number)
            self._requests = self._reconcile(now, "requests", gate, quotas.requests, permit.rooms[0], since)
            if self._requests is not gate:
                yield "requests", self._requests.limit
        if quotas.tokens:
            gate, since = self._tokens, self._tokens_sent - permit.tokens_sent
            self._tokens = self._reconcile(now, "tokens", gate, quotas.tokens, permit.rooms[1], since)
            if self._tokens is not gate:
                # How the server charges does not change with its limit.
                self._reservations = self._make_detector()
                if self._reservations:
                    self._reservations.charged = self.reserves
                yield "tokens", self._tokens.limit

    def _reconcile(
        self, now: float, unit: LimitUnit, gate: Gate | None, quota: Quota, room: float, since: float
    ) -> Gate:
        """The gate that agrees with the provider's numbers for requests or tokens.

        `room` is what was left by our count when that request was sent, `since` what has been sent after it: the
        provider may have counted any of that already.
        """
        lowest, named_at = self._lowest.get(unit, (quota.limit, now))
        if quota.limit > (1 + SAME_LIMIT) * lowest and now - named_at <= MINUTE_S and gate:
            return gate  # models of one account may have different limits: the strictest counts
        self._lowest[unit] = (quota.limit, now)
        limit = quota.limit
        if gate is not None and not self.limits.raisable and gate.limit < limit:
            limit = gate.limit
        if gate is None or abs(limit - gate.limit) > SAME_LIMIT * limit:
            return self._learned_gate(unit, gate, limit, quota, since)
        if quota.remaining is not None and room < inf and isinstance(gate, MeterGate):
            # What is missing may have been charged already because of another response.
            foreign = min(room - since, gate.room()) - quota.remaining
            if foreign > 1.0:
                # Another program uses the account too, or this run did a moment ago.
                gate.charge(foreign, quota.reset_s)
        return gate

    def _learned_gate(
        self, unit: LimitUnit, gate: Gate | None, limit: float, quota: Quota, since: float
    ) -> Gate:
        """A gate for a limit that a response named, with what has been used of it already."""
        # Where nothing was configured, nothing is known about how the server counts.
        kind: LimitKind = self.limits.kind if gate else "auto"
        smallest, sent = 1.0, float(self.sent)
        if unit == "tokens":
            smallest, sent = TOKEN_GRAIN, self._tokens_sent
        learned = make_gate(kind, limit, MINUTE_S, smallest=smallest, slack_s=self._slack_s)
        if isinstance(learned, MeterGate):
            used = sent
            if quota.remaining is not None:
                used = max(0.0, quota.limit - quota.remaining) + since
            learned.charge(min(limit, used), quota.reset_s)
        self._leave_gate()
        return learned


def _has_ample_room(gate: Gate | None, amount: float) -> bool:
    """True if so much may be sent at once now, and nothing of it would be a probe."""
    if gate is None:
        return True
    return type(gate) is MeterGate and gate.room() >= amount and gate.has_room(amount)


def _room(gate: Gate | None) -> float:
    """What may be sent now; a paced gate keeps no count of it."""
    if type(gate) is MeterGate:
        return gate.room()
    return inf
