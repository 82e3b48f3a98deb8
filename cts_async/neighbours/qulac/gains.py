"""What asking each clarifying question is worth to retrieval, and what an oracle would gain (Qulac, SIGIR 2019).

Retrieval was evaluated after every question of a conversation, with its answer and without: an evaluation dictionary
{metric: {record id: value}}. Of a facet and a history of earlier questions, the best, the mean and the worst question
are those by the value with the answer: what could be gained at most, what asking at random gives, what could go wrong.
A facet counts once: with several histories of one length it has the mean over them.

"No question" is the original query alone, whatever the length of the history. Where evaluations lack it for some
facet, gains are against the same question without its answer instead, for all facets: what the answer is worth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, TypeAlias

import orjson
from pydantic import BaseModel, StringConstraints, TypeAdapter

from cts_async.analysis.stats import holm, paired_t_test
from cts_async.datasets.inspect import Contents
from cts_async.datasets.io import short
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.inputs import Share, read_evaluation, read_json
from cts_async.neighbours.qulac.conversations import NO_QUESTION, decode_record_id
from cts_async.report.tables import Column, DataTable, number, p_value, text
from cts_async.safe_files import atomic_writer

# --- Evaluation dictionaries -----------------------------------------------------------------------------

Evaluations: TypeAlias = dict[str, dict[str, float]]
"""Metric -> record id -> value in [0, 1]."""
_METRIC: Final = re.compile(r"([A-Za-z]+)([1-9][0-9]*)?")
_EVALUATIONS: Final = TypeAdapter(
    dict[Annotated[str, StringConstraints(pattern=f"^{_METRIC.pattern}$")], dict[str, Share]]
)


def read_evaluations(path: Path) -> Evaluations:
    """Read a dictionary, metrics and records in file order.

    InputError for a pickle, broken JSON, a repeated key, a name that is no metric (a word and a cutoff, such as
    NDCG20), an id that does not decode, a value that is no number from 0 to 1, and no record.
    """
    found = read_evaluation(path, _EVALUATIONS)
    if not all(found.values()) or not found:
        raise InputError(path, "holds no records: {metric: {record id: value}} is expected")
    for id in {id: None for values in found.values() for id in values}:
        try:
            decode_record_id(id)
        except ValueError as error:
            raise InputError(path, f"the record id {short(id)} {error}") from None
    return found


def write_evaluations(path: Path, evaluations: Evaluations) -> None:
    """Write metrics in order of name and cutoff, records as they come; the file appears whole or not at all."""
    if not any(evaluations.values()):
        raise UsageError(f"{path}: not written: there are no records")
    ordered = {metric: evaluations[metric] for metric in sorted(evaluations, key=metric_order)}
    _write_json(path, ordered)


def metric_order(name: str) -> tuple[str, int]:
    """Key for sorting metrics: NDCG3 comes before NDCG20."""
    match = _METRIC.fullmatch(name)
    return (match[1], int(match[2] or 0)) if match else (name, 0)


def evaluations_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """Contents of an evaluation dictionary. Raises InputError, also for a pickle."""
    found = read_evaluations(Path(path))
    return Contents({"values": sum(map(len, found.values())), "metrics": list(found)})


# EVAL.about.json says how a dictionary was made, for which its own format has no room.


class _About(BaseModel):
    notes: list[str]


def about_path(evaluations: Path) -> Path:
    """Return `eval.about.json` for `eval.json`."""
    return evaluations.with_name(f"{evaluations.stem}.about.json")


def write_about(evaluations: Path, settings: Mapping[str, Any], notes: list[str]) -> None:
    """Write settings and notes to the file beside the dictionary. UsageError if it cannot be written."""
    _write_json(about_path(evaluations), {**settings, "notes": notes})


def read_notes(evaluations: Path) -> list[str]:
    """Return the notes on a dictionary; none without such a file. InputError for a broken one."""
    path = about_path(evaluations)
    return read_json(path, TypeAdapter(_About), max_bytes=1 << 20).notes if path.exists() else []


def _write_json(path: Path, value: Any) -> None:
    with atomic_writer(path) as file:
        file.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


# --- Gains -----------------------------------------------------------------------------------------------


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
    without its answer. Only the `facets_with_none` that have that record count towards `none`, `gain`, and `t` and `p`
    of the paired t-test of best against `none`; None where none has, or no test is wanted.
    """

    history_length: int
    facets: int
    facets_with_none: int
    none: float | None
    worst: float
    mean: float
    best: float
    gain: float | None
    t: float | None
    p: float | None


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


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question's value with its answer, and without (None: not evaluated)."""

    question: int
    answered: float
    unanswered: float | None


_Question: TypeAlias = tuple[str, tuple[int, ...], int]
"""Facet, past questions, question."""
_Histories: TypeAlias = Mapping[tuple[int, ...], list[_Asked]]


def question_gains(evaluations: Mapping[str, float], *, test: bool = False) -> Gains:
    """The gains of one metric's values by record id; empty if no question has a value with its answer.

    ValueError for an id that does not decode.
    """
    original: dict[str, float] = {}
    answered: dict[_Question, float] = {}
    unanswered: dict[_Question, float] = {}
    for id, value in evaluations.items():
        record = decode_record_id(id)
        if record.question == NO_QUESTION:
            original[record.facet_id] = value
        else:
            values = answered if record.answered else unanswered
            values[record.facet_id, record.history, record.question] = value
    states: dict[tuple[str, int], dict[tuple[int, ...], list[_Asked]]] = {}
    for key, value in answered.items():
        facet, history, question = key
        histories = states.setdefault((facet, len(history)), {})
        histories.setdefault(history, []).append(_Asked(question, value, unanswered.get(key)))
    missing = tuple(facet for facet in dict.fromkeys(facet for facet, _ in states) if facet not in original)
    if missing:
        original = {}
    oracle = []
    for length in sorted({length for _, length in states}):
        facets = {facet: histories for (facet, n), histories in states.items() if n == length}
        oracle.append(_oracle(facets, original, length, test))
    questions = (
        gain
        for (facet, length), histories in states.items()
        for gain in _question_gains(facet, length, histories, original.get(facet))
    )
    return Gains(tuple(oracle), tuple(questions), missing)


