"""`cts status`: what runs are doing, from another shell; reads only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cts_async.cli import options
from cts_async.errors import UsageError
from cts_async.report.standard_output import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cts_async.report.live import LiveFile

HELP = """Show what runs are doing, live: the screen of the command that works on them, in another shell.

RUN is a run directory, a folder of runs or a pattern. Follows until they end; Ctrl-C leaves the runs alone. Of a run
that is not going on: what it came to, or how far it is and why it stopped. Not on a terminal: once, in plain lines.
Behind a mean stands half of its 95 % interval by Student's t, for a glance; cts report has the bootstrapped ones.

Example: cts status

Example: cts status runs/hard518-gpt-k3 --once
"""

EVERY_S: Final = 1.0


def status(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="What to look at [default: runs].")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once; do not follow.")] = False,
    as_json: options.AsJson = False,
) -> None:
    from rich.console import Console

    from cts_async.report.status import live_of, watched

    words = options.runs_named(runs, "status")
    found = {directory: live_of(directory) for directory in watched(words)}
    console = Console()
    if as_json:
        print_json([_as_json(directory, live) for directory, live in found.items()])
        return
    drawable = console.is_terminal and not console.is_dumb_terminal
    if drawable and not once and any(found.values()):
        try:
            _follow(console, words)
        except KeyboardInterrupt:
            return
    _print_once(console, words)


status.__doc__ = HELP


def _as_json(directory: Path, live: LiveFile | None) -> dict[str, Any]:
    from cts_async.report.status import rest_of

    if live is not None:
        return {"run": str(directory), "state": "running", "live": live}
    return {"run": str(directory), **rest_of(directory).as_json(), "live": None}


def _follow(console: Console, words: Sequence[Path]) -> None:
    """Until nothing is going on any more, on a screen that leaves the terminal as it was."""
    import time

    from rich.live import Live as Redrawn

    from cts_async.report.live_screen import LiveScreen
    from cts_async.report.status import RunState, by_process, live_of, rest_of, watched

    at_rest: dict[Path, RunState] = {}
    """What is said of runs that are not going on; they are read once, until somebody works on them again."""
    with Redrawn(console=console, auto_refresh=False, screen=True) as redrawn:
        while True:
            found = {directory: live_of(directory) for directory in watched(words)}
            going = [live for live in found.values() if live is not None]
            if not going:
                return
            for directory, live in found.items():
                if live is not None:
                    at_rest.pop(directory, None)
                elif directory not in at_rest or at_rest[directory].state == "working":
                    at_rest[directory] = rest_of(directory)
            foot = [state.line(time.time()) for state in at_rest.values()]
            redrawn.update(LiveScreen(by_process(going), foot), refresh=True)
            time.sleep(EVERY_S)


def _print_once(console: Console, words: Sequence[Path]) -> None:
    import time

    from cts_async.cli.drive import print_plainly
    from cts_async.report.live_screen import LiveScreen
    from cts_async.report.live_words import lines_of
    from cts_async.report.status import by_process, how_to_resume, live_of, rest_of, watched

    found = {directory: live_of(directory) for directory in watched(words)}
    going = by_process([live for live in found.values() if live is not None])
    if console.is_terminal:
        for line in LiveScreen(going).lines(console.width, 10_000, ascii_only=console.options.ascii_only):
            console.print(line)
    else:
        for live in going:
            for text in lines_of(live):
                print_plainly(console, text)
    at_rest = [rest_of(directory) for directory in found if found[directory] is None]
    if not going and all(state.state == "damaged" for state in at_rest):
        raise UsageError(at_rest[0].reason)
    for state in at_rest:
        print_plainly(console, state.line(time.time()))
    for text in how_to_resume(at_rest):
        print_plainly(console, text)
