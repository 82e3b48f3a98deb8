"""Conversations that were held, evaluated again from their runs' files."""

from __future__ import annotations

import json
from pathlib import Path

from made_talks import made_talk
from talk_world import INTENTS, write_talk_world

from cts_async.config import EvaluationConfig
from cts_async.datasets import open_dataset
from cts_async.report.conversations import evaluate_held
from cts_async.report.summary import RunSummary, summarise_run

FEW = [(id, query) for id, query, _ in INTENTS][:2]


def held(folder: Path, *, spec: str | None = None, k: int = 1, first: int = 2) -> RunSummary:
    """A conversation of `k` turns about each of the `first` two intents, whose query stays as it was."""
    rows = {id: [{"offered": ["which?"], "query": query}] * k for id, query in FEW[:first]}
    directory = made_talk(folder / "runs", scheme="cot", rows=rows, queries=dict(FEW), k=k)
    manifest = json.loads((directory / "run.json").read_text())
    if spec:
        manifest["data"] = {"spec": spec, "gold": None, "fields": {}}
        manifest["identity"]["data"]["sha256"] = open_dataset(spec).sha256()
    (directory / "run.json").write_text(json.dumps(manifest))
    return summarise_run(directory)


def test_conversations_are_evaluated_over_the_instances_that_were_talked_about(tmp_path: Path) -> None:
    data, corpus = write_talk_world(tmp_path)
    found = evaluate_held(
        [held(tmp_path, spec=str(data))], EvaluationConfig(corpus=corpus, measures=("nDCG@10",))
    )
    (turns,) = (table for table in found.tables if table.name == "turns_nDCG@10")
    assert [(row["turn"], row["respond_n"]) for row in turns.rows] == [(0, 2), (1, 2)]
    assert turns.rows[0]["respond"] == turns.rows[1]["respond"]
    assert len(found.retrieved) == 1


def test_runs_of_fewer_and_of_more_turns_have_tables_of_their_own(tmp_path: Path) -> None:
    """In one table the run of one turn, about one intent, would stand for both in the row of turn 1."""
    data, corpus = write_talk_world(tmp_path)
    runs = [held(tmp_path, spec=str(data), k=1, first=1), held(tmp_path, spec=str(data), k=2)]
    found = evaluate_held(runs, EvaluationConfig(corpus=corpus, measures=("P@1",)))
    tables = {table.name: table for table in found.tables}
    short, long = "gpt_user-ernie_1-turn", "gpt_user-ernie_2-turns"
    assert tables.keys() == {f"{name}_{of}" for name in ("turns_P@1", "turn_tests") for of in (short, long)}
    assert tables[f"turns_P@1_{short}"].title == "Retrieval by turn, P@1 (table 8): gpt, user ernie, 1 turn"
    counted = {
        of: [(row["turn"], row["respond_n"]) for row in tables[f"turns_P@1_{of}"].rows]
        for of in (short, long)
    }
    assert counted == {short: [(0, 2), (1, 1)], long: [(0, 2), (1, 2), (2, 2)]}
    others = [row["other"] for of in (short, long) for row in tables[f"turn_tests_{of}"].rows]
    assert set(others) == {"w/o clarification"}  # and no scheme against itself


def test_without_documents_it_says_what_is_missing(tmp_path: Path) -> None:
    data, _ = write_talk_world(tmp_path)
    found = evaluate_held([held(tmp_path, spec=str(data))], EvaluationConfig())
    assert found.notes == ("Nothing was retrieved: name documents with --corpus FILE.jsonl.",)


def test_without_the_data_nothing_is_evaluated_and_it_is_said_why(tmp_path: Path) -> None:
    found = evaluate_held([held(tmp_path)], EvaluationConfig())
    assert found.tables == ()
    assert found.notes == (
        "Not evaluated, since the data cannot be read again: run.json does not record where the data is.",
    )
