"""What asking each clarifying question is worth to retrieval, and what an oracle would gain (Qulac, SIGIR 2019).

Retrieval was evaluated after every question of a conversation, with its answer and without. Of a facet and a history
of earlier questions, the best, the mean and the worst question are those by the value with the answer: what could
be gained at most, what asking at random gives, what could go wrong. A facet counts once: with several histories of
one length it has the mean over them.

"No question" is the original query alone, whatever the length of the history. Where evaluations lack it for some
facet, gains are against the same question without its answer instead, for all facets: what the answer is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Final, TypeAlias

from cts_async.analysis.stats import PairedT, holm, paired_t_test
from cts_async.neighbours.qulac.records import NO_QUESTION, Evaluations, decode_record_id
from cts_async.report.tables import Column, DataTable, number, p_value, text

History: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QuestionGain:
    """One question of a facet after histories of one length: means over the `n` histories with an answered value.

    `without_answer` is None where no such record exists. Gains are against no question, or, where that is not
    known (`Gains.against_original` is false), `gain` is against `without_answer` and `gain_without_answer` is None.
    """

    facet: str
    question: int
    history_length: int
    n: int
    with_answer: float
    without_answer: float | None
    gain: float | None
    gain_without_answer: float | None


@dataclass(frozen=True, slots=True)
class Oracle:
    """Means over `facets` of the best, mean and worst question at one length of history, and of none.

    `gain` is best minus `none`; `none` is the original query alone, or, where that is not known, the best question
    without its answer. Only the `facets_with_none` that have that record count towards `none`, `gain` and `test`, the
    paired t-test of best against `none`; None where none has.
    """

    history_length: int
    facets: int
    facets_with_none: int
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
        """True if gains are against the original query alone."""
        return not self.without_original


def question_gains(evaluations: Mapping[str, float], *, test: bool = False) -> Gains:
    """The gains of one metric's values by record id; empty if no question has a value with its answer.

    ValueError for an id that does not decode.
    """
    values = _Values(evaluations)
    missing = tuple(
        facet for facet in dict.fromkeys(facet for facet, _ in values.states) if facet not in values.original
    )
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

    def __init__(self, evaluations: Mapping[str, float]) -> None:
        self.original: dict[str, float] = {}
        answered: dict[tuple[str, History, int], float] = {}
        unanswered: dict[tuple[str, History, int], float] = {}
        for id, value in evaluations.items():
            record = decode_record_id(id)
            if record.question == NO_QUESTION:
                self.original[record.facet_id] = value
            else:
                target = answered if record.answered else unanswered
                target[record.facet_id, record.history, record.question] = value
        self.states: dict[tuple[str, int], dict[History, list[_Asked]]] = {}
        for (facet, history, question), value in answered.items():
            asked = _Asked(question, value, unanswered.get((facet, history, question)))
            self.states.setdefault((facet, len(history)), {}).setdefault(history, []).append(asked)


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
    """The mean value of the best questions without their answers; None if one has no such value."""
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
    return QuestionGain(facet, question, length, len(every), answered, unanswered, gain, without)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


class FacetMeans:
    """Best, mean, worst and no question, averaged over facets one by one; holds a few numbers a facet."""

    def __init__(self) -> None:
        self._facets: dict[str, dict[int, list[Oracle]]] = {}

    def add(self, facet: Evaluations) -> None:
        """Add one facet's evaluations; metrics without an answered record are left out."""
        for metric, values in facet.items():
            for oracle in question_gains(values).oracle:
                self._facets.setdefault(metric, {}).setdefault(oracle.history_length, []).append(oracle)

    def gains(self) -> dict[str, Gains]:
        """By metric the gains of all facets together, without single questions and tests."""
        return {
            metric: Gains(tuple(_mean_oracle(lengths[length]) for length in sorted(lengths)), ())
            for metric, lengths in self._facets.items()
        }


def _mean_oracle(facets: list[Oracle]) -> Oracle:
    known = [(one.none, one.gain) for one in facets if one.none is not None and one.gain is not None]
    return Oracle(
        facets[0].history_length,
        len(facets),
        len(known),
        none=fmean(none for none, _ in known) if known else None,
        worst=fmean(one.worst for one in facets),
        mean=fmean(one.mean for one in facets),
        best=fmean(one.best for one in facets),
        gain=fmean(gain for _, gain in known) if known else None,
        test=None,
    )


