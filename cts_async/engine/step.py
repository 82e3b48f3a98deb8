"""A keyed step: one unit of work that is remembered, and the key that says when it is the same work.

Which error is worth another attempt, and how long to wait before it. Pure: no clock, no I/O.

Full jitter after Brooker ("Exponential backoff and jitter", 2015): uniform in [0, min(cap, base * 2^n]).
A provider's own Retry-After is a floor under the jitter, never shortened.

What has happened to one step so far, and how its record in the journal tells it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import orjson

from cts_async.engine.budget import NOTHING, Budget
from cts_async.engine.events import Cost, Usage
from cts_async.engine.lane import Lane
from cts_async.engine.ratelimit import Quotas
from cts_async.errors import (
    ParameterRefused,
    RateLimited,
    RejectedError,
    RunStopped,
    StepError,
    ToolError,
    TransientError,
    UnusableOutput,
)
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


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often one step is attempted again, by kind of failure; times in seconds."""

    max_transient: int = 6
    """Retries after timeouts, resets, 5xx and broken bodies; an open circuit costs none of them."""
    max_rate_limited: int = 40
    """Retries after "slower, please" while others are served: the lane slows down, so running out of these is a
    real refusal."""
    max_unusable: int = 3
    """Times a model is asked again because its output could not be used."""
    base_s: float = 0.5
    cap_s: float = 30.0
    patience_s: float = 90.0
    """A step is not given up before it has waited so long: an outage that only one step meets opens no circuit."""


@dataclass(slots=True)
class Failures:
    """How often one step has failed so far, by kind."""

    transient: int = 0
    rate_limited: int = 0
    unusable: int = 0
    waited_s: float = 0.0
    """Waits after transient failures, all together."""


def wait_before_retry(
    error: StepError, failures: Failures, policy: RetryPolicy, rng: random.Random, *, outage: bool = False
) -> float | None:
    """Count `error` and give the seconds to wait before the next attempt; None when it is not worth one.

    During an `outage` a transient failure is not counted: the lane decides when it is over.
    """
    if isinstance(error, UnusableOutput):
        failures.unusable += 1
        return 0.0 if failures.unusable <= policy.max_unusable else None
    if isinstance(error, RateLimited):
        failures.rate_limited += not outage
        if failures.rate_limited > policy.max_rate_limited:
            return None
        if outage or error.retry_after_s is not None:
            # The lane pauses for everybody, or the provider says how long: no jitter on top.
            return error.retry_after_s or 0.0
        return full_jitter(failures.rate_limited - 1, policy, rng)
    if isinstance(error, ParameterRefused):
        return 0.0  # each parameter can be refused only once
    if not isinstance(error, TransientError):
        return None
    if outage:
        return error.retry_after_s or 0.0
    failures.transient += 1
    if failures.transient > policy.max_transient and failures.waited_s >= policy.patience_s:
        return None
    wait_s = (error.retry_after_s or 0.0) + full_jitter(failures.transient - 1, policy, rng)
    failures.waited_s += wait_s
    return wait_s


def full_jitter(n: int, policy: RetryPolicy, rng: random.Random) -> float:
    """Seconds before retry number `n` (from 0), uniform up to the exponential bound."""
    return rng.uniform(0.0, min(policy.cap_s, policy.base_s * 2.0 ** min(n, 60)))


NO_USAGE = Usage()


@dataclass(slots=True)
class Attempts:
    """The attempts of one step in this process."""

    failures: Failures = field(default_factory=Failures)
    failed: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = NO_USAGE
    unusable: UnusableOutput | None = None
    charged: Usage | None = None
    """What the attempt under way was charged, once the provider has said so."""
    reserved: Cost | None = None
    """What a budget has set aside for the attempt under way; None where it counts nothing."""
    assumed: Cost = NOTHING
    """What a budget counts for attempts of which nobody knows what they were charged."""
    recorded: bool = False
    """Whether all this is on its way into the journal."""

    def answered(self, usage: Usage | None) -> None:
        """The provider answered, and charged `usage` (None: it did not say)."""
        self.charged = usage
        if usage:
            self.usage = usage if self.usage is NO_USAGE else self.usage + usage

    def fail(self, error: StepError, latency_s: float) -> None:
        """Note that the attempt under way failed."""
        failed: dict[str, Any] = {
            "kind": error.kind,
            "message": str(error),
            "latency_s": round(latency_s, 4),
        }
        if isinstance(error, UnusableOutput):
            self.unusable = error
            failed["text"] = error.text
        if self.charged:
            failed["usage"] = usage_json(self.charged)
        self.failed.append(failed)

    def settle(self, budget: Budget, step: Step[Any], charged: Usage | None) -> None:
        """Put what the attempt was charged in place of what `budget` set aside (None: nobody knows)."""
        if self.reserved is None:
            return
        if charged is None:
            self.assumed += self.reserved
        budget.settle(self.reserved, self.reserved if charged is None else step.cost(charged))

    def record(self, step: Step[Any], instance: str, now: float, **how: Any) -> dict[str, Any]:
        """The step's line in the journal: `how` is `response` and `latency_s`, or `error`."""
        # `key` and `ok` come first: opening a journal scans for them without reading the rest.
        record: dict[str, Any] = {
            "key": step.key,
            "ok": "error" not in how,
            "instance": instance,
            "step": step.name,
        }
        if step.model:
            record["model"] = step.model
        if step.request is not None:
            record["request"] = step.request
        record.update(how)
        if "latency_s" in how:
            record["latency_s"] = round(how["latency_s"], 4)
        if self.assumed.calls:
            record["assumed"] = {"tokens": self.assumed.tokens, "usd": self.assumed.usd}
        if self.usage.total:
            record["usage"] = usage_json(self.usage)
        if self.failed:
            # Otherwise it was one attempt: what goes without saying is not written a million times.
            record["attempts"] = len(self.failed) + ("error" not in how)
            record["failed_attempts"] = self.failed
        record["time"] = round(now, 3)
        return record


def charge_of(error: BaseException) -> Usage | None:
    """What a failed attempt was charged when no usage came back: nothing where it was refused; None: unknown."""
    if isinstance(error, RateLimited | RunStopped | ToolError) or getattr(error, "unsent", False):
        return NO_USAGE
    refused = isinstance(error, TransientError | RejectedError) and error.status not in (None, 200)
    return NO_USAGE if refused else None
