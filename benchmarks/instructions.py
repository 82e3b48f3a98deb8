"""Instructions for one more judged candidate: of `cts judge`, the bare client and the script by hand, as `cpu` has them.

On a machine that others use, CPU times of equal runs differ by a half; instructions differ by less than 1 %. They are
those of the process alone, without the kernel's, and all count the same, whether their data is in a cache or not. So
they show what a change saves, and what a call takes beside that of another client, but not its microseconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.cpu import BARE_GOAL, SCRIPT_GOAL
from benchmarks.roles import function_judge
from benchmarks.shared.endpoint import Endpoint, static_endpoint, trusted
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import CTS, ROOT, ours
from benchmarks.shared.result import Result, Row

LARGE, SMALL, IN_FLIGHT = 1_400, 600, 64
TITLE = (
    f"instructions: one more candidate, {IN_FLIGHT} in flight, replies as providers send them, in thousands"
)
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def bench() -> Result:
    if shutil.which("valgrind") is None:
        return Result(TITLE, skipped="needs valgrind (apt-get install valgrind)")
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    rows = [*_compared(world, endpoint.provider, "")]
    with trusted(), static_endpoint(tls=True) as secure:
        rows += _compared(world, secure.provider, "TLS: ")
    return Result(TITLE, rows)


def _compared(world: JudgeWorld, url: str, prefix: str) -> Iterator[Row]:
    bodies = world.bodies(LARGE)
    judge = _one_more(partial(_judge, world, url))
    bare = _one_more(partial(_client, "bare", url, bodies))
    script = _one_more(partial(_client, "script", url, bodies))
    yield Row(f"{prefix}cts judge", judge)
    if not prefix:
        rereading = _one_more(partial(_judge_rereading, world, url))
        yield Row("cts judge of a file too large to be kept", rereading)
        function = _one_more(partial(_judge, world, url, judge=function_judge(world, SMALL)))
        yield Row("cts judge by a function with one llm call", function)
    yield Row(f"{prefix}bare client", bare)
    yield Row(f"{prefix}script by hand", script)
    yield Row(f"{prefix}cts judge / bare client", judge / bare, "<=", BARE_GOAL, 2)
    yield Row(f"{prefix}cts judge / script by hand", judge / script, "<=", SCRIPT_GOAL, 2)


def _one_more(instructions_for: Callable[[int], int]) -> float:
    """Thousands of instructions for one more candidate: the difference of two sizes, start-up taken out."""
    return (instructions_for(LARGE) - instructions_for(SMALL)) / (LARGE - SMALL) / 1000


def _judge(world: JudgeWorld, url: str, n: int, *, judge: str = "static") -> int:
    shutil.rmtree(world.directory / "out", ignore_errors=True)
    return _instructions(world.command(url, n, IN_FLIGHT, judge=judge), world.directory)


def _judge_rereading(world: JudgeWorld, url: str, n: int) -> int:
    shutil.rmtree(world.directory / "out", ignore_errors=True)
    arguments = world.command(url, n, IN_FLIGHT)[len(CTS) :]
    return _instructions(
        [sys.executable, "-m", "benchmarks.shared.nothing_kept", *arguments], world.directory
    )


def _client(module: str, url: str, bodies: Path, n: int) -> int:
    command = [sys.executable, "-m", f"benchmarks.{module}", url, str(bodies), str(n), str(IN_FLIGHT)]
    written = bodies.with_name("script.jsonl")
    written.unlink(missing_ok=True)
    if module == "script":
        command.append(str(written))
    return _instructions(command, ROOT)


def _instructions(command: Sequence[str], folder: Path) -> int:
    """How many instructions a command executes. Raises CalledProcessError."""
    counter = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={os.devnull}"]
    # Dictionaries of strings have the same order in each run.
    variables = ours() | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*counter, *command], cwd=folder, env=variables, capture_output=True, text=True, check=True
    )
    counted = _COUNTED.search(done.stderr)
    assert counted is not None
    return int(counted[1].replace(",", ""))
