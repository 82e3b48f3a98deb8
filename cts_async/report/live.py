"""`live.json`: the state of the process that writes a run, replaced once a second, for whoever watches.

The file is removed when the process ends. A killed process leaves it behind; its timestamp and pid tell.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import (
    Any,
    Final,
    NotRequired,  # pydantic refuses that of Python 3.11
    TypeGuard,
    cast,
)

import orjson
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from cts_async.engine.run_dir import json_bytes
from cts_async.errors import CTSError
from cts_async.safe_files import replace_file

LIVE: Final = "live.json"
STALE_S: Final = 30.0
"""A process that has not written for so long is gone."""


class LiveLane(TypedDict):
    """The current state of a provider account."""

    name: str
    in_flight: int
    waiting: int
    places: int | None
    """Limit of requests in flight."""
    calls_per_min: float
    """Sent in the last minute."""
    calls_allowed: float | None
    tokens_per_min: float
    """Charged in the last minute."""
    tokens_allowed: float | None
    answers_429: int
    paused_s: float
    """Seconds until requests are sent again after a 429; 0 if none are held back."""
    open_s: float | None
    """Seconds until the next probe while the circuit is open; None while it is closed."""
    reason: str
    """Why the circuit is open; if it is closed, why the provider is not used any more; else ""."""


class LiveWorker(TypedDict):
    """The current state of a worker process, on this machine or another."""

    name: str
    host: str
    """"" until known."""
    pid: int
    state: str
    """starting, working, idle, lost or ended."""
    in_hand: int
    """Unfinished jobs it was given."""
    done: int
    """Finished jobs."""
    calls: int
    calls_per_min: float
    """In the last minute."""
    heard_s: float
    """Seconds since its last message."""
    note: str
    """Why it was lost, or another remark; "" for none."""


class LiveCluster(TypedDict, total=False):
    """Present only if the command has workers."""

    workers: list[LiveWorker]
    workers_wanted: int
    """Number of workers requested."""
    cluster: str
    """Address of the cluster; "" for this machine."""


class Counts(TypedDict):
    """What is summed over the parts of a process."""

    n_expected: int
    n_done: int
    """Finished instances, failed ones included."""
    n_failed: int
    eta_s: float | None
    """Seconds left at this process's own pace; None while unknown."""
    calls: int
    replayed: int
    retries: int
    tokens: int


class _State(Counts):
    mean: float | None
    """By the judge that gives the score."""
    mean_low: float | None
    mean_high: float | None
    """95 % interval of the mean: Student's t over the instances."""
    n_scored: int
    note: str
    """Why it waits, or why it ends early; "" for nothing."""


class LivePart(_State):
    """The work of one command on one system, or with one judge: a bar on the terminal."""

    name: str
    smoke_test: bool


class LiveFile(_State, LiveCluster):
    """The state of the process that writes this run.

    Counts are this process's, except for instances (all of the run) and amounts of a budget (all sessions).
    """

    pid: int
    time: float
    """Seconds since 1970."""
    started: float
    spent_usd: float
    """With a budget, of all sessions of the command; else of this process, as far as prices are known."""
    unpriced_models: NotRequired[int]
    """Models of the command without a price: their dollars are unknown, and in no `spent_usd`."""
    spent_calls: int
    spent_tokens: float
    """Amounts of a budget, of all sessions of the command; 0 without a budget."""
    max_usd: float | None
    max_calls: int | None
    max_tokens: float | None
    lanes: list[LiveLane]
    """All of the process's."""
    parts: list[LivePart]
    """The parts of the process's work that go into this directory; one for each judge."""


def sum_of(parts: Sequence[Counts]) -> Counts:
    """Counts of several parts; their time left is that of the slowest, unknown if any is unknown."""
    times = [part["eta_s"] for part in parts]
    known = [seconds for seconds in times if seconds is not None]
    return {
        "n_expected": sum(part["n_expected"] for part in parts),
        "n_done": sum(part["n_done"] for part in parts),
        "n_failed": sum(part["n_failed"] for part in parts),
        "eta_s": max(known, default=None) if len(known) == len(times) else None,
        "calls": sum(part["calls"] for part in parts),
        "replayed": sum(part["replayed"] for part in parts),
        "retries": sum(part["retries"] for part in parts),
        "tokens": sum(part["tokens"] for part in parts),
    }


def write_live(directory: Path, live: LiveFile) -> None:
    """Replace the file. A failure is ignored: it must not disturb the run."""
    with suppress(CTSError):
        replace_file(directory / LIVE, json_bytes(live), sync=False)


def remove_live(directory: Path) -> None:
    """Remove the file, if it is there."""
    with suppress(OSError):
        (directory / LIVE).unlink()


def read_live(directory: Path, clock: Callable[[], float] = time.time) -> LiveFile | None:
    """The file's contents, unchecked but for pid and time; None if there is none, or it was left behind."""
    try:
        live = orjson.loads((directory / LIVE).read_bytes())
    except (OSError, ValueError):
        return None
    return cast("LiveFile", live) if is_current(live, clock) else None


def is_current(live: Any, clock: Callable[[], float] = time.time) -> bool:
    """Whether the contents of a `live.json` are recent, and their process exists."""
    try:
        pid, written = int(live["pid"]), float(live["time"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return False
    return abs(clock() - written) <= STALE_S and process_exists(pid)


def is_live(value: object) -> TypeGuard[LiveFile]:
    """Whether a JSON value has the fields of `LiveFile`, and their types: other versions write other files."""
    try:
        _file().validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


@cache
def _file() -> TypeAdapter[LiveFile]:
    return TypeAdapter(LiveFile)


def process_exists(pid: int) -> bool:
    """Whether this machine has a process of this number."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def compact(value: float) -> str:
    """In full below 10,000, else `short`."""
    return f"{value:,.0f}" if value < 9_999.5 else short(value)


def short(value: float) -> str:
    """At most five characters: `950`, `1.2k`, `12k`, `3.4M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            digits = 1 if value < 9.95 * size else 0
            return f"{value / size:.{digits}f}{unit}"
    return f"{value:.0f}"
