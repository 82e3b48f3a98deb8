"""Whole runs by scheme and mode against a provider that speaks real HTTP: their lines, their names, resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from audited_runs import made, write
from fake_provider import Settings

from cts_async.engine import runner
from cts_async.engine.journal import read_records
from cts_async.engine.step import RetryPolicy
from cts_async.protocol.results import latest_results

N, K = 2, 2
MODES = {"modes": ("at-once", "respond", "select"), "schemes": ("at-cot",), "references": (), "limit": N}
AT_ONCE, RESPOND, SELECT = "fake-at-cot-k2", "fake-at-cot-respond-k2", "fake-at-cot-select-k2"


@pytest.fixture(autouse=True)
def _fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RetryPolicy", lambda: RetryPolicy(base_s=0.01, cap_s=0.05, patience_s=0.0))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(tmp_path_factory.mktemp("talks"), Settings(unknown_share=0.0), **MODES)


def lines(run: Path) -> list[dict[str, Any]]:
    return list(latest_results(run / "results.jsonl").values())


def test_a_line_has_its_turns_and_what_was_asked_and_answered(runs: dict[str, Path]) -> None:
    for label, mode in ((AT_ONCE, "at-once"), (RESPOND, "respond")):
        for line in lines(runs[label]):
            assert (line["scheme"], line["mode"], line["k"]) == ("at-cot", mode, K)
            turns = line["turns"]
            assert len(turns) == (1 if mode == "at-once" else K)
            assert line["questions"] == [question for turn in turns for question in turn["offered"]]
            assert line["answers"] == [answer for turn in turns for answer in turn["answers"]]
            assert len(line["questions"]) == K
            assert turns[0]["types"] == ["specify"]
            assert turns[0]["reasoning"] == "Nothing says which time is meant."
            assert turns[-1]["query"] == line["rewritten_query"]
            assert all("chosen" not in turn for turn in turns)


def test_in_select_nothing_was_asked_and_the_last_choice_is_searched(runs: dict[str, Path]) -> None:
    for line in lines(runs[SELECT]):
        assert (line["questions"], line["answers"]) == ([], [])
        for turn in line["turns"]:
            assert turn["query"] == turn["offered"][turn["chosen"]]
        assert line["rewritten_query"] == line["turns"][-1]["query"]
    openings = [r for r in read_records(runs[SELECT] / "steps.jsonl") if r["step"] == "search/turn/1"]
    searched = {record["instance"]: record["request"]["fields"]["question"] for record in openings}
    assert searched == {line["id"]: line["rewritten_query"] for line in lines(runs[SELECT])}


def test_only_who_converses_says_scheme_and_mode_and_keeps_those_prompts(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    usual = made(tmp_path, limit=1, references=())["fake-k2"]
    identity = json.loads((usual / "run.json").read_text())["identity"]
    assert identity.keys().isdisjoint({"scheme", "mode"})
    assert {name.split(".")[0] for name in identity["prompts"]} >= {"clarify", "answer", "rewrite"}
    assert "turns" not in lines(usual)[0]
    identity = json.loads((runs[RESPOND] / "run.json").read_text())["identity"]
    assert (identity["scheme"], identity["mode"]) == ("at-cot", "respond")
    roles = {"at_cot", "respond", "reformulate", "agent", "judge"}
    assert {name.split(".")[0] for name in identity["prompts"]} == roles
    assert {path.stem for path in (runs[RESPOND] / "prompts").iterdir()} == set(identity["prompts"])


@pytest.mark.parametrize("kept", [1, 4, 9])
def test_a_run_that_was_cut_off_goes_on_in_the_middle_of_a_conversation(tmp_path: Path, kept: int) -> None:
    first = made(tmp_path, **MODES)
    whole = {label: (list(read_records(run / "steps.jsonl")), lines(run)) for label, run in first.items()}
    for label, run in first.items():
        write(run / "steps.jsonl", whole[label][0][:kept])
        (run / "results.jsonl").unlink()
    for label, run in made(tmp_path, **MODES).items():
        steps, results = whole[label]
        again = list(read_records(run / "steps.jsonl"))
        assert sorted(record["key"] for record in again) == sorted(record["key"] for record in steps)
        assert sorted(map(json.dumps, lines(run))) == sorted(map(json.dumps, results))
