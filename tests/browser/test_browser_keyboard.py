"""The viewer with the keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from made_views import GOOD_K3, LIST
from playwright.sync_api import Page, expect

from browser.checks import measured
from browser.viewing import Viewer

MOST_STOPS = 60


def tab_to(page: Page, name: str) -> dict[str, Any]:
    """Press Tab until a control has the focus whose name begins so; every stop on the way shows that it has it."""
    seen = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        focused = measured(page, "focused")
        if focused is None:
            continue
        if not focused["seen"]:
            # What has arrived above meanwhile pushed it out of sight; whoever returns to it sees it.
            page.keyboard.press("Shift+Tab")
            page.keyboard.press("Tab")
            focused = measured(page, "focused")
        assert focused["seen"], f"no visible focus: {focused['told']}"
        seen.append(focused["name"])
        if focused["name"].startswith(name):
            return dict(focused)
    pytest.fail(f"Tab does not lead to {name!r}, only to {seen}")


def heading_has_focus(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1, name=text)).to_be_focused()


def test_from_the_top_to_an_instance_and_back(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url)
    page.locator("section.group").first.wait_for()
    tab_to(page, "made-up-a-k3")
    page.keyboard.press("Enter")
    heading_has_focus(page, "made-up-a-k3")
    page.locator("tr[data-id]").first.wait_for()
    tab_to(page, "museum ticket prices")
    page.keyboard.press("Enter")
    heading_has_focus(page, "museum ticket prices")
    page.go_back()  # Alt and the left arrow are the browser's own, which no page sees
    expect(page.get_by_role("link", name="museum ticket prices").first).to_be_focused()


def test_the_skip_link_is_first_and_passes_over_the_head(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url)
    page.locator("section.group").first.wait_for()
    page.keyboard.press("Tab")
    assert measured(page, "focused")["name"] == "Skip to the content"
    assert measured(page, "focused")["seen"]
    page.keyboard.press("Enter")
    heading_has_focus(page, "Runs")


def test_j_and_k_walk_the_instances_and_u_goes_up(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.at("instance", run=GOOD_K3, id="s04"))
    page.get_by_role("link", name="Next instance").wait_for()
    page.keyboard.press("j")
    heading_has_focus(page, "property tax rate")
    page.get_by_role("link", name="Previous instance").wait_for()
    page.keyboard.press("k")
    heading_has_focus(page, "museum ticket prices")
    page.keyboard.press("u")
    heading_has_focus(page, "made-up-a-k3")


def test_j_and_k_walk_the_list_of_runs_and_the_leaderboard(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url)
    links = page.locator("a.row-link")
    links.first.wait_for()
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(links.nth(0)).to_be_focused()
    page.get_by_role("link", name="Leaderboard").first.click()
    page.get_by_role("heading", name="Leaderboard", level=1).wait_for()
    links.first.wait_for()
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()


def test_the_filter_is_reached_and_left_without_a_mouse(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.at("run", run=LIST))
    page.locator("tr[data-id]").first.wait_for()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Text")).to_be_focused()
    page.keyboard.type("zeppelin")
    expect(page.locator("tr[data-id]")).to_have_count(1)
    expect(page.get_by_role("searchbox", name="Text")).to_be_focused()
    tab_to(page, "rules for topic 77")
    page.keyboard.press("Enter")
    heading_has_focus(page, "rules for topic 77 zeppelin")


def test_question_mark_lists_keys_which_can_be_disabled(
    new_page: Callable[..., Page], viewer: Viewer
) -> None:
    page = new_page()
    page.goto(viewer.at("instance", run=GOOD_K3, id="s04"))
    page.get_by_role("link", name="Next instance").wait_for()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("next instance")
    dialog.get_by_role("checkbox").uncheck()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("j")
    expect(page).to_have_title(re.compile("^s04"))
