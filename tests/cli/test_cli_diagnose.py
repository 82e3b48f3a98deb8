"""`cts diagnose` as a user types it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from made_runs import Row, made_run
from test_cli_usage import refused
from typed_commands import cts_in

CITY, YEAR = "Which city are you asking about?", "Which year do you need?"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of runs: orig, gpt with one question, and kimi which has not finished."""
    folder = tmp_path / "runs"
    made_run(folder, label="orig", rows=[Row(id, score=10.0) for id in "ab"])
    rows = [Row("a", [CITY], ["unknown"], score=10.0), Row("b", [YEAR], ["2024"], score=50.0)]
    made_run(folder, label="gpt-k1", rows=rows)
    made_run(folder, label="kimi-k1", rows=[Row("a", [CITY], ["unknown"], score=20.0)], n_expected=2)
    return tmp_path


def test_tables_are_printed_as_json_and_csv(runs: Path) -> None:
    done = cts_in(runs, "diagnose", "runs", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Table 4. UA diagnostics" in done.stdout
    assert "runs/made-kimi-k1: not finished, left out (1 of 2 instances)" in done.stdout
    done = cts_in(runs, "diagnose", "runs/*-gpt-k1", "--json", "--csv", "tables")
    found = json.loads(done.stdout)
    assert found["table_4"][0]["ua_unknown_rate"] == 0.5
    assert found["orig"] == "runs/made-orig"
    assert found["ask_or_not"][0]["always"] == 30.0
    [row] = csv.DictReader((runs / "tables" / "table_5.csv").read_text(encoding="utf-8").splitlines())
    assert (row["model"], row["region_only"], row["region_only_unknown_rate"]) == ("gpt", "1", "1.0")


def test_folder_of_question_files_is_one_model_per_file(tmp_path: Path) -> None:
    folder = tmp_path / "clarify_only"
    folder.mkdir()
    for name in ("gpt_k1", "kimi_k1"):
        (folder / f"{name}.csv").write_text(f"blurred_query,cq,ua_answer\nferry,{CITY},unknown\n")
    found = json.loads(cts_in(tmp_path, "diagnose", "clarify_only", "--json").stdout)
    assert [row["model"] for row in found["table_5"]] == ["gpt_k1", "kimi_k1"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["runs/nothing"], "runs/nothing: no such run, folder or file"),
        (["runs/made-orig"], "no Clarifier's run with answers"),
        (["runs/made-gpt-k1", "--judge", "gpt"], "were not judged by it; their judges are: ernie"),
        (["runs/made-gpt-k1", "--types-file", "no.csv"], "no.csv"),
        (["runs/made-gpt-k1", "--orig", "runs"], "run.json not found"),
        (["runs/made-gpt-k1", "q.csv"], "not both"),
        (["q.csv", "--judge", "gpt"], "files of questions have no scores"),
        (["q.csv"], "q.csv:2: field 'questions': is missing; the fields here are 'query', 'reply'"),
        (["none.csv"], "none.csv: no such file"),
        ([], "RUN"),
    ],
)
def test_unusable_input_is_refused_in_one_line(runs: Path, words: list[str], problem: str) -> None:
    (runs / "q.csv").write_text("query,reply\nferry,now\n")
    assert problem in refused(runs, "diagnose", *words)
