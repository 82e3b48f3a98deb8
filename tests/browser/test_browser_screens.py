"""Every page on every screen: narrow and wide, light and dark, English and Chinese, enlarged, and read aloud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from made_views import GOOD_K3, JUDGED, LIST, ORIG, SMOKE, TALK
from playwright.sync_api import Page, expect

from browser.checks import FITTING, READABLE, faults, structure_faults
from browser.viewing import Viewer, leave

TRACE = "ol.trace > li"
PAGES: Mapping[str, tuple[str, Mapping[str, str], str]] = {
    "runs": ("", {}, "section.group"),
    "leaderboard": ("leaderboard", {"data": "sha of made.sha of made gold"}, "tbody tr"),
    "matrix": ("matrix", {"data": "sha of made.sha of made gold"}, ".matrix-row"),
    "run": ("run", {"run": GOOD_K3}, "tr[data-id]"),
    "smoke test": ("run", {"run": SMOKE}, "tr[data-id]"),
    "instance": ("instance", {"run": GOOD_K3, "id": "s04"}, TRACE),
    "Chinese instance": ("instance", {"run": GOOD_K3, "id": "s03"}, TRACE),
    "failed instance": ("instance", {"run": GOOD_K3, "id": "s10"}, ".trouble"),
    "conversation": ("instance", {"run": TALK, "id": "t1"}, ".bubble"),
    "judged answer": ("instance", {"run": JUDGED, "id": "s01"}, ".nuggets tbody tr"),
    "compared": ("compare", {"a": ORIG, "b": GOOD_K3, "id": "s04"}, ".nuggets tbody tr"),
    "filtered away": ("run", {"run": LIST, "text": "nothing like this"}, ".empty"),
}
"""By name: route, parameters, and what is there once the page is complete."""
FEW = ("runs", "matrix", "run", "instance", "compared")
"""Those in which every part of the others occurs."""
SCREENS: Mapping[str, dict[str, Any]] = {
    "wide": {},
    "dark": {"color_scheme": "dark"},
    "enlarged": {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2},
    "narrow": {"viewport": {"width": 360, "height": 740}, "has_touch": True},
    "narrow and Chinese": {"viewport": {"width": 360, "height": 740}, "locale": "zh-CN"},
}


def show(page: Page, viewer: Viewer, name: str) -> None:
    """Open one of PAGES and wait until it is complete."""
    route, query, complete = PAGES[name]
    leave(page, viewer)
    page.goto(viewer.at(route, **query))
    if complete == TRACE:  # fetched once it comes near the window
        page.locator("#search").scroll_into_view_if_needed()
    page.locator(f"main {complete}").first.wait_for()
    expect(page.locator("main .loading")).to_have_count(0)


def unfold(page: Page) -> None:
    """Open everything that is folded: what is hidden has no colours to be measured."""
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")


@pytest.mark.parametrize(
    ("screen", "pages"),
    [("wide", PAGES), ("dark", FEW), ("narrow", PAGES), ("enlarged", FEW), ("narrow and Chinese", FEW)],
)
def test_every_page_can_be_read_and_used_on_every_screen(
    new_page: Callable[..., Page], viewer: Viewer, screen: str, pages: Iterable[str]
) -> None:
    """Names, headings and landmarks for a screen reader; contrast AA of all text, labels, captions, languages; no
    sideways scrolling, nothing over anything else."""
    page = new_page(**SCREENS[screen])
    found: dict[str, dict[str, Any]] = {}
    for name in pages:
        show(page, viewer, name)
        found[name] = {"structure": structure} if (structure := structure_faults(page)) else {}
        unfold(page)
        found[name].update(faults(page, READABLE + FITTING))
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_nothing_moves_where_motion_is_not_wanted(new_page: Callable[..., Page], viewer: Viewer) -> None:
    page = new_page(reduced_motion="reduce")
    show(page, viewer, "instance")
    assert faults(page, ["moving"]) == {}


def test_the_theme_chosen_is_kept_and_beats_the_systems(
    new_page: Callable[..., Page], viewer: Viewer
) -> None:
    page = new_page(color_scheme="light")
    show(page, viewer, "runs")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_label("Theme").select_option("Theme: dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    show(page, viewer, "instance")
    assert faults(page, ["contrast"]) == {}


def test_on_paper_every_page_is_light_and_without_controls(
    new_page: Callable[..., Page], viewer: Viewer
) -> None:
    page = new_page(color_scheme="dark")
    show(page, viewer, "runs")
    page.get_by_label("Theme").select_option("Theme: dark")
    for name in ("run", "instance"):
        page.emulate_media(media="screen")
        show(page, viewer, name)
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 251, 249)"
        for controls in page.locator(".top, .filters, .pager, .contents, .steps-way, .copy-way").all():
            expect(controls).to_be_hidden()


def test_chinese_is_one_choice_away_and_is_kept(new_page: Callable[..., Page], viewer: Viewer) -> None:
    page = new_page()
    show(page, viewer, "runs")
    page.get_by_label("Language").select_option("中文")
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    heading = page.get_by_role("heading", level=1)
    expect(heading).not_to_have_text("Runs")
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")


def test_viewer_works_without_local_storage(new_page: Callable[..., Page], viewer: Viewer) -> None:
    page = new_page()
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied') } })"
    )
    show(page, viewer, "runs")
    page.get_by_label("Theme").select_option("Theme: dark")
    show(page, viewer, "instance")
