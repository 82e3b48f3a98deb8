"""Do schemes that clarify better also retrieve better? Pearson's r of the two (AT-CoT, section 7).

Retrieval is that of the first turn of `respond`. The paper correlates the means of its four schemes over Qulac and
TREC Web Track 2009-2012 and prints r = 0.92, p = 0.08. Its own tables do not give that: the Qulac column of table 5
(77.9, 77.0, 79.2, 80.6) against turn 1, respond, of table 8 (0.232, 0.230, 0.238, 0.244) has r = 0.994, p = 0.006.
Four points show little either way, so the correlation over queries, scheme by scheme, is given as an addition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cts_async.analysis.generation import QueryScores
from cts_async.analysis.stats import correlation

Retrieval: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Scheme -> query -> the measure (nDCG@10, say) of each intent behind the query."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's r over `n` pairs, two-sided p; both None where r is not defined (n < 2, or one side never varies)."""

    n: int
    r: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class SchemePoint:
    """A scheme's two means, over what each of them has, and the correlation over its queries that have both."""

    scheme: str
    generation: float
    retrieval: float
    over_queries: Correlation


@dataclass(frozen=True, slots=True)
class Alignment:
    """Section 7: schemes that have both scores, and the correlation over them."""

    schemes: tuple[SchemePoint, ...]
    over_schemes: Correlation


def pearson(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """r, and the chance of one as far from 0 between independent normal variables: t = r sqrt((n - 2) / (1 - r^2)).

    n = 2 is always r = 1 or -1, with p = 1. Raises ValueError for unequal lengths.
    """
    r, n = correlation(x, y), len(x)
    if r is None:
        return Correlation(n, None, None)
    if n == 2:
        return Correlation(n, r, 1.0)
    return Correlation(n, r, 0.0 if abs(r) == 1.0 else _two_sided(r, n - 2))


def alignment(scores: QueryScores, retrieval: Retrieval) -> Alignment:
    """Generation beside retrieval for the schemes that have both. A scheme's retrieval is the mean over all intents."""
    points = tuple(
        _point(scheme, {query: best.points for query, best in own.items()}, retrieval[scheme])
        for scheme, own in scores.items()
        if own and any(retrieval.get(scheme, {}).values())
    )
    over = pearson([point.generation for point in points], [point.retrieval for point in points])
    return Alignment(points, over)


def _point(
    scheme: str, generation: Mapping[str, float], retrieval: Mapping[str, Sequence[float]]
) -> SchemePoint:
    both = [query for query in generation if retrieval.get(query)]
    over = pearson([generation[query] for query in both], [_mean(retrieval[query]) for query in both])
    found = [value for values in retrieval.values() for value in values]
    return SchemePoint(scheme, _mean(list(generation.values())), _mean(found), over)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _two_sided(r: float, degrees: int) -> float:
    from scipy.special import stdtr

    return float(2.0 * stdtr(degrees, -abs(r) * math.sqrt(degrees / ((1 - r) * (1 + r)))))
