"""`cts data mimics-duo` as typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from made_panes import pane, panes_of, write_panes
from typer.testing import CliRunner

from cts_async.cli.main import app
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.mimics_duo.panes import ASPECTS


def mimics(*args: object) -> str:
    done = CliRunner().invoke(
        app, ["data", "mimics-duo", *map(str, args)], catch_exceptions=False, env={"COLUMNS": "80"}
    )
    assert done.exit_code == 0, done.output
    return done.stdout


def ltr(*args: object) -> str:
    return mimics("ltr", *args)


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
    assert len(found["tests"]) == 2 * (2 + 1)
    assert [note[:30] for note in found["notes"]] == ["The paper's tables 3 to 5 are "]


def test_clicks_of_one_collection_rank_the_labels_of_another_beside_the_paper(tmp_path: Path) -> None:
    """More options are more engagement in the first folder and less quality in the second: clicks mislead."""
    train, test = duo(tmp_path / "clicks"), duo(tmp_path / "labels")
    asked = (train, "--test", test, "--test-label", "quality", "--ranker", "rankboost")
    with pytest.raises(UsageError, match="no query that the test data does not have"):
        ltr(*asked)
    for path in test.iterdir():
        path.write_text(path.read_text().replace("\nq", "\nother q"))
    found = json.loads(ltr(*asked, "--json"))
    row = found["rankers"][0]
    assert (row["p_at_1"], row["published_p_at_1"], row["published_mrr"]) == (0, 0.606, 0.803)
    assert found["rankers"][1]["published_mrr"] is None
    assert (found["data"][0]["folds"], found["data"][0]["shared_queries"]) == (None, 0)
    assert max(map(len, ltr(*asked).splitlines())) <= 80


def test_tsv_in_the_format_of_mimics_will_do(tmp_path: Path) -> None:
    folder = duo(tmp_path)
    table = ltr(
        *(folder / "Mimics-ClickExploreSampling.tsv", "--ranker", "coordinate-ascent"),
        *("--folds", 3, "--csv", tmp_path),
    )
    assert len((tmp_path / "features.csv").read_text().splitlines()) == 1 + 20
    assert "3 folds by" in table
    assert "Do they differ?" not in table
    assert "The 10 features with the highest weight in Coordinate Ascent" in table


def test_empty_column_is_no_label(tmp_path: Path) -> None:
    table = (duo(tmp_path) / "Task1-OfflineRating.tsv").read_text().replace("\t3\n", "\t\n")
    (tmp_path / "empty.tsv").write_text(table[:-1] + "\n")
    with pytest.raises(InputError, match="has no pane with a label for rating"):
        ltr(tmp_path / "empty.tsv", "--label", "rating")


def test_random_ranker_on_the_real_panes_is_the_published_one(shared_data: Path) -> None:
    """Table 7, all panes: P@1 0.332. On stars, the label that stands beside other panes', a ranker does better."""
    asked = (shared_data / "mimics-duo", "--ranker", "rankboost", "--json")
    engagement, rating = (json.loads(ltr(*asked, "--label", label)) for label in ("engagement", "rating"))
    assert (engagement["data"][0]["queries"], engagement["data"][0]["panes"]) == (306, 1034)
    assert engagement["rankers"][1]["p_at_1"] == pytest.approx(0.332, abs=5e-4)
    assert rating["rankers"][0]["p_p_at_1_vs_random"] < 0.001


@pytest.mark.parametrize(("n", "exact"), [(6, 0.25), (1, None)])
def test_few_panes_make_all_tables_with_a_warning(tmp_path: Path, n: int, exact: float | None) -> None:
    """Labels without variance, queries without an untied top: nothing breaks."""
    few = [
        *panes_of("q1", [5, 0, 0], offline_rating=[1, 2, 2], coverage=[1, 2, 5]),
        *panes_of("q2", [1, 1, 0], offline_rating=[3, 1, 1], coverage=[4, 4, 2]),
    ]
    asked = ("tables", write_panes(tmp_path / "duo", few[:n]), "--draws", 20, "--seed", 3)
    text = mimics(*asked)
    for table in (*(f"Table {number}. " for number in range(6, 12)), "Section 5.2. "):
        assert table in text
    assert f"Panes here: {n}. What is printed is of 1,034 others" in text
    assert "error of alignment" not in " ".join(text.split())
    found = json.loads(mimics(*asked, "--json", "--csv", tmp_path / "new"))
    assert (found["panes"], found["draws"], found["seed"]) == (n, 20, 3)
    assert list(found["tables"]) == ["6", "7", "8", "9", "10", "11", "5.2"]
    cell = next(one for one in found["tables"]["11"]["cells"] if one["row"] == "Coverage")
    assert (cell["column"], cell["published"], cell["exact"]) == ("P@1 engagement", 0.333, exact)
    with (tmp_path / "new" / "table_11.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert (rows[0]["row"], rows[0]["exact"], len(rows)) == ("Coverage", str(exact or ""), 30)


def test_released_tables_fit_80_columns_and_explain_differences(shared_data: Path) -> None:
    text = mimics("tables", shared_data / "mimics-duo")
    assert max(map(len, text.splitlines())) <= 80
    for remark in (
        "look like an error of alignment",
        "n - k + 1: 0.316 on average, 0.305 if one alone",
        "p < 0.001 each), Can. Ans. Order does not (p = 0.80)",
    ):
        assert remark in " ".join(text.split())
    for note in (
        "Published cells, each counted once: 170.",
        "= 111 reproduced",
        "~  49 within the spread",
        "≠  10 does not reproduce",
    ):
        assert note in text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a clone of the repository stands, which is where it is looked for."""
    monkeypatch.chdir(tmp_path)
    return write_panes(tmp_path / "MIMICS-Duo", [*panes_of("q1", [5, 0, 0]), *panes_of("q2", [0, 2, 0])])


def test_panes_written_by_command_can_be_scored_and_reranked(folder: Path) -> None:
    lines = [json.loads(line) for line in mimics("panes").splitlines()]
    assert [(line["query"], line["pane"]) for line in lines] == [
        (q, n) for q in ("q1", "q2") for n in (1, 2, 3)
    ]
    scored = "".join(json.dumps({**line, "score": line["engagement_level"]}) + "\n" for line in lines)
    (folder.parent / "scores.jsonl").write_text(scored)
    first = json.loads(mimics("rerank", folder, "--scores", "scores.jsonl", "--json"))["reranking"][0]
    assert (first["ranking"], first["p_at_1_exact"]) == ("scores", 1.0)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["tables", "nowhere"], "nowhere: no such directory; name the one with Mimics-Click"),
        (["tables", "--table", "12"], "--table 12: must be one of 6, 7, 8, 9, 10, 11, 5.2"),
        (
            ["panes", "--out", f"MIMICS-Duo/{ASPECTS}"],
            "is an input file of this command; choose another name",
        ),
        (["rerank", "--scores", "s", "--ideal", "clicks"], "--ideal clicks: must be one of engagement"),
        (
            ["ltr", "MIMICS-Duo", "--label", "clicks"],
            "unknown label 'clicks': choose from engagement, quality",
        ),
        (
            ["ltr", "MIMICS-Duo", "--ranker", "rankboost", "--features-of", "mart"],
            "--features-of mart: must be one of the rankers used: rankboost",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_mistake_is_named(words: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        mimics(*words)
