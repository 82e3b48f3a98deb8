"""The search of an agent that is a custom role, as the page shows it: what it asked, and what it reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from custom_roles import played, script
from fake_provider import FakeProvider, Settings
from viewer_server import viewer

AGENT = """
from cts_async import role

@role("agent")
async def find(view, llm, search, visit):
    hits = await search(view.query)
    await llm("What is \\x1b[31mred\\x07?", model="fake")
    await visit(hits[0].url)
    text = "Bicycles travel free on the winter boats. ".ljust(5000, "t")
    return {
        "answer": "<script>alert(1)</script>",
        "sources": [{"url": "javascript:alert(1)", "title": "<img src=x>", "text": text}],
        "trace": [{"kind": "think", "text": "I <i>think</i>"}, {"kind": "search", "request": "elsewhere"}],
    }
"""


def test_a_foreign_agents_questions_and_its_own_trace_are_events(tmp_path: Path) -> None:
    name = f"{script(tmp_path, 'lab.py', AGENT)}:find"
    played(tmp_path, "baseline", FakeProvider(Settings()), agent=name, limit=1)
    with viewer(tmp_path / "runs") as asker:
        turns = asker.get("trace", run="run", id="s01")["turns"]
        steps = asker.get("steps", run="run", id="s01")["steps"]
        shown = asker.get("instance", run="run", id="s01")
    assert [turn["kind"] for turn in turns] == [
        "search",
        "model",
        "page",
        "reported",
        "reported",
        "source",
        "answer",
    ]
    search, model, page, thought, elsewhere, source, answer = turns
    assert search["sources"]
    assert page["request"] == search["sources"][0]["url"]
    assert page["text"]
    assert (model["request"], bool(model["text"])) == ("fake-1", True)
    assert (thought["request"], thought["text"]) == ("think", "I <i>think</i>")
    assert (elsewhere["request"], elsewhere["text"]) == ("search: elsewhere", "")
    assert (source["request"], source["length"]) == ("javascript:alert(1)\n<img src=x>", 5000)
    assert source["sources"] == [], "an address of the agent's is no link"
    assert answer["text"] == "<script>alert(1)</script>"
    assert {step["step"]: step["model"] for step in steps if step["step"] in ("clarify", "search")} == {
        "clarify": "baseline",
        "search": "lab.find",
    }
    # What the agent reports counts as read; its answer says nothing of it.
    losses = {nugget["id"]: nugget["loss"] for nugget in shown["nuggets"]}
    assert losses["N5"]["stage"] == "read"
    assert losses["N5"]["document"] == {
        "url": "javascript:alert(1)",
        "title": "<img src=x>",
        "kind": "page",
        "event": 6,
        "rank": 0,
    }
    assert (losses["N6"]["points"], losses["N6"]["stage"]) == (pytest.approx(200 / 13), "found")
    assert sum(loss["points"] for loss in losses.values()) == pytest.approx(100 - shown["scores"][0]["score"])
