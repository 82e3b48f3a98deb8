"""Files beside the instances, sound and not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cts_async.datasets.inspect import FILE_READERS
from cts_async.errors import InputError

Write = Callable[..., Path]


def facts(kind: str, path: Path | str) -> dict[str, Any]:
    return FILE_READERS[kind](str(path), {}).as_json()


def test_gold_is_counted_by_record(write: Write) -> None:
    nuggets = [{"text": "x", "weight": 3}, {"text": "y", "weight": 1}]
    rows = [{"id": "a", "fused_query": "f", "nuggets": nuggets}, {"id": "b", "nuggets": nuggets[:1]}]
    found = facts("gold", write("gold.jsonl", rows))
    assert (found["records"], found["nuggets"], found["mean_weight"]) == (2, 3, pytest.approx(7 / 3))


def test_candidates_are_counted_apart_from_failures(write: Write) -> None:
    write("one.jsonl", [{"id": "a", "answer": "x"}, {"id": "b", "answer": ""}, {"id": "c", "error": "down"}])
    folder = write("two.jsonl", [{"id": "d", "answer": "<answer>y</answer>"}]).parent
    found = facts("candidates", folder)
    assert (found["candidates"], found["files"], found["empty"], found["failed"]) == (3, 2, 1, 1)


def test_judgments_rankings_and_evaluations(write: Write) -> None:
    found = facts("qrels", write("q.txt", "1 1 d1 2\n1 2 d1 0\n2 0 d2 1\n"))
    assert (found["judgments"], found["relevant"], found["topics"]) == (3, 2, 3)
    found = facts("run", write("run.txt", "1 Q0 d1 1 2.5 x\n1 Q0 d2 2 2.0 x\n"))
    assert (found["topics"], found["documents"]["total"]) == (1, 2)
    found = facts("evaluations", write("e.json", {"NDCG1": {"1-1-0-0": 0.5}}))
    assert (found["values"], found["metrics"]) == (1, ["NDCG1"])


@pytest.mark.parametrize(
    ("kind", "says"), [("candidates", "contains no candidate answers"), ("gold", "contains no gold")]
)
def test_an_empty_file_is_not_sound(write: Write, kind: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        facts(kind, write("empty.jsonl", ""))


@pytest.mark.parametrize(
    ("kind", "content", "line"),
    [
        ("gold", '{"id": "a", "nuggets": [{"text": "x"}]}\n{"id": "b"}\n', 2),
        ("candidates", '{"id": "a", "answer": "x"}\n{"id": "b"\n', 2),
        ("qrels", "1 0 d1 2\n1 0 d1 2\n", 2),
        ("run", "1 Q0 d1 1 2.5 x\n1 Q0 d2 2 much x\n", 2),
        ("evaluations", '{"NDCG1": {', 1),
        ("gold", b'{"id": "\xff"}\n', 1),
    ],
)
def test_what_is_wrong_is_named_with_its_line(write: Write, kind: str, content: Any, line: int) -> None:
    with pytest.raises(InputError) as caught:
        facts(kind, write("broken.jsonl" if kind != "evaluations" else "broken.json", content))
    assert caught.value.line == line
