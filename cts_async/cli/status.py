"""`cts status`: the progress of runs, from another shell; reads only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cts_async.cli import options
from cts_async.errors import UsageError
from cts_async.tables.output import print_json, print_notes, print_plainly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cts_async.watch.live import LiveFile

REFRESH_S: Final = 1.0
PLAIN_COLUMNS: Final = 160
"""Width where there is no terminal."""


def status(
    runs: options.RunWords = None,
    once: Annotated[bool, typer.Option("--once", help="Print the state once and exit.")] = False,
    all_versions: options.AllVersions = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the progress of runs live, from another shell.

    Updates until the runs end; Ctrl-C does not stop them. A run that is not active is shown with its result, or with how
    far it got and why it stopped. Without a terminal the state is printed once. The number after a mean is half of
    its 95 % interval by Student's t, a quick estimate; cts report computes bootstrap intervals. Of a folder the newest
    version of each run is shown, and whatever is active.

    Example: cts status

    Example: cts status runs/hard518-gpt-k3 --once
    """
    from rich.console import Console

    from cts_async.watch.live import idle_state

    paths = options.runs_or_default(runs, "status")
    notes: list[str] = []
    progress = _progress_by_run(paths, notes, all_versions=all_versions)
    console = Console(emoji=False)
    if as_json:
        rows = []
        for directory, live in progress.items():
            row: dict[str, Any] = {"run": str(directory)}
            if live:
                row["state"] = "running"
            else:
                row |= idle_state(directory).as_json()
            row["live"] = live
            rows.append(row)
        print_json(rows)
        print_notes(notes)
        return
    # A dumb terminal (Emacs' shell, some job runners) cannot be redrawn.
    drawable = console.is_terminal and not console.is_dumb_terminal
    if drawable and not once and any(progress.values()):
        try:
            _follow(console, paths, all_versions=all_versions)
        except KeyboardInterrupt:  # it ends the look at the runs, not the runs
            return
    _print_once(console, paths, all_versions=all_versions)


def _progress_by_run(
    paths: Sequence[Path], notes: list[str], *, all_versions: bool
) -> dict[Path, LiveFile | None]:
    """Return the progress of every run, None for one that is not active; add a note on those that are left out."""
    from cts_async.watch.live import live_of, run_directories

    directories = run_directories(paths, notes.append, all_versions=all_versions)
    return {directory: live_of(directory) for directory in directories}


def _follow(console: Console, paths: Sequence[Path], *, all_versions: bool) -> None:
    """Redraw the screen until no run is active, then restore the terminal."""
    import time

    from rich.live import Live as Redrawn

    from cts_async.watch.live import RunState, by_process, idle_state
    from cts_async.watch.screen import LiveScreen

    at_rest: dict[Path, RunState] = {}
    """States of runs that are not active; each is read once, until a process works on it again."""
    with Redrawn(console=console, auto_refresh=False, screen=True) as redrawn:
        while True:
            progress = _progress_by_run(paths, [], all_versions=all_versions)
            active = [live for live in progress.values() if live is not None]
            if not active:
                return
            for directory, live in progress.items():
                if live is not None:
                    at_rest.pop(directory, None)
                elif directory not in at_rest or at_rest[directory].state == "working":
                    at_rest[directory] = idle_state(directory)
            foot = [state.line(time.time()) for state in at_rest.values()]
            redrawn.update(LiveScreen(by_process(active), foot), refresh=True)
            # live.json is written once a second.
            time.sleep(REFRESH_S)


def _print_once(console: Console, paths: Sequence[Path], *, all_versions: bool) -> None:
    import time

    from cts_async.watch.live import by_process, how_to_resume, idle_state
    from cts_async.watch.screen import LiveScreen

    notes: list[str] = []
    progress = _progress_by_run(paths, notes, all_versions=all_versions)
    active = by_process([live for live in progress.values() if live is not None])
    width = PLAIN_COLUMNS
    if console.is_terminal:
        width = console.width
    # What is printed scrolls: every system has its line, however many there are.
    for line in LiveScreen(active).lines(width, 10_000, ascii_only=console.options.ascii_only):
        console.print(line, soft_wrap=True)
    at_rest = [idle_state(directory) for directory, live in progress.items() if live is None]
    # One damaged run among others has a line; where there is nothing else to show, it is the error.
    if not active and all(state.state == "damaged" for state in at_rest):
        raise UsageError(at_rest[0].reason)
    for state in at_rest:
        print_plainly(console, state.line(time.time()))
    for text in how_to_resume(at_rest):
        print_plainly(console, text)
    for note in notes:
        print_plainly(console, note)
