"""`LiveFile`s written by hand, for what draws, merges and reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

from cts_async.watch.live import LiveFile, LiveLane, LivePart, LiveWorker


def part(name: str, done: int = 0, expected: int = 10, **fields: Any) -> LivePart:
    """A bar at the beginning, but for `fields`."""
    usual: dict[str, Any] = {
        "name": name,
        "n_expected": expected,
        "n_done": done,
        "n_failed": 0,
        "eta_s": None,
        "mean": None,
        "mean_low": None,
        "mean_high": None,
        "n_scored": 0,
        "calls": 0,
        "replayed": 0,
        "retries": 0,
        "tokens": 0,
        "note": "",
        "smoke_test": False,
    }
    return cast("LivePart", usual | fields)


def scored(mean: float, half: float, n: int = 5) -> dict[str, Any]:
    """The fields of a mean and its interval."""
    return {"mean": mean, "mean_low": mean - half, "mean_high": mean + half, "n_scored": n}


def lane(name: str, **fields: Any) -> LiveLane:
    """An idle provider without known limits, but for `fields`."""
    usual: dict[str, Any] = {
        "name": name,
        "in_flight": 0,
        "waiting": 0,
        "places": 8,
        "calls_per_min": 0.0,
        "calls_allowed": None,
        "tokens_per_min": 0.0,
        "tokens_allowed": None,
        "answers_429": 0,
        "paused_s": 0.0,
        "open_s": None,
        "reason": "",
    }
    return cast("LiveLane", usual | fields)


def worker(name: str, **fields: Any) -> LiveWorker:
    """A worker on node-a that has just spoken, but for `fields`."""
    usual: dict[str, Any] = {
        "name": name,
        "host": "node-a",
        "pid": 4242,
        "state": "working",
        "in_hand": 8,
        "done": 120,
        "calls": 240,
        "calls_per_min": 180.0,
        "heard_s": 0.1,
        "note": "",
    }
    return cast("LiveWorker", usual | fields)


def cluster(workers: Sequence[LiveWorker], wanted: int, address: str = "") -> dict[str, Any]:
    """The fields of a command that shares its work."""
    return {"workers": list(workers), "workers_wanted": wanted, "cluster": address}


def live(parts: Sequence[LivePart], lanes: Sequence[LiveLane] = (), **fields: Any) -> LiveFile:
    """What this process says after a minute, of those parts."""
    sums = {
        name: sum(cast("dict[str, Any]", one)[name] for one in parts)
        for name in ("n_expected", "n_done", "n_failed", "calls", "replayed", "retries", "tokens")
    }
    usual: dict[str, Any] = {
        "pid": os.getpid(),
        "time": 1060.0,
        "started": 1000.0,
        **sums,
        "eta_s": None,
        "mean": None,
        "mean_low": None,
        "mean_high": None,
        "n_scored": 0,
        "spent_usd": 0.0,
        "spent_calls": 0,
        "spent_tokens": 0.0,
        "max_usd": None,
        "max_calls": None,
        "max_tokens": None,
        "note": "",
        "lanes": list(lanes),
        "parts": list(parts),
    }
    return cast("LiveFile", usual | fields)
