"""Which error is worth another attempt, and how long to wait before it. Pure: no clock, no I/O.

Full jitter after Brooker ("Exponential backoff and jitter", 2015): uniform in [0, min(cap, base * 2^n]).
A provider's own Retry-After is a floor under the jitter, never shortened.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from cts_async.errors import ParameterRefused, RateLimited, StepError, TransientError, UnusableOutput


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
