"""The journal: CPU per step appended, bytes per step, and the resume scan beside reading every key with orjson.

CPU is this process's own (user and system), the median of interleaved rounds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from benchmarks.shared.result import Result, Row
from cts_async.engine.journal import Journal
from cts_async.engine.step import step_key

STEPS, ROUNDS, IN_FLIGHT = 200_000, 3, 64
TEXT = "The ferry to the island leaves at nine, and again at noon. " * 4


def record(i: int) -> dict[str, object]:
    """A step as the runner writes it, about 450 bytes."""
    return {
        "key": step_key(i),
        "ok": True,
        "instance": f"q{i // 8:06d}",
        "step": "answer/1",
        "model": "m",
        "response": {"text": TEXT, "finish_reason": "stop"},
        "latency_s": 0.8123,
        "attempts": 1,
        "time": 1795235534.123,
    }


async def append_all(path: Path, records: list[dict[str, object]]) -> None:
    """Append from as many tasks as a run has instances in flight."""
    journal = Journal(path)
    stream = iter(records)

    async def worker() -> None:
        for item in stream:
            await journal.append(item)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    journal.close()


def orjson_keys(path: Path) -> set[str]:
    """What the scan is measured against: parse every line, keep its key."""
    with path.open("rb") as file:
        return {orjson.loads(line)["key"] for line in file}


def cpu_s(work: Callable[[], object]) -> float:
    """Seconds of CPU that `work` took in this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


def bench() -> Result:
    records = [record(i) for i in range(STEPS)]
    content = sum(32 + len(TEXT) for _ in records)
    append, scan, keys = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for n in range(ROUNDS):
            path = Path(folder) / f"{n}.jsonl"
            append.append(cpu_s(lambda path=path: asyncio.run(append_all(path, records))))
            scan.append(cpu_s(lambda path=path: Journal(path).close()))
            keys.append(cpu_s(lambda path=path: orjson_keys(path)))
        size = os.path.getsize(path)
    per_step = statistics.median(append) / STEPS * 1e6
    return Result(
        f"journal: {STEPS:,} steps, median of {ROUNDS} interleaved rounds",
        [
            Row("append, us CPU per step", per_step, "<=", 4.0, 1),
            Row(
                "resume scan / orjson key scan",
                statistics.median(scan) / statistics.median(keys),
                "<=",
                0.6,
                2,
            ),
            Row("bytes / (key + text)", size / content, "<=", 1.3, 2),
        ],
    )
