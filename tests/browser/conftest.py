"""One Chromium and one `cts view` for all these tests, over runs that they only read; a context for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from chromium import NONE_FOUND, chromium, find_chromium
from made_views import make_views
from playwright.sync_api import Browser, Page

from browser.viewing import Viewer, Watch, viewing, watched

WAIT_MS = 10_000


@pytest.fixture(scope="package")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs. Made before the browser starts: playing runs needs a thread without an event loop."""
    if find_chromium() is None:
        pytest.skip(NONE_FOUND)
    return make_views(tmp_path_factory.mktemp("views"))


@pytest.fixture(scope="package")
def viewer(views: Path) -> Iterator[Viewer]:
    with viewing(views) as viewer:
        yield viewer


@pytest.fixture(scope="package")
def browser(views: Path) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Fails the test if its pages did what no page may: see `watched`."""
    watch = Watch()
    yield watch
    assert watch.faults == []


@pytest.fixture
def new_page(browser: Browser, viewer: Viewer, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Opens watched pages, each in a context of its own, with the options of `Browser.new_context`."""
    with ExitStack() as stack:

        def opened(**options: Any) -> Page:
            given: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US", **options}
            context = browser.new_context(**given)
            stack.callback(context.close)
            context.set_default_timeout(WAIT_MS)
            page = context.new_page()
            watched(page, viewer.url, watch)
            return page

        yield opened


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    """A page of 1280 x 800 pixels, in English and light."""
    return new_page()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if find_chromium() is None:
        terminalreporter.write_line(f"tests in a browser were skipped: {NONE_FOUND}")
