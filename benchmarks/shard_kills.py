"""SIGKILL at random instants of workers that write shards and of the head that merges them, many times over one run.

A worker prints a step once it was told that the step is remembered: what was printed has to be in the journal in the
end, once. What a head sees of a worker that still writes is a lock; it merges what is not locked all the time.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import orjson

from benchmarks.shared.process import ROOT
from benchmarks.shared.result import Result, Row
from cts_async.cluster import worker_journals
from cts_async.cluster.worker_journals import ShardJournal, SharedMemory
from cts_async.engine.journal import Journal
from cts_async.engine.shards import merge_all, recovered, unmerged
from cts_async.engine.step import step_key
from cts_async.errors import RunLocked

LIVES, SEED, WORKERS, LIFE_S, APART_S, AT_ONCE, PAUSE_S = 70, 20260119, 2, 0.15, 0.02, 8, 0.001
SHARD_BYTES = 2_000
"""Small, so that shards end all the time."""
END_S = 60.0


async def write(directory: Path, name: str) -> None:
    """A worker: steps for ever, several at once, each printed when it is remembered."""
    worker_journals.SHARD_BYTES = SHARD_BYTES
    journal = ShardJournal(directory, name, 0, sync=False, memory=SharedMemory())

    async def step(i: int) -> None:
        key = step_key(name, i)
        await journal.append({"key": key, "ok": True, "instance": name, "response": "x" * 150})
        print(key, flush=True)

    n = 0
    while True:
        await asyncio.gather(*(step(n + i) for i in range(AT_ONCE)))
        n += AT_ONCE
        journal.turn_over(asyncio.get_running_loop().time())
        await asyncio.sleep(PAUSE_S)


def merge(directory: Path) -> None:
    """A head: whatever is not being written, into the journal, for ever."""
    path = directory / "steps.jsonl"
    try:
        journal = recovered(path)
    except RunLocked:
        journal = Journal(path)
    print("open", flush=True)
    while True:
        with suppress(RunLocked):
            merge_all(journal)
        time.sleep(PAUSE_S)


def bench() -> Result:
    moments, printed, kills, interrupted = random.Random(SEED), Counter[str](), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        for life in range(LIVES):
            head = _started("merge", directory)
            workers = [_started("write", directory, f"w{life}.{n}") for n in range(WORKERS)]
            assert head.stdout
            head.stdout.readline()
            time.sleep(moments.uniform(0, LIFE_S))
            for process in moments.sample([head, *workers], WORKERS + 1):
                process.kill()
                kills += 1
                time.sleep(moments.uniform(0, APART_S))
            head.communicate(timeout=END_S)
            for worker in workers:
                printed.update(worker.communicate(timeout=END_S)[0].splitlines())
            interrupted += any((directory / "shards").glob("*.at-*"))
        journal = recovered(directory / "steps.jsonl")
        journal.close()
        lines = (directory / "steps.jsonl").read_bytes().splitlines()
        kept = Counter(orjson.loads(line)["key"] for line in lines)
        left = unmerged(journal.path)
    return Result(
        f"shard_kills: {kills} SIGKILLs at seeded random instants of {WORKERS} workers and a head",
        [
            Row("steps remembered", len(printed)),
            Row("kills in the middle of a merge", interrupted),
            Row("remembered steps lost", len(printed.keys() - kept.keys()), "=", 0),
            Row("keys twice in the journal", sum(n > 1 for n in kept.values()), "=", 0),
            Row("damaged lines", len(journal.report.damaged_lines), "=", 0),
            Row("shards left in the end", left, "=", 0),
        ],
    )


def _started(role: str, directory: Path, *name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.shard_kills", role, str(directory), *name]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    if sys.argv[1] == "merge":
        merge(Path(sys.argv[2]))
    else:
        asyncio.run(write(Path(sys.argv[2]), sys.argv[3]))
