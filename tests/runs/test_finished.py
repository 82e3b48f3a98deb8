"""Finished runs and judged files are read as analyses need them, whatever versions and programs wrote them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from made_runs import Row, made_run
from written_files import write_lines

from cts_async.errors import InputError
from cts_async.runs.finished import UNNAMED, read_judged, read_run
from cts_async.runs.manifest import named_system

ROWS = [Row("q1", score=10.0)]
FULL = {"id": "N1", "weight": 3, "coverage": "full"}
NONE = {"id": "N2", "weight": 1, "coverage": "none"}


# Runs


def verdict(id: str, coverage: str, score: float, **fields: object) -> dict[str, object]:
    nuggets = [{"id": "N1", "weight": 2, "coverage": coverage}]
    return {"id": id, "nuggets": nuggets, "restore_score_100": score, **fields}


def test_run_is_read_with_identity_and_items(tmp_path: Path) -> None:
    row = Row("q1", ["Where?", "When?"], ["unknown", "May"], labels={"ernie": "fpn"}, weights=[3, 2, 1])
    directory = made_run(tmp_path, label="gpt-k2", rows=[row])
    run = read_run(directory)
    assert (run.label, run.clarifier, run.k, run.judges) == ("gpt-k2", "gpt", 2, ("ernie",))
    assert (run.players["support"], run.data.sha256) == ("ernie", "sha of made")
    item = run.items["q1"]
    assert (item.unknown, item.answer) == ((True, False), "an answer")
    assert item.verdicts["ernie"].score == pytest.approx(100 * 4 / 6)
    assert dict(item.verdicts["ernie"].coverage) == {"N1": "full", "N2": "partial", "N3": "none"}
    assert dict(item.verdicts["ernie"].weights) == {"N1": 3.0, "N2": 2.0, "N3": 1.0}
    assert read_run(directory, without=["answer"]).items["q1"].answer == ""
    with pytest.raises(InputError, match=r"run\.json not found"):
        read_run(tmp_path)


def test_last_line_counts_and_failures_are_not_missing(tmp_path: Path) -> None:
    rows = [Row("q1", error="search"), Row("q2", score=40.0), Row("q1", score=30.0), Row("q2", error="judge")]
    run = read_run(made_run(tmp_path, label="orig", rows=rows, n_expected=8))
    assert run.scores("ernie") == {"q1": 30.0}
    assert (list(run.items), run.n_done, run.n_failed, run.n_missing) == (["q1"], 1, 1, 6)


def test_scoring_judge_comes_first_then_others_by_name(tmp_path: Path) -> None:
    labels = {"kimi": "fp", "gpt": "pp", "claude": "nn"}
    rows = [Row("q1", labels=labels), Row("q2", labels=labels)]
    run = read_run(made_run(tmp_path / "judged", label="orig", rows=rows))
    assert run.judges == ("kimi", "claude", "gpt")
    assert [run.scores(judge)["q1"] for judge in run.judges] == [75.0, 0.0, 50.0]
    coverages = [item.verdicts["kimi"].coverage for item in run.items.values()]
    assert coverages[0] is coverages[1]  # equal labels share one object
    assert read_run(made_run(tmp_path / "not", label="orig", rows=[Row("q1")])).judges == ()


def test_verdict_needs_an_answer_and_replaces_a_failure(tmp_path: Path) -> None:
    rows = [Row("q1", score=1.0), Row("q2", score=2.0), Row("q3", error="search")]
    directory = made_run(tmp_path, label="orig", rows=rows)
    error = {"error": {"step": "judge", "kind": "rejected", "message": "no"}, "judge": "gpt"}
    verdicts = [verdict(id, "full", 100.0, judge="gpt") for id in ("q2", "q3", "q4")]
    write_lines(
        directory / "judgments" / "gpt.jsonl", {"id": "q1", **error}, {"id": "q2", **error}, *verdicts
    )
    run = read_run(directory)
    assert run.scores("gpt") == {"q2": 100.0}
    assert (run.judge_failures, run.n_failed_under("gpt")) == ({"gpt": 1}, 2)


def test_judged_candidates_take_judge_from_manifest(tmp_path: Path) -> None:
    identity = {"system": "gpt-k1", "candidates": "x.jsonl", "gold_sha256": "abc", "judges": ["ernie"]}
    write_lines(tmp_path / "run.json", {"identity": identity, "n_expected": 2})
    lines = verdict("q1", "partial", 50.0, judge="ernie"), verdict("q2", "none", 0.0)
    write_lines(tmp_path / "per_item.jsonl", *lines)
    run = read_run(tmp_path)
    assert (run.label, run.k, run.judges, run.n_missing) == ("gpt-k1", 1, ("ernie",), 0)
    assert run.data.as_json() == {"gold_sha256": "abc"}


# Judged files


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("ebk1__cand_hard518", ("ebk1", 1)),
        ("orig__cand_hard518", ("orig", 0)),
        ("gpt-k3", ("gpt-k3", 3)),
        ("gpt-k3@short", ("gpt-k3@short", 3)),
        ("k2-gpt", ("k2-gpt", 0)),
        ("__cand", ("__cand", 0)),
    ],
)
def test_name_of_answers_gives_system_and_budget(name: str, system: tuple[str, int]) -> None:
    assert named_system(name) == system


def test_judged_file_is_named_after_its_folder_or_itself(tmp_path: Path) -> None:
    line = {"id": "q1", "fused_query": "winter ferries", "nuggets": [FULL, NONE], "judge": "ernie"}
    run = read_judged(write_lines(tmp_path / "gpt-k1" / "per_item.jsonl", line))
    assert (run.label, run.k, run.judges, run.n_expected) == ("gpt-k1", 1, ("ernie",), 1)
    assert run.directory == tmp_path / "gpt-k1"
    assert (run.items["q1"].intent, run.items["q1"].verdicts["ernie"].score) == ("winter ferries", 75.0)
    path = write_lines(tmp_path / "ebk1__cand_hard518.jsonl", line)
    assert (read_judged(path).label, read_judged(path).directory) == ("ebk1", path)


@pytest.mark.parametrize(
    ("line", "id", "score", "coverage"),
    [
        (
            {"fused_query": "winter", "per_nugget": [{"id": "N1", "weight": 1, "label": "partial"}]},
            "winter",
            50.0,
            {"N1": "partial"},
        ),
        # nuggets without ids, and unlabelled gold beside them
        (
            {
                "id": 7,
                "nuggets": [{"id": "N1", "text": "By ferry."}],
                "per_nugget": [{"weight": 1, "label": "full"}, {"weight": 1, "label": "none"}],
            },
            "7",
            50.0,
            {"#1": "full", "#2": "none"},
        ),
    ],
)
def test_other_spellings_of_fields_are_understood(
    tmp_path: Path, line: dict[str, object], id: str, score: float, coverage: dict[str, str]
) -> None:
    path = tmp_path / "theirs.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line).encode()))  # no newline at the end
    found = read_judged(path).items[id].verdicts[UNNAMED]
    assert (found.score, dict(found.coverage)) == (score, coverage)


def test_failures_tables_and_malformed_lines_of_judged_files(tmp_path: Path) -> None:
    lines = {"id": "q1", "nuggets": [FULL]}, {"id": "q2", "error": {"kind": "rejected"}}
    run = read_judged(write_lines(tmp_path / "theirs.jsonl", *lines))
    assert (list(run.items), run.n_failed, run.n_expected) == (["q1"], 1, 2)
    found = read_judged(write_lines(tmp_path / "t.csv", "id,score", "q1,62.5")).items["q1"].verdicts[UNNAMED]
    assert (found.score, dict(found.coverage)) == (62.5, {})
    with pytest.raises(InputError, match=r"theirs\.jsonl:2: not valid JSON"):
        read_judged(write_lines(tmp_path / "theirs.jsonl", {"id": "q1", "nuggets": [FULL]}, "{"))


def test_contradicting_score_in_judged_file_is_reported(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "theirs.jsonl", {"id": "q1", "nuggets": [FULL, NONE], "restore_score_100": 20}
    )
    run = read_judged(path)
    found = run.items["q1"].verdicts[UNNAMED]
    assert (found.score, found.weights) == (75.0, {"N1": 3.0, "N2": 1.0})
    assert run.contradictions == (
        f"Recomputed from the nuggets: {path}:1: restore_score_100 is 20 here, its nuggets give 75.0.",
    )
