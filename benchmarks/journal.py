"""The journal: CPU per step appended, and the resume scan beside reading every key with orjson.

CPU is user and system time of the section alone, the median of interleaved rounds. Each scan runs in a
process of its own, so that its peak memory is its own too; what it has to load (numpy) counts as its time.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from benchmarks.shared.result import Result, Row
from cts_async.engine.journal import Journal
from cts_async.engine.step import step_key

APPENDED, SCANNED, ROUNDS, IN_FLIGHT = 200_000, 1_000_000, 3, 64
LINE_BYTES = 351


def record(i: int) -> dict[str, object]:
    """A step as the runner writes it: a line of LINE_BYTES."""
    step: dict[str, object] = {
        "key": step_key(i),
        "ok": True,
        "instance": f"q{i // 8:06d}",
        "step": "answer/1",
        "model": "m",
        "response": {"text": ""},
        "latency_s": 0.8123,
        "time": 1795235534.123,
    }
    step["response"] = {"text": "t" * (LINE_BYTES - 1 - len(orjson.dumps(step)))}
    return step


async def append_all(path: Path, records: list[dict[str, object]]) -> None:
    """Append from as many tasks as a run has instances in flight."""
    journal = Journal(path)
    stream = iter(records)

    async def worker() -> None:
        for item in stream:
            await journal.append(item)
            journal.forget([str(item["key"])])

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    journal.close()


def write(path: Path, n: int) -> None:
    with path.open("wb") as file:
        for i in range(n):
            file.write(orjson.dumps(record(i)) + b"\n")


def orjson_keys(path: Path) -> int:
    """What the scan is measured against: parse every line, keep its key."""
    with path.open("rb") as file:
        return len({orjson.loads(line)["key"] for line in file})


def resume_scan(path: Path) -> int:
    """What opening a journal does."""
    journal = Journal(path)
    journal.close()
    return len(journal)


SCANS: dict[str, Callable[[Path], int]] = {"ours": resume_scan, "orjson": orjson_keys}


def cpu_s(work: Callable[[], object]) -> float:
    """Seconds of CPU that `work` took in this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


def scan_here(name: str, path: Path) -> None:
    """In a process of its own: print seconds of CPU and peak megabytes."""
    seconds = cpu_s(lambda: SCANS[name](path))
    print(json.dumps([seconds, peak_mb()]))


def peak_mb() -> float:
    """The most memory this program held; getrusage would count what its parent held before it began."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def scanned(name: str, path: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.journal", name, str(path)]
    done = subprocess.run(command, check=True, capture_output=True)
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes


def bench() -> Result:
    appended, ours, theirs = [], [], []
    records = [record(i) for i in range(APPENDED)]
    with tempfile.TemporaryDirectory() as folder:
        for n in range(ROUNDS):
            path = Path(folder) / f"{n}.jsonl"
            appended.append(cpu_s(lambda path=path: asyncio.run(append_all(path, records))))
            path.unlink()
        path = Path(folder) / "steps.jsonl"
        write(path, SCANNED)
        for _ in range(ROUNDS):
            ours.append(scanned("ours", path))
            theirs.append(scanned("orjson", path))
    per_step = statistics.median(appended) / APPENDED * 1e6
    scan_s, scan_mb = (statistics.median(column) for column in zip(*ours, strict=True))
    keys_s, keys_mb = (statistics.median(column) for column in zip(*theirs, strict=True))
    return Result(
        f"journal: lines of {LINE_BYTES} bytes, median of {ROUNDS} interleaved rounds",
        [
            Row("append, us CPU per step", per_step, "<=", 4.0, 1),
            Row(f"resume scan of {SCANNED:,}, s CPU", scan_s, digits=2),
            Row("resume scan / orjson key scan", scan_s / keys_s, "<=", 0.6, 2),
            Row("peak MB", scan_mb, "<=", 170.0, 0, f"orjson key scan {keys_mb:.0f}"),
        ],
    )


if __name__ == "__main__":
    scan_here(sys.argv[1], Path(sys.argv[2]))
