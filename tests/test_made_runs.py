"""Runs written by hand are runs: they are read as what they were written as."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.analysis.runs import read_run


def test_a_made_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [
        Row("a", ["which year?", "where?"], ["2024", "unknown"], score=40.0),
        Row("b", error="clarify"),
        Row("c", ["what?", "who?"], ["unknown", "unknown"]),
    ]
    run = read_run(made_run(tmp_path, label="gpt-k2", rows=rows, n_expected=5))
    assert (run.label, run.clarifier, run.k, run.n_failed, run.n_expected) == ("gpt-k2", "gpt", 2, 1, 5)
    assert run.items["a"].unknown == (False, True)
    assert run.scores("ernie") == {"a": 40.0}
    assert list(run.items) == ["a", "c"]


def test_labels_make_the_score_and_further_judges_stand_beside_it(tmp_path: Path) -> None:
    rows = [Row("a", labels={"ernie": "fpn", "gpt": "fff"}, weights=[3, 2, 1])]
    run = read_run(made_run(tmp_path, label="orig", rows=rows))
    assert (run.clarifier, run.k, run.judges) == ("", 0, ("ernie", "gpt"))
    assert run.scores("ernie")["a"] == pytest.approx(400 / 6)
    assert run.scores("gpt")["a"] == 100.0
