"""The processes that share a command's work as `live.json` has them, with their pace of the last minute."""

from __future__ import annotations

from cts_async.engine.events import WorkersInUse
from cts_async.engine.worker_status import WorkerStatus
from cts_async.report.live import LiveCluster, LiveWorker
from cts_async.report.pace import LastMinute


class WorkersShown:
    """Looks with `seen`; `now` is in seconds and never goes back."""

    def __init__(self, told: WorkersInUse) -> None:
        self._told = told
        self._calls: dict[str, LastMinute] = {}

    def seen(self, now: float) -> LiveCluster:
        """How things stand, in the order in which they are told."""
        statuses = self._told.ask()
        # One that is seen for the first time did all that it did since the last look.
        self._calls = {one.name: self._calls.get(one.name) or LastMinute(now, 0) for one in statuses}
        workers = [_shown(one, self._calls[one.name].grown(now, one.calls)) for one in statuses]
        return {"workers": workers, "workers_wanted": self._told.wanted, "cluster": self._told.address}


def _shown(status: WorkerStatus, calls_per_min: float) -> LiveWorker:
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
