"""The processes that share a command's work, in words: the same on a screen, in plain lines, and in another shell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from rich.cells import cell_len

from cts_async.report.live import LiveCluster, LiveWorker

SILENT_S: Final = 5.0
"""One that works says something several times a second."""
MANY: Final = 64
"""So many are never told one by one: only those that are not well."""
FEW: Final = 3
"""Of those that are not well no more are told one by one; all are counted."""


def workers_of(live: LiveCluster) -> list[LiveWorker]:
    """All there are or were; none where the command has no others."""
    return live.get("workers", [])


def is_silent(worker: LiveWorker) -> bool:
    """Whether it should have said something by now."""
    return worker["state"] in ("working", "idle") and worker["heard_s"] > SILENT_S


def one_by_one(live: LiveCluster, room: int) -> list[LiveWorker]:
    """Those with a line of their own where there is room for so many: all that are there, with the last that were lost.

    Where they are too many, some of those that are not well.
    """
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
    """`8 workers`; `6 of 8 workers` where some are not there (yet)."""
    wanted = live.get("workers_wanted", 0)
    there = sum(worker["state"] not in ("starting", "lost") for worker in workers_of(live))
    if there < wanted:
        return f"{there} of {_n(wanted, 'worker')}"
    return _n(there, "worker")


def workers_line(live: LiveCluster, width: float = inf) -> str:
    """All of them: `62 of 64 workers on 8 hosts, 2 lost; 412 pieces in hand`, and less important things that fit.

    Only what stands first may be longer than `width`.
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
    """What there is to say of them besides, the most important first."""
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
    yield f"; {_n(sum(worker['in_hand'] for worker in there), 'piece')} in hand"
    for state in ("idle", "ended"):
        if states[state]:
            yield f", {states[state]} {state}"
    if live.get("cluster"):
        yield f"; {live['cluster']}"


def worker_state(worker: LiveWorker) -> str:
    """What it does, and what a person should know of it."""
    state = f"silent for {worker['heard_s']:.0f} s" if is_silent(worker) else worker["state"]
    return f"{state}: {worker['note']}" if worker["note"] else state


def worker_lines(live: LiveCluster) -> Iterator[str]:
    """A plain line for all of them, and one each; none where there are none."""
    if not workers_of(live):
        return
    yield workers_line(live)
    for worker in one_by_one(live, MANY):
        where = ":".join([worker["host"], str(worker["pid"])] if worker["host"] else [])
        done = f"{worker['in_hand']} in hand, {worker['done']} done, {worker['calls_per_min']:,.0f} calls/min"
        yield f"{worker['name']}{f' ({where})' if where else ''}: {worker_state(worker)}, {done}"


def _n(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
