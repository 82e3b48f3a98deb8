"""`cts view`: a local web page about runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cts_async.cli import options

if TYPE_CHECKING:
    from cts_async.viewer.library import Library

Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Port to listen on [default: 8518, or the next free one]."),
]
OpenBrowser = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


def view(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder of runs, at any depth, or one run.", **options.RUNS),
    ] = Path("runs"),
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR", help="Further ones.", **options.RUNS)
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the pages as files to a new folder, or over an earlier export."
        ),
    ] = None,
    all_versions: options.AllVersions = False,
    port: Port = None,
    open_: OpenBrowser = False,
) -> None:
    """View runs in the browser: leaderboard, every instance, every step, live.

    The page is served on this machine only, to any user logged in here. Nothing is written. New runs appear by
    themselves. Ctrl-C stops the server. Over SSH, forward the port: ssh -L 8518:127.0.0.1:8518 HOST.

    With --export the same pages open from a file, without a server, and on any web host. They hold queries, answers,
    nuggets and the beginnings of pages, but no journal records, and older versions only with --all-versions.

    Example: cts view

    Example: cts view judged/ --port 9000 --open

    Example: cts view runs/ --export site/
    """
    from cts_async.errors import UsageError
    from cts_async.viewer.app import viewed

    folders = [folder]
    folders += more or ()
    # The pages have a switch for older versions; an export has no more than it was told to.
    newest_only = export is not None and not all_versions
    library = viewed(folders, newest_only=newest_only)
    if export is None:
        serve_pages(library, port, browser=open_, page="#/?all=1" if all_versions else "")
        return
    if port is not None:
        raise UsageError("--export writes files, which need no --port: leave out one of them")
    _export(library, export, browser=open_)


def serve_pages(library: Library, port: int | None, *, browser: bool, page: str = "") -> None:
    """Serve until Ctrl-C; the address that is printed and opened names `page`. Raises UsageError."""
    from cts_async.cli.drive import run_async
    from cts_async.viewer.app import listening, serve

    # Before the loop begins: a port in use is an error of the options.
    sock = listening(port)
    run_async(serve, library, sock, lambda address: _announce(library.root, address + page, browser=browser))


def _export(library: Library, target: Path, *, browser: bool) -> None:
    from cts_async.tables.output import counted, print_line, unbroken
    from cts_async.viewer.static_export import export_pages

    exported = export_pages(library, target)
    n_pages = f"{counted(exported.n_runs, 'run')}, {counted(exported.n_instances, 'instance')}"
    page = unbroken(str(target / exported.page.name))
    print_line(f"exported {n_pages}, {exported.n_bytes / 1e6:,.1f} MB: {page}")
    for restriction in exported.restrictions:
        print_line(restriction)
    if browser:
        import webbrowser

        webbrowser.open(exported.page.as_uri())


def _announce(folder: Path, address: str, *, browser: bool) -> None:
    from urllib.parse import urlsplit

    from cts_async.tables.output import print_line, unbroken

    print_line(f"{unbroken(str(folder))}: {address} (Ctrl-C stops it)")
    # The address is of this machine's loopback: on the user's own computer nothing answers there.
    if "SSH_CONNECTION" in os.environ:
        port = urlsplit(address).port
        forward = unbroken(f"ssh -L {port}:127.0.0.1:{port} HOST")
        print_line(
            f"On your own computer: {forward} (the host you logged in to), then open the address there"
        )
    if browser:
        import threading
        import webbrowser

        # In a thread, because webbrowser.open() of some browsers returns only when they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
