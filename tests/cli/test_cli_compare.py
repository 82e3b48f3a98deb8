"""`cts compare`: tables, JSON, and refusals."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from made_runs import Row, made_run
from typed_commands import Cts, cts_in


def compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return cts_in(folder, "compare", *words, COLUMNS="80")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for label, word in (("orig", "n"), ("gpt-k1", "f")):
        rows = [Row(f"q{i}", labels={"ernie": word, "gpt": "p"}) for i in range(3)]
        made_run(tmp_path / "runs", label=label, rows=rows, embedded=label == "gpt-k1")
    return tmp_path


def test_folder_of_runs_is_printed_as_tables(runs: Path) -> None:
    done = compare(runs, "runs/")
    assert done.returncode == 0, done.stderr
    assert "100.000 (+100.000)" in done.stdout
    assert "Ordering by gpt: gpt-k1 = orig" in done.stdout
    assert "Smoke test" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_json_output_is_only_json(runs: Path) -> None:
    done = compare(runs, "runs/made-*", "--judge", "gpt", "--baseline", "orig", "--json")
    found = json.loads(done.stdout)
    assert [judge["judge"] for judge in found["judges"]] == ["gpt"]
    assert found["judges"][0]["family"] == {"tests": 1, "against": "orig"}
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "cts: nowhere: no such run, folder or file"),
        (["runs/made-orig"], "cts: one run alone (runs/made-orig)"),
        (["runs", "--judge", "kimi"], "cts: no run here was judged by 'kimi'; there are ernie, gpt"),
        (["runs", "--baseline", "kimi"], "cts: --baseline kimi: no such system here"),
        ([], "cts: Missing argument 'RUN...'"),
    ],
)
def test_mistake_is_one_line_and_exit_2(runs: Path, words: list[str], said: str) -> None:
    done = compare(runs, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("compare", ""),
        ("diagnose", ""),
        ("report", ""),
        ("score", "not valid JSON"),
        ("status", "no run found"),
    ],
)
def test_report_page_is_passed_over_among_runs_and_refused_alone(
    cts: Cts, runs: Path, command: str, problem: str
) -> None:
    page = runs / "runs" / "report.html"
    page.write_text("<!doctype html>\n<html>\n</html>\n")
    for words in ([runs / "runs" / "*"], sorted(page.parent.iterdir())):
        done = cts(command, *words)
        assert done.code == 0, done.err
    if problem:
        done = cts(command, page)
        assert (done.code, problem in done.err) == (2, True)
