"""A keyed step: one unit of work that is remembered, and the key that says when it is the same work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import orjson

from cts_async.engine.events import Cost, Usage
from cts_async.engine.lane import Lane
from cts_async.engine.quota import Quotas
from cts_async.engine.retry import RetryPolicy
from cts_async.errors import UnusableOutput
from cts_async.values import value

T = TypeVar("T")


@value
class Executed:
    """What one attempt brought back: the JSON value to remember, what it cost, and what the account may do.

    None where the provider did not say.
    """

    response: Any
    usage: Usage | None = None
    quotas: Quotas | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per million tokens."""

    input_usd_per_mtok: float
    output_usd_per_mtok: float

    def usd(self, usage: Usage) -> float:
        """What `usage` costs."""
        return (
            usage.input_tokens * self.input_usd_per_mtok + usage.output_tokens * self.output_usd_per_mtok
        ) / 1e6


@value
class Step(Generic[T]):
    """Work that gives the same result whenever its key is the same.

    `request` is what is new in it, as JSON, for the journal. `execute` makes one attempt; after an
    unusable output it is told which. `decode` reads the remembered response, on the first day as on a
    replay, and raises UnusableOutput when it cannot be used. A step without a lane has no limits.
    """

    name: str
    key: str
    execute: Callable[[UnusableOutput | None], Awaitable[Executed]]
    decode: Callable[[Any], T]
    request: Any = None
    model: str = ""
    lane: Lane | None = None
    tokens: float = 0.0
    """Estimate of what an attempt will be charged against the lane's tokens per minute."""
    reserved: float = 0.0
    """Estimate of its prompt and the longest reply that it allows: what some servers charge instead; 0: no limit."""
    most: Callable[[UnusableOutput | None], Usage] | None = None
    """A cautious upper estimate of the next attempt's usage, asked for only where there is a budget;
    None for a step that no budget counts."""
    policy: RetryPolicy | None = None
    """Its own patience; None: the runner's."""
    prices: Prices | None = None
    """None where they are unknown: then its dollars count as 0."""

    def cost(self, usage: Usage) -> Cost:
        """One attempt that is charged `usage`."""
        return Cost(1, usage.total, self.prices.usd(usage) if self.prices else 0.0)


def step_key(*parts: Any) -> str:
    """Digest of everything that determines a step: 32 hex digits over canonical JSON (sorted keys)."""
    return blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def usage_json(usage: Usage | None) -> Mapping[str, int] | None:
    """Usage as the journal writes it."""
    return None if usage is None else {"input": usage.input_tokens, "output": usage.output_tokens}
