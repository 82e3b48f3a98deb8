"""Exported runs: judged again they give the same labels, failures keep their names, and no other file is touched."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from asking_runs import ANSWER, SEARCH, Models, asked_run, asking
from made_runs import Row, made_run
from typed_commands import cts_in
from written_files import read_lines

import cts_async
from cts_async.datasets.candidates import read_question_file
from cts_async.errors import UsageError
from cts_async.runs.results import latest_results
from cts_async.scorer import summarise
from cts_async.tables.export import export_runs, tagged
from cts_async.tables.rows import columns
from cts_async.tagged_text import find_answer

SAMPLE_GOLD = Path(__file__).parents[2] / "data/sample/gold.jsonl"
ROWS = (
    Row(
        "a",
        ("Which year?", "For whom?"),
        ("2033", "unknown"),
        labels={"ernie": "fn"},
        rewritten_query="x in 2033",
    ),
    Row("b", ("=1+1", "-where?"), ("@home", "+49"), labels={"ernie": "pn"}, answer="=HYPERLINK(1)"),
    Row("c", error="search"),
)


def labels_of(line: dict[str, Any]) -> Any:
    return (line.get("restore_score_100"), line.get("nuggets"), line.get("answer"))


def test_exported_candidates_judged_again_give_the_same_labels_and_scores(tmp_path: Path) -> None:
    run = cts_in(tmp_path, "run", "--all", "baseline", "-m", "baseline", "-k", "2", "--limit", "8", "-q")
    assert run.returncode == 0, run.stderr
    directory = tmp_path / "runs/sample-baseline-k2"
    failed = {
        "id": "s03",
        "system": "baseline-k2",
        "fused_query": latest_results(directory / "results.jsonl")["s03"]["fused_query"],
        "blurred_query": "",
        "error": {"step": "rewrite", "kind": "timeout", "message": "no reply"},
    }
    with (directory / "results.jsonl").open("a") as file:  # a later line of an id counts
        file.write(json.dumps(failed) + "\n")
    done = cts_in(tmp_path, "export", "runs", "--layout", "release", "--out", "release")
    assert done.returncode == 0, done.stderr
    assert "note: runs/sample-baseline-k2: 1 failed instance(s): named" in done.stderr
    judging = ("--judge", "lexical", "--candidates", "release/candidates", "--out", "judged", "-q")
    judged = cts_in(tmp_path, "judge", "--gold", str(SAMPLE_GOLD), *judging)
    assert judged.returncode == 1, judged.stderr  # one failed
    for system in ("baseline-k2", "orig"):
        (own,) = (tmp_path / "runs").glob(f"sample-{system}*")
        before = latest_results(own / "results.jsonl")
        again = latest_results(tmp_path / f"judged/{system}__cand_sample/per_item.jsonl")
        exported = latest_results(tmp_path / f"release/outputs/{system}/per_item.jsonl")
        assert before.keys() == again.keys() == exported.keys()
        assert len(before) == 8
        for id, line in before.items():
            if system == "baseline-k2" and id == "s03":
                assert again[id]["error"]["message"] == "no reply"
                assert exported[id]["error"] == failed["error"]
                assert "restore_score_100" not in {**again[id], **exported[id]}
            else:
                assert labels_of(line) == labels_of(again[id]) == labels_of(exported[id])
                assert line["nuggets"]
    summary = json.loads((tmp_path / "release/outputs/baseline-k2/summary.json").read_text())
    assert (summary["n_scored"], summary["n_failed"], summary["n_expected"]) == (7, 1, 8)
    scored = cts_in(tmp_path, "score", "release/outputs/baseline-k2", "--json")
    assert json.loads(scored.stdout)[0]["mean"] == summary["mean"]


def test_questions_are_read_back_as_they_were_asked(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k2", rows=ROWS)
    export_runs([str(tmp_path / "made-gpt-k2")], "release", tmp_path / "out")
    found = {one.id: one for one in read_question_file(tmp_path / "out/clarify_only/gpt-k2.csv")}
    assert {id: (one.questions, one.answers) for id, one in found.items()} == {
        "a": (("Which year?", "For whom?"), ("2033", "unknown")),
        "b": (("=1+1", "-where?"), ("@home", "+49")),
        "c": ((), ()),
    }


def test_csv_holds_the_rows_of_load_and_no_formulas(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", label="gpt-k2", rows=ROWS)
    export_runs([str(tmp_path / "runs")], "csv", tmp_path / "out")
    loaded = cts_async.load(tmp_path / "runs")
    for table in ("instances", "nuggets", "judges"):
        with (tmp_path / f"out/{table}.csv").open(newline="", encoding="utf-8") as file:
            written = list(csv.DictReader(file))
        rows = getattr(loaded, table)
        assert [list(row) for row in written] == [list(row) for row in rows]
        for row, cells in zip(rows, written, strict=True):
            for name, value in row.items():
                expected = "" if value is None else str(value)
                assert cells[name] == (f"'{expected}" if expected[:1] in ("=", "+", "-", "@") else expected)
    b = loaded.instances[1]
    assert (b["question_1"], b["answer_2"], b["answer"]) == ("=1+1", "+49", "=HYPERLINK(1)")
    text = (tmp_path / "out/instances.csv").read_text("utf-8")
    assert ",=" not in text
    assert "'=HYPERLINK(1)" in text


@pytest.mark.parametrize("embedded", [True, False])
def test_dataset_card_names_configs_licence_runs_and_the_smoke_test(tmp_path: Path, embedded: bool) -> None:
    yaml = pytest.importorskip("yaml")
    made_run(tmp_path / "runs", label="gpt-k2", rows=ROWS, embedded=embedded, data="<b>|x: {y}")
    done = export_runs([str(tmp_path / "runs")], "hf", tmp_path / "out")
    card = (tmp_path / "out/README.md").read_text("utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["license"] == "unknown"
    assert "name the licence before you publish it (README.md, line 3)" in done.remarks[-1]
    assert card.splitlines()[2].startswith("license:")
    assert {one["config_name"]: one["data_files"] for one in front["configs"]} == {
        name: f"{name}.jsonl" for name in ("instances", "nuggets", "judges")
    }
    loaded = cts_async.load(tmp_path / "runs")
    assert read_lines(tmp_path / "out/instances.jsonl") == loaded.instances
    assert read_lines(tmp_path / "out/nuggets.jsonl") == loaded.nuggets
    assert ("Smoke test." in card) == embedded
    assert "<b>" not in card.split("---\n", 2)[2]
    # fn and pn: 50 and 25, mean 37.5; two scored, one failed
    mean = summarise([50.0, 25.0], 1).mean
    assert mean == 37.5
    assert f"| 37.50 | 2 | 0 | 0 | 1 | 0 | {'yes' if embedded else 'no'} |" in card


TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "float64": (float, int), "int64": (int,)}


def features_of(card: str) -> dict[str, dict[str, str]]:
    """The types of the columns of each configuration, from the lines of `dataset_info` in the card's header."""
    header = card.split("---\n")[1]
    found: dict[str, dict[str, str]] = {}
    for line in header.split("dataset_info:\n")[1].splitlines():
        key, _, value = line.strip().removeprefix("- ").partition(": ")
        if key == "config_name":
            columns = found[value] = {}
        elif key == "name":
            column = value
        elif key == "dtype":
            columns[column] = value
        else:
            assert line == "  features:"
    return found


