"""Runs a plan to its end, here or on a cluster, and shows its progress on this terminal (stderr only).

On a terminal the progress is a screen, redrawn a few times a second; elsewhere a plain line every few seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple

import anyio
import typer
from rich.console import Console, Group
from rich.control import Control
from rich.live import Live as Redrawn
from rich.segment import ControlType

from cts_async.cli.options import check_keys
from cts_async.config import CommandConfig, environment_override
from cts_async.engine.events import Events, Subscriber
from cts_async.engine.processes import collect_seldom, require_open_files
from cts_async.errors import EXIT_OK, EXIT_SOME_FAILED, RunStopped, UsageError, reason_to_stop
from cts_async.llm.model import unpriced_models
from cts_async.tables.output import counted, print_notes, print_plainly
from cts_async.watch.progress import Progress, RunGroup, periodic, writing_live
from cts_async.watch.screen import LiveScreen, progress_line

if TYPE_CHECKING:
    from pathlib import Path

    from cts_async.analysis.summary import RunSummary
    from cts_async.protocol.config_trust import Spec
    from cts_async.protocol.plan import CommandPlan
    from cts_async.protocol.versions import ChosenVersion
    from cts_async.records import Caveat
    from cts_async.runs.written import WrittenFiles

Plan = TypeVar("Plan", bound="CommandPlan")
Run = Callable[[Plan, Mapping[str, str], Events], Awaitable[None]]


def drive(
    run: Run[Plan],
    plan: Plan,
    groups: Sequence[RunGroup],
    used: Sequence[Spec],
    introduction: str = "",
    notes: Iterable[str] = (),
    *,
    quiet: bool,
    ray: str | None = None,
    workers: int | None = None,
) -> RunStopped | None:
    """Run `run(plan, environment, events)` and show its progress; return why it stopped early, None if it did not.

    Before, say which keys the models and tools `used` send where, and unless `quiet`, what is about to happen.
    With an address in `ray`, or a number of `workers`, the plan is executed on a cluster instead, whose workers get the
    keys. `live.json` in the directories of `groups` shows the progress to `cts status`, also when `quiet`. Raises
    UsageError without consent to the configuration file, or where there is no cluster.
    """
    # Results go to standard output, and may be piped; everything here goes beside them.
    console = Console(stderr=True, emoji=False)
    config = plan.config
    if quiet and config.verbose:
        raise UsageError("--quiet and --verbose contradict each other; use --log FILE for a quiet run")
    if config.uses_batches and (ray is not None or workers is not None):
        raise UsageError(
            "--batch waits for its provider, and needs no --ray or --workers; leave out one of them"
        )
    check_keys(
        config.config_file,
        config.config_consent,
        used,
        config.user_config,
        players=config.players,
        reachable=plan.reachable,
    )
    if introduction and not quiet:
        print_plainly(console, introduction)
        print_notes(notes)
    # A cost without their prices is "$0.52 + unknown", never $0.52.
    progress = Progress(groups, unpriced_models=len(unpriced_models(plan.specs.values())))
    with ExitStack() as stack:
        logs: list[Subscriber] = []
        # Before a cluster is started: a FILE that cannot be written ends the command while nothing runs.
        if config.verbose or config.log_file:
            logs = stack.enter_context(_logs(config, used, progress.notify))
        if ray is not None or workers is not None:
            from cts_async.cluster.head import run_on_cluster
            from cts_async.cluster.ray_cluster import connect

            def report(message: str) -> None:
                if not quiet:
                    print_plainly(console, message)

            # Workers get the keys that this command uses, and none else of the environment.
            keys = {spec.key_env for spec in used if spec.key_env}
            cluster = stack.enter_context(connect(ray, workers, keys, report=report))
            run = partial(run_on_cluster, cluster)
        stack.enter_context(writing_live(progress))
        stack.enter_context(shown(console, progress, quiet=quiet))
        try:
            run_async(run, plan, os.environ, Events(progress, *logs))
        except RunStopped as reason:
            # Not raised yet: the caller summarises what there is, and ends with it.
            return reason
    return None


@contextmanager
def _logs(
    config: CommandConfig, used: Sequence[Spec], show: Callable[[str], None]
) -> Iterator[list[Subscriber]]:
    """The subscribers of --log and --verbose while the block runs; `show` prints a line above the progress."""
    from cts_async import __version__
    from cts_async.llm.redact import SECRETS
    from cts_async.watch.event_log import clean, logging_to, verbose_to

    # Known before the first line is written: a server may quote a key in its error.
    for spec in used:
        SECRETS.add(environment_override(spec.key_env, os.environ))
    subscribers: list[Subscriber] = []
    if config.verbose:
        subscribers.append(verbose_to(show))
    if config.log_file is None:
        yield subscribers
        return
    with logging_to(config.log_file, show) as log:
        files = ", ".join(map(str, config.config_files)) or "none"
        log.write(clean(f"cts {__version__}, process {os.getpid()}: {config.command}"))
        log.write(clean(f"configuration files read: {files}"))
        subscribers.append(log)
        yield subscribers


def summarise(
    directories: Iterable[Path], written: WrittenFiles | None = None
) -> tuple[list[RunSummary], list[dict[str, Any]]]:
    """Summarise the runs that were begun, and write each summary.json: summaries, and the rows that `--json` prints.

    What this process has `written` itself need not be read again.
    Raises RunStopped where a file cannot be read or written: the runs are made, and the same command summarises them.
    """
    from cts_async.analysis.summary import summarise_runs
    from cts_async.tables.summary import write_summary

    try:
        summaries = summarise_runs(directories, written)
        rows = []
        for summary in summaries:
            row: dict[str, Any] = {"run": str(summary.directory), "system": summary.label}
            row |= write_summary(summary)
            rows.append(row)
    except (UsageError, OSError) as error:
        reason = reason_to_stop(error)
        if reason is None:
            raise
        raise reason from None
    return summaries, rows


def reuse_lines(versions: Iterable[ChosenVersion], summaries: Iterable[RunSummary]) -> Iterator[str]:
    """Say of each run that was begun just now what made it a new version, how much it reused, and what it called."""
    spent_by_directory = {summary.directory.resolve(): summary.spent for summary in summaries}
    for version in versions:
        spent = spent_by_directory.get(version.directory.resolve())
        if spent is None or not version.is_new:
            continue
        text = version.announcement or version.directory.name
        if spent.reused is not None:
            n_steps = spent.steps + spent.reused.steps
            separator = "; " if version.announcement else ": "
            text += f"{separator}{spent.reused.steps:,} of {n_steps:,} steps reused, {counted(spent.calls, 'new call')}"
        elif not version.announcement:
            continue
        yield f"{text}."


def conclude(stopped: RunStopped | None, *, failed: bool) -> NoReturn:
    """End a command: raise why it stopped early, else exit with 1 if some instances failed for good, or 0."""
    # First: a run that stopped is to be resumed (75), whatever has failed in it so far.
    if stopped:
        raise stopped
    if failed:
        raise typer.Exit(EXIT_SOME_FAILED)
    raise typer.Exit(EXIT_OK)


Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def run_async(main: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run `main(*args)` to its end on uvloop, with rare garbage collections.

    Raises UsageError where this process may open too few files.
    """
    require_open_files()
    collect_seldom()
    return anyio.run(main, *args, backend_options={"use_uvloop": True})


