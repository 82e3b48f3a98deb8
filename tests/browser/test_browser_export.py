"""An export opened from its file shows what the server shows, and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_world import IDS, IMAGE
from hostile_world import NAME as HOSTILE_RUN
from made_runs import Row, made_run
from made_views import GOOD_K3, JUDGED, LIST, ORIG, TALK
from playwright.sync_api import Browser, Page, expect

from browser.test_browser_hostile import SLIPPED, innocent
from browser.viewing import Viewer, Watch, leave, opened, serving
from cts_async.viewer.app import viewed
from cts_async.viewer.static_export import export_pages

LISTED = (
    {"sort": "-score"},
    {"sort": "score", "max": "40"},
    {"sort": "-unknown", "unknown": "some"},
    {"unknown": "all", "failed": "1"},
    {"failed": "0", "min": "10", "text": "TOPIC 11", "sort": "score"},
    {"text": "飞艇"},
)
"""Filters and orders of a list."""
TABLES = (
    {"show": "gain", "sort": "-value", "by": LIST},
    {"sort": "gap", "of": LIST, "min": "20", "max": "80"},
    {"failed": "1", "sort": "-spread"},
    {"text": "topic 77", "show": "turns"},
    {"runs": f"{ORIG},{GOOD_K3}", "show": "cost", "sort": "-value"},
)
"""The same of the table of two runs."""
MADE_ORIG = LIST.replace("gpt-k2", "orig")


@pytest.fixture(scope="module")
def exported(views: Path, tmp_path_factory: pytest.TempPathFactory) -> Viewer:
    """Some of the runs, in a folder whose name has to be escaped in an address."""
    names = (HOSTILE_RUN, LIST, MADE_ORIG, GOOD_K3, ORIG, TALK, JUDGED)
    made = export_pages(viewed([views / name for name in names]), tmp_path_factory.mktemp("out") / "a #1?")
    return Viewer(made.page.as_uri(), views)


@pytest.fixture
def file_page(browser: Browser, exported: Viewer, watch: Watch) -> Iterator[Page]:
    with opened(browser, exported.url.removesuffix("index.html"), watch) as page:
        yield page


def listed(page: Page, viewer: Viewer, route: str, **query: str) -> list[str]:
    """The texts of a list and what is said above it, once it has come to rest."""
    leave(page, viewer)
    page.goto(viewer.at(route, **query))
    page.locator(".list:not([aria-busy])").wait_for()
    expect(page.locator("p[role=status][tabindex]")).not_to_contain_text("index")
    page.locator(".list:not([aria-busy])").wait_for()
    return [
        *page.locator(".list tr").all_inner_texts(),
        page.locator("p[role=status][tabindex]").inner_text(),
    ]


def sections(page: Page, viewer: Viewer, route: str, **query: str) -> list[str]:
    """The texts of a page's sections, but for records of the journal."""
    leave(page, viewer)
    page.goto(viewer.at(route, **query))
    page.locator("main section, main table").first.wait_for()
    if page.locator("#search > ol.trace").count():
        page.locator(".trace-end").scroll_into_view_if_needed()
        expect(page.locator("#search > ol.trace > li").first).to_be_attached()
    expect(page.locator(".loading, .trace-end > *")).to_have_count(0)
    return page.locator("main section:not(#steps)").all_text_contents()


def test_exported_lists_are_filtered_and_sorted_as_the_server_does(
    page: Page, viewer: Viewer, file_page: Page, exported: Viewer
) -> None:
    for query in LISTED:
        asked = {"run": LIST, **query}
        assert listed(file_page, exported, "run", **asked) == listed(page, viewer, "run", **asked)
    for query in TABLES:
        asked = {"runs": f"{LIST},{MADE_ORIG}", **query}
        assert listed(file_page, exported, "compare", **asked) == listed(page, viewer, "compare", **asked)
    file_page.goto(exported.at("run", run=LIST))
    file_page.get_by_role("link", name="Next page").click()
    file_page.locator("tr[data-id=q050]").get_by_role("link").click()
    expect(file_page.get_by_text("51 of 120")).to_be_visible()


def test_exported_pages_show_what_the_server_shows(
    page: Page, viewer: Viewer, file_page: Page, exported: Viewer
) -> None:
    file_page.goto(exported.url)
    expect(file_page.get_by_text("Exported")).to_be_visible()
    made = file_page.locator("section.group").filter(has=file_page.get_by_text(LIST, exact=True))
    board = str(made.get_by_role("link", name="Leaderboard").get_attribute("href"))
    for route, query in (
        (board.removeprefix("#/"), {}),
        ("instance", {"run": GOOD_K3, "id": "s04"}),
        ("instance", {"run": GOOD_K3, "id": "s10"}),
        ("instance", {"run": TALK, "id": "t1"}),
        ("compare", {"a": ORIG, "b": GOOD_K3, "id": "s04"}),
    ):
        shown = sections(file_page, exported, route, **query)
        assert shown == sections(page, viewer, route, **query)
        assert shown, route


def test_exported_hostile_texts_stay_texts(file_page: Page, exported: Viewer, watch: Watch) -> None:
    file_page.goto(exported.url)
    expect(file_page.get_by_text(IMAGE).first).to_be_visible()
    innocent(file_page)
    for id in IDS:
        file_page.goto(exported.at("instance", run=HOSTILE_RUN, id=id))
        file_page.get_by_role("heading", level=2, name="Queries").wait_for()
        innocent(file_page)
    watch.expected = "Content Security Policy|net::ERR"
    file_page.evaluate(SLIPPED)
    assert file_page.evaluate("window.ran") is None


def test_gains_over_the_origs_of_two_agents_are_told_apart(
    browser: Browser, tmp_path: Path, watch: Watch
) -> None:
    for agent, label, score in (("a", "orig", 10), ("a", "x-k1", 40), ("b", "orig", 50), ("b", "y-k1", 90)):
        players, name = {"agent": agent}, f"{agent} {label}"
        rows = [Row("i", score=score), Row("j", score=score)]
        made_run(tmp_path / "runs", label=label, rows=rows, players=players, name=name)
    made = export_pages(viewed([tmp_path / "runs"]), tmp_path / "out")
    data = "sha of made.sha of made gold"
    shown = []
    with serving(tmp_path / "runs") as served:
        for at in (served, Viewer(made.page.as_uri(), tmp_path)):
            with opened(browser, at.url.removesuffix("index.html"), watch) as page:
                board = sections(page, at, "leaderboard", data=data)
                expect(page.get_by_text("each group has a leaderboard of its own")).to_be_visible()
                expect(page.get_by_role("row").filter(has_text="y-k1")).to_contain_text("+40.0")
                table = listed(page, at, "matrix", data=data, show="gain")
                expect(page.get_by_text("less that of the orig of the same agent")).to_be_visible()
                page.goto(at.at("run", run="b y-k1"))
                expect(page.locator(".facts.large")).to_contain_text("Gain over orig+40.0")
                shown.append((board, table))
    assert shown[0] == shown[1]
