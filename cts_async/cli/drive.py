"""Drives a planned piece of work to its end, here or on a cluster; an early stop is a result here."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple

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
    from cts_async.cluster.ray_actors import RayCluster


Plan = TypeVar("Plan")
Doer = Callable[[Plan, Mapping[str, str], Events], Awaitable[None]]
DoerOn = Callable[["RayCluster", Plan, Mapping[str, str], Events], Awaitable[None]]


class HasKey(Protocol):
    """A model or a tool."""

    @property
    def key_env(self) -> str | None: ...


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
