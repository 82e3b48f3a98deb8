"""Clarification generation (AT-CoT, SIGIR 2025, section 4.3): tables 5 to 7, and the correlation of section 7.

score_q = max over S, the similarities of all generated to all annotated questions of the query q (equation 5): a
scheme is good if one of its questions is much like one that a person asked. All scores here are points: 100 x.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

from cts_async.analysis.conversations import Talk
from cts_async.analysis.stats import PairedT, correlation, paired_t_test
from cts_async.analysis.turn_retrieval import ALPHA, TurnRetrieval
from cts_async.neighbours.at_cot.similarity import Scorer
from cts_async.records import AMBIGUITY_TYPES, SCHEMES, AmbiguityType, Mode


@cache
def published() -> Mapping[str, Any]:
    """The paper's printed values, from published.toml."""
    content = files("cts_async.neighbours.at_cot").joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(content)


# --- Which questions are compared ------------------------------------------------------------------------

_SOURCES: Final[tuple[Mode, Mode]] = ("at-once", "respond")


@dataclass(frozen=True, slots=True)
class Generated:
    """The output of a scheme for one query: its questions, and the ambiguity types it named ("at-cot" only)."""

    questions: tuple[str, ...]
    types: tuple[AmbiguityType, ...] = ()


GeneratedQuestions: TypeAlias = Mapping[str, Mapping[str, Generated]]
"""Scheme -> text of the underspecified query -> generated questions."""
AnnotatedQuestions: TypeAlias = Mapping[str, Sequence[str]]
"""Text of the underspecified query -> the questions that people wrote."""


def source_of(talks: Sequence[Talk]) -> Mode | None:
    """The mode whose questions are compared: "at-once" if there is one, else "respond"; None without either.

    The paper generates several questions at once for its tables 5 to 7, and takes the first turn of "respond" where
    retrieval is compared with them (section 7): people's questions are about q, not about what was said since.
    """
    modes = {talk.mode for talk in talks}
    return next((mode for mode in _SOURCES if mode in modes), None)


def asked_first(talks: Sequence[Talk], blurred: Mapping[str, str]) -> dict[str, dict[str, Generated]]:
    """By scheme and query the first questions in the mode `source_of` the conversations of one Clarifier.

    `blurred` is q by instance id, in the data's order; of several intents behind one q the first counts that has a
    conversation, since the first question depends on q alone.
    """
    source = source_of(talks)
    chosen = sorted((talk for talk in talks if talk.mode == source), key=lambda t: SCHEMES.index(t.scheme))
    return {talk.scheme: _of_queries(talk, blurred) for talk in chosen}


def _of_queries(talk: Talk, blurred: Mapping[str, str]) -> dict[str, Generated]:
    found: dict[str, Generated] = {}
    for id, query in blurred.items():
        conversation = talk.conversations.get(id)
        if conversation is not None and conversation.turns and query not in found:
            first = conversation.turns[0]
            found[query] = Generated(first.offered, first.types)
    return found


def retrieved_first(found: TurnRetrieval, measure: str, blurred: Mapping[str, str]) -> Retrieval:
    """By scheme and query the measure of every intent after the first turn of "respond"."""
    retrieval: dict[str, dict[str, list[float]]] = {}
    for cell in found.cells:
        if (cell.mode, cell.turn) == ("respond", 1):
            queries = retrieval.setdefault(cell.scheme, {})
            for id, value in cell.scores[measure].items():
                queries.setdefault(blurred[id], []).append(value)
    return retrieval


# --- Scores: tables 5 and 6 ------------------------------------------------------------------------------

BASELINES: Final = ("standard", "at-standard", "cot")
"""Schemes that the others are tested against."""


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
        """True where it is better than `baseline` with p < ALPHA: the paper's marks."""
        test = self.tests.get(baseline)
        return test is not None and test.difference > 0 and test.p < ALPHA


def score_queries(
    generated: GeneratedQuestions,
    annotated: AnnotatedQuestions,
    scorer: Scorer,
    on_progress: Callable[[int, int], Any] | None = None,
) -> QueryScores:
    """score_q of every scheme and query; `on_progress(done, of)` is called after each query.

    A query's schemes are compared together, so that a question that several of them ask, and each annotated one, is
    encoded once. Blank questions count as none.
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
                found[scheme][query] = max(
                    (best[question] for question in questions), key=lambda one: one.points
                )
        if on_progress is not None:
            on_progress(done, len(queries))
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


# --- Ambiguity types: table 7 --------------------------------------------------------------------------


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

    A query may have several types. A share is that of a type among all predictions, as the published columns add up to
    100; the gain is the mean difference of score_q over the queries for which the type was predicted, in points.

    `scores` are AT-CoT's and `baseline` CoT's; without them the gains are over no query. A type named twice
    for one query counts once.
    """
    queries = {
        kind: [query for query, one in predicted.items() if kind in one.types] for kind in AMBIGUITY_TYPES
    }
    total = sum(map(len, queries.values()))
    return tuple(
        PredictedType(kind, len(of), total, _gain_over(of, scores or {}, baseline or {}))
        for kind, of in queries.items()
    )


def _gain_over(queries: list[str], scores: Mapping[str, Best], baseline: Mapping[str, Best]) -> PairedT:
    both = [query for query in queries if query in scores and query in baseline]
    return paired_t_test([scores[query].points for query in both], [baseline[query].points for query in both])


# --- Generation beside retrieval: section 7 --------------------------------------------------------------

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
    """A scheme's two means, each over all its values, and the correlation over the queries that have both."""

    scheme: str
    generation: float
    retrieval: float
    over_queries: Correlation


@dataclass(frozen=True, slots=True)
class Alignment:
    """Do schemes that clarify better also retrieve better? Those with both scores, and the correlation over them."""

    schemes: tuple[SchemePoint, ...]
    over_schemes: Correlation


def pearson(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """r with its two-sided p-value from Student's t = r sqrt((n - 2) / (1 - r^2)), n - 2 degrees of freedom.

    n = 2 is always r = 1 or -1, with p = 1. Raises ValueError for unequal lengths.
    """
    r, n = correlation(x, y), len(x)
    if r is None:
        return Correlation(n, None, None)
    if n == 2:
        return Correlation(n, r, 1.0)
    return Correlation(n, r, 0.0 if abs(r) == 1.0 else _two_sided(r, n - 2))


def alignment(scores: QueryScores, retrieval: Retrieval) -> Alignment:
    """Generation beside retrieval for the schemes that have both. A scheme's retrieval is the mean over all intents.

    The paper correlates the means of its four schemes over Qulac and prints r = 0.92, p = 0.08. Its own tables do not
    give that: the Qulac column of table 5 against turn 1, respond, of table 8 has r = 0.994, p = 0.006. Four points show
    little either way, so the correlation over queries, scheme by scheme, is given as an addition.
    """
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
