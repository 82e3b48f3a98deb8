"""The three tasks of ClariQ (EMNLP 2021): question relevance, document relevance and clarification need.

For each the files that systems hand in, the measure, and its table.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Annotated, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, Field, TypeAdapter

from cts_async.datasets.io import byte_lines, decode, short
from cts_async.errors import InputError
from cts_async.neighbours.inputs import Share, checked, read_evaluation
from cts_async.tables.table import Column, DataTable, Row, number, text

# --- Run files and predictions ---------------------------------------------------------------------------


class RunLine(NamedTuple):
    """A question that was ranked for a topic or a context; the highest score comes first."""

    topic: str
    question: str
    score: Annotated[float, Field(allow_inf_nan=False)]


_RUN_LINE: Final = TypeAdapter(RunLine)
_LABEL: Final = TypeAdapter(Annotated[int, Field(ge=0, lt=10_000)])


def read_clariq_run(path: Path) -> tuple[list[RunLine], list[str]]:
    """Read a run in file order, repeated questions included, since official run files have some; a note names these.

    A line is `topic Q0 question rank score tag` between spaces; the order is that of the scores, and ranks are ignored.
    For conversations the first cell is a context's id and the third the question's text in double quotes, "" for none.
    InputError names file and line: other than six cells, a score that is no finite number, and a file without lines.
    """
    lines, repeats = [], []
    ranked: set[tuple[str, str]] = set()
    for line_number, (topic, _, question, _, score, _) in _cells(path, "topic Q0 question rank score tag"):
        lines.append(checked(_RUN_LINE, (topic, question, score), path, line=line_number))
        if (topic, question) in ranked:
            repeats.append(line_number)
        ranked.add((topic, question))
    if not repeats:
        return lines, []
    repeated = f"{len(repeats):,} lines repeat"
    if len(repeats) == 1:
        repeated = "1 line repeats"
    note = (
        f"{path}:{repeats[0]}: {repeated} a question of the same topic (this is the first); "
        "a repeat takes a rank of its own, as in the official program"
    )
    return lines, [note]


def read_predictions(path: Path) -> dict[str, int]:
    """The predicted label of each topic, a whole number, from lines `topic label`. InputError as `read_clariq_run`."""
    labels: dict[str, int] = {}
    for line, (topic, label) in _cells(path, "topic label"):
        if topic in labels:
            raise InputError(path, f"{short(topic)} occurs twice", line=line, field="topic")
        labels[topic] = checked(_LABEL, label, path, line=line)
    return labels


def _cells(path: Path, form: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells; between single spaces where a quote may hold some. InputError unless they have this form."""
    number = 0
    for line in byte_lines(path):
        text = decode(path, line).strip()
        if not text:
            continue
        number = line.number
        try:
            cells = text.split()
            # Only where a cell is quoted: `csv` knows spaces alone, and elsewhere tabs may stand between cells.
            if '"' in text:
                cells = next(csv.reader([text], delimiter=" ", strict=True, skipinitialspace=True))
        except csv.Error as error:
            raise InputError(path, f"has a broken quote: {error}", line=number) from None
        if len(cells) != len(form.split()):
            raise InputError(path, f"has {len(cells)} cells; {form} is expected", line=number)
        yield number, cells
    if not number:
        raise InputError(path, f"holds no lines: {form} is expected")


# --- Document relevance (task 2) -----------------------------------------------------------------------

