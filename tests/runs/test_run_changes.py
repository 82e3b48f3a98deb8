"""What differs between two runs: settings, prompts, sources and scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run

from cts_async.errors import InputError
from cts_async.runs import run_changes
from cts_async.runs.run_changes import ABSENT, ScoreChange, compare_two, origin_of


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return made_run(tmp_path, label="gpt-k1", name="ask", rows=[Row("a", score=50.0)])


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return made_run(tmp_path, label="gpt-k1", name="ask.v2", rows=[Row("a", score=50.0)])


def write(run: Path, name: str, text: str) -> None:
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_bytes(text.encode())


def settings(before: Path, after: Path) -> dict[str, tuple[Any, Any]]:
    changes = compare_two(before, after)
    return {change.name: (change.before, change.after) for change in changes.settings}


def texts(before: Path, after: Path) -> list[tuple[str, str | None, str | None]]:
    return [(text.name, text.before, text.after) for text in compare_two(before, after).texts]


def test_runs_with_the_same_settings_and_scores_do_not_differ(before: Path, after: Path) -> None:
    for run in (before, after):
        write(run, "prompts/clarify.en.txt", "ask")
    with changed_manifest(after) as manifest:
        manifest |= {"sessions": [{"start": "x"}], "run_version": 2, "changed": ["k"], "changed_from": "ask"}
    changes = compare_two(before, after)
    assert changes.is_empty
    assert changes.notes == ()


def test_settings_are_compared_by_dotted_names(before: Path, after: Path) -> None:
    with changed_manifest(before) as manifest:
        manifest["identity"] |= {"k": 1, "agent": {"max_turns": 20, "urls": []}, "seed": None}
        manifest["command"] = "cts run"
    with changed_manifest(after) as manifest:
        manifest["identity"] |= {"k": 2, "agent": {"max_turns": 10, "urls": []}}
        manifest["command"] = "cts run -k 2"
    assert settings(before, after) == {"k": (1, 2), "agent.max_turns": (20, 10), "seed": (None, ABSENT)}
    (note,) = compare_two(before, after).notes
    assert (note.name, note.before, note.after) == ("command", "cts run", "cts run -k 2")


def test_text_of_a_prompt_stands_for_its_digest(before: Path, after: Path) -> None:
    for run, digest in ((before, "1"), (after, "2")):
        with changed_manifest(run) as manifest:
            manifest["identity"]["prompts"] = {"clarify.en": digest, "judge.en": digest}
        write(run, "prompts/clarify.en.txt", digest)
        write(run, "prompts/answer.en.txt", "the same")
    # The text of the judge's prompt is not there: its digest says that it changed.
    assert settings(before, after) == {"prompts.judge.en": ("1", "2")}
    assert texts(before, after) == [("prompts/clarify.en.txt", "1", "2")]


def test_sources_of_a_role_are_compared_whatever_the_system_is_called(before: Path, after: Path) -> None:
    write(before, "sources/lab.ask-k1.clarifier.py", "old")
    write(after, "sources/lab.ask-k2.clarifier.py", "new")
    write(after, "sources/lab.ask-k2.agent.sh", "only here")
    assert texts(before, after) == [
        ("sources/lab.ask-k1.clarifier.py, now sources/lab.ask-k2.clarifier.py", "old", "new"),
        ("sources/lab.ask-k2.agent.sh", None, "only here"),
    ]
    assert texts(after, before)[0] == ("sources/lab.ask-k2.agent.sh", "only here", None)


def test_links_are_not_read_and_long_files_not_compared(
    before: Path, after: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    write(before, "prompts/a.txt", "a")
    write(before, "prompts/long.txt", "b" * 11)
    (after / "prompts").mkdir()
    (after / "prompts" / "a.txt").symlink_to(tmp_path / "secret")
    (after / "sources").symlink_to(tmp_path)
    write(after, "prompts/long.txt", "b" * 12)
    monkeypatch.setattr(run_changes, "MAX_TEXT_BYTES", 10)
    changes = compare_two(before, after)
    assert [(text.name, text.after) for text in changes.texts] == [("prompts/a.txt", None)]
    assert [problem.partition(": ")[0] for problem in changes.problems] == [
        f"{before}/prompts/long.txt",
        f"{after}/prompts/long.txt",
    ]
    assert not changes.is_empty


def test_scores_are_compared_where_both_runs_have_one(tmp_path: Path) -> None:
    rows = [Row("a", score=50.0), Row("b", score=20.0), Row("c", score=0.0), Row("d", score=9.0)]
    before = made_run(tmp_path, label="gpt-k1", name="ask", rows=rows)
    # d fails, e is new; of a, b and c: -10, 0, +40, which makes +10 in the mean.
    rows = [Row("a", score=40.0), Row("b", score=20.0), Row("c", score=40.0), Row("d", error="judge")]
    after = made_run(tmp_path, label="gpt-k1", name="ask.v2", rows=[*rows, Row("e", score=1.0)])
    scores = compare_two(before, after).scores
    assert scores is not None
    assert scores.changes == (ScoreChange("c", 0.0, 40.0), ScoreChange("a", 50.0, 40.0))
    assert (scores.n_common, scores.n_before, scores.n_after, scores.mean_change) == (3, 1, 1, 10.0)
    assert (scores.judge_before, scores.judge_after) == ("ernie", "ernie")


def test_damaged_results_are_a_problem_and_none_are_none(before: Path, after: Path) -> None:
    (after / "results.jsonl").write_text('{"id": "a", "nuggets": 5}\n')
    (problem,) = compare_two(before, after).problems
    assert problem.startswith(f"scores cannot be compared: {after}/results.jsonl:1: field 'nuggets'")
    (after / "results.jsonl").unlink()
    changes = compare_two(before, after)
    assert (changes.scores, changes.problems) == (None, ())


def test_version_is_compared_with_the_one_that_it_came_from(before: Path, after: Path) -> None:
    with pytest.raises(InputError, match=r"ask\.v2: is the first version of its series; name the run"):
        origin_of(after)
    with changed_manifest(after) as manifest:
        manifest["changed_from"] = "ask"
    assert origin_of(after) == before
    for name in ("../ask", "/etc", "..", "."):
        with changed_manifest(after) as manifest:
            manifest["changed_from"] = name
        with pytest.raises(InputError, match="changed_from|is gone"):
            origin_of(after)
    with changed_manifest(after) as manifest:
        manifest["changed_from"] = "ask.v1"
    with pytest.raises(InputError, match=r"ask\.v2: came from ask\.v1, which is gone"):
        origin_of(after)
