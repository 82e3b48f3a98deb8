"""Runs and judged files are read as analyses need them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.analysis.runs import UNNAMED, FinishedRun, named_system, read_judged, read_run
from cts_async.errors import InputError


def append(path: Path, *lines: object) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def verdict(id: str, coverage: str, score: float, **fields: object) -> dict[str, object]:
    nuggets = [{"id": "N1", "weight": 2, "coverage": coverage}]
    return {"id": id, "nuggets": nuggets, "restore_score_100": score, **fields}


def test_run_is_read_with_identity_and_items(tmp_path: Path) -> None:
    row = Row("q1", ["Where?", "When?"], ["unknown", "May"], labels={"ernie": "fpn"}, weights=[3, 2, 1])
    run = read_run(made_run(tmp_path, label="gpt-k2", rows=[row]))
    assert (run.label, run.clarifier, run.k, run.judges) == ("gpt-k2", "gpt", 2, ("ernie",))
    assert run.players["support"] == "ernie"
    assert run.data["sha256"] == "sha of made"
    item = run.items["q1"]
    assert item.unknown == (True, False)
    assert item.verdicts["ernie"].score == pytest.approx(100 * 4 / 6)
    assert dict(item.verdicts["ernie"].coverage) == {"N1": "full", "N2": "partial", "N3": "none"}
    assert dict(item.verdicts["ernie"].weights) == {"N1": 3.0, "N2": 2.0, "N3": 1.0}


def test_failed_and_missing_instances_are_counted_separately(tmp_path: Path) -> None:
    rows = [Row("q1", score=10.0), Row("q2", error="clarify"), Row("q3", score=0.0)]
    run = read_run(made_run(tmp_path, label="orig", rows=rows, n_expected=8))
    assert (len(run.items), run.n_failed, run.n_missing, run.n_expected) == (2, 1, 5, 8)
    assert run.scores("ernie") == {"q1": 10.0, "q3": 0.0}


def test_last_line_of_an_instance_counts(tmp_path: Path) -> None:
    rows = [Row("q1", error="search"), Row("q2", score=40.0), Row("q1", score=30.0), Row("q2", error="judge")]
    run = read_run(made_run(tmp_path, label="orig", rows=rows))
    assert run.scores("ernie") == {"q1": 30.0}
    assert list(run.items) == ["q1"]
    assert run.n_failed == 1


def test_scoring_judge_comes_first_then_others_by_name(tmp_path: Path) -> None:
    labels = {"kimi": "f", "gpt": "p", "claude": "n"}
    run = read_run(made_run(tmp_path, label="orig", rows=[Row("q1", labels=labels)]))
    assert run.judges == ("kimi", "claude", "gpt")
    assert [run.scores(judge)["q1"] for judge in run.judges] == [100.0, 0.0, 50.0]


def test_retry_of_further_judge_replaces_its_failure(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0), Row("q2", score=2.0)])
    error = {"error": {"step": "judge", "kind": "rejected", "message": "no"}, "judge": "gpt"}
    path = directory / "judgments" / "gpt.jsonl"
    append(path, {"id": "q1", **error}, {"id": "q2", **error}, verdict("q2", "full", 100.0, judge="gpt"))
    run = read_run(directory)
    assert run.scores("gpt") == {"q2": 100.0}
    assert run.judge_failures == {"gpt": 1}


def test_verdict_without_answer_does_not_count(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0), Row("q2", error="search")])
    lines = [verdict(id, "full", 100.0, judge="gpt") for id in ("q1", "q2", "q3")]
    append(directory / "judgments" / "gpt.jsonl", *lines)
    assert read_run(directory).scores("gpt") == {"q1": 100.0}


def test_unjudged_run_has_answers_without_judges(tmp_path: Path) -> None:
    run = read_run(made_run(tmp_path, label="orig", rows=[Row("q1")]))
    assert run.judges == ()
    assert run.items["q1"].answer == "an answer"


def test_texts_can_be_left_out(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0)])
    assert read_run(directory, without=["answer"]).items["q1"].answer == ""


def test_equal_labels_share_one_object(tmp_path: Path) -> None:
    rows = [Row(id, labels={"ernie": "fp"}) for id in ("q1", "q2")]
    items = read_run(made_run(tmp_path, label="orig", rows=rows)).items
    assert items["q1"].verdicts["ernie"].coverage is items["q2"].verdicts["ernie"].coverage


def judged_candidates(folder: Path) -> FinishedRun:
    folder.mkdir()
    identity = {"system": "gpt-k1", "candidates": "x.jsonl", "gold_sha256": "abc", "judges": ["ernie"]}
    (folder / "run.json").write_text(json.dumps({"identity": identity, "n_expected": 2}))
    append(
        folder / "per_item.jsonl", verdict("q1", "partial", 50.0, judge="ernie"), verdict("q2", "none", 0.0)
    )
    return read_run(folder)


def test_judged_candidates_take_judge_from_manifest(tmp_path: Path) -> None:
    run = judged_candidates(tmp_path / "out")
    assert (run.label, run.k, run.judges, run.n_missing) == ("gpt-k1", 1, ("ernie",), 0)
    assert run.data == {"gold_sha256": "abc"}


def test_missing_run_is_reported_with_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json not found"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("ebk1__cand_hard518", ("ebk1", 1)),
        ("orig__cand_hard518", ("orig", 0)),
        ("gpt-k3", ("gpt-k3", 3)),
        ("k2-gpt", ("k2-gpt", 0)),
        ("__cand", ("__cand", 0)),
    ],
)
def test_name_of_answers_gives_system_and_budget(name: str, system: tuple[str, int]) -> None:
    assert named_system(name) == system


def written(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


FULL = {"id": "N1", "weight": 3, "coverage": "full"}
NONE = {"id": "N2", "weight": 1, "coverage": "none"}


def test_judged_file_is_named_after_its_folder(tmp_path: Path) -> None:
    line = {"id": "q1", "fused_query": "winter ferries", "nuggets": [FULL, NONE], "judge": "ernie"}
    run = read_judged(written(tmp_path / "gpt-k1" / "per_item.jsonl", line))
    assert (run.label, run.k, run.judges, run.n_expected) == ("gpt-k1", 1, ("ernie",), 1)
    assert run.directory == tmp_path / "gpt-k1"
    item = run.items["q1"]
    assert item.fused_query == "winter ferries"
    assert item.verdicts["ernie"].score == 75.0
    assert dict(item.verdicts["ernie"].coverage) == {"N1": "full", "N2": "none"}


def test_results_without_manifest_are_named_after_folder(tmp_path: Path) -> None:
    run = read_judged(written(tmp_path / "gpt-k1" / "results.jsonl", {"id": "q1", "nuggets": [FULL]}))
    assert (run.label, run.k, run.directory) == ("gpt-k1", 1, tmp_path / "gpt-k1")


def test_candidate_names_of_the_release_are_shortened(tmp_path: Path) -> None:
    path = written(tmp_path / "ebk1__cand_hard518.jsonl", {"id": "q1", "nuggets": [FULL]})
    run = read_judged(path)
    assert (run.label, run.k, run.judges, run.directory) == ("ebk1", 1, (UNNAMED,), path)


def test_other_spellings_of_fields_are_understood(tmp_path: Path) -> None:
    line = {"fused_query": "winter", "per_nugget": [{"id": "N1", "weight": 1, "label": "partial"}]}
    run = read_judged(written(tmp_path / "theirs.jsonl", line))
    assert run.items["winter"].verdicts[UNNAMED].score == 50.0
    assert dict(run.items["winter"].verdicts[UNNAMED].coverage) == {"N1": "partial"}


def test_failure_in_judged_file_is_counted_without_score(tmp_path: Path) -> None:
    lines = {"id": "q1", "nuggets": [FULL]}, {"id": "q2", "error": {"kind": "rejected"}}
    run = read_judged(written(tmp_path / "theirs.jsonl", *lines))
    assert (list(run.items), run.n_failed, run.n_missing) == (["q1"], 1, 0)


def test_last_line_of_an_id_counts_in_judged_file(tmp_path: Path) -> None:
    lines = [{"id": "q1", "nuggets": [{**FULL, "coverage": word}]} for word in ("none", "full")]
    run = read_judged(written(tmp_path / "theirs.jsonl", *lines))
    assert run.scores(UNNAMED) == {"q1": 100.0}
    assert dict(run.items["q1"].verdicts[UNNAMED].coverage) == {"N1": "full"}


def test_labels_match_the_score(tmp_path: Path) -> None:
    """Gzipped, nuggets without ids, unlabelled gold beside them, and no newline at the end."""
    nuggets = [{"weight": 1, "label": "full"}, {"weight": 1, "label": "none"}]
    line = {"id": 7, "nuggets": [{"id": "N1", "text": "By ferry."}], "per_nugget": nuggets}
    path = tmp_path / "theirs.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line).encode()))
    verdict = read_judged(path).items["7"].verdicts[UNNAMED]
    assert (verdict.score, dict(verdict.coverage)) == (50.0, {"#1": "full", "#2": "none"})


def test_table_of_scores_has_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("id,score\nq1,62.5\n")
    verdict = read_judged(path).items["q1"].verdicts[UNNAMED]
    assert (verdict.score, dict(verdict.coverage)) == (62.5, {})


def test_malformed_line_is_located(tmp_path: Path) -> None:
    path = written(tmp_path / "theirs.jsonl", {"id": "q1", "nuggets": [FULL]}, "{")
    with pytest.raises(InputError, match=r"theirs\.jsonl:2: not valid JSON"):
        read_judged(path)


def test_contradicting_score_in_judged_file_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "theirs.jsonl", {"id": "q1", "nuggets": [FULL, NONE], "restore_score_100": 20})
    run = read_judged(path)
    verdict = run.items["q1"].verdicts[UNNAMED]
    assert (verdict.score, verdict.weights) == (75.0, {"N1": 3.0, "N2": 1.0})
    assert run.remarks == (
        f"Recomputed from the nuggets: {path}:1: restore_score_100 is 20 here, its nuggets give 75.0.",
    )
