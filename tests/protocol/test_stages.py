"""Stages count by themselves: what was asked and answered is known, whatever failed later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from audited_runs import made, write
from fake_provider import Settings

import cts_async
from cts_async.analysis.interactions import count_unknowns, interactions_of
from cts_async.analysis.question_types import read_question
from cts_async.analysis.summary import summarise_run
from cts_async.config import RunConfig
from cts_async.datasets.candidates import read_question_file
from cts_async.engine.journal import read_records
from cts_async.protocol.audit import audit_run
from cts_async.protocol.given import with_given
from cts_async.runs.finished import read_run
from cts_async.runs.results import latest_results
from cts_async.tables.diagnosis import diagnose_named, report_json
from cts_async.tables.export import export_runs

N, K = 6, 2
LABEL = "fake-k2"
OPTIONS: dict[str, Any] = {"references": ()}


def failing(directory: Path, role: str, **settings: Any) -> Path:
    """A run of which every instance fails in one role."""
    return made(directory, Settings(unknown_share=0.5, refuses=role, **settings), **OPTIONS)[LABEL]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("whole"), Settings(unknown_share=0.5), **OPTIONS)[LABEL]


def asked(run: Path) -> dict[str, tuple[Any, ...]]:
    return {
        id: (line.get("questions"), line.get("answers"))
        for id, line in latest_results(run / "results.jsonl").items()
    }


@pytest.mark.parametrize(("role", "later"), [("rewrite", N), ("agent", N), ("judge", 0)])
@pytest.mark.parametrize("old", [False, True])
def test_instances_that_failed_later_are_in_all_tables_of_questions(
    tmp_path: Path, whole: Path, role: str, later: int, old: bool
) -> None:
    """Also in a run of version 0.11, whose lines have the error alone: its journal has the rest."""
    run = failing(tmp_path, role)
    expected = count_unknowns(interactions_of(read_run(whole), read_question))
    assert asked(run) == asked(whole)
    if old:
        lines = list(latest_results(run / "results.jsonl").values())
        names = ("id", "system", "fused_query", "blurred_query", "error")
        write(run / "results.jsonl", [{name: line[name] for name in names} for line in lines])
        for file in (run / "judgments").glob("*.jsonl"):
            file.unlink()
        later = N
        notes = " ".join(audit_run(run).notes)
        assert f"{N} instance(s) failed after their questions were asked and answered" in notes
    system = interactions_of(read_run(run), read_question)
    assert count_unknowns(system) == expected
    assert (len(system.rows), system.n_failed, system.n_failed_later, system.n_missing) == (N, 0, later, 0)
    assert summarise_run(run).unknown_rate == summarise_run(whole).unknown_rate
    found, right = (report_json(diagnose_named([str(one)])) for one in (run, whole))
    for table in ("table_4", "table_5", "table_7", "table_8", "table_10", "question_types"):
        for row, wanted in zip(found[table], right[table], strict=True):
            assert {name: row[name] for name in row if "gain" not in name and "score" not in name} == {
                name: wanted[name] for name in row if "gain" not in name and "score" not in name
            }
    (progress,) = found["runs"]
    stages = {"n": N, "failed": 0, "missing": 0, "failed_later": later}
    assert {name: progress[name] for name in stages} == stages


def test_instances_that_failed_while_they_were_asked_are_in_no_table(tmp_path: Path) -> None:
    run = failing(tmp_path, "answer")
    lines = latest_results(run / "results.jsonl").values()
    assert all(len(line["questions"]) == K and "answers" not in line for line in lines)
    system = interactions_of(read_run(run), read_question)
    assert (system.rows, system.n_failed, system.n_failed_later) == ((), N, 0)


def test_rows_exports_and_given_questions_have_what_was_asked(tmp_path: Path, whole: Path) -> None:
    run = failing(tmp_path, "agent")
    complete = {row["id"]: row for row in cts_async.load(whole).instances}
    for row in cts_async.load(run).instances:
        assert (row["status"], row["error_step"]) == ("failed", "search/turn/1")
        for name in ("question_1", "answer_2", "n_unknown", "rewritten_query"):
            assert row[name] == complete[row["id"]][name]
    export_runs([str(run)], "release", tmp_path / "out")
    (file,) = (tmp_path / "out/clarify_only").iterdir()
    assert all(len(one.questions) == len(one.answers) == K for one in read_question_file(file))
    for kind in ("given_questions", "given_rewrites"):
        _, rows = with_given(RunConfig(models=("local",), **{kind: (run,)}))
        (given,) = rows.values()
        for id, line in latest_results(run / "results.jsonl").items():
            row = given.find(id, line["fused_query"], line["blurred_query"])
            assert row is not None
            assert not row.problem


def test_conversation_that_failed_in_its_search_keeps_its_turns(tmp_path: Path) -> None:
    options = {**OPTIONS, "schemes": ("at-cot",), "modes": ("respond",), "limit": 2}
    run = next(iter(made(tmp_path, Settings(refuses="agent"), **options).values()))
    for line in latest_results(run / "results.jsonl").values():
        assert len(line["turns"]) == len(line["questions"]) == len(line["answers"]) == K
        assert line["error"]["step"] == "search/turn/1"
    assert audit_run(run).held
    assert len(interactions_of(read_run(run), read_question).rows) == 2


def test_lost_answers_come_only_from_whole_conversations(tmp_path: Path, whole: Path) -> None:
    """A journal that lacks an answer, or has one that is damaged, gives nothing for that instance."""
    run = failing(tmp_path, "rewrite")
    results = list(latest_results(run / "results.jsonl").values())
    for line in results:
        for name in ("k", "questions", "answers"):
            del line[name]
    write(run / "results.jsonl", results)
    first, second, *others = (line["id"] for line in results)
    records = []
    for record in read_records(run / "steps.jsonl"):
        if (record["instance"], record["step"]) == (first, "answer/1"):
            continue
        if (record["instance"], record["step"]) == (second, "answer/2"):
            record["response"] = json.loads('{"text": 5}')
        records.append(record)
    write(run / "steps.jsonl", records)
    system = interactions_of(read_run(run), read_question)
    assert sorted(row.id for row in system.rows) == sorted(others)
    assert system.n_failed == 2
