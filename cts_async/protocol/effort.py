"""What work takes: calls, tokens and dollars, and how long its steps are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import prices_of

SENDING_S, TOKENS_PER_S = 1.0, 50.0
"""A call takes so long, and longer by its reply at so many tokens a second."""
FEWEST_STEPS = 3
"""Steps of a kind that have to be seen before they stand for the others."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Calls, tokens and dollars. Unless `priced`, some model's price is unknown: then it costs more than that."""

    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost_usd: float = 0.0
    priced: bool = True

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
            self.priced and other.priced,
        )

    def times(self, n: float) -> Effort:
        """The same, `n` times over."""
        tokens = self.input_tokens * n, self.output_tokens * n
        return Effort(self.calls * n, *tokens, self.cost_usd * n, self.priced)

    @property
    def tokens(self) -> float:
        return self.input_tokens + self.output_tokens

    def as_json(self) -> dict[str, Any]:
        """Whole calls and tokens; `cost_usd` is None unless all of it is known."""
        return {
            "calls": round(self.calls),
            "input_tokens": round(self.input_tokens),
            "output_tokens": round(self.output_tokens),
            "cost_usd": round(self.cost_usd, 6) if self.priced else None,
            "known_cost_usd": round(self.cost_usd, 6),
        }


def effort_of(spec: ModelSpec, calls: float, input_tokens: float, output_tokens: float) -> Effort:
    """What so many calls and tokens of one model come to."""
    prices = prices_of(spec)
    if prices is None:
        return Effort(calls, input_tokens, output_tokens, priced=False)
    cost = input_tokens * prices.input_usd_per_mtok + output_tokens * prices.output_usd_per_mtok
    return Effort(calls, input_tokens, output_tokens, cost / 1e6)


@dataclass(frozen=True, slots=True)
class Work:
    """The steps of one kind that one system has one model do."""

    system: str
    kind: str
    model: str
    steps: float
    """Of all instances that are left."""
    each: Effort
    """What one step takes."""
    latency_s: float
    in_a_row: float
    """How many of them an instance waits for, one after the other."""
    observed: int = 0
    """Steps that this was observed in; 0 where it is assumed."""

    @property
    def effort(self) -> Effort:
        return self.each.times(self.steps)


def total_of(work: Iterable[Work]) -> Effort:
    """All of it together."""
    return sum((one.effort for one in work), Effort())
