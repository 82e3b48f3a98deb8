"""Gates keep their law in the order in which they are asked, and use what they may."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import run_virtual

from cts_async.engine.ratelimit import LimitKind, PacedGate, make_gate


def send_times(kind: LimitKind, amounts: list[float], per_min: float, window_s: float = 60.0) -> list[float]:
    """When each amount was let through, with every caller waiting at once but served in order."""

    async def main() -> list[float]:
        gate = make_gate(kind, per_min, window_s)
        loop = asyncio.get_running_loop()
        times = []
        for amount in amounts:
            while not gate.has_room(amount):
                await gate.wait(amount)
            gate.take(loop.time(), amount)
            times.append(loop.time())
        return times

    return run_virtual(main)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6000), st.integers(1, 80))
def test_a_paced_gate_never_exceeds_its_rate_by_more_than_its_grid(per_min: int, n: int) -> None:
    times = send_times("paced", [1.0] * n, float(per_min))
    rate = per_min / 60.0
    grid = 1.0 + rate * PacedGate.LATENESS_S
    for i, start in enumerate(times):
        for j, at in enumerate(times[i:], 1):
            assert j <= grid + (at - start) * rate + 1e-6


@settings(max_examples=40, deadline=None)
@given(st.integers(60, 6000))
def test_a_paced_gate_never_sends_more_than_a_second_s_share_in_a_second(per_min: int) -> None:
    share = per_min / 60.0
    times = send_times("paced", [1.0] * int(3 * share + 2), float(per_min))
    for i, start in enumerate(times):
        assert sum(at < start + 1.0 - 1e-6 for at in times[i:]) <= -(-per_min // 60)


def test_a_paced_gate_uses_its_rate_to_the_full() -> None:
    # 1200 a minute is 20 a second, 99 % of it 19.8. The 29 of the first 1.5 s take 5 % more, and the 100th after the
    # first goes at 101.45 / 19.8 s: the grid that makes late wake-ups good is not lent to anybody who is on time.
    assert send_times("paced", [1.0] * 101, 1200.0)[-1] == pytest.approx(101.45 / 19.8, abs=0.01)


def test_a_second_that_begins_with_a_slow_first_request_holds_no_more_than_its_share() -> None:
    """The first is 40 ms on its way, the others are there at once: the 21st comes a second after it at the earliest."""
    first, *others = send_times("paced", [1.0] * 30, 1200.0)
    assert others[19] - (first + 0.04) >= 1.0


def test_a_late_wake_up_is_made_good() -> None:
    async def main() -> float:
        gate = make_gate("paced", 1200.0, 60.0)
        loop = asyncio.get_running_loop()
        for _ in range(101):
            while not gate.has_room(1.0):
                await gate.wait(1.0)
            await asyncio.sleep(0.005)  # the loop was busy
            gate.take(loop.time(), 1.0)
        return loop.time()

    assert run_virtual(main) < 1.02 * 100 / 19.8 + 0.02


def test_a_paced_gate_slows_down_and_recovers_in_small_steps() -> None:
    async def main() -> tuple[float, float]:
        gate = PacedGate(1200.0)
        loop = asyncio.get_running_loop()

        async def takes_s(n: int) -> float:
            began = loop.time()
            for _ in range(n):
                await gate.wait(1.0)
                gate.take(loop.time(), 1.0)
            return loop.time() - began

        await takes_s(1)
        gate.slow_down(loop.time())
        slow = await takes_s(100)
        for _ in range(20):
            await asyncio.sleep(11.0)
            gate.speed_up(loop.time())
        return slow, await takes_s(100)

    slow, recovered = run_virtual(main)
    assert slow == pytest.approx(100 / (19.8 * 0.95), rel=0.02)
    assert recovered == pytest.approx(100 / 19.8, rel=0.02)


def test_a_sliding_gate_lets_a_burst_through_and_then_waits_for_the_window() -> None:
    # Limit 3 per 10 s (18 a minute): three at 0, three when the first leave the window and its margin.
    times = send_times("sliding", [1.0] * 6, 18.0, 10.0)
    assert times == pytest.approx([0.0] * 3 + [10.4] * 3, abs=1e-6)


@pytest.mark.parametrize("kind", ["sliding", "bucket", "auto"])
def test_whoever_waits_is_woken_when_something_is_given_back(kind: LimitKind) -> None:
    async def main() -> float:
        gate = make_gate(kind, 100.0, 60.0)
        loop = asyncio.get_running_loop()
        first_at = loop.time()
        gate.take(first_at, 90.0)
        loop.call_later(2.0, gate.settle, first_at, 90.0, 10.0)
        while not gate.has_room(50.0):
            await gate.wait(50.0)
        return loop.time()

    assert run_virtual(main) == pytest.approx(2.0)


def test_tokens_beyond_the_estimate_are_paid() -> None:
    async def main() -> tuple[bool, float]:
        gate = make_gate("bucket", 100.0, 60.0)  # 99.33 at once, 1.667 a second
        loop = asyncio.get_running_loop()
        gate.take(0.0, 20.0)
        gate.settle(0.0, 20.0, 110.0)  # 99.33 - 110 = -10.67
        room = gate.has_room(1.0)
        while not gate.has_room(10.0):
            await gate.wait(10.0)
        return room, loop.time()

    # 20.67 are lacking at 100 a minute: 12.4 s.
    assert run_virtual(main) == (False, pytest.approx(12.4))


def test_a_paced_prompt_larger_than_its_grain_goes_after_the_time_it_takes() -> None:
    # 6,000 tokens a minute, 99 a second: 5,000 go after (5,000 - what the grain held at first) / 99.
    async def main() -> float:
        gate = make_gate("paced", 6000.0, 60.0, smallest=500.0)
        loop = asyncio.get_running_loop()
        while not gate.has_room(5000.0):
            await gate.wait(5000.0)
        gate.take(loop.time(), 5000.0)
        return loop.time()

    assert run_virtual(main) == pytest.approx(4500 / 99.0, abs=0.1)
