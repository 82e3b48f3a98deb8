"""`cts view`: a local web page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What to look at.")] = Path("runs"),
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to listen on [default: 8518, or the next free one]."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the browser.")] = False,
) -> None:
    """View runs in the browser: leaderboard, every instance, every step, live.

    FOLDER is a folder of runs at any depth, or one run. The page is served on this machine only, to anyone who is logged
    in here, and nothing is written. New runs appear by themselves. Ctrl-C ends it.

    Example: cts view

    Example: cts view judged/ --port 9000 --open
    """
    from cts_async.cli.drive import run_async
    from cts_async.report.viewer.app import listening, serve, viewed_folder

    root = viewed_folder(folder)
    sock = listening(port)
    run_async(serve, root, sock, lambda address: _announce(root, address, browser=open_))


def _announce(folder: Path, address: str, *, browser: bool) -> None:
    from cts_async.report.output import plain

    print(f"{plain(str(folder))}: {address} (Ctrl-C stops it)", flush=True)
    if browser:
        import threading
        import webbrowser

        # In a thread, because webbrowser.open() of some browsers returns only when they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
