"""`cts judge` over very many candidates: peak memory at 1,000,000 beside 10,000, and typing it again.

Without arguments the lexical judge is measured, which needs no server. `python -m benchmarks.judge_memory
MODEL CONFIG SMALL LARGE` measures a model of cts.toml, e.g. one behind a static local endpoint.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOLDS, NUGGETS = 500, 6


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


def main(judge: str = "lexical", config: str = "", small: str = "10000", large: str = "1000000") -> None:
    sizes = (int(small), int(large))
    options = ["--config", config] if config else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_gold(folder / "gold.jsonl")
        for n in sizes:
            write_candidates(folder / f"{n}.jsonl", n)
        first = [judged(folder, n, judge, options) for n in sizes]
        again = judged(folder, sizes[1], judge, options)
    print(f"cts judge --judge {judge}")
    for n, (cpu_s, wall_s, peak_mb) in [*zip(sizes, first, strict=True), (sizes[1], again)]:
        print(f"  {n:>9,} candidates {cpu_s:>8.1f} s CPU {wall_s:>8.1f} s {peak_mb:>7.0f} MB")
    print(f"  the last line is the same command typed again; growth {first[1][2] - first[0][2]:.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
