"""`cts data qulac` as typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import cts_async
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.collection import ALL_COLUMNS
from cts_async.neighbours.qulac.commands import app

OURS = str(Path(cts_async.__file__).parents[1])


def table(questions: int = 3, topics: int = 1) -> dict[str, dict[str, object]]:
    """Topics with a facet each, which has that many questions."""
    rows = [
        (t, 1, f"{t}-1", f"{t}-1-{q}", f"t{t}", "faceted", "inf", "about", "want", f"q{q}", f"a{q}")
        for t in range(1, topics + 1)
        for q in range(1, questions + 1)
    ]
    return {name: {str(i): row[n] for i, row in enumerate(rows)} for n, name in enumerate(ALL_COLUMNS)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "qulac.json"
    path.write_text(json.dumps(table(topics=2)))
    return path


def cts(*words: object) -> str:
    """What the command prints; an error of ours comes out as itself."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception:
        raise result.exception
    return result.stdout


def test_figures_are_printed_and_given_as_json(path: Path, tmp_path: Path) -> None:
    assert "differs" in cts("figures", path, "--csv", tmp_path / "csv")
    rows = json.loads(cts("figures", path, "--json"))["figures"]
    assert rows[0] == {"figure": "topics", "published": 198, "counted": 2, "reproduced": False, "digits": 0}
    assert (tmp_path / "csv" / "figures.csv").read_text().splitlines()[1].startswith("topics,198,2,False")


def test_conversations_stream_to_standard_output(path: Path) -> None:
    lines = cts("conversations", path, "--turns", "2", "--topic", "2").splitlines()
    assert len(lines) == 6
    assert json.loads(lines[0]) == {
        "id": "2-1-1-2-1",
        "history_id": "2-1-1",
        "history_list": [{"question": "q1", "answer": "a1"}],
        "query": "t2",
        "question": "q2",
        "answer": "a2",
    }


def test_conversations_go_to_a_file_and_are_counted(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert cts("conversations", path, "--out", out) == ""
    assert len(out.read_text().splitlines()) == 2 * (3 + 6 + 3)
    counted = json.loads(cts("conversations", path, "--count", "--turns", "1,3", "--json"))["conversations"]
    assert [row["conversations"] for row in counted] == [6, 6, 12]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--turns", "1,4"], r"--turns 1,4: '4' is not one of 1, 2, 3"),
        (["--topic", "7"], r"--topic 7: no such topic; there are 2 from 1 to 2"),
    ],
)
def test_what_there_is_not_is_refused(path: Path, options: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        cts("conversations", path, *options)
    with pytest.raises(UsageError, match="is an input file of this command"):
        cts("conversations", path, "--out", path)


def test_gains_of_chosen_metrics_are_printed_with_notes(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    values = {"1-1-0-0": 0.5, "1-1-1-1": 0.75}
    path.write_text(json.dumps({"NDCG20": values, "P1": {"1-1-1-1": 1}, "P3": {"1-1-1-0": 1}}))
    out = cts("gains", path, "--metric", "NDCG20", "--metric", "P1")
    assert "+0.2500" in out
    assert "P1: 1 facet has no record of the original query alone (1-1-0-0)" in out
    found = json.loads(cts("gains", path, "--metric", "NDCG20", "--json", "--test"))
    assert found["oracle"][0]["gain"] == 0.25
    assert found["questions_NDCG20"][0]["gain"] == 0.25
    with pytest.raises(UsageError, match=r"--metric P5: .* has only 'NDCG20', 'P1', 'P3'"):
        cts("gains", path, "--metric", "P5")
    with pytest.raises(InputError, match=r"field 'P3': holds no question with its answer"):
        cts("gains", path)


def test_every_command_has_help_with_an_example() -> None:
    for command in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]
        assert "Example: cts data qulac" in (command.help or "")


def test_a_reader_that_has_seen_enough_ends_the_stream_quietly(tmp_path: Path) -> None:
    """60 questions give 60 + 60 * 59 + 60 * 59 * 58 / 2 conversations: far more than a pipe holds."""
    path = tmp_path / "qulac.json"
    path.write_text(json.dumps(table(60)))
    command = [sys.executable, "-m", "cts_async.cli.main", "data", "qulac", "conversations", str(path)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": OURS}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["id"] == "1-1-1-1"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_conversations_replace_a_file_only_with_force(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "conversations.jsonl"
    cts("conversations", path, "--turns", "1", "--out", out)
    with pytest.raises(UsageError, match=r"conversations.jsonl: exists already; --force replaces it"):
        cts("conversations", path, "--turns", "2", "--out", out)
    before = out.read_bytes()
    cts("conversations", path, "--turns", "2", "--out", out, "--force")
    assert out.read_bytes() != before
