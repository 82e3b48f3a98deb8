"""Which ambiguity types AT-CoT predicts, and what it gains over CoT where it predicts each (AT-CoT, table 7).

A query may have several types. A share is that of a type among all predictions, as the published columns add up to
100; the gain is the mean difference of score_q over the queries for which the type was predicted, in points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cts_async.analysis.generation import Best, Generated
from cts_async.analysis.stats import PairedT, paired_t_test
from cts_async.records import AMBIGUITY_TYPES, AmbiguityType


@dataclass(frozen=True, slots=True)
class PredictedType:
    """A row of table 7: `n` of `of` predictions. `gain` is over the queries that both schemes have a score for."""

    kind: AmbiguityType
    n: int
    of: int
    gain: PairedT

    @property
    def share(self) -> float | None:
        """Of all predictions, those of this type; None where nothing was predicted."""
        return self.n / self.of if self.of else None


def type_distribution(
    predicted: Mapping[str, Generated],
    scores: Mapping[str, Best] | None = None,
    baseline: Mapping[str, Best] | None = None,
) -> tuple[PredictedType, ...]:
    """Every type with its share among `predicted` (query -> what AT-CoT generated) and its gain over CoT.

    `scores` are AT-CoT's and `baseline` CoT's; without them the gains are over no query. A type named twice
    for one query counts once.
    """
    queries = {
        kind: [query for query, one in predicted.items() if kind in one.types] for kind in AMBIGUITY_TYPES
    }
    total = sum(map(len, queries.values()))
    return tuple(
        PredictedType(kind, len(of), total, _gain(of, scores or {}, baseline or {}))
        for kind, of in queries.items()
    )


def _gain(queries: list[str], scores: Mapping[str, Best], baseline: Mapping[str, Best]) -> PairedT:
    both = [query for query in queries if query in scores and query in baseline]
    return paired_t_test([scores[query].points for query in both], [baseline[query].points for query in both])
