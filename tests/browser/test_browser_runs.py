"""The list of runs and the leaderboard, as a reader sees them."""

from __future__ import annotations

from made_views import LARGE_K3, LIST, ORIG, SMOKE, TALK
from playwright.sync_api import Page, expect

from browser.viewing import Viewer, row_of


def test_the_list_shows_every_run_by_its_data_with_progress_and_scores(page: Page, viewer: Viewer) -> None:
    """Of 120 instances 12 failed. 108 scores: 0 to 100 and 0 to 18 once more without those that end in 9.

    0 + ... + 100 = 5050 without 9 + 19 + ... + 99 = 540 is 4510; instances 101 to 119 have 0 to 18, of which 109
    and 119 failed: 171 - 8 - 18 = 145. (4510 + 145) / 108 = 43.10.
    """
    page.goto(viewer.url)
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    expect(page).to_have_title("Runs · cts view")
    for run in (LARGE_K3, LIST, ORIG, SMOKE, TALK):
        expect(row_of(page, run)).to_have_count(1)
    # Five runs, and the judged answers, which have the same gold.
    over_sample = page.get_by_role("table", name="Runs over sample").filter(has_text=LARGE_K3)
    expect(over_sample.get_by_role("row")).to_have_count(1 + 5 + 1)
    cells = row_of(page, LIST).get_by_role("cell")
    expect(cells.nth(0)).to_contain_text("120 of 120")
    expect(cells.nth(1)).to_contain_text("43.1")
    expect(cells.nth(3)).to_contain_text("12")


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
