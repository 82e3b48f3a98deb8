"""Lines of reused steps, and the runner that takes them: copied before use, executed where they are unusable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from virtual_time import run_virtual

from cts_async.engine.events import Events, StepEnded
from cts_async.engine.journal import Journal, read_records
from cts_async.engine.reuse import ReusedStep, ReuseRule, line_within, reused_line
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import RejectedError, StepError, UnusableOutput

KEY, INNER = step_key("outer"), step_key("inner")
RECORD = {
    "key": KEY,
    "ok": True,
    "instance": "there",
    "step": "clarify/old",
    "model": "m",
    "request": {"by": "there"},
    "notes": {"n": 1},
    "response": {"text": "a"},
    "latency_s": 2.5,
    "usage": {"input": 7, "output": 3},
    "attempts": 2,
    "time": 99.5,
    "unknown": "field",
}


def test_line_has_this_runs_description_and_the_costs_of_the_origin_and_ends_with_its_name() -> None:
    line = reused_line(ReusedStep(RECORD, "v1"), {"instance": "here", "step": "clarify"})
    assert list(line.items()) == [
        ("key", KEY),
        ("ok", True),
        ("instance", "here"),
        ("step", "clarify"),
        ("response", {"text": "a"}),
        ("latency_s", 2.5),
        ("usage", {"input": 7, "output": 3}),
        ("attempts", 2),
        ("time", 99.5),
        ("reused", "v1"),
    ]


def test_line_within_keeps_its_description_and_names_who_executed_it() -> None:
    line = line_within(ReusedStep({}, "v2"), RECORD | {"reused": "v1"}, "here")
    assert (line["instance"], line["step"], line["request"], line["notes"]) == (
        "here",
        "clarify/old",
        {"by": "there"},
        {"n": 1},
    )
    assert line["reused"] == "v1"
    assert line_within(ReusedStep({}, "v2"), RECORD | {"reused": 5}, "here")["reused"] == "v2"


class Known:
    """A StepSource with these steps, which notes what it was asked."""

    def __init__(self, *steps: ReusedStep) -> None:
        self.steps = {step.record["key"]: step for step in steps}
        self.asked: list[tuple[str, ReuseRule, Any]] = []

    def find(self, key: str, rule: ReuseRule, notes: Any = None) -> ReusedStep | None:
        self.asked.append((key, rule, notes))
        return self.steps.get(key)


class Run:
    """Jobs with one source, in one journal."""

    def __init__(self, path: Path, source: Known) -> None:
        self.path, self.source = path, source
        self.executed: list[str] = []
        self.ended: list[StepEnded] = []

    def step(
        self, key: str = KEY, decode: Callable[[Any], Any] = lambda r: r["text"], **fields: Any
    ) -> Step[Any]:
        async def execute(_: UnusableOutput | None) -> Executed:
            self.executed.append(key)
            return Executed({"text": "executed"})

        return Step(name="clarify", key=key, execute=execute, decode=decode, **fields)

    def __call__(self, *walks: Callable[[Context], Any], shared: bool = False) -> list[Any]:
        results: list[Any] = []

        async def finish(ended: Any) -> None:
            results.append(ended)

        async def main() -> None:
            journal = Journal(self.path)
            jobs = [
                Job("g", f"q{i}", journal, walk, finish, shared=shared, source=self.source)
                for i, walk in enumerate(walks)
            ]
            try:
                await Runner(events=Events(self.note)).run(jobs)
            finally:
                journal.close()

        run_virtual(main)
        return results

    def note(self, event: object) -> None:
        if isinstance(event, StepEnded):
            self.ended.append(event)

    def lines(self) -> list[Mapping[str, Any]]:
        return list(read_records(self.path))


def test_reused_step_is_copied_not_executed_and_remembered_by_the_next_session(tmp_path: Path) -> None:
    run = Run(tmp_path / "steps.jsonl", Known(ReusedStep(RECORD, "v1")))
    assert run(lambda ctx: ctx.step(run.step(reuse=ReuseRule.FIXED))) == ["a"]
    assert run.executed == []
    assert run.source.asked == [(KEY, ReuseRule.FIXED, None)]
    assert [(event.replayed, event.reused, event.usage.total) for event in run.ended] == [(True, True, 0)]
    (line,) = run.lines()
    assert (line["instance"], line["step"], line["reused"]) == ("q0", "clarify", "v1")
    assert run(lambda ctx: ctx.step(run.step())) == ["a"]
    assert len(run.source.asked) == len(run.lines()) == 1


def test_own_step_comes_before_that_of_another_run(tmp_path: Path) -> None:
    run = Run(tmp_path / "steps.jsonl", Known())
    assert run(lambda ctx: ctx.step(run.step())) == ["executed"]
    run.source.steps[KEY] = ReusedStep(RECORD, "v1")
    assert run(lambda ctx: ctx.step(run.step())) == ["executed"]
    assert run.executed == [KEY]


@pytest.mark.parametrize("response", [None, [], ["text"], "text", 5, {}, {"text": {}}, {"other": 1}])
def test_response_of_another_form_is_executed_here(tmp_path: Path, response: Any) -> None:
    def decode(response: Any) -> str:
        return str(response["text"].strip())

    run = Run(tmp_path / "steps.jsonl", Known(ReusedStep(RECORD | {"response": response}, "v1")))
    assert run(lambda ctx: ctx.step(run.step(decode=decode))) == ["executed"]
    assert ["reused" in line for line in run.lines()] == [False]


def test_steps_within_are_copied_before_the_step_and_once(tmp_path: Path) -> None:
    inner = RECORD | {"key": INNER, "step": "clarify/llm/1", "reused": "v1"}
    run = Run(tmp_path / "steps.jsonl", Known(ReusedStep(RECORD, "v2", (inner, inner))))
    assert run(lambda ctx: ctx.step(run.step())) == ["a"]
    assert [(line["key"], line["step"], line["instance"], line["reused"]) for line in run.lines()] == [
        (INNER, "clarify/llm/1", "q0", "v1"),
        (KEY, "clarify", "q0", "v2"),
    ]


def test_equal_questions_of_two_jobs_are_copied_once(tmp_path: Path) -> None:
    run = Run(tmp_path / "steps.jsonl", Known(ReusedStep(RECORD, "v1")))
    walks = [lambda ctx: ctx.step(run.step())] * 3
    assert run(*walks, shared=True) == ["a"] * 3
    assert [line["instance"] for line in run.lines()] == ["q0"]
    assert run.executed == []


def test_what_is_recalled_is_copied_with_the_notes_that_it_had(tmp_path: Path) -> None:
    run = Run(tmp_path / "steps.jsonl", Known(ReusedStep(RECORD, "v1")))
    assert run(lambda ctx: ctx.recall(KEY, {"tools": "t"})) == [{"text": "a"}]
    assert run.source.asked == [(KEY, ReuseRule.SAMPLED, {"tools": "t"})]
    (line,) = run.lines()
    assert (line["step"], line["notes"], line["reused"]) == ("clarify/old", {"n": 1}, "v1")


def test_failure_here_says_nothing_of_other_runs(tmp_path: Path) -> None:
    def refuse(_: Any) -> Any:
        raise RejectedError("refused")

    run = Run(tmp_path / "steps.jsonl", Known())
    (failure,) = run(lambda ctx: ctx.step(run.step(decode=refuse)))
    assert isinstance(failure, StepError)
    run.source.steps[KEY] = ReusedStep(RECORD, "v1")
    assert run(lambda ctx: ctx.step(run.step())) == ["a"]
    assert [line["ok"] for line in run.lines()] == [False, True]
