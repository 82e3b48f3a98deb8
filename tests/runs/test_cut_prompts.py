"""Cut prompts found in journals: those that a version marked, and those of versions before."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from cts_async.analysis.summary import summarise_run
from cts_async.runs.cut_prompts import CutPrompts, JournalCuts, cut_prompt_lines
from cts_async.runs.journal import cut_prompts_in
from cts_async.tables.results import _remarks
from cts_async.tables.summary import write_summary


def turn(number: int, tokens: int, **more: Any) -> dict[str, Any]:
    """An agent's turn with a reply of 100 bytes."""
    request: dict[str, Any] = {"after": f"search/turn/{number - 1}"}
    if "demand" in more:
        request["demand"] = more.pop("demand")
    return {
        "key": f"k{number}",
        "ok": True,
        "instance": "s01",
        "step": f"search/turn/{number}",
        "model": "m-1",
        "request": request,
        "response": {"text": "x" * 100},
        "usage": {"input": tokens, "output": 5},
        **more,
    }


def query(number: int) -> dict[str, Any]:
    """A search whose result is read as 3,940 + 60 bytes."""
    hits = [["u" * 40, "t" * 900, "s" * 3000]]
    step = f"search/tool/{number}.1/query/1"
    return {
        "key": step,
        "ok": True,
        "instance": "s01",
        "step": step,
        "request": {},
        "response": {"hits": hits},
    }


def conversation(*tokens: int) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for number, counted in enumerate(tokens, 1):
        steps += [turn(number, counted), query(number)]
    return steps


CUT = conversation(1000, 2025, 3050, 4000, 4000, 4000, 4000)


def found_in(steps: list[dict[str, Any]]) -> dict[str, CutPrompts]:
    cuts = JournalCuts()
    for step in steps:
        cuts.add(step)
    return cuts.by_model()


def test_turns_that_grow_and_are_counted_the_same_were_cut_in_any_order_of_lines() -> None:
    # After turn 3, counted in full as 3,050, four times 4,100 bytes follow: 3,050 + 0.25 * 16,400 = 7,150.
    expected = {"m-1": CutPrompts(4000, 7150, 3)}
    assert found_in(CUT) == expected
    shuffled = random.Random(3).sample(CUT, len(CUT))
    assert found_in(shuffled) == expected
    assert list(cut_prompt_lines(expected)) == [
        "m-1: the server counted 4,000 of about 7,200 tokens and cuts prompts; set its context or context_tokens "
        "(3 prompts were cut)"
    ]


@pytest.mark.parametrize(
    "steps",
    [
        conversation(1000, 2000, 3000, 4000, 5000, 6000),
        conversation(*[100] * 9),  # a server with one answer to everything
        conversation(*[4000] * 9),
        conversation(0, 0, 0, 0, 0),
        [turn(1, 1000), *(turn(number, 4000, demand="Answer.") for number in range(2, 9))],
        [turn(1, 1000), *(turn(number, 4000, attempts=2) for number in range(2, 9))],
        [turn(2 * number, 4000) for number in range(1, 9)] + [turn(1, 1000)],
        [
            {**turn(1, 2**63), "instance": ["x"]},
            {"step": "search/turn/" + "9" * 5000, "response": {"text": 3}},
        ],
    ],
)
def test_other_conversations_were_not(steps: list[dict[str, Any]]) -> None:
    assert found_in(steps) == {}


def test_summary_and_printed_notes_say_what_was_marked_or_found(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"identity": {"system": "mine-k1"}}')
    marked = {**turn(9, 3900), "step": "visit", "model": "m-2"}
    marked["response"] = {"text": "x", "cut_prompt": 8000}
    lines = [json.dumps(step) + "\n" for step in [*CUT, marked]]
    (tmp_path / "steps.jsonl").write_text("".join(lines))
    summary = summarise_run(tmp_path)
    assert write_summary(summary)["cut_prompts"] == {
        "m-1": {"counted": 4000, "sent": 7150, "calls": 3},
        "m-2": {"counted": 3900, "sent": 8000, "calls": 1},
    }
    assert cut_prompts_in(tmp_path) == summary.spent.cuts.by_model()
    notes = [line for line in _remarks([summary]) if "cuts prompts" in line]
    assert len(notes) == 2
    assert notes[1].startswith("mine-k1: m-2: the server counted 3,900 of about 8,000 tokens")
