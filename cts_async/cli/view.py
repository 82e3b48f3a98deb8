"""`cts view`: runs in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Look at runs in the browser: leaderboard, every instance, every step, live.

FOLDER is a folder of runs, however deep they lie in it, or one run. The page is served on this machine only, to
whoever is logged in there, and nothing is ever written. New runs appear by themselves. Ctrl-C ends it.

Example: cts view

Example: cts view judged/ --port 9000 --open
"""


def view(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What to look at.")] = Path("runs"),
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Where to listen [default: 8518, or the next one that is free]."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the browser.")] = False,
) -> None:
    from cts_async.cli.drive import run_async
    from cts_async.report.viewer.app import listening, serve, viewed_folder

    root = viewed_folder(folder)
    sock = listening(port)
    run_async(serve, root, sock, lambda address: _told(root, address, browser=open_))


def _told(folder: Path, address: str, *, browser: bool) -> None:
    from cts_async.report.text import plain

    print(f"{plain(str(folder))}: {address} (Ctrl-C ends it)", flush=True)
    if browser:
        import threading
        import webbrowser

        # Some browsers do not return before they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


view.__doc__ = HELP
