"""Runs compared as a whole: what is put together, what is refused, and what a reader is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.errors import UsageError
from cts_async.report.comparison import compare_runs, comparison_json
from cts_async.report.diagnosis import diagnose_named


def rows(*scores: float) -> list[Row]:
    return [Row(f"q{i}", score=score) for i, score in enumerate(scores)]


def both(folder: Path) -> str:
    """orig and gpt-k1, which is 1, 2 and 3 points better."""
    made_run(folder, label="orig", rows=rows(10, 20, 30))
    made_run(folder, label="gpt-k1", rows=rows(11, 22, 33))
    return str(folder)


def test_differences_are_to_orig_and_tests_are_of_all_pairs(tmp_path: Path) -> None:
    found = compare_runs([both(tmp_path)])
    assert found.baseline == "orig"
    (judged,) = found.judged
    assert [one.system for one in judged.standings] == ["orig", "gpt-k1"]
    assert judged.standings[1].delta is not None
    assert judged.standings[1].delta.mean == 2.0
    assert [pair.p for pair in judged.pairs] == [0.25]
    assert (found.robustness, found.stabilities, found.notes) == (None, (), ())


def test_a_baseline_may_be_any_system_by_name_or_directory(tmp_path: Path) -> None:
    for name in ("gpt-k1", "made-gpt-k1", str(tmp_path / "made-gpt-k1")):
        found = compare_runs(
            [both(tmp_path)] if not any(tmp_path.iterdir()) else [str(tmp_path)], baseline=name
        )
        assert found.baseline == "gpt-k1"
        assert found.judged[0].standings[0].system == "gpt-k1"
        assert found.judged[0].pairs[0].difference == -2.0


def test_json_is_unrounded_and_reproducible(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(0, 0, 1))
    made_run(tmp_path, label="gpt-k1", rows=rows(1, 2, 3))
    first = json.dumps(comparison_json(compare_runs([str(tmp_path)])))
    assert first == json.dumps(comparison_json(compare_runs([str(tmp_path)])))
    found = json.loads(first)
    assert found["judges"][0]["leaderboard"][0]["mean"] == 1 / 3
    assert found["judges"][0]["leaderboard"][1]["delta"]["mean"] == 5 / 3
    assert found["judges"][0]["family"] == {"tests": 1, "against": None}
    assert [system["system"] for system in found["systems"]] == ["orig", "gpt-k1"]
    assert found["data"]["name"] == "made"


def test_single_run_is_refused(tmp_path: Path) -> None:
    path = made_run(tmp_path, label="orig", rows=rows(1))
    with pytest.raises(UsageError, match="one run alone"):
        compare_runs([str(path), str(path)])


def test_no_differences_without_orig(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k1", rows=rows(11, 22, 33))
    made_run(tmp_path, label="kimi-k1", rows=rows(10, 20, 30))
    found = compare_runs([str(tmp_path)])
    (judged,) = found.judged
    assert [(one.system, one.scores.mean, one.delta) for one in judged.standings] == [
        ("gpt-k1", 22.0, None),
        ("kimi-k1", 20.0, None),
    ]
    assert [(pair.system, pair.other, pair.difference, pair.p) for pair in judged.pairs] == [
        ("gpt-k1", "kimi-k1", 2.0, 0.25)
    ]
    (note,) = found.notes
    assert note == (
        "No differences: no orig among these runs, to which differences refer: add its directory, or choose "
        "another with --baseline (gpt-k1, kimi-k1)."
    )
    assert comparison_json(found)["baseline"] is None
    assert compare_runs([str(tmp_path)], baseline="kimi-k1").baseline == "kimi-k1"


def test_several_origs_need_a_choice(tmp_path: Path) -> None:
    for name in ("monday", "friday"):
        made_run(tmp_path, label="orig", rows=rows(1), name=name)
    with pytest.raises(UsageError, match="several runs are orig: friday, monday"):
        compare_runs([str(tmp_path)])
    assert compare_runs([str(tmp_path)], baseline="monday").baseline == "monday"


def test_unknown_baseline_or_judge_lists_known_ones(tmp_path: Path) -> None:
    folder = both(tmp_path)
    with pytest.raises(UsageError, match=r"--baseline gtp-k1: no such system here; there are orig, gpt-k1"):
        compare_runs([folder], baseline="gtp-k1")
    with pytest.raises(UsageError, match=r"judged by 'gpt'; there are ernie"):
        compare_runs([folder], judges=["gpt"])


def test_unjudged_runs_are_refused_with_command(tmp_path: Path) -> None:
    for label in ("orig", "gpt-k1"):
        made_run(tmp_path, label=label, rows=[Row("q1")])
    with pytest.raises(UsageError, match="cts judge RUN"):
        compare_runs([str(tmp_path)])


def test_runs_without_answers_are_not_sent_to_judge(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("q1", error="search/turn/1")])
    made_run(tmp_path, label="gpt-k1", rows=[], n_expected=1)
    with pytest.raises(UsageError, match=r"^no instance of these runs has an answer yet.*--retry-failed"):
        compare_runs([str(tmp_path)])


def test_unfinished_and_unjudged_runs_are_noted(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(1, 2), n_expected=5)
    made_run(tmp_path, label="gpt-k1", rows=[Row("q0"), Row("q1")])
    made_run(tmp_path, label="kimi-k1", rows=[Row("q9", labels={"gpt": "f"})])
    unfinished, unjudged, other = compare_runs([str(tmp_path)]).notes
    assert unfinished.startswith("Unfinished: orig has 2 of 5 instances")
    assert unjudged.startswith("Not judged, so left out: gpt-k1")
    assert "cts judge" in unjudged
    assert other.startswith("Not judged by ernie: kimi-k1")


def test_run_of_failures_is_noted_with_retry(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(1, 2))
    made_run(tmp_path, label="gpt-k1", rows=[Row("q0", error="clarify"), Row("q1", error="clarify")])
    (note,) = compare_runs([str(tmp_path)]).notes
    assert note.startswith("Nothing but failures, so left out: gpt-k1, 2 of 2 instances")
    assert "--retry-failed" in note


def test_run_without_finished_instances_is_not_sent_to_judge(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(1, 2))
    made_run(tmp_path, label="gpt-k1", rows=[], n_expected=2)
    (only,) = compare_runs([str(tmp_path)]).notes
    assert only.startswith("Unfinished: gpt-k1 has 0 of 2 instances")


def test_different_agents_are_noted(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(1))
    made_run(tmp_path, label="gpt-k1", rows=rows(1), players={"agent": "gpt"})
    (note,) = compare_runs([str(tmp_path)]).notes
    assert "webdancer: orig; gpt: gpt-k1" in note


def test_supporting_models_are_compared_within_a_clarifier_and_budget(tmp_path: Path) -> None:
    asked = [Row("q1", ["Where?"], ["unknown"], score=1.0, rewritten_query="rents")]
    made_run(tmp_path, label="orig", rows=rows(1))
    for support in ("ernie", "gpt", "claude"):
        made_run(tmp_path, label="gpt-k1", rows=asked, name=support, players={"support": support})
    made_run(tmp_path, label="kimi-k1", rows=asked, players={"support": "gpt"})
    found = compare_runs([str(tmp_path)])
    assert [(row.run, row.other) for row in found.stabilities] == [
        ("gpt-claude k1", "gpt-ernie k1"),
        ("gpt-claude k1", "gpt-gpt k1"),
        ("gpt-ernie k1", "gpt-gpt k1"),
    ]


def test_smoke_test_is_marked(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(1))
    made_run(tmp_path, label="local-k1", rows=rows(1), embedded=True)
    assert compare_runs([str(tmp_path)]).embedded


def test_contradicting_stored_score_is_noted(tmp_path: Path) -> None:
    """In `cts compare`, and in `cts diagnose`."""
    made_run(tmp_path, label="orig", rows=rows(1, 2))
    run = made_run(tmp_path, label="gpt-k1", rows=rows(3, 4))
    path = run / "results.jsonl"
    path.write_text(path.read_text().replace('"restore_score_100": 3.0', '"restore_score_100": 77'))
    found = compare_runs([str(tmp_path)])
    assert [one.scores.mean for one in found.judged[0].standings] == [1.5, 3.5]
    said = f"Stored scores contradict their nuggets, and are recomputed: {path}: 'q0' says 77, its nuggets give 3."
    assert said in found.notes
    assert said in diagnose_named([str(tmp_path)]).notes
