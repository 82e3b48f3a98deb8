"""Runs by scheme and mode stand beside the benchmark's own: another way to clarify is another Clarifier."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Row, made_run
from made_talks import made_talk

from cts_async.analysis.runs import read_run
from cts_async.analysis.selection import read_run_set
from cts_async.errors import UsageError
from cts_async.report.comparison import compare_runs
from cts_async.report.diagnosis import diagnose_named
from cts_async.report.statistics import named_systems


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three instances: the benchmark's Clarifier, the same model by another scheme, mode, and supporting model."""
    ids = ("a", "b", "c")
    asked = [Row(id, ["when?"], ["unknown"], score=10.0) for id in ids]
    talked = [Row(id, ["when?"], ["in May"], score=20.0) for id in ids]
    picked = [Row(id, score=30.0) for id in ids]
    made_run(tmp_path, label="orig", rows=[Row(id, score=5.0) for id in ids])
    made_run(tmp_path, label="gpt-k1", rows=asked)
    at_cot, respond, select = "gpt-at-cot-k1", "gpt-at-cot-respond-k1", "gpt-cot-select-k1"
    made_run(tmp_path, label=at_cot, rows=talked, scheme="at-cot")
    made_run(tmp_path, label=respond, rows=talked, scheme="at-cot", mode="respond")
    made_run(
        tmp_path,
        label=respond,
        rows=talked,
        scheme="at-cot",
        mode="respond",
        players={"support": "kimi"},
        name=f"made-{respond}+support-kimi",
    )
    made_run(tmp_path, label=select, rows=picked, scheme="cot", mode="select")
    return tmp_path


def test_who_asked_is_the_model_with_its_scheme_and_mode(runs: Path) -> None:
    found = {path.name: read_run(path) for path in sorted(runs.iterdir())}
    assert {name: run.clarifier for name, run in found.items()} == {
        "made-orig": "",
        "made-gpt-k1": "gpt",
        "made-gpt-at-cot-k1": "gpt-at-cot",
        "made-gpt-at-cot-respond-k1": "gpt-at-cot-respond",
        "made-gpt-at-cot-respond-k1+support-kimi": "gpt-at-cot-respond",
        "made-gpt-cot-select-k1": "gpt-cot-select",
    }
    assert found["made-gpt-cot-select-k1"].mode == "select"
    assert found["made-gpt-cot-select-k1"].players["clarifier"] == "gpt"


def test_every_way_to_clarify_has_its_row_in_a_comparison(runs: Path) -> None:
    (judged,) = compare_runs([str(runs)]).judged
    assert {standing.system: standing.scores.mean for standing in judged.standings} == {
        "orig": 5.0,
        "gpt-k1": 10.0,
        "gpt-at-cot-k1": 20.0,
        "gpt-at-cot-respond-k1": 20.0,
        "gpt-at-cot-respond-k1+support-kimi": 20.0,
        "gpt-cot-select-k1": 30.0,
    }


def test_supporting_models_are_compared_within_a_scheme_and_mode(runs: Path) -> None:
    (found,) = compare_runs([str(runs)]).stabilities
    assert {found.run, found.other} == {"gpt-at-cot-respond-ernie k1", "gpt-at-cot-respond-kimi k1"}


def test_a_diagnosis_leaves_out_who_asked_nothing_and_says_so(runs: Path) -> None:
    found = read_run_set([str(runs)])
    assert [run.clarifier for run in found.runs].count("gpt-cot-select") == 0
    assert [note for note in found.notes if "chose among queries and answered no questions, left out" in note]
    report = diagnose_named([str(runs)])
    rates = {name: one.unknowns.ua_unknown_rate for name, one in named_systems(report.diagnosis)}
    assert rates["gpt"] == 1.0
    assert rates["gpt-at-cot"] == 0.0
    assert len(rates) == 4


def test_choices_alone_cannot_be_diagnosed(runs: Path) -> None:
    with pytest.raises(
        UsageError, match=r"answered no questions; name a run with answers, or .* cts compare"
    ):
        diagnose_named([str(runs / "made-gpt-cot-select-k1")])


def test_questions_asked_of_nobody_are_not_counted_as_unanswered(tmp_path: Path) -> None:
    """`cts converse --mode at-once` asks no user, so there is no rate of unknown answers."""
    offered = [{"offered": ["when?", "where?"]}]
    alone = made_talk(tmp_path, scheme="cot", mode="at-once", rows={"a": offered}, k=2)
    with pytest.raises(
        UsageError, match="no user answered its questions; .* repeat its cts converse command"
    ):
        diagnose_named([str(alone)])
    made_talk(tmp_path, scheme="cot", rows={"a": offered})
    found = read_run_set([str(tmp_path)])
    assert [run.clarifier for run in found.runs] == ["gpt-cot-respond"]
    assert f"{alone}: no user answered its questions, left out" in found.notes
