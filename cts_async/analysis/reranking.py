"""How well a ranking puts the ideal item first, under ties: P@1 and MRR, drawn and exact (SIGIR 2022, section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cts_async.analysis.tie_chances import expected
from cts_async.analysis.tie_draws import DRAWS, drawn
from cts_async.analysis.tied_lists import Array, Ideal, TiedLists

Measure: TypeAlias = Literal["P@1", "MRR"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure in [0, 1]: `mean` and `sd` (ddof 1) over the draws; `exact` and `exact_sd` are what they estimate."""

    mean: float
    sd: float
    exact: float
    exact_sd: float


@dataclass(frozen=True, slots=True)
class Reranked:
    """One ranking of some queries' items against their labels."""

    queries: int
    items: int
    p_at_1: Measured
    mrr: Measured

    def measure(self, name: Measure) -> Measured:
        return self.p_at_1 if name == "P@1" else self.mrr


def rerank(lists: TiedLists, ideal: Ideal = "any", *, draws: int = DRAWS, seed: int = 0) -> Reranked | None:
    """P@1: the first item is ideal. MRR: the mean of 1 / rank of the ideal item, of the first of them with "any".

    None where there is no query.
    """
    if not lists.queries:
        return None
    seen, exact = drawn(lists, ideal, draws=draws, seed=seed), expected(lists, ideal)
    return Reranked(
        lists.queries,
        lists.items,
        Measured(*_mean_sd(seen.p_at_1), exact.p_at_1, exact.p_at_1_sd),
        Measured(*_mean_sd(seen.mrr), exact.mrr, exact.mrr_sd),
    )


def _mean_sd(values: Array) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
