"""What a user names as runs: directories, folders of them, patterns; gold beside them is no run."""

from __future__ import annotations

import json
from pathlib import Path

from cts_async.protocol.run_files import (
    is_conversation,
    is_gold_build,
    matching,
    run_folders,
    without_conversations,
)


def made(folder: Path, system: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"identity": {"system": system}}))
    return folder


def test_a_folder_stands_for_its_runs_and_a_run_for_itself(tmp_path: Path) -> None:
    a, b = made(tmp_path / "runs" / "a", "orig"), made(tmp_path / "runs" / "b", "gpt-k1")
    (tmp_path / "runs" / "notes").mkdir()
    assert run_folders([tmp_path / "runs"]) == [a, b]
    assert run_folders([b, tmp_path / "runs" / "a*"]) == [b, a]
    assert run_folders([tmp_path / "nowhere"]) == [tmp_path / "nowhere"]


def test_built_gold_is_left_out_unless_there_is_nothing_else(tmp_path: Path) -> None:
    run, gold = made(tmp_path / "runs" / "a", "orig"), made(tmp_path / "runs" / "gold", "goldbuild")
    assert run_folders([tmp_path / "runs"]) == run_folders([gold, run]) == [run]
    assert run_folders([gold]) == [gold]


def test_a_report_beside_runs_is_none_of_them(tmp_path: Path) -> None:
    run, report = made(tmp_path / "runs" / "a", "orig"), tmp_path / "runs" / "report.html"
    report.write_text("<!doctype html>")
    assert run_folders([tmp_path / "runs" / "*"]) == run_folders([run, report]) == [run]
    assert run_folders([report]) == [report]


def test_a_torn_manifest_is_no_gold(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"identity"')
    assert not is_gold_build(tmp_path)
    assert not is_gold_build(tmp_path / "run.json")


def test_conversations_are_no_answers_unless_there_is_nothing_else(tmp_path: Path) -> None:
    run, talk = made(tmp_path / "a", "orig"), made(tmp_path / "b", "gpt-cot-respond-k3")
    (talk / "run.json").write_text(json.dumps({"identity": {"system": "gpt-cot-respond-k3", "task": "talk"}}))
    assert is_conversation(talk)
    assert not is_conversation(run)
    assert run_folders([tmp_path]) == [run, talk]  # an audit looks at both
    assert without_conversations([run, talk]) == [run]
    assert without_conversations([talk]) == [talk]


def test_a_pattern_of_nothing_is_left_to_who_reads_it(tmp_path: Path) -> None:
    assert run_folders([tmp_path / "none*"]) == [tmp_path / "none*"]
    assert matching(tmp_path / "none*") == []
    (tmp_path / "a[1]").mkdir()
    assert matching(tmp_path / "a[1]") == [tmp_path / "a[1]"]
