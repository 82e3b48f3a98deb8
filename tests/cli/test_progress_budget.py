"""How much of a budget is spent, as the terminal says it."""

from __future__ import annotations

from cts_async.cli.progress import Tally
from cts_async.engine.events import BudgetUsed, Cost


def test_of_a_budget_the_lines_that_were_drawn_are_told() -> None:
    tally = Tally({"run": 4})
    tally.take(BudgetUsed(Cost(3, 4500, 0.25), max_calls=10, max_tokens=None, max_usd=2.0))
    tally.take(BudgetUsed(Cost(4, 6000, 0.52), max_calls=10, max_tokens=None, max_usd=2.0))
    assert tally.line() == "0/4 instances, 0 calls, 0.0k tokens, $0.52 of $2.00, 4 of 10 calls"