def _oracle(
    facets: Mapping[str, _Histories], original: Mapping[str, float], length: int, test: bool
) -> Oracle:
    best, mean, worst = {}, [], []
    for facet, histories in facets.items():
        values = [[one.answered for one in asked] for asked in histories.values()]
        best[facet] = fmean(map(max, values))
        mean.append(fmean(map(fmean, values)))
        worst.append(fmean(map(min, values)))
    none: dict[str, float | None] = {
        facet: original.get(facet) if original else _best_unanswered(facets[facet]) for facet in facets
    }
    pairs = [(value, alone) for facet, value in best.items() if (alone := none.get(facet)) is not None]
    tested = paired_t_test([a for a, _ in pairs], [b for _, b in pairs]) if test and pairs else None
    return Oracle(
        length,
        len(facets),
        len(pairs),
        none=_mean(alone for _, alone in pairs),
        worst=fmean(worst),
        mean=fmean(mean),
        best=fmean(best.values()),
        gain=_mean(value - alone for value, alone in pairs),
        t=tested.t if tested else None,
        p=tested.p if tested else None,
    )


def _best_unanswered(histories: _Histories) -> float | None:
    """The mean value of the best questions without their answers; None if one has no such value.

    Of equally good questions that with the lowest number is taken, so that the result does not depend on order.
    """
    best = [min(asked, key=lambda one: (-one.answered, one.question)) for asked in histories.values()]
    known = [one.unanswered for one in best if one.unanswered is not None]
    return fmean(known) if len(known) == len(best) else None


def _question_gains(
    facet: str, length: int, histories: _Histories, original: float | None
) -> Iterator[QuestionGain]:
    by_question: dict[int, list[_Asked]] = {}
    for one in (one for asked in histories.values() for one in asked):
        by_question.setdefault(one.question, []).append(one)
    for question, every in by_question.items():
        answered = fmean(one.answered for one in every)
        both = [(one.answered, one.unanswered) for one in every if one.unanswered is not None]
        unanswered = _mean(value for _, value in both)
        if original is None:
            gain, without = _mean(value - alone for value, alone in both), None
        else:
            gain, without = answered - original, None if unanswered is None else unanswered - original
        yield QuestionGain(facet, question, length, len(every), answered, unanswered, gain, without)


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return fmean(values) if values else None


# --- Tables ----------------------------------------------------------------------------------------------

QUESTIONS_SHOWN: Final = 12
"""Questions that are printed, from the best to the worst; JSON and CSV have them all."""

_TESTED: Final = (
    "; t, p: paired t-test of best against none over facets; the best is chosen by these very values, so that chance "
    "alone lifts it above none"
)
_AGAINST: Final = {True: "the original query alone", False: "the best question without its answer"}


def oracle_table(gains: Mapping[str, Gains]) -> DataTable:
    """Best, mean and worst question beside none, by metric and length of history.

    Where tests were made, their p-values are corrected together by Holm's method.
    """
    rows: list[dict[str, Any]] = [
        {"metric": metric, "against": _AGAINST[one.against_original], **asdict(oracle)}
        for metric, one in gains.items()
        for oracle in one.oracle
    ]
    tested = [row for row in rows if row["p"] is not None]
    corrected = iter(holm([row["p"] for row in tested]))
    for row in rows:
        row["p_holm"] = None if row["p"] is None else next(corrected)
    none = ", or ".join(sorted({row["against"] for row in rows}, reverse=True))
    columns = (
        Column("metric", text("metric"), numeric=False),
        Column("past", number("history_length", "d")),
        Column("facets", number("facets", "d")),
        *(Column(name, number(name, ".4f")) for name in ("none", "worst", "mean", "best")),
        Column("gain", number("gain", "+.4f")),
        *((Column("t", number("t", ".2f")), Column("p Holm", p_value("p_holm", 4))) if tested else ()),
    )
    caption = "mean over facets; past: questions asked before; gain: best - none; none: "
    caption += none + (_TESTED if tested else "")
    return DataTable("oracle", "What the best question would gain", caption, columns, rows, group="metric")


def gain_notes(gains: Mapping[str, Gains]) -> list[str]:
    """Notes on gains that are not over the original query alone, or not over all facets."""
    notes = []
    for metric, one in gains.items():
        if one.without_original:
            n = len(one.without_original)
            notes.append(
                f"{metric}: {'1 facet has' if n == 1 else f'{n:,} facets have'} no record of the original query alone "
                f"({one.without_original[0]}-0-0), so gains are over the same question without its answer"
            )
    for metric, one in gains.items():
        notes += [
            f"{metric}, {row.history_length} past: only {row.facets_with_none} of {row.facets} facets have a record of "
            "the best question without its answer; none and gain are over these, the other columns over all"
            for row in one.oracle
            if 0 < row.facets_with_none < row.facets
        ]
    return notes


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
