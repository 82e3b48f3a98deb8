"""Runs as rows: every instance has one, with what it cost, and what is missing is said."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from custom_roles import play
from fake_provider import FakeProvider, Settings
from made_runs import Row, changed_manifest, made_run
from typed_commands import cts_in

import cts_async
from cts_async.errors import UsageError
from cts_async.tables.rows import Tables, column_notes, columns

QUERIES = "id,fused_query,blurred_query\na,fa,ba\nb,fb,bb\nc,fc,bc\nd,fd,bd\n"


def steps(*records: dict[str, Any]) -> str:
    return "".join(
        json.dumps({"key": f"{i:032x}", "ok": True, **one}) + "\n" for i, one in enumerate(records)
    )


def test_each_row_of_a_table_has_its_columns_in_order(tmp_path: Path) -> None:
    rows = (
        Row("a", ("q?", "r?"), ("x", "unknown"), labels={"ernie": "f", "gpt": "p"}),
        Row("b", error="rewrite"),
    )
    made_run(tmp_path, label="kimi-k2", rows=rows)
    made_run(tmp_path, label="orig", rows=(Row("a", score=50),))
    loaded = cts_async.load(tmp_path)
    for table in column_notes().keys() - {"asks"}:  # no agent asks here
        assert {tuple(row) for row in getattr(loaded, table)} == {tuple(columns(table, 2))}
    numbered = [name for name in loaded.instances[0] if name.startswith(("question", "answer_"))]
    assert numbered == ["question_1", "answer_1", "question_2", "answer_2"]
    assert [(row["judge"], row["score"]) for row in loaded.judges] == [
        ("ernie", 100),
        ("gpt", 50),
        ("ernie", 50),
    ]


def test_failed_and_unjudged_instances_have_no_score(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=(Row("a"), Row("b", error="search"), Row("c", score=0)))
    found = {row["id"]: row for row in cts_async.load(tmp_path).instances}
    assert [(found[id]["status"], found[id]["score"]) for id in "abc"] == [
        ("unjudged", None),
        ("failed", None),
        ("scored", 0),
    ]
    errors = [found["b"][f"error_{part}"] for part in ("step", "kind", "message")]
    assert errors == ["search", "rejected", "refused"]
    assert (found["b"]["answer"], found["a"]["answer"]) == (None, "an answer")
    assert {found["a"][f"error_{part}"] for part in ("step", "kind", "message")} == {None}


def test_answer_that_a_judge_failed_to_label_is_named(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=(Row("a", labels={"ernie": "f", "gpt": "f"}),))
    error = {"step": "judge", "kind": "refused", "message": "I would rather not"}
    (run / "judgments/gpt.jsonl").write_text(json.dumps({"id": "a", "judge": "gpt", "error": error}) + "\n")
    (first, second) = cts_async.load(run).judges
    assert (first["judge"], first["score"], first["error_kind"]) == ("ernie", 100, None)
    assert (second["judge"], second["score"], second["error_message"]) == ("gpt", None, "I would rather not")


def test_unfinished_instances_are_rows_where_the_data_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "queries.csv").write_text(QUERIES)
    typed = ("run", "--all", "baseline", "-m", "baseline", "--data", "queries.csv", "--corpus", "d.jsonl")
    (tmp_path / "d.jsonl").write_text('{"id":"1","url":"http://a/1","title":"t","text":"fa"}\n')
    done = cts_in(tmp_path, *typed, "--no-judge", "--no-orig", "--limit", "3", "-q")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    results = (run / "results.jsonl").read_text().splitlines(keepends=True)
    (run / "results.jsonl").write_text("".join(line for line in results if '"id":"b"' not in line))
    with pytest.MonkeyPatch.context() as here:
        here.chdir(tmp_path)
        loaded = cts_async.load("runs")
    assert loaded.remarks == ()
    assert {
        row["id"]: (row["status"], row["blurred_query"], row["answer"] is None) for row in loaded.instances
    } == {
        "a": ("unjudged", "ba", False),
        "b": ("unfinished", "bb", True),
        "c": ("unjudged", "bc", False),
    }
    elsewhere = cts_async.load(tmp_path / "runs")  # the recorded path is relative to where the run was made
    assert [row["id"] for row in elsewhere.instances] == ["a", "c"]
    assert f"{run}: 1 of 3 instances are unfinished; which ones is unknown" in elsewhere.remarks[0]


def test_calls_tokens_seconds_and_dollars_are_those_of_the_journal(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=(Row("a"), Row("b"), Row("c")))
    with changed_manifest(run) as manifest:
        manifest["prices"] = {"m": {"input": 2.0, "output": 10.0}}
    failure = {"kind": "timeout", "message": "", "latency_s": 1.5}
    (run / "steps.jsonl").write_text(
        steps(
            {
                "instance": "a",
                "step": "x",
                "model": "m",
                "latency_s": 0.5,
                "usage": {"input": 1000, "output": 100},
            },
            {
                "instance": "a",
                "step": "y",
                "model": "m",
                "latency_s": 0.25,
                "attempts": 2,
                "usage": {"input": 500, "output": 50},
                "failed_attempts": [failure],
            },
            {
                "instance": "b",
                "step": "x",
                "model": "unpriced",
                "latency_s": 1,
                "usage": {"input": 7, "output": 1},
            },
            {
                "instance": "b",
                "step": "y",
                "model": "m",
                "latency_s": 1,
                "response": {"text": "its tokens unknown"},
            },
            {"instance": "c", "step": "search", "latency_s": 9},
            {
                "instance": "c",
                "step": "x",
                "model": "m",
                "latency_s": 3,
                "attempts": 2,
                "usage": {"input": 90, "output": 9},
                "reused": "other",
            },
        )
    )
    spent = ("calls", "input_tokens", "output_tokens", "model_s", "cost_usd", "reused_calls")
    found = {row["id"]: tuple(row[name] for name in spent) for row in cts_async.load(run).instances}
    # a: 1500 * 2 / 10^6 + 150 * 10 / 10^6 dollars; three attempts in 0.5 + 0.25 + 1.5 s
    assert found["a"] == (3, 1500, 150, 2.25, pytest.approx(0.0045), 0)
    assert found["b"] == (2, None, None, 2.0, None, 0)
    assert found["c"] == (0, 0, 0, 0.0, 0.0, 2)  # what another run has paid
    (run / "steps.jsonl").unlink()
    without = cts_async.load(run).instances[0]
    assert [without[name] for name in spent] == [None] * 6


def test_costs_of_a_run_with_a_provider_add_up_to_its_summary(tmp_path: Path) -> None:
    asyncio.run(
        play(tmp_path, "fake", FakeProvider(Settings(faults={"500": 0.1})), every_role="fake", limit=3)
    )
    run = tmp_path / "runs/run"
    rows = cts_async.load(run).instances
    records = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    asked = [record for record in records if "model" in record]
    assert sum(row["calls"] for row in rows) == sum(record.get("attempts", 1) for record in asked) > 0
    assert sum(row["input_tokens"] for row in rows) == sum(record["usage"]["input"] for record in asked) > 0


def test_judged_candidates_of_several_files_have_their_own_steps(tmp_path: Path) -> None:
    nuggets = [{"id": "N1", "text": "nine", "weight": 3}]
    (tmp_path / "gold.jsonl").write_text(json.dumps({"id": "q1", "gold": {"nuggets": nuggets}}) + "\n")
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "q1", "answer": f"nine {name}"}) + "\n")
    words = (
        "judge --gold gold.jsonl --candidates one.jsonl --candidates two.jsonl --out judged --judge lexical"
    )
    assert cts_in(tmp_path, *words.split()).returncode == 0
    (tmp_path / "judged/steps.jsonl").write_text(steps({"instance": "two/q1", "step": "judge", "model": "m"}))
    rows = cts_async.load(tmp_path / "judged").instances
    assert [(row["system"], row["score"], row["calls"]) for row in rows] == [("one", 100, 0), ("two", 100, 1)]


def made_systems(folder: Path) -> None:
    """gpt-k1 (one scored with 50 by ernie and 100 by kimi, one failed), and orig (one scored with 0 of three)."""
    rows = (Row("a", ("q?",), ("x",), labels={"ernie": "fn", "kimi": "ff"}), Row("b", error="search"))
    made_run(folder, label="gpt-k1", rows=rows)
    made_run(folder, label="orig", rows=(Row("a", score=0),), n_expected=3, embedded=True)


def test_systems_have_a_row_for_each_judge(tmp_path: Path) -> None:
    made_systems(tmp_path)
    loaded = cts_async.load(tmp_path)
    names = (
        "run",
        "agent",
        "support",
        "judge",
        "n_expected",
        "n_scored",
        "n_failed",
        "n_unfinished",
        "mean",
        "caveat",
    )
    assert [tuple(row[name] for name in names) for row in loaded.systems] == [
        ("made-gpt-k1", "webdancer", "ernie", "ernie", 2, 1, 1, 0, 50, None),
        ("made-gpt-k1", "webdancer", "ernie", "kimi", 2, 1, 1, 0, 100, None),
        ("made-orig", "webdancer", None, "ernie", 3, 1, 0, 2, 0, "smoke test"),
    ]
    for rows in (loaded.instances, loaded.nuggets, loaded.judges):
        assert {(row["system"], row["agent"], row["support"]) for row in rows} <= {
            ("gpt-k1", "webdancer", "ernie"),
            ("orig", "webdancer", None),
        }


def test_run_that_nobody_judged_is_a_system_without_a_judge(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=(Row("a"), Row("b", error="search")))
    with changed_manifest(run) as manifest:
        manifest["identity"]["judges"] = []
    (system,) = cts_async.load(run).systems
    assert (system["judge"], system["n_scored"], system["n_failed"], system["mean"]) == (None, 0, 1, None)


class StandIn(ModuleType):
    """As much of pandas as is called: a frame is its columns, a column its type and values."""

    DataFrame = dict

    @staticmethod
    def Series(values: list[Any], dtype: str) -> tuple[str, list[Any]]:
        return dtype, values


def test_data_frame_has_the_types_of_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_systems(tmp_path)
    loaded = cts_async.load(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", StandIn("pandas"))
    frame = loaded.to_pandas("systems")
    assert list(frame) == list(column_notes()["systems"])
    assert frame["mean"] == ("float64", [50, 100, 0])
    assert frame["n_failed"] == ("Int64", [1, 1, 0])
    assert frame["caveat"] == ("object", [None, None, "smoke test"])
    assert list(loaded.to_pandas()) == columns("instances", 1)
    empty = Tables([], [], [], ()).to_pandas("judges")
    assert empty["score"] == ("float64", [])
    with pytest.raises(
        UsageError, match="^table: must be one of instances, nuggets, judges, systems, asks, not 'runs'$"
    ):
        loaded.to_pandas("runs")  # type: ignore[arg-type]


def test_missing_pandas_is_one_line_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="^to_pandas needs pandas: pip install pandas$"):
        Tables([], [], [], ()).to_pandas()


def test_rows_make_a_data_frame(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    made_systems(tmp_path)
    loaded = cts_async.load(tmp_path)
    assert pandas.DataFrame(loaded.instances)["status"].tolist() == ["scored", "failed", "scored"]
    frame = loaded.to_pandas("systems")
    assert frame.groupby("judge")["mean"].mean().to_dict() == {"ernie": 25, "kimi": 100}
    assert frame["support"].tolist() == ["ernie", "ernie", None]
    assert loaded.to_pandas()["cost_usd"].mean() != 0  # missing everywhere, and a number all the same


def test_documentation_names_every_column() -> None:
    document = (Path(__file__).parents[2] / "docs/usage.md").read_text("utf-8")
    for name, meaning in column_notes()["instances"].items():
        assert f"| `{name}` | {meaning.replace('*', chr(92) + '*')} |\n" in document
