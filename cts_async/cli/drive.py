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
from cts_async.report.progress import Doing, Work, told_live

if TYPE_CHECKING:
    from cts_async.cluster.ray_cluster import ClusterSpec
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


def drive_placed(
    here: Doer[Plan],
    there: Callable[[], DoerOn[Plan]],
    plan: Plan,
    works: Sequence[Work],
    *,
    ray: str | None,
    workers: int | None,
    quiet: bool,
) -> RunStopped | None:
    """`drive` where the user wants it: `here`, in this process, or on a cluster what `there` gives.

    The cluster is led by a process of its own, which Ray may end. Raises UsageError where there is no cluster.
    """
    if ray is None and workers is None:
        return drive(here, plan, works, quiet=quiet)
    from cts_async.cluster.apart import Tell, Vanished, apart
    from cts_async.cluster.ray_cluster import cluster_spec

    spec = cluster_spec(ray, workers)

    def lead(tell: Tell) -> None:
        with _connected(spec, quiet=quiet) as cluster:
            tell(drive(partial(there(), cluster), plan, works, quiet=quiet))

    try:
        return apart(lead)
    except Vanished as end:
        _tidy_terminal()
        raise RunStopped(
            f"the process that led the workers {end}, perhaps because Ray itself has ended; "
            "nothing is lost, the same command resumes"
        ) from None


@contextmanager
def _connected(spec: ClusterSpec, *, quiet: bool) -> Iterator[RayCluster]:
    from cts_async.cluster.ray_cluster import connect

    def tell(said: str) -> None:
        if not quiet:
            Console(stderr=True).print(said, markup=False, highlight=False, soft_wrap=True)

    with connect(spec, tell=tell) as cluster:
        for note in cluster.notes:
            tell(note)
        yield cluster


def _tidy_terminal() -> None:
    """A screen that nobody has cleared stays where it is, and what is printed next begins below it."""
    err = Console(stderr=True)
    if err.is_terminal:
        err.show_cursor()
        err.line()
