"""The list of a run's instances: pages, filters, orders, and an address for each of these."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from made_views import LIST, N_LISTED
from playwright.sync_api import Page, expect

from browser.viewing import Viewer


@pytest.fixture
def listed(page: Page, viewer: Viewer) -> Page:
    page.goto(viewer.at("run", run=LIST))
    page.get_by_text(f"Instances: {N_LISTED}").wait_for()
    return page


def ids(page: Page) -> list[str]:
    """The instances shown, in order."""
    return page.locator("tbody tr[data-id]").evaluate_all("rows => rows.map((row) => row.dataset.id)")


def fitting(page: Page, n: int) -> None:
    expect(page.get_by_text(f"Matching: {n} of {N_LISTED} instances")).to_be_visible()


def test_instances_come_fifty_at_a_time(listed: Page) -> None:
    assert ids(listed) == [f"q{i:03d}" for i in range(50)]
    listed.get_by_role("link", name="Next page").click()
    listed.locator("tr[data-id=q050]").wait_for()
    listed.get_by_role("link", name="Next page").click()
    listed.locator("tr[data-id=q119]").wait_for()
    assert ids(listed) == [f"q{i:03d}" for i in range(100, 120)]
    listed.get_by_role("link", name="Previous page").click()
    listed.locator("tr[data-id=q050]").wait_for()
    listed.go_back()
    listed.locator("tr[data-id=q119]").wait_for()


def test_filters_live_in_the_address(listed: Page, new_page: Callable[..., Page]) -> None:
    """Odd instances have two known answers, but the 12 that failed have none."""
    listed.get_by_label("Unknown answers").select_option("at least one")
    fitting(listed, 60)
    listed.get_by_label("Unknown answers").select_option("any")
    listed.get_by_label("Failures").select_option("only")
    fitting(listed, 12)
    assert re.search(r"#/run\?run=made-gpt-k2.*failed=1", listed.url)
    other = new_page()
    other.goto(listed.url)
    fitting(other, 12)
    expect(other.get_by_label("Failures")).to_have_value("1")


def test_next_and_previous_walk_the_filtered_list(listed: Page) -> None:
    listed.get_by_label("Failures").select_option("only")
    fitting(listed, 12)
    listed.locator("tr[data-id=q019]").get_by_role("link").click()
    expect(listed.get_by_text("2 of 12 (filtered)")).to_be_visible()
    listed.get_by_role("link", name="Next instance").click()
    expect(listed).to_have_title(re.compile("q029"))
    listed.go_back()
    listed.go_back()
    fitting(listed, 12)
