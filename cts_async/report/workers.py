"""The workers of a cluster run: their part of `live.json`, and their lines on screens and in `cts status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from cts_async.engine.events import WorkersInUse, WorkerStatus
from cts_async.report.live import LiveCluster, LiveWorker, compact
from cts_async.report.output import plain
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
        room = min(FEW, room)
    n_lost = min(FEW, room - len(there), len(lost))
    return there + lost[len(lost) - n_lost :]


def worker_count(live: LiveCluster) -> str:
    """`8 workers`, or `6 of 8 workers` while some have not started or were lost."""
    wanted = live.get("workers_wanted", 0)
    there = sum(worker["state"] not in ("starting", "lost") for worker in workers_of(live))
    return f"{there} of {_n(wanted, 'worker')}" if there < wanted else _n(there, "worker")


def workers_line(live: LiveCluster) -> str:
    """All workers: `62 of 64 workers on 8 hosts, 2 lost; 412 tasks in hand`, the most important parts first."""
    there = [worker for worker in workers_of(live) if worker["state"] != "lost"]
    hosts = {worker["host"] for worker in there if worker["host"]}
    states = Counter("silent" if is_silent(worker) else worker["state"] for worker in workers_of(live))
    where = f" on {_n(len(hosts), 'host')}" if hosts else ""
    line = worker_count(live) + (where if live.get("cluster") else " on this machine")
    for state in ("lost", "silent", "starting"):
        line += f", {states[state]} {state}" if states[state] else ""
    line += f"; {_n(sum(worker['in_hand'] for worker in there), 'task')} in hand"
    for state in ("idle", "ended"):
        line += f", {states[state]} {state}" if states[state] else ""
    return f"{line}; {live['cluster']}" if live.get("cluster") else line


def worker_state(worker: LiveWorker) -> str:
    """A worker's state, with its note."""
    state = f"silent for {worker['heard_s']:.0f} s" if is_silent(worker) else worker["state"]
    return f"{state}: {worker['note']}" if worker["note"] else state


def worker_section(live: LiveCluster, room: int) -> Iterator[Text]:
    """The same as a table: at most `room` lines, but one at least; none where there are no workers."""
    if not workers_of(live):
        return
    yield Text(plain(workers_line(live)))
    listed, elsewhere = one_by_one(live, room - 2), bool(live.get("cluster"))
    if listed:
        where = "host" if elsewhere else "pid"
        yield Text(f"worker      {where:<12}  in hand     done  calls/min  state", "dim")
    for one in listed:
        where = plain(one["host"]) if elsewhere else f"{one['pid']}"
        numbers = f"{one['in_hand']:>7}  {compact(one['done']):>7}  {compact(one['calls_per_min']):>9}"
        line = f"{plain(one['name']):<10.10}  {where:<12.12}  {numbers}  {plain(worker_state(one))}"
        yield Text(line, "red" if one["state"] == "lost" else "yellow" if is_silent(one) else "")


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
