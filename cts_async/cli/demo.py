"""`cts demo`: a made-up campaign, played in seconds and shown in the viewer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli.view import OpenBrowser, Port, serve_pages

LOOKS = ("compare", "diagnose", "report")
"""Commands that show what the demo made."""
LEADERBOARD = "#/leaderboard"
"""The page that the viewer begins with."""


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write the runs to this folder.")] = Path(
        "cts-demo"
    ),
    no_view: Annotated[bool, typer.Option("--no-view", help="Do not start the viewer.")] = False,
    port: Port = None,
    open_: OpenBrowser = False,
) -> None:
    """Make example runs in seconds and view them: no key, no model, no download.

    Scripts play five systems over 14 instances of the sample world, through the ordinary pipeline. The scores are made
    up, and every table, figure and page says so. Run the same command again to reopen the viewer.
    A folder with other files is refused. The viewer begins with the leaderboard.

    Example: cts demo

    Example: cts demo --out /tmp/demo --port 9000 --open
    """
    import sys
    from shlex import quote

    from rich.console import Console

    from cts_async.cli.drive import drive, print_closing, summarise
    from cts_async.demo import plan_demo, play
    from cts_async.errors import UsageError
    from cts_async.tables.output import unbroken
    from cts_async.tables.results import caveats_of, print_scores
    from cts_async.viewer.app import viewed

    plan = plan_demo(out)
    runs = plan.directories()
    if out.is_file():
        raise UsageError(f"--out {out}: is a file; name a folder")
    if out.is_dir() and any(out.iterdir()) and not any(run.exists() for run in runs):
        raise UsageError(f"--out {out}: holds other files; name a new folder")
    summaries, _ = summarise(runs)
    # Played once: the same command opens the viewer again, and finishes a demo that was interrupted.
    n_ended = sum(summary.n_done + len(summary.failures) for summary in summaries)
    if n_ended < plan.n_instances * len(plan.systems):
        print(
            f"Playing {len(plan.systems)} made-up systems over {plan.n_instances} instances", file=sys.stderr
        )
        stopped = drive(play, plan, (), (), quiet=True)
        if stopped:
            raise stopped
        summaries, _ = summarise(runs)
    print_scores(Console(emoji=False), summaries)
    folder = quote(str(out))
    looks = ", ".join(unbroken(f"cts {name} {folder}") for name in LOOKS)
    steps = (
        f"Look closer: {looks}",
        f"Run your own: {unbroken('export OPENAI_API_KEY=...; cts run --all gpt -k 3 --limit 5')}",
        f"Delete it: {unbroken(f'rm -r {folder}')}",
    )
    print_closing(steps, caveats_of(summaries))
    if not no_view:
        serve_pages(viewed([out]), port, browser=open_, page=LEADERBOARD)
