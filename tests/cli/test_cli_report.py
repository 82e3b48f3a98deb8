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
    monkeypatch.setattr("cts_async.pages.plots.image_files._browser", lambda: None)
    done = CliRunner().invoke(app, ["report", "runs", *words])
    assert said in str(done.exception)
    assert not (runs / "report.html").exists()
    assert not Path("-").exists()


def test_reports_call_systems_by_their_names_and_refuse_bad_ones(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("cts.toml").write_text(
        '[names]\norig = "No clarification"\ngpt = "GPT-5.2 & 查询"\n1 = "no number"\n'
    )
    told("runs", "--tables", "tables", "--baseline", "orig")  # options take the usual names
    rows = Path("tables", "leaderboard.csv").read_text().splitlines()[1:]
    assert [row.split(",")[:2] for row in rows] == [["No clarification", "0"], ["GPT-5.2 & 查询 (k=1)", "1"]]
    page = (runs / "report.html").read_text(encoding="utf-8")
    assert "GPT-5.2 &amp; 查询 (k=1)" in page
    assert ">gpt-k1<" not in page
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "cts" / "cts.toml"
    own.parent.mkdir()
    own.write_text('[names]\na = "Mine"\n')
    for wrong, problem in (
        ('[names]\nb = "Mine"', "cts.toml:2: field 'names.b': is the name of 'a' already"),
        (
            "[names]\norig = 3",
            "cts.toml:2: field 'names.orig': must be a name of one line in quotes, at most 60 characters",
        ),
        (
            '[names]\na = "x"\nb = "x"',
            "cts.toml:3: field 'names.b': is the name of 'a' already; give each its own",
        ),
    ):
        Path("cts.toml").write_text(wrong)
        assert problem in str(CliRunner().invoke(app, ["report", "runs"]).exception)
