"""One stored score is edited: everything that shows scores names it, and agrees on the mean of the recomputed ones."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, made_run
from rich.console import Console
from typer.testing import CliRunner
from viewer_server import viewer

from cts_async import load
from cts_async.analysis.summary import summarise_run
from cts_async.cli.main import app
from cts_async.tables.results import print_results
from cts_async.tables.summary import write_summary
from cts_async.watch.progress import ScoreTail

ROWS = [
    Row("q1", labels={"ernie": "fn", "gpt": "ff"}, questions=["when?"], answers=["unknown"]),
    Row("q2", labels={"ernie": "ff", "gpt": "fn"}, questions=["when?"], answers=["in winter"]),
]
MEAN = 75.0
"""Of 50 and 100."""
EDITED = 90.0
SENTENCE = "1 stored score contradicts its nuggets, and is recomputed: 'q1' says 90, its nuggets give 50"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with orig and a run in whose results the score of q1 is edited."""
    folder = tmp_path / "runs"
    made_run(
        folder, label="orig", rows=[Row("q1", labels={"ernie": "nn"}), Row("q2", labels={"ernie": "nn"})]
    )
    run = made_run(folder, label="gpt-k1", rows=ROWS)
    path = run / "results.jsonl"
    text = path.read_text()
    assert text.count('"restore_score_100": 50.0') == 1
    path.write_text(text.replace('"restore_score_100": 50.0', f'"restore_score_100": {EDITED}'))
    return folder


def edited(runs: Path) -> Path:
    return runs / "made-gpt-k1"


def printed(*words: object) -> str:
    """What a command prints, without its line breaks."""
    result = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "1000"})
    assert result.exit_code in (0, 1), result.output
    return " ".join(result.output.split())


def means_in(value: Any) -> list[float]:
    """Every mean in a JSON value, at any depth."""
    if isinstance(value, list):
        return [mean for part in value for mean in means_in(part)]
    if not isinstance(value, dict):
        return []
    means = [mean for part in value.values() for mean in means_in(part)]
    mean = value.get("mean")
    if isinstance(mean, float):
        means.append(mean)
    return means


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    "words", [("compare", "{runs}"), ("status", "{run}"), ("diagnose", "{runs}")], ids=lambda words: words[0]
)
def test_command_names_the_score(runs: Path, words: tuple[str, ...]) -> None:
    text = printed(*(word.format(runs=runs, run=edited(runs)) for word in words))
    assert SENTENCE in text


@pytest.mark.parametrize(
    "words", [("compare", "{runs}", "--json"), ("status", "{run}", "--json")], ids=lambda words: words[0]
)
def test_command_gives_the_recomputed_mean(runs: Path, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [word.format(runs=runs, run=edited(runs)) for word in words])
    assert MEAN in means_in(json.loads(result.stdout))
    assert SENTENCE in result.output


def test_score_names_the_line_and_gives_the_recomputed_mean(runs: Path) -> None:
    text = printed("score", edited(runs))
    assert "restore_score_100 is 90.0 here, its nuggets give 50.0" in text
    assert f"{MEAN:.3f}" in text


def test_results_of_a_command_and_its_summary_name_the_score(runs: Path) -> None:
    summary = summarise_run(edited(runs))
    assert (summary.judges[0].summary.mean, summary.contradictions) == (
        MEAN,
        (f"results.jsonl: {SENTENCE}.",),
    )
    file = io.StringIO()
    print_results(Console(file=file, width=1000), [summary])
    assert f"{edited(runs)}/results.jsonl: {SENTENCE}" in " ".join(file.getvalue().split())
    written = write_summary(summary)
    assert (written["mean"], written["contradictions"]) == (MEAN, [f"results.jsonl: {SENTENCE}."])


def test_report_and_its_tables_name_the_score_and_agree(runs: Path, tmp_path: Path) -> None:
    page, tables = tmp_path / "report.html", tmp_path / "tables"
    printed("report", runs, "--out", page, "--tables", tables)
    html = page.read_text().replace("&#x27;", "'").replace("&#39;", "'")
    assert SENTENCE in html
    for name in ("leaderboard", "effort"):
        rows = {row["system"]: row for row in rows_of((tables / f"{name}.csv").read_text())}
        assert float(rows["gpt-k1"]["mean"]) == MEAN
        assert (rows["gpt-k1"]["recomputed"], rows["orig"]["recomputed"]) == ("True", "False")
        assert "stored score contradicts" in (tables / f"{name}.md").read_text()


