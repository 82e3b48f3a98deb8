"""Where the cost of `cts judge` on our own side goes, by room and library: CPU, sampled, and function calls, counted.

The us per candidate are of one run. The calls are those of one more candidate: the difference of two sizes, start-up
taken out. They hardly depend on the machine and what else it does, so they show what a change costs where times cannot.
Counted are one process, one in which a function of the user's judges, and the head of a cluster of two workers: there a
part belongs to turns, of which a busy machine has more for each judgement.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.roles import function_judge
from benchmarks.shared.endpoint import Endpoint
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import CTS, spent_by
from benchmarks.shared.result import Result, Row

N, IN_FLIGHT, LEAST_US = 30_000, 64, 1.0
SMALL, LARGE, LEAST_CALLS = 600, 1_400, 1.0
"""Candidates in the runs whose calls are counted: both more than the gold has instances, which are read once each."""
TITLE = f"where: CPU of cts judge, {N:,} candidates, {IN_FLIGHT} in flight, one sampled run, us per candidate"


def bench() -> Result:
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    rows = [*_sampled(world, endpoint)]
    calls = _calls(world, endpoint)
    rows += _call_rows("calls a candidate", "calls", calls)
    function_calls = _calls(world, endpoint, judge=function_judge(world, SMALL))
    rows.append(Row("calls a candidate, judged by a function", sum(function_calls.values()), digits=1))
    more = sum(function_calls.values()) - sum(calls.values())
    rows.append(Row("function - model, calls a candidate", more, digits=1))
    notes = []
    if importlib.util.find_spec("ray"):
        head_calls = _calls(world, endpoint, words=("--workers", "2"))
        rows += _call_rows("calls a judgement in the head", "head", head_calls)
    else:
        notes.append("without rows for the head of a cluster: needs Ray")
    return Result(TITLE, rows, notes)


def _sampled(world: JudgeWorld, endpoint: Endpoint) -> Iterator[Row]:
    found = _observed("sampler", world, endpoint.url, N)
    total_us = found["cpu_s"] / N * 1e6
    samples = found["samples"]
    us = {place: n / sum(samples.values()) * total_us for place, n in samples.items()}
    yield Row("all", total_us, digits=1)
    yield Row("of it garbage collection", found["gc_s"] / N * 1e6, digits=1)
    yield from _largest_first(us, LEAST_US)


def _calls(
    world: JudgeWorld, endpoint: Endpoint, *, judge: str = "static", words: tuple[str, ...] = ()
) -> dict[str, float]:
    """Calls for one more candidate whose reply looks as providers send them, by place; of the command's own process."""
    url = endpoint.provider
    small, large = (
        _observed("call_counter", world, url, n, judge=judge, words=words) for n in (SMALL, LARGE)
    )
    return {place: (large[place] - small.get(place, 0)) / (LARGE - SMALL) for place in large}


def _call_rows(title: str, prefix: str, calls: dict[str, float]) -> Iterator[Row]:
    yield Row(title, sum(calls.values()), digits=1)
    for row in _largest_first(calls, LEAST_CALLS):
        yield Row(f"{prefix}: {row.name}", row.value, digits=1)


def _observed(
    observer: str,
    world: JudgeWorld,
    url: str,
    n: int,
    *,
    judge: str = "static",
    words: tuple[str, ...] = (),
) -> dict[str, Any]:
    """What `shared/OBSERVER.py` writes about a fresh `cts judge` of `n` candidates; `words` are typed besides."""
    shutil.rmtree(world.directory / "out", ignore_errors=True)
    written = world.directory / f"{observer}-{n}.json"
    arguments = world.command(url, n, IN_FLIGHT, judge=judge)[len(CTS) :]
    arguments += words
    command = [sys.executable, "-m", f"benchmarks.shared.{observer}", str(written), *arguments]
    spent_by(command, cwd=world.directory)
    observed: dict[str, Any] = json.loads(written.read_bytes())
    return observed


def _largest_first(amounts: dict[str, float], least: float) -> Iterator[Row]:
    """A row for each place with at least so much, and one for the rest."""
    rest = 0.0
    for place in sorted(amounts, key=amounts.__getitem__, reverse=True):
        if amounts[place] >= least:
            yield Row(place, amounts[place], digits=1)
        else:
            rest += amounts[place]
    yield Row("the rest", rest, digits=1)
