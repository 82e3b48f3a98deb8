"""What a lane says of itself to whoever looks on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from virtual_time import run_virtual

from cts_async.engine.events import Event, Events, LaneInUse, LaneStatus
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.ratelimit import LimitKind
from cts_async.errors import Interrupted, ProviderRefused, RateLimited, TransientError


def told(lane_use: Callable[[Lane], Awaitable[None]], limits: LaneLimits) -> LaneStatus:
    """What a lane says after `lane_use`, asked by the clock of its loop."""

    async def main() -> LaneStatus:
        lane = Lane("gpt", limits)
        async with asyncio.TaskGroup() as tasks:
            dispatcher = tasks.create_task(lane.dispatch())
            await asyncio.sleep(0)
            await lane_use(lane)
            status = lane.status(asyncio.get_running_loop().time())
            dispatcher.cancel()
        return status

    return run_virtual(main)


def test_it_counts_who_is_under_way_and_who_waits() -> None:
    async def use(lane: Lane) -> None:
        first, _ = await lane.admit(0, 100), await lane.admit(1, 100)
        third = asyncio.ensure_future(lane.admit(2, 100))
        lane.succeeded(first, 80.0)
        await third
        waiting = asyncio.ensure_future(lane.admit(3, 100))
        await asyncio.sleep(0)
        lane.stop(Interrupted("Ctrl-C"))
        with pytest.raises(Interrupted):
            await waiting

    status = told(use, LaneLimits(max_concurrency=2, requests_per_min=600, kind="sliding"))
    assert (status.in_flight, status.places, status.waiting) == (2, 2, 0)
    assert (status.sent, status.tokens) == (3, 80.0)
    # Who interrupted the run was no provider that is gone.
    assert (status.gone, status.reason, status.probe_s, status.paused_s) == (False, "", None, 0.0)


def test_with_its_first_request_a_lane_says_how_it_can_be_asked() -> None:
    async def main() -> list[Event]:
        heard: list[Event] = []
        lane = Lane("gpt", LaneLimits(), Events(heard.append))
        for n in range(3):
            await lane.admit(n)
        return heard

    (in_use,) = run_virtual(main)
    assert isinstance(in_use, LaneInUse)
    assert (in_use.lane, in_use.ask().sent, in_use.ask().in_flight) == ("gpt", 3, 3)


def test_refusals_are_counted_and_their_pause_runs_down() -> None:
    async def use(lane: Lane) -> None:
        lane.failed(await lane.admit(0), RateLimited("slower", retry_after_s=30.0), "step")
        await asyncio.sleep(10.0)

    status = told(use, LaneLimits())
    assert status.answers_429 == 1
    assert status.paused_s == pytest.approx(20.0)


def test_even_flow_goes_on_at_95_percent_after_a_refusal() -> None:
    async def use(lane: Lane) -> None:
        lane.failed(await lane.admit(0), RateLimited("slower", retry_after_s=30.0), "step")

    assert told(use, LaneLimits(requests_per_min=600)).requests_per_min == pytest.approx(570.0)


def test_an_outage_says_when_the_next_look_is_and_what_began_it() -> None:
    async def use(lane: Lane) -> None:
        for n in range(5):
            permit = await lane.admit(n)
            lane.failed(permit, TransientError("HTTP 503", status=503), f"step {n}")

    status = told(use, LaneLimits())
    assert status.probe_s == pytest.approx(1.0)
    assert (status.reason, status.gone) == ("HTTP 503", False)


def test_a_provider_that_is_gone_has_no_next_look() -> None:
    async def use(lane: Lane) -> None:
        lane.stop(ProviderRefused("HTTP 401"))

    status = told(use, LaneLimits())
    assert (status.gone, status.reason, status.probe_s) == (True, "HTTP 401", None)


@pytest.mark.parametrize("kind", ["paced", "sliding", "bucket", "auto"])
def test_what_is_allowed_reads_as_it_was_configured(kind: LimitKind) -> None:
    async def use(lane: Lane) -> None:
        return

    status = told(use, LaneLimits(requests_per_min=600, tokens_per_min=90_000, kind=kind, window_s=10.0))
    assert (status.requests_per_min, status.tokens_per_min) == pytest.approx((600.0, 90_000.0))
    nothing = told(use, LaneLimits())
    assert (nothing.requests_per_min, nothing.tokens_per_min) == (None, None)
