"""`cts compare`: tables, JSON, and refusals."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from made_runs import Row, made_run
from typed_commands import Cts, cts_in

import cts_async


def compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return cts_in(folder, "compare", *words, COLUMNS="80")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for label, word in (("orig", "n"), ("gpt-k1", "f")):
        asked = {"questions": ["Which year?"], "answers": ["2024"]} if label == "gpt-k1" else {}
        rows = [Row(f"q{i}", labels={"ernie": word, "gpt": "p"}, **asked) for i in range(3)]
        made_run(tmp_path / "runs", label=label, rows=rows, embedded=label == "gpt-k1")
    return tmp_path


def test_folder_of_runs_is_printed_as_tables(runs: Path) -> None:
    done = compare(runs, "runs/")
    assert done.returncode == 0, done.stderr
    assert "100.000 (+100.000)" in done.stdout
    assert "Order of the means by gpt: gpt-k1 = orig" in done.stdout
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
        (["runs", "--judge", "kimi"], "cts: no run here was judged by 'kimi'; there are ernie, gpt"),
        ([], "cts: Missing argument 'RUN'"),
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


def test_published_values_are_shown_with_ours(runs: Path) -> None:
    done = compare(runs, "runs", "--published")
    assert done.returncode == 0, done.stderr
    first, warning, *_ = [line for line in done.stdout.split("\n\n") if line]
    # orig: mean, p50 and p90; gpt-k1: these and delta; table 9 by gpt: both means. All three scores are alike, so none
    # of these nine has an interval. Of 3 questions 0 to 1.7 may be about a region: table 4's 0.351 (0 to 0.56), and not
    # 0.618 unknown or table 5's 121.
    assert " ".join(first.split()).startswith(
        "1 of 3 published values lie in our 95 % intervals (not comparable); the others: "
        "GPT k = 1 ua_unknown_rate 0.618, ours 0.000 [0.000, 0.561]; "
    )
    assert "; 9 more have no interval: too few instances, or all alike." in " ".join(first.split())
    assert " ".join(warning.split()) == (
        "Not comparable with the paper: the data are made instead of Hard518; n = 3 instead of 518."
    )
    assert "Table 2 of the paper. Benchmark results" in done.stdout
    assert "restore_score_100" not in done.stdout


def test_published_json_stands_beside_the_comparison(runs: Path) -> None:
    plain = json.loads(compare(runs, "runs", "--json").stdout)
    found = json.loads(compare(runs, "runs", "--published", "--json").stdout)
    published = found.pop("published")
    assert found == plain
    assert published["departures"] == ["the data are made instead of Hard518", "n = 3 instead of 518"]
    assert [*published["tables"]] == [f"published_{table}" for table in (2, 3, 4, 5, 7, 9)]
    assert published["tables"]["published_3"][0]["published_low"] == 5.566
    again = cts_async.compare(runs / "runs", published=True)
    assert json.loads(json.dumps(again["published"])) == published


def test_single_run_is_compared_with_the_paper(runs: Path) -> None:
    done = compare(runs, "runs/made-gpt-k1", "--published")
    assert done.returncode == 0, done.stderr
    # Table 2 without orig has no delta; of table 9 the judge gpt has one value. Of these four none has an interval.
    assert done.stdout.startswith("1 of 3 published values")
    assert "No differences: no orig among these runs" in " ".join(done.stdout.split())


def test_runs_of_no_system_of_the_paper_are_named_as_such(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", label="local-k1", rows=[Row("q", score=1.0)])
    done = compare(tmp_path, "runs", "--published")
    assert done.returncode == 0, done.stderr
    assert " ".join(done.stdout.split()).startswith(
        "Nothing to compare with the paper: none of these runs is orig with scores, or one of the Clarifiers Qwen, "
    )
    assert "Not comparable" not in done.stdout


def test_csv_has_every_table_that_is_printed(runs: Path) -> None:
    compare(runs, "runs", "--judge", "ernie", "--judge", "gpt", "--csv", "usual")
    names = {path.name for path in (runs / "usual").iterdir()}
    assert names >= {"leaderboard.csv", "leaderboard_2.csv", "judges.csv"}
    done = compare(runs, "runs", "--published", "--csv", "beside")
    assert done.returncode == 0, done.stderr
    written = sorted(path.name for path in (runs / "beside").iterdir())
    assert written == [f"published_{table}.csv" for table in (2, 3, 4, 5, 7, 9)]
    head, row = (runs / "beside" / "published_3.csv").read_text().splitlines()
    assert head.startswith(
        "table,system,k,run,measure,published,ours,low,high,n,published_low,published_high"
    )
    assert row.startswith("3,GPT,1,gpt-k1,delta,7.04,100.0,,,3,5.566,8.578")
    (runs / "file").write_text("")
    done = compare(runs, "runs", "--published", "--csv", "file")
    assert (done.returncode, done.stderr) == (2, "cts: file: is a file; name a folder for the tables\n")


def test_runs_without_scores_are_compared_with_the_paper(tmp_path: Path) -> None:
    """Runs that stop before the search have no scores, and the answers of the User Answerer all the same."""
    asked = {"questions": ["Which year?"], "answers": ["unknown"], "answer": ""}
    made_run(tmp_path / "runs", label="gpt-k1", rows=[Row(f"q{i}", **asked) for i in range(3)])
    done = compare(tmp_path, "runs", "--published", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["published"]
    assert [*found["tables"]] == ["published_4", "published_5", "published_7"]
    (rate, _) = found["tables"]["published_4"]
    assert (rate["measure"], rate["published"], rate["ours"]) == ("ua_unknown_rate", 0.618, 1.0)
