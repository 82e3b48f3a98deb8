"""SIGKILL at random instants over submission, polling and collection of batches: nothing lost, nothing paid twice.

Both kinds of provider (OpenAI's files and batches, Anthropic's Message Batches) are processes of their own and outlive
every kill, so what they have charged is the truth. They lose some creations and the answers to others, expire, miss and
fail requests, list new batches late, and are busy now and then. Time is a thousand times faster: a day is 3 s here.
"""

from __future__ import annotations

import json
import random
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.shared.fakes import Command, Start, batches_process, forked_commands
from benchmarks.shared.result import Result, Row
from cts_async.engine.journal import read_records

KILLS, SEED, N, PER_BATCH = 200, 20261127, 60, 15
LIFE_S = 3.0
"""A life ends at an instant drawn from all of it; a run that is not killed takes some 4 s."""
FAULTS = {
    "duration_s": 0.3,
    "expired": 0.05,
    "errored": 0.03,
    "missing": 0.03,
    "half": 0.05,
    "unknown": 1,
    "unanswered_creations": 0.2,
    "dropped_creations": 0.1,
    "listed_after_s": 0.2,
    "busy": 0.1,
}
KINDS = ("openai", "anthropic")


@dataclass(slots=True)
class Toll:
    """What the kills have cost."""

    kills: int = 0
    runs: int = 0
    lost: int = 0
    """Finished steps that were in a journal, and are there no more."""
    unended: int = 0
    """Answers with neither a score nor a failure."""
    failed: int = 0
    """Answers whose requests had no reply in three batches, as it happens at this provider."""
    adopted: int = 0
    """Batches that were created, and whose id only the provider knew."""
    codes: set[int] = field(default_factory=set)
    batches: int = 0
    paid: int = 0
    paid_twice: int = 0
    output: str = ""


def bench(kills: int = KILLS) -> Result:
    with forked_commands() as start:
        tolls = {kind: killed_runs(start, kind, kills // len(KINDS)) for kind in KINDS}
    rows: list[Row] = []
    for kind, toll in tolls.items():
        rows += [
            Row(f"{kind}: kills", toll.kills, ">=", kills // len(KINDS)),
            Row(f"{kind}: runs that these ended in, each of {N} requests", toll.runs),
            Row(f"{kind}: batches made", toll.batches),
            Row(f"{kind}: batches adopted", toll.adopted, ">=", 1),
            Row(f"{kind}: requests paid", toll.paid),
            Row(f"{kind}: requests paid twice", toll.paid_twice, "=", 0),
            Row(f"{kind}: finished steps lost", toll.lost, "=", 0),
            Row(f"{kind}: answers with neither a score nor a failure", toll.unended, "=", 0),
            Row(f"{kind}: answers that failed in three batches", toll.failed),
        ]
    notes = [toll.output for toll in tolls.values() if toll.codes - {0, 1}]
    return Result(
        f"batch_crash: {kills} SIGKILLs at seeded random instants over runs by batches", rows, notes
    )


def killed_runs(start: Start, kind: str, kills: int, *, life_s: float = LIFE_S, seed: int = SEED) -> Toll:
    """Runs against one kind of provider, until so many were killed; the last one is finished."""
    moments, toll = random.Random(f"{seed}/{kind}"), Toll()
    with tempfile.TemporaryDirectory() as folder, batches_process(**FAULTS, seed=seed) as provider:
        here = Path(folder)
        write_model(here, kind, provider.url)
        while toll.kills < kills:
            out = here / f"out{toll.runs}"
            words = write_candidates(here, toll.runs, out)
            known: set[str] = set()
            while True:
                code = _life(start(words, here), moments.uniform(0, life_s), may_kill=toll.kills < kills)
                keys = {record["key"] for record in read_records(out / "steps.jsonl") if record["ok"]}
                toll.lost += len(known - keys)
                known |= keys
                if code != -signal.SIGKILL:
                    break
                toll.kills += 1
            toll.codes.add(code)
            if code:
                toll.output = (here / "output.txt").read_text()
            toll.runs += 1
            lines = list(read_records(out / "per_item.jsonl"))
            toll.unended += N - len({line["id"] for line in lines})
            toll.failed += sum("error" in line for line in lines)
            toll.adopted += sum(bool(event.get("adopted")) for event in read_records(out / "batches.jsonl"))
        stats = provider.stats()
    toll.batches, toll.paid, toll.paid_twice = (
        stats["batches"],
        stats["lines_paid"],
        stats["lines_paid_twice"],
    )
    return toll


def _life(command: Command, life_s: float, *, may_kill: bool) -> int:
    """Let a command live for a while, unless it ends before; its exit code."""
    if not may_kill:
        return command.wait()
    time.sleep(life_s)
    return command.kill()


def write_model(here: Path, kind: str, url: str) -> None:
    """Write a cts.toml with the model `fake` of one kind of provider."""
    (here / "cts.toml").write_text(
        f'[models.fake]\napi = "{kind}"\nbase_url = "{url}"\nmodel = "fake-1"\n'
        f"[models.fake.tiers.batch]\nprice = 0.5\nmax_requests = {PER_BATCH}\n"
    )


def write_candidates(here: Path, number: int, out: Path) -> list[str]:
    """Write gold and candidates that no other run has; the command that judges them."""
    gold, candidates = here / f"gold{number}.jsonl", here / f"candidates{number}.jsonl"
    with gold.open("w") as gold_file, candidates.open("w") as candidates_file:
        for i in range(N):
            nugget = {"id": "N1", "text": f"ferry {i} leaves at {i % 24}", "weight": 1}
            print(json.dumps({"id": f"q{i}", "query": f"ferry {i}", "nuggets": [nugget]}), file=gold_file)
            answer = f"Ferry {i} of run {number} leaves at {i % 24}."
            print(json.dumps({"id": f"q{i}", "answer": answer}), file=candidates_file)
    return [
        *("judge", "--gold", str(gold), "--candidates", str(candidates), "--out", str(out)),
        *("--judge", "fake", "--batch", "--batch-fallback", "batch", "-q", "--trust-config"),
    ]
