"""`runs/*` where `cts report` has left its page among the runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Row, made_run
from typed_commands import Cts


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs and the report of them."""
    for label, word in (("orig", "n"), ("gpt-k1", "f")):
        made_run(tmp_path, label=label, rows=[Row(f"q{i}", labels={"ernie": word}) for i in range(3)])
    (tmp_path / "report.html").write_text("<!doctype html>\n<html>\n</html>\n")
    return tmp_path


@pytest.mark.parametrize("command", ["compare", "diagnose", "report", "score", "status"])
def test_a_report_among_the_runs_is_passed_over(cts: Cts, runs: Path, command: str) -> None:
    done = cts(command, runs / "*")
    assert done.code == 0, done.err
    done = cts(command, *sorted(runs.iterdir()))
    assert done.code == 0, done.err


@pytest.mark.parametrize(("command", "said"), [("score", "not valid JSON"), ("status", "no run found")])
def test_a_report_alone_is_refused(cts: Cts, runs: Path, command: str, said: str) -> None:
    done = cts(command, runs / "report.html")
    assert done.code == 2
    assert said in done.err
