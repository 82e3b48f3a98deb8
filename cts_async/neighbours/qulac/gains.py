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
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, StringConstraints, TypeAdapter

from cts_async.analysis.stats import holm, paired_t_test
from cts_async.datasets.inspect import Contents
from cts_async.datasets.io import short
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.inputs import Share, read_evaluation, read_json, write_json
from cts_async.neighbours.qulac.conversations import NO_QUESTION, decode_record_id
from cts_async.report.tables import Column, DataTable, Row, number, p_value, text

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


def write_evaluations(path: Path, evaluations: Evaluations, about: Mapping[str, Any]) -> None:
    """Write metrics in order of name and cutoff, records as they come; and `about` the dictionary to `about_path`.

    UsageError if there are no records, or a file cannot be written.
    """
    if not any(evaluations.values()):
        raise UsageError(f"{path}: not written: there are no records")
    write_json(path, {metric: evaluations[metric] for metric in sorted(evaluations, key=metric_order)})
    write_json(about_path(path), about)


def metric_order(name: str) -> tuple[str, int]:
    """Key for sorting metrics: NDCG3 comes before NDCG20."""
    match = _METRIC.fullmatch(name)
    return (match[1], int(match[2] or 0)) if match else (name, 0)


def evaluations_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """Contents of an evaluation dictionary. Raises InputError, also for a pickle."""
    found = read_evaluations(Path(path))
    return Contents({"values": sum(map(len, found.values())), "metrics": list(found)})


# EVAL.about.json says how a dictionary was made, with notes; its own format has no room for that.


class _About(BaseModel):
    notes: list[str]


def about_path(evaluations: Path) -> Path:
    """Return `eval.about.json` for `eval.json`."""
    return evaluations.with_name(f"{evaluations.stem}.about.json")


def read_notes(evaluations: Path) -> list[str]:
    """Return the notes on a dictionary; none without such a file. InputError for a broken one."""
    path = about_path(evaluations)
    return read_json(path, TypeAdapter(_About), max_bytes=1 << 20).notes if path.exists() else []


# --- Gains -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gains:
    """The gains of one metric, as rows of tables: means, or None where nothing is known.

    A row of `oracle` belongs to a length of history: over its `facets`, the means of the `worst`, the `mean` and the
    `best` question. `none` is the original query alone, or, where that is not known, the best question without its
    answer; only the `facets_with_none` that have that record count towards `none`, `gain` (best minus none), and `t` and
    `p` of the paired t-test of best against none, if one is wanted.

    A row of `questions` is a facet's question after the `n` histories of one length, in the order they came. Its gains
    are over no question, or, where that is not known, `gain` is over `without_answer` and `gain_without_answer` None.
    """

    oracle: tuple[Row, ...]
    questions: tuple[Row, ...] = field(repr=False)
    without_original: tuple[str, ...] = ()
    """The facets with a question but no value for the original query alone; with one of them, no gain is over it."""


_Asked: TypeAlias = tuple[int, float, float | None]
"""A question, its value with its answer, and without (None: not evaluated)."""
_Histories: TypeAlias = Mapping[tuple[int, ...], list[_Asked]]
"""Past questions -> what was asked next."""


def question_gains(evaluations: Mapping[str, float], *, test: bool = False) -> Gains:
    """The gains of one metric's values by record id; empty if no question has a value with its answer.

    ValueError for an id that does not decode.
    """
    original: dict[str, float] = {}
    values: dict[tuple[str, tuple[int, ...], int, bool], float] = {}
    for id, value in evaluations.items():
        record = decode_record_id(id)
        if record.question == NO_QUESTION:
            original[record.facet_id] = value
        else:
            values[record.facet_id, record.history, record.question, record.answered] = value
    states: dict[tuple[str, int], dict[tuple[int, ...], list[_Asked]]] = {}
    for (facet, history, question, answered), value in values.items():
        if answered:
            histories = states.setdefault((facet, len(history)), {})
            unanswered = values.get((facet, history, question, False))
            histories.setdefault(history, []).append((question, value, unanswered))
    missing = tuple(dict.fromkeys(facet for facet, _ in states if facet not in original))
    if missing:
        original = {}
    lengths = sorted({length for _, length in states})
    by_length = {n: {facet: of for (facet, length), of in states.items() if length == n} for n in lengths}
    oracle = [_oracle(facets, original, length, test) for length, facets in by_length.items()]
    questions = (
        gain
        for (facet, length), histories in states.items()
        for gain in _question_gains(facet, length, histories, original.get(facet))
    )
    return Gains(tuple(oracle), tuple(questions), missing)


