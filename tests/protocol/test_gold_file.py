"""The gold file: whole or not at all, in the release's format, and nobody else's is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cts_async.datasets import read_gold
from cts_async.engine.run_dir import write_json
from cts_async.errors import InputError, UsageError
from cts_async.protocol.gold.files import check_target, gold_lines, write_gold
from cts_async.report.gold import summarise_gold

NUGGET = {"id": "N1", "text": "at nine", "weight": 3, "source_ids": ["S1"]}


def done(id: str, **more: Any) -> dict[str, Any]:
    line = {"id": id, "system": "goldbuild", "fused_query": f"query {id}", "answer": "x"}
    return {**line, "gold": {"nuggets": [NUGGET]}, **more}


def failed(id: str) -> dict[str, Any]:
    return {"id": id, "error": {"step": "search", "kind": "no_sources", "message": "none"}}


def directory(folder: Path, *lines: dict[str, Any]) -> Path:
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_lines_come_in_the_order_of_the_intents_without_those_that_failed(tmp_path: Path) -> None:
    results = directory(tmp_path, done("c"), failed("b"), failed("a"), done("a", answer="later"))
    lines = [json.loads(line) for line in gold_lines(results, [(id, (id,)) for id in "abcd"])]
    assert [(line["id"], line["answer"]) for line in lines] == [("a", "later"), ("c", "x")]
    assert lines[0] == {
        "id": "a",
        "fused_query": "query a",
        "gold": {"nuggets": [NUGGET]},
        "instance_ids": ["a"],
        "answer": "later",
    }


@pytest.mark.parametrize(
    "broken",
    [{"gold": None}, {"gold": 5}, {"gold": {"nuggets": 4}}, {"gold": {"nuggets": [4]}}, {"fused_query": 3}],
)
def test_a_line_that_somebody_broke_is_named_and_nothing_is_written(
    tmp_path: Path, broken: dict[str, Any]
) -> None:
    results = directory(tmp_path, done("a"), done("b", **broken))
    told = "results.jsonl: the line of 'b' is damaged: remove it"
    with pytest.raises(InputError, match=told):
        write_gold(tmp_path / "GOLD.jsonl", gold_lines(results, [(id, (id,)) for id in "ab"]))
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]
    write_json(tmp_path / "run.json", {})
    with pytest.raises(InputError, match=told.replace("'b'", "'a'")):
        summarise_gold(tmp_path)  # which wants to know of the grounding, too


def test_what_is_written_can_be_read_as_gold_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "new" / "GOLD.jsonl"
    assert write_gold(out, gold_lines(directory(tmp_path, done("a")), [("a", ("a",))])) == 1
    assert read_gold(out).lookup("a", None)[0].text == "at nine"
    assert [path.name for path in out.parent.iterdir()] == ["GOLD.jsonl"]


def test_without_a_line_nothing_is_written_and_nothing_replaced(tmp_path: Path) -> None:
    out = tmp_path / "GOLD.jsonl"
    assert write_gold(out, []) == 0
    assert list(tmp_path.iterdir()) == []
    out.write_text("theirs")
    write_gold(out, [])
    assert out.read_text() == "theirs"


def test_a_writer_that_breaks_off_leaves_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "GOLD.jsonl"
    out.write_text("old\n")

    def lines() -> Any:
        yield b"new\n"
        raise OSError(5, "Input/output error")

    with pytest.raises(Exception, match="Input/output error"):
        write_gold(out, lines())
    assert out.read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["GOLD.jsonl"]


@pytest.mark.parametrize("text", ["", "one\n", "two\n", "two\none\n"])
def test_lines_of_one_s_own_may_be_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "GOLD.jsonl").write_text(text)
    check_target(tmp_path / "GOLD.jsonl", [b"one\n", b"two\n"], force=False)


def test_no_device_or_pipe_is_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for out in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(UsageError, match="not a regular file"):
            check_target(out, [], force=True)


@pytest.mark.parametrize("text", ["theirs\n", "one", "one\nedited\n"])
def test_other_lines_may_not_unless_by_force(tmp_path: Path, text: str) -> None:
    (tmp_path / "GOLD.jsonl").write_text(text)
    with pytest.raises(UsageError, match="was not written by this build"):
        check_target(tmp_path / "GOLD.jsonl", [b"one\n", b"two\n"], force=False)
    check_target(tmp_path / "GOLD.jsonl", [], force=True)
