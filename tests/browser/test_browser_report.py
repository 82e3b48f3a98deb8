"""The report's file, opened from the disk by a browser that reaches nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import pytest
from hostile_world import IMAGE, NAME, SCRIPT, SVG
from made_views import GOOD_K3
from playwright.sync_api import Browser, Page, expect
from typed_commands import cts_in

from browser.checks import lasting_faults
from browser.viewing import Watch, opened

SCREENS: Mapping[str, tuple[int, Literal["light", "dark"]]] = {
    "wide and dark": (1280, "dark"),
    "narrow and light": (360, "light"),
}
DRAWN = ".js-plotly-plot .main-svg"


def reported(views: Path, out: Path, pattern: str) -> Path:
    """`cts report` over the runs of that pattern."""
    done = cts_in(out.parent, "report", f"{views}/{pattern}", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def compared(browser: Browser, noted: Watch, views: Path, tmp_path_factory: Any) -> Iterator[Page]:
    """The report on the five example runs."""
    yield from read(browser, noted, views, tmp_path_factory.mktemp("report") / "examples.html", "sample-*")


@pytest.fixture(scope="module")
def hostile(browser: Browser, noted: Watch, views: Path, tmp_path_factory: Any) -> Iterator[Page]:
    """The report on the hostile run."""
    yield from read(browser, noted, views, tmp_path_factory.mktemp("report") / "hostile.html", f"{NAME[:5]}*")


def read(browser: Browser, noted: Watch, views: Path, out: Path, pattern: str) -> Iterator[Page]:
    """Report on the runs of that pattern, and open the file without any network."""
    reported(views, out, pattern)
    with opened(browser, "file://", noted, offline=True) as page:
        page.goto(out.as_uri())
        page.locator(DRAWN).first.wait_for()
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        yield page


def test_it_opens_from_the_disk_and_draws_its_figures(compared: Page) -> None:
    expect(compared.get_by_role("heading", level=1)).to_be_visible()
    compared.mouse.wheel(0, 100_000)
    expect(compared.locator("[data-figure]").last.locator(".main-svg").first).to_be_attached()
    assert compared.locator(DRAWN).count() >= 4
    expect(compared.locator(f"{DRAWN} .point").first).to_be_attached()


def test_no_button_would_upload_a_figure(compared: Page) -> None:
    buttons = compared.locator(".modebar-btn").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert "Download plot as a PNG" in buttons
    assert [name for name in buttons if "hare" in name or "loud" in name] == []


def test_it_links_to_the_viewer(compared: Page) -> None:
    links = compared.locator("a[href^='http://127.0.0.1:8518/#/instance?run=']")
    addresses = links.evaluate_all("links => links.map((link) => link.href)")
    assert [address for address in addresses if unquote(address).count(GOOD_K3)]


@pytest.mark.parametrize("screen", SCREENS)
def test_it_can_be_read_on_every_screen(compared: Page, screen: str) -> None:
    width, scheme = SCREENS[screen]
    compared.set_viewport_size({"width": width, "height": 800})
    compared.emulate_media(color_scheme=scheme)
    assert lasting_faults(compared, ["contrast", "wide", "tables", "languages", "unlabelled"]) == {}


def test_hostile_text_stays_text(hostile: Page) -> None:
    for text in (SCRIPT, IMAGE, SVG):
        expect(hostile.get_by_text(text).first).to_be_attached()
    made = hostile.locator("img, svg[onload], [onerror], iframe, object, embed, base, form[action]")
    assert made.evaluate_all("all => all.map((one) => one.outerHTML)") == []
    links = hostile.locator("a[href]").evaluate_all("links => links.map((link) => link.protocol)")
    assert set(links) <= {"http:", "https:", "file:"}


def test_report_makes_no_requests_and_violates_no_policy(compared: Page, hostile: Page, noted: Watch) -> None:
    """Of both files, from the moment they were opened to the end of the tests above."""
    assert noted.faults == []
