"""Scores as they are appended to a results file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

from cts_async.report.progress import ScoreTail


def write(path: Path, *lines: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def test_each_score_is_read_once_as_it_comes(tmp_path: Path) -> None:
    tail = ScoreTail(tmp_path / "results.jsonl")
    assert list(tail.read()) == []
    write(
        tail_path := tmp_path / "results.jsonl",
        {"id": "a", "restore_score_100": 50.0},
        {"id": "b", "error": {}},
    )
    assert list(tail.read()) == [50.0]
    assert list(tail.read()) == []
    write(tail_path, {"id": "c", "restore_score_100": None}, {"id": "d", "restore_score_100": 1e-7})
    assert list(tail.read()) == [1e-7]


def test_a_line_that_is_not_whole_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    tail = ScoreTail(path)
    path.write_bytes(b'{"restore_score_100":12.5}\n{"restore_score_100":2')
    assert list(tail.read()) == [12.5]
    path.write_bytes(b'{"restore_score_100":12.5}\n{"restore_score_100":25}\n')
    assert list(tail.read()) == [25.0]


def test_a_text_that_looks_like_a_score_is_none(tmp_path: Path) -> None:
    said = '"restore_score_100": 99, {"restore_score_100":99}'
    write(tmp_path / "r.jsonl", {"id": said, "answer": json.dumps({"x": said}), "restore_score_100": 1.0})
    assert list(ScoreTail(tmp_path / "r.jsonl").read()) == [1.0]


def test_blocks_that_cut_lines_lose_nothing(tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", *({"id": str(n), "restore_score_100": float(n)} for n in range(20)))
    assert list(ScoreTail(tmp_path / "r.jsonl", block=7).read()) == [float(n) for n in range(20)]


def test_a_file_that_cannot_be_read_has_no_scores(tmp_path: Path) -> None:
    assert list(ScoreTail(tmp_path).read()) == []
