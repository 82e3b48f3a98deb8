"""Texts that attack their reader are shown as texts. Each test also fails by what `watched` notices: a dialog, an
error, a breach of the content security policy, a request to anywhere but the viewer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hostile_world import HOSTILE, IDS, IMAGE, LINK, NAME, SCRIPT, SVG, TRACKER
from made_runs import Row, made_run
from playwright.sync_api import Page, expect

from browser.viewing import Viewer, Watch, leave

MADE = "script:not([src^='static/']), img, svg[onload], [onerror], iframe, object, embed, base, form[action]"
"""Elements that only an attack can have made."""
SLIPPED = """() => new Promise((done) => {
  const script = document.createElement("script");
  script.textContent = "window.ran = 'script'";
  document.body.append(script);
  document.body.insertAdjacentHTML("beforeend", `<img src="data:," onerror="window.ran = 'handler'">`);
  document.body.lastElementChild.addEventListener("error", () => setTimeout(done));
})"""
"""Puts an inline script and an inline handler into the page, and waits until the handler had its occasion."""
VISIBLE_TRICKS = "\u202e\u2066\u200b\x07\x1b\x08\x00"
"""What turns text round or hides in it; shown as such or not at all, never as it stands."""

ENDLESS = "W" * 100_000
TOGETHER = "pieces => pieces.map((piece) => piece.textContent).join('')"


@pytest.fixture
def endless(viewer: Viewer) -> Iterator[Path]:
    """A run of an instance in which every text is a word of 100,000 letters, and one that failed with such a message."""
    asked = Row("q0", (ENDLESS, ENDLESS), (ENDLESS, "unknown"), 10.0, answer=ENDLESS)
    texts = {"fused_query": ENDLESS, "blurred_query": ENDLESS, "rewritten_query": ENDLESS + "!"}
    rows = [replace(asked, **texts), Row("q1", error="search"), Row("I" * 20_000)]
    directory = made_run(viewer.runs, label="gpt-k2", data="endless", rows=rows)
    results = directory / "results.jsonl"
    results.write_text(results.read_text().replace('"refused"', f'"{ENDLESS}"'))
    yield directory
    shutil.rmtree(directory)


def innocent(page: Page) -> None:
    """Nothing of the page came from a text, and no text has power over others."""
    assert page.locator(MADE).count() == 0, page.locator(MADE).evaluate_all(
        "all => all.map(e => e.outerHTML)"
    )
    links = page.locator("a[href]").evaluate_all("links => links.map((link) => link.href)")
    own = page.url.partition("#")[0]
    assert not [link for link in links if not link.startswith(("http:", "https:", f"{own}#"))]
    text = page.locator("body").inner_text() + page.title()
    assert not set(VISIBLE_TRICKS) & set(text)


def test_the_list_of_runs_shows_hostile_names_as_they_are(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url)
    expect(page.get_by_text("onerror=alert(7)").first).to_be_visible()
    expect(page.get_by_text(IMAGE).first).to_be_visible()
    innocent(page)


def test_hostile_instances_open_from_the_list_by_their_ids(page: Page, viewer: Viewer) -> None:
    for n, id in enumerate(IDS):
        leave(page, viewer)
        page.goto(viewer.at("run", run=NAME))
        page.locator("tbody tr[data-id]").nth(n).get_by_role("link").click()
        expect(page.locator("h1")).to_contain_text(f"ferry {n} <script>")
        query = parse_qs(urlsplit(page.url).fragment.partition("?")[2])
        assert query["id"] == [id]
        innocent(page)


def test_hostile_instances_are_text_in_a_table_of_runs_and_side_by_side(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.at("matrix", runs=f"{NAME},{NAME}"))
    page.locator(".matrix-row").first.wait_for()
    innocent(page)
    page.goto(viewer.at("compare", a=NAME, b=NAME, id=IDS[0]))
    expect(page.get_by_text("The same text.").first).to_be_visible()
    innocent(page)


def test_everything_that_a_hostile_instance_holds_is_text(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.at("instance", run=NAME, id=IDS[0]))
    page.get_by_role("region", name="Search", exact=True).scroll_into_view_if_needed()
    page.locator("ol.trace > li.answer").wait_for()
    for summary in page.locator("details summary").all():
        summary.click()
    page.get_by_role("button", name="Show search/turn/1").click()
    expect(page.get_by_role("region", name="Record")).to_contain_text(SCRIPT)
    answer = page.get_by_role("region", name="Answer", exact=True)
    for text in (SCRIPT, IMAGE, SVG, LINK, TRACKER):
        expect(answer).to_contain_text(text)
    nuggets = page.get_by_role("region", name="Nuggets", exact=True).first
    expect(nuggets).to_contain_text("javascript:alert(document.domain)")
    innocent(page)


def test_endless_texts_are_cut_until_expanded(page: Page, viewer: Viewer, endless: Path) -> None:
    """Each of them would fill some hundred screens."""
    page.goto(viewer.url)
    page.get_by_text(endless.name, exact=True).first.wait_for()
    page.goto(viewer.at("instance", run=endless.name, id="q0"))
    replies = page.locator(".bubble.replies")
    more = replies.get_by_role("button")
    expect(more).to_have_text("Show all (100 k characters)")
    assert page.evaluate("document.documentElement.scrollHeight") < 10 * 800
    assert len(page.locator("h1").inner_text()) < 400
    more.press("Enter")
    expect(replies.locator(".piece").last).to_be_attached()
    assert replies.locator(".piece").evaluate_all(TOGETHER) == ENDLESS


def test_a_hostile_address_is_only_a_page_that_is_not_there(page: Page, viewer: Viewer, watch: Watch) -> None:
    watch.expected = "status of 40"
    page.goto(viewer.url)
    for text in (*HOSTILE[:4], "../../etc/passwd", "%00", "__proto__", "\u202e"):
        for address in (
            viewer.at("run", run=text),
            viewer.at("instance", run=text, id=text),
            viewer.at(text),
        ):
            leave(page, viewer)
            page.goto(address)
            page.locator("main [role=alert], main > h1").last.wait_for()
            innocent(page)


def test_markup_that_slipped_through_would_neither_run_nor_call_out(
    page: Page, viewer: Viewer, watch: Watch
) -> None:
    """The second lock: the content security policy, tried from within the page."""
    watch.expected = "Content Security Policy|net::ERR|404"
    page.goto(viewer.url)
    page.evaluate(SLIPPED)
    assert page.evaluate("window.ran") is None
    reached = "fetch(address, { mode: 'no-cors' }).then(() => 'reached', () => 'refused')"
    assert page.evaluate(f"(address) => {reached}", TRACKER) == "refused"
    assert any("Content Security Policy" in line for line in watch.noticed)
    assert not [line for line in watch.noticed if line.startswith("request")]
