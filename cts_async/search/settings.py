"""The budgets of one search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Budgets of one search. WebDancer's demo allows 20 model calls and shows 10 results a query."""

    max_turns: int = 20
    max_input_tokens: int | None = None
    """Tokens of the conversation (as estimated) that a model call may have; None where nothing limits it."""
    results_per_query: int = 10
    snippet_chars: int = 240
    page_chars: int = 4000
    """Characters of a page that a visit gives back at most."""
    think_chars: int = 200
    answer_chars: int = 600
    """Bounds for a constrained model's thoughts and answers; free models have none."""
    urls_offered: int = 6
    """How many of the latest links a constrained model may choose from."""
    repeat_question: bool = False
    """Repeat the question after every tool response: a tiny model has lost it by then."""
