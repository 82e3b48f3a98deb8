"""What asking each clarifying question is worth to retrieval, and what an oracle would gain (Qulac, SIGIR 2019).

Retrieval was evaluated after every question of a conversation, with its answer and without. Of a facet and a history
of earlier questions, the best, the mean and the worst question are those by the value with the answer: what could
be gained at most, what asking at random gives, what could go wrong. A facet counts once: with several histories of
one length it has the mean over them.

"No question" is the original query alone, whatever the length of the history. Where evaluations lack it for some
facet, gains are against the same question without its answer instead, for all facets: what the answer is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypeAlias

from cts_async.analysis.stats import PairedT, paired_t_test

History: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A metric's value for one record; `question` None is the original query alone (no history, no answer)."""

    facet: str
    history: History
    question: int | None
    answered: bool
    value: float


@dataclass(frozen=True, slots=True)
class QuestionGain:
    """One question of a facet after histories of one length: means over the `n` histories with an answered value.

    `without_answer` is None where no such record exists. Gains are against no question, or, where that is not
    known (`Gains.against_original` is false), `gain` is against `without_answer` and `gain_without_answer` is None.
    """

    facet: str
    history_length: int
    question: int
    n: int
    with_answer: float
    without_answer: float | None
    gain: float | None
    gain_without_answer: float | None


@dataclass(frozen=True, slots=True)
class Oracle:
    """Means over `n` facets of the best, mean and worst question at one length of history, and of none.

    `gain` is best minus `none`; `none` is the original query alone, or, where that is not known, the best question
    without its answer. Only the `n_none` facets that have that record count towards `none`, `gain` and `test`, the
    paired t-test of best against `none`; None where none has.
    """

    history_length: int
    n: int
    n_none: int
    none: float | None
    worst: float
    mean: float
    best: float
    gain: float | None
    test: PairedT | None


@dataclass(frozen=True, slots=True)
class Gains:
    """One metric. `oracle` by length of history; `questions` by facet, length and question in the order they came.

    `without_original` are the facets with a question but no value for the original query alone.
    """

    oracle: tuple[Oracle, ...]
    questions: tuple[QuestionGain, ...] = field(repr=False)
    without_original: tuple[str, ...] = ()

    @property
    def against_original(self) -> bool:
        """Whether gains are against the original query alone."""
        return not self.without_original


def question_gains(evaluated: Iterable[Evaluated], *, test: bool = False) -> Gains:
    """The gains of one metric's values; everything is empty where no question has a value with its answer."""
    values = _Values(evaluated)
    missing = tuple(facet for facet in values.facets() if facet not in values.original)
    original = {} if missing else values.original
    lengths = sorted({length for _, length in values.states})
    oracle = tuple(_oracle(values, original, length, test) for length in lengths)
    return Gains(oracle, tuple(_questions(values, original)), missing)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question's value with its answer, and without (None: not evaluated)."""

    question: int
    answered: float
    unanswered: float | None


class _Values:
    """The values by facet and length of history: for each history its questions."""

    def __init__(self, evaluated: Iterable[Evaluated]) -> None:
        self.original: dict[str, float] = {}
        answered: dict[tuple[str, History, int], float] = {}
        unanswered: dict[tuple[str, History, int], float] = {}
        for one in evaluated:
            if one.question is None:
                self.original[one.facet] = one.value
            else:
                kept = answered if one.answered else unanswered
                kept[one.facet, one.history, one.question] = one.value
        self.states: dict[tuple[str, int], dict[History, list[_Asked]]] = {}
        for (facet, history, question), value in answered.items():
            asked = _Asked(question, value, unanswered.get((facet, history, question)))
            self.states.setdefault((facet, len(history)), {}).setdefault(history, []).append(asked)

    def facets(self) -> Iterator[str]:
        """Every facet that has a question, once."""
        yield from dict.fromkeys(facet for facet, _ in self.states)


def _oracle(values: _Values, original: Mapping[str, float], length: int, test: bool) -> Oracle:
    facets = {facet: asked for (facet, n), asked in values.states.items() if n == length}
    best = {
        facet: fmean(_best(asked).answered for asked in every.values()) for facet, every in facets.items()
    }
    none = {facet: original.get(facet) if original else _unanswered(facets[facet]) for facet in facets}
    pairs = [(best[facet], value) for facet, value in none.items() if value is not None]
    bests, nones = [a for a, _ in pairs], [b for _, b in pairs]
    return Oracle(
        length,
        len(facets),
        len(pairs),
        none=_mean(nones),
        worst=fmean(fmean(min(_answered(asked)) for asked in every.values()) for every in facets.values()),
        mean=fmean(fmean(fmean(_answered(asked)) for asked in every.values()) for every in facets.values()),
        best=fmean(best.values()),
        gain=_mean([a - b for a, b in pairs]),
        test=paired_t_test(bests, nones) if test and pairs else None,
    )


def _best(asked: Sequence[_Asked]) -> _Asked:
    """Of equally good questions the one asked first by number, so that the result does not depend on order."""
    return min(asked, key=lambda one: (-one.answered, one.question))


def _answered(asked: Sequence[_Asked]) -> list[float]:
    return [one.answered for one in asked]


def _unanswered(histories: Mapping[History, Sequence[_Asked]]) -> float | None:
    """The best questions without their answers; None where one of them was not evaluated so."""
    found = [_best(asked).unanswered for asked in histories.values()]
    known = [value for value in found if value is not None]
    return fmean(known) if len(known) == len(found) else None


def _questions(values: _Values, original: Mapping[str, float]) -> Iterator[QuestionGain]:
    for (facet, length), histories in values.states.items():
        by_question: dict[int, list[_Asked]] = {}
        for asked in histories.values():
            for one in asked:
                by_question.setdefault(one.question, []).append(one)
        for question, every in by_question.items():
            yield _gain(facet, length, question, every, original.get(facet))


def _gain(
    facet: str, length: int, question: int, every: Sequence[_Asked], original: float | None
) -> QuestionGain:
    answered = fmean(_answered(every))
    both = [(one.answered, one.unanswered) for one in every if one.unanswered is not None]
    unanswered = _mean([value for _, value in both])
    if original is None:
        gain, without = _mean([value - alone for value, alone in both]), None
    else:
        gain, without = answered - original, None if unanswered is None else unanswered - original
    return QuestionGain(facet, length, question, len(every), answered, unanswered, gain, without)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
