"""Drives a planned piece of work to its end, here or on a cluster; an early stop is a result here."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console

from cts_async.cli.loop import run_async
from cts_async.cli.progress import shown
from cts_async.engine.events import Events
from cts_async.errors import RunStopped
from cts_async.report.doing import Doing
from cts_async.report.live_writer import told_live
from cts_async.report.works import Work

if TYPE_CHECKING:
    from cts_async.cluster.ray_hire import RayCluster

Plan = TypeVar("Plan")
Doer = Callable[[Plan, Mapping[str, str], Events], Awaitable[None]]
DoerOn = Callable[["RayCluster", Plan, Mapping[str, str], Events], Awaitable[None]]


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


@contextmanager
def placed(
    here: Doer[Plan],
    there: Callable[[], DoerOn[Plan]],
    ray: str | None,
    workers: int | None,
    *,
    quiet: bool,
) -> Iterator[Doer[Plan]]:
    """Who does the work where the user wants it: `here`, in this process, or on a cluster what `there` gives.

    The cluster stands ready while the block runs. Raises UsageError where there is none.
    """
    if ray is None and workers is None:
        yield here
        return
    from cts_async.cluster.ray_cluster import connect

    def tell(said: str) -> None:
        if not quiet:
            Console(stderr=True).print(said, markup=False, highlight=False, soft_wrap=True)

    with connect(ray, workers, tell=tell) as cluster:
        for note in cluster.notes:
            tell(note)
        yield partial(there(), cluster)
