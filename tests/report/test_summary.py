"""summary.json from a run directory written by hand, its numbers worked out by hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cts_async import scorer
from cts_async.errors import InputError
from cts_async.report.summary import summarise_run, write_summary

MANIFEST = {
    "identity": {"system": "m-k2"},
    "n_expected": 6,
    "prices": {"big": {"input": 2.0, "output": 10.0}},
    "sessions": [{"wall_s": 10.5}, {"wall_s": None}, {"wall_s": 1.5}],
    "embedded": False,
}


def scored(id: str, label: str, answers: list[str]) -> dict[str, Any]:
    nuggets = [{"id": "N1", "weight": 3, "coverage": label}]
    score = {"full": 100.0, "partial": 50.0, "none": 0.0}[label]
    return {"id": id, "judge": "ernie", "nuggets": nuggets, "restore_score_100": score, "answers": answers}


def failure(id: str) -> dict[str, Any]:
    return {"id": id, "error": {"step": "clarify", "kind": "rejected", "message": "no"}}


def write(path: Path, *lines: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text(json.dumps(MANIFEST))
    write(
        tmp_path / "results.jsonl",
        failure("a"),
        scored("b", "full", ["unknown", "unknown"]),
        scored("c", "partial", ["unknown", "red"]),
        scored("d", "none", ["here", "now"]),
        failure("e"),
        scored("a", "full", ["x", "y"]),  # a retry: the failure above no longer counts
    )
    verdict = {"judge": "lexical", "nuggets": [], "restore_score_100": 20.0}
    write(
        tmp_path / "judgments" / "lexical.jsonl",
        {"id": "b", **verdict},
        {"id": "c", **verdict, "restore_score_100": 40.0},
        {"id": "z", **verdict, "restore_score_100": 90.0},  # its answer was never recorded
    )
    write(
        tmp_path / "steps.jsonl",
        {"step": "clarify", "model": "big", "attempts": 1, "usage": {"input": 1000, "output": 100}},
        {
            "step": "judge",
            "model": "big",
            "attempts": 3,
            "failed_attempts": [{}, {}],
            "usage": {"input": 500_000, "output": 50_000},
        },
        {"step": "search/tool/1"},
    )
    return tmp_path


def test_scores_by_hand(run: Path) -> None:
    """100, 100, 50, 0: mean 62.5; p50 between 50 and 100; p90 at 2.7 of 0..3 is 100."""
    summary = write_summary(summarise_run(run))
    assert (summary["n_expected"], summary["n_scored"], summary["n_failed"]) == (6, 4, 1)
    assert (summary["mean"], summary["p50"], summary["p90"]) == (62.5, 75.0, 100.0)
    assert (summary["min"], summary["max"], summary["judge"]) == (0.0, 100.0, "ernie")


def test_the_summary_agrees_with_the_standalone_scorer(run: Path) -> None:
    summary = write_summary(summarise_run(run))
    alone = asdict(scorer.score_file(run / "results.jsonl"))
    for name in ("n_scored", "n_failed", "n_unjudged", "mean", "p50", "p90", "min", "max"):
        assert summary[name] == alone[name]


def test_unknown_rates_by_hand(run: Path) -> None:
    """3 of 8 answers are unknown; of 4 instances one has nothing else."""
    summary = summarise_run(run)
    assert summary.unknown_rate == 3 / 8
    assert summary.all_unknown_rate == 1 / 4


def test_cost_by_hand(run: Path) -> None:
    """501,000 tokens in at $2 and 50,100 out at $10 per million; tools cost nothing here."""
    summary = write_summary(summarise_run(run))
    assert summary["cost_usd"] == pytest.approx(1.002 + 0.501)
    assert (summary["calls"], summary["failed_attempts"]) == (4, 2)
    assert summary["tokens"] == {"big": {"input": 501_000, "output": 50_100}}
    assert summary["wall_s"] == 12.0


def test_a_model_without_a_price_makes_the_cost_unknown(run: Path) -> None:
    (run / "run.json").write_text(json.dumps({**MANIFEST, "prices": {}}))
    assert write_summary(summarise_run(run))["cost_usd"] is None


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ({"big": {"input": 2.0, "output": 10.0}}, None),
        ({}, None),
        ({"big": {"input": None, "output": None}}, None),
        ({"big": {"input": 0.0, "output": 0.0}}, 0.0),
    ],
)
def test_a_model_that_never_says_what_it_charges_is_not_taken_for_free(
    run: Path, prices: dict[str, Any], cost: float | None
) -> None:
    write(run / "steps.jsonl", {"step": "judge", "model": "big", "response": {"text": "full"}})
    (run / "run.json").write_text(json.dumps({**MANIFEST, "prices": prices}))
    assert write_summary(summarise_run(run))["cost_usd"] == cost


def test_what_was_never_answered_cost_nothing(run: Path) -> None:
    write(run / "steps.jsonl", {"step": "judge", "model": "big", "attempts": 1, "failed_attempts": [{}]})
    assert write_summary(summarise_run(run))["cost_usd"] == 0.0


def test_a_further_judge_counts_only_answers_on_record(run: Path) -> None:
    _, lexical = summarise_run(run).judges
    assert lexical.judge == "lexical"
    assert [lexical.scores.get(id) for id in "abcdez"] == [None, 20.0, 40.0, None, None, None]
    assert (lexical.summary.n_scored, lexical.summary.n_failed) == (2, 1)
    assert lexical.summary.mean == 30.0


def test_a_failed_judgement_is_no_score(run: Path) -> None:
    write(run / "judgments" / "gpt.jsonl", {**failure("b"), "judge": "gpt"})
    gpt = next(scores for scores in summarise_run(run).judges if scores.judge == "gpt")
    assert (gpt.summary.n_scored, gpt.summary.n_failed, gpt.summary.mean) == (0, 2, None)


def test_a_run_without_judging_has_no_score_but_counts(run: Path) -> None:
    (run / "judgments" / "lexical.jsonl").unlink()
    answered = {"judge": None, "nuggets": None, "restore_score_100": None, "answer": "x", "answers": []}
    write(run / "results.jsonl", {"id": "a", **answered}, {"id": "b", **answered})
    summary = write_summary(summarise_run(run))
    assert (summary["judge"], summary["mean"], summary["n_scored"], summary["n_unjudged"]) == (
        None,
        None,
        0,
        2,
    )


def test_a_torn_last_line_is_left_out(run: Path) -> None:
    with (run / "results.jsonl").open("a") as file:
        file.write('{"id": "f", "restore_sc')
    assert summarise_run(run).n_done == 4


def test_no_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json not found"):
        summarise_run(tmp_path)


@pytest.mark.parametrize(
    "field", [{"usage": True}, {"usage": {"input": "x"}}, {"attempts": {}}, {"response": "x"}, {"model": 3}]
)
def test_a_step_that_somebody_broke_is_told_in_one_line(run: Path, field: dict[str, object]) -> None:
    sound = {"model": "m", "usage": {"input": 1}}
    with (run / "steps.jsonl").open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in (sound, {**sound, **field}, sound))
    with pytest.raises(
        InputError, match=r"steps\.jsonl: a step's model, attempts, usage or response is malformed"
    ):
        summarise_run(run)
