"""`live.json`: the state of the process that writes a run, replaced once a second, for whoever watches.

The file is removed when the process ends. A killed process leaves it behind; its timestamp tells.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypedDict, cast, get_args, get_origin, get_type_hints, is_typeddict

import orjson

from cts_async.engine.run_dir import json_bytes
from cts_async.errors import CTSError
from cts_async.safe_files import replace_file


class Lane(TypedDict):
    """A provider's account just now."""

    name: str
    in_flight: int
    waiting: int
    places: int | None
    """How many may be in flight."""
    calls_per_min: float
    """Sent in the last minute."""
    calls_allowed: float | None
    tokens_per_min: float
    """Charged in the last minute."""
    tokens_allowed: float | None
    answers_429: int
    paused_s: float
    """How long nobody sends, after a 429; 0 else."""
    open_s: float | None
    """How long until the next probe while its circuit is open; None while it is closed."""
    reason: str
    """What the outage began with; where no circuit is open, why the provider is gone for good; "" else."""


class LiveWorker(TypedDict):
    """One of the processes that share the work, on this machine or another, just now."""

    name: str
    host: str
    """"" as long as nobody knows."""
    pid: int
    state: str
    """starting, working, idle, lost or ended."""
    in_hand: int
    """Pieces of work, most of them instances, that it has and that have not ended."""
    done: int
    """Pieces that it has finished."""
    calls: int
    calls_per_min: float
    """In the last minute."""
    streamed: bool
    """Whether it does not share the storage, and sends each step to be written."""
    heard_s: float
    """Seconds since its last word."""
    note: str
    """Why it is lost, or what a person should know of it besides; "" for nothing."""


class LiveCluster(TypedDict, total=False):
    """What stands there only where work is shared with other processes; all of the command's."""

    workers: list[LiveWorker]
    workers_wanted: int
    """How many there are to be at once."""
    cluster: str
    """Where they are found; "" for this machine."""


class _Doing(TypedDict):
    """How far work is, of one system or of all that goes into a directory."""

    n_expected: int
    n_done: int
    """Instances that ended, failures among them."""
    n_failed: int
    eta_s: float | None
    """Seconds that it will take yet at this process's own pace; None until that can be told."""
    mean: float | None
    """Of the judge that gives the score."""
    mean_low: float | None
    mean_high: float | None
    """95 % interval of the mean: Student's t over the instances."""
    n_scored: int
    calls: int
    replayed: int
    retries: int
    tokens: int
    note: str
    """Why it does not go on, or why it ends early; "" for nothing."""


class LivePart(_Doing):
    """What one command does for one system, or with one judge: a bar on the terminal."""

    name: str
    smoke_test: bool


class Live(_Doing, LiveCluster):
    """What the process that writes this run says about itself, some seconds old at most.

    Counts are of this process, but for instances (all there are in the run) and what is spent of a budget.
    """

    pid: int
    time: float
    """Seconds since 1970."""
    started: float
    spent_usd: float
    """Where there is a budget, of all sessions of the command; else by this process, as far as prices are known."""
    max_usd: float | None
    max_calls: int | None
    max_tokens: float | None
    lanes: list[Lane]
    """All of the process's."""


class LiveFile(Live):
    """All of `live.json`: with what a terminal shows besides."""

    spent_calls: int
    spent_tokens: float
    """What a budget counts, of all sessions of the command; 0 without one."""
    parts: list[LivePart]
    """What of the process's work goes into this directory; for several judges one for each."""


def has_shape(value: Any, shape: Any) -> bool:
    """Whether `value` is a `shape`: a TypedDict (with more fields, perhaps), a list, dict or union, or a plain type.

    Fields of a TypedDict that is not total may be absent.
    """
    if is_typeddict(shape):
        hints = get_type_hints(shape)
        return isinstance(value, dict) and all(
            has_shape(value[name], hint) if name in value else name in shape.__optional_keys__
            for name, hint in hints.items()
        )
    if get_origin(shape) is list:
        return isinstance(value, list) and all(has_shape(one, get_args(shape)[0]) for one in value)
    if get_origin(shape) is dict:
        return isinstance(value, dict) and all(has_shape(one, get_args(shape)[1]) for one in value.values())
    if get_origin(shape) is UnionType:
        return any(has_shape(value, one) for one in get_args(shape))
    if shape in (int, float):
        return isinstance(value, int if shape is int else int | float) and not isinstance(value, bool)
    return isinstance(value, NoneType if shape is None else shape)


LIVE: Final = "live.json"
STALE_S: Final = 30.0
"""A process that has said nothing for so long has gone."""


def write_live(directory: Path, live: Live) -> None:
    """Replace the file. Nothing that goes wrong here may disturb a run: it is passed over."""
    with suppress(CTSError):
        replace_file(directory / LIVE, json_bytes(live), sync=False)


def remove_live(directory: Path) -> None:
    """Nothing is going on in the directory any more."""
    with suppress(OSError):
        (directory / LIVE).unlink()


def read_live(directory: Path, clock: Callable[[], float] = time.time) -> Live | None:
    """What is going on there; None where nothing is, or whoever said so has gone."""
    try:
        live = orjson.loads((directory / LIVE).read_bytes())
    except (OSError, ValueError):
        return None
    return cast("Live", live) if holds(live, clock) else None


def holds(live: Any, clock: Callable[[], float] = time.time) -> bool:
    """Whether what a `live.json` says is so: by a process that lives and has spoken lately."""
    try:
        pid, said = int(live["pid"]), float(live["time"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return False
    return abs(clock() - said) <= STALE_S and alive(pid)


def alive(pid: int) -> bool:
    """Whether there is such a process on this machine."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