@pytest.mark.parametrize("layout", ["release", "csv", "hf"])
def test_export_names_the_score(runs: Path, tmp_path: Path, layout: str) -> None:
    text = printed("export", edited(runs), "--layout", layout, "--out", tmp_path / "out")
    assert SENTENCE in text
    scores = [str(EDITED) in file.read_text() for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert scores
    assert not any(scores)


def test_loaded_rows_have_the_recomputed_score(runs: Path) -> None:
    tables = load(edited(runs))
    assert [row["score"] for row in tables.instances] == [50.0, 100.0]
    assert any(SENTENCE in remark for remark in tables.remarks)


def test_audit_names_the_score(runs: Path) -> None:
    run = runs / "made-orig"
    path = run / "results.jsonl"
    path.write_text(path.read_text().replace('"restore_score_100": 0.0', f'"restore_score_100": {EDITED}', 1))
    result = CliRunner().invoke(app, ["audit", str(run)], env={"COLUMNS": "1000"})
    assert "restore_score_100 is 90.0 here, its nuggets give 0.0" in " ".join(result.output.split())


def test_viewer_names_the_score_and_agrees(runs: Path) -> None:
    name = edited(runs).name
    in_the_run = f"results.jsonl: {SENTENCE}."
    with viewer(runs) as asker:
        row = next(row for row in asker.get("runs")["runs"] if row["name"] == name)
        assert (row["scores"][0]["mean"], row["contradictions"]) == (MEAN, [in_the_run])
        instances = asker.until("instances", lambda page: page["ready"] == 1, run=name)
        assert [one["score"] for one in instances["rows"]] == [50.0, 100.0]
        assert instances["contradictions"] == [in_the_run]
        page = asker.get("instance", run=name, id="q1")
        assert [one["score"] for one in page["scores"]] == [50.0, 100.0]
        assert page["contradictions"] == [f"ernie: {SENTENCE}."]
        matrix = asker.get("matrix", runs=f"made-orig,{name}")
        assert (matrix["means"], matrix["contradictions"]) == ([0.0, MEAN], [f"{name}/{in_the_run}"])
        board = asker.until("leaderboard", lambda board: not board["computing"], data=row["data_sha"])
        means = {one["run"]: (one["mean"], one["recomputed"]) for one in board["boards"][0]["standings"]}
        assert means == {name: (MEAN, True), "made-orig": (0.0, False)}
        assert board["contradictions"] == [f"{name}/{in_the_run}"]
        for csv_of in ({"run": name}, {"runs": f"made-orig,{name}"}, {"data": row["data_sha"]}):
            text = asker.api("csv", **csv_of).body.decode()
            assert "contradict" in text
            assert str(EDITED) not in text


def test_summary_that_is_current_names_the_score_in_the_list(runs: Path) -> None:
    write_summary(summarise_run(edited(runs)))
    with viewer(runs) as asker:
        rows = {row["name"]: row for row in asker.get("runs")["runs"]}
    row = rows[edited(runs).name]
    assert (row["scores"][0]["mean"], row["contradictions"]) == (MEAN, [f"results.jsonl: {SENTENCE}."])


@pytest.mark.parametrize("version", [None, "0.12.0", 13])
def test_summary_of_another_version_does_not_count_in_the_list(runs: Path, version: object) -> None:
    """Version 0.12 and before summed up stored scores as they were."""
    write_summary(summarise_run(edited(runs)))
    path = edited(runs) / "summary.json"
    summary = json.loads(path.read_text())
    summary["judges"]["ernie"]["mean"] = 95.0
    del summary["contradictions"], summary["version"]
    if version is not None:
        summary["version"] = version
    path.write_text(json.dumps(summary))
    with viewer(runs) as asker:
        rows = {row["name"]: row for row in asker.get("runs")["runs"]}
    row = rows[edited(runs).name]
    assert (row["scores"][0]["mean"], row["contradictions"]) == (MEAN, [f"results.jsonl: {SENTENCE}."])


def test_status_names_the_score_of_a_further_judge(runs: Path) -> None:
    line = json.loads((runs / "made-orig" / "results.jsonl").read_text().splitlines()[0])
    line |= {"judge": "gpt", "restore_score_100": EDITED}
    judgments = runs / "made-orig" / "judgments"
    judgments.mkdir(exist_ok=True)
    (judgments / "gpt.jsonl").write_text(json.dumps(line) + "\n")
    text = printed("status", runs / "made-orig")
    assert "judgments/gpt.jsonl: 1 stored score contradicts its nuggets, and is recomputed" in text


def test_live_mean_of_a_resumed_run_is_the_recomputed_one(runs: Path) -> None:
    assert list(ScoreTail(edited(runs) / "results.jsonl").read()) == [50.0, 100.0]


def test_score_without_labels_is_kept(tmp_path: Path) -> None:
    """Judged elsewhere: there is nothing to compute it from."""
    run = made_run(tmp_path, label="orig", rows=[Row("q1", score=60.0), Row("q2", score=70.0)])
    path = run / "results.jsonl"
    lines = [
        json.loads(line) | {"nuggets": None, "restore_score_100": 12.5}
        for line in path.read_text().splitlines()
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = summarise_run(run)
    assert (summary.judges[0].summary.mean, summary.contradictions) == (12.5, ())
    assert [row["score"] for row in load(run).instances] == [12.5, 12.5]
