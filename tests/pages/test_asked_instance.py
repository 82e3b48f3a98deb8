"""The page of an instance whose agent could ask the user, in the viewer and in the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asking_runs import ANSWER, SEARCH, Models, asked_run, asking
from audited_runs import write
from lxml import html

from cts_async.analysis.compare import Extreme
from cts_async.engine.journal import read_records
from cts_async.pages.contents import OpenedInstance, OpenedRun, masked
from cts_async.pages.instance import instance_page
from cts_async.pages.report import run_section
from cts_async.runs.gold_texts import GoldTexts
from cts_async.runs.open_run import OpenRun, whole_run
from cts_async.runs.trace import whole_events

REPLIES = {"Which season?": "winter", "By car?": "I do not know."}


@pytest.fixture
def models() -> Models:
    turns = [ANSWER, SEARCH, asking("Which season?", "By car?"), asking("which season", "More?"), ANSWER]
    return Models(turns, lambda question: REPLIES[question])


def opened(run: Path) -> OpenRun:
    found = whole_run(run, journal=True)
    assert found is not None
    return found


def page_of(run: Path) -> dict[str, Any]:
    page: dict[str, Any] = instance_page(opened(run), "1", GoldTexts(), ())
    return page


def test_questions_stand_with_their_turns_and_their_events(tmp_path: Path, models: Models) -> None:
    page = page_of(asked_run(tmp_path, models, min_asks=1))
    assert page["agent_turns"] == 5
    assert page["turns"] == []
    assert "injected_turn" not in page
    # Events: thought, sent back, thought, search, thought, two questions, thought, two more.
    assert page["asks"] == [
        {"question": "Which season?", "reply": "winter", "turn": 3, "event": 6},
        {"question": "By car?", "reply": "unknown", "turn": 3, "event": 7},
        {"question": "which season", "reply": "winter", "turn": 4, "event": 9},
    ]
    assert (page["search"]["others"], page["search"]["asks_refused"]) == ({"ask": 3}, 1)


def test_agent_that_may_not_ask_has_no_questions(tmp_path: Path) -> None:
    run = asked_run(tmp_path, Models([ANSWER]), references=("orig",))
    (orig,) = [path for path in run.parent.iterdir() if "+ask" not in path.name]
    assert page_of(run)["asks"] == []
    assert "asks" not in page_of(orig)


def test_questions_of_a_failed_search_are_read_from_the_journal(tmp_path: Path, models: Models) -> None:
    run = asked_run(tmp_path, models, min_asks=1)
    error = {"step": "search/turn/5", "kind": "server", "message": "502"}
    write(run / "results.jsonl", [{"id": "1", "blurred_query": "q", "error": error}])
    assert [(ask["question"], ask["reply"], ask["turn"]) for ask in page_of(run)["asks"]] == [
        ("Which season?", "winter", 3),
        ("By car?", "unknown", 3),
        ("which season", "winter", 4),
    ]


def sections_of(page: dict[str, Any], *, mask: bool = False) -> dict[str, str]:
    """The texts of an instance in the report, by their headings."""
    opened_run = OpenedRun(
        "orig+ask3",
        Path("runs/data"),
        "judge lexical",
        2,
        "orig",
        "",
        (OpenedInstance(Extreme("1", 100.0, None, ("lowest score",)), page),),
    )
    if mask:
        opened_run = masked(opened_run)
    parsed = html.fromstring(run_section(opened_run, 1))
    sections = {}
    for name, part in zip(parsed.findall(".//dt"), parsed.findall(".//dd"), strict=True):
        sections[name.text_content()] = "|".join(text.strip() for text in part.itertext() if text.strip())
    return sections


def test_report_shows_questions_at_their_turns_and_masks_their_texts(tmp_path: Path, models: Models) -> None:
    page = page_of(asked_run(tmp_path, models, min_asks=1))
    page["asks"][0]["reply"] = "<b>winter</b>"
    shown = sections_of(page)["Questions during the search"]
    assert shown.startswith("Which season?|(turn 3 of 5)|<b>winter</b>|By car?|(turn 3 of 5)|unknown|")
    hidden = sections_of(page, mask=True)["Questions during the search"]
    assert hidden.startswith("[13 characters left out]|(turn 3 of 5)|[13 characters left out]|[7 characters")
    assert "season" not in hidden
    page["asks"] = []
    assert sections_of(page)["Questions during the search"] == "none"


@pytest.mark.parametrize("mask", [False, True])
def test_report_says_when_answers_were_given(tmp_path: Path, mask: bool) -> None:
    questions = tmp_path / "gpt.jsonl"
    questions.write_text('{"id": "1", "questions": ["Which season?"]}\n')
    models = Models([SEARCH, ANSWER], lambda question: "winter")
    run = asked_run(
        tmp_path,
        models,
        ask=("before",),
        models=("local",),
        given_questions=(questions,),
        inject_at=(0.05, 0.5),
    )
    page = page_of(run)
    assert page["injected_turn"] == 0, "it ended before"
    sections = sections_of(page, mask=mask)
    assert sections["These answers were"] == "not given to the agent: its search ended before"
    # q itself was searched.
    assert "Searched query" in sections
    early = next(path for path in run.parent.iterdir() if "+inject5+" in path.name)
    assert sections_of(page_of(early))["These answers were"] == "given to the agent before its turn 2"


def test_question_whose_reply_is_awaited_has_no_problem(tmp_path: Path, models: Models) -> None:
    """The journal ends with the turn that asks, or with the first of its replies."""
    run = asked_run(tmp_path, models, min_asks=1)
    steps = list(read_records(run / "steps.jsonl"))
    end = [step["step"] for step in steps].index("search/turn/3") + 1
    for n_replies, texts in ((0, ["", ""]), (1, ["winter", ""])):
        write(run / "steps.jsonl", steps[: end + n_replies])
        asked = [event for event in whole_events(opened(run), "1") if event.kind == "ask"]
        assert [(event.request, event.whole_text(), event.failed) for event in asked] == [
            ("Which season?", texts[0], ""),
            ("By car?", texts[1], ""),
        ]
