"""The workers of a cluster run: their part of `live.json`, and how screens, plain lines and `cts status` put it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from rich.cells import cell_len

from cts_async.engine.events import WorkersInUse
from cts_async.engine.worker_status import WorkerStatus
from cts_async.report.live import LiveCluster, LiveWorker
from cts_async.report.pace import LastMinute

SILENT_S: Final = 5.0
"""A worker is silent after this time: a healthy one reports several times a second."""
MANY: Final = 64
"""So many workers are not listed one by one, but for silent and lost ones."""
FEW: Final = 3
"""Silent and lost workers that are listed; all are counted."""


def workers_of(live: LiveCluster) -> list[LiveWorker]:
    """All workers that there are or were; empty without a cluster."""
    return live.get("workers", [])


def is_silent(worker: LiveWorker) -> bool:
    """Whether a worker should have reported by now."""
    return worker["state"] in ("working", "idle") and worker["heard_s"] > SILENT_S


def one_by_one(live: LiveCluster, room: int) -> list[LiveWorker]:
    """The workers that are listed in `room` lines: all, with the last lost ones; if too many, some that are not well."""
    room = max(0, room)
    there = [worker for worker in workers_of(live) if worker["state"] != "lost"]
    lost = [worker for worker in workers_of(live) if worker["state"] == "lost"]
    if len(there) >= MANY or len(there) > room:
        there = [worker for worker in there if is_silent(worker)][: min(FEW, room)]
        return there + _last(lost, min(FEW, room) - len(there))
    return there + _last(lost, min(FEW, room - len(there)))


def _last(workers: Sequence[LiveWorker], n: int) -> list[LiveWorker]:
    return list(workers[-n:]) if n > 0 else []


def worker_count(live: LiveCluster) -> str:
    """`8 workers`, or `6 of 8 workers` while some have not started or were lost."""
    wanted = live.get("workers_wanted", 0)
    there = sum(worker["state"] not in ("starting", "lost") for worker in workers_of(live))
    if there < wanted:
        return f"{there} of {_n(wanted, 'worker')}"
    return _n(there, "worker")


def workers_line(live: LiveCluster, width: float = inf) -> str:
    """All workers: `62 of 64 workers on 8 hosts, 2 lost; 412 tasks in hand`, and less important parts that fit.

    Only the first part may be longer than `width`.
    """
    line = worker_count(live) + _place(live)
    for piece in _further(live):
        if cell_len(line) + cell_len(piece) <= width:
            line += piece
    return line


def _place(live: LiveCluster) -> str:
    if not live.get("cluster"):
        return " on this machine"
    hosts = {worker["host"] for worker in workers_of(live) if worker["state"] != "lost" and worker["host"]}
    return f" on {_n(len(hosts), 'host')}" if hosts else ""


def _further(live: LiveCluster) -> Iterator[str]:
    """Further parts of the line, the most important first."""
    workers = workers_of(live)
    there = [worker for worker in workers if worker["state"] != "lost"]
    states = Counter(worker["state"] for worker in workers)
    if states["lost"]:
        replaced = " and replaced" if len(there) >= live.get("workers_wanted", 0) else ""
        yield f", {states['lost']} lost{replaced}"
    if silent := sum(map(is_silent, there)):
        yield f", {silent} silent"
    if states["starting"]:
        yield f", {states['starting']} starting"
    yield f"; {_n(sum(worker['in_hand'] for worker in there), 'task')} in hand"
    for state in ("idle", "ended"):
        if states[state]:
            yield f", {states[state]} {state}"
    if live.get("cluster"):
        yield f"; {live['cluster']}"


def worker_state(worker: LiveWorker) -> str:
    """A worker's state, with its note."""
    state = f"silent for {worker['heard_s']:.0f} s" if is_silent(worker) else worker["state"]
    return f"{state}: {worker['note']}" if worker["note"] else state


def worker_lines(live: LiveCluster) -> Iterator[str]:
    """A plain line for all workers, and one for each; none without a cluster."""
    if not workers_of(live):
        return
    yield workers_line(live)
    for worker in one_by_one(live, MANY):
        where = ":".join([worker["host"], str(worker["pid"])] if worker["host"] else [])
        done = f"{worker['in_hand']} in hand, {worker['done']} done, {worker['calls_per_min']:,.0f} calls/min"
        yield f"{worker['name']}{f' ({where})' if where else ''}: {worker_state(worker)}, {done}"


def _n(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


class WorkersView:
    """The workers' part of `live.json`, with each worker's pace of the last minute."""

    def __init__(self, event: WorkersInUse) -> None:
        self._event = event
        self._calls: dict[str, LastMinute] = {}

    def live(self, now: float) -> LiveCluster:
        """The state at `now`, in seconds that never decrease."""
        statuses = self._event.ask()
        # A worker that is new made all its calls since the last look.
        self._calls = {one.name: self._calls.get(one.name) or LastMinute(now, 0) for one in statuses}
        workers = [_live_worker(one, self._calls[one.name].grown(now, one.calls)) for one in statuses]
        return {"workers": workers, "workers_wanted": self._event.wanted, "cluster": self._event.address}


def _live_worker(status: WorkerStatus, calls_per_min: float) -> LiveWorker:
    return {
        "name": status.name,
        "host": status.host,
        "pid": status.pid,
        "state": status.state,
        "in_hand": status.in_hand,
        "done": status.ended,
        "calls": status.calls,
        "calls_per_min": calls_per_min,
        "heard_s": status.heard_s,
        "note": status.note,
    }
