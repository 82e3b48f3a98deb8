"""Whatever is late, lost or dead: a strict server never sees more than the limit, and who lives is served in the end."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from fake_limits import Allowance
from hypothesis import given, settings
from hypothesis import strategies as st
from limiter_world import Network, Provider, Worker
from virtual_time import run_virtual

from cts_async.cluster.limiter import Limiter
from cts_async.engine.lane import LaneLimits

PATIENCE_S = 5_000.0


@dataclass(frozen=True)
class Fates:
    """What happens to whom, and when: seconds."""

    kills: list[float]
    """Of workers, the first of them first."""
    limiter_dies: list[float]
    back_after_s: float
    known_after_s: float
    """How long the head takes to find out that a worker is dead."""


fates = st.builds(
    Fates,
    kills=st.lists(st.floats(0, 90), max_size=3),
    limiter_dies=st.lists(st.floats(0, 90), max_size=2),
    back_after_s=st.floats(0.1, 15),
    known_after_s=st.floats(0, 20),
)


class Cluster:
    """Workers and a limiter, as a head looks after them."""

    def __init__(self, network: Network, fates: Fates, workers: list[Worker]) -> None:
        self.network, self.fates = network, fates
        self.workers = {worker.name: worker for worker in workers}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.known_dead: dict[str, float] = {}
        self.limiting: asyncio.Task[None] | None = None

    async def run(self, jobs: list[tuple[int, float]]) -> None:
        self._start(fresh=True)
        stream = iter(jobs)
        for worker in self.workers.values():
            self.tasks[worker.name] = asyncio.create_task(worker.run(stream))
        trouble = [
            asyncio.create_task(self._kill(at, name))
            for at, name in zip(self.fates.kills, self.tasks, strict=False)
        ]
        trouble += [asyncio.create_task(self._lose_limiter(at)) for at in self.fates.limiter_dies]
        ends = await asyncio.wait_for(
            asyncio.gather(*self.tasks.values(), return_exceptions=True), PATIENCE_S
        )
        for task in [*trouble, self.limiting]:
            if task:
                task.cancel()
        await asyncio.gather(*trouble, return_exceptions=True)
        assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends), ends

    def _start(self, *, fresh: bool) -> None:
        self.network.limiter = Limiter(fresh=fresh)
        self.limiting = asyncio.create_task(self.network.limiter.run())

    async def _kill(self, at: float, name: str) -> None:
        await asyncio.sleep(at)
        self.network.cut_off.add(name)
        self.tasks[name].cancel()
        await asyncio.sleep(self.fates.known_after_s)
        self.known_dead[name] = asyncio.get_running_loop().time()
        if self.network.limiter:
            self.network.limiter.gone(name)

    async def _lose_limiter(self, at: float) -> None:
        await asyncio.sleep(at)
        if self.limiting is None or self.network.limiter is None:
            return
        self.network.limiter = None
        self.limiting.cancel()
        await asyncio.sleep(self.fates.back_after_s)
        self._start(fresh=False)


def played(
    allowance: Allowance,
    limits: LaneLimits,
    fates: Fates,
    *,
    workers: int,
    jobs: int,
    loss: float,
    seed: int,
    width: int = 8,
    median_s: float = 1.0,
) -> tuple[Provider, list[Worker]]:
    rng = random.Random(seed)
    provider = Provider(allowance, lambda: median_s * rng.lognormvariate(0.0, 1.0))

    async def main() -> list[Worker]:
        network = Network(rng, loss=loss)
        team = [Worker(f"w{i}", network, provider, limits, width) for i in range(workers)]
        await Cluster(network, fates, team).run([(i, float(rng.randint(1, 60))) for i in range(jobs)])
        return team

    return provider, run_virtual(main)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["sliding", "bucket", "paced"]),
    st.sampled_from([6, 20, 60]),
    st.sampled_from([10.0, 60.0]),
    st.none() | st.just(300.0),
    st.integers(1, 5),
    fates,
    st.sampled_from([0.0, 0.0, 0.05, 0.3]),
    st.integers(0, 999),
)
def test_no_window_ever_holds_more_than_the_limit(
    kind: Any,
    per_window: int,
    window_s: float,
    tokens: float | None,
    workers: int,
    fates: Fates,
    loss: float,
    seed: int,
) -> None:
    per_min = per_window * 60.0 / window_s
    tokens_per_min = tokens and tokens * 60.0 / window_s
    counts: Any = "sliding" if kind == "paced" else kind
    if kind == "paced":
        tokens_per_min = None  # paced in grains of 500, more than the window here would hold
    allowance = Allowance(
        per_min, tokens_per_min, concurrency=12, kind=counts, window_s=window_s, headers="none"
    )
    limits = LaneLimits(per_min, tokens_per_min, max_concurrency=12, kind=kind, window_s=window_s)
    provider, team = played(allowance, limits, fates, workers=workers, jobs=60, loss=loss, seed=seed)
    assert provider.refused == 0
    assert provider.most_busy <= 12
    if len(fates.kills) < workers:
        assert provider.served == sum(worker.done for worker in team)


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["sliding", "bucket"]),
    st.sampled_from([200, 1000]),
    st.none() | st.just(12_000.0),
    st.integers(1, 4),
    fates,
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 999),
)
def test_nor_where_most_is_let_out_ahead(
    kind: Any, per_window: int, tokens: float | None, workers: int, fates: Fates, loss: float, seed: int
) -> None:
    """Workers that could send thousands a second, and a window of 20 s that is full after the first."""
    allowance = Allowance(3 * per_window, tokens and 3 * tokens, kind=kind, window_s=20.0, headers="none")
    limits = LaneLimits(3 * per_window, tokens and 3 * tokens, 200, kind, window_s=20.0)
    provider, team = played(
        allowance, limits, fates, workers=workers, jobs=900, loss=loss, seed=seed, width=40, median_s=0.02
    )
    assert provider.refused == 0
    if len(fates.kills) < workers:
        assert provider.served == sum(worker.done for worker in team)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(1, 6), fates, st.sampled_from([0.0, 0.1]), st.integers(0, 999))
def test_no_more_is_under_way_than_there_are_places(
    places: int, workers: int, fates: Fates, loss: float, seed: int
) -> None:
    allowance = Allowance(concurrency=places, headers="none")
    limits = LaneLimits(max_concurrency=places)
    provider, team = played(allowance, limits, fates, workers=workers, jobs=80, loss=loss, seed=seed)
    assert provider.refused == 0
    assert provider.most_busy <= places
    if len(fates.kills) < workers:
        assert sum(worker.done for worker in team) >= 80 - 8 * len(fates.kills)


def test_limits_learned_from_headers_are_learned_again_after_the_limiter_is_lost() -> None:
    """300 a minute, which only answers say: with each limiter one probe finds out how the server counts."""
    allowance = Allowance(requests_per_min=300, headers="openai")
    trouble = Fates([30.0], limiter_dies=[20.0, 70.0], back_after_s=2.0, known_after_s=3.0)
    provider, team = played(allowance, LaneLimits(), trouble, workers=4, jobs=500, loss=0.0, seed=5)
    assert provider.refused <= 3
    assert provider.served == sum(worker.done for worker in team) >= 500 - 8


def test_a_worker_whose_death_is_told_before_the_roster_is_not_forgotten() -> None:
    """The first of two dies, then the limiter; the next one hears of the dead before it hears of all who there were."""
    allowance = Allowance(600, kind="sliding", window_s=20.0, headers="none")
    limits = LaneLimits(600, kind="sliding", window_s=20.0)
    trouble = Fates([21.0, 60.0], limiter_dies=[22.9], back_after_s=4.1, known_after_s=6.8)
    provider, _ = played(
        allowance, limits, trouble, workers=2, jobs=900, loss=0.0, seed=1, width=40, median_s=0.02
    )
    assert provider.refused == 0
    # Nobody is served before all that the dead worker may have sent has left the window.
    assert [at for at in provider.sent_at if 28.0 < at < 47.0] == []
