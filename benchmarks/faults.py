"""Every fault of the fake provider, 20 % in all, over a real `cts run`: all instances are accounted for.

Short timeouts make hanging requests affordable. The provider's own record says whether anything was
sent again before its Retry-After had passed, and what was paid that no journal knows.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.shared.fakes import ALL_FAULTS, RealRun, Remote, Seen, provider_process
from benchmarks.shared.result import Result, Row
from benchmarks.shared.sample_world import write_world
from cts_async.engine.journal import Journal

N, K, CONCURRENCY, SEED = 200, 2, 32, 7
SHARE, TIMEOUT_S, CLOCK_S = 0.2, 2.0, 0.005
END_S = 540.0
TITLE = f"faults: {len(ALL_FAULTS)} kinds of fault at {SHARE:.0%} in all, {N} instances"


def bench() -> Result:
    settings: dict[str, Any] = {
        "faults": dict.fromkeys(ALL_FAULTS, SHARE / len(ALL_FAULTS)),
        "latency_s": 0.05,
        "latency_sigma": 0.6,
        "retry_after_s": 0.7,
        "hang_s": 10 * TIMEOUT_S,
        "seed": SEED,
    }
    with tempfile.TemporaryDirectory() as folder, provider_process(**settings) as provider:
        here = Path(folder)
        world = write_world(here / "world", N)
        words = ("--all", "fake", "-k", str(K), "--no-orig", "--limit", str(N), "--data", f"sample:{world}")
        run = RealRun(here, (*words, "--name", "r", "-q"))
        run.configure(provider.url, max_concurrency=CONCURRENCY, timeout_s=TIMEOUT_S)
        process = run.start()
        _, told = process.communicate(timeout=END_S)
        return _reckoned(run, provider, process.returncode, told)


def _reckoned(run: RealRun, provider: Remote, code: int, told: str) -> Result:
    seen, stats, records = provider.seen(), provider.stats(), run.records()
    results = run.results()
    failed = [line for line in results if "error" in line]
    used = sum(sum(record.get("usage", {}).values()) for record in records)
    faults = Counter(request.fault for request in seen if request.fault)
    return Result(
        TITLE,
        [
            Row("instances accounted for", len({line["id"] for line in results}), "=", N),
            Row("of them failed for good", len(failed)),
            Row("failures whose reason is not the journal's", _untrue(failed, records), "=", 0),
            Row("exit code", code, "=", 1 if failed else 0),
            Row("requests", len(seen)),
            Row(
                "attempts in the journal",
                sum(record.get("attempts", 1) for record in records),
                "=",
                len(seen),
            ),
            Row("sent again before Retry-After had passed", too_early(seen), "=", 0),
            Row("answers asked to wait", sum(request.retry_at is not None for request in seen)),
            Row("damaged journal lines", _damaged(run), "=", 0),
            Row("tokens paid that no journal knows", stats["paid_tokens"] - used, "=", 0),
            Row("kinds of fault met", len(faults), "=", len(ALL_FAULTS)),
        ],
        [
            "met: " + ", ".join(f"{fault} {n}" for fault, n in sorted(faults.items())),
            *(f"failed: {line['id']} {line['error']}" for line in failed[:5]),
            *(told.splitlines()[-3:] if code not in (0, 1) else []),
        ],
    )


def _untrue(failed: list[dict[str, Any]], records: list[dict[str, Any]]) -> int:
    """Failures that do not say what the journal says of the step that ended them."""
    reasons = {
        (record["instance"], record["step"]): record["error"] for record in records if not record["ok"]
    }
    said = [(line["id"], line["error"]["step"], line["error"]) for line in failed]
    return sum(
        reasons.get((id, step)) != {"kind": error["kind"], "message": error["message"]}
        for id, step, error in said
    )


def too_early(seen: list[Seen]) -> int:
    """How often the same body came again before the time that its refusal had named."""
    again: dict[str, float] = {}
    early = 0
    for request in seen:
        early += request.at < again.get(request.digest, 0.0) - CLOCK_S
        if request.retry_at is not None:
            again[request.digest] = request.retry_at
    return early


def _damaged(run: RealRun) -> int:
    damaged = 0
    for directory in run.directories():
        journal = Journal(directory / "steps.jsonl")
        damaged += len(journal.report.damaged_lines) + (journal.report.torn is not None)
        journal.close()
    return damaged
