"""Gold builds summarised and printed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cts_async.errors import InputError
from cts_async.tables.gold import print_gold, summarise_gold


def line(id: str, *checked: dict[str, Any], weights: tuple[int, ...], **more: Any) -> dict[str, Any]:
    nuggets = [{"id": one["id"], "text": "t", "weight": w, "source_ids": one.pop("cites", ["S1"])}
               for one, w in zip(checked, weights, strict=True)]  # fmt: skip
    weak = [one["id"] for one in checked if one["recall"] < 0.5 or "missing_numbers" in one]
    return {
        "id": id,
        "gold": {"nuggets": nuggets},
        "grounding": {"nuggets": list(checked), "ungrounded": weak},
        "evidence": {"found": 3, "dropped": [], "cut": {}},
        "repairs": [],
        **more,
    }


def written(folder: Path, *lines: dict[str, Any], expected: int = 4) -> Path:
    manifest = {"identity": {"system": "goldbuild"}, "n_expected": expected}
    (folder / "run.json").write_text(json.dumps(manifest))
    (folder / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    step = {
        "key": "0" * 32,
        "step": "extract",
        "model": "m",
        "usage": {"input": 5, "output": 1},
        "attempts": 2,
    }
    (folder / "steps.jsonl").write_text(json.dumps(step) + "\n")
    return folder


FAILED = {"id": "q3", "error": {"step": "search", "kind": "no_sources", "message": "no [sources]"}}
Q1 = line(
    "q1",
    {"id": "N1", "recall": 1.0, "cites": ["S1", "S2"]},
    {"id": "N2", "recall": 0.25, "missing_terms": ["museum", "opened", "daily"]},
    {"id": "N3", "recall": 0.75, "better_source": "S4", "better_recall": 1.0},
    weights=(3, 2, 2),
    repairs=["weight written as text: nuggets[0] (N1)"],
)
Q2 = line(
    "q2",
    {"id": "N1", "recall": 0.8, "missing_numbers": ["1997"]},
    weights=(3,),
    evidence={"found": 9, "dropped": ["S3"], "cut": {}},
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return written(tmp_path, FAILED | {"id": "q2"}, Q1, FAILED, Q2)


def printed(directory: Path, width: int) -> str:
    out = io.StringIO()
    print_gold(Console(file=out, width=width, color_system=None), summarise_gold(directory))
    return out.getvalue()


def test_gold_summary_matches_hand_calculation(directory: Path) -> None:
    value = summarise_gold(directory).values
    assert (value["n_expected"], value["n_done"], value["n_failed"]) == (4, 2, 1)
    assert value["nuggets"] == 4
    assert value["nuggets_per_intent"] == {"mean": 2.0, "min": 1, "max": 3}
    assert value["weights"] == {"3": 2, "2": 2, "1": 0}
    assert value["sources_per_nugget"] == 5 / 4
    assert value["grounding"] == {
        "mean": 0.7,  # (1 + 0.25 + 0.75 + 0.8) / 4
        "grounded": 2,
        "grounded_share": 0.5,
        "better_elsewhere": 1,
    }
    assert (value["repaired"], value["evidence_limited"], value["calls"]) == (1, 1, 2)


def test_suspects_are_ordered_by_grounding(directory: Path) -> None:
    suspects = summarise_gold(directory).values["suspicious"]
    assert [(suspect["intent"], suspect["nugget"]) for suspect in suspects] == [
        ("q1", "N2"), ("q2", "N1"), ("q1", "N3"),
    ]  # fmt: skip


@pytest.mark.parametrize("width", [80, 120])
def test_gold_table_prints_all_numbers(directory: Path, width: int) -> None:
    text = printed(directory, width)
    printed_lines = [" ".join(row.split()) for row in text.splitlines()]
    for row in (
        "intents done 2/4",
        "intents failed 1",
        "nuggets per intent mean 2.00, min 1, max 3 (4 in all)",
        "nuggets by weight 3: 2 (50%), 2: 2 (50%), 1: 0 (0%)",
        "sources per nugget 1.25",
        "grounding, mean recall 0.700",
        "grounded 2/4 (50.0%), 2 below",
        "better in another source 1",
        "suspicious: q1 N2, recall 0.25, missing museum opened daily",
        "suspicious: q2 N1, recall 0.80, missing 1997",
        "look at: q1 N3, recall 0.75; better in S4 (1.00)",
    ):
        assert row in printed_lines
    assert any(line.endswith("q3 at search: no [sources]") for line in printed_lines)


def test_suspects_are_printed_without_control_characters(tmp_path: Path) -> None:
    hostile = {"id": "N1", "recall": 0.0, "missing_terms": ["\x1b[31mred", "[bold]x"]}
    text = printed(written(tmp_path, line("q\x07", hostile, weights=(1,))), 100)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x" in text


def test_damaged_line_of_a_build_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="results.jsonl: has a damaged line"):
        summarise_gold(written(tmp_path, Q1, {"id": "q2", "gold": 5}))
