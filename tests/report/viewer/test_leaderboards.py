"""The leaderboard of runs over the same data, with the numbers of `cts compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, made_run
from viewer_server import Asker, viewer

from cts_async.report.comparison import compare_runs
from cts_async.report.viewer.leaderboards import leaderboards_of


def rows(*labels: str) -> list[Row]:
    return [Row(f"i{n}", labels={"ernie": one, "gpt": "ff"}) for n, one in enumerate(labels)]


def board(asker: Asker) -> Any:
    sha = asker.get("runs")["runs"][0]["data_sha"]
    return asker.until("leaderboard", lambda said: not said["computing"], data=sha)


def test_systems_stand_in_order_with_their_difference_to_orig(tmp_path: Path) -> None:
    orig = made_run(tmp_path, label="orig", rows=[*rows("nn", "fn"), Row("i2", error="search/turn/1")])
    made_run(tmp_path, label="gpt-k1", rows=rows("ff", "ff", "fn"), embedded=True, n_expected=4)
    compared = compare_runs([str(tmp_path)])
    with viewer(tmp_path) as asker:
        found = board(asker)
    assert (found["problem"], found["data"]) == ("", "made")
    first, second = found["boards"]
    assert [(first["judge"], first["baseline"]), (second["judge"], second["baseline"])] == [
        ("ernie", "orig"),
        ("gpt", "orig"),
    ]
    one, other = first["standings"]
    assert one == {
        "run": orig.name,
        "system": "orig",
        "smoke_test": False,
        "n_scored": 2,
        "n_expected": 3,
        "n_failed": 1,
        "mean": 25.0,
        "p50": 25.0,
        "p90": 45.0,
        "delta": None,
        "delta_low": None,
        "delta_high": None,
    }
    assert (other["run"], other["smoke_test"], other["n_scored"], other["n_expected"]) == (
        "made-gpt-k1",
        True,
        3,
        4,
    )
    delta = compared.judged[0].standings[1].delta
    assert delta is not None
    assert (other["delta"], other["delta_low"], other["delta_high"]) == (75.0, delta.low, delta.high)


def test_it_is_worked_out_again_when_results_have_come(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k1", rows=rows("ff"))
    with viewer(tmp_path) as asker:
        assert board(asker)["boards"][0]["standings"][0]["mean"] == 100.0
        made_run(tmp_path / "later", label="gpt-k1", rows=rows("ff", "nn"))
        (tmp_path / "later" / run.name / "results.jsonl").replace(run / "results.jsonl")
        (tmp_path / "later" / run.name / "run.json").unlink()
        assert board(asker)["boards"][0]["standings"][0]["mean"] == 50.0


def test_without_orig_there_is_nothing_to_differ_from(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k1", rows=rows("ff"))
    (one,) = leaderboards_of({"one": run})["boards"][0]["standings"]
    assert (leaderboards_of({"one": run})["boards"][0]["baseline"], one["delta"], one["run"]) == (
        None,
        None,
        "one",
    )


@pytest.mark.parametrize("labels", [("ff", "fff"), ()])
def test_what_cannot_be_compared_says_why_without_naming_paths(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    runs = {}
    for number, one in enumerate(labels or ("", "")):
        made = [Row("i", labels={"ernie": one})] if one else [Row("i")]
        runs[f"run {number}"] = made_run(tmp_path / str(number), label="gpt-k1", rows=made)
    said = leaderboards_of(runs)
    assert said["boards"] == []
    assert said["problem"]
    assert str(tmp_path) not in said["problem"]


def test_data_that_nobody_ran_over_has_none(tmp_path: Path) -> None:
    with viewer(tmp_path) as asker:
        assert asker.api("leaderboard", data="").status == 404
        assert asker.api("leaderboard", data="../..").status == 404
