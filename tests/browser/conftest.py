"""One Chromium and one `cts view` for all these tests, over runs that they only read; and one page for those
that leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from chromium import NONE_FOUND, chromium, find_chromium
from made_views import make_views
from playwright.sync_api import Browser, Page, expect
from written_files import shared_folder

from browser.viewing import WAIT_MS, Viewer, Watch, leave, opened, viewing

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="package")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs. Made before the browser starts: playing runs needs a thread without an event loop."""
    if find_chromium() is None:
        pytest.skip(NONE_FOUND)
    return shared_folder(tmp_path_factory, "views", make_views) / "runs"


@pytest.fixture(scope="package")
def viewer(views: Path) -> Iterator[Viewer]:
    with viewing(views, computes_here=True) as viewer:
        yield viewer


@pytest.fixture(scope="package")
def browser(views: Path) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def noted() -> Watch:
    """What all pages tell; `watch` begins it anew for each test."""
    return Watch()


@pytest.fixture
def watch(noted: Watch) -> Iterator[Watch]:
    """Fails the test if its pages did what no page may: see `watched`."""
    noted.begin()
    yield noted
    assert noted.faults == []


@pytest.fixture
def new_page(browser: Browser, viewer: Viewer, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Opens pages, each in a context of its own, with the options of `Browser.new_context`."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(opened(browser, viewer.url, watch, **options))


@pytest.fixture(scope="package")
def only_page(browser: Browser, viewer: Viewer, noted: Watch) -> Iterator[Page]:
    with opened(browser, viewer.url, noted) as page:
        yield page


@pytest.fixture
def page(only_page: Page, viewer: Viewer, watch: Watch) -> Iterator[Page]:
    """A page of 1280 x 800 pixels, in English and light.

    All tests share it: who has it remember anything takes a page of its own from `new_page`.
    """
    yield only_page
    leave(only_page, viewer)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if find_chromium() is None:
        terminalreporter.write_line(f"tests in a browser were skipped: {NONE_FOUND}")
