"""What is shown while a run goes on, from the events it emits."""

from __future__ import annotations

from cts_async.cli.progress import Tally, notable
from cts_async.engine.events import JobEnded, JobsFound, JobStarted, LimitLearned, Notice, StepEnded, Usage
from cts_async.errors import RejectedError


def test_a_resumed_run_begins_where_it_stopped() -> None:
    tally = Tally({"a": 10, "b": 4})
    tally.take(JobsFound("a", 7))
    assert tally.line() == "7/14 instances, 0 calls, 0.0k tokens"
    tally.take(JobEnded("a", "q8", None, None))
    tally.take(JobEnded("b", "q1", None, RejectedError("no")))
    tally.take(StepEnded("a", "q8", "clarify", "gpt", False, 0.5, Usage(900, 100)))
    tally.take(StepEnded("a", "q8", "rewrite", "gpt", True, 0.0, Usage()))
    tally.take(StepEnded("a", "q8", "search/tool/1", "", False, 0.1, Usage()))
    assert tally.line() == "9/14 instances, 1 calls, 1 remembered, 1 failed, 1.0k tokens"


def test_what_happens_all_the_time_is_only_counted() -> None:
    routine = [
        JobStarted("a", "q1"),
        JobEnded("a", "q1", None, None),
        StepEnded("a", "q1", "clarify", "gpt", False, 0.5, Usage()),
    ]
    assert [notable(event) for event in routine] == [None, None, None]
    learned = "gpt: its answers name a limit of 1,200 requests a minute"
    assert notable(LimitLearned("gpt", "requests", 1200.0)) == learned
    assert notable(Notice("line 3 is damaged")) == "line 3 is damaged"
