"""Runs a `cts` command and samples where its CPU goes: `python -m benchmarks.shared.sampler OUT ARGUMENTS...`.

Every millisecond of CPU the stack is looked at; the innermost frame in a room of ours or in a library
that is told apart gets the sample, and what the loop does in C falls to whom it calls next. Garbage
collection is timed apart, as it strikes whoever allocates.
OUT gets `{"cpu_s": ..., "gc_s": ..., "samples": {place: n}}`.
"""

from __future__ import annotations

import atexit
import gc
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from benchmarks.shared.process import ROOT

EVERY_S = 0.001
PACKAGE = str(ROOT / "cts_async") + "/"
LIBRARIES = ("aiohttp", "yarl", "multidict", "anyio", "aiolimiter", "rich", "typer", "pydantic")


def place_of(frame: FrameType | None) -> str:
    """`llm/http`, `aiohttp`, `imports`, or `event loop` where nothing of interest is on the stack."""
    innermost = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" in file:
            return "imports"
        innermost = innermost or named_place(file)
        frame = frame.f_back
    return innermost or "event loop"


def named_place(file: str) -> str:
    """The room of ours, or the library that is told apart, to which a source file belongs; "" for any other."""
    if file.startswith(PACKAGE):
        room = file.removeprefix(PACKAGE).removesuffix(".py")
        # These only start the loop: what is sampled there is the loop at work, in C.
        return "" if room in ("cli/drive", "cli/main", "cli/judge") else room
    return next((name for name in LIBRARIES if f"/{name}/" in file), "")


def main(out: Path, arguments: list[str]) -> None:
    samples: Counter[str] = Counter()
    gc_s = 0.0
    began = 0.0

    def collecting(phase: str, info: dict[str, int]) -> None:
        nonlocal gc_s, began
        if phase == "start":
            began = time.process_time()
        else:
            gc_s += time.process_time() - began

    def tell() -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        found = {"cpu_s": time.process_time(), "gc_s": gc_s, "samples": dict(samples)}
        out.write_text(json.dumps(found))

    gc.callbacks.append(collecting)
    atexit.register(tell)
    signal.signal(signal.SIGPROF, lambda _, frame: samples.update([place_of(frame)]))
    signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
    from cts_async.cli.main import main as cts

    sys.argv = ["cts", *arguments]
    cts()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
