"""Drives a planned piece of work to its end, showing progress; an early stop is a result here."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from rich.console import Console

from cts_async.cli.loop import run_async
from cts_async.cli.progress import shown
from cts_async.engine.events import Events
from cts_async.errors import RunStopped

Plan = TypeVar("Plan")
Work = Callable[[Plan, Mapping[str, str], Events], Awaitable[None]]


def drive(work: Work[Plan], plan: Plan, totals: Mapping[str, int], *, quiet: bool) -> RunStopped | None:
    """Run `work(plan, environment, events)`. `totals` are instances by run; gives why it stopped."""
    with shown(Console(stderr=True), totals, quiet=quiet) as progress:
        try:
            run_async(work, plan, os.environ, Events() if quiet else Events(progress))
        except RunStopped as reason:
            return reason
    return None
