"""Limits hold for all workers together, whoever is late or lost, and are used to the full."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from fake_limits import Allowance, ServerLimits
from hypothesis import given, settings
from hypothesis import strategies as st
from small_cluster import MOST, PRICES, Cluster, Killer, World
from virtual_time import in_virtual_time, run_virtual

from cts_async.cluster import head as heads
from cts_async.cluster import worker as workers
from cts_async.cluster.limits import (
    Failure,
    Grant,
    Limits,
    PermitRequests,
    RemoteAccount,
    RemoteLane,
    Reports,
    Requests,
    Reserve,
    Terms,
    WorkerShare,
)
from cts_async.config import BudgetConfig
from cts_async.engine.budget import NOTHING, Budget, BudgetLimits
from cts_async.engine.events import BudgetUsed, CircuitChanged, Cost, Events, LaneInUse, LimitLearned
from cts_async.engine.lane import LaneLimits
from cts_async.errors import BudgetSpent, NoFreeDescriptor, ProviderDown, RateLimited, TransientError

STEPS_EACH = 4
DEATHS = st.lists(st.tuples(st.floats(0, 30), st.integers(0, 7)), max_size=4)
DELAYS = st.sampled_from([0.0, 0.01, 0.1, 0.4])


@pytest.fixture(autouse=True)
def patient_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "MAX_LOST", 99)
    monkeypatch.setattr(workers, "TURN_S", 1.0)  # turns without updates cost these tests most of their time


def cluster_at(folder: object, allowance: Allowance, limits: LaneLimits, **fields: Any) -> Cluster:
    return Cluster(Path(str(folder)), World(server=ServerLimits(allowance)), limits=limits, **fields)


class Hangs(Killer):
    """Has workers hang in place of killing them: the head does not hear of them any more, and they go on."""

    async def __call__(self, head: object) -> None:
        for at, which in sorted(self.times):
            await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
            link = self.cluster.links[which % len(self.cluster.links)]
            link.hangs = True


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["sliding", "bucket", "paced"]),
    per_window=st.sampled_from([6, 20, 60]),
    window_s=st.sampled_from([10.0, 60.0]),
    tokens=st.none() | st.just(300.0),
    places=st.integers(1, 12),
    n_workers=st.integers(1, 4),
    deaths=DEATHS,
    hang=st.booleans(),
    delay_s=DELAYS,
    seed=st.integers(0, 99),
)
def test_rate_and_concurrency_limits_are_never_exceeded(
    kind: Any,
    per_window: int,
    window_s: float,
    tokens: float | None,
    places: int,
    n_workers: int,
    deaths: Sequence[tuple[float, int]],
    hang: bool,
    delay_s: float,
    seed: int,
) -> None:
    per_min = per_window * 60.0 / window_s
    tokens_per_min = tokens and tokens * 60.0 / window_s
    if kind == "paced":
        tokens_per_min, delay_s = None, min(delay_s, 0.02)  # paced permits are valid for 80 ms
    counts: Any = "sliding" if kind == "paced" else kind
    limits = LaneLimits(per_min, tokens_per_min, max_concurrency=places, kind=kind, window_s=window_s)
    allowance = Allowance(
        per_min, tokens_per_min, concurrency=places, kind=counts, window_s=window_s, headers="none"
    )
    with tempfile.TemporaryDirectory() as folder:
        cluster = cluster_at(folder, allowance, limits, n=8, delay_s=delay_s, seed=seed)
        trouble = (Hangs if hang else Killer)(cluster, deaths)
        run_virtual(lambda: cluster.run(n_workers, trouble))
        assert len(cluster.results()) == 8
    assert cluster.world.refused == 0
    assert cluster.world.most_at_once <= places


@given(
    max_calls=st.none() | st.integers(0, 60),
    max_tokens=st.none() | st.integers(0, 1500),
    max_usd=st.none() | st.floats(0, 0.15),
    n_workers=st.integers(1, 4),
    deaths=DEATHS,
    hang=st.booleans(),
    delay_s=DELAYS,
)
def test_budget_is_never_exceeded_and_used_up_to_one_call(
    max_calls: int | None,
    max_tokens: int | None,
    max_usd: float | None,
    n_workers: int,
    deaths: Sequence[tuple[float, int]],
    hang: bool,
    delay_s: float,
) -> None:
    limits = BudgetLimits(max_calls, max_tokens, max_usd)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), n=12, delay_s=delay_s)
        cluster.budget = BudgetConfig(max_usd=max_usd, max_tokens=max_tokens, max_calls=max_calls)
        trouble = (Hangs if hang else Killer)(cluster, deaths)
        spent_all = False
        try:
            run_virtual(lambda: cluster.run(n_workers, trouble))
        except BudgetSpent:
            spent_all = True
        used = [event.spent for event in cluster.events if isinstance(event, BudgetUsed)]
    world = cluster.world
    assert limits.exceeded(world.spent) is None
    if spent_all and not deaths:
        assert limits.exceeded(world.spent + Cost(1, MOST.total, PRICES.usd(MOST)))
        assert used == [] or used[-1].tokens == world.spent.tokens
    elif not spent_all:
        assert world.done.total() >= 12 * STEPS_EACH


@pytest.mark.parametrize(
    ("kind", "counts", "urgent_per_s"),
    [
        ("sliding", "sliding", 1000),
        ("bucket", "bucket", 1000),
        ("paced", "sliding", 1000),
        ("paced", "sliding", 20),  # as if there were 200 workers
    ],
)
def test_rate_limit_is_used_to_the_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, counts: Any, urgent_per_s: float
) -> None:
    """1,200 requests at 600 a minute: two windows, or a full bucket and one minute; 600 where they are paced."""
    monkeypatch.setattr(workers, "BATCHES_PER_S", urgent_per_s)
    allowance = Allowance(600, kind=counts, headers="none")
    n = 150 if kind == "paced" else 300
    cluster = cluster_at(tmp_path, allowance, LaneLimits(600, kind=kind, max_concurrency=256), n=n, width=40)
    run_virtual(lambda: cluster.run(4))
    assert cluster.world.refused == 0
    assert cluster.world.sent_at[-1] <= 66.0


def test_concurrency_limit_is_used_to_the_full(tmp_path: Path) -> None:
    """1,000 requests of half a second, 20 at once: 25 s and a start."""
    cluster = cluster_at(
        tmp_path, Allowance(concurrency=20, headers="none"), LaneLimits(max_concurrency=20), n=250, width=20
    )
    run_virtual(lambda: cluster.run(3))
    assert (cluster.world.refused, cluster.world.most_at_once) == (0, 20)
    assert cluster.world.sent_at[-1] <= 29.0


def test_slots_of_a_silent_worker_are_free_after_a_minute(tmp_path: Path) -> None:
    """Those of a killed one at once."""
    cluster = cluster_at(tmp_path, Allowance(headers="none"), LaneLimits(max_concurrency=8), n=60)
    cluster.world.seconds = 20.0

    async def harm(head: object) -> None:
        await asyncio.sleep(5.0)
        cluster.links[0].hangs = True
        cluster.links[1].kill()
        await asyncio.sleep(10.0)
        assert cluster.links[2].under_way == 4
        await asyncio.sleep(70.0)
        assert cluster.world.server.in_flight == 4
        await asyncio.sleep(10.0)
        assert cluster.world.server.in_flight == 8

    run_virtual(lambda: cluster.run(2, harm))
    assert len(cluster.results()) == 60


def test_limits_learned_from_headers_hold_for_all_workers(tmp_path: Path) -> None:
    """300 a minute, which only answers say: one probe finds out how the server counts."""
    allowance = Allowance(requests_per_min=300, headers="openai")
    cluster = cluster_at(tmp_path, allowance, LaneLimits(), n=125, width=16)
    run_virtual(lambda: cluster.run(4))
    assert len(cluster.results()) == 125
    assert cluster.world.refused <= 3
    learned = [event for event in cluster.events if isinstance(event, LimitLearned)]
    assert [(event.unit, event.per_min) for event in learned] == [("requests", 300)]
    assert len([event for event in cluster.events if isinstance(event, LaneInUse)]) == 1


def test_outage_holds_for_all_workers_and_costs_no_retry(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, n=40)

    def down(label: str, n: int) -> None:
        if 3.0 < asyncio.get_running_loop().time() < 300.0:
            raise TransientError("503", status=503)

    cluster.world.act = down
    run_virtual(lambda: cluster.run(3))
    assert len(cluster.results()) == 40
    assert not any(b"error" in line for line in cluster.results())
    changes = [event.open for event in cluster.events if isinstance(event, CircuitChanged)]
    assert changes == [True, False]


@in_virtual_time
async def test_only_an_answer_ends_an_outage() -> None:
    """Until then permits say that a failure costs no retry; what else a worker reports does not change that."""
    granted: list[tuple[Sequence[int], Terms]] = []
    async with anyio.create_task_group() as background:
        limits = Limits(None, Events(), background, lambda reason: None)
        limits.open([RemoteAccount("a", "gpt", LaneLimits(max_concurrency=64))])
        share = WorkerShare(limits, lambda number, answer: None, lambda *grant: granted.append(grant))
        now = asyncio.get_running_loop().time()
        numbers = list(range(1, 8))
        keys = [f"k{number}" for number in numbers]
        share.admit("a", PermitRequests(numbers, numbers, [0.0] * 7, keys, [0.0] * 7), now)
        error = TransientError("no connection", unsent=True)
        failed = {number: Failure(0.01, error, f"k{number}") for number in numbers[:5]}
        share.report("a", Reports(failed=failed), now)
        share.report("a", Reports(used={6: 0.01}), now)
        await asyncio.sleep(60.0)
        now = asyncio.get_running_loop().time()
        share.admit("a", PermitRequests([8], [8], [0.0], ["k8"], [0.0]), now)
        await asyncio.sleep(1.0)
        assert [(list(numbers), in_outage) for numbers, (_, _, in_outage, _) in granted[-1:]] == [([8], True)]
        share.report("a", Reports(served=[8], served_used_s=[0.01], tokens=[None]), now)
        share.admit("a", PermitRequests([9], [9], [0.0], ["k9"], [0.0]), now)
        assert granted[-1][1][2] is False
        background.cancel_scope.cancel()


@in_virtual_time
async def test_want_of_descriptors_costs_no_retry_while_others_are_in_flight_in_the_worker() -> None:
    requests = Requests(lambda: None)
    lane = RemoteLane(RemoteAccount("a", "gpt", LaneLimits()), requests)
    admitting = [asyncio.ensure_future(lane.admit(seq)) for seq in range(2)]
    await asyncio.sleep(0)
    requests.answer({}, [Grant(0.0, 0.5, False, False, [1, 2])], asyncio.get_running_loop().time())
    first, second = await asyncio.gather(*admitting)
    error = NoFreeDescriptor("too many open files")
    assert lane.failed(first, error, "k1") is True
    assert lane.failed(second, error, "k2") is False


def test_outage_that_lasts_too_long_stops_the_run(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, n=40, limits=LaneLimits(max_outage_s=60.0))

    def down(label: str, n: int) -> None:
        if asyncio.get_running_loop().time() > 3.0:
            raise TransientError("503", status=503)

    cluster.world.act = down
    with pytest.raises(ProviderDown, match="has been down for 6. s"):
        run_virtual(lambda: cluster.run(3))
    assert 0 < len(cluster.results()) < 40


# --- What a worker has of the limits

ACTS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(
        ["admit", "admit", "use", "serve", "fail", "lose_track", "withdraw", "reserve", "settle", "wait"]
    ),
    st.integers(0, 9),
)


class TwoShares:
    """Two workers' shares of one account and one budget, and what they were granted and have not given back."""

    def __init__(self, limits: LaneLimits, background: anyio.abc.TaskGroup) -> None:
        self.budget = Budget(BudgetLimits(max_calls=12))
        self.limits = Limits(self.budget, Events(), background, lambda reason: None)
        self.limits.open([RemoteAccount("a", "gpt", limits)])
        self.lane = self.limits.lanes["a"]
        self.granted: list[set[int]] = [set(), set()]
        self.reserved: list[set[int]] = [set(), set()]
        self.asked: list[list[int]] = [[], []]
        self.answered = Counter[int]()
        self.shares = [
            WorkerShare(self.limits, partial(self._answer, i), partial(self._grant, i)) for i in (0, 1)
        ]
        self._numbers = count(1)

    def _answer(self, worker: int, number: int, answer: object) -> None:
        assert answer is None, "nothing stops the account here"
        self.answered[number] += 1
        self.reserved[worker].add(number)

    def _grant(self, worker: int, numbers: Sequence[int], terms: Terms) -> None:
        self.answered.update(numbers)
        self.granted[worker] |= set(numbers)

    def act(self, worker: int, act: str, n: int) -> None:
        """Do something with the `n` oldest permits, or with one number."""
        share, now = self.shares[worker], asyncio.get_running_loop().time()
        numbers = sorted(self.granted[worker])[:n]
        match act:
            case "admit":
                new = [next(self._numbers) for _ in range(n)]
                self.asked[worker] += new
                keys = [f"k{number}" for number in new]
                share.admit("a", PermitRequests(new, new, [5.0] * n, keys, [9.0] * n), now)
            case "use":
                share.report("a", Reports(used=dict.fromkeys(numbers, 0.1)), now)
            case "serve":
                tokens: list[float | None] = [None, 3.0, 30.0, *[4.0] * n]
                served = Reports(
                    served=numbers, served_used_s=[0.1] * len(numbers), tokens=tokens[: len(numbers)]
                )
                share.report("a", served, now)
                self.granted[worker] -= set(numbers)
            case "fail" | "lose_track":
                error = RateLimited("429", status=429) if act == "fail" else None
                share.report(
                    "a", Reports(failed={number: Failure(0.1, error, "k") for number in numbers}), now
                )
                self.granted[worker] -= set(numbers)
            case "withdraw":
                for number in self.asked[worker][-n:]:
                    share.withdraw(number)
                    self.granted[worker].discard(number)
                    self.reserved[worker].discard(number)
            case "reserve":
                number = next(self._numbers)
                self.asked[worker].append(number)
                share.reserve(number, Reserve(number, Cost(1)))
            case "settle":
                for number in sorted(self.reserved[worker])[:n]:
                    share.settle(number, NOTHING)
                    self.reserved[worker].discard(number)


