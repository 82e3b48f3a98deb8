"""Memory of a process and all that it starts, watched while it works."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.02


@dataclass(slots=True)
class Peak:
    """The most that the processes held together at any look, in megabytes; pages that they share count for each."""

    mb: float = 0.0

    def look(self, pid: int) -> None:
        self.mb = max(self.mb, sum(resident_mb(one) for one in family(pid)))


@contextmanager
def watched_memory(pid: int) -> Iterator[Peak]:
    """Look at the process and its descendants every 20 ms."""
    peak, stop = Peak(), threading.Event()

    def look() -> None:
        while not stop.wait(EVERY_S):
            peak.look(pid)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def family(pid: int) -> Iterator[int]:
    """The process and its descendants, as far as they are still there."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = children.read_text().split()
        except OSError:
            continue
        for child in found:
            yield from family(int(child))


def resident_mb(pid: int) -> float:
    """What the process holds now, in megabytes; 0 when it has gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    _, has, rest = status.partition("VmRSS:")
    return int(rest.split()[0]) / 1024 if has else 0.0