# --- Tables ----------------------------------------------------------------------------------------------

QUESTIONS_SHOWN: Final = 12
"""Questions that are printed, from the best to the worst; JSON and CSV have them all."""

_TESTED: Final = (
    "t, p: paired t-test of best against none over facets; the best is chosen by these very values, so that chance "
    "alone lifts it above none"
)
_AGAINST: Final = {True: "the original query alone", False: "the best question without its answer"}


def oracle_table(gains: Mapping[str, Gains]) -> DataTable:
    """Best, mean and worst question beside none, by metric and length of history.

    Where tests were made, their p-values are corrected together by Holm's method.
    """
    found = [(metric, row) for metric, one in gains.items() for row in one.oracle]
    corrected = iter(holm([row.test.p for _, row in found if row.test]))
    rows = [
        {"metric": metric, "against": _AGAINST[gains[metric].against_original]}
        | _oracle_row(row, next(corrected) if row.test else None)
        for metric, row in found
    ]
    none = ", or ".join(sorted({row["against"] for row in rows}, reverse=True))
    tested = any(row.test for _, row in found)
    tests = f"; {_TESTED}" if tested else ""
    columns = (
        Column("metric", text("metric"), numeric=False),
        Column("past", number("history_length", "d")),
        Column("facets", number("facets", "d")),
        *(Column(name, number(name, ".4f")) for name in ("none", "worst", "mean", "best")),
        Column("gain", number("gain", "+.4f")),
        *((Column("t", number("t", ".2f")), Column("p Holm", p_value("p_holm", 4))) if tested else ()),
    )
    caption = f"mean over facets; past: questions asked before; gain: best - none; none: {none}{tests}"
    return DataTable("oracle", "What the best question would gain", caption, columns, rows, group="metric")


def gain_notes(gains: Mapping[str, Gains]) -> list[str]:
    """Notes on gains that are not over the original query alone, or not over all facets."""
    instead = [
        f"{metric}: {_facets_have(len(one.without_original))} no record of the original query alone "
        f"({one.without_original[0]}-{NO_QUESTION}-0), so gains are over the same question without its answer"
        for metric, one in gains.items()
        if one.without_original
    ]
    partly = [
        f"{metric}, {row.history_length} past: only {row.facets_with_none} of {row.facets} facets have a record of "
        "the best question without its answer; none and gain are over these, the other columns over all"
        for metric, one in gains.items()
        for row in one.oracle
        if 0 < row.facets_with_none < row.facets
    ]
    return instead + partly


def _facets_have(n: int) -> str:
    return "1 facet has" if n == 1 else f"{n:,} facets have"


def _oracle_row(row: Oracle, p_holm: float | None) -> dict[str, Any]:
    values = asdict(row)
    test = values.pop("test")
    return {**values, "t": test and test["t"], "p": test and test["p"], "p_holm": p_holm}


def questions_table(metric: str, gains: Gains) -> DataTable:
    """Every question's gain, the best first; those whose gain is not known at the end."""
    ordered = sorted(gains.questions, key=lambda one: -2.0 if one.gain is None else one.gain, reverse=True)
    columns = (
        Column("facet", text("facet"), numeric=False),
        Column("question", number("question", "d")),
        Column("past", number("history_length", "d")),
        Column("n", number("n", ",")),
        Column("with answer", number("with_answer", ".4f")),
        Column("gain", number("gain", "+.4f")),
        Column("without", number("without_answer", ".4f")),
        Column("gain", number("gain_without_answer", "+.4f")),
    )
    against = "no question" if gains.against_original else "the same question without its answer"
    caption = f"gain over {against}; n histories of that length; every question stands in --json and --csv"
    title = f"{metric}: what each question gains, from the best to the worst"
    rows = [{"metric": metric, **asdict(one)} for one in ordered]
    name = f"questions_{metric}"
    return DataTable(name, title, caption, columns, rows, shown=QUESTIONS_SHOWN)
