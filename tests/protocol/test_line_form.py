"""Lines of results that a hand or another program has changed: one clear line, not a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, made_run

from cts_async.analysis.runs import read_run
from cts_async.errors import InputError
from cts_async.protocol.results import checked_results
from cts_async.report.status import idle_state

WRONG = [
    ("questions", [1]),
    ("answers", -5),
    ("restore_score_100", "nan"),
    ("restore_score_100", True),
    ("nuggets", [{"id": "N1", "coverage": "most", "weight": 1}]),
    ("nuggets", [{"id": "N1", "coverage": "full"}]),
    ("nuggets", [{"id": "N1", "coverage": "full", "weight": 0}]),
    ("nuggets", [{"id": "N1", "coverage": "full", "weight": 1}] * 2),
    ("error", ["x"]),
]


def broken(folder: Path, field: str, value: Any) -> Path:
    """A run whose second line has that in that field."""
    directory = made_run(folder, label="orig", rows=[Row(id, labels={"ernie": "fp"}) for id in "ab"])
    path = directory / "results.jsonl"
    first, second = map(json.loads, path.read_text().splitlines())
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second | {field: value})}\n")
    return path


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_field_of_another_form_is_named_with_its_line(tmp_path: Path, field: str, value: Any) -> None:
    path = broken(tmp_path, field, value)
    with pytest.raises(InputError, match=f"results.jsonl:2: field '{field}': has to be "):
        read_run(path.parent)


@pytest.mark.parametrize(("field", "value"), [("answers", 3), ("restore_score_100", ["x"]), ("error", "no")])
def test_cts_status_says_so_of_that_run(tmp_path: Path, field: str, value: Any) -> None:
    state = idle_state(broken(tmp_path, field, value).parent)
    assert (state.state, f"field '{field}'" in state.reason) == ("damaged", True)


def test_fields_that_are_not_there_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"id": "a", "nuggets": null}\n{"id": 3}\n')
    assert list(checked_results(path)) == [{"id": "a", "nuggets": None}]
