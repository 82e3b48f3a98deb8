"""Drives a planned piece of work to its end, here or on a cluster; an early stop is a result here."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import anyio
from rich.console import Console, Group
from rich.control import Control
from rich.live import Live as Redrawn
from rich.segment import ControlType

from cts_async.engine.events import Events
from cts_async.engine.processes import collect_seldom, require_open_files
from cts_async.errors import RunStopped
from cts_async.report.live_screen import LiveScreen
from cts_async.report.live_words import line_of
from cts_async.report.progress import Progress, RunGroup, periodic, writing_live
from cts_async.report.text import plain

if TYPE_CHECKING:
    from cts_async.cluster.ray_cluster import ClusterSpec
    from cts_async.cluster.ray_hire import RayCluster


Plan = TypeVar("Plan")
Doer = Callable[[Plan, Mapping[str, str], Events], Awaitable[None]]
DoerOn = Callable[["RayCluster", Plan, Mapping[str, str], Events], Awaitable[None]]


def drive(doer: Doer[Plan], plan: Plan, works: Sequence[RunGroup], *, quiet: bool) -> RunStopped | None:
    """Run `doer(plan, environment, events)`, which does `works`; gives why it stopped.

    However quiet it is here, `live.json` in the directories tells others (`cts status`).
    """
    doing = Progress(works)
    with writing_live(doing), shown(Console(stderr=True), doing, quiet=quiet):
        try:
            run_async(doer, plan, os.environ, Events(doing))
        except RunStopped as reason:
            return reason
    return None


def drive_placed(
    here: Doer[Plan],
    there: Callable[[], DoerOn[Plan]],
    plan: Plan,
    works: Sequence[RunGroup],
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


# --- Runs async code on the fastest loop there is, with a garbage collector that fits it.


Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def run_async(main: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run `main(*args)` to its end on uvloop (asyncio's own loop on Windows).

    Raises UsageError where this process may open too few files for that.
    """
    require_open_files()
    collect_seldom()
    return anyio.run(main, *args, backend_options={"use_uvloop": sys.platform != "win32"})


# --- What a command is doing, on its own terminal: a screen where there is one, else a plain line every few seconds.
#
# It writes to stderr only. Nothing is drawn because something happened, only because time has passed.


SCREEN_EVERY_S, LOOK_EVERY_S, LINE_EVERY_S = 0.25, 0.5, 5.0
STILL_HERE_S = 60.0
"""Where nothing moves, a line that says so comes no oftener."""


@contextmanager
def shown(console: Console, doing: Progress, *, quiet: bool = False) -> Iterator[None]:
    """Show how things stand while the block runs, and each thing that a person should know once."""
    if quiet:
        yield
    elif console.is_terminal and not console.is_dumb_terminal:
        with Redrawn(console=console, auto_refresh=False, transient=True) as redrawn:
            screen = _Screen(console, doing, redrawn)
            try:
                with periodic(SCREEN_EVERY_S, screen.tick):
                    yield
            finally:
                screen.tick()
    else:
        lines = PlainLines(console, doing)
        try:
            with periodic(LOOK_EVERY_S, lines.tick):
                yield
        finally:
            lines.say_news()


def print_plainly(console: Console, text: str) -> None:
    """Print anybody's text: it moves no cursor, and nothing in it is markup."""
    console.print(plain(text, lines=True), markup=False, highlight=False, soft_wrap=not console.is_terminal)


class _Screen:
    """Draws over what it drew before."""

    def __init__(self, console: Console, doing: Progress, redrawn: Redrawn) -> None:
        self._console, self._doing, self._redrawn = console, doing, redrawn
        self._drawn: list[int] = []
        """The columns of each line that stands there."""

    def tick(self) -> None:
        """Say what is new, and draw how things stand now."""
        width, height = self._console.size
        self._unwrap(width)
        if said := self._doing.notices():
            print_plainly(self._console, "\n".join(said))
        screen = LiveScreen([self._doing.live()])
        lines = screen.lines(width, height - 1, ascii_only=self._console.options.ascii_only)
        self._drawn = [line.cell_len for line in lines]
        self._redrawn.update(Group(*lines), refresh=True)

    def _unwrap(self, width: int) -> None:
        """A terminal that became narrower wrapped lines of ours: erase what is more of them than rich knows."""
        more = sum(max(0, columns - 1) // width for columns in self._drawn)
        if more:
            erased = (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)
            self._console.control(Control(*erased * more))


class PlainLines:
    """News at once, and between them a line every few seconds."""

    def __init__(
        self, console: Console, doing: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._doing, self._clock = console, doing, clock
        self._said_at, self._said = clock(), ""

    def tick(self) -> None:
        """Say what there is to say by now."""
        self.say_news()
        silent_s = self._clock() - self._said_at
        if silent_s >= LINE_EVERY_S:
            line = line_of(self._doing.live())
            if line != self._said or silent_s >= STILL_HERE_S:
                self._said_at, self._said = self._clock(), line
                print_plainly(self._console, line)

    def say_news(self) -> None:
        """What a person should know at once."""
        for text in self._doing.notices():
            self._said_at = self._clock()
            print_plainly(self._console, text)
