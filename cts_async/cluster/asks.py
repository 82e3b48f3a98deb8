"""What workers and the limiter say to each other: plain values, the same whatever carries them.

A worker asks, over and over, and always has an ask with the limiter, which holds it until it has something to give.
Two rules. Everything may be said twice: what was in an ask whose answer was lost is said again in the next.
And every time is by the limiter's clock, except `Ask.sent_at`, by which a worker learns how that clock stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from cts_async.engine.account import LaneLimits, LimitOf
from cts_async.engine.ratelimit import Quotas
from cts_async.values import value

HOLD_S: Final = 1.0
"""The longest that an ask is held."""
LEASE_S: Final = 0.5
"""For how long a permit may be used at most, from when it was given."""
PLACES_S: Final = 10.0
"""For how long a worker keeps its places, from the last ask that was answered."""

Fate = Literal["used", "served", "refused", "lost", "unused"]
"""Of a permit: used and under way, answered, refused for the account's limits, ended nobody knows how, given back."""
Sends = tuple[tuple[float, float, float], ...]
"""When requests were sent, at the latest, how many, and with how many tokens in all: by time."""


class LimiterLost(Exception):
    """The limiter cannot be reached just now; nobody knows whether it heard the ask."""


@value
class Report:
    """What has become of a permit; a later one of the same permit says everything an earlier one did."""

    permit: int
    fate: Fate
    used_at: float = 0.0
    """The latest time when it can have been used."""
    tokens: float | None = None
    """That an answered request was charged, None where nobody said it."""
    wait_s: float | None = None
    """For how long a refused request was told to wait."""
    late_s: float = 0.0
    """How much later it was used than its place in an even flow is."""


@value
class LotReport:
    """What has become of a lot of which nothing more will be used; a later one says everything an earlier one did."""

    lot: int
    used: int
    """Requests that were sent."""
    tokens: float
    """Charged for those."""
    used_at: float
    """The latest time when the last can have been sent."""
    ended: int = 0
    """Of those that were sent."""
    charged: float = 0.0
    """For those of which it is known how many tokens they took."""
    took: float = 0.0
    """The tokens that these took."""
    worst: float = 0.0
    """The most that one of them took, as a multiple of its estimate."""
    refused: int = 0
    refused_tokens: float = 0.0
    """Charged for those that were refused."""
    wait_s: float | None = None
    """For how long one that was refused was told to wait."""


@value
class Heard:
    """What an answer said of the account's limits, and when its request was sent: with `permit` (or lot), 0 for none."""

    quotas: Quotas
    sent_at: float
    permit: int = 0


@value
class Refusals:
    """How many requests a worker has had refused in all, and for how long the last one was told to wait."""

    count: int
    wait_s: float | None


@dataclass(frozen=True, slots=True)
class History:
    """What a worker sent to an account in the last window, with the last that it heard of its limits."""

    epoch: int
    sends: Sends
    quotas: Quotas | None = None


@value
class LaneAsk:
    """How a worker stands with one account."""

    account: str
    limits: LaneLimits
    places: int
    """That it lets itself have."""
    busy: int
    """Requests under way, which may still be more."""
    waiting: int
    oldest: int | None
    """The number of the oldest job that waits."""
    wants: tuple[tuple[int, float], ...] = ()
    """Its oldest jobs that wait for leave to send: numbers, and about how many tokens each needs."""
    reports: tuple[Report, ...] = ()
    heard: tuple[Heard, ...] = ()
    refusals: Refusals | None = None
    history: History | None = None
    """Told when the limiter has lost count, or begins to count."""
    ahead: tuple[int, float] = (0, 0.0)
    """Requests that it will soon send, beyond those that it has leave for, and their tokens in all, about."""
    lots: tuple[LotReport, ...] = ()


@value
class Ask:
    """A worker's word; a newer one takes the place of those before it, which are answered at once."""

    worker: str
    number: int
    sent_at: float
    """By the worker's own clock."""
    generation: str
    """Of the limiter it last heard, "" for none."""
    heard: int
    """The number of the last grant of that generation that it has acted on."""
    lanes: tuple[LaneAsk, ...]
    trip_s: float = 0.0
    """How long asks and answers are on their way, together, where it takes long."""
    hold: bool = True
    """Whether it may wait for an answer."""
    leaving: bool = False
    """Whether this is its last: it sends nothing more."""


@value
class Let:
    """A permit: leave to send one request of up to `covers` estimated tokens, within its time."""

    id: int
    start: float
    """0 for at once."""
    end: float
    covers: float
    tokens: float
    """It was charged, with all caution."""
    token_margin: float
    doubts: bool
    """Whether a refusal would only say how the server counts."""


@value
class Lot:
    """Leave to send many requests within its time, given ahead where an account has plenty of room."""

    id: int
    """No permit has the same."""
    end: float
    requests: int
    tokens: float
    """Charged for all of them, with all caution."""
    token_margin: float


@value
class LaneGrant:
    """What a worker may have of one account."""

    account: str
    places: int
    epoch: int
    """A number that changes when the limiter needs the worker's history to go on."""
    counted: bool
    """Whether each request needs a permit; else a place is enough."""
    known: bool
    even: bool
    allowed: tuple[float | None, float | None]
    paused_until: float
    permits: tuple[Let, ...] = ()
    learned: tuple[tuple[LimitOf, float], ...] = ()
    """Limits a minute that this worker's word has changed."""
    lot: Lot | None = None


@value
class Grant:
    """The limiter's answer. `number` counts those to one worker; what an older one says is out of date."""

    generation: str
    number: int
    received_at: float
    granted_at: float
    gap_s: float
    """The least time between two asks of one worker: the more workers there are, the longer."""
    lanes: tuple[LaneGrant, ...]


class LimiterLink(Protocol):
    """The way to the limiter, over whatever network."""

    async def ask(self, ask: Ask) -> Grant:
        """Raises LimiterLost."""
