"""The lots of one account that the limiter has let out: leave for many requests at once, charged before they are sent.

Two rules. A lot is let out only where plenty is left, so that what nobody uses of it is missed by nobody. And it counts
like as many permits: all of it as used at the last moment when it may be, until its worker says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from cts_async.cluster.asks import LEASE_S, Lot, LotReport
from cts_async.engine.account import Account, Permit

LEAST: Final = 8
"""Requests that are worth a lot."""
MOST: Final = 4096
"""In one lot."""
TINY: Final = 1e-6
FORGOTTEN_S: Final = 60.0
"""A permit of which nobody has said anything for so long after its end was lost on the way."""


@dataclass(slots=True)
class _Out:
    """A lot that is with a worker."""

    worker: str
    permit: Permit
    """For all that is or may be sent of it."""
    by: float
    requests: int
    over: bool = False
    heard: LotReport | None = None


@dataclass(frozen=True, slots=True)
class Over:
    """What is new of a lot: requests that were sent and that were not, and those that were refused."""

    used: int = 0
    returned: int = 0
    refused: int = 0
    permit: Permit | None = None
    """For each of the refused."""


class Lots:
    """`let` some out, and `report` what has become of them."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._out: dict[int, _Out] = {}
        self.requests = 0
        """Of lots that are not over, with their tokens: any of them may be sent yet."""
        self.tokens = 0.0

    def let(self, worker: str, number: int, now: float, requests: int, tokens: float) -> Lot | None:
        """A lot for up to so many requests of about `tokens` in all; None where that much is not to spare."""
        n = self._possible(now, min(requests, MOST), tokens / requests if requests else 0.0)
        if not n:
            return None
        by = now + LEASE_S
        permit = self._account.take(now, tokens * n / requests, by, n)
        # Of those that are out any may be sent after this one, and counted by a server after it.
        permit.number -= self.requests
        permit.tokens_sent -= self.tokens
        self._out[number] = _Out(worker, permit, by, n)
        self.requests += n
        self.tokens += permit.tokens
        return Lot(number, by, n, permit.tokens, permit.token_margin)

    def _possible(self, now: float, requests: int, tokens_each: float) -> int:
        """As many requests as may be let out now, up to `requests`; 0 for less than are worth it."""
        of_requests, of_tokens = self._account.spare()
        charged_each = tokens_each * self._account.token_margin
        if self._account.even:
            # What is out comes on top of the flow, whenever it is used.
            out = [lot for lot in self._out.values() if not lot.over and lot.by > now]
            of_requests -= sum(lot.requests for lot in out)
            of_tokens -= sum(lot.permit.tokens for lot in out)
        most = min(of_requests, of_tokens / charged_each if charged_each else inf)
        n = int(max(0.0, min(float(requests), most)) + TINY)
        while n >= LEAST and not self._account.has_room(tokens_each * n, float(n)):
            n //= 2  # an even flow gathers no more than a moment's worth
        return n if n >= LEAST else 0

    def permit(self, number: int) -> Permit | None:
        """How the account stood when a lot was let out; None where there is no such lot any more."""
        out = self._out.get(number)
        return out.permit if out else None

    def report(self, report: LotReport) -> Over:
        """What has become of a lot; what is known already is said in vain."""
        out = self._out.get(report.lot)
        if out is None or (out.heard and report.ended <= out.heard.ended):
            return Over()
        before = out.heard or LotReport(report.lot, 0, 0.0, 0.0)
        ends = not out.over
        if ends:
            self._end(out, report)
        out.heard = report
        permit = out.permit
        answered = report.ended - before.ended
        charged, worst = report.charged - before.charged, report.worst if report.worst > before.worst else 0.0
        if answered:
            self._account.served_many(permit, answered, charged, report.took - before.took, worst)
        refused = report.refused - before.refused
        each = (report.refused_tokens - before.refused_tokens) / refused if refused else 0.0
        of_refused = Permit(
            each, permit.sent_at, permit.token_margin, permit.number, permit.tokens_sent, permit.rooms
        )
        if report.ended >= report.used:
            del self._out[report.lot]
        used, returned = (report.used, out.requests - report.used) if ends else (0, 0)
        return Over(used, returned, refused, of_refused)

    def _end(self, out: _Out, report: LotReport) -> None:
        """Nothing more is used of it: take back the rest, and date what was."""
        out.over = True
        self.requests -= out.requests
        self.tokens -= out.permit.tokens
        self._account.give_back_part(out.permit, out.requests, report.used, report.tokens)
        if report.used:
            self._account.redate(out.permit, min(out.by, report.used_at), report.used)

    def gone(self, worker: str) -> None:
        """A worker is dead: of what it sent nobody will say more."""
        for number in [n for n, out in self._out.items() if out.worker == worker and out.over]:
            del self._out[number]

    def forget(self, now: float) -> int:
        """Give up lots of which nobody will say anything: they stay counted. Gives how many requests that were."""
        forgotten = 0
        for number, out in [*self._out.items()]:
            if out.by + FORGOTTEN_S > now:
                break
            if not out.over:
                self.requests -= out.requests
                self.tokens -= out.permit.tokens
                forgotten += out.requests
                del self._out[number]
        return forgotten
