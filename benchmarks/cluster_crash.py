"""SIGKILL of workers at random instants in a `cts judge --workers`: what is lost, or paid twice?

The provider is a process of its own that outlives every kill, so what it was asked is the truth. A request that it was
asked twice must have been under way, at the first time, when a worker was killed: nothing else may be paid again.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.shared.fakes import PAID, Remote, Seen, provider_process
from benchmarks.shared.judging import JudgeWorld, judge_world
from benchmarks.shared.process import CTS, ours
from benchmarks.shared.result import Result, Row
from cts_async.engine.journal import read_records

KILLS, SEED, N, WORKERS, PLACES = 50, 20261121, 20_000, 4, 64
LATENCY_S, SLACK_S = 0.4, 0.5
"""How long an answer takes, and within which time after it the head has it in its journal."""
ON_ITS_WAY_S = 0.05
"""How long after a kill the provider may read what the worker had sent before (measured: 0.3 to 0.6 ms)."""
PAUSE_S = (0.5, 2.0)
END_S = 900.0
VICTIM = "ray::WorkerActor"
TITLE = f"cluster_crash: {KILLS} SIGKILLs of {WORKERS} workers over {N:,} candidates"


@dataclass(slots=True)
class _Kills:
    """Who was killed, and when, by the clock that all processes share."""

    at: list[float] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def strike(self, head: int, chance: random.Random) -> None:
        """Kill one of the head's workers, if there is any just now."""
        victims = _workers_of(head)
        if not victims:
            return
        try:
            os.kill(chance.choice(sorted(victims)), signal.SIGKILL)
        except ProcessLookupError:
            return
        self.at.append(time.monotonic())


def bench() -> Result:
    with tempfile.TemporaryDirectory() as folder:
        world = judge_world(Path(folder))
        with provider_process(latency_s=0.0) as provider:
            _start(world, provider, "local", ()).communicate()
        with provider_process(latency_s=LATENCY_S) as provider:
            words = ("--workers", str(WORKERS))
            process = _start(world, provider, "out", words)
            kills, chance = _Kills(), random.Random(SEED)
            journal, size = world.directory / "out" / "steps.jsonl", 0
            while process.poll() is None and len(kills.at) < KILLS:
                time.sleep(chance.uniform(*PAUSE_S))
                # Workers that die before they have done anything, five in a row, end a run as they should.
                if journal.exists() and (grown := journal.stat().st_size) > size:
                    kills.strike(process.pid, chance)
                    size = grown
            _, said = process.communicate(timeout=END_S)
            return _reckoned(world, provider, kills, process.returncode, said)


def _reckoned(world: JudgeWorld, provider: Remote, kills: _Kills, code: int, said: str) -> Result:
    keys = [record["key"] for record in read_records(world.directory / "out" / "steps.jsonl") if record["ok"]]
    local, ours = (_lines(world.directory / name / "per_item.jsonl") for name in ("local", "out"))
    seen = provider.seen()
    late_s = paid_again(seen, kills.at)
    again = len(late_s)
    return Result(
        TITLE,
        [
            Row("kills", len(kills.at), "=", KILLS),
            Row("exit code", code, "=", 0),
            Row("candidates without a verdict", N - len(set(ours)), "=", 0),
            Row("lines that differ from a local run's", len(set(ours) ^ set(local)), "=", 0),
            Row("lines twice", len(ours) - len(set(ours)), "=", 0),
            Row("keys twice in the journal", len(keys) - len(set(keys)), "=", 0),
            Row("calls missing in the journal", N - len(set(keys)), "=", 0),
            Row("paid twice", again, "<=", len(kills.at) * PLACES),
            Row(
                f"of these answered more than {SLACK_S} s before a kill",
                sum(s > SLACK_S for s in late_s),
                "=",
                0,
            ),
            Row("longest s from an answer to the kill", max(late_s, default=0.0), digits=2),
            Row("in flight at once, at most", most_at_once(seen), "<=", PLACES + again),
            Row("s, all", time.monotonic() - kills.began, digits=0),
        ],
        said.splitlines()[-5:] if code else [],
    )


def paid_again(seen: Sequence[Seen], kills: Sequence[float]) -> list[float]:
    """For each request that was answered again, seconds from the earlier answer to the next kill of a worker.

    A request that was on its way at a kill belongs to that one.
    """
    sent: defaultdict[str, list[float]] = defaultdict(list)
    for one in seen:
        if one.fault in PAID:
            sent[one.digest].append(one.at)
    earlier = [at for times in sent.values() for at in sorted(times)[:-1]]
    return [
        min((kill - at - LATENCY_S for kill in kills if kill + ON_ITS_WAY_S >= at), default=math.inf)
        for at in earlier
    ]


def most_at_once(seen: Sequence[Seen]) -> int:
    """The most requests under way at the provider, those of killed workers among them for as long as they take."""
    changes = sorted((at, n) for one in seen for at, n in ((one.at, 1), (one.at + LATENCY_S, -1)))
    most = now = 0
    for _, n in changes:
        now += n
        most = max(most, now)
    return most


def _start(world: JudgeWorld, provider: Remote, out: str, words: Sequence[str]) -> subprocess.Popen[str]:
    (world.directory / "cts.toml").write_text(
        f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\nmax_concurrency = {PLACES}\n'
    )
    files = ["--gold", "gold.jsonl", "--candidates", world.candidates(N).name, "--out", out]
    command = [*CTS, "judge", *files, "--judge", "fake", "-q", "--json", *words]
    return subprocess.Popen(
        command, cwd=world.directory, env=ours(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def _workers_of(head: int) -> list[int]:
    """Worker processes below the head."""
    found, parents = [], {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if words.startswith(VICTIM):
            found.append(int(folder.name))
    return [pid for pid in found if _is_below(pid, head, parents)]


def _is_below(pid: int, head: int, parents: Mapping[int, int]) -> bool:
    while pid in parents and pid != head:
        pid = parents[pid]
    return pid == head
