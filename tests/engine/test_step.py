"""How long the wait before a retry is; test_runner has which errors are worth one."""

from __future__ import annotations

import random

import pytest

from cts_async.engine.step import Failures, RetryPolicy, full_jitter, wait_before_retry
from cts_async.errors import RateLimited, TransientError

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