ClariqEvaluation: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Metric -> facet or context -> question id, "MAX" or "MIN" -> the value with the answer, from 0 to 1."""

LEADERBOARD: Final = ("MRR100", "P1", "NDCG3", "NDCG5")
"""The metrics that systems are compared by."""
_BEST: Final = "MAX"
_WORST: Final = "MIN"


class _Pair(BaseModel):
    """Values after a question: those without its answer are ignored."""

    with_answer: Share


_EVALUATION: Final = TypeAdapter(dict[str, dict[str, dict[str, _Pair]]])


def read_clariq_evaluation(path: Path) -> ClariqEvaluation:
    """Read an evaluation dictionary of the release: how well documents are found after each question.

        {metric: {facet or context: {question: {"no_answer": x, "with_answer": y}, ..., "MAX": {...}, "MIN": {...}}}}

    in JSON. A context is a facet (`F0513`) for single turns, else a number. The release has pickles, which are refused.
    InputError as `read_evaluation`, and for a context without "MIN", what questions that were not judged count.
    """
    values: dict[str, dict[str, dict[str, float]]] = {}
    for metric, contexts in read_evaluation(path, _EVALUATION).items():
        values[metric] = {}
        for context, questions in contexts.items():
            if _WORST not in questions:
                raise InputError(path, f"has no {_WORST!r}", field=f"{metric}.{context}")
            values[metric][context] = {id: pair.with_answer for id, pair in questions.items()}
    return values


@dataclass(frozen=True, slots=True)
class DocumentRelevance:
    """`values` by metric and facet (or context), from 0 to 1.

    `unasked` are the facets that the run asks nothing for, `unjudged` those whose question nobody judged, and
    `unknown` those of the data that the evaluation does not have: they are in no mean.
    """

    values: Mapping[str, Mapping[str, float]]
    unasked: tuple[str, ...]
    unjudged: tuple[str, ...]
    unknown: tuple[str, ...]


def top_questions(run: Iterable[tuple[str, str, float]]) -> dict[str, str]:
    """The question with the highest score for each topic; of equal ones the last, as in the official figures."""
    top: dict[str, str] = {}
    top_scores: dict[str, float] = {}
    for topic, question, score in run:
        if topic not in top or score >= top_scores[topic]:
            top[topic], top_scores[topic] = question, score
    return top


def document_relevance(
    evaluation: ClariqEvaluation,
    top_by_topic: Mapping[str, str],
    topic_by_facet: Mapping[str, str] | None = None,
) -> DocumentRelevance | None:
    """What the top questions by topic are worth, for these facets with their topics; None where none is evaluated.

    A question that nobody judged counts as the worst that was judged ("MIN"), and so does asking for "MAX"; a facet
    without any question counts 0. Without `topic_by_facet` it is about conversations: the questions go by context, and
    all contexts count.
    """
    evaluated = dict.fromkeys(chain.from_iterable(evaluation.values()))
    if topic_by_facet is None:
        topic_by_facet = {context: context for context in evaluated}
    questions: dict[str, str | None] = {}
    for context in evaluated:
        if context not in topic_by_facet:
            continue
        question = top_by_topic.get(topic_by_facet[context])
        # Nobody wrote a question "MAX": a run that names it would be given the best of all.
        if question == _BEST:
            question = _WORST
        questions[context] = question
    # Means over no facet would be zeros that look like a measurement.
    if not questions:
        return None
    values: dict[str, dict[str, float]] = {}
    judged: set[str] = set()
    for metric, by_context in evaluation.items():
        for context, question in questions.items():
            if context not in by_context:
                continue
            value = 0.0
            if question is not None:
                value = by_context[context].get(question, by_context[context][_WORST])
            if question in by_context[context]:
                judged.add(context)
            values.setdefault(metric, {})[context] = value
    unasked: list[str] = []
    unjudged: list[str] = []
    for context, question in questions.items():
        if question is None:
            unasked.append(context)
        elif context not in judged:
            unjudged.append(context)
    unknown = [context for context in topic_by_facet if context not in questions]
    return DocumentRelevance(values, tuple(unasked), tuple(unjudged), tuple(unknown))


def document_relevance_table(relevance: DocumentRelevance) -> DataTable:
    """The leaderboard's metrics first, then the others that the evaluation has."""
    rows: list[Row] = []
    for metric in dict.fromkeys(chain(LEADERBOARD, relevance.values)):
        if metric in relevance.values:
            rows.append(_mean_row(metric, relevance.values[metric], "facets"))
    caption = (
        f"Mean over facets or contexts; without a question, counting 0: {len(relevance.unasked)}; with one that "
        f"nobody judged, counting as the worst: {len(relevance.unjudged)}; left out, without an evaluation: "
        f"{len(relevance.unknown)}."
    )
    return _metric_table("documents", "Document relevance", caption, rows, "facets")


