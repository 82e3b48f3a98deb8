"""Asking during the search, beside its leaderboard: the runs of `made_asking`, whose numbers are worked out there."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from asking_runs import ANSWER, SEARCH, Models, asked_run
from asking_runs import asking as asking_turn
from made_asking import asking_runs
from playwright.sync_api import Browser, expect

from browser.checks import lasting_faults
from browser.viewing import Viewer, Watch, opened, serving


@pytest.fixture(scope="module")
def asking(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    runs: Path = asking_runs(tmp_path_factory.mktemp("asking"))
    with serving(runs) as viewer:
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


@pytest.fixture(scope="module")
def asked(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Viewer, Path]]:
    turns = [ANSWER, SEARCH, asking_turn("Which season?", "By car?"), asking_turn("More?", "Less?"), ANSWER]
    replies = {"Which season?": "Yes.", "By car?": "I don't know", "More?": "no"}
    models = Models(turns, lambda question: replies[question])
    folder = tmp_path_factory.mktemp("asked")
    # Playwright has a running loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(asked_run, folder, models, min_asks=1, replies="yes-no").result()
    with serving(run.parent) as viewer:
        yield viewer, run


@pytest.mark.parametrize(
    ("locale", "scheme", "width", "words"),
    [
        ("en-US", "light", 1280, ("Turn 3 of 5", "i don't know", "Question not allowed", "Answer sent back")),
        ("zh-CN", "dark", 360, ("第 3 轮（共 5 轮）", "不知道", "未获准的提问", "被退回的回答")),
    ],
)
def test_instance_shows_questions_at_their_turns_and_leads_into_the_search(
    browser: Browser,
    watch: Watch,
    asked: tuple[Viewer, Path],
    locale: str,
    scheme: str,
    width: int,
    words: tuple[str, str, str, str],
) -> None:
    viewer, run = asked
    size = {"width": width, "height": 800}
    with opened(browser, viewer.url, watch, locale=locale, color_scheme=scheme, viewport=size) as page:
        page.goto(viewer.at("instance", run=run.name, id="1"))
        turn, unknown, refused, sent_back = words
        first = page.locator("ol.talk > li").first
        expect(first.locator(".bubble p")).to_have_text(["Which season?", "yes", "By car?", f"∅ {unknown}"])
        first.get_by_role("link", name=turn).click()
        # The address leads to the question in the search, with the reply as the user gave it.
        question = page.locator("ol.trace > li.ask").first
        expect(question).to_be_focused()
        expect(question).to_contain_text("Which season?")
        expect(question).to_contain_text("Yes.")
        trace = page.locator("ol.trace")
        expect(trace.locator("li.ask_refused h3")).to_have_text(refused)
        expect(trace.locator("li.early_answer h3")).to_have_text(sent_back)
        assert lasting_faults(page, ["contrast", "wide", "tables", "languages", "unlabelled"]) == {}
