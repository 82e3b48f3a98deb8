"""Clarification generation (AT-CoT, SIGIR 2025, section 4.3): tables 5 and 6.

score_q = max over S, the similarities of all generated to all annotated questions of the query q (equation 5): a
scheme is good if one of its questions is much like one that a person asked. All scores here are points: 100 x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cts_async.analysis.similarity import Scorer
from cts_async.analysis.stats import PairedT, paired_t_test
from cts_async.records import AmbiguityType

ALPHA: Final = 0.01
"""The paper's level of significance."""
BASELINES: Final = ("standard", "at-standard", "cot")
"""Schemes that the others are tested against."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What a scheme made of one query: its questions, and the ambiguity types it said apply ("at-cot" only)."""

    questions: tuple[str, ...]
    types: tuple[AmbiguityType, ...] = ()


GeneratedQuestions: TypeAlias = Mapping[str, Mapping[str, Generated]]
"""Scheme -> the underspecified query's text -> what was generated."""
AnnotatedQuestions: TypeAlias = Mapping[str, Sequence[str]]
"""The underspecified query's text -> the questions that people wrote."""


@dataclass(frozen=True, slots=True)
class Best:
    """A query's score, and the pair of questions that it is the similarity of."""

    points: float
    question: str
    annotated: str


QueryScores: TypeAlias = Mapping[str, Mapping[str, Best]]
"""Scheme -> query -> its score; queries without a generated or an annotated question are not in it."""


@dataclass(frozen=True, slots=True)
class SchemeScore:
    """A row of table 5. `mean` is over the `n` queries that have a score; `left_out` have none.

    `tests` are of this scheme over each baseline, paired over the queries that both have.
    """

    scheme: str
    n: int
    left_out: int
    mean: float | None
    tests: Mapping[str, PairedT]

    def improves_on(self, baseline: str) -> bool:
        """Whether it is better than `baseline` with p < 0.01: the paper's marks."""
        test = self.tests.get(baseline)
        return test is not None and test.difference > 0 and test.p < ALPHA


def score_queries(
    generated: GeneratedQuestions,
    annotated: AnnotatedQuestions,
    scorer: Scorer,
    told: Callable[[int, int], Any] | None = None,
) -> QueryScores:
    """score_q of every scheme and query. `told(done, of)` is called after each query.

    A query's schemes are compared together, so that a question several of them ask, and each annotated
    one, is looked at once. Blank questions count as none.
    """
    found: dict[str, dict[str, Best]] = {scheme: {} for scheme in generated}
    queries = [
        query for query in dict.fromkeys(q for of in generated.values() for q in of) if annotated.get(query)
    ]
    for done, query in enumerate(queries, start=1):
        asked = {scheme: _asked(of.get(query)) for scheme, of in generated.items()}
        best = _best_of(
            list(dict.fromkeys(q for one in asked.values() for q in one)), annotated[query], scorer
        )
        for scheme, questions in asked.items():
            if questions:
                found[scheme][query] = max((best[question] for question in questions), key=_points)
        if told is not None:
            told(done, len(queries))
    return found


def scheme_scores(scores: QueryScores, generated: GeneratedQuestions) -> tuple[SchemeScore, ...]:
    """Table 5, a row for each scheme in the order given."""
    return tuple(_scheme_score(scheme, scores, len(generated.get(scheme, {}))) for scheme in scores)


def by_level(
    scores: QueryScores, generated: GeneratedQuestions, levels: Mapping[str, int]
) -> dict[int, tuple[SchemeScore, ...]]:
    """Table 6: the same for the queries of each ambiguity level, from the lowest; a query without a level is in none."""
    queries = {query for of in generated.values() for query in of}
    there = sorted({level for query, level in levels.items() if query in queries})
    return {
        level: scheme_scores(_only(scores, levels, level), _only(generated, levels, level)) for level in there
    }


def _asked(generated: Generated | None) -> tuple[str, ...]:
    return (
        () if generated is None else tuple(question for question in generated.questions if question.strip())
    )


def _points(best: Best) -> float:
    return best.points


def _best_of(questions: Sequence[str], annotated: Sequence[str], scorer: Scorer) -> dict[str, Best]:
    """Each question with the annotated one it is most like, the first of several."""
    if not questions:
        return {}
    matrix = scorer.scores(questions, annotated)
    places = matrix.argmax(axis=1)
    return {
        question: Best(100 * float(row[place]), question, annotated[place])
        for question, row, place in zip(questions, matrix, places, strict=True)
    }


def _scheme_score(scheme: str, scores: QueryScores, asked: int) -> SchemeScore:
    own = scores[scheme]
    mean = math.fsum(best.points for best in own.values()) / len(own) if own else None
    tests = {name: _test(own, scores[name]) for name in BASELINES if name in scores and name != scheme}
    return SchemeScore(scheme, len(own), asked - len(own), mean, tests)


def _test(own: Mapping[str, Best], baseline: Mapping[str, Best]) -> PairedT:
    both = [query for query in own if query in baseline]
    return paired_t_test([own[query].points for query in both], [baseline[query].points for query in both])


def _only(
    of: Mapping[str, Mapping[str, Any]], levels: Mapping[str, int], level: int
) -> dict[str, dict[str, Any]]:
    return {
        scheme: {query: one for query, one in queries.items() if levels.get(query) == level}
        for scheme, queries in of.items()
    }
