"""InteractComp's six modes over 210 made-up tasks, encrypted, through real `cts run` processes that are killed.

Every mode is killed several times at seeded random instants and finished by the same command. The provider is a process
of its own and outlives every kill, so its count of requests is the truth, as in `crash`.
"""

from __future__ import annotations

import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.shared.fakes import RealRun, Remote, made_interactcomp_tasks, provider_process
from benchmarks.shared.result import Result, Row
from cts_async.engine.journal import read_records
from cts_async.protocol.audit import audit_run
from cts_async.runs.finished import read_run
from cts_async.tables.interactcomp import mode_of

N, KILLS_PER_MODE, SEED, CONCURRENCY = 210, 4, 20261127, 8
LATENCY_S, LIFE_S, QUIET_S = 0.1, 4.0, 0.05
"""A life ends at an instant drawn from all of [0, LIFE_S]: while starting, resuming, asking or writing."""
END_S = 600.0
_ASKING = ("--ask", "during", "--max-asks", "9", "--replies", "yes-no", "--no-orig")
MODES: Mapping[str, tuple[str, ...]] = {
    "answer_only": ("--tools", "none", "--ask", "never"),
    "search_only": ("--tools", "search", "--ask", "never"),
    "ask_only": ("--tools", "none", *_ASKING),
    "full": ("--tools", "search", *_ASKING),
    "forced_ask": ("--tools", "search", "--min-asks", "5", *_ASKING),
    "full_with_context": ("--tools", "search", "--ask", "never", "--no-orig", "--gold-query"),
}
"""The options of each mode, as docs/interactcomp.md has them."""
TITLE = f"interactcomp: six modes over {N} made-up tasks, each killed up to {KILLS_PER_MODE} times"


@dataclass(slots=True)
class _Toll:
    """What the kills have cost so far, over all modes."""

    kills: int = 0
    lost: set[str] = field(default_factory=set)
    """Keys that were in a journal and are there no more."""
    known: set[str] = field(default_factory=set)
    n_in_flight: int = 0
    """Requests that were made, and are in no journal."""
    most_in_flight: int = 0

    def count(self, keys: set[str], requests: int) -> None:
        """Compare the journals after a kill with those before it, and with what the provider was asked."""
        self.kills += 1
        self.lost |= self.known - keys
        self.known |= keys
        n_in_flight = requests - len(keys) - self.n_in_flight
        self.n_in_flight += n_in_flight
        self.most_in_flight = max(self.most_in_flight, n_in_flight)


def bench() -> Result:
    with tempfile.TemporaryDirectory() as folder, provider_process(latency_s=LATENCY_S) as provider:
        here = Path(folder)
        made_interactcomp_tasks(here, N)
        toll, moments = _Toll(), random.Random(SEED)
        for words in MODES.values():
            run = _real_run(here, provider, words)
            for _ in range(KILLS_PER_MODE):
                if not _killed(run, moments.uniform(0, LIFE_S)):
                    break  # it came to its end
                toll.count(_paid_keys(here), _requests_at_rest(provider))
            _, told = run.start().communicate(timeout=END_S)
            if told:
                print(told)
        return _reckoned(here, provider, toll)


def _real_run(here: Path, provider: Remote, words: tuple[str, ...]) -> RealRun:
    data = ("--data", f"interactcomp:{here / 'tasks.jsonl'}", "--corpus", str(here / "corpus.jsonl"))
    run = RealRun(here, (*data, "--all", "fake", *words, "-q"))
    run.configure(provider.url, max_concurrency=CONCURRENCY)
    return run


def _killed(run: RealRun, life_s: float) -> bool:
    process = run.start()
    try:
        process.communicate(timeout=life_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode == -signal.SIGKILL


def _paid_keys(here: Path) -> set[str]:
    """Run and key of the calls that the runs have made themselves and recorded."""
    keys = set()
    for journal in here.glob("runs/*/steps.jsonl"):
        for record in read_records(journal):
            if record["ok"] and "model" in record and "reused" not in record:
                keys.add(f"{journal.parent.name} {record['key']}")
    return keys


def _requests_at_rest(provider: Remote) -> int:
    """Requests so far, once those that a killed process had sent have all been read."""
    before = -1
    while (now := provider.stats()["requests"]) != before:
        before = now
        time.sleep(QUIET_S)
    return before


def _reckoned(here: Path, provider: Remote, toll: _Toll) -> Result:
    keys, stats = _paid_keys(here), provider.stats()
    toll.lost |= toll.known - keys
    modes: list[str | None] = []
    n_scored = n_held = n_unasked = 0
    for directory in here.glob("runs/*"):
        run = read_run(directory)
        modes.append(mode_of(run))
        n_scored += len(run.scores("fake"))
        audit = audit_run(directory, f"interactcomp:{here / 'tasks.jsonl'}")
        n_held += audit.n_held
        if run.max_asks:
            for line in read_records(directory / "results.jsonl"):
                n_unasked += not line["asks"]
    return Result(
        TITLE,
        [
            Row("modes", len(set(modes) & set(MODES)), "=", len(MODES)),
            Row("kills", toll.kills),
            Row("tasks scored", n_scored, "=", N * len(MODES)),
            Row("tasks for which the audit held", n_held, "=", N * len(MODES)),
            Row("tasks without a question, in modes that ask", n_unasked, "=", 0),
            Row("finished steps lost", len(toll.lost), "=", 0),
            Row("finished steps done again", stats["requests"] - len(keys) - toll.n_in_flight, "=", 0),
            Row("in flight at the kills, all", toll.n_in_flight),
            Row("in flight at a kill, at most", toll.most_in_flight, "<=", 2 * CONCURRENCY),
            Row("paid twice", stats["paid_twice"], "<=", toll.n_in_flight),
            Row("calls", len(keys)),
        ],
    )
