"""CPU of whole processes as the operating system counts it, and rounds that take turns."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
CTS = (sys.executable, "-m", "cts_async.cli.main")
"""The command under test, from this source tree."""


@dataclass(frozen=True, slots=True)
class Spent:
    """A process that has ended: user and system time, seconds on the clock, and what it printed."""

    cpu_s: float
    wall_s: float
    printed: str


class ChildFailed(Exception):
    """A measured process did not end well; the message has the end of what it said."""


def spent_by(command: Sequence[str], *, cwd: Path, environ: Mapping[str, str] | None = None) -> Spent:
    """Run `command` to its end, in this environment unless another is given whole. Raises ChildFailed."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        began = time.monotonic()
        child = subprocess.Popen(
            list(command), cwd=cwd, env=ours() if environ is None else environ, stdout=said, stderr=complained
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            problem = f"exited with {child.returncode}: {_content(complained)[-1500:]}"
            raise ChildFailed(f"{' '.join(command[:4])} ... {problem}")
        return Spent(usage.ru_utime + usage.ru_stime, wall_s, _content(said))


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def ours() -> dict[str, str]:
    """This environment with this source tree first on the path."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def interleaved(rounds: int, work: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Do each piece of work once a round, in turns, so that a busy moment of the machine strikes them all."""
    done: dict[str, list[T]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, piece in work.items():
            done[name].append(piece())
    return done


def median_cpu_s(runs: Sequence[Spent]) -> float:
    return statistics.median(run.cpu_s for run in runs)


def marginal_us(large: Sequence[Spent], n_large: int, small: Sequence[Spent], n_small: int) -> float:
    """CPU us for one more item, start-up taken out: the difference of two sizes' medians."""
    return (median_cpu_s(large) - median_cpu_s(small)) / (n_large - n_small) * 1e6