@settings(deadline=None)
@given(
    limits=st.sampled_from(
        [
            LaneLimits(max_concurrency=5),
            LaneLimits(max_concurrency=40),
            LaneLimits(200, 900, max_concurrency=6, kind="sliding"),
            LaneLimits(200, 900, max_concurrency=6, kind="auto"),
            LaneLimits(600, max_concurrency=6, kind="paced"),
        ]
    ),
    acts=st.lists(ACTS, max_size=40),
)
def test_every_permit_and_reservation_comes_back_once(
    limits: LaneLimits, acts: Sequence[tuple[int, str, int]]
) -> None:
    """Whatever workers report, withdraw at any moment, or take with them when they are lost."""

    async def main() -> None:
        async with anyio.create_task_group() as background:
            world = TwoShares(limits, background)
            for worker, act, n in acts:
                if act == "wait":
                    await asyncio.sleep(n / 2)
                    assert world.lane.in_flight == sum(map(len, world.granted)) <= limits.max_concurrency
                    assert world.budget.in_flight == sum(map(len, world.reserved))
                else:
                    world.act(worker, act, n)
            for share in world.shares:
                share.lose()
                share.free()
            await asyncio.sleep(0)
            assert max(world.answered.values(), default=0) <= 1, "a request is answered once"
            assert (world.lane.in_flight, world.lane.waiting, world.budget.in_flight) == (0, 0, 0)
            background.cancel_scope.cancel()

    run_virtual(main)
