"""InteractComp's modes and its table of models, beside runs whose accuracy is known by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cts_async.runs.finished import read_run
from cts_async.tables.comparison import compare_runs
from cts_async.tables.interactcomp import Mode, ladder_json, ladder_of, mode_of

SEARCH, ASK = {"search": "1", "visit": "1"}, {"ask": "1"}


def made_run(
    folder: Path, system: str, labels: str, *, tools: Any = None, asks: Any = None, turns: int = 4
) -> Path:
    """A run over tasks that were judged right (+) or wrong (-); each asked one question in so many turns."""
    run = folder / f"{system}{len(list(folder.iterdir()))}"
    run.mkdir()
    identity: dict[str, Any] = {
        "system": system,
        "k": 0,
        "data": {"name": "interactcomp", "sha256": "a" * 64},
        "agent": {"max_turns": 10},
        "judges": ["gpt"],
    }
    if tools is not None:
        identity["agent_tools"] = tools
    if asks is not None:
        identity["asks"] = {"max": 5, "min": 0, "replies": "yes-no"} | asks
    manifest = {"identity": identity, "players": {"agent": "GPT-5"}, "n_expected": len(labels)}
    (run / "run.json").write_text(json.dumps(manifest))
    lines = []
    for n, label in enumerate(labels):
        coverage, score = ("full", 100.0) if label == "+" else ("none", 0.0)
        nugget = {"id": "answer", "weight": 3.0, "coverage": coverage}
        line: dict[str, Any] = {"id": str(n), "fused_query": f"q{n}", "blurred_query": f"q{n}", "answer": "x"}
        line |= {"questions": [], "answers": [], "confidence": 80, "search": {"model_calls": turns}}
        if asks is not None:
            line["asks"] = [{"question": "Is it blue?", "reply": "yes", "turn": 1}]
            line["search"]["turns"] = turns
        line |= {"judge": "gpt", "nuggets": [nugget], "restore_score_100": score}
        lines.append(json.dumps(line) + "\n")
    (run / "results.jsonl").write_text("".join(lines))
    return run


@pytest.mark.parametrize(
    ("system", "tools", "asks", "mode"),
    [
        ("orig", {}, None, "answer_only"),
        ("orig", None, None, "search_only"),
        ("orig+ask5-yesno", ASK, {}, "ask_only"),
        ("orig+ask5-yesno", SEARCH | ASK, {}, "full"),
        ("orig+ask5-min5-yesno", SEARCH | ASK, {"min": 5}, "forced_ask"),
        ("gold", None, None, "full_with_context"),
        ("gold", {}, None, None),
        ("orig", {"visit": "1"}, None, None),
    ],
)
def test_mode_is_told_by_tools_and_questions(
    tmp_path: Path, system: str, tools: Any, asks: Any, mode: Mode | None
) -> None:
    run = made_run(tmp_path, system, "+-", tools=tools, asks=asks)
    assert mode_of(read_run(run)) == mode


def test_ladder_has_every_mode_with_its_published_value_and_ours(tmp_path: Path) -> None:
    made_run(tmp_path, "orig", "----")
    made_run(tmp_path, "orig", "+---", tools={})
    made_run(tmp_path, "orig+ask5-yesno", "++--", tools=SEARCH | ASK, asks={})
    made_run(tmp_path, "gold", "++++")
    modes, models = ladder_of(compare_runs([str(tmp_path)]))
    assert {
        row["mode"]: (row["accuracy"], row["published"], row["published_above"]) for row in modes.rows
    } == {
        "answer_only": (25.0, None, None),
        "search_only": (0.0, None, None),
        "ask_only": (None, None, None),
        "full": (50.0, 13.73, None),
        "forced_ask": (None, None, 24.0),
        "full_with_context": (100.0, 71.5, None),
    }
    (full,) = [row for row in modes.rows if row["mode"] == "full"]
    # Wilson: 2 of 4, z = 1.95996: centre 0.5, half 0.3500 (worked by hand from z^2 = 3.8415).
    assert (full["low"], full["high"]) == (pytest.approx(15.00, abs=0.01), pytest.approx(85.00, abs=0.01))
    published, ours = models.rows[0], models.rows[-1]
    assert (published["model"], published["accuracy"], published["calibration_error"]) == (
        "GPT-5",
        13.73,
        68.67,
    )
    # One question in four turns; all answers 80 % sure, half of them right.
    assert (ours["rounds"], ours["interaction_rate"], ours["calibration_error"]) == (4, 25, 30)
    assert "multiples of 1/210" in ladder_json([modes, models])["remark"]
