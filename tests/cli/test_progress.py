"""What the terminal says of a run, from the events alone."""

from __future__ import annotations

from cts_async.cli.progress import Tally
from cts_async.engine.events import BudgetUsed, Cost, JobEnded, StepEnded, Usage


def test_a_line_counts_instances_calls_and_tokens() -> None:
    tally = Tally({"run": 4}, {"run": 1})
    tally.take(StepEnded("run", "q1", "clarify", "lane", False, 1.0, Usage(1200, 300)))
    tally.take(StepEnded("run", "q1", "rewrite", "lane", True, 0.0, Usage()))
    tally.take(JobEnded("run", "q1", "done", None))
    assert tally.line() == "2/4 instances, 1 calls, 1 remembered, 1.5k tokens"


def test_of_a_budget_the_lines_that_were_drawn_are_told() -> None:
    tally = Tally({"run": 4}, {})
    tally.take(BudgetUsed(Cost(3, 4500, 0.25), max_calls=10, max_tokens=None, max_usd=2.0))
    tally.take(BudgetUsed(Cost(4, 6000, 0.52), max_calls=10, max_tokens=None, max_usd=2.0))
    assert tally.line() == "0/4 instances, 0 calls, 0.0k tokens, $0.52 of $2.00, 4 of 10 calls"
