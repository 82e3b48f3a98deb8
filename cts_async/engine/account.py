"""What one provider account allows, as far as it is known: a gate for requests, one for tokens, and what answers teach.

Two rules. What was told beats what was guessed: the provider's own headers, then its refusals, then the
configuration. And every charge remembers how the account stood, since an answer speaks of the moment when its
request was sent, not of the one when it comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, Protocol

from cts_async.engine.concurrency import NOISE
from cts_async.engine.meters import PLENTY, ReservationDetector
from cts_async.engine.ratelimit import Gate, LimitKind, MeterGate, PacedGate, Quota, Quotas, make_gate

LimitOf = Literal["requests", "tokens"]

TOKEN_GRAIN: Final = 500.0
"""Tokens are paced in grains of about this many: finer would only cost wake-ups."""
FIRST_MARGIN, MAX_CAUTION, FORGET = 1.2, 4.0, 0.001
"""Estimates are charged with the worst factor by which one was too low lately: what is not used comes back
within a second or two, and costs nothing, but what was not charged is refused."""
MINUTE_S: Final = 60.0
REFUSALS_GAIN: Final = 1 / 64


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
    token_margin: float = 1.0
    """The factor over the estimate that `tokens` hold."""
    number: int = 0
    """Of all requests sent on this account."""
    tokens_sent: float = 0.0
    """All tokens charged to this account, this request's among them."""
    rooms: tuple[float, float] = (inf, inf)
    """Requests and tokens that could still be sent after this one."""
    probes: tuple[Gate, ...] = ()
    """Gates that learn from this request's fate."""
    looks: bool = False
    """Whether it looks if an outage is over."""
    reserved: float = 0.0
    """Tokens of prompt and longest reply; 0 where they are not known."""
    above: bool = False
    """Whether it passed the limit of tokens by what was reserved."""


class Accounting(Protocol):
    """Who says when a lane may send: the account itself, or what somebody else lets this process have of it."""

    @property
    def known(self) -> bool:
        """Whether limits are known by now, so that a refusal is an exception and not the way to find them."""

    @property
    def sent(self) -> int:
        """Requests sent so far."""

    @property
    def allowed(self) -> tuple[float | None, float | None]:
        """Requests and tokens a minute that may be sent just now, as far as limits are known."""

    @property
    def awaited(self) -> bool:
        """Whether somebody waits at a gate: what it waits for must not be taken from under it."""

    def wanted(self) -> None:
        """Somebody came who has to wait, for a place or for a gate."""

    @property
    def reserves(self) -> bool:
        """Whether the server charges what a request reserves, and not what it uses."""

    def has_room(self, tokens: float) -> bool:
        """Whether a request of about `tokens` may be sent now."""

    async def wait(self, tokens: float) -> None:
        """Return when there may be room for a request of about `tokens`, or it is worth asking again."""

    def take(self, now: float, tokens: float, *, reserved: float = 0.0) -> Permit:
        """Charge a request of about `tokens` that is sent `now`, and that may use up to `reserved`."""

    def served(self, permit: Permit, tokens_used: float | None) -> None:
        """The request was answered."""

    def lost(self, permit: Permit) -> None:
        """Nobody knows whether the server counted the request."""

    def refused(self, permit: Permit, wait_s: float | None) -> bool:
        """The request was refused for the account's limits, for `wait_s` (None: not said).

        True if it went to find out how the server counts: then it does not say that we are too fast.
        """

    def slow_down(self, now: float) -> bool:
        """A little less from now on, where the flow is even. True if that is of any effect."""

    def learn(self, now: float, permit: Permit, quotas: Quotas) -> Iterable[tuple[LimitOf, float]]:
        """Take in what an answer said; gives the limits per minute that are new by it."""


