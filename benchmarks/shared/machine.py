"""Whose CPU a command takes, told by the names of the processes beneath this one; and fewer cores for a while."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_EVERY_S = 0.25


@contextmanager
def confined_to(cores: set[int]) -> Iterator[None]:
    """Only these cores for this process and whatever it starts meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Looker(Protocol):
    def look(self) -> None:
        """See what has changed since the last time."""


@dataclass(slots=True)
class Shares:
    """Seconds of CPU by who took them: the first of `names` that occurs in a process's command line."""

    names: Mapping[str, str]
    """What occurs in a command line, and what to call its process."""
    _seen: dict[int, tuple[str, float, float]] = field(default_factory=dict)

    def look(self) -> None:
        """Note what every process beneath this one has taken so far; one that is gone keeps what was seen last."""
        there = dict(processes())
        for pid, (parent, cpu_s, words) in there.items():
            name = next((self.names[part] for part in self.names if part in words), None)
            if name is None:
                continue
            while parent in there and parent != os.getpid():
                parent = there[parent][0]
            # What was seen once belongs here, though its parent may be gone by now.
            if parent == os.getpid() or pid in self._seen:
                first = self._seen.get(pid, (name, cpu_s, cpu_s))[1]
                self._seen[pid] = name, first, cpu_s

    def by_name(self) -> dict[str, float]:
        """Since each was first seen."""
        total: Counter[str] = Counter()
        for name, first, last in self._seen.values():
            total[name] += last - first
        return dict(total)


def processes() -> Iterator[tuple[int, tuple[int, float, str]]]:
    """Of each process on the machine its parent, the seconds of CPU it took, and its command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(folder.name), (int(stat[1]), (int(stat[11]) + int(stat[12])) / TICKS, words)


@contextmanager
def watched(looker: Looker) -> Iterator[None]:
    """Look now and then while the block runs."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_EVERY_S):
            looker.look()

    looker.look()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        looker.look()
