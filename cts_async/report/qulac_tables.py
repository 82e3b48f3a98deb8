"""Qulac's tables: published figures, conversations, and what questions gain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from cts_async.analysis.question_gain import Evaluated, Gains, Oracle, QuestionGain
from cts_async.analysis.qulac_figures import Collection, Figure
from cts_async.analysis.stats import holm
from cts_async.datasets.qulac_table import Topic
from cts_async.datasets.record_ids import NO_QUESTION, decode_record_id
from cts_async.report.tables import Column, DataTable, Row, number, p_value, text

QUESTIONS_SHOWN: Final = 12
"""Questions that are printed, from the best to the worst; JSON and CSV have them all."""

_TESTED: Final = (
    "t, p: paired t-test of best against none over facets; the best is chosen by these very values, so that chance "
    "alone lifts it above none"
)
_AGAINST: Final = {True: "the original query alone", False: "the best question without its answer"}


def collection_of(topics: Iterable[Topic]) -> Collection:
    """The topics as what the published figures are counted of."""
    topics = list(topics)
    facets = [(topic, facet) for topic in topics for facet in topic.facets]
    return Collection(
        {topic.id: topic.kind for topic in topics},
        [(topic.id, facet.kind) for topic, facet in facets],
        [(topic.id, pair.question, pair.answer) for topic, facet in facets for pair in facet.pairs],
    )


def evaluated(values: Mapping[str, float]) -> Iterator[Evaluated]:
    """One metric of an evaluation dictionary, its record ids decoded; ValueError for one that does not."""
    for id, value in values.items():
        record = decode_record_id(id)
        question = None if record.question == NO_QUESTION else record.question
        yield Evaluated(record.facet_id, record.history, question, record.answered, value)


def figures_table(figures: Sequence[Figure]) -> DataTable:
    """Every published figure beside the one counted here."""
    rows = [
        {
            "figure": one.name,
            "published": one.published,
            "counted": one.value,
            "reproduced": one.reproduced,
            "digits": one.digits,
        }
        for one in figures
    ]
    columns = (
        Column("figure", text("figure"), numeric=False),
        Column("published", lambda row: format(row["published"], f",.{row['digits']}f")),
        Column("counted", _counted),
        Column("", lambda row: "ok" if row["reproduced"] else "differs", numeric=False),
    )
    caption = "the collection as its README describes it (SIGIR 2019), and counted in this file"
    return DataTable("figures", "Qulac's published figures", caption, columns, rows)


def _counted(row: Row) -> str:
    """To the published digits; in full where those would hide that a whole number differs."""
    shown = format(row["counted"], f",.{row['digits']}f")
    return shown if row["reproduced"] or row["digits"] else format(row["counted"], ",")


def counts_table(counts: Mapping[int, int]) -> DataTable:
    """How many conversations of each length there are."""
    rows: list[dict[str, Any]] = [{"turns": turns, "conversations": count} for turns, count in counts.items()]
    rows.append({"turns": "all", "conversations": sum(counts.values())})
    columns = (
        Column("turns", text("turns"), numeric=False),
        Column("conversations", number("conversations", ",")),
    )
    caption = "a facet with n questions gives n * C(n - 1, turns - 1)"
    return DataTable("conversations", "Artificial conversations", caption, columns, rows)


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
    """What a reader has to know of where gains are not over the original query alone, or not over all facets."""
    instead = [
        f"{metric}: {_facets_have(len(one.without_original))} no record of the original query alone "
        f"({one.without_original[0]}-{NO_QUESTION}-0), so gains are over the same question without its answer"
        for metric, one in gains.items()
        if one.without_original
    ]
    partly = [
        f"{metric}, {row.history_length} past: only {row.n_none} of {row.n} facets have a record of the best question "
        "without its answer; none and gain are over these, the other columns over all"
        for metric, one in gains.items()
        for row in one.oracle
        if 0 < row.n_none < row.n
    ]
    return instead + partly


def _facets_have(n: int) -> str:
    return "1 facet has" if n == 1 else f"{n:,} facets have"


def _oracle_row(row: Oracle, p_holm: float | None) -> dict[str, Any]:
    return {
        "history_length": row.history_length,
        "facets": row.n,
        "facets_with_none": row.n_none,
        "none": row.none,
        "worst": row.worst,
        "mean": row.mean,
        "best": row.best,
        "gain": row.gain,
        "t": row.test and row.test.t,
        "p": row.test and row.test.p,
        "p_holm": p_holm,
    }


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
    rows = [_question_row(metric, one) for one in ordered]
    name = f"questions_{metric}"
    return DataTable(name, title, caption, columns, rows, shown=QUESTIONS_SHOWN)


def _question_row(metric: str, one: QuestionGain) -> dict[str, Any]:
    return {
        "metric": metric,
        "facet": one.facet,
        "question": one.question,
        "history_length": one.history_length,
        "n": one.n,
        "with_answer": one.with_answer,
        "without_answer": one.without_answer,
        "gain": one.gain,
        "gain_without_answer": one.gain_without_answer,
    }