def _oracle(
    facets: Mapping[str, _Histories], original: Mapping[str, float], length: int, test: bool
) -> dict[str, Any]:
    best, mean, worst, none = {}, [], [], original
    for facet, histories in facets.items():
        values = [[answered for _, answered, _ in asked] for asked in histories.values()]
        best[facet] = fmean(map(max, values))
        mean.append(fmean(map(fmean, values)))
        worst.append(fmean(map(min, values)))
    if not original:
        known = {facet: _best_unanswered(histories) for facet, histories in facets.items()}
        none = {facet: value for facet, value in known.items() if value is not None}
    pairs = [(value, none[facet]) for facet, value in best.items() if facet in none]
    tested = paired_t_test([a for a, _ in pairs], [b for _, b in pairs]) if test and pairs else None
    return {
        "history_length": length,
        "facets": len(facets),
        "facets_with_none": len(pairs),
        "none": _mean(alone for _, alone in pairs),
        "worst": fmean(worst),
        "mean": fmean(mean),
        "best": fmean(best.values()),
        "gain": _mean(value - alone for value, alone in pairs),
        "t": tested.t if tested else None,
        "p": tested.p if tested else None,
    }


def _best_unanswered(histories: _Histories) -> float | None:
    """The mean value of the best questions without their answers; None if one has no such value.

    Of equally good questions that with the lowest number is taken, so that the result does not depend on order.
    """
    best = [min(asked, key=lambda one: (-one[1], one[0])) for asked in histories.values()]
    known = [unanswered for _, _, unanswered in best if unanswered is not None]
    return fmean(known) if len(known) == len(best) else None


def _question_gains(
    facet: str, length: int, histories: _Histories, original: float | None
) -> Iterator[dict[str, Any]]:
    by_question: dict[int, list[_Asked]] = {}
    for one in (one for asked in histories.values() for one in asked):
        by_question.setdefault(one[0], []).append(one)
    for question, every in by_question.items():
        answered = fmean(value for _, value, _ in every)
        both = [(value, alone) for _, value, alone in every if alone is not None]
        unanswered = _mean(alone for _, alone in both)
        if original is None:
            gain, without = _mean(value - alone for value, alone in both), None
        else:
            gain, without = answered - original, None if unanswered is None else unanswered - original
        yield {
            "facet": facet,
            "question": question,
            "history_length": length,
            "n": len(every),
            "with_answer": answered,
            "without_answer": unanswered,
            "gain": gain,
            "gain_without_answer": without,
        }


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
        {"metric": metric, "against": _AGAINST[not one.without_original], **row}
        for metric, one in gains.items()
        for row in one.oracle
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
            f"{metric}, {row['history_length']} past: only {row['facets_with_none']} of {row['facets']} facets have a "
            "record of the best question without its answer; none and gain are over these, the other columns over all"
            for row in one.oracle
            if 0 < row["facets_with_none"] < row["facets"]
        ]
    return notes


def questions_table(metric: str, gains: Gains) -> DataTable:
    """Every question's gain, the best first; those whose gain is not known at the end."""
    ordered = sorted(
        gains.questions, key=lambda row: -2.0 if row["gain"] is None else row["gain"], reverse=True
    )
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
    against = "the same question without its answer" if gains.without_original else "no question"
    caption = f"gain over {against}; n histories of that length; --json and --csv list every question"
    title = f"{metric}: what each question gains, from the best to the worst"
    rows = [{"metric": metric, **row} for row in ordered]
    name = f"questions_{metric}"
    return DataTable(name, title, caption, columns, rows, shown=QUESTIONS_SHOWN)
