"""Files of judged answers that other programs wrote, read as runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from cts_async.analysis.runs import UNNAMED, read_judged
from cts_async.errors import InputError


def written(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


FULL = {"id": "N1", "weight": 3, "coverage": "full"}
NONE = {"id": "N2", "weight": 1, "coverage": "none"}


def test_scores_and_labels_are_read_and_the_folder_names_the_system(tmp_path: Path) -> None:
    line = {"id": "q1", "fused_query": "winter ferries", "nuggets": [FULL, NONE], "judge": "ernie"}
    run = read_judged(written(tmp_path / "gpt-k1" / "per_item.jsonl", line))
    assert (run.label, run.k, run.judges, run.n_expected) == ("gpt-k1", 1, ("ernie",), 1)
    assert run.directory == tmp_path / "gpt-k1"
    item = run.items["q1"]
    assert item.fused_query == "winter ferries"
    assert item.verdicts["ernie"].score == 75.0
    assert dict(item.verdicts["ernie"].coverage) == {"N1": "full", "N2": "none"}


def test_results_without_a_manifest_are_called_as_their_folder_too(tmp_path: Path) -> None:
    run = read_judged(written(tmp_path / "gpt-k1" / "results.jsonl", {"id": "q1", "nuggets": [FULL]}))
    assert (run.label, run.k, run.directory) == ("gpt-k1", 1, tmp_path / "gpt-k1")


def test_the_releases_candidate_names_are_shortened(tmp_path: Path) -> None:
    path = written(tmp_path / "ebk1__cand_hard518.jsonl", {"id": "q1", "nuggets": [FULL]})
    run = read_judged(path)
    assert (run.label, run.k, run.judges, run.directory) == ("ebk1", 1, (UNNAMED,), path)


def test_other_spellings_are_understood(tmp_path: Path) -> None:
    line = {"fused_query": "winter", "per_nugget": [{"id": "N1", "weight": 1, "label": "partial"}]}
    run = read_judged(written(tmp_path / "theirs.jsonl", line))
    assert run.items["winter"].verdicts[UNNAMED].score == 50.0
    assert dict(run.items["winter"].verdicts[UNNAMED].coverage) == {"N1": "partial"}


def test_a_failure_is_counted_and_is_no_score(tmp_path: Path) -> None:
    lines = {"id": "q1", "nuggets": [FULL]}, {"id": "q2", "error": {"kind": "rejected"}}
    run = read_judged(written(tmp_path / "theirs.jsonl", *lines))
    assert (list(run.items), run.n_failed, run.n_missing) == (["q1"], 1, 0)


def test_the_last_line_of_an_id_counts(tmp_path: Path) -> None:
    lines = [{"id": "q1", "nuggets": [{**FULL, "coverage": word}]} for word in ("none", "full")]
    run = read_judged(written(tmp_path / "theirs.jsonl", *lines))
    assert run.scores(UNNAMED) == {"q1": 100.0}
    assert dict(run.items["q1"].verdicts[UNNAMED].coverage) == {"N1": "full"}


def test_labels_are_those_that_the_score_is_made_from(tmp_path: Path) -> None:
    """Gzipped, nuggets without ids, unlabelled gold beside them, and no newline at the end."""
    nuggets = [{"weight": 1, "label": "full"}, {"weight": 1, "label": "none"}]
    line = {"id": 7, "nuggets": [{"id": "N1", "text": "By ferry."}], "per_nugget": nuggets}
    path = tmp_path / "theirs.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line).encode()))
    verdict = read_judged(path).items["7"].verdicts[UNNAMED]
    assert (verdict.score, dict(verdict.coverage)) == (50.0, {"#1": "full", "#2": "none"})


def test_a_table_of_scores_has_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("id,score\nq1,62.5\n")
    verdict = read_judged(path).items["q1"].verdicts[UNNAMED]
    assert (verdict.score, dict(verdict.coverage)) == (62.5, {})


def test_a_broken_line_is_located(tmp_path: Path) -> None:
    path = written(tmp_path / "theirs.jsonl", {"id": "q1", "nuggets": [FULL]}, "{")
    with pytest.raises(InputError, match=r"theirs\.jsonl:2: not valid JSON"):
        read_judged(path)


def test_a_stored_score_that_contradicts_its_nuggets_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "theirs.jsonl", {"id": "q1", "nuggets": [FULL, NONE], "restore_score_100": 20})
    run = read_judged(path)
    verdict = run.items["q1"].verdicts[UNNAMED]
    assert (verdict.score, verdict.weights) == (75.0, {"N1": 3.0, "N2": 1.0})
    assert run.remarks == (
        f"Recomputed from the nuggets: {path}:1: restore_score_100 is 20 here, its nuggets give 75.0.",
    )
