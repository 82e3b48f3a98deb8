"""Which runs need another one's journal, as their own journals and manifests say."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run

from cts_async.runs import dependents
from cts_async.runs.dependents import Dependent, count_reused, find_dependents


def line(origin: str | None, text: str = "a reply", number: int = 0) -> str:
    record: dict[str, Any] = {
        "key": f"{number:032x}",
        "ok": True,
        "instance": "a",
        "response": {"text": text},
    }
    if origin is not None:
        record["reused"] = origin
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n"


def journal(run: Path, origins: Sequence[str | None], tail: str = "") -> None:
    lines = [line(origin, number=number) for number, origin in enumerate(origins)]
    (run / "steps.jsonl").write_text("".join(lines) + tail, encoding="utf-8")


def test_reused_steps_are_counted_by_origin(tmp_path: Path) -> None:
    journal(tmp_path, ["ask", None, "ask", "judged/é", "/other/runs/ask"], tail=line("torn")[:-1])
    assert count_reused(tmp_path / "steps.jsonl") == {"ask": 2, "judged/é": 1, "/other/runs/ask": 1}
    assert count_reused(tmp_path / "none.jsonl") == {}


@pytest.mark.parametrize(
    "text", ['","reused":"x"}\n', '"}\n,"reused":"x"}', "\\", '\\","reused":"x"}', ',"reused":"'], ids=repr
)
def test_text_of_a_reply_is_no_origin(tmp_path: Path, text: str) -> None:
    within = {"key": "0" * 32, "ok": True, "response": {"text": text, "reused": "within"}}
    content = line(None, text) + line("ask", text) + json.dumps(within, separators=(",", ":")) + "\n"
    (tmp_path / "steps.jsonl").write_text(content)
    assert count_reused(tmp_path / "steps.jsonl") == {"ask": 1}


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_blocks_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(dependents, "_BLOCK", block)
    monkeypatch.setattr(dependents, "_MAX_FIELD", 40)
    journal(tmp_path, ["ask", None, "ask.v2", "ask"])
    assert count_reused(tmp_path / "steps.jsonl") == {"ask": 2, "ask.v2": 1}


def test_link_in_place_of_a_journal_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    journal(tmp_path, ["ask"])
    (tmp_path / "run" / "steps.jsonl").symlink_to(tmp_path / "steps.jsonl")
    assert count_reused(tmp_path / "run" / "steps.jsonl") == {}


def reasons(folder: Path) -> dict[str, str]:
    return {dependent.directory.name: dependent.reason for dependent in find_dependents(folder)}


def test_finished_and_intact_run_needs_no_origin(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k1", name="ask.v2", rows=[Row("a", score=50.0)])
    journal(run, ["ask"])
    assert reasons(tmp_path) == {}
    journal(run, ["ask"], tail='{"key":"torn')
    assert reasons(tmp_path) == {}
    journal(run, ["ask"], tail="damaged\n")
    assert reasons(tmp_path) == {"ask.v2": "has damaged lines in its steps.jsonl"}


def test_unfinished_stopped_written_or_damaged_run_needs_its_origins(tmp_path: Path) -> None:
    start = "2030-03-17T10:00:00+00:00"
    changes: dict[str, dict[str, Any]] = {
        "unfinished": {"n_expected": 2},
        "stopped": {"sessions": [{"start": start, "end": start, "stopped": "budget"}]},
        "written": {"sessions": [{"start": start, "end": None}]},
        "damaged": {"identity": {"k": "two"}},
        "finished": {},
    }
    for name, change in changes.items():
        run = made_run(tmp_path, label="gpt-k1", name=name, rows=[Row("a", score=50.0)])
        journal(run, ["ask"])
        (run / ".lock").write_text(f"process {os.getpid()}")
        with changed_manifest(run) as manifest:
            manifest.update(change)
    assert reasons(tmp_path) == {
        "unfinished": "is unfinished",
        "stopped": "is unfinished",
        "written": "is being written",
        "damaged": "is damaged",
    }
    made_run(tmp_path, label="gpt-k1", name="reuses nothing", rows=[], n_expected=3)
    assert len(reasons(tmp_path)) == 4


def test_origin_is_found_by_the_end_of_its_path(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "ask.v2"
    dependent = Dependent(run, frozenset({"ask", "judged/b", str(tmp_path / "far" / "c")}), "is unfinished")
    needed = {
        "runs/ask": True,
        "runs/judged/b": True,
        "far/c": True,
        "runs/c": False,
        "runs/b": False,
        "runs/ask.v2": False,
        "runs/judged": False,
    }
    assert {path: dependent.needs(tmp_path / path) for path in needed} == needed
