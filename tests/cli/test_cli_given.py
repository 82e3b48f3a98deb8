"""`cts run --questions`, `--rewrites` and `--stop-after`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

from typed_commands import cts_in

DATA = '{"id": "a", "fused_query": "cheap hotels in Berlin", "blurred_query": "hotels"}\n'
BASE = ("--data", "data.jsonl", "--all", "baseline")


def write(folder: Path) -> None:
    (folder / "data.jsonl").write_text(DATA)
    (folder / "mine.csv").write_text("id,q1,q2\na,Which city do you mean?,Which price range do you mean?\n")


def test_given_questions_are_answered_and_shown_without_scores(tmp_path: Path) -> None:
    write(tmp_path)
    words = ("run", "--questions", "mine.csv", "-k", "2", "--stop-after", "rewrite", *BASE)
    done = cts_in(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "mine-k2 over 1 instance of data; questions from mine.csv; support baseline" in done.stderr
    assert "Asked, without a search" in done.stdout
    assert "restore_score_100" not in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name == "data-mine-k2+questions+stop-after-rewrite+support-baseline"
    (row,) = json.loads(cts_in(tmp_path, *words, "--json", "-q").stdout)
    assert (row["n_scored"], row["n_unjudged"], row["n_failed"]) == (0, 1, 0)
    planned = json.loads(cts_in(tmp_path, "plan", *words[1:], "--json").stdout)
    assert planned["total"]["calls"] == 0


def test_too_few_questions_are_one_line_and_start_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    for command in ("run", "plan"):
        words = ("--questions", "mine.csv", "-k", "3", "--stop-after", "answers", *BASE)
        refused = cts_in(tmp_path, command, *words)
        assert refused.returncode == 2
        assert refused.stderr == "cts: mine.csv:2: field 'questions': 'a': has 2 questions, but -k is 3\n"
        assert not (tmp_path / "runs").exists()