class Account:
    """`take`, and later `settle`; between them, everything that answers have to say."""

    def __init__(self, limits: LaneLimits, slack_s: float = 0.0) -> None:
        """What is taken may be sent up to `slack_s` later: `take` is then told by when, and `redate` when it was."""
        self.limits = limits
        self._slack_s = slack_s
        self._requests = self._gate(limits.requests_per_min)
        self._tokens = self._gate(limits.tokens_per_min, smallest=TOKEN_GRAIN)
        self._at_gate: asyncio.Timeout | None = None
        self._sent = 0
        self._tokens_sent = 0.0
        self._caution = FIRST_MARGIN
        self._reservations = self._detector()
        self._refusals = 0.0
        """An exponentially weighted share of refusals."""
        self._lowest: dict[LimitOf, tuple[float, float]] = {}
        """The lowest limit that answers named lately, and when one last did."""

    def _gate(self, per_min: float | None, smallest: float = 1.0) -> Gate | None:
        if per_min is None:
            return None
        return make_gate(
            self.limits.kind, per_min, self.limits.window_s, smallest=smallest, slack_s=self._slack_s
        )

    def _detector(self) -> ReservationDetector | None:
        return ReservationDetector(self._tokens.limit, self.limits.window_s) if self._tokens else None

    @property
    def reserves(self) -> bool:
        """Whether the server charges what a request reserves, and not what it uses."""
        return self._reservations is not None and self._reservations.charged

    @property
    def known(self) -> bool:
        """Whether limits are known by now, so that a refusal is an exception and not the way to find them."""
        if self.limits.known:
            return True
        gates = (self._requests, self._tokens)
        return any(gate is not None and gate.sure for gate in gates)

    @property
    def sent(self) -> int:
        """Requests sent so far."""
        return self._sent

    @property
    def seldom_refuses(self) -> bool:
        """Whether refusals are isolated ones (see `concurrency`)."""
        return self._refusals < NOISE

    @property
    def token_margin(self) -> float:
        """The factor over estimates at which tokens are charged."""
        return self._caution

    @property
    def allowed(self) -> tuple[float | None, float | None]:
        """Requests and tokens a minute that may be sent just now, as far as limits are known."""
        requests, tokens = self._requests, self._tokens
        return (requests.per_min if requests else None, tokens.per_min if tokens else None)

    @property
    def even(self) -> bool:
        """Whether it has an even flow, in which each request has a place of its own."""
        return isinstance(self._requests, PacedGate) or isinstance(self._tokens, PacedGate)

    @property
    def dated(self) -> bool:
        """Whether it matters what was sent at which time in the last window."""
        return any(isinstance(gate, MeterGate) and gate.dated for gate in (self._requests, self._tokens))

    @property
    def awaited(self) -> bool:
        """Whether somebody waits at a gate: what it waits for must not be taken from under it."""
        return self._at_gate is not None

    def wanted(self) -> None:
        return  # whoever waits is asked for

    def has_room(self, tokens: float, requests: float = 1.0) -> bool:
        """Whether a request of about `tokens`, or so many with `tokens` in all, may be sent now."""
        return (self._requests is None or self._requests.has_room(requests)) and (
            self._tokens is None or self._tokens.has_room(tokens * self._caution)
        )

    def spare(self) -> tuple[float, float]:
        """Requests, and tokens as they are charged, that may be let out before anybody needs them."""
        requests, tokens = self._requests, self._tokens
        return (requests.spare() if requests else inf, tokens.spare() if tokens else inf)

    async def wait(self, tokens: float) -> None:
        """Return when there may be room for a request of about `tokens`, or it is worth asking again."""
        tokens *= self._caution
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

    def take(
        self, now: float, tokens: float, by: float | None = None, requests: int = 1, *, reserved: float = 0.0
    ) -> Permit:
        """Charge a request of about `tokens` that is sent `now`, or `by` then at the latest.

        Of several `requests`, which never go as probes, `tokens` is the sum.
        """
        tokens *= self._caution
        self._sent += requests
        self._tokens_sent += tokens
        permit = Permit(tokens, now if by is None else by, self._caution, self._sent, self._tokens_sent)
        of_requests, of_tokens = self._requests, self._tokens
        if of_requests or of_tokens:
            if of_requests and of_requests.take(now, float(requests), by):
                permit.probes = (of_requests,)
            if of_tokens and of_tokens.take(now, tokens, by):
                permit.probes = (*permit.probes, of_tokens)
            permit.rooms = (_room(of_requests), _room(of_tokens))
        if reserved and self._reservations:
            permit.reserved = reserved
            permit.above = self._reservations.take(now, reserved)
        return permit

    def redate(self, permit: Permit, sent_at: float, requests: int = 1) -> None:
        """A request, or several, that may have been sent later were sent at `sent_at`."""
        if self._requests:
            self._requests.redate(permit.sent_at, sent_at, float(requests))
        if self._tokens:
            self._tokens.redate(permit.sent_at, sent_at, permit.tokens)
        permit.sent_at = sent_at

    def give_back(self, permit: Permit) -> None:
        """The request was never sent. In an even flow its place has passed, but not what it would have held."""
        self.lost(permit)
        if isinstance(self._requests, MeterGate):
            self._requests.settle(permit.sent_at, 1.0, 0.0)
        if self._tokens:
            self._tokens.settle(permit.sent_at, permit.tokens, 0.0)

    def give_back_part(self, permit: Permit, requests: int, used: int, tokens: float) -> None:
        """Of several requests only `used` were sent, with `tokens` as charged: see `give_back` for the others."""
        if isinstance(self._requests, MeterGate):
            self._requests.settle(permit.sent_at, float(requests), float(used))
        if self._tokens:
            self._tokens.settle(permit.sent_at, permit.tokens, tokens)
        permit.tokens = tokens

    def count(self, now: float, uses: Sequence[tuple[float, float, float]]) -> None:
        """Others sent this lately: (time, requests, tokens)."""
        if self._requests:
            self._requests.count(now, [(at, requests) for at, requests, _ in uses])
        if self._tokens:
            self._tokens.count(now, [(at, tokens) for at, _, tokens in uses])

    def empty(self, now: float) -> None:
        """Nobody knows what was sent lately: begin with nothing, where servers do not count by dates."""
        for gate in (self._requests, self._tokens):
            if gate:
                gate.empty(now)

    def settle(self, permit: Permit, tokens_used: float | None) -> None:
        """The true number takes the estimate's place (None: nobody said it)."""
        if self._tokens is None or tokens_used is None:
            return
        charged = max(tokens_used, permit.tokens) if self.reserves else tokens_used
        self._tokens.settle(permit.sent_at, permit.tokens, charged)
        if permit.tokens and tokens_used:
            ratio = tokens_used / permit.tokens * permit.token_margin
            self._take_care(ratio, ratio, FORGET)

    def _take_care(self, usual: float, worst: float, forget: float) -> None:
        """Requests took `usual` times what was estimated, one of them `worst` times."""
        decayed = self._caution + forget * (max(1.0, usual) - self._caution)
        self._caution = min(MAX_CAUTION, max(worst, decayed))

    def served(self, permit: Permit, tokens_used: float | None) -> None:
        """The request was answered."""
        self.settle(permit, tokens_used)
        if self._reservations:
            self._reservations.served(above=permit.above)
        for gate in permit.probes:
            gate.probed(served=True)
        self._all_is_well(permit)

    def served_many(self, permit: Permit, requests: int, charged: float, used: float, worst: float) -> None:
        """Of several requests so many were answered: charged `charged` tokens they took `used`, and one of them
        `worst` times what was estimated."""
        if self._tokens and charged:
            self._tokens.settle(permit.sent_at, charged, used)
            self._take_care(used / charged * permit.token_margin, worst, 1.0 - (1.0 - FORGET) ** requests)
        self._all_is_well(permit, requests)

    def _all_is_well(self, permit: Permit, requests: int = 1) -> None:
        self._refusals *= (1.0 - REFUSALS_GAIN) ** requests
        if self._requests:
            self._requests.speed_up(permit.sent_at)
        if self._tokens:
            self._tokens.speed_up(permit.sent_at)

    def lost(self, permit: Permit) -> None:
        """Nobody knows whether the server counted the request."""
        for gate in permit.probes:
            gate.probed(served=None)

    def refused(self, permit: Permit, wait_s: float | None) -> bool:
        """The request was refused for the account's limits, for `wait_s` (None: not said).

        True if it went to find out how the server counts: then it does not say that we are too fast.
        """
        self._refusals += REFUSALS_GAIN * (1.0 - self._refusals)
        # A refused request does not count; in an even flow its place has passed.
        if isinstance(self._requests, MeterGate):
            self._requests.settle(permit.sent_at, 1.0, 0.0)
        if isinstance(self._tokens, MeterGate):
            self._tokens.settle(permit.sent_at, permit.tokens, 0.0)
        expected = self.doubts(permit)
        self._requests = self._taught(self._requests, permit, permit.rooms[0], wait_s)
        self._tokens = self._taught(self._tokens, permit, permit.rooms[1], wait_s, TOKEN_GRAIN)
        if permit.reserved:
            self._suspect(permit)
        return expected

    def _suspect(self, permit: Permit) -> None:
        """A request was refused of which is known what it reserved: perhaps for that."""
        detector, before, now = self._reservations, self._tokens, asyncio.get_running_loop().time()
        if detector is None or before is None:
            return
        gates = (self._requests, before)
        plenty = all(
            gate is None or room > PLENTY * gate.limit for gate, room in zip(gates, permit.rooms, strict=True)
        )
        if not detector.refused(now, permit.sent_at, permit.reserved, above=permit.above, plenty=plenty):
            return
        self._caution = 1.0  # reservations are no estimates
        kind: LimitKind = "auto" if isinstance(before, MeterGate) and before.finder else self.limits.kind
        window_s = self.limits.window_s
        per_min = before.limit * 60.0 / window_s
        self._tokens = make_gate(kind, per_min, window_s, smallest=TOKEN_GRAIN, slack_s=self._slack_s)
        self._tokens.count(now, detector.uses())
        self._leave_gate()

    def _leave_gate(self) -> None:
        """Whoever waits at a gate should ask again: perhaps it is one that is replaced."""
        if self._at_gate and not self._at_gate.expired():
            self._at_gate.reschedule(0.0)

    def doubts(self, permit: Permit) -> bool:
        """Whether a refusal of the request would only say how the server counts."""
        return bool(permit.probes) or any(
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
            gate.finder.refused(
                asyncio.get_running_loop().time(),
                probe=gate in permit.probes,
                room=room,
                wait_s=lasting_s,
                isolated=self.seldom_refuses,
            )
            if gate.finder.kind == "paced":
                gate.told()
                return PacedGate(gate.limit, self.limits.window_s, smallest, empty=True)
        left = gate.room()
        if gate.sure and 0 < left <= PLENTY * gate.limit:
            gate.charge(left, lasting_s)  # the server sees less room than we do
        gate.told()
        return gate

    def slow_down(self, now: float) -> bool:
        """A little less from now on, where the flow is even. True if that is of any effect."""
        paced = [gate for gate in (self._requests, self._tokens) if isinstance(gate, PacedGate)]
        # A server that refuses a share of an even flow lets the rest through: its limit cannot be much lower.
        least = 1.0 - 4.0 * self._refusals if self.seldom_refuses else 0.0
        for gate in paced:
            gate.slow_down(now, least)
        return bool(paced)

    def delay(self, seconds: float) -> None:
        """What was taken lately is sent later than it was: where the flow is even, let it stand still for so long."""
        for gate in (self._requests, self._tokens):
            if isinstance(gate, PacedGate):
                gate.delay(seconds)

    def learn(self, now: float, permit: Permit, quotas: Quotas) -> Iterator[tuple[LimitOf, float]]:
        """Take in what an answer said; gives the limits per minute that are new by it."""
        if self.limits.window_s != MINUTE_S:
            return  # somebody knows better than the headers, which speak of minutes
        if quotas.requests:
            before, since = self._requests, float(self._sent - permit.number)
            self._requests = self._agreed(now, "requests", before, quotas.requests, permit.rooms[0], since)
            if self._requests is not before:
                yield "requests", self._requests.limit
        if quotas.tokens:
            before, since = self._tokens, self._tokens_sent - permit.tokens_sent
            self._tokens = self._agreed(now, "tokens", before, quotas.tokens, permit.rooms[1], since)
            if self._tokens is not before:
                charged, self._reservations = self.reserves, self._detector()
                if self._reservations:
                    self._reservations.charged = charged
                yield "tokens", self._tokens.limit

    def _agreed(
        self, now: float, what: LimitOf, gate: Gate | None, quota: Quota, room: float, since: float
    ) -> Gate:
        """The gate that agrees with what the provider said of `what`.

        `room` is what we thought was left when that request went, `since` what has been sent after it: the
        provider may have counted any of it already.
        """
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
        smallest = TOKEN_GRAIN if what == "tokens" else 1.0
        learned = make_gate(kind, limit, MINUTE_S, smallest=smallest, slack_s=self._slack_s)
        if isinstance(learned, MeterGate):
            sent = self._sent if what == "requests" else self._tokens_sent
            used = sent if quota.remaining is None else max(0.0, quota.limit - quota.remaining) + since
            learned.charge(min(limit, used), quota.reset_s)
        self._leave_gate()
        return learned


def _room(gate: Gate | None) -> float:
    return gate.room() if gate else inf
