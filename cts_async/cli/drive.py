"""Drives a planned piece of work to its end, showing progress; an early stop is a result here."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from rich.console import Console

from cts_async.cli.loop import run_async
from cts_async.cli.progress import shown
from cts_async.engine.events import Events
from cts_async.errors import RunStopped
from cts_async.report.doing import Doing
from cts_async.report.live_writer import told_live
from cts_async.report.works import Work

Plan = TypeVar("Plan")
Doer = Callable[[Plan, Mapping[str, str], Events], Awaitable[None]]


def drive(doer: Doer[Plan], plan: Plan, works: Sequence[Work], *, quiet: bool) -> RunStopped | None:
    """Run `doer(plan, environment, events)`, which does `works`; gives why it stopped.

    However quiet it is here, `live.json` in the directories tells others (`cts status`).
    """
    doing = Doing(works)
    with told_live(doing), shown(Console(stderr=True), doing, quiet=quiet):
        try:
            run_async(doer, plan, os.environ, Events(doing))
        except RunStopped as reason:
            return reason
    return None
