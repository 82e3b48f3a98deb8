"""`cts judge` over very many candidates: peak memory at 1,000,000 beside 10,000, and typing it again.

The lexical judge needs no server. `bench(MODEL, ["--config", FILE], N)` measures a model of cts.toml, such
as one behind a static local endpoint.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.shared.result import Result, Row

GOLDS, NUGGETS = 500, 6
SMALL, LARGE = 10_000, 1_000_000


def query(i: int) -> str:
    return f"which ferry goes to island number {i % GOLDS} in winter"


def write_gold(path: Path) -> None:
    with path.open("w", encoding="utf-8") as out:
        for i in range(GOLDS):
            nuggets = [
                {"id": f"N{j}", "text": f"The ferry {i} leaves at {j} o'clock", "weight": 1 + j % 3}
                for j in range(1, NUGGETS + 1)
            ]
            row = {"id": f"g{i}", "fused_query": query(i), "gold": {"nuggets": nuggets}}
            out.write(json.dumps(row) + "\n")


def write_candidates(path: Path, n: int) -> None:
    with path.open("w", encoding="utf-8") as out:
        for i in range(n):
            answer = f"The ferry leaves at {i % 7} o'clock from pier {i}."
            out.write(json.dumps({"id": f"c{i:07d}", "fused_query": query(i), "answer": answer}) + "\n")


def judged(folder: Path, n: int, judge: str, config: list[str]) -> tuple[float, float, float]:
    """Judge n candidates in a process of its own: seconds of CPU, of time, and peak megabytes."""
    program = (
        "import sys\n"
        "from benchmarks.journal import peak_mb\n"
        "from cts_async.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n    print(peak_mb(), file=sys.stderr)\n"
    )
    files = [
        "--gold",
        folder / "gold.jsonl",
        "--candidates",
        folder / f"{n}.jsonl",
        "--out",
        folder / f"out{n}",
    ]
    command = [sys.executable, "-c", program, "judge", *map(str, files), "--judge", judge, "-q", *config]
    used, began = _cpu_s(), time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return _cpu_s() - used, time.monotonic() - began, float(done.stderr.split()[-1])


def _cpu_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def bench(judge: str = "lexical", config: Sequence[str] = (), large: int = LARGE) -> Result:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_gold(folder / "gold.jsonl")
        for n in (SMALL, large):
            write_candidates(folder / f"{n}.jsonl", n)
        _, _, little_mb = judged(folder, SMALL, judge, [*config])
        cpu_s, _, much_mb = judged(folder, large, judge, [*config])
        _, again_s, _ = judged(folder, large, judge, [*config])
    return Result(
        f"judge_memory: cts judge --judge {judge}, {large:,} candidates beside {SMALL:,}",
        [
            Row("peak MB, few", little_mb),
            Row("peak MB, many", much_mb),
            Row("  more", much_mb - little_mb, "<=", 64.0),
            Row("us CPU per candidate", cpu_s / large * 1e6, digits=1),
            Row("s until the same command typed again is done", again_s, digits=1),
        ],
    )