# --- Progress

SCREEN_EVERY_S, LOOK_EVERY_S, LINE_EVERY_S = 0.25, 0.5, 5.0
STILL_HERE_S = 60.0
"""While nothing changes, a line that says so appears no more often than this."""


@contextmanager
def shown(console: Console, progress: Progress, *, quiet: bool = False) -> Iterator[None]:
    """Show the progress while the block runs, and each notice once."""
    if quiet:
        yield
    # A dumb terminal (Emacs' shell, some job runners) cannot be redrawn.
    elif console.is_terminal and not console.is_dumb_terminal:
        with Redrawn(console=console, auto_refresh=False, transient=True) as redrawn:
            screen = _Screen(console, progress, redrawn)
            try:
                with periodic(SCREEN_EVERY_S, screen.tick):
                    yield
            finally:
                screen.tick()  # the last notices, which nobody drew yet
    else:
        lines = PlainLines(console, progress)
        try:
            with periodic(LOOK_EVERY_S, lines.tick):
                yield
        finally:
            lines.say_news()


def print_closing(lines: Iterable[str], caveats: Iterable[Caveat]) -> None:
    """Print the last lines of a command's results; before them its scores' caveats."""
    from cts_async.tables.results import CAVEATS

    console = Console(emoji=False)
    for caveat in caveats:
        print_plainly(console, CAVEATS[caveat], "yellow")
    for line in lines:
        print_plainly(console, line)


class _Screen:
    """Redraws the progress in place."""

    def __init__(self, console: Console, progress: Progress, redrawn: Redrawn) -> None:
        self._console, self._progress, self._redrawn = console, progress, redrawn
        self._drawn: list[int] = []
        """The width of each line on the screen, in columns."""

    def tick(self) -> None:
        """Print new notices and redraw."""
        width, height = self._console.size
        self._unwrap(width)  # before rich moves its cursor over the lines that it drew
        notices = self._progress.notices()
        if notices:
            print_plainly(self._console, "\n".join(notices))
        screen = LiveScreen([self._progress.live()])
        # One line less: the cursor stands below the last one, and a full screen would scroll.
        lines = screen.lines(width, height - 1, ascii_only=self._console.options.ascii_only)
        self._drawn = [line.cell_len for line in lines]
        self._redrawn.update(Group(*lines), refresh=True)

    def _unwrap(self, width: int) -> None:
        """Erase the additional lines that a terminal made when it became narrower and wrapped ours; rich does not."""
        n_wrapped = sum(max(0, columns - 1) // width for columns in self._drawn)
        for _ in range(n_wrapped):
            self._console.control(Control((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)))


class PlainLines:
    """Notices at once, and between them a line of progress every few seconds."""

    def __init__(
        self, console: Console, progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._progress, self._clock = console, progress, clock
        self._printed_at, self._printed = clock(), ""

    def tick(self) -> None:
        """Print the notices, and a line of progress if one is due."""
        self.say_news()
        silent_s = self._clock() - self._printed_at
        if silent_s >= LINE_EVERY_S:
            line = progress_line(self._progress.live())
            if line != self._printed or silent_s >= STILL_HERE_S:
                self._printed_at, self._printed = self._clock(), line
                print_plainly(self._console, line)

    def say_news(self) -> None:
        """Print the notices."""
        for text in self._progress.notices():
            self._printed_at = self._clock()
            print_plainly(self._console, text)
