"""What a run's files show: counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cts_async.protocol.past_usage import Observed, Seen, kind_of, observe, pooled


def write(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def step(instance: str, name: str, used: tuple[int, int], latency_s: float, **more: Any) -> dict[str, Any]:
    usage = {"input": used[0], "output": used[1]}
    record = {"key": "0" * 32, "ok": True, "instance": instance, "step": name, "model": "m-1", "usage": usage}
    return {**record, "latency_s": latency_s, "attempts": 1, **more}


def a_run(directory: Path) -> None:
    """q1 is done, q2 has failed, q3 has asked its question."""
    forecast = {"instances": 3, "calls": 12}
    sessions = [{"wall_s": 2.5}, {"wall_s": None}, {"wall_s": 4.0}]
    (directory / "run.json").write_text(json.dumps({"forecast": forecast, "sessions": sessions}))
    write(
        directory / "results.jsonl",
        {"id": "q1", "search": {"model_calls": 4}},
        {"id": "q2", "error": {"step": "clarify", "kind": "rejected", "message": "no"}},
    )
    write(
        directory / "steps.jsonl",
        step("q1", "clarify", (100, 20), 2.0),
        step("q1", "search/turn/1", (300, 30), 1.0),
        step("q1", "search/turn/2", (500, 10), 3.0),
        {"key": "0" * 32, "ok": True, "instance": "q1", "step": "search/tool/1.1", "latency_s": 9.0},
        step("q1", "judge/m", (50, 5), 1.0),
        step("q1", "judge/other", (999, 99), 1.0),  # added by another command
        step("q2", "clarify", (100, 60), 0.0, ok=False, attempts=3),
        step("q3", "clarify", (120, 40), 4.0, attempts=2),
    )


def test_steps_are_summed_by_kind_and_model(tmp_path: Path) -> None:
    a_run(tmp_path)
    run = observe(tmp_path, ["m"])
    assert run.seen == {
        ("clarify", "m-1"): Seen(steps=2, calls=6, input_tokens=320, output_tokens=120, latency_s=6.0),
        ("search", "m-1"): Seen(steps=2, calls=2, input_tokens=800, output_tokens=40, latency_s=4.0),
        ("judge", "m-1"): Seen(steps=1, calls=1, input_tokens=50, output_tokens=5, latency_s=1.0),
    }
    assert (run.searches, run.turns) == (1, 4)
    assert run.wall_s == 6.5
    assert run.forecast == {"instances": 3, "calls": 12}


def test_what_failed_needs_work_only_if_it_is_tried_again(tmp_path: Path) -> None:
    a_run(tmp_path)
    assert observe(tmp_path, ["m"]).done == {"q1", "q2"}
    assert observe(tmp_path, ["m"], retry_failed=True).done == {"q1"}


@pytest.mark.parametrize("search", [4, {"model_calls": "four"}, {"model_calls": None}])
def test_a_search_that_somebody_broke_shows_no_turns(tmp_path: Path, search: Any) -> None:
    a_run(tmp_path)
    write(
        tmp_path / "results.jsonl", {"id": "q1", "search": search}, {"id": "q2", "search": {"model_calls": 3}}
    )
    assert (observe(tmp_path, ["m"]).searches, observe(tmp_path, ["m"]).turns) == (2, 3)


def test_begun_are_the_finished_steps_of_unfinished_instances(tmp_path: Path) -> None:
    a_run(tmp_path)
    assert observe(tmp_path, ["m"]).begun == {("clarify", "m-1"): 1}


def test_where_there_is_no_run_nothing_is_seen_and_nothing_written(tmp_path: Path) -> None:
    assert observe(tmp_path / "nowhere", ["m"]) == Observed()
    assert not list(tmp_path.iterdir())


def test_runs_are_pooled_and_kinds_without_a_finished_step_left_out() -> None:
    one = Observed({("clarify", "m"): Seen(1, 2, 10, 1, 0.5), ("judge", "m"): Seen(0, 3)})
    other = Observed({("clarify", "m"): Seen(3, 3, 30, 3, 1.5), ("clarify", "n"): Seen(1, 1)})
    assert pooled([one, other]) == {
        ("clarify", "m"): Seen(4, 5, 40, 4, 2.0),
        ("clarify", "n"): Seen(1, 1),
    }


def test_a_kind_is_a_steps_first_word() -> None:
    assert [kind_of(name) for name in ("search/turn/3", "answer/1", "rewrite")] == [
        "search",
        "answer",
        "rewrite",
    ]
