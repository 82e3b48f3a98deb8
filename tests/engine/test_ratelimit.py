"""Gates use the rate to the full and never exceed it."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from fake_limits import Allowance
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import (
    SIGMA,
    Call,
    Server,
    UnsteadyServer,
    latencies,
    oracle,
    run_engine,
    single_calls,
)
from virtual_time import in_virtual_time, run_virtual

from cts_async.engine.lane import LaneLimits
from cts_async.engine.ratelimit import LimitKind, PacedGate, make_gate
from cts_async.engine.step import Executed


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


def test_a_high_rate_in_portions_exceeds_its_grid_by_no_more_than_a_portion() -> None:
    times = send_times("paced", [1.0] * 2_000, 600_000.0)  # 10,000 a second, ten in a portion
    rate = 10_000.0
    bound = 1.0 + rate * (PacedGate.LATENESS_S + PacedGate.PORTION_S)
    for i in range(0, len(times), 50):
        for j, at in enumerate(times[i:], 1):
            assert j <= bound + (at - times[i]) * rate + 1e-6
    assert times[-1] - times[0] == pytest.approx(2_000 * 1.05 / (0.99 * rate), rel=0.05)


def test_a_paced_gate_uses_its_rate_to_the_full() -> None:
    # 1200 a minute is 20 a second, 99 % of it 19.8. The 29 of the first 1.5 s take 5 % more, and the 100th after the
    # first goes at 101.45 / 19.8 s: the grid that makes late wake-ups good is not lent to anybody who is on time.
    assert send_times("paced", [1.0] * 101, 1200.0)[-1] == pytest.approx(101.45 / 19.8, abs=0.01)


def test_a_second_that_begins_with_a_slow_first_request_holds_no_more_than_its_share() -> None:
    """The first is 40 ms on its way, the others are there at once: the 21st comes a second after it at the earliest."""
    first, *others = send_times("paced", [1.0] * 30, 1200.0)
    assert others[19] - (first + 0.04) >= 1.0


@in_virtual_time
async def test_a_late_wake_up_is_made_good() -> None:
    gate = make_gate("paced", 1200.0, 60.0)
    loop = asyncio.get_running_loop()
    for _ in range(101):
        while not gate.has_room(1.0):
            await gate.wait(1.0)
        await asyncio.sleep(0.005)  # the loop was busy
        gate.take(loop.time(), 1.0)
    assert loop.time() < 1.02 * 100 / 19.8 + 0.02


@in_virtual_time
async def test_a_paced_gate_slows_down_and_recovers_in_small_steps() -> None:
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
    recovered = await takes_s(100)
    assert slow == pytest.approx(100 / (19.8 * 0.95), rel=0.02)
    assert recovered == pytest.approx(100 / 19.8, rel=0.02)


@pytest.mark.parametrize("kind", ["sliding", "bucket", "auto"])
@in_virtual_time
async def test_waiter_is_woken_when_tokens_are_returned(kind: LimitKind) -> None:
    gate = make_gate(kind, 100.0, 60.0)
    loop = asyncio.get_running_loop()
    first_at = loop.time()
    gate.take(first_at, 90.0)
    loop.call_later(2.0, gate.settle, first_at, 90.0, 10.0)
    while not gate.has_room(50.0):
        await gate.wait(50.0)
    assert loop.time() == pytest.approx(2.0)


@in_virtual_time
async def test_tokens_beyond_the_estimate_are_paid() -> None:
    gate = make_gate("bucket", 100.0, 60.0)  # 99.33 at once, 1.667 a second
    loop = asyncio.get_running_loop()
    gate.take(0.0, 20.0)
    gate.settle(0.0, 20.0, 110.0)  # 99.33 - 110 = -10.67
    room = gate.has_room(1.0)
    while not gate.has_room(10.0):
        await gate.wait(10.0)
    # 20.67 are lacking at 100 a minute: 12.4 s.
    assert (room, loop.time()) == (False, pytest.approx(12.4))


@in_virtual_time
async def test_paced_prompt_larger_than_its_grain_waits_for_its_share() -> None:
    # 6,000 tokens a minute, 99 a second: 5,000 go after (5,000 - what the grain held at first) / 99.
    gate = make_gate("paced", 6000.0, 60.0, smallest=500.0)
    loop = asyncio.get_running_loop()
    while not gate.has_room(5000.0):
        await gate.wait(5000.0)
    gate.take(loop.time(), 5000.0)
    assert loop.time() == pytest.approx(4500 / 99.0, abs=0.1)


SILENT = Allowance(headers="none")


@given(
    st.sampled_from(["sliding", "bucket"]),
    st.integers(1, 40),
    st.integers(1, 120),
    st.sampled_from([10.0, 60.0]),
    st.integers(0, 1000),
)
def test_a_server_whose_way_of_counting_is_known_never_refuses(
    kind: Any, per_window: int, n: int, window_s: float, seed: int
) -> None:
    per_min = per_window * 60.0 / window_s
    allowance = replace(SILENT, requests_per_min=per_min, kind=kind, window_s=window_s)
    server = Server(allowance, seed)
    calls = [Call(latency) for latency in latencies(n, seed)]
    limits = LaneLimits(requests_per_min=per_min, kind=kind, window_s=window_s)
    run_engine(server, limits, n, single_calls(calls), in_flight=30)
    assert (server.refused, server.served) == (0, n)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["sliding", "bucket", "per_second"]),
    st.integers(60, 3000),
    st.integers(1, 100),
    st.integers(0, 99),
)
def test_an_even_flow_is_refused_by_no_kind_of_server(kind: Any, per_min: int, n: int, seed: int) -> None:
    server = Server(replace(SILENT, requests_per_min=float(per_min), kind=kind), seed, trip_s=0.0002)
    calls = [Call(latency) for latency in latencies(n, seed)]
    run_engine(server, LaneLimits(requests_per_min=float(per_min)), n, single_calls(calls), in_flight=30)
    assert server.refused == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(5_000, 60_000), st.integers(1, 60), st.integers(0, 999))
def test_tokens_are_kept_under_their_limit_however_wrong_the_estimates_are(
    per_min: int, n: int, seed: int
) -> None:
    rng = random.Random(seed)
    calls = [Call(latency, float(rng.randint(10, 3000))) for latency in latencies(n, seed)]
    off = {call: call.tokens * rng.uniform(0.85, 1.6) for call in calls}
    server = Server(replace(SILENT, tokens_per_min=float(per_min)), seed)
    limits = LaneLimits(tokens_per_min=float(per_min), kind="sliding")
    run_engine(server, limits, n, single_calls(calls, off.__getitem__), in_flight=20)
    assert (server.refused, server.served) == (0, n)


@pytest.mark.parametrize(
    ("allowance", "limits", "ratio", "refused"),
    [
        (Allowance(headers="none"), LaneLimits(requests_per_min=300, kind="sliding"), 1.03, 0),
        (Allowance(headers="none", kind="bucket"), LaneLimits(requests_per_min=300, kind="auto"), 1.10, 5),
        (Allowance(headers="openai"), LaneLimits(), 1.15, 5),
        (Allowance(headers="anthropic", epoch_s=1.7e9), LaneLimits(), 1.15, 5),
        (Allowance(headers="openai", kind="bucket"), LaneLimits(), 1.15, 5),
    ],
    ids=["configured", "kind unknown", "headers", "Anthropic's headers", "headers of a bucket"],
)
def test_the_rate_is_used_to_the_full(
    allowance: Allowance, limits: LaneLimits, ratio: float, refused: int
) -> None:
    allowance = replace(allowance, requests_per_min=300.0)
    calls = [Call(latency) for latency in latencies(500, 7)]
    server = Server(allowance, 7)
    makespan, _ = run_engine(server, limits, 500, single_calls(calls), in_flight=64)
    assert makespan <= ratio * oracle(allowance, calls, 64)
    assert server.refused <= refused


class SharedBucket(Server):
    """A server of whose bucket somebody else takes `others` after the 300th request."""

    others = 12.0

    async def take(self, call: Call, estimate: float) -> Executed:
        if self.served >= 300 and self.others:
            for meter in self._limits._meters.values():
                meter.take(asyncio.get_running_loop().time(), self.others)
            self.others = 0.0
        return await super().take(call, estimate)


@pytest.mark.parametrize("retry_after", ["ms", "seconds", "none"])
def test_bucket_that_refuses_early_is_detected_in_the_end(retry_after: Any) -> None:
    """600 at once and 10 a second: 900 take half a minute, and a minute in a window."""
    allowance = Allowance(requests_per_min=600, kind="bucket", retry_after=retry_after)
    calls = [Call(latency) for latency in latencies(900, 1, 0.3)]
    server = SharedBucket(allowance, 1)
    makespan, _ = run_engine(server, LaneLimits(max_concurrency=200), 900, single_calls(calls), 200)
    assert makespan < 35
    assert server.refused <= 5


@pytest.mark.parametrize("kind", ["sliding", "bucket", "auto", "paced"])
@pytest.mark.parametrize("retry_after", ["seconds", "none"])
def test_server_that_charges_max_tokens_is_detected(kind: Any, retry_after: Any) -> None:
    """40 reservations of 1,500 tokens fit into a minute, and 100 of the 600 that are used."""
    counts = "bucket" if kind == "bucket" else "sliding"
    allowance = replace(SILENT, tokens_per_min=60_000.0, kind=counts, retry_after=retry_after)
    calls = [Call(latency, 600.0, 1500.0) for latency in latencies(200, 1)]
    server = Server(allowance, 1, charges_reserved=True)
    _, lane = run_engine(server, LaneLimits(tokens_per_min=60_000, kind=kind), 200, single_calls(calls), 200)
    assert server.served == 200
    assert server.refused <= 30  # of 200: those that were under way, and a few more
    assert lane._account.reserves


@pytest.mark.parametrize("share", [0.0, 0.03])
@pytest.mark.parametrize("kind", ["sliding", "bucket", "auto", "paced"])
def test_server_that_charges_usage_is_not_detected_as_reserving(kind: Any, share: float) -> None:
    lane_limits = LaneLimits(tokens_per_min=60_000, kind=kind)
    calls = [Call(latency, 600.0, 1500.0) for latency in latencies(400, 2)]
    server = UnsteadyServer(SILENT, 2, share=share)
    _, lane = run_engine(server, lane_limits, 400, single_calls(calls), 200)
    assert not lane._account.reserves
    assert server.served == 400


def seconds_of_1500_calls(server: UnsteadyServer, limits: LaneLimits) -> float:
    calls = [Call(latency) for latency in latencies(1500, 1, 0.1)]
    return run_engine(server, limits, 1500, single_calls(calls), in_flight=200)[0]


@cache
def seconds_without_refusals(limits: LaneLimits) -> float:
    """The same for every status, delay and storm that a server does not send."""
    server = UnsteadyServer(SILENT, 1, 0.002)
    makespan_s = seconds_of_1500_calls(server, limits)
    assert server.served == 1500
    return makespan_s


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("share", "most"), [(0.01, 1.15), (0.03, 1.5)])
@pytest.mark.parametrize("status", [429, 503])
def test_refusals_at_random_cost_little(status: int, share: float, most: float, late: bool) -> None:
    server = UnsteadyServer(SILENT, 1, 0.002, share=share, status=status, late=late)
    assert seconds_of_1500_calls(server, LaneLimits()) <= most * seconds_without_refusals(LaneLimits())
    assert server.served == 1500


@pytest.mark.parametrize("limits", [LaneLimits(), LaneLimits(requests_per_min=600_000, kind="bucket")])
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_serves_32_at_once_is_used_and_seldom_refuses(status: int, limits: LaneLimits) -> None:
    calls = [Call(latency) for latency in latencies(2500, 1, 0.1)]
    server = UnsteadyServer(SILENT, 1, 0.002, capacity=32, status=status)
    makespan, _ = run_engine(server, limits, 2500, single_calls(calls), in_flight=200)
    answers_per_s, refused = server.used(4.0, makespan - 2.0)
    assert answers_per_s >= 0.9 * 32 / (0.1 * math.exp(SIGMA**2 / 2))
    assert refused <= 0.02


def test_a_server_that_grows_slow_above_32_is_used() -> None:
    calls = [Call(latency) for latency in latencies(2500, 1, 0.1)]
    server = UnsteadyServer(SILENT, 1, 0.002, slow_above=32)
    makespan, _ = run_engine(server, LaneLimits(), 2500, single_calls(calls), in_flight=200)
    answers_per_s, refused = server.used(2.0, makespan - 1.0)
    assert answers_per_s >= 0.9 * 32 / (0.1 * math.exp(SIGMA**2 / 2))
    assert refused == 0


@pytest.mark.parametrize("asks_s", [None, 0.0, 1.0])
@pytest.mark.parametrize("limits", [LaneLimits(), LaneLimits(requests_per_min=600_000, kind="bucket")])
def test_a_storm_of_429_costs_little_more_than_itself(limits: LaneLimits, asks_s: float | None) -> None:
    server = UnsteadyServer(SILENT, 1, 0.002, storms=[(1.0, 11.0)], asks_s=asks_s)
    assert seconds_of_1500_calls(server, limits) <= seconds_without_refusals(limits) + 10 + 3
    assert server.refused < 120


def test_concurrency_that_a_server_refuses_is_found_by_trying() -> None:
    server = Server(replace(SILENT, concurrency=20, retry_after="fraction"), 3)
    calls = [Call(1.0) for _ in range(600)]
    makespan, _ = run_engine(server, LaneLimits(), 600, single_calls(calls), in_flight=64)
    assert server.served == 600
    assert makespan < 2 * 600 / 20
    assert server.refused < 60


def test_an_outage_in_the_middle_costs_little_more_than_itself() -> None:
    calls = [Call(latency) for latency in latencies(1200, 5)]
    server = Server(SILENT, 5, down=[(20.0, 80.0)])
    makespan, _ = run_engine(
        server, LaneLimits(requests_per_min=1200), 1200, single_calls(calls), in_flight=64
    )
    even = replace(SILENT, requests_per_min=1200.0, kind="bucket", window_s=1.0)
    assert server.served == 1200
    assert makespan <= oracle(even, calls, 64) + 60 + 5


def test_an_outage_that_only_the_last_step_meets_is_waited_out_too() -> None:
    server = Server(SILENT, 5, down=[(0.0, 60.0)])
    makespan, _ = run_engine(server, LaneLimits(), 1, single_calls([Call(1.0)]), in_flight=4)
    assert server.served == 1
    assert makespan < 66
