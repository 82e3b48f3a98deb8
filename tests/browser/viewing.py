"""`cts view` as a process, the addresses of its pages, and what a page must not do while nobody looks."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import viewer_server
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page

WAIT_MS = 30_000
ROOT = Path(__file__).resolve().parents[2]
COMPUTING_HERE = """
from cts_async.cli.main import main
from cts_async.viewer import leaderboards
from viewer_server import compute_here

leaderboards._compute_in_child = compute_here
main()
"""
"""`cts` that computes leaderboards in its own process: the child process of each takes a second to start."""


@dataclass(frozen=True)
class Viewer:
    """A `cts view` that serves `runs` at `url`, which ends with a slash."""

    url: str
    runs: Path

    def at(self, route: str = "", **query: str) -> str:
        """The address of a page: `at("instance", run="a/b", id="q1")`."""
        asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        return f"{self.url}#/{route}{'?' if asked else ''}{asked}"


@contextmanager
def viewing(runs: Path, *, computes_here: bool = False) -> Iterator[Viewer]:
    """`cts view` as a process of its own; the address is the one that it prints.

    With `computes_here` it computes leaderboards without child processes.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    program = ["-m", "cts_async.cli.main"]
    if computes_here:
        program = ["-c", COMPUTING_HERE]
    command = [sys.executable, *program, "view", str(runs), "--port", str(port)]
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found, f"cts view said no address: {line!r}"
            yield Viewer(f"{found[0]}/", runs)
        finally:
            process.terminate()


@contextmanager
def serving(runs: Path) -> Iterator[Viewer]:
    """Its server in a thread of this process, which starts a second sooner."""
    with viewer_server.viewer(runs, computes_here=True) as asker:
        yield Viewer(f"http://127.0.0.1:{asker.port}/", runs)


@dataclass
class Watch:
    """What went wrong in a page without anybody's looking: see `watched`."""

    noticed: list[str] = field(default_factory=list)
    expected: str = r"(?!)"
    """Pattern of what a test provokes on purpose."""

    def begin(self) -> None:
        """Forget what was noticed, and expect nothing."""
        self.noticed, self.expected = [], r"(?!)"

    @property
    def faults(self) -> list[str]:
        return [line for line in self.noticed if not re.search(self.expected, line)]


@contextmanager
def opened(browser: Browser, allowed: str, watch: Watch, **options: Any) -> Iterator[Page]:
    """A watched page of 1280 x 800 pixels in English, but for `options` of `Browser.new_context`."""
    given: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US", **options}
    context = browser.new_context(**given)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    watched(page, allowed, watch)
    try:
        yield page
    finally:
        context.close()


def watched(page: Page, allowed: str, watch: Watch) -> None:
    """Note errors, dialogs, breaches of the content security policy and requests to anywhere but `allowed`."""

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            watch.noticed.append(f"console: {message.text} ({message.location['url']})")

    def dialog(shown: Dialog) -> None:
        watch.noticed.append(f"dialog: {shown.message}")
        shown.dismiss()

    def asked(url: str) -> None:
        if not url.startswith((allowed, "data:", "blob:")):
            watch.noticed.append(f"request: {url}")

    page.on("console", console)
    page.on("dialog", dialog)
    page.on("pageerror", lambda error: watch.noticed.append(f"error: {error}"))
    page.context.on("request", lambda request: asked(request.url))
    page.on("popup", lambda popup: watch.noticed.append(f"popup: {popup.url}"))


def leave(page: Page, viewer: Viewer) -> None:
    """Go to where nothing is. A page of the viewer is left without loading its modules anew, and what is waited for
    next cannot be what was there before."""
    page.goto(viewer.at("nowhere"))
    page.locator("main > p > a[href='#/']").wait_for()


def row_of(page: Page, run: str) -> Locator:
    """The row of the list of runs that leads to `run`."""
    return page.get_by_role("row").filter(has=page.get_by_text(run, exact=True))
