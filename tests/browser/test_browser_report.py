"""The report's file, opened from the disk by a browser that reaches nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hostile_world import IMAGE, NAME, SCRIPT, SVG
from made_views import LARGE_K3
from playwright.sync_api import Browser, Page, expect

from browser.checks import faults, structure_faults
from browser.viewing import ROOT, Watch, watched

SCREENS: Mapping[str, dict[str, Any]] = {
    "wide": {},
    "narrow": {"viewport": {"width": 360, "height": 740}},
    "dark": {"color_scheme": "dark"},
}


def reported(views: Path, out: Path, pattern: str) -> Path:
    """`cts report` over the runs of that pattern."""
    command = [sys.executable, "-m", "cts_async.cli.main", "report", f"{views}/{pattern}", "--out", str(out)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def compared(views: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the five example runs."""
    return reported(views, tmp_path_factory.mktemp("report") / "examples.html", "sample-*")


@pytest.fixture(scope="module")
def hostile(views: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reported(views, tmp_path_factory.mktemp("report") / "hostile.html", f"{NAME[:5]}*")


@pytest.fixture
def read(browser: Browser, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Opens a file without any network, in a context with these options."""
    with ExitStack() as stack:

        def opened(file: Path, **options: Any) -> Page:
            given: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US", **options}
            context = browser.new_context(offline=True, **given)
            stack.callback(context.close)
            page = context.new_page()
            watched(page, "file://", watch)
            page.goto(file.as_uri())
            return page

        yield opened


def test_it_opens_from_the_disk_and_draws_its_figures(read: Callable[..., Page], compared: Path) -> None:
    page = read(compared)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    drawn = page.locator(".js-plotly-plot").count()
    assert drawn >= 4
    expect(page.locator(".js-plotly-plot .main-svg .point").first).to_be_attached()
    expect(page.get_by_text("example-large-k3").first).to_be_visible()


def test_it_links_to_the_viewer(read: Callable[..., Page], compared: Path) -> None:
    page = read(compared)
    links = page.locator("a[href^='http://127.0.0.1:8518/#/instance?run=']")
    assert links.count() > 0
    assert LARGE_K3.replace("+", "%2B") in str(links.evaluate_all("links => links.map((link) => link.href)"))


@pytest.mark.parametrize("screen", SCREENS)
def test_it_can_be_read_on_every_screen(read: Callable[..., Page], compared: Path, screen: str) -> None:
    page = read(compared, **SCREENS[screen])
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert faults(page, ["contrast", "wide", "tables", "languages", "unlabelled"]) == {}


def test_it_has_names_headings_and_landmarks(read: Callable[..., Page], compared: Path) -> None:
    assert structure_faults(read(compared)) == []


def test_hostile_text_stays_text(read: Callable[..., Page], hostile: Path) -> None:
    page = read(hostile)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for text in (SCRIPT, IMAGE, SVG):
        expect(page.get_by_text(text).first).to_be_attached()
    made = page.locator("img, svg[onload], [onerror], iframe, object, embed, base, form[action]")
    assert made.evaluate_all("all => all.map((one) => one.outerHTML)") == []
    links = page.locator("a[href]").evaluate_all("links => links.map((link) => link.protocol)")
    assert set(links) <= {"http:", "https:", "file:"}
    assert faults(page, ["wide"]) == {}
