"""A failed instance shows what was done before it failed, as the journal has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run
from viewer_server import viewer

CALL = '<tool_call>{"name": "search", "arguments": {"query": ["ferry"]}}</tool_call>'
OFFERED = [f"ferry {n}" for n in range(1, 6)]


def step(name: str, text: str, *, ok: bool = True) -> dict[str, Any]:
    return {"key": name, "ok": ok, "instance": "s1", "step": name, "response": {"text": text}}


def turn(offered: list[str], answers: list[str], **more: Any) -> dict[str, Any]:
    return {"offered": offered, "answers": answers, "chosen": None, "query": "", **more}


AT_ONCE = [
    step("clarify", '["Which day?", "<img src=x>"]'),
    step("answer/1", "never used", ok=False),
    step("answer/2", "Not specified."),
    step("answer/1", '"in winter"'),
]


@pytest.mark.parametrize(
    ("mode", "steps", "turns", "query", "answer"),
    [
        ("at-once", [], [], None, None),
        ("at-once", [step("clarify", "two questions, unreadable")], [], None, None),
        (
            "at-once",
            [
                *AT_ONCE,
                step("rewrite", "ferry in winter"),
                step("search/turn/1", "<answer>At nine.</answer>"),
            ],
            [turn(["Which day?"], ["in winter"]), turn(["<img src=x>"], ["unknown"])],
            "ferry in winter",
            "At nine.",
        ),
        (
            "at-once",
            [step("clarify", '["Which day?", "Where?"]'), step("search/turn/1", CALL)],
            [turn(["Which day?"], []), turn(["Where?"], [])],
            None,
            None,
        ),
        (
            "respond",
            [step("clarify/1", '["When?"]'), step("answer/1", "at night"), step("clarify/2", '["Where?"]')],
            [turn(["When?"], ["at night"]), turn(["Where?"], [])],
            None,
            None,
        ),
        (
            "select",
            [step("clarify/1", json.dumps(OFFERED)), step("select/1", '{"choice": 2}')],
            [turn(OFFERED, [], chosen=1, query="ferry 2")],
            "ferry 2",
            None,
        ),
    ],
)
def test_a_failed_instance_shows_how_far_it_came(
    tmp_path: Path, mode: str, steps: list[Any], turns: list[Any], query: str | None, answer: str | None
) -> None:
    run = made_run(tmp_path, label="gpt-k2", rows=[Row("s1", error="judge")])
    with changed_manifest(run) as manifest:
        manifest["identity"] |= {"k": 2, "mode": mode, "scheme": "cts" if mode == "at-once" else "standard"}
    (run / "steps.jsonl").write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in steps))
    with viewer(tmp_path) as asker:
        page = asker.get("instance", run=run.name, id="s1")
    assert page["error"]["step"] == "judge"
    assert [{name: one[name] for name in turn([], [])} for one in page["turns"]] == turns
    assert (page["rewritten_query"], page["answer"]) == (query, answer)
    assert page["scores"] == []
