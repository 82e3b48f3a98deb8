"""`live.json`: what the process that writes a run says about itself, once a second, for whoever looks on.

It is replaced whole, removed when the process ends, and left behind when that is killed: then its time says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import orjson

from cts_async.engine.run_dir import json_bytes
from cts_async.errors import CTSError
from cts_async.report.live_shapes import Live
from cts_async.safe_files import replace_file

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
