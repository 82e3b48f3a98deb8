"""Tables of whole runs, and instances opened in a report."""

from __future__ import annotations

import json
from pathlib import Path

from made_runs import Row, changed_manifest, made_run
from made_talks import made_talk
from talk_world import INTENTS, write_talk_world

from cts_async.analysis.summary import RunSummary, summarise_run
from cts_async.config import EvaluationConfig
from cts_async.datasets import open_dataset
from cts_async.datasets.io import sha256_of
from cts_async.neighbours.at_cot.evaluation import evaluate_finished
from cts_async.pages.contents import OpenedInstance, gather, open_instances, open_talks
from cts_async.tables.results import (
    causes_table,
    effort_table,
    failures_table,
    health_table,
    runs_table,
    served_table,
)

GOLD = {
    "id": "a",
    "fused_query": "ferry times in winter",
    "gold": {"nuggets": [{"id": "N1", "text": "it leaves at nine", "weight": 3}]},
}


def world(folder: Path) -> Path:
    """A run over one query, with data and gold beside it; ernie and kimi judged it."""
    row = Row("a", labels={"ernie": "f", "kimi": "n"}, fused_query="ferry times in winter")
    directory = made_run(folder, label="orig", rows=[row], name="orig")
    queries, gold = folder / "queries.csv", folder / "gold.jsonl"
    queries.write_text("id,fused_query,blurred_query\na,ferry times in winter,ferry\n")
    gold.write_text(json.dumps(GOLD) + "\n")
    with changed_manifest(directory) as manifest:
        manifest["identity"]["data"] |= {"sha256": sha256_of(queries), "gold_sha256": sha256_of(gold)}
        manifest["data"] = {"spec": str(queries), "gold": str(gold), "fields": {}}
    return directory


def opened(directory: Path) -> tuple[OpenedInstance, tuple[str, ...]]:
    runs, notes = open_instances(gather([str(directory)]))
    return runs[0].instances[0], notes


def test_opened_instance_has_labels_and_nugget_texts(tmp_path: Path) -> None:
    one, notes = opened(world(tmp_path))
    (nugget,) = one.page["nuggets"]
    assert nugget["coverage"] == {"ernie": "full", "kimi": "none"}
    assert nugget["text"] == "it leaves at nine"
    assert notes == ()


def test_gold_or_data_that_changed_is_noted_and_not_quoted(tmp_path: Path) -> None:
    """A manifest may name any file, and reports are passed on."""
    directory = world(tmp_path)
    (tmp_path / "gold.jsonl").write_text(json.dumps(GOLD).replace("nine", "ten") + "\n")
    one, (note,) = opened(directory)
    assert [nugget["text"] for nugget in one.page["nuggets"]] == [None]
    assert "is no longer the gold of these runs" in note
    (tmp_path / "queries.csv").write_text("hunter2,the password\nx,y\n")
    (tmp_path / "gold.jsonl").write_text("hunter2,the password\nx,y\n")
    one, (note,) = opened(directory)
    assert [nugget["text"] for nugget in one.page["nuggets"]] == [None]
    assert "is no longer the gold of these runs" in note
    assert "hunter2" not in note


def test_verdict_on_another_answer_is_not_shown(tmp_path: Path) -> None:
    directory = world(tmp_path)
    verdicts = directory / "judgments" / "kimi.jsonl"
    line = json.loads(verdicts.read_text())
    verdicts.write_text(json.dumps({**line, "answer_digest": "0" * 16}) + "\n")
    one, _ = opened(directory)
    assert [of["judge"] for of in one.page["scores"]] == ["ernie"]
    assert list(one.page["nuggets"][0]["coverage"]) == ["ernie"]


