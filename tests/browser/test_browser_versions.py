"""Versions of a run in the browser: the menu, an older one that was chosen, the switch, what changed; and exported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from viewer.test_viewer_versions import DATA, FIRST, SECOND, THIRD, made_version, made_versions

from browser.checks import FITTING, READABLE, faults, structure_faults
from browser.viewing import Viewer, Watch, opened, serving
from cts_async.viewer.app import viewed
from cts_async.viewer.static_export import export_pages

NEWEST_DATA = "sha of made.new"
MENU = "button.versions"


@pytest.fixture(scope="module")
def versions(views: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("versions") / "runs"
    made_versions(folder)
    with serving(folder) as viewer:
        yield viewer


def names(page: Page) -> list[str]:
    """The runs of the tables."""
    return page.locator("main tbody .row-link").evaluate_all(
        "links => links.map((link) => new URLSearchParams(link.hash.split('?')[1]).get('run'))"
    )


def choose(page: Page, run: str, version: int) -> None:
    """Choose a version in a run's menu, with the keyboard alone."""
    page.locator(f"{MENU}[data-key='versions {run}']").press("Enter")
    page.locator("dialog").get_by_role("link", name=f"version {version}", exact=True).press("Enter")


def board_walk(page: Page, at: Viewer) -> None:
    """A leaderboard: the newest, an older version that was chosen, and all of them."""
    page.goto(at.at("leaderboard", data=NEWEST_DATA))
    expect(page.get_by_role("row").filter(has_text=THIRD)).to_contain_text("+60.0")
    assert sorted(names(page)) == [THIRD, "made-orig.v2"]
    choose(page, THIRD, 2)
    notice = page.locator(".notice").filter(has_text="in the place of the newest")
    expect(notice).to_contain_text(f"version 2 {SECOND}")
    # Over the orig of its own gold.
    expect(page.get_by_role("row").filter(has_text=SECOND)).to_contain_text("+40.0")
    address = page.url
    page.reload()
    expect(notice).to_be_visible()
    assert page.url == address
    page.get_by_label("All versions").check()
    expect(page.locator("main tbody tr")).to_have_count(5)
    page.get_by_label("All versions").uncheck()
    expect(page.locator("main tbody tr")).to_have_count(2)


def test_versions_are_chosen_with_the_keyboard_and_shown_as_text(
    browser: Browser, versions: Viewer, watch: Watch
) -> None:
    with opened(browser, versions.url, watch) as page:
        page.goto(versions.at())
        page.locator("section.group").first.wait_for()
        assert sorted(names(page)) == [THIRD, "made-orig.v2"]
        button = page.locator(f"{MENU}[data-key='versions {THIRD}']")
        button.press("Enter")
        dialog = page.locator("dialog")
        expect(dialog.locator("tbody tr")).to_have_count(3)
        expect(dialog).to_contain_text("prompt ask")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(button).to_be_focused()
        page.get_by_label("All versions").check()
        expect(page.locator("main tbody tr")).to_have_count(5)
        board_walk(page, versions)
        page.goto(versions.at("run", run=SECOND))
        expect(page.locator(".changed-lines .plus")).to_have_text("+<b>Be long.</b>")
        expect(page.locator(".facts.large")).to_contain_text("Gain over orig+40.0")
        choose(page, SECOND, 3)
        expect(page.locator("#changes")).to_contain_text("data.gold_sha256")
        page.goto(versions.at("instance", run=THIRD, id="a"))
        choose(page, THIRD, 1)
        expect(page.get_by_text("Version 1, not the newest")).to_be_visible()


@pytest.mark.parametrize(
    "screen", [{"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 844}, "locale": "zh-CN"}]
)
def test_pages_with_versions_are_readable(
    browser: Browser, versions: Viewer, watch: Watch, screen: dict[str, object]
) -> None:
    routes = (
        ("", {}, "section.group"),
        ("leaderboard", {"data": DATA, "versions": FIRST}, "tbody tr"),
        ("matrix", {"data": NEWEST_DATA}, ".matrix-row"),
        ("run", {"run": SECOND}, ".changed-lines"),
    )
    with opened(browser, versions.url, watch, **screen) as page:
        for route, query, complete in routes:
            page.goto(versions.at(route, **query))
            page.locator(f"main {complete}").first.wait_for()
            expect(page.locator("main .loading")).to_have_count(0)
            assert faults(page, (*READABLE, *FITTING)) == {}, route
            assert structure_faults(page) == [], route
        page.locator(MENU).first.click()
        page.locator("dialog tbody tr").first.wait_for()
        assert faults(page, READABLE) == {}


def test_a_new_version_takes_the_place_of_the_newest_by_itself(
    browser: Browser, views: Path, tmp_path: Path, watch: Watch
) -> None:
    made_version(tmp_path, FIRST, day=1, score=30)
    with serving(tmp_path) as served, opened(browser, served.url, watch) as page:
        page.goto(served.at())
        expect(page.locator(".row-link")).to_have_count(1)
        made_version(tmp_path, SECOND, day=2, score=50, run_version=2)
        expect(page.locator(MENU)).to_contain_text("version 2 of 2")
        assert names(page) == [SECOND]


def test_export_has_the_menu_of_what_is_exported(
    browser: Browser, versions: Viewer, tmp_path: Path, watch: Watch
) -> None:
    folder = versions.runs
    export_pages(viewed([folder], newest_only=True), tmp_path / "newest")
    page_of_newest = Viewer((tmp_path / "newest" / "index.html").as_uri(), folder)
    export_pages(viewed([folder]), tmp_path / "all")
    page_of_all = Viewer((tmp_path / "all" / "index.html").as_uri(), folder)
    with opened(browser, "file:", watch) as page:
        page.goto(page_of_newest.at())
        page.locator("section.group").first.wait_for()
        assert sorted(names(page)) == [THIRD, "made-orig.v2"]
        expect(page.locator(MENU)).to_have_count(0)
        page.goto(page_of_newest.at("run", run=THIRD))
        expect(page.locator("#changes")).to_contain_text("data.gold_sha256")
        board_walk(page, page_of_all)
        page.goto(page_of_all.at("run", run=SECOND))
        expect(page.locator("#changes")).to_contain_text("This export has no lines")
        expect(page.locator(".facts.large")).to_contain_text("Gain over orig+40.0")
        page.goto(page_of_all.at("matrix", data=DATA, all="1", show="gain"))
        expect(page.locator(".matrix-row").first).to_contain_text("40.0")
    written = b"".join(path.read_bytes() for path in (tmp_path / "all" / "data").iterdir())
    assert b"Be long" not in written
