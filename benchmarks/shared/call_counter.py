"""Runs a `cts` command and counts its function calls: `python -m benchmarks.shared.call_counter OUT ARGUMENTS...`.

A Python function counts where it stands, a function in C where it is called from. Unlike CPU time the number is nearly
the same on every machine and under any load: only the turns of the event loop depend on when replies arrive.
OUT gets `{place: n}`, with the places of the sampler, "dataclasses" for the constructors that it generates, and
"event loop" for what only the loop's C code calls.
"""

from __future__ import annotations

import atexit
import cProfile
import json
import sys
from collections import Counter
from pathlib import Path

from benchmarks.shared.sampler import named_place


def main(out: Path, arguments: list[str]) -> None:
    profile = cProfile.Profile()

    def write_counts() -> None:
        profile.disable()
        out.write_text(json.dumps(calls_by_place(profile)))

    atexit.register(write_counts)
    from cts_async.cli.main import main as cts

    sys.argv = ["cts", *arguments]
    profile.enable()
    cts()


def calls_by_place(profile: cProfile.Profile) -> dict[str, int]:
    """All calls that were profiled, by place."""
    counts: Counter[str] = Counter()
    n_calls = 0
    for entry in profile.getstats():
        n_calls += entry.callcount
        if isinstance(entry.code, str):
            continue  # a function in C: among the calls of its callers
        file = entry.code.co_filename
        place = "dataclasses" if file == "<string>" else named_place(file) or "other modules"
        counts[place] += entry.callcount
        for called in entry.calls or ():
            if isinstance(called.code, str):
                counts[place] += called.callcount
    counts["event loop"] = n_calls - counts.total()
    return dict(counts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
