"""Asking during the search, beside its leaderboard: the runs of `made_asking`, whose numbers are worked out there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_asking import asking_runs
from playwright.sync_api import Browser, expect

from browser.checks import lasting_faults
from browser.viewing import Viewer, Watch, opened, viewing


@pytest.fixture(scope="module")
def asking(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    runs: Path = asking_runs(tmp_path_factory.mktemp("asking"))
    with viewing(runs) as viewer:
        yield viewer


@pytest.mark.parametrize(
    ("locale", "scheme", "width", "heading", "summary"),
    [
        ("en-US", "light", 1280, "Asking during the search", "More about these questions"),
        ("zh-CN", "dark", 360, "搜索中提问", "关于这些提问的更多内容"),
    ],
)
def test_leaderboard_shows_what_questions_are_worth(
    browser: Browser,
    watch: Watch,
    asking: Viewer,
    locale: str,
    scheme: str,
    width: int,
    heading: str,
    summary: str,
) -> None:
    size = {"width": width, "height": 800}
    with opened(browser, asking.url, watch, locale=locale, color_scheme=scheme, viewport=size) as page:
        page.goto(asking.at("leaderboard"))
        section = page.locator("section.asking")
        expect(section.get_by_role("heading", name=heading)).to_be_visible()
        # The first question of orig+ask3 came at a quarter of the turns, and answers of gpt-k1 before the first turn.
        drawn = section.get_by_role("img").get_attribute("aria-label") or ""
        assert "gpt-k1 0.0%: +42.5" in drawn
        assert "orig+ask3 25.0%: +60.0" in drawn
        during = section.locator("tbody tr", has_text="orig+ask3").first
        expect(during).to_contain_text("+18.0")
        section.get_by_text(summary).click()
        care = section.locator("details table").first
        expect(care.locator("tr", has_text="orig+ask3")).to_contain_text("60.0%")
        assert lasting_faults(page, ["contrast", "wide", "tables", "languages", "unlabelled"]) == {}
