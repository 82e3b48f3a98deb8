"""Candidates as lines that are parsed where they are judged: only where that comes to the same, and never silently."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cts_async.config import JudgeConfig
from cts_async.datasets import read_gold
from cts_async.errors import InputError, RunStopped
from cts_async.protocol import answers as answers_module
from cts_async.protocol.answers import Answers, KeptAnswers, answers_of_candidates, any_id

GOLD = [
    {
        "id": f"g{i}",
        "fused_query": f"ferries to island {i}",
        "nuggets": [{"id": "n", "text": "x", "weight": 1}],
    }
    for i in range(4)
]
ROWS = [
    {"id": f"c{i}", "fused_query": f"ferries to island {i}", "answer": f"<answer>at {i}</answer>"}
    for i in range(3)
]


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "KEPT_BYTES", 0)


def read(
    folder: Path,
    rows: Sequence[Any],
    *,
    name: str = "candidates.jsonl",
    kept: KeptAnswers | None = None,
    **options: Any,
) -> Answers:
    gold, candidates = folder / "gold.jsonl", folder / name
    gold.write_text("".join(json.dumps(row) + "\n" for row in GOLD))
    candidates.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    config = JudgeConfig(judges=("gpt",), gold=gold, candidates=str(candidates), **options)
    return answers_of_candidates(
        candidates, read_gold(gold), config, kept or KeptAnswers(), with_fingerprints=False
    )


@pytest.mark.parametrize("limit", [None, 2])
def test_lines_are_parsed_elsewhere_as_here(tmp_path: Path, limit: int | None) -> None:
    answers = read(tmp_path, ROWS, limit=limit)
    lines = pickle.loads(pickle.dumps(answers.lines))
    reader = lines.reader()
    judgings = [reader(line) for line in lines]
    assert judgings == list(answers.stream(any_id))
    assert [judging.answer for judging in judgings] == ["at 0", "at 1", "at 2"][:limit]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "c9", "fused_query": "an unknown query", "answer": "x"},
        {"id": "c9", "fused_query": "ferries to island 3", "answer": ""},
        {"id": "c9", "fused_query": "ferries to island 3", "answer": "", "error": "timed out"},
    ],
    ids=["unknown", "empty", "failed"],
)
def test_lines_are_not_dealt_where_one_of_them_is_not_judged(tmp_path: Path, row: Any) -> None:
    assert read(tmp_path, [*ROWS, row]).lines is None


def test_lines_are_not_dealt_where_the_gold_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "MAX_SENT", 4)
    assert read(tmp_path, ROWS).lines is not None
    monkeypatch.setattr(answers_module, "MAX_SENT", 3)
    assert read(tmp_path, ROWS).lines is None


def test_lines_are_dealt_of_what_is_kept_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head need not parse them again, and workers can."""
    monkeypatch.setattr(answers_module, "KEPT_BYTES", 1_000)
    answers = read(tmp_path, ROWS)
    assert answers.lines is not None
    answers.lines.file.write_text("{")
    assert [judging.answer for judging in answers.stream(any_id)] == ["at 0", "at 1", "at 2"]


def test_file_of_more_answers_than_are_kept_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer takes memory beside its text: of a million short ones more than the file."""
    monkeypatch.setattr(answers_module, "KEPT_BYTES", 10_000)
    monkeypatch.setattr(answers_module, "KEPT_ANSWERS", 3)
    kept = read(tmp_path, ROWS)
    more = read(tmp_path, [*ROWS, {"id": "c3", "fused_query": "ferries to island 3", "answer": "at 3"}])
    (tmp_path / "candidates.jsonl").write_text("{")
    assert len(list(kept.stream(any_id))) == 3
    with pytest.raises(RunStopped, match="the file was changed"):
        list(more.stream(any_id))


def test_files_share_the_room_for_kept_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "KEPT_BYTES", 10_000)
    monkeypatch.setattr(answers_module, "KEPT_ANSWERS", 5)
    kept = KeptAnswers()
    first, second = (read(tmp_path, ROWS, name=name, kept=kept) for name in ("a.jsonl", "b.jsonl"))
    (tmp_path / "a.jsonl").write_text("{")
    (tmp_path / "b.jsonl").write_text("{")
    assert len(list(first.stream(any_id))) == 3
    with pytest.raises(RunStopped, match="the file was changed"):
        list(second.stream(any_id))


def test_file_that_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.jsonl: no such file; check the path"):
        KeptAnswers().of(tmp_path / "absent.jsonl")


def test_table_is_parsed_here(tmp_path: Path) -> None:
    gold, candidates = tmp_path / "gold.jsonl", tmp_path / "candidates.csv"
    gold.write_text("".join(json.dumps(row) + "\n" for row in GOLD))
    candidates.write_text("id,fused_query,answer\nc1,ferries to island 1,at 1\n")
    config = JudgeConfig(judges=("gpt",), gold=gold, candidates=str(candidates))
    answers = answers_of_candidates(
        candidates, read_gold(gold), config, KeptAnswers(), with_fingerprints=False
    )
    assert (len(answers), answers.lines) == (1, None)


@pytest.mark.parametrize("limit", [None, 2])
def test_file_with_fewer_answers_than_before_stops_the_run(tmp_path: Path, limit: int | None) -> None:
    """Wherever its lines are parsed."""
    answers = read(tmp_path, ROWS, limit=limit)
    lines = answers.lines
    assert lines is not None
    assert len(list(answers.stream(any_id))) == len(list(lines)) == len(answers)
    lines.file.write_text(json.dumps(ROWS[0]) + "\n")
    problem = rf"candidates\.jsonl: has {len(answers) - 1} answers fewer than before; the file was changed"
    with pytest.raises(RunStopped, match=problem):
        list(lines)
    with pytest.raises(RunStopped, match=problem):
        list(answers.stream(any_id))
    lines.file.unlink()
    with pytest.raises(RunStopped, match=r"candidates\.jsonl: no such file.*; the file was changed"):
        list(lines)


def test_line_that_was_changed_stops_the_run(tmp_path: Path) -> None:
    lines = read(tmp_path, ROWS).lines
    assert lines is not None
    line, reader = next(iter(lines)), lines.reader()
    with pytest.raises(RunStopped, match=r"candidates\.jsonl:1: is not valid JSON.*; the file was changed"):
        reader(replace(line, raw=b"{"))
    with pytest.raises(RunStopped, match=r"line 1 joins no line of the gold any more; the file was changed"):
        reader(replace(line, raw=json.dumps({**ROWS[0], "fused_query": "other"}).encode()))
