"""A keyed step, when another attempt at it is worth it, and what the journal records of its attempts.

Which error is retried and after how long is decided here without clock or I/O. Full jitter after Brooker ("Exponential
backoff and jitter", 2015): uniform in [0, min(cap, base * 2^n]). A provider's own Retry-After is a floor under the
jitter, never shortened.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import orjson

from cts_async.engine.budget import NOTHING, Budget
from cts_async.engine.events import Cost, Usage
from cts_async.engine.lane import Lane
from cts_async.engine.prices import Prices, usage_json
from cts_async.engine.ratelimit import Quotas
from cts_async.engine.reuse import ReuseRule
from cts_async.errors import (
    NoCapacity,
    NoCompletion,
    ParameterRefused,
    RateLimited,
    RejectedError,
    RunStopped,
    StepError,
    ToolError,
    TransientError,
    UnusableOutput,
)
from cts_async.records import value

T = TypeVar("T")


@value
class Executed:
    """The result of one attempt: the JSON value to record, the tokens charged, and the account's limits.

    None where the provider did not say.
    """

    response: Any
    usage: Usage | None = None
    quotas: Quotas | None = None


@value
class Step(Generic[T]):
    """Work that has the same result whenever its key is the same.

    `request` is what is new in it, as JSON, for the journal. `execute` makes one attempt; after an unusable output it
    is given that error. `decode` reads the recorded response, at first as on a replay, and raises UnusableOutput when
    it cannot be used. A step without a lane has no limits.
    """

    name: str
    key: str
    execute: Callable[[UnusableOutput | None], Awaitable[Executed]]
    decode: Callable[[Any], T]
    request: Any = None
    model: str = ""
    lane: Lane | None = None
    tokens: float = 0.0
    """Estimated charge of an attempt against the lane's tokens per minute."""
    reserved: float = 0.0
    """Estimated tokens of the prompt and the longest reply allowed, which some servers charge instead; 0: no limit."""
    most_usage: Callable[[UnusableOutput | None], Usage] | None = None
    """Upper estimate of the next attempt's usage, called only where there is a budget; None: no budget counts it."""
    policy: RetryPolicy | None = None
    """Its own retry policy; None: the runner's."""
    prices: Prices | None = None
    """None where they are unknown: then its dollars count as 0."""
    notes: Any = None
    """What a reader of the journal should know beside the request, as JSON; it determines nothing."""
    reuse: ReuseRule = ReuseRule.SAMPLED
    """From which other runs its result may be taken."""

    def description(self, instance: str) -> dict[str, Any]:
        """What its line in the journal says of it before the response."""
        fields: dict[str, Any] = {"instance": instance, "step": self.name}
        if self.model:
            fields["model"] = self.model
        if self.request is not None:
            fields["request"] = self.request
        if self.notes is not None:
            fields["notes"] = self.notes
        return fields

    def cost(self, usage: Usage) -> Cost:
        """The cost of one attempt that is charged `usage`."""
        usd = 0.0
        if self.prices:
            usd = self.prices.usd(usage)
        return Cost(1, usage.total, usd)


def step_key(*parts: Any) -> str:
    """Digest of everything that determines a step: 32 hex digits over canonical JSON (sorted keys)."""
    return blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


# --- Retries --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of retries of one step by kind of failure; times in seconds."""

    max_transient: int = 6
    """Retries after timeouts, resets, 5xx and broken bodies; those under an open circuit do not count."""
    max_rate_limited: int = 40
    """Retries after rate limits while others are served: the lane slows down, so using all of these up means that the
    request is refused for good."""
    max_unusable: int = 3
    """Times a model is asked again because its output could not be used."""
    max_no_completion: int = 1
    """Retries after a readable response that is no completion: each may be charged, and the next is probably equal."""
    base_s: float = 0.5
    cap_s: float = 30.0
    patience_s: float = 90.0
    """Least total wait before a step is given up: an outage that only one step meets opens no circuit."""


@dataclass(slots=True)
class Failures:
    """The failures of one step so far, by kind."""

    transient: int = 0
    rate_limited: int = 0
    unusable: int = 0
    no_completion: int = 0
    waited_s: float = 0.0
    """Total wait after transient failures."""
    refused_for_capacity: int = 0
    capacity_s: float = 0.0
    """Total wait for a slower tier that had no capacity, while others were served."""


def wait_before_retry(
    error: StepError,
    failures: Failures,
    policy: RetryPolicy,
    rng: random.Random,
    *,
    outage: bool = False,
    unanswered: bool = False,
) -> float | None:
    """Count `error` in `failures`; return the seconds before the next attempt, or None when there should be none.

    During an `outage` a transient failure is not counted: the lane decides when it is over. While nothing shows that
    the provider answers others (`unanswered`), a refusal for limits ends no step.
    """
    if isinstance(error, UnusableOutput):
        failures.unusable += 1
        if failures.unusable > policy.max_unusable:
            return None
        return 0.0  # the provider is well: what has to change is the prompt
    if isinstance(error, NoCompletion):
        failures.no_completion += 1
        if failures.no_completion > policy.max_no_completion:
            return None
        return full_jitter(0, policy, rng)
    if isinstance(error, NoCapacity):
        return _wait_for_capacity(error, failures, policy, rng, outage=outage)
    if isinstance(error, RateLimited):
        failures.rate_limited += not outage
        if failures.rate_limited > policy.max_rate_limited and not unanswered:
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


