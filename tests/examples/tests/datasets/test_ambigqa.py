"""AmbigQA: each meaning of a question is an instance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cts_async.datasets.inspect import contents_of
from cts_async.datasets.kinds import open_dataset
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget

SOURCE = {"question": "Who was the leader in 2010?", "answer": ["Ann", "Ann Lee"]}
OTHER = {"question": "Who was the leader in 2020?", "answer": ["Bo"]}
QUESTION = {
    "id": "q7",
    "question": "Who was the leader?",
    "annotations": [
        {"type": "multipleQAs", "qaPairs": [SOURCE, OTHER]},
        {"type": "multipleQAs", "qaPairs": [SOURCE]},
    ],
}
CLEAR = {
    "id": "q8",
    "question": "Capital of Norway?",
    "annotations": [{"type": "singleAnswer", "answer": ["Oslo"]}],
}


def written(folder: Path, rows: Any) -> str:
    path = folder / "dev_light.json"
    path.write_text(json.dumps(rows), "utf-8")
    return f"ambigqa:{path}"


def test_each_meaning_is_an_instance_once(tmp_path: Path) -> None:
    dataset = open_dataset(written(tmp_path, [QUESTION, CLEAR]))
    assert list(dataset.instances()) == [
        Instance(
            "q7-1",
            "Who was the leader in 2010?",
            "Who was the leader?",
            (Nugget("answer", "Ann / Ann Lee", 3.0),),
        ),
        Instance(
            "q7-2", "Who was the leader in 2020?", "Who was the leader?", (Nugget("answer", "Bo", 3.0),)
        ),
        Instance("q8-1", "Capital of Norway?", "Capital of Norway?", (Nugget("answer", "Oslo", 3.0),)),
    ]
    facts = contents_of(dataset).facts
    assert (dataset.name, facts["instances"], facts["queries"], facts["alike"]) == ("ambigqa", 3, 2, 1)


def test_gold_of_another_file_replaces_the_answers(tmp_path: Path) -> None:
    spec = written(tmp_path, [CLEAR])
    nugget = {"id": "N1", "text": "It is Oslo.", "weight": 2}
    gold = tmp_path / "gold.jsonl"
    gold.write_text(json.dumps({"fused_query": "Capital of Norway?", "gold": {"nuggets": [nugget]}}), "utf-8")
    (instance,) = open_dataset(spec, gold).instances()
    assert instance.nuggets == (Nugget("N1", "It is Oslo.", 2.0),)


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ({}, None),
        ([3], "[0]"),
        ([{**CLEAR, "question": " "}], "[0].question"),
        ([{**CLEAR, "annotations": {}}], "[0].annotations"),
        ([{**CLEAR, "annotations": [{"type": "singleAnswer", "answer": []}]}], "[0].annotations[0].answer"),
        ([CLEAR, {**QUESTION, "annotations": [{"qaPairs": [3]}]}], "[1].annotations[0].qaPairs[0]"),
    ],
)
def test_a_mistake_is_named_by_its_place(tmp_path: Path, rows: Any, field: str | None) -> None:
    with pytest.raises(InputError) as caught:
        open_dataset(written(tmp_path, rows))
    assert caught.value.field == field
    with pytest.raises(UsageError, match="ambigqa:PATH"):
        open_dataset("ambigqa:")
