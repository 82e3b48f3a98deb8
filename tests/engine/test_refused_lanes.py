"""A provider that refuses everybody for its limits, however it spells that: an outage, and nobody's failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from virtual_time import run_virtual

from cts_async.engine.journal import Journal
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import ProviderDown, RateLimited, StepError

UNKNOWN, PACED = LaneLimits(), LaneLimits(requests_per_min=600)
Refuses = Callable[[int, float], bool]
"""Whether a job's request is refused at a time."""


@dataclass
class Ended:
    """How a run went: jobs done and failed in order of their ends, requests sent, seconds it took."""

    done: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    stopped: str = ""
    took_s: float = 0.0


def run(folder: Path, limits: LaneLimits, asks_s: float | None, refuses: Refuses, jobs: int = 40) -> Ended:
    """`jobs` of one step each, 16 at a time; an answer takes half a second, a refusal a twentieth."""
    ended = Ended()

    def job(i: int, journal: Journal, lane: Lane) -> Job:
        async def execute(_: object) -> Executed:
            ended.sent.append(i)
            await asyncio.sleep(0.05)
            if refuses(i, asyncio.get_running_loop().time()):
                raise RateLimited("slower, please", retry_after_s=asks_s, status=429)
            await asyncio.sleep(0.45)
            return Executed({"text": ""})

        async def walk(ctx: Context) -> Any:
            return await ctx.step(Step("ask", step_key(i), execute, lambda response: response, lane=lane))

        async def finish(result: Any) -> None:
            (ended.failed if isinstance(result, StepError) else ended.done).append(i)

        return Job("run", str(i), journal, walk, finish)

    async def main() -> None:
        lane, journal = Lane("x", limits), Journal(folder / "steps.jsonl")
        try:
            await Runner([lane], in_flight=16).run(job(i, journal, lane) for i in range(jobs))
        except ProviderDown as down:
            ended.stopped = str(down)
        ended.took_s = asyncio.get_running_loop().time()

    run_virtual(main)
    return ended


@pytest.mark.parametrize("limits", [UNKNOWN, PACED])
@pytest.mark.parametrize("asks_s", [0.0, 1.0, None, 20.0])
def test_ten_minutes_of_refusals_cost_no_instance(
    tmp_path: Path, limits: LaneLimits, asks_s: float | None
) -> None:
    ended = run(tmp_path, limits, asks_s, lambda _, now: now < 600)
    assert (sorted(ended.done), ended.failed, ended.stopped) == (list(range(40)), [], "")
    # Pauses grow to 15 s where the provider asks for less, to 60 s where it says nothing.
    assert len(ended.sent) < 40 + 75
    assert ended.took_s < 600 + 120


@pytest.mark.parametrize("limits", [UNKNOWN, PACED])
@pytest.mark.parametrize("asks_s", [0.0, 1.0, None, 20.0])
def test_refusals_that_outlast_an_outage_stop_the_run_and_fail_nobody(
    tmp_path: Path, limits: LaneLimits, asks_s: float | None
) -> None:
    ended = run(tmp_path, limits, asks_s, lambda _, now: True)
    assert (ended.done, ended.failed) == ([], [])
    assert "x has refused all requests for 9" in ended.stopped
    assert "(slower, please); completed work is saved, the same command resumes" in ended.stopped
    assert 900 < ended.took_s <= 960


def test_what_a_provider_asks_for_is_enough_while_it_serves_somebody(tmp_path: Path) -> None:
    ended = run(tmp_path, UNKNOWN, 1.0, lambda _, now: now % 10 < 1)
    # 40 answers of half a second, at least 8 at a time, and a second's pause now and then.
    assert ended.failed == []
    assert ended.took_s < 20


@pytest.mark.parametrize("asks_s", [1.0, None])
def test_a_request_that_is_always_refused_lets_the_others_go_first(
    tmp_path: Path, asks_s: float | None
) -> None:
    ended = run(tmp_path, PACED, asks_s, lambda i, _: i == 0)
    assert (sorted(ended.done), ended.failed) == (list(range(1, 40)), [0])
    assert ended.sent.count(0) == 41  # the first time, and 40 retries
    # All others are done before it is given up; it was their elder all the time.
    last_of_others = len(ended.sent) - 1 - next(k for k, i in enumerate(reversed(ended.sent)) if i)
    assert ended.sent[: last_of_others + 1].count(0) < 20


def test_many_that_are_always_refused_do_not_keep_the_others_from_their_turn(tmp_path: Path) -> None:
    ended = run(tmp_path, PACED, None, lambda i, _: i < 6)
    assert sorted(ended.done) == list(range(6, 40))
    assert ended.failed == []
    assert "refused all requests" in ended.stopped
