"""Steps of other processes on their way into the journal: shards merged, and records streamed.

A million steps, in shards of the size at which workers hand them over, or so many to a turn. Each way goes in a
process of its own, so that its peak memory is its own too. CPU is user and system time of the section.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from benchmarks.journal import LINE_BYTES, peak_mb, record
from benchmarks.shared.result import Result, Row
from cts_async.cluster.worker_journals import SHARD_BYTES, ShardJournal, SharedMemory
from cts_async.engine.journal import Journal
from cts_async.engine.shards import SHARDS, merge, shards_of

STEPS, PER_SHARD, PER_TURN, IN_FLIGHT = 1_000_000, SHARD_BYTES // LINE_BYTES, 256, 64


def line(i: int) -> bytes:
    return orjson.dumps(record(i)) + b"\n"


def merged(directory: Path) -> tuple[float, float]:
    """Merge what lies in shards into a new journal; seconds of CPU and of the clock."""
    journal = Journal(directory / "steps.jsonl")
    shards = shards_of(journal.path)
    cpu, clock = time.process_time(), time.perf_counter()
    steps = sum(merge(journal, shard) for shard in shards)
    taken = time.process_time() - cpu, time.perf_counter() - clock
    assert steps == len(journal) == STEPS
    journal.close()
    return taken


def streamed(directory: Path) -> tuple[float, float]:
    """Append lines as the head does those of a worker without shared storage."""

    async def main() -> tuple[float, float]:
        journal = Journal(directory / "steps.jsonl")
        cpu = clock = 0.0
        for start in range(0, STEPS, PER_TURN):
            lines = [line(i) for i in range(start, min(start + PER_TURN, STEPS))]
            began = time.process_time(), time.perf_counter()
            await journal.append_lines(lines)
            cpu += time.process_time() - began[0]
            clock += time.perf_counter() - began[1]
        assert len(journal) == STEPS
        journal.close()
        return cpu, clock

    return asyncio.run(main())


def written(directory: Path) -> tuple[float, float]:
    """Append steps as a worker does, turning its shards over."""

    async def main() -> tuple[float, float]:
        journal = ShardJournal(directory, "w", 0, sync=False, memory=SharedMemory())
        cpu = clock = 0.0
        for start in range(0, STEPS, IN_FLIGHT):
            records = [record(i) for i in range(start, min(start + IN_FLIGHT, STEPS))]
            began = time.process_time(), time.perf_counter()
            await asyncio.gather(*(_step(journal, one) for one in records))
            journal.turn_over(asyncio.get_running_loop().time())
            cpu += time.process_time() - began[0]
            clock += time.perf_counter() - began[1]
        journal.close()
        return cpu, clock

    return asyncio.run(main())


async def _step(journal: ShardJournal, one: dict[str, object]) -> None:
    await journal.append(one)
    journal.forget([str(one["key"])])


WAYS: dict[str, Callable[[Path], tuple[float, float]]] = {
    "written": written,
    "merged": merged,
    "streamed": streamed,
}


def write_shards(directory: Path) -> None:
    for n, start in enumerate(range(0, STEPS, PER_SHARD)):
        steps = range(start, min(start + PER_SHARD, STEPS))
        (directory / SHARDS / f"w-{n}.jsonl").write_bytes(b"".join(map(line, steps)))


def measured(way: str, directory: Path) -> tuple[float, float, float]:
    """Seconds of CPU, of the clock, and peak megabytes."""
    command = [sys.executable, "-m", "benchmarks.shards", way, str(directory)]
    done = subprocess.run(command, check=True, capture_output=True)
    cpu_s, clock_s, megabytes = json.loads(done.stdout)
    return cpu_s, clock_s, megabytes


def bench() -> Result:
    found = {}
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder, "run")
            (directory / SHARDS).mkdir(parents=True)
            if way == "merged":
                write_shards(directory)
            found[way] = measured(way, directory)
    us = {way: cpu_s / STEPS * 1e6 for way, (cpu_s, _, _) in found.items()}
    mb_per_s = STEPS * LINE_BYTES / 1e6 / found["merged"][1]
    return Result(
        f"shards: {STEPS:,} steps of {LINE_BYTES} bytes, {PER_SHARD:,} to a shard",
        [
            Row("written by a worker, us CPU per step", us["written"], digits=1),
            Row("merged by the head, us CPU per step", us["merged"], "<=", 1.0, 2, f"{mb_per_s:.0f} MB/s"),
            Row("merged, peak MB", found["merged"][2], "<=", 170.0, 0),
            Row("streamed into the head's journal, us CPU per step", us["streamed"], digits=1),
            Row("streamed, peak MB", found["streamed"][2], "<=", 170.0, 0),
        ],
    )


if __name__ == "__main__":
    cpu_s, clock_s = WAYS[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps([cpu_s, clock_s, peak_mb()]))
