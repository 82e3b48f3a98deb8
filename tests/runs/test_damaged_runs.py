"""A run that is damaged stops nobody who named the folder that it lies in, and is never silently missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, made_run

from cts_async.errors import InputError, UsageError
from cts_async.pages.report import Origin
from cts_async.pages.report_files import make_report
from cts_async.tables.comparison import compare_runs
from cts_async.tables.diagnosis import diagnose_named

ROWS = [Row("a", ["Which year?"], ["2024"], score=60), Row("b", ["Which year?"], ["unknown"], score=40)]


def report(words: Sequence[str]) -> Sequence[str]:
    out = Path(words[0]).parent / "page.html"
    notes = list(make_report(words, Origin("cts report", datetime.now(UTC)), out=out))
    page = out.read_text(encoding="utf-8")
    assert all(line in page for line in notes[1:])
    return notes


def compare(words: Sequence[str]) -> Sequence[str]:
    return compare_runs(words).notes


def diagnose(words: Sequence[str]) -> Sequence[str]:
    return diagnose_named(words).notes


COMMANDS = pytest.mark.parametrize("command", [report, compare, diagnose])


def three(folder: Path) -> tuple[Path, Path, Path]:
    """orig, gpt-k1, and kimi-k1 with what a full disk left of its manifest."""
    runs = made_run(folder, label="orig", rows=[Row("a", score=50), Row("b", score=50)])
    sound, damaged = (made_run(folder, label=label, rows=ROWS) for label in ("gpt-k1", "kimi-k1"))
    (damaged / "run.json").write_text('{"identity": {')
    return runs, sound, damaged


MANIFESTS = [
    ('{"identity": {', "not a manifest"),
    ('{"identity": {"k": "three"}}', "field 'identity.k': has to be a number of questions"),
]
LINES = [
    ("results.jsonl", {"id": "zz", "error": "str"}, "field 'error': has to be an object"),
    ("results.jsonl", {"id": "a", "questions": "?"}, "field 'questions': has to be a list of texts"),
    ("judgments/gpt.jsonl", {"id": "a", "judge": ["gpt"]}, "field 'judge': has to be a text of one line"),
]


@COMMANDS
@pytest.mark.parametrize(("manifest", "problem"), MANIFESTS)
def test_run_with_damaged_manifest_is_left_out_with_note(
    tmp_path: Path, command: Callable[[Sequence[str]], Sequence[str]], manifest: str, problem: str
) -> None:
    orig, _, damaged = three(tmp_path / "runs")
    (damaged / "run.json").write_text(manifest)
    (note,) = [line for line in command([str(tmp_path / "runs")]) if line.startswith("Left out:")]
    assert note.startswith(f"Left out: {damaged / 'run.json'}: {problem}")
    for words in ([damaged, orig], [tmp_path / "runs", damaged]):
        with pytest.raises(InputError, match=f"made-kimi-k1/run.json: {problem}"):
            command([*map(str, words)])


@COMMANDS
@pytest.mark.parametrize(("file", "line", "problem"), LINES)
def test_malformed_line_leaves_out_its_run_only(
    tmp_path: Path,
    command: Callable[[Sequence[str]], Sequence[str]],
    file: str,
    line: dict[str, Any],
    problem: str,
) -> None:
    made_run(tmp_path / "runs", label="orig", rows=[Row("a", score=50), Row("b", score=50)])
    made_run(tmp_path / "runs", label="gpt-k1", rows=ROWS)
    damaged = made_run(tmp_path / "runs", label="kimi-k1", rows=ROWS)
    path = damaged / file
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as out:
        out.write(json.dumps(line) + "\n")
    number = len(path.read_text().splitlines())
    notes = command([str(tmp_path / "runs")])
    assert any(note.startswith(f"Left out: {path}:{number}: {problem}") for note in notes)
    with pytest.raises(InputError, match=f"{path}:{number}: "):
        command([str(damaged), str(tmp_path / "runs")])


def test_malformed_judged_file_is_left_out(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", label="orig", rows=[Row("a", score=50), Row("b", score=50)])
    judged = tmp_path / "runs" / "judged"
    judged.mkdir()
    (judged / "per_item.jsonl").write_text('{"id": "a", "nuggets": 5, "restore_score_100": 5}\n')
    (note,) = [line for line in report([str(tmp_path / "runs")]) if line.startswith("Left out")]
    assert note.startswith(f"Left out: {judged / 'per_item.jsonl'}")


@COMMANDS
def test_folder_without_readable_runs_is_refused(
    tmp_path: Path, command: Callable[[Sequence[str]], Sequence[str]]
) -> None:
    made_run(tmp_path / "runs", label="gpt-k1", rows=ROWS).joinpath("run.json").write_text("{")
    with pytest.raises(InputError, match="not a manifest"):
        command([str(tmp_path / "runs")])
    made_run(tmp_path / "runs", label="orig", rows=[Row("a", score=50)])
    if command is compare:
        with pytest.raises(UsageError, match=r"one run alone \(.*made-orig\).*Left out: .*made-gpt-k1/run"):
            compare([str(tmp_path / "runs")])


def test_run_without_manifest_is_read_for_scores(tmp_path: Path) -> None:
    """What remains is a file of judged answers: nuggets half covered, a score of 50."""
    orig, gpt, kimi = three(tmp_path / "runs")
    (kimi / "run.json").unlink()
    (scored,) = compare_runs([str(orig), str(gpt), str(kimi)]).judged
    assert [(one.system, one.scores.mean) for one in scored.standings if one.k == 1] == [
        ("gpt-k1", 50.0),
        ("made-kimi-k1", 50.0),
    ]
    assert report([str(tmp_path / "runs")])
