"""Tables of whole runs."""

from __future__ import annotations

import json
from pathlib import Path

from made_runs import Row, made_run

from cts_async.report.all_tables import (
    causes_table,
    effort_table,
    failures_table,
    health_table,
    runs_table,
    served_table,
)
from cts_async.report.summary import RunSummary, summarise_run


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


def test_runs_table_has_times_and_missing_instances(tmp_path: Path) -> None:
    (row,) = runs_table([("gpt", run(tmp_path))]).rows
    assert (row["began"], row["ended"]) == ("2026-11-20T23:00:00+00:00", "2026-11-21T08:30:00+00:00")
    assert (row["clarifier"], row["agent"], row["judges"]) == ("gpt", "webdancer", "ernie")
    assert (row["done"], row["failed"], row["missing"], row["expected"]) == (2, 1, 1, 4)


def test_effort_table_sums_sessions_and_attempts(tmp_path: Path) -> None:
    """50,000 tokens at 2 and 10,000 at 10 dollars a million are 20 cents, over three instances."""
    (row,) = effort_table([("gpt", run(tmp_path))]).rows
    assert (row["calls"], row["input_tokens"], row["output_tokens"]) == (2, 50_000, 10_000)
    assert (row["mean"], round(row["cost_usd"], 9), row["hours"]) == (50.0, 0.2, 1.5)
    assert round(row["usd_per_instance"], 9) == round(0.2 / 3, 9)


def test_failures_table_counts_kinds_with_example(tmp_path: Path) -> None:
    expected = {"system": "gpt", "step": "search", "kind": "rejected", "n": 1, "example": "c: refused"}
    assert failures_table([("gpt", run(tmp_path))]).rows == [expected]


def test_served_table_names_other_models(tmp_path: Path) -> None:
    expected = {"system": "gpt", "asked": "gpt-5", "served": "gpt-4", "replies": 1}
    assert served_table([("gpt", run(tmp_path))]).rows == [expected]


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
