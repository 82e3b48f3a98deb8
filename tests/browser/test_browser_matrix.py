"""Instances by runs: where they differ, and the ways from there."""

from __future__ import annotations

import re

from made_views import GOOD_K3, LIST, ORIG, POOR_K3
from playwright.sync_api import Page, expect

from browser.viewing import Viewer


def test_the_table_leads_to_instances_and_comparisons(page: Page, viewer: Viewer) -> None:
    """On s10 the search of made-up-a-k3 was refused; orig has 0 on s03, where both Clarifiers have 90.9."""
    page.goto(viewer.at())
    page.locator("section.group").filter(has=page.get_by_text(POOR_K3)).get_by_role(
        "link", name="Instances by run"
    ).click()
    rows = page.locator(".matrix-row")
    expect(rows).to_have_count(14)
    expect(rows.first).to_contain_text("s03")
    failed = rows.filter(has_text="s10").get_by_role("link", name="failed")
    expect(failed).to_have_attribute("href", re.compile("#/instance.*a-k3.*id=s10"))
    page.get_by_role("button", name="made-up-b-k1").click()
    expect(page.get_by_role("columnheader", name="made-up-b-k1")).to_have_attribute("aria-sort", "descending")
    expect(rows.first).to_contain_text("s09")
    page.get_by_label(f"Choose {ORIG} for").check()
    page.get_by_label(f"Choose {GOOD_K3} for").check()
    page.get_by_role("link", name="Compare the 2 chosen runs").click()
    page.wait_for_url(re.compile("#/compare"))
    expect(rows.first).to_contain_text("more in B")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Answer", exact=True).locator(".side")).to_have_count(2)
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("id=s08"))  # the next one in the order of the table
    page.keyboard.press("u")
    expect(rows.first).to_contain_text("−90.9")


def test_a_table_follows_its_filters(page: Page, viewer: Viewer) -> None:
    """Twelve of the listed instances failed in the one run; orig has 10 on every one."""
    page.goto(viewer.at("matrix", data="sha of made.sha of made gold"))
    page.get_by_label("Failures").select_option("only")
    expect(page.get_by_text("Matching: 12 of 120 instances")).to_be_visible()
    page.get_by_label("Cells").select_option("gain over orig")
    page.get_by_label("Failures").select_option("exclude")
    expect(page.locator(".matrix-row").first).to_contain_text("+90.0")
    assert re.search(r"show=gain.*failed=0|failed=0.*show=gain", page.url)
    expect(page.get_by_role("button", name=LIST.removeprefix("made-"))).to_be_visible()
