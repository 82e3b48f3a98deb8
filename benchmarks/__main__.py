"""`python -m benchmarks [NAME...]`: run benchmarks and print their tables; without names, the quick ones."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from datetime import date

from benchmarks.shared.result import Result

QUICK = ("rates", "journal", "journal_size", "cpu", "in_flight", "scorer")
BY_NAME = (
    "roles",
    "judging",
    "judge_memory",
    "where",
    "instructions",
    "peers",
    "transport",
    "crash",
    "batch_crash",
    "iteration_crash",
    "interactcomp",
    "reuse",
    "outage",
    "faults",
    "refusals",
    "matching",
    "agent_switches",
    "coverage",
    "cached_tokens",
    "power",
    "viewer",
    "workers",
    "scale",
    "shared_limit",
    "cluster_crash",
)
"""Minutes long, or in need of other packages: run when asked for."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*QUICK, *BY_NAME)))
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    asked = parser.parse_args()
    unknown = set(asked.names) - {*QUICK, *BY_NAME}
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    results = {}
    for name in asked.names or QUICK:
        results[name] = run(name)
        if not asked.json:
            print(results[name].text(), end="\n\n", flush=True)
    if asked.json:
        found = {name: result.json() for name, result in results.items()}
        print(json.dumps({"date": f"{date.today()}", "machine": machine(), "results": found}, indent=2))


def run(name: str) -> Result:
    """The benchmark `benchmarks/NAME.py` has one entrance, `bench()`."""
    result: Result = importlib.import_module(f"benchmarks.{name}").bench()
    return result


def machine() -> str:
    """Processor, cores and versions, as the results table has them."""
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
