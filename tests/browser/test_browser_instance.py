"""One instance, followed from the blurred query to each nugget."""

from __future__ import annotations

import json

import pytest
from made_views import GOOD_K3, POOR_K3, TALK
from playwright.sync_api import Locator, Page, expect

from browser.viewing import Viewer
from cts_async.demo import scripts
from cts_async.engine.journal import read_records


@pytest.fixture
def museum(page: Page, viewer: Viewer) -> Page:
    """Instance s04 of the example: its museum, whose three questions were all answered."""
    page.goto(viewer.at("instance", run=GOOD_K3, id="s04"))
    page.get_by_role("heading", level=1, name="museum ticket prices").wait_for()
    return page


def part(page: Page, name: str) -> Locator:
    """A section of the page by its heading."""
    return page.get_by_role("region", name=name, exact=True).first


def test_conversation_and_added_words_are_shown(museum: Page) -> None:
    """Rewritten: "museum ticket prices, Tidewheel Museum, seniors, 2033"."""
    talk = part(museum, "Questions and answers")
    for text in (text for pair in scripts()["talks"]["museum ticket prices"] for text in pair):
        expect(talk.get_by_text(text, exact=True)).to_be_visible()
    added = " ".join(part(museum, "Rewritten query").locator("p").first.locator("mark").all_inner_texts())
    assert all(word in added for word in ("Tidewheel", "seniors", "2033")), added
    assert "ticket" not in added


def test_texts_are_copied_as_they_are_and_strips_say_what_their_pieces_are(museum: Page) -> None:
    museum.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.taken = text } }")
    for name, text in {
        "Copy Blurred query (q)": "museum ticket prices",
        "Copy Rewritten query": "museum ticket prices, Tidewheel Museum, seniors, 2033",
    }.items():
        museum.get_by_role("button", name=name, exact=True).press("Enter")
        expect(museum.get_by_role("button", name=name.replace("Copy", "Copied"), exact=True)).to_be_focused()
        assert museum.evaluate("window.taken") == text
    strip = museum.locator(".strip-way").first
    expect(strip.locator(".legend")).to_have_text("full 4partial 1none 0")
    expect(strip.get_by_role("list")).to_be_hidden()
    strip.locator("summary").press("Enter")
    expect(strip.get_by_role("listitem")).to_have_text(
        [
            "N1 full, weight 3",
            "N2 full, weight 3",
            "N3 full, weight 1",
            "N4 full, weight 2",
            "N5 partial, weight 1",
        ]
    )


def test_agent_turns_are_in_order(museum: Page) -> None:
    part(museum, "Search").scroll_into_view_if_needed()
    turns = part(museum, "Search").locator("ol.trace > li")
    expect(turns).to_have_count(6)
    kinds = turns.locator("h3").all_text_contents()
    assert kinds == ["Thought", "Search", "Thought", "Visit", "Thought", "Answer"]
    expect(turns.nth(1)).to_contain_text("museum ticket prices, Tidewheel Museum, seniors, 2033")
    expect(turns.nth(3)).to_contain_text("seniors aged 65 and over 7 crowns")


def test_where_a_nugget_was_found_leads_to_the_numbered_and_marked_result(page: Page, viewer: Viewer) -> None:
    """On s13 the wheelchair's page is the ninth result of the second step, which was never read."""
    page.goto(viewer.at("instance", run=POOR_K3, id="s13"))
    link = page.locator(".where a").filter(has_text="result 9, step 2").first
    link.click()
    marked = page.locator(".target")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("Visiting Lantern Night in a wheelchair")
    expect(marked).to_be_focused()
    expect(marked).to_be_in_viewport()
    assert marked.evaluate("one => [...one.parentElement.children].indexOf(one) + 1") == 9
    assert marked.evaluate("one => getComputedStyle(one.parentElement).listStyleType") == "decimal"
    step = page.locator(".trace > .step").filter(has=marked)
    expect(step.locator(".step-head")).to_contain_text("step 2")
    # The address alone leads there, too, and a page that was read is marked as a whole.
    page.goto(viewer.at("nowhere"))
    page.goto(viewer.at("instance", run=POOR_K3, id="s13", at="event-2-result-9"))
    expect(marked).to_contain_text("Visiting Lantern Night in a wheelchair")
    page.goto(viewer.at("instance", run=POOR_K3, id="s13", at="event-4"))
    expect(marked).to_have_count(1)
    expect(marked.locator(".step-head")).to_contain_text("step 4")
    page.goto(viewer.at("instance", run=POOR_K3, id="s13", at="event-99"))
    expect(marked).to_have_count(0)


def test_nuggets_have_their_text_weight_sources_and_each_judges_word(museum: Page) -> None:
    nuggets = part(museum, "Nuggets")
    row = nuggets.get_by_role("row").filter(has_text="In 2033 seniors aged 65 and over pay 7 crowns")
    expect(row.locator("[data-label=Weight]")).to_have_text("3")
    expect(row.locator("[data-label=made-up]")).to_contain_text("full")
    expect(row.locator("[data-label=lexical]")).to_contain_text("full")
    expect(row).to_contain_text("https://tidewheel.example/visit/prices-2033")
    pass_ = nuggets.get_by_role("row").filter(has_text="also admits one grandchild")
    expect(pass_.locator("[data-label=made-up]")).to_contain_text("partial")


def test_a_raw_step_is_the_journals_own_line(museum: Page, viewer: Viewer) -> None:
    steps = part(museum, "Raw steps")
    steps.locator("summary").click()
    expect(steps.get_by_role("row")).to_have_count(1 + 11)
    steps.get_by_role("button", name="Show rewrite").click()
    shown = steps.get_by_role("region", name="Record")
    expect(shown).to_contain_text('"step": "rewrite"')
    lines = read_records(viewer.runs / GOOD_K3 / "steps.jsonl")
    (line,) = [line for line in lines if line["instance"] == "s04" and line["step"] == "rewrite"]
    assert json.loads(shown.inner_text()) == line
    # Without the clipboard what is copied is a selection.
    museum.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject() }")
    museum.evaluate("addEventListener('copy', () => { window.taken = document.activeElement.value })")
    steps.get_by_role("button", name="Copy Record").click()
    expect(steps.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    assert json.loads(museum.evaluate("window.taken")) == line


def test_a_failed_instance_says_where_and_why_and_has_no_score(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.at("instance", run=GOOD_K3, id="s10"))
    failed = page.locator("main .trouble")
    expect(failed).to_contain_text("search/turn/1")
    expect(failed).to_contain_text("refused by the content filter")
    expect(page.locator(".verdict")).to_have_count(0)


def test_a_conversation_by_turns_shows_types_and_reasoning(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.at("instance", run=TALK, id="t1"))
    expect(page.get_by_text("Do you mean the animal or the car?")).to_be_visible()
    expect(page.get_by_text("Semantic", exact=True)).to_be_visible()
    thought = page.get_by_text("The word has two senses")
    expect(thought).to_be_hidden()
    page.get_by_text("Reasoning", exact=True).click()
    expect(thought).to_be_visible()
