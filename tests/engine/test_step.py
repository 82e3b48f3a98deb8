"""Which error is worth a retry, and how long the wait is: a table."""

from __future__ import annotations

import random

import pytest

from cts_async.engine.step import Failures, RetryPolicy, full_jitter, wait_before_retry
from cts_async.errors import RateLimited, RejectedError, StepError, ToolError, TransientError, UnusableOutput

POLICY = RetryPolicy(
    max_transient=2, max_rate_limited=2, max_unusable=1, base_s=1.0, cap_s=8.0, patience_s=0.0
)


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (TransientError("reset"), 2),
        (RateLimited("slower"), 2),
        (UnusableOutput("not JSON"), 1),
        (RejectedError("400"), 0),
        (ToolError("no page"), 0),
    ],
)
def test_each_kind_is_retried_as_often_as_the_policy_says(error: StepError, times: int) -> None:
    failures, rng = Failures(), random.Random(1)
    waits = [wait_before_retry(error, failures, POLICY, rng) for _ in range(times + 1)]
    assert [wait is None for wait in waits] == [False] * times + [True]


def test_retry_after_is_a_floor_under_the_jitter() -> None:
    rng = random.Random(2)
    for _ in range(50):
        wait = wait_before_retry(TransientError("busy", retry_after_s=7.0), Failures(), POLICY, rng)
        assert wait is not None
        assert 7.0 <= wait <= 8.0


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
