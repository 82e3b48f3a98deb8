"""How long the wait before a retry is; test_runner has which errors are worth one."""

from __future__ import annotations

import random

import pytest

from cts_async.engine.step import Failures, RetryPolicy, full_jitter, wait_before_retry
from cts_async.errors import NoCapacity, RateLimited, TransientError

POLICY = RetryPolicy(
    max_transient=2, max_rate_limited=2, max_unusable=1, base_s=1.0, cap_s=8.0, patience_s=0.0
)


@pytest.mark.parametrize("kind", [TransientError, RateLimited])
def test_an_outage_costs_no_retry(kind: type[TransientError]) -> None:
    failures = Failures()
    for _ in range(100):
        assert wait_before_retry(kind("down"), failures, POLICY, random.Random(3), outage=True) == 0.0
    assert failures == Failures()


def test_jitter_is_uniform_up_to_the_doubling_bound_and_no_further_than_the_cap() -> None:
    rng = random.Random(4)
    for n, bound in [(0, 1.0), (1, 2.0), (2, 4.0), (3, 8.0), (9, 8.0), (10_000, 8.0)]:
        waits = [full_jitter(n, POLICY, rng) for _ in range(200)]
        assert 0 <= min(waits) < 0.1 * bound
        assert 0.9 * bound < max(waits) <= bound


def test_waiting_for_capacity_uses_up_no_retries_until_the_tiers_patience_has_passed() -> None:
    failures, rng = Failures(), random.Random(6)
    waits = []
    while True:
        wait_s = wait_before_retry(NoCapacity("no room", patience_s=600.0), failures, POLICY, rng)
        if wait_s is None:
            break
        waits.append(wait_s)
    # Jitter of 8 s at most, 4 in the mean: far more often than the two retries after rate limits.
    assert sum(waits) == pytest.approx(600.0, abs=8.0)
    assert len(waits) > 100
    assert (failures.rate_limited, failures.transient) == (0, 0)


def test_capacity_that_a_provider_names_a_time_for_is_waited_for_without_jitter() -> None:
    failures, rng = Failures(), random.Random(6)
    error = NoCapacity("no room", patience_s=60.0, retry_after_s=45.0)
    waits = [wait_before_retry(error, failures, POLICY, rng) for _ in range(3)]
    assert waits == [45.0, 45.0, None]
