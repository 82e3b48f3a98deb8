"""Drives a planned piece of work to its end, here or on a cluster; an early stop is a result here."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.console import Console

from cts_async.cli.loop import run_async
from cts_async.cli.progress import shown
from cts_async.engine.events import Events
from cts_async.errors import RunStopped
from cts_async.report.doing import Doing
from cts_async.report.live_writer import told_live
from cts_async.report.works import Work

if TYPE_CHECKING:
    from cts_async.cluster.ray_actors import RayCluster

Plan = TypeVar("Plan")
Doer = Callable[[Plan, Mapping[str, str], Events], Awaitable[None]]
DoerOn = Callable[["RayCluster", Plan, Mapping[str, str], Events], Awaitable[None]]


class HasKey(Protocol):
    """A model or a tool."""

    @property
    def key_env(self) -> str | None: ...


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


def drive_placed(
    here: Doer[Plan],
    there: Callable[[], DoerOn[Plan]],
    plan: Plan,
    works: Sequence[Work],
    specs: Iterable[HasKey],
    *,
    ray: str | None,
    workers: int | None,
    quiet: bool,
) -> RunStopped | None:
    """`drive` in this process, or on a cluster if the user asks for one; workers get the keys of `specs`.

    Raises UsageError where there is no cluster.
    """
    if ray is None and workers is None:
        return drive(here, plan, works, quiet=quiet)
    from cts_async.cluster.ray_session import cluster_spec, connect

    def report(message: str) -> None:
        if not quiet:
            Console(stderr=True).print(message, markup=False, highlight=False, soft_wrap=True)

    keys = {spec.key_env for spec in specs if spec.key_env}
    with connect(cluster_spec(ray, workers), keys, report=report) as cluster:
        return drive(partial(there(), cluster), plan, works, quiet=quiet)
