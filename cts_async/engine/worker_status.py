"""How things stand with one of the processes that share the work, for whoever looks on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

WorkerState = Literal["starting", "working", "idle", "lost", "ended"]
"""Not heard of yet; has work in hand; has none; died or cut off; done, and gone in order."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """Numbers of one moment. `ended` and `calls` only ever grow: who asks twice knows the pace."""

    name: str
    """No two of a run's workers have the same."""
    host: str
    """Where it runs; "" as long as nobody knows."""
    pid: int
    state: WorkerState
    in_hand: int = 0
    """Pieces that it has and that have not ended."""
    ended: int = 0
    """Pieces that it has finished."""
    calls: int = 0
    """Calls that it has made: what was remembered is none."""
    heard_s: float = 0.0
    """Seconds since its last word."""
    note: str = ""
    """Why it is lost, or what a person should know of it besides; "" for nothing."""


def census(workers: Iterable[WorkerStatus]) -> dict[str, int]:
    """How many workers a session had, on how many hosts, and how many it lost besides: for a run's manifest.

    One that has not started is none.
    """
    everyone = list(workers)
    there = [worker for worker in everyone if worker.state not in ("starting", "lost")]
    return {
        "workers": len(there),
        "hosts": len({worker.host for worker in there}),
        "lost": sum(worker.state == "lost" for worker in everyone),
    }
