"""The list of runs and the leaderboard, as a reader sees them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from made_runs import Row, made_run
from made_views import GOOD_K3, LIST, ORIG, SMOKE, TALK
from playwright.sync_api import Browser, Page, expect

from browser.viewing import Viewer, Watch, opened, row_of, serving


def test_the_list_shows_every_run_by_its_data_with_progress_and_scores(page: Page, viewer: Viewer) -> None:
    """Of 120 instances 12 failed. 108 scores: 0 to 100 and 0 to 18 once more without those that end in 9.

    0 + ... + 100 = 5050 without 9 + 19 + ... + 99 = 540 is 4510; instances 101 to 119 have 0 to 18, of which 109
    and 119 failed: 171 - 8 - 18 = 145. (4510 + 145) / 108 = 43.10.
    """
    page.goto(viewer.url)
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    expect(page).to_have_title("Runs · cts view")
    for run in (GOOD_K3, LIST, ORIG, SMOKE, TALK):
        expect(row_of(page, run)).to_have_count(1)
    # Five runs, and the judged answers, which have the same gold.
    over_sample = page.get_by_role("table", name="Runs over sample").filter(has_text=GOOD_K3)
    expect(over_sample.get_by_role("row")).to_have_count(1 + 5 + 1)
    cells = row_of(page, LIST).get_by_role("cell")
    expect(cells.nth(0)).to_contain_text("120 of 120")
    expect(cells.nth(1)).to_contain_text("43.1")
    expect(cells.nth(3)).to_contain_text("12")
    page.get_by_role("link", name="Mean score").last.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Mean score").first).to_have_attribute(
        "aria-sort", "descending"
    )
    assert page.url.endswith("sort=-mean")
    ordered = [LIST, "made-orig"]  # 43.1, 10.0
    rows = page.get_by_role("table", name="Runs over made").filter(has_text=LIST).locator("tbody small")
    expect(rows.filter(has_text="made-")).to_have_text(ordered)
    page.keyboard.press("Enter")
    expect(rows.filter(has_text="made-")).to_have_text(ordered[::-1])


def test_empty_folder_names_the_commands_and_the_header_fits_a_phone(
    new_page: Callable[..., Page], viewer: Viewer
) -> None:
    page = new_page(viewport={"width": 390, "height": 740})
    page.route(
        "**/api/runs?", lambda route: route.fulfill(json={"runs": [], "folder": "here", "damaged": []})
    )
    page.route(
        "**/api/events?", lambda route: route.fulfill(content_type="text/event-stream", body=": here\n\n")
    )
    page.goto(viewer.url)
    expect(page.get_by_text("cts demo", exact=True)).to_be_visible()
    expect(page.get_by_text("cts run -m gpt -k 3", exact=True)).to_be_visible()
    header = page.get_by_role("banner").bounding_box()
    assert header is not None
    assert header["height"] < 70  # one row


def test_run_page_shows_the_spread_of_scores_and_the_gain_over_orig(page: Page, viewer: Viewer) -> None:
    """Scores 0 to 100 and 0 to 18 without those that end in 9: in each bin of 5 from 0 to 14 ten, or nine."""
    page.goto(viewer.at("run", run=LIST))
    expect(page.locator(".facts.large")).to_contain_text("Gain over orig+33.1")
    expect(page.locator(".facts.large")).to_contain_text("108 pairs")
    drawn = page.get_by_role("img", name="Histogram of 108 scores. Most instances, 10, have 0 to 5.")
    expect(drawn).to_be_visible()
    expect(drawn.locator("span")).to_have_count(20)
    page.get_by_text("Show data", exact=True).click()
    expect(page.get_by_role("row", name="95 to 100 5 4.6%")).to_be_visible()


def test_the_leaderboard_sets_runs_over_the_same_data_side_by_side(page: Page, viewer: Viewer) -> None:
    """Over the 108 instances that both scored gpt gains 43.10 - 10 = 33.10 over orig."""
    page.goto(viewer.url)
    group = page.locator("section.group").filter(has=page.get_by_text(LIST, exact=True))
    group.get_by_role("link", name="Leaderboard").click()
    expect(page.get_by_role("heading", level=1, name="Leaderboard")).to_be_visible()
    gpt = page.get_by_role("row").filter(has_text="gpt-k2")
    expect(gpt).to_contain_text("+33.1")
    expect(gpt).to_contain_text("108 of 120")
    orig = page.get_by_role("row").filter(has_text="orig").filter(has_text="baseline")
    expect(orig).to_contain_text("10.0")


def test_leaderboard_without_data_shows_the_only_one_under_its_full_address(
    browser: Browser, tmp_path: Path
) -> None:
    """As `cts demo` opens it. The short address is replaced, as it would lead forward again."""
    made_run(tmp_path, label="orig", rows=[Row("q1", labels={"ernie": "n"})])
    with serving(tmp_path) as viewer, opened(browser, viewer.url, Watch()) as page:
        page.goto(viewer.at("leaderboard"))
        expect(page.get_by_role("row").filter(has_text="orig")).to_be_visible()
        expect(page).to_have_url(re.compile(r"#/leaderboard\?data=sha"))
        matrix = page.get_by_role("link", name="Where do they differ?")
        expect(matrix).to_have_attribute("href", re.compile(r"#/matrix\?data=sha"))
        page.go_back()
        assert "leaderboard" not in page.url


def test_made_up_runs_are_marked_on_every_page(page: Page, viewer: Viewer) -> None:
    """Instance s10 failed, so that it has no score to be marked."""
    page.goto(viewer.url)
    expect(row_of(page, ORIG)).to_contain_text("made up")
    page.goto(viewer.at("run", run=ORIG))
    expect(page.get_by_text("No number here is a model’s score.")).to_be_visible()
    for route in (
        viewer.at("run", run=GOOD_K3),
        viewer.at("instance", run=GOOD_K3, id="s10"),
        viewer.at("compare", a=ORIG, b=GOOD_K3, id="s10"),
    ):
        page.goto(route)
        expect(page.locator("main .badge.caveat", has_text="made up").first).to_be_visible()
