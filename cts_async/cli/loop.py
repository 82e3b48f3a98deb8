"""Runs async code on the fastest loop there is, with a garbage collector that fits it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import anyio

from cts_async.engine.processes import collect_seldom, require_open_files

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def run_async(main: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run `main(*args)` to its end on uvloop (asyncio's own loop on Windows).

    Raises UsageError where this process may open too few files for that.
    """
    require_open_files()
    collect_seldom()
    return anyio.run(main, *args, backend_options={"use_uvloop": sys.platform != "win32"})