def test_dataset_card_types_every_column_of_the_written_rows(tmp_path: Path) -> None:
    """`datasets` guesses types from the first 10 MB of a file, in which a column of errors may hold nulls only."""
    scored = [Row(f"s{i}", ("Which year?",), ("2033",), labels={"ernie": "fn"}) for i in range(3)]
    made_run(tmp_path / "runs", label="gpt-k2", rows=[*scored, *ROWS])
    made_run(tmp_path / "runs", label="orig", rows=[Row("s0", labels={"ernie": "ff"})])
    export_runs([str(tmp_path / "runs")], "hf", tmp_path / "out")
    features = features_of((tmp_path / "out/README.md").read_text("utf-8"))
    assert list(features) == ["instances", "nuggets", "judges"]
    held = set()
    for table, types in features.items():
        rows = read_lines(tmp_path / f"out/{table}.jsonl")
        assert rows
        for row in rows:
            assert list(row) == list(types)
            for column, value in row.items():
                assert value is None or isinstance(value, TYPES[types[column]]), (table, column, value)
                if value is not None:
                    held.add((table, column))
    assert {("instances", "question_2"), ("instances", "error_kind"), ("nuggets", "weight")} <= held


def test_dataset_card_leaves_out_tables_without_rows(tmp_path: Path) -> None:
    """`datasets` refuses to load a configuration whose only split is empty."""
    made_run(tmp_path / "runs", label="gpt-k2", rows=[Row("a", error="search")])
    done = export_runs([str(tmp_path / "runs")], "hf", tmp_path / "out")
    assert (tmp_path / "out/nuggets.jsonl").read_bytes() == b""
    card = (tmp_path / "out/README.md").read_text("utf-8")
    assert list(features_of(card)) == ["instances"]
    assert "data_files: nuggets.jsonl" not in card
    assert "No rows, so no configuration of the dataset: nuggets, judges." in done.remarks


