"""`cts data mimics-duo ltr` as typed, on panes made by hand and on the real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_panes import pane, write_panes
from typer.testing import CliRunner

from cts_async.cli.main import app
from cts_async.errors import InputError, UsageError


def ltr(*args: object) -> str:
    done = CliRunner().invoke(
        app, ["data", "mimics-duo", "ltr", *map(str, args)], catch_exceptions=False, env={"COLUMNS": "80"}
    )
    assert done.exit_code == 0, done.output
    return done.stdout


def duo(folder: Path) -> Path:
    """Twelve queries with three panes: more options, more engagement, less quality."""
    return write_panes(
        folder,
        [
            pane(
                f"q{i}",
                [f"a{i}", "b", "c", "d"][: 2 + (i + j) % 3],
                engagement_level=(i + j) % 3,
                pane_quality=3 - (i + j) % 3,
            )
            for i in range(12)
            for j in range(3)
        ],
    )


def test_json_has_every_ranker_asked_for(tmp_path: Path) -> None:
    found = json.loads(ltr(duo(tmp_path), "--ranker", "rankboost", "--ranker", "ranknet", "--json"))
    assert [(row["ranker"], row["p_at_1"]) for row in found["rankers"]] == [
        ("rankboost", 1),
        ("ranknet", 1),
        ("random", pytest.approx(1 / 3)),
        ("worst", 0),
    ]
    assert (found["data"][0]["queries"], found["data"][0]["panes"]) == (12, 36)
    assert found["top_features"][0]["feature"] == "The Number of Candidate Answers"
    assert [row["ranker"] for row in found["features"]] == ["rankboost"] * 20 + ["ranknet"] * 20


def test_one_label_trains_and_another_tests(tmp_path: Path) -> None:
    asked = ("--ranker", "rankboost", "--test-label", "quality", "--json")
    found = json.loads(ltr(duo(tmp_path), *asked))
    assert (found["data"][0]["label"], found["data"][0]["test_label"]) == ("engagement", "quality")
    assert found["rankers"][0]["p_at_1"] == 0


def test_a_tsv_in_the_format_of_mimics_will_do(tmp_path: Path) -> None:
    folder = duo(tmp_path)
    table = ltr(
        folder / "Mimics-ClickExploreSampling.tsv",
        "--ranker",
        "coordinate-ascent",
        "--folds",
        "3",
        "--csv",
        tmp_path,
    )
    assert len((tmp_path / "features.csv").read_text().splitlines()) == 1 + 20
    assert "3 folds by" in table
    assert "The 10 features with the highest weight in Coordinate Ascent" in table


def test_labels_rankers_and_empty_columns_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = duo(tmp_path)
    with pytest.raises(UsageError, match="unknown label 'clicks': choose from engagement, quality, rating"):
        ltr(folder, "--label", "clicks")
    with pytest.raises(UsageError, match="--features-of mart: must be one of the rankers used: rankboost"):
        ltr(folder, "--ranker", "rankboost", "--features-of", "mart")
    empty = tmp_path / "empty.tsv"
    empty.write_text((folder / "Task1-OfflineRating.tsv").read_text().replace("\t3\n", "\t\n")[:-1] + "\n")
    with pytest.raises(InputError, match="has no pane with a label for rating"):
        ltr(empty, "--label", "rating")


def test_the_random_ranker_on_the_real_panes_is_the_published_one(shared_data: Path) -> None:
    """Table 7, all panes: P@1 0.332. On stars, the label that stands beside other panes', a ranker does better."""
    asked = (shared_data / "mimics-duo", "--ranker", "rankboost", "--json")
    engagement, rating = (json.loads(ltr(*asked, "--label", label)) for label in ("engagement", "rating"))
    assert (engagement["data"][0]["queries"], engagement["data"][0]["panes"]) == (306, 1034)
    assert engagement["rankers"][1]["p_at_1"] == pytest.approx(0.332, abs=5e-4)
    assert rating["rankers"][0]["p_p_at_1_vs_random"] < 0.001
