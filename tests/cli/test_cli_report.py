"""`cts report` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Row, made_run
from typer.testing import CliRunner

from cts_async.cli.main import app


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for label, score in (("orig", 50), ("gpt-k1", 60)):
        made_run(tmp_path / "runs", label=label, rows=[Row("a", ["Q?"], ["yes"], score=score)])
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def told(*words: str) -> list[str]:
    done = CliRunner().invoke(app, ["report", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout.splitlines()


def test_report_of_a_folder_is_written_into_it(runs: Path) -> None:
    page, tables = told("runs", "--tables", "tables")
    assert page.startswith("runs/report.html: ")
    assert page.endswith(" tables, 2 instances opened")
    assert tables.startswith("tables: ")
    assert (runs / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (runs.parent / "tables" / "leaderboard.tex").read_text().count("\\toprule") == 1


def test_folder_runs_is_the_default(runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert told()[0].startswith("runs/report.html: ")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "no folder runs/" in str(CliRunner().invoke(app, ["report"]).exception)


def test_unknown_plot_format_is_refused_first(runs: Path) -> None:
    done = CliRunner().invoke(app, ["report", "nothing", "--plots", "p", "--plot-format", "gif"])
    assert "not as 'gif'" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "-"], "--out -: a report is written to a file"),
        (["--tables", "taken"], "taken: is a file; name a folder with --tables"),
        (["--plots", "taken"], "taken: is a file; name a folder with --plots"),
    ],
)
def test_unusable_targets_are_refused_before_writing(
    runs: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("taken").touch()
    monkeypatch.setattr("cts_async.report.plots.image_files._browser", lambda: None)
    done = CliRunner().invoke(app, ["report", "runs", *words])
    assert said in str(done.exception)
    assert not (runs / "report.html").exists()
    assert not Path("-").exists()
