"""Two runs side by side on the same instance."""

from __future__ import annotations

import re

from made_views import GOOD_K3, LIST, ORIG, POOR_K3
from playwright.sync_api import Page, expect

from browser.viewing import Viewer
from cts_async.tables.comparison import compare_runs

MADE_ORIG = LIST.replace("gpt-k2", "orig")


def test_an_instance_leads_to_its_comparison_side_by_side(page: Page, viewer: Viewer) -> None:
    """orig and the Clarifier with three questions on s04, the museum."""
    page.goto(viewer.at("instance", run=ORIG, id="s04"))
    page.get_by_label("Compare with").select_option(GOOD_K3)
    page.wait_for_url(re.compile("#/compare"))
    sides = page.get_by_role("region", name="Answer", exact=True).locator(".side")
    expect(sides).to_have_count(2)
    left, right = sides.nth(0).bounding_box(), sides.nth(1).bounding_box()
    assert left
    assert right
    assert right["x"] >= left["x"] + left["width"]
    expect(sides.nth(1)).to_contain_text("seniors aged 65 and over 7 crowns")
    expect(sides.get_by_role("button", name="Copy Answer")).to_have_count(2)
    queries = page.get_by_role("region", name="Searched query").locator(".side")
    assert [queries.nth(side).locator("mark").all_text_contents() for side in (0, 1)] == [
        [],
        [", Tidewheel Museum, seniors, 2033"],
    ]
    expect(page.get_by_text("Score of A − score of B: −45.0")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="In 2033 seniors aged 65 and over pay 7 crowns")
    expect(row.locator("[data-label=Difference]")).to_contain_text("more in B")


def test_a_failed_side_is_a_failure_and_never_a_difference(page: Page, viewer: Viewer) -> None:
    """On s10 the search of made-up-a-k3 was refused."""
    page.goto(viewer.at("compare", a=POOR_K3, b=GOOD_K3, id="s10"))
    page.get_by_role("heading", level=1, name="tram fares").wait_for()
    expect(page.locator(".side[data-side=B]").first).to_contain_text("refused by the content filter")
    expect(page.get_by_text("Score of A")).to_have_count(0)


def test_two_runs_have_their_mean_difference_with_interval_and_p(page: Page, viewer: Viewer) -> None:
    """As `cts compare` has it: 108 instances have a score in both, of which gpt gains 33.10 on average."""
    runs = [str(viewer.runs / name) for name in (LIST, MADE_ORIG)]
    (judged,) = compare_runs(runs, baseline=runs[1]).judged
    delta = next(standing.gain for standing in judged.standings if standing.gain)
    assert delta.interval
    low, high = delta.interval
    page.goto(viewer.at("compare", a=LIST, b=MADE_ORIG))
    panel = page.locator(".pair-difference")
    expect(panel.locator("dl")).to_have_text(
        f"Mean score, A − B+33.195 % interval[+{low:.1f}, +{high:.1f}]p{judged.pairs[0].p:.4f}Scored in both108"
        f"Of them differ{judged.pairs[0].n_differ}"
    )
    expect(panel).to_contain_text("By judge ernie")
    page.goto(viewer.at("compare", a=MADE_ORIG, b=LIST))
    expect(panel.locator("dl")).to_contain_text(f"A − B−33.195 % interval[−{high:.1f}, −{low:.1f}]")
    # Filters choose rows, not what is compared.
    page.get_by_label("Failures").select_option("only")
    expect(page.get_by_text("Matching: 12 of 120 instances")).to_be_visible()
    expect(panel.locator("dl")).to_contain_text("Scored in both108")


def test_difference_follows_the_judge_and_needs_two_runs(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.at("compare", a=GOOD_K3, b=ORIG))
    panel = page.locator(".pair-difference")
    expect(panel).to_contain_text("By judge made-up")
    expect(panel.locator("dd").first).to_have_text("+54.3")
    page.get_by_role("combobox", name="Judge").select_option("lexical")
    expect(panel).to_contain_text("By judge lexical")
    expect(panel.locator("dd").first).to_have_text("+55.5")
    page.goto(viewer.at("compare", runs=f"{GOOD_K3},{POOR_K3},{ORIG}"))
    expect(page.get_by_role("row").nth(3)).to_be_visible()
    expect(panel).to_have_count(0)
