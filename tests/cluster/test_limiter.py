"""One account for many workers: used to the full, the oldest first, and nobody goes where the provider said no."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from fake_limits import Allowance
from limiter_world import ACCOUNT, Network, Provider, Worker, with_limiter
from virtual_time import run_virtual

from cts_async.engine.lane import LaneLimits


class Played:
    """Jobs done by workers that take them from one stream; what the provider saw, and what the limiter says."""

    def __init__(
        self,
        allowance: Allowance,
        limits: LaneLimits,
        *,
        workers: int,
        jobs: int,
        tokens: Sequence[int] = (),
        median_s: float = 0.8,
        delay_s: tuple[float, float] = (0.001, 0.05),
        creep_s: float = 0.0,
    ) -> None:
        rng = random.Random(7)
        self.provider = Provider(allowance, lambda: median_s * rng.lognormvariate(0.0, 0.6))
        self.network = Network(rng, delay_s)
        self.status: Any = None

        async def main() -> None:
            width = 512 // workers
            team = [Worker(f"w{i}", self.network, self.provider, limits, width) for i in range(workers)]
            stream = iter([(i, float(rng.choice(tokens)) if tokens else 0.0) for i in range(jobs)])

            async def body() -> None:
                await asyncio.gather(*(worker.run(stream) for worker in team))
                assert self.network.limiter
                self.status = self.network.limiter.status()[ACCOUNT]

            await with_limiter(self.network, body)

        run_virtual(main, creep_s)

    def cycle_s(self, n: int) -> float:
        """Seconds, on the average, from a request to the n-th after it, while the flow is under way."""
        sent = self.provider.sent_at
        middle = range(len(sent) // 2, len(sent) * 9 // 10)
        return sum(sent[i] - sent[i - n] for i in middle) / len(middle)


@pytest.mark.parametrize("workers", [1, 16])
@pytest.mark.parametrize(
    ("kind", "counts", "per_min", "window_s", "cycle_s"),
    [
        ("sliding", "sliding", 600, 60.0, 60.4),
        ("sliding", "sliding", 1200, 10.0, 10.4),
        ("bucket", "bucket", 600, 60.0, 1.0),
        ("paced", "per_second", 1200, 60.0, 1.0 / 0.99),
        ("paced", "sliding", 600, 10.0, 1.0 / 0.99),
    ],
)
def test_a_limit_is_used_to_the_full_and_never_exceeded(
    workers: int, kind: Any, counts: Any, per_min: float, window_s: float, cycle_s: float
) -> None:
    """In `cycle_s` one account for itself lets through as many as in one window, or in a second."""
    allowance = Allowance(requests_per_min=per_min, kind=counts, window_s=window_s, headers="none")
    limits = LaneLimits(requests_per_min=per_min, kind=kind, window_s=window_s, max_concurrency=512)
    jobs = 1300 if window_s == 60.0 and kind != "paced" else 500
    played = Played(allowance, limits, workers=workers, jobs=jobs)
    in_cycle = round(per_min * (window_s if cycle_s > 2 else 1.0) / 60.0)
    assert (played.provider.refused, played.provider.served) == (0, jobs)
    assert played.cycle_s(in_cycle) <= cycle_s / 0.99


@pytest.mark.parametrize("workers", [4])
@pytest.mark.parametrize(
    ("kind", "counts"), [("sliding", "sliding"), ("bucket", "bucket"), ("paced", "bucket")]
)
def test_tokens_that_bind_are_used_to_the_full(workers: int, kind: Any, counts: Any) -> None:
    allowance = Allowance(tokens_per_min=300_000, kind=counts, headers="none")
    limits = LaneLimits(tokens_per_min=300_000, kind=kind, max_concurrency=512)
    played = Played(allowance, limits, workers=workers, jobs=700, tokens=(500, 1000, 1500))
    assert (played.provider.refused, played.provider.served) == (0, 700)
    # 300 jobs of 1,000 tokens a minute; a window begins with 300 at once, a bucket too, an even flow with none.
    made_late = {"sliding": 2 * 60.4, "bucket": 80.0, "paced": 140.0 / 0.99}[kind]
    assert played.provider.sent_at[-1] <= 1.04 * made_late + 1.0


@pytest.mark.parametrize("counts", ["sliding", "bucket"])
@pytest.mark.parametrize("workers", [8])
def test_limits_that_only_headers_name_are_learned_for_all(workers: int, counts: Any) -> None:
    allowance = Allowance(requests_per_min=300, kind=counts, headers="openai")
    played = Played(allowance, LaneLimits(), workers=workers, jobs=500)
    assert played.provider.refused <= 2, "the probe that tells how the server counts"
    assert played.status["requests_per_min"] == 300.0


def test_a_refusal_holds_back_all_workers() -> None:
    """60 a minute are allowed, and nobody says so: the first refusal says for how long to wait."""
    allowance = Allowance(requests_per_min=60, headers="none", retry_after="fraction")
    played = Played(allowance, LaneLimits(), workers=4, jobs=200)
    assert played.provider.served == 200
    # 60 in each window; in each of the three that are full some are refused, but the others wait with them.
    assert played.provider.refused <= 3 * 40
    assert played.status["refused"] == played.provider.refused


def test_without_known_rates_a_request_costs_no_message() -> None:
    allowance = Allowance(headers="none")
    played = Played(allowance, LaneLimits(max_concurrency=64), workers=2, jobs=1000)
    assert played.provider.served == 1000
    seconds = played.provider.last_end
    assert played.network.asks <= 2 * (16 + 4 * seconds)


def test_places_go_to_those_that_lack_some_and_all_are_used() -> None:
    allowance = Allowance(concurrency=20, headers="none")
    limits = LaneLimits(requests_per_min=1e6, kind="sliding", max_concurrency=20)
    played = Played(allowance, limits, workers=4, jobs=400)
    assert (played.provider.refused, played.provider.most_busy) == (0, 20)


def test_fewer_places_than_workers_go_round() -> None:
    allowance = Allowance(concurrency=2, headers="none")
    limits = LaneLimits(requests_per_min=1e6, kind="sliding", max_concurrency=2)
    played = Played(allowance, limits, workers=5, jobs=60)
    assert (played.provider.served, played.provider.refused, played.provider.most_busy) == (60, 0, 2)


def test_what_was_given_was_used_or_came_back() -> None:
    allowance = Allowance(requests_per_min=600, kind="bucket", headers="none")
    limits = LaneLimits(requests_per_min=600, kind="bucket", max_concurrency=512)
    status = Played(allowance, limits, workers=8, jobs=900).status
    assert status["used"] == 900
    assert status["given"] == status["used"] + status["returned"] + status["forgotten"]


@pytest.mark.parametrize("kind", ["paced", "sliding", "bucket", "auto"])
def test_limits_that_do_not_bind_cost_a_worker_few_messages(kind: Any) -> None:
    """Two workers with 128 places between them, and answers after 10 ms: 12,800 a second at best."""
    allowance = Allowance(headers="none")
    limits = LaneLimits(6e7, 6e11, max_concurrency=128, kind=kind)
    played = Played(
        allowance, limits, workers=2, jobs=12_800, tokens=(700,), median_s=0.01, delay_s=(0.0005, 0.001)
    )
    assert played.provider.served == 12_800
    assert played.network.asks <= 250
    status = played.status
    assert status["given"] == status["used"] + status["returned"] + status["forgotten"]


@pytest.mark.parametrize("creep_s", [1e-5, 1e-4, 2e-4])
@pytest.mark.parametrize("kind", ["paced", "sliding", "bucket", "auto"])
def test_a_permit_that_ends_between_two_looks_at_the_clock_is_used(kind: Any, creep_s: float) -> None:
    """First it is seen that something may go, then it goes: the time may be over by then."""
    limits = LaneLimits(6e7, 6e11, max_concurrency=128, kind=kind)
    played = Played(
        Allowance(headers="none"), limits, workers=2, jobs=4000, tokens=(700,), median_s=0.01,
        delay_s=(0.0005, 0.001), creep_s=creep_s,
    )  # fmt: skip
    assert (played.provider.served, played.provider.refused) == (4000, 0)


@pytest.mark.parametrize("workers", [8])
@pytest.mark.parametrize(
    ("kind", "counts"),
    [("sliding", "sliding"), ("bucket", "bucket"), ("auto", "sliding"), ("auto", "bucket")],
)
def test_workers_that_are_faster_than_their_limit_keep_to_it(workers: int, kind: Any, counts: Any) -> None:
    """1,000 in a window of 10 s, by workers that could send ten times as many: nothing ahead breaks it."""
    allowance = Allowance(
        requests_per_min=6000, tokens_per_min=6e6, kind=counts, window_s=10.0, headers="none"
    )
    limits = LaneLimits(6000, 6e6, max_concurrency=256, kind=kind, window_s=10.0)
    played = Played(
        allowance, limits, workers=workers, jobs=3000, tokens=(500, 1000, 1200), median_s=0.2,
        delay_s=(0.001, 0.01),
    )  # fmt: skip
    # A window that was found out is doubted again after a quarter of it, a half, one, two, ...: by requests and tokens.
    assert (played.provider.refused <= (8 if kind == "auto" else 0), played.provider.served) == (True, 3000)
    best_s = {"sliding": 2 * 10.4, "bucket": 20.0}[counts]
    # The last of a window go as late in it as they did in the one before: what comes in 1.7 s is not at once.
    # A permit that its worker has no use for at the very end goes to another after half a second.
    assert played.provider.sent_at[-1] <= 1.01 * best_s + 2.5
