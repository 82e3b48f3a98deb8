"""SIGKILL at random instants, many times over one `cts run`: nothing that was finished is lost or done again.

The provider is a process of its own and outlives every kill, so its count of requests is the truth.
What it was asked and the journal does not hold was in flight when the run was killed: only that may be
asked, and paid, a second time.
"""

from __future__ import annotations

import random
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.shared.fakes import RealRun, Remote, provider_process
from benchmarks.shared.result import Result, Row
from benchmarks.shared.sample_world import write_world

KILLS, SEED, N, K, CONCURRENCY = 200, 20260119, 400, 3, 8
CALLS = N * (1 + K + 1 + 2 + 1)
LATENCY_S, LIFE_S, QUIET_S = 0.4, 2.5, 0.03
"""A life ends at an instant drawn from all of [0, LIFE_S]: while starting, resuming, asking or writing."""
END_S = 600.0
TITLE = f"crash: {KILLS} SIGKILLs at seeded random instants over one run of {CALLS:,} calls"


@dataclass(slots=True)
class _Toll:
    """What the kills have cost so far."""

    kills: int = 0
    lost: set[str] = field(default_factory=set)  # keys that were in the journal and are there no more
    known: set[str] = field(default_factory=set)
    in_flight: list[int] = field(default_factory=list)  # at each kill: asked, and not in the journal

    def count(self, keys: list[str], requests: int) -> None:
        """Compare the journal after a kill with the one before it, and with what the provider was asked."""
        self.kills += 1
        self.lost |= self.known - set(keys)
        self.known |= set(keys)
        self.in_flight.append(requests - len(keys) - sum(self.in_flight))


def bench() -> Result:
    lags = {"latency_s": LATENCY_S, "latency_sigma": 0.5}
    with tempfile.TemporaryDirectory() as folder, provider_process(**lags) as provider:
        here = Path(folder)
        world = write_world(here / "world", N)
        words = ("--all", "fake", "-k", str(K), "--no-orig", "--limit", str(N), "--data", f"sample:{world}")
        run = RealRun(here, (*words, "--name", "r", "-q"))
        run.configure(provider.url, max_concurrency=CONCURRENCY)
        toll = _killed_many_times(run, provider)
        return _reckoned(run, provider, toll)


def _killed_many_times(run: RealRun, provider: Remote) -> _Toll:
    moments, toll = random.Random(SEED), _Toll()
    while toll.kills < KILLS:
        process = run.start()
        try:
            process.communicate(timeout=moments.uniform(0, LIFE_S))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        if process.returncode != -signal.SIGKILL:
            return toll  # it came to its end: too few calls for so many kills
        toll.count(_keys(run), _requests_at_rest(provider))
    return toll


def _reckoned(run: RealRun, provider: Remote, toll: _Toll) -> Result:
    """Let the run finish, and compare what the provider was asked and paid for with what the journal holds."""
    process = run.start()
    _, told = process.communicate(timeout=END_S)
    keys, stats = _keys(run), provider.stats()
    toll.lost |= toll.known - set(keys)
    in_flight = sum(toll.in_flight)
    scored = sum(line.get("restore_score_100") is not None for line in run.results())
    return Result(
        TITLE,
        [
            Row("kills", toll.kills, "=", KILLS),
            Row("finished steps lost", len(toll.lost), "=", 0),
            Row("finished steps done again", stats["requests"] - len(keys) - in_flight, "=", 0),
            Row("keys twice in the journal", len(keys) - len(set(keys)), "=", 0),
            Row("in flight at the kills, all", in_flight),
            Row("in flight at a kill, at most", max(toll.in_flight, default=0), "<=", 2 * CONCURRENCY),
            Row("paid twice", stats["paid_twice"], "<=", in_flight),
            Row("calls remembered", len(set(keys)), "=", CALLS),
            Row("instances scored", scored, "=", N),
            Row("exit code of the last life", process.returncode, "=", 0),
        ],
        told.splitlines()[-3:] if process.returncode else [],
    )


def _keys(run: RealRun) -> list[str]:
    return [record["key"] for record in run.records() if record["ok"]]


def _requests_at_rest(provider: Remote) -> int:
    """Requests so far, once those that a killed process had sent have all been read."""
    before = -1
    while (now := provider.stats()["requests"]) != before:
        before = now
        time.sleep(QUIET_S)
    return before