# --- Clarification need (task 1) -----------------------------------------------------------------------


def label_agreement(truth: Mapping[str, int], predicted: Mapping[str, int]) -> tuple[float, float, float]:
    """Precision, recall and F1 of labels by topic; at least one of `truth`. Predictions for other topics are ignored.

    Each is an average over labels with the label's share of the topics as weight ("weighted" in scikit-learn). A label
    without predictions counts 0. A topic without a prediction has label 0.
    """
    n_true, n_predicted, n_correct = Counter[int](), Counter[int](), Counter[int]()
    for topic, label in truth.items():
        prediction = predicted.get(topic, 0)
        n_true[label] += 1
        n_predicted[prediction] += 1
        n_correct[label] += prediction == label
    precision = f1 = 0.0
    # Labels without topics have weight 0, so those of the truth are enough.
    for label, weight in n_true.items():
        if n_correct[label]:
            precision += weight * (n_correct[label] / n_predicted[label])
        f1 += weight * (2 * n_correct[label] / (weight + n_predicted[label]))
    n = len(truth)
    return precision / n, n_correct.total() / n, f1 / n


def need_table(truth: Mapping[str, int], predicted: Mapping[str, int]) -> DataTable:
    """Precision, recall and F1, weighted by label."""
    rows: list[Row] = []
    for metric, value in zip(("precision", "recall", "F1"), label_agreement(truth, predicted), strict=True):
        rows.append({"metric": metric, "value": value, "topics": len(truth)})
    n_missing = len(set(truth).difference(predicted))
    caption = f"Weighted by label; {n_missing} topics without a prediction have label 0."
    return _metric_table("need", "Clarification need", caption, rows, "topics")


# --- Question relevance (task 2) -----------------------------------------------------------------------

CUTOFFS: Final = (5, 10, 20, 30)
"""Those of the official tool."""


def question_relevance(
    relevant: Mapping[str, frozenset[str]],
    run: Iterable[tuple[str, str, float]],
    cutoffs: Sequence[int] = CUTOFFS,
) -> tuple[dict[int, dict[str, float]], list[str]]:
    """Recall of a run by cutoff and topic, and the topics that the run says nothing about: they count 0.

        Recall@k = mean over the topics of |top k and relevant| / |relevant|

    Relevant are all questions that people wrote for the topic; that nobody should ask is one of them. A topic's
    questions are sorted by falling score, and of those with the same score only the first is kept. A question that a
    run repeats with another score takes a rank each time and is found once, as in the official program. Lines of other
    topics are ignored.
    """
    by_score: dict[str, dict[float, str]] = {}
    for topic, question, score in run:
        by_score.setdefault(topic, {}).setdefault(score, question)
    recall: dict[int, dict[str, float]] = {k: {} for k in cutoffs}
    unranked = []
    for topic, questions in relevant.items():
        ranking = by_score.get(topic, {})
        if not ranking:
            unranked.append(topic)
        ranked_questions = [ranking[score] for score in sorted(ranking, reverse=True)]
        for k in cutoffs:
            recall[k][topic] = len(questions.intersection(ranked_questions[:k])) / len(questions)
    return recall, unranked


def question_relevance_table(recall: Mapping[int, Mapping[str, float]], unranked: Sequence[str]) -> DataTable:
    """Recall at each cutoff."""
    rows = [_mean_row(f"Recall{k}", values, "topics") for k, values in recall.items()]
    caption = f"Macro mean over topics; {len(unranked)} of them are not in the run and count 0."
    return _metric_table("questions", "Question relevance", caption, rows, "topics")


def _mean_row(metric: str, values: Mapping[str, float], over: str) -> Row:
    return {"metric": metric, "value": fmean(values.values()), over: len(values)}


def _metric_table(name: str, title: str, caption: str, rows: Sequence[Row], over: str) -> DataTable:
    columns = (
        Column("metric", text("metric"), numeric=False),
        Column("value", number("value", ".4f")),
        Column(over, number(over, ",d")),
    )
    return DataTable(name, title, caption, columns, rows)
