"""`cts_async/scorer.py` over 1,000,000 judged nuggets, beside reading the same lines and no more.

Whole processes, start-up included, the median of interleaved rounds: JSON Lines beside `orjson.loads` of every
line, CSV with a row for each nugget beside `csv.reader`.
"""

from __future__ import annotations

import csv
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson

from benchmarks.shared.process import ROOT, Spent, interleaved, median_cpu_s, spent_by
from benchmarks.shared.result import Result, Row

ITEMS, NUGGETS, ROUNDS = 100_000, 10, 5
READ_JSON = "import orjson, sys\nfor line in open(sys.argv[1], 'rb'): orjson.loads(line)"
READ_CSV = "import csv, sys\nfor row in csv.reader(open(sys.argv[1], newline='')): pass"


def items() -> Iterator[dict[str, object]]:
    """Judged answers as `cts judge` writes them, seeded."""
    rng = random.Random(0)
    for i in range(ITEMS):
        nuggets = [
            {"id": f"N{n}", "weight": rng.randint(1, 3), "coverage": rng.choice(("full", "partial", "none"))}
            for n in range(1, NUGGETS + 1)
        ]
        yield {"id": f"q{i:06d}", "nuggets": nuggets}


def write(jsonl: Path, table: Path) -> None:
    with jsonl.open("wb") as lines, table.open("w", newline="") as rows:
        writer = csv.writer(rows)
        writer.writerow(("id", "nugget_id", "weight", "coverage"))
        for item in items():
            lines.write(orjson.dumps(item) + b"\n")
            writer.writerows((item["id"], *nugget.values()) for nugget in item["nuggets"])


def bench() -> Result:
    with tempfile.TemporaryDirectory() as folder:
        jsonl, table = Path(folder) / "per_item.jsonl", Path(folder) / "nuggets.csv"
        write(jsonl, table)

        def python(*arguments: object) -> Spent:
            return spent_by([sys.executable, *map(str, arguments)], cwd=ROOT)

        work = {
            "jsonl": lambda: python("-m", "cts_async.scorer", "--json", jsonl),
            "orjson": lambda: python("-c", READ_JSON, jsonl),
            "csv": lambda: python("-m", "cts_async.scorer", "--json", table),
            "reader": lambda: python("-c", READ_CSV, table),
        }
        runs = interleaved(ROUNDS, work)
    means = {name: json.loads(runs[name][0].printed)[0]["mean"] for name in ("jsonl", "csv")}
    ours, theirs = median_cpu_s(runs["jsonl"]), median_cpu_s(runs["orjson"])
    csv_ours, csv_theirs = median_cpu_s(runs["csv"]), median_cpu_s(runs["reader"])
    clock_s = {name: statistics.median(run.wall_s for run in runs[name]) for name in ("jsonl", "csv")}
    return Result(
        f"scorer: {ITEMS:,} answers x {NUGGETS} nuggets, median of {ROUNDS} interleaved rounds",
        [
            Row("JSON Lines, s on the clock", clock_s["jsonl"], "<=", 5.0, 2),
            Row(
                "CPU / orjson.loads of every line",
                ours / theirs,
                "<=",
                5.0,
                2,
                f"{ours:.2f} s / {theirs:.2f} s",
            ),
            Row("CSV, s on the clock", clock_s["csv"], "<=", 5.0, 2),
            Row(
                "CPU / csv.reader",
                csv_ours / csv_theirs,
                "",
                None,
                2,
                f"{csv_ours:.2f} s / {csv_theirs:.2f} s",
            ),
            Row("difference of the two means", abs(means["jsonl"] - means["csv"]), "=", 0.0, 6),
        ],
    )