def test_export_is_repeated_into_its_own_folder_only(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    made_run(runs, label="gpt-k2", rows=ROWS)
    first = export_runs([str(runs)], "csv", out)
    contents = {path: path.read_bytes() for path in first.paths}
    assert {path: path.read_bytes() for path in export_runs([str(runs)], "csv", out).paths} == contents
    with pytest.raises(UsageError, match="holds files that cts export --layout hf did not write"):
        export_runs([str(runs)], "hf", out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds notes\.txt, which is not part of this export"):
        export_runs([str(runs)], "csv", out)
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [*(path.name for path in first.paths), "notes.txt"]
    )


def test_folder_with_other_files_is_refused_unchanged(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", label="gpt-k2", rows=ROWS)
    other = tmp_path / "other"
    other.mkdir()
    (other / "judges.csv").write_text("mine")
    with pytest.raises(UsageError, match="did not write"):
        export_runs([str(tmp_path / "runs")], "csv", other)
    with pytest.raises(UsageError, match="did not write"):
        export_runs([str(tmp_path / "runs")], "csv", tmp_path / "runs")
    assert (other / "judges.csv").read_text() == "mine"
    assert [path.name for path in other.iterdir()] == ["judges.csv"]


@pytest.mark.parametrize("linked", ["", "candidates", "clarify_only/gpt-k2.csv", "export.json"])
def test_links_are_not_followed(tmp_path: Path, linked: str) -> None:
    made_run(tmp_path / "runs", label="gpt-k2", rows=ROWS)
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    export_runs([str(tmp_path / "runs")], "release", out)
    (out / linked).rename(elsewhere)
    before = {path: path.read_bytes() for path in [elsewhere, *elsewhere.rglob("*")] if path.is_file()}
    (out / linked).symlink_to(elsewhere)
    with (tmp_path / "runs/made-gpt-k2/results.jsonl").open("a") as file:
        file.write(json.dumps({"id": "d", "system": "gpt-k2", "answer": "new"}) + "\n")
    with pytest.raises(UsageError, match="link"):
        export_runs([str(tmp_path / "runs")], "release", out)
    assert {path: path.read_bytes() for path in before} == before
    assert elsewhere.is_dir() == (linked in ("", "candidates"))


def test_runs_with_equal_names_get_files_of_their_own(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k2", rows=ROWS, name="made-gpt-k2")
    made_run(tmp_path, label="gpt-k2", rows=ROWS, name="made-gpt-k2+support-kimi")
    made_run(tmp_path, label="../../x", k=0, clarifier="", rows=ROWS, name="odd")
    export_runs([str(tmp_path)], "release", tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out/candidates").iterdir())
    assert names == [
        "_.._x__cand_made.jsonl",
        "gpt-k2+support-kimi__cand_made.jsonl",
        "gpt-k2__cand_made.jsonl",
    ]


def test_answers_that_readers_would_shorten_are_put_into_tags_or_reported(tmp_path: Path) -> None:
    assert [tagged(answer) for answer in ("plain", "a < b", "cut off <")] == [
        "plain",
        "a < b",
        "<answer>cut off <</answer>",
    ]
    assert find_answer("cut off <")[0] == "cut off"
    assert find_answer("<answer>cut off <</answer>")[0] == "cut off <"
    rows = (Row("a", score=50, answer="one </think> two"), Row("b", score=50, answer=""), Row("c", score=50))
    made_run(tmp_path, label="orig", rows=rows, n_expected=5)
    done = export_runs([str(tmp_path)], "release", tmp_path / "out")
    assert [remark.removeprefix(f"{tmp_path / 'made-orig'}: ") for remark in done.remarks] == [
        "2 of 5 instances unfinished: left out.",
        "1 answer(s) with tags such as <think>, which readers take out.",
        "has empty answers; judge its candidates again with --empty-answers zero.",
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("runs",), "name a layout and a folder: cts export RUN --layout release|hf|csv --out DIR"),
        (("runs", "--layout", "xls", "--out", "o"), "--layout"),
        (("--schema", "s", "--out", "o"), "--schema cannot be combined"),
        (("nowhere", "--layout", "csv", "--out", "o"), "nowhere: no such run, folder or file"),
        (("runs", "--layout", "csv", "--out", "cts.toml"), "--out cts.toml: is a file"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    made_run(tmp_path / "runs", label="gpt-k2", rows=ROWS)
    (tmp_path / "cts.toml").write_text("")
    before = sorted(tmp_path.rglob("*"))
    done = cts_in(tmp_path, "export", *words)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_schemas_are_written(tmp_path: Path) -> None:
    done = cts_in(tmp_path, "export", "--schema", "schemas")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "schemas").glob("*.schema.json")}
    assert names == {f"{name}.schema.json" for name in ("run", "steps", "results", "judgments", "summary")}


def test_runs_without_a_search_have_questions_and_no_candidates(tmp_path: Path) -> None:
    words = "run --all baseline -m baseline -k 2 --limit 2 --stop-after questions -q"
    assert cts_in(tmp_path, *words.split()).returncode == 0
    done = cts_in(tmp_path, "export", "runs", "--layout", "release", "--out", "release")
    assert done.returncode == 0, done.stderr
    (asked,) = (tmp_path / "release").rglob("*.csv")
    assert [path.name for path in (tmp_path / "release").iterdir() if path.is_dir()] == ["clarify_only"]
    again = f"run --all baseline --questions {asked} -k 2 --limit 2 --no-orig -q --name again"
    assert cts_in(tmp_path, *again.split()).returncode == 0
    rows = cts_async.load(tmp_path / "runs").instances
    by_status = {
        status: [row for row in rows if row["status"] == status] for status in ("unsearched", "scored")
    }
    assert [len(found) for found in by_status.values()] == [2, 2]
    for before, after in zip(*by_status.values(), strict=True):
        assert before["answer"] is None
        assert [before[f"question_{n}"] for n in (1, 2)] == [after[f"question_{n}"] for n in (1, 2)]


def test_questions_during_the_search_are_a_table_where_an_agent_asked(tmp_path: Path) -> None:
    models = Models(
        [SEARCH, asking("Which season?", "For whom?"), ANSWER],
        lambda question: "winter" if "season" in question else "unknown",
    )
    run = asked_run(tmp_path, models, references=("orig",))
    (orig,) = [path for path in run.parent.iterdir() if "+ask" not in path.name]
    rows = cts_async.load(run, orig).asks
    assert {tuple(row) for row in rows} == {tuple(columns("asks", 0))}
    assert [(row["n"], row["turn"], row["turns"], row["question"], row["reply"]) for row in rows] == [
        (1, 2, 3, "Which season?", "winter"),
        (2, 2, 3, "For whom?", "unknown"),
    ]
    assert {(row["system"], row["support"], row["agent"], row["id"]) for row in rows} == {
        ("orig+ask3", "user", "agent", "1")
    }
    export_runs([str(run), str(orig)], "csv", tmp_path / "tables")
    with (tmp_path / "tables/asks.csv").open(newline="") as file:
        assert [row["question"] for row in csv.DictReader(file)] == ["Which season?", "For whom?"]
    export_runs([str(run)], "hf", tmp_path / "dataset")
    card = (tmp_path / "dataset/README.md").read_text()
    assert "- config_name: asks\n  data_files: asks.jsonl" in card
    assert len(list(read_lines(tmp_path / "dataset/asks.jsonl"))) == 2
    export_runs([str(orig)], "csv", tmp_path / "without")
    assert not (tmp_path / "without/asks.csv").exists()