def _wait_for_capacity(
    error: NoCapacity, failures: Failures, policy: RetryPolicy, rng: random.Random, *, outage: bool
) -> float | None:
    """Seconds until a slower tier is asked again; None once a step has waited for as long as the tier's patience.

    It uses up no retries: such a tier is cheap because it may have to be waited for.
    """
    if outage:
        # The lane pauses for everybody, and ends the run once all were refused for that long.
        return error.retry_after_s or 0.0
    if failures.capacity_s >= error.patience_s:
        return None
    wait_s = error.retry_after_s
    if wait_s is None:
        failures.refused_for_capacity += 1
        wait_s = full_jitter(failures.refused_for_capacity, policy, rng)
    failures.capacity_s += wait_s
    return wait_s


def full_jitter(n: int, policy: RetryPolicy, rng: random.Random) -> float:
    """Seconds before retry number `n` (from 0), uniform up to the exponential bound."""
    return rng.uniform(0.0, min(policy.cap_s, policy.base_s * 2.0 ** min(n, 60)))


# --- Attempts -------------------------------------------------------------------------------------------

NO_USAGE = Usage()


@dataclass(slots=True)
class Attempts:
    """The attempts of one step in this process."""

    failures: Failures | None = None
    """None before the first failure, as of nearly every call."""
    failed: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = NO_USAGE
    unusable: UnusableOutput | None = None
    charged: Usage | None = None
    """The charge of the attempt under way, once the provider has named it."""
    reserved: Cost | None = None
    """What a budget has reserved for the attempt under way; None where it counts nothing."""
    assumed: Cost = NOTHING
    """What a budget counts for attempts whose charge is unknown."""
    recorded: bool = False
    """True when all this is on its way into the journal."""

    def add_usage(self, usage: Usage | None) -> None:
        """Note the charge of an attempt that was answered (None: the provider did not say)."""
        self.charged = usage
        if usage and self.usage is NO_USAGE:  # as on the way of nearly every call
            self.usage = usage
        elif usage:
            self.usage += usage

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
        if is_unsent(error):
            failed["unsent"] = True
        self.failed.append(failed)

    def settle(self, budget: Budget, step: Step[Any], charged: Usage | None, *, sent: bool = True) -> None:
        """Replace the attempt's reservation by its true charge; the reservation stays where that is unknown (None).

        An attempt that was not `sent` is no call.
        """
        if self.reserved is None:
            return
        if not sent:
            budget.settle(self.reserved, NOTHING)
            return
        if charged is None:
            self.assumed += self.reserved
            true_cost = self.reserved
        else:
            true_cost = step.cost(charged)
        budget.settle(self.reserved, true_cost)

    def record(
        self, step: Step[Any], instance: str, now: float, response: Any, latency_s: float
    ) -> dict[str, Any]:
        """The line in the journal of a step that has a result, whose last attempt took `latency_s`."""
        # `key` and `ok` come first: opening a journal scans for them without reading the rest.
        record: dict[str, Any] = {"key": step.key, "ok": True}
        record |= step.description(instance)
        record["response"] = response
        # As `round` does, at a third of its cost: for every call.
        record["latency_s"] = int(latency_s * 10_000 + 0.5) / 10_000
        self._add_spending(record, n_succeeded=1)
        record["time"] = int(now * 1000 + 0.5) / 1000
        return record

    def failure_record(
        self, step: Step[Any], instance: str, now: float, kind: str, message: str
    ) -> dict[str, Any]:
        """The line in the journal of a step that has failed for good."""
        record: dict[str, Any] = {"key": step.key, "ok": False}
        record |= step.description(instance)
        record["error"] = {"kind": kind, "message": message}
        self._add_spending(record, n_succeeded=0)
        record["time"] = round(now, 3)
        return record

    def _add_spending(self, record: dict[str, Any], n_succeeded: int) -> None:
        """Add to a line what the attempts took."""
        if self.assumed.calls:
            record["assumed"] = {"tokens": self.assumed.tokens, "usd": self.assumed.usd}
        if self.usage.input_tokens or self.usage.output_tokens:
            record["usage"] = usage_json(self.usage)
        if self.failed:
            # Left out where it was one attempt: the usual is not written a million times. What never left is no call.
            sent = sum(not failed.get("unsent") for failed in self.failed)
            record["attempts"] = sent + n_succeeded
            record["failed_attempts"] = self.failed


def is_unsent(error: BaseException) -> bool:
    """True if the attempt that failed with `error` never left this machine."""
    return isinstance(error, TransientError) and error.unsent


def charge_of(error: BaseException) -> Usage | None:
    """The charge of a failed attempt that returned no usage: none where the server refused it; None: unknown."""
    if isinstance(error, RateLimited | RunStopped | ToolError) or is_unsent(error):
        return NO_USAGE
    if not isinstance(error, TransientError | RejectedError):
        return None
    # Without a status the reply may have been lost on its way; under 200 an error may have been charged.
    if error.status in (None, 200):
        return None
    return NO_USAGE