def test_opened_conversations_are_extremes_over_q(tmp_path: Path) -> None:
    """Of "jaguar" and "ferry", one becomes its intent and the other a query that finds nothing."""
    data, corpus = write_talk_world(tmp_path)
    (car, ferry) = (one for one in INTENTS if one[0] in ("1-2", "2-1"))
    rows = {"1-2": [{"query": car[2]}], "2-1": [{"query": "nothing of the kind"}]}
    directory = made_talk(
        tmp_path, scheme="cot", rows=rows, queries={"1-2": car[1], "2-1": ferry[1]}, k=1, clarifier="gpt"
    )
    with changed_manifest(directory) as manifest:
        manifest["data"] = {"spec": str(data), "gold": None, "fields": {}}
        manifest["identity"]["data"]["sha256"] = open_dataset(str(data)).sha256()
    (run,) = open_talks(
        gather(
            [str(directory)],
            evaluate_talks=lambda runs: evaluate_finished(
                runs, EvaluationConfig(corpus=corpus, qrels="intent:1")
            ),
        )
    )
    assert (run.system, run.measure, run.baseline) == (
        "gpt-cot-respond-k1",
        "nDCG@10 of the last query",
        "the query w/o clarification",
    )
    found = {one.extreme.id: one.extreme for one in run.instances}
    assert (found["1-2"].score, found["2-1"].score) == (1.0, 0.0)
    assert found["2-1"].gain == -1.0
    assert found["2-1"].why == ("greatest loss", "lowest score")
    assert "highest score" in found["1-2"].why
    assert list(open_talks(gather([str(directory)]))) == []  # without documents


def run(folder: Path) -> RunSummary:
    """gpt-k1 over four instances: two answered, one failed, one missing; two calls, an hour and a half."""
    rows = [
        Row("a", ["Q?"], ["yes"], score=40),
        Row("b", ["Q?"], ["no"], score=60),
        Row("c", error="search/turn/2"),
    ]
    directory = made_run(folder, label="gpt-k1", rows=rows, n_expected=4)
    manifest = json.loads((directory / "run.json").read_text())
    sessions = [
        {"start": "2026-11-20T23:00:00+00:00", "end": "2026-11-21T00:00:00+00:00", "wall_s": 3600.0},
        {"start": "2026-11-21T08:00:00+00:00", "end": "2026-11-21T08:30:00+00:00", "wall_s": 1800.0},
    ]
    manifest |= {"sessions": sessions, "prices": {"gpt-5": {"input": 2.0, "output": 10.0}}}
    (directory / "run.json").write_text(json.dumps(manifest))
    step = {"key": "k", "ok": True, "instance": "a", "model": "gpt-5", "attempts": 2}
    step |= {"usage": {"input": 50_000, "output": 10_000}, "response": {"text": "", "served_model": "gpt-4"}}
    (directory / "steps.jsonl").write_text(json.dumps(step) + "\n")
    return summarise_run(directory)


def test_tables_of_whole_runs_match_hand_calculation(tmp_path: Path) -> None:
    made = [("gpt", run(tmp_path))]
    (row,) = runs_table(made).rows
    assert (row["began"], row["ended"]) == ("2026-11-20T23:00:00+00:00", "2026-11-21T08:30:00+00:00")
    assert (row["clarifier"], row["agent"], row["judges"]) == ("gpt", "webdancer", "ernie")
    assert (row["done"], row["failed"], row["missing"], row["expected"]) == (2, 1, 1, 4)
    # 50,000 tokens at 2 and 10,000 at 10 dollars a million are 20 cents, over three instances.
    (row,) = effort_table(made).rows
    assert (row["calls"], row["input_tokens"], row["output_tokens"]) == (2, 50_000, 10_000)
    assert (row["mean"], round(row["cost_usd"], 9), row["hours"]) == (50.0, 0.2, 1.5)
    assert round(row["usd_per_instance"], 9) == round(0.2 / 3, 9)
    failure = {"system": "gpt", "step": "search", "kind": "rejected", "n": 1, "example": "c: refused"}
    assert failures_table(made).rows == [failure]
    assert served_table(made).rows == [{"system": "gpt", "asked": "gpt-5", "served": "gpt-4", "replies": 1}]


def test_health_table_has_requests_and_failures(tmp_path: Path) -> None:
    made = run(tmp_path)
    failed = [{"tool": "visit", "host": "a.example", "reason": "http 404", "n": 2}]
    line = {"id": "a", "search": {"tools": {"searches": 3, "visits": 4, "failed": failed}}}
    with (made.directory / "results.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    again = summarise_run(made.directory)
    assert [(row["tool"], row["asked"], row["worked"]) for row in health_table([("gpt", again)]).rows] == [
        ("searches", 3, 1.0),
        ("visits", 4, 0.5),
    ]
    assert causes_table([("gpt", again)]).rows == [
        {"system": "gpt", "tool": "visit", "host": "a.example", "reason": "http 404", "n": 2}
    ]
