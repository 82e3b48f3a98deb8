"""Slots and permits: shares by demand, and an account used to the full by several workers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from fake_limits import Allowance
from hypothesis import given
from hypothesis import strategies as st
from limiter_world import Network, Provider, Worker, with_limiter
from virtual_time import run_virtual

from cts_async.cluster.limiter import Ask, LaneAsk, Limiter, Slots, fair_shares
from cts_async.engine.lane import LaneLimits
from cts_async.errors import RateLimited


@pytest.mark.parametrize(
    ("demand", "total", "shares"),
    [
        ({"a": 10, "b": 10}, 8, {"a": 4, "b": 4}),
        ({"a": 1, "b": 10}, 8, {"a": 1, "b": 7}),
        ({"a": 1, "b": 2}, 9, {"a": 4, "b": 5}),
        ({"a": 5, "b": 5, "c": 5}, 1, {"a": 0, "b": 0, "c": 1}),
        ({"a": 0, "b": 3}, 2, {"a": 0, "b": 2}),
        ({}, 3, {}),
    ],
)
def test_fair_shares(demand: dict[str, int], total: int, shares: dict[str, int]) -> None:
    assert fair_shares(demand, total) == shares


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 20), min_size=1), st.integers(1, 40))
def test_fair_shares_deal_everything_and_starve_nobody_while_another_has_more(
    demand: dict[str, int], total: int
) -> None:
    shares = fair_shares(demand, total)
    assert sum(shares.values()) == total
    for worker, wanted in demand.items():
        if shares[worker] < wanted:
            assert max(shares.values()) <= shares[worker] + 1


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9), st.integers(0, 2), st.booleans())),
)
def test_workers_never_use_more_slots_than_there_are(
    total: int, steps: Sequence[tuple[str, int, int, bool]]
) -> None:
    """Each has `limits`: the slots of its last answers, oldest first, of which it may not know the newer ones."""
    slots = Slots(total)
    limits: dict[str, list[int]] = {}
    for worker, demand, lag, dies in steps:
        if dies and worker in limits:
            slots.gone(worker)
            del limits[worker]
            slots.deal()
            continue
        known = limits.setdefault(worker, [0])
        del known[: max(0, len(known) - 1 - lag)]  # it has processed all answers but the last `lag`
        slots.hear(worker, known[0], demand, current=len(known) == 1)
        slots.deal()
        if len(known) == 1 or known[-1] != slots.granted[worker]:
            known.append(slots.granted[worker])
        assert sum(max(used) for used in limits.values()) <= total


def test_new_demand_moves_unused_slots() -> None:
    slots = Slots(8)
    slots.hear("a", 0, 2, current=True)
    slots.deal()
    assert slots.granted == {"a": 8}
    slots.hear("b", 0, 5, current=True)
    assert slots.deal() == {"a"}, "b gets them when a has said that it does not use them"
    slots.hear("a", slots.granted["a"], 2, current=True)
    slots.deal()
    assert slots.granted == {"a": 3, "b": 5}


def asked(worker: str, limiter: Limiter, *, limits: LaneLimits, slots: int = 0, demand: int = 1) -> Ask:
    lane = LaneAsk("account", limits, slots, demand, ((0, 0.0),))
    return Ask(worker, 1, "", 0, (lane,))


def test_limiter_that_replaces_another_waits_a_window_and_adopts_slots() -> None:
    limits = LaneLimits(60, max_concurrency=4, kind="sliding", window_s=20.0)

    async def main() -> None:
        limiter = Limiter(fresh=False)
        running = asyncio.create_task(limiter.run())
        grant = await limiter.ask(asked("a", limiter, limits=limits, slots=3))
        assert (grant.lanes[0].slots, grant.lanes[0].permits) == (3, ())
        other = await limiter.ask(asked("b", limiter, limits=limits))
        assert other.lanes[0].slots == 0
        number, permits = 1, ()
        while not permits:
            number += 1
            lane = LaneAsk("account", limits, 3, 1, ((0, 0.0),))
            grant = await limiter.ask(Ask("a", number, limiter.generation, grant.number, (lane,)))
            permits = grant.lanes[0].permits
        assert asyncio.get_running_loop().time() >= 20.0
        running.cancel()

    run_virtual(main)


def shared(
    allowance: Allowance, limits: LaneLimits, *, n: int, workers: int, latency_s: float = 0.5
) -> Provider:
    """`n` requests by several workers at one provider."""
    rng = random.Random(3)
    provider, network = Provider(allowance, lambda: latency_s), Network(rng, (0.001, 0.003))

    async def main() -> None:
        jobs = iter([(i, 0.0) for i in range(n)])

        async def body() -> None:
            team = [Worker(f"w{i}", network, provider, limits) for i in range(workers)]
            await asyncio.gather(*(worker.run(jobs) for worker in team))

        await with_limiter(network, body)

    run_virtual(main)
    assert provider.served == n
    return provider


@pytest.mark.parametrize(
    ("kind", "counts", "longest_s"),
    [("sliding", "sliding", 122.0), ("bucket", "bucket", 64.0), ("paced", "sliding", 124.0)],
)
def test_several_workers_use_a_limit_to_the_full(kind: str, counts: str, longest_s: float) -> None:
    """1,200 requests at 600 a minute: two windows, or a full bucket and one minute."""
    allowance = Allowance(600, kind=counts, headers="none")  # type: ignore[arg-type]
    limits = LaneLimits(600, kind=kind)  # type: ignore[arg-type]
    provider = shared(allowance, limits, n=1_200 if kind != "sliding" else 1_201, workers=4)
    assert provider.refused == 0
    assert provider.last_end <= longest_s


def test_account_without_limits_needs_no_permits_and_uses_all_slots() -> None:
    """1,000 requests of half a second, 20 at once: 25 s and a start."""
    provider = shared(
        Allowance(headers="none"), LaneLimits(max_concurrency=20, kind="paced"), n=1_000, workers=3
    )
    assert provider.most_busy == 20
    assert provider.last_end <= 32.0


def test_pause_that_one_worker_is_told_holds_for_all() -> None:
    limits = LaneLimits(600, kind="sliding")
    provider, network = Provider(Allowance(headers="none"), lambda: 0.1), Network(random.Random(1))

    async def main() -> None:
        async def body() -> None:
            one, other = (Worker(name, network, provider, limits) for name in "ab")
            background = [
                asyncio.create_task(run())
                for worker in (one, other)
                for run in (worker.shared.run, worker.lane.dispatch)
            ]
            permit = await one.lane.admit(0)
            one.lane.failed(permit, RateLimited("slower", retry_after_s=9.0, status=429), "k")
            await asyncio.sleep(0.5)
            began = asyncio.get_running_loop().time()
            await other.lane.admit(1)
            assert asyncio.get_running_loop().time() - began >= 8.0
            for task in background:
                task.cancel()

        await with_limiter(network, body)

    run_virtual(main)
