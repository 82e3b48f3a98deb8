"""The law of every gate: no window of its length ever holds more than the limit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import run_virtual

from cts_async.engine.limits import SLIDING_MARGIN_S, BucketGate, Gate, PacedGate, SlidingGate


def send_times(make: type, amounts: list[float], *args: float) -> list[tuple[float, float]]:
    """When each amount was let through, with every caller waiting at once but served in order."""

    async def main() -> list[tuple[float, float]]:
        gate: Gate = make(*args)
        loop = asyncio.get_running_loop()
        times = []
        for amount in amounts:
            await gate.take(amount)
            times.append((loop.time(), amount))
        return times

    return run_virtual(main)


def most_in_a_window(times: list[tuple[float, float]], window_s: float) -> float:
    return max(sum(amount for at, amount in times if start <= at < start + window_s) for start, _ in times)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=60), st.integers(7, 30), st.sampled_from([1.0, 10.0]))
def test_a_sliding_gate_never_exceeds_its_limit_in_any_window(
    amounts: list[int], limit: int, window_s: float
) -> None:
    times = send_times(SlidingGate, [float(a) for a in amounts], float(limit), window_s)
    assert most_in_a_window(times, window_s + SLIDING_MARGIN_S - 1e-6) <= limit + 1e-6


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(9, 30))
def test_a_bucket_gate_never_exceeds_burst_plus_refill(amounts: list[int], limit: int) -> None:
    times = send_times(BucketGate, [float(a) for a in amounts], float(limit), 10.0)
    for i, (start, _) in enumerate(times):
        total = 0.0
        for at, amount in times[i:]:
            total += amount
            assert total <= limit + (at - start) * limit / 10.0 + 1e-6


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6000), st.integers(1, 80))
def test_a_paced_gate_never_exceeds_its_rate_by_more_than_its_grid(per_min: int, n: int) -> None:
    times = send_times(PacedGate, [1.0] * n, float(per_min))
    rate = per_min / 60.0
    grid = 1.0 + max(0.5, rate * PacedGate.LATENESS_S)
    for i, (start, _) in enumerate(times):
        for j, (at, _) in enumerate(times[i:], 1):
            assert j <= grid + (at - start) * rate + 1e-6


def test_a_paced_gate_uses_its_rate_to_the_full() -> None:
    # 1200 a minute is 20 a second: the 101st call goes 100 grid steps after the first, 5 s, less what the grid lends.
    times = send_times(PacedGate, [1.0] * 101, 1200.0)
    assert times[-1][0] == pytest.approx(5.0, abs=0.05)


def test_a_sliding_gate_lets_a_burst_through_and_then_waits_for_the_window() -> None:
    # Limit 3 per 10 s: three at 0, three when the first leave the window (and its margin).
    times = [at for at, _ in send_times(SlidingGate, [1.0] * 6, 3.0, 10.0)]
    assert times == pytest.approx([0.0] * 3 + [10.0 + SLIDING_MARGIN_S] * 3, abs=1e-6)


def test_more_than_the_limit_waits_for_an_empty_window_instead_of_for_ever() -> None:
    times = [at for at, _ in send_times(SlidingGate, [5.0, 99.0, 1.0], 10.0, 10.0)]
    assert times == pytest.approx([0.0, 10.4, 20.8], abs=1e-6)


def test_unused_tokens_are_given_back() -> None:
    async def main() -> tuple[bool, bool]:
        gate = SlidingGate(100.0, 60.0)
        await gate.take(80.0)
        before = gate.has_room(50.0)
        gate.settle(80.0, 30.0)
        return before, gate.has_room(70.0)

    assert run_virtual(main) == (False, True)


def test_tokens_beyond_the_estimate_are_paid() -> None:
    async def main() -> tuple[bool, float]:
        gate = BucketGate(100.0, 60.0)
        await gate.take(20.0)
        gate.settle(20.0, 110.0)  # level 100 - 110 = -10
        room = gate.has_room(1.0)
        await gate.take(10.0)  # needs 20 more at 100 per 60 s: 12 s
        return room, asyncio.get_running_loop().time()

    assert run_virtual(main) == (False, pytest.approx(12.0))
