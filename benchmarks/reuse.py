"""Steps of 50 runs, 1,000,000 in all: how long until the first is found, and what one that is reused costs.

Lines have the fields and about the texts of real ones (`shared/big_run.py`). Opening is measured in a process of its
own, with the files in the cache, so that its peak memory is its own; numpy, which it loads, counts. Reused and executed
steps are walked through the same runner into a new journal, against an immediate fake: the median of interleaved rounds.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from benchmarks.journal import peak_mb
from benchmarks.shared import big_run
from benchmarks.shared.result import Result, Row
from cts_async.engine.events import Events
from cts_async.engine.journal import Journal
from cts_async.engine.reuse import ReuseRule
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import UnusableOutput
from cts_async.protocol.versions import Reuse
from cts_async.runs.reuse import SystemSource

RUNS, INSTANCES, ROUNDS, LOOKUPS, WALKED = 50, 2_000, 3, 20_000, 2_000
STEPS = RUNS * INSTANCES * big_run.STEPS
STEP = "search/turn/2"


def bench() -> Result:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        n_bytes = write_runs(runs)
        opened = [_opened(runs) for _ in range(ROUNDS)]
        seconds, megabytes, hit_us, miss_us = (
            statistics.median(column) for column in zip(*opened, strict=True)
        )
        source, reused, executed = source_of(runs), [], []
        source.find(key_of(0), ReuseRule.FIXED)
        for n in range(ROUNDS):
            reused.append(_walked_us(Path(folder) / f"reused{n}", source))
            executed.append(_walked_us(Path(folder) / f"executed{n}", None))
    return Result(
        f"reuse: {RUNS} runs, {STEPS:,} steps of {n_bytes / STEPS:.0f} bytes in the mean, median of {ROUNDS} rounds",
        [
            Row("until the first lookup is answered, s", seconds, "<=", 1.0, 2),
            Row("memory for that, MB more", megabytes, "<=", 200.0, 0),
            Row("lookup of a step that is there, us", hit_us, digits=1),
            Row("lookup of one that is not, us", miss_us, digits=1),
            Row("step reused (found, copied, decoded), us CPU", statistics.median(reused), digits=0),
            Row("step executed by an immediate fake, us CPU", statistics.median(executed), digits=0),
        ],
    )


def write_runs(runs: Path) -> int:
    """Write the runs; returns the bytes of their journals."""
    manifest = {
        "identity": {"system": big_run.SYSTEM, "current_date": "2026-11-21"},
        "fixed_temperature": 0.0,
        "sessions": [{"start": "2026-11-21T06:00:00+00:00"}],
    }
    n_bytes = 0
    for number in range(RUNS):
        directory = runs / f"world-gpt-k2.v{number}"
        directory.mkdir(parents=True)
        (directory / "run.json").write_bytes(orjson.dumps(manifest))
        with (directory / "steps.jsonl").open("wb") as file:
            for record in big_run.steps_of(number * INSTANCES, INSTANCES):
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
            n_bytes += file.tell()
    return n_bytes


def key_of(i: int) -> str:
    """The key of a step of one instance, of any run."""
    return big_run.key_of(i, STEP)


def source_of(runs: Path) -> SystemSource:
    reuse = Reuse(runs)
    origins = reuse.origins([], Events())
    if origins is None:
        raise AssertionError("there are runs")
    return reuse.source(origins, big_run.SYSTEM, sends_defaults=True)


def _opened(runs: Path) -> tuple[float, float, float, float]:
    command = [sys.executable, "-m", "benchmarks.reuse", str(runs)]
    done = subprocess.run(command, check=True, capture_output=True)
    seconds, megabytes, hit_us, miss_us = json.loads(done.stdout)
    return seconds, megabytes, hit_us, miss_us


def open_here(runs: Path) -> None:
    """In a process of its own: print seconds, megabytes and microseconds of lookups."""
    megabytes, began = peak_mb(), time.perf_counter()
    source = source_of(runs)
    if source.find(key_of(STEPS // big_run.STEPS - 1), ReuseRule.SAMPLED) is None:
        raise AssertionError("the step of the last instance is there")
    seconds, megabytes = time.perf_counter() - began, peak_mb() - megabytes
    hits = [key_of(i * 7919 % (RUNS * INSTANCES)) for i in range(LOOKUPS)]
    misses = [step_key(i) for i in range(LOOKUPS)]
    print(json.dumps([seconds, megabytes, _lookup_us(source, hits), _lookup_us(source, misses)]))


def _lookup_us(source: SystemSource, keys: list[str]) -> float:
    began = time.perf_counter()
    for key in keys:
        source.find(key, ReuseRule.SAMPLED)
    return (time.perf_counter() - began) / len(keys) * 1e6


def _walked_us(journal_path: Path, source: SystemSource | None) -> float:
    """CPU a step of WALKED jobs with a step each, reused from `source`, or executed without one."""

    async def execute(_: UnusableOutput | None) -> Executed:
        return Executed({"text": "t" * 400})

    def walk_of(i: int) -> Callable[[Context], Awaitable[Any]]:
        async def walk(ctx: Context) -> Any:
            step: Step[str] = Step(
                name=STEP,
                key=key_of(i),
                execute=execute,
                decode=lambda response: str(response["text"]),
                model="m",
            )
            return await ctx.step(step)

        return walk

    async def finish(ended: Any) -> None:
        if not isinstance(ended, str):
            raise AssertionError(f"a step failed: {ended}")

    async def main() -> float:
        journal = Journal(journal_path)
        # Spread over all runs, as the steps of a version are not: each of them opens another journal.
        jobs = [
            Job("g", big_run.id_of(i), journal, walk_of(i), finish, source=source)
            for i in range(0, RUNS * INSTANCES, RUNS * INSTANCES // WALKED)
        ]
        before = time.process_time()
        await Runner().run(jobs)
        journal.close()
        return (time.process_time() - before) / len(jobs) * 1e6

    return asyncio.run(main())


if __name__ == "__main__":
    open_here(Path(sys.argv[1]))
