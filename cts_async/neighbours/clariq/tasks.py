"""The three tasks of ClariQ (EMNLP 2021): question relevance, document relevance and clarification need.

For each the files that systems hand in, the measure, and its table.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple, TypeAlias

from cts_async.datasets.io import (
    MAX_LINE_BYTES,
    byte_lines,
    decode,
    earlier_line,
    kind_of,
    parse_json,
    read_bytes,
    short,
)
from cts_async.errors import InputError
from cts_async.neighbours.qulac.records import refuse_pickle
from cts_async.report.tables import Column, DataTable, number, text

# --- Run files and predictions ---------------------------------------------------------------------------

RUN_COLUMNS: Final = ("topic", "Q0", "question", "rank", "score", "tag")
PREDICTION_COLUMNS: Final = ("topic", "label")


class RunLine(NamedTuple):
    """A question that was ranked for a topic or a context. A score is finite; the highest comes first."""

    topic: str
    question: str
    score: float


def read_run(
    path: Path, repeats: list[int] | None = None, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[RunLine]:
    """Stream a run in file order, repeated questions included, since official run files have some.

    A line is `topic Q0 question rank score tag` between spaces, ranks from 0; the order is that of the scores. For
    conversations the first cell is a context's id and the third the question's text in double quotes, "" for none.
    `repeats` collects the numbers of lines whose question occurs earlier for its topic. InputError names file, line and
    field: other than six cells, a rank or score that is no number, and a file without lines.
    """
    seen: dict[str, int] = {}
    line = 0
    for line, cells in _run_lines(path, RUN_COLUMNS, max_line_bytes):
        topic, _, question, rank, score, _ = cells
        if not rank.isdecimal():
            problem = f"must be a whole number from 0, is {short(rank)}"
            raise InputError(path, problem, line=line, field="rank")
        if earlier_line(seen, f"{topic} {question}", line) is not None and repeats is not None:
            repeats.append(line)
        yield RunLine(topic, question, _read_score(path, line, score))
    if not line:
        raise InputError(path, f"holds no lines: {' '.join(RUN_COLUMNS)} is expected")


def read_predictions(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, int]:
    """The predicted label of each topic, a whole number, from lines `topic label`. InputError as `read_run`."""
    found: dict[str, int] = {}
    for line, (topic, label) in _run_lines(path, PREDICTION_COLUMNS, max_line_bytes):
        if topic in found:
            raise InputError(path, f"{short(topic)} occurs twice", line=line, field="topic")
        if not label.isdecimal() or len(label) > 4:
            problem = f"must be a whole number from 0, is {short(label)}"
            raise InputError(path, problem, line=line, field="label")
        found[topic] = int(label)
    if not found:
        raise InputError(path, f"holds no lines: {' '.join(PREDICTION_COLUMNS)} is expected")
    return found


def _run_lines(path: Path, columns: tuple[str, ...], max_line_bytes: int) -> Iterator[tuple[int, list[str]]]:
    for line in byte_lines(path, max_line_bytes=max_line_bytes):
        text = decode(path, line).strip()
        if not text:
            continue
        cells = _split_line(text)
        if cells is None:
            raise InputError(path, "has a quote that is not closed, or text after one", line=line.number)
        if len(cells) != len(columns):
            problem = f"has {len(cells)} cells, not {len(columns)}: {' '.join(columns)} is expected"
            raise InputError(path, problem, line=line.number)
        yield line.number, cells


def _split_line(text: str) -> list[str] | None:
    """Cells between white space, or between single spaces where a quote may hold some; None for broken quotes."""
    if '"' not in text:
        return text.split()
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # the line is bounded already
    try:
        return next(csv.reader([text], delimiter=" ", strict=True, skipinitialspace=True))
    except csv.Error:
        return None


def _read_score(path: Path, line: int, cell: str) -> float:
    try:
        score = float(cell)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(path, f"must be a finite number, is {short(cell)}", line=line, field="score")
    return score


def with_ids(lines: Iterable[RunLine], bank: Mapping[str, str]) -> Iterator[RunLine]:
    """Lines of conversations with the ids of their questions, which `bank` has by id; "" for what it has not."""
    ids = {text: id for id, text in bank.items()}
    return (line._replace(question=ids.get(line.question, "")) for line in lines)


# --- Document relevance (task 2) -----------------------------------------------------------------------

ClariqEvaluation: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Metric -> facet or context -> question id, "MAX" or "MIN" -> the value with the answer, from 0 to 1."""

MAX_BYTES: Final = 512 * 1024 * 1024
WORST: Final = "MIN"
_WITH_ANSWER: Final = "with_answer"


def read_clariq_evaluation(path: Path, *, max_bytes: int = MAX_BYTES) -> ClariqEvaluation:
    """Read an evaluation dictionary of the release: how well documents are found after each question.

        {metric: {facet or context: {question: {"no_answer": x, "with_answer": y}, ..., "MAX": {...}, "MIN": {...}}}}

    in JSON. A context is a facet (`F0513`) for single turns, else a number. The release has pickles, which are refused.
    Values without answers are ignored.

    InputError for a pickle, a file larger than `max_bytes`, invalid JSON, a key that occurs twice, and, with
    the place in the dictionary as its field, another shape, a context without "MIN", or a value beyond 0 to 1.
    """
    refuse_pickle(path)
    raw = read_bytes(path, max_bytes=max_bytes, advice="write one file for each metric")
    table = _object(path, parse_json(path, raw), "")
    return {
        metric: {
            context: _context(path, f"{metric}.{context}", questions)
            for context, questions in _object(path, contexts, metric).items()
        }
        for metric, contexts in table.items()
    }


def _context(path: Path, place: str, questions: Any) -> dict[str, float]:
    values = {
        question: _value_with_answer(path, f"{place}.{question}", pair)
        for question, pair in _object(path, questions, place).items()
    }
    if WORST not in values:
        raise InputError(path, f"has no {WORST!r}, what questions that were not judged count", field=place)
    return values


def _value_with_answer(path: Path, place: str, pair: Any) -> float:
    value = _object(path, pair, place).get(_WITH_ANSWER)
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"must be a number, is {kind_of(value)}"
        raise InputError(path, problem, field=f"{place}.{_WITH_ANSWER}")
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise InputError(path, f"must be from 0 to 1, is {value}", field=f"{place}.{_WITH_ANSWER}")
    return float(value)


def _object(path: Path, value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(path, f"must be an object, is {kind_of(value)}", field=place or None)
    if not value:
        raise InputError(path, "is empty", field=place or None)
    return value


def documents_table(found: DocumentRelevance) -> DataTable:
    """The leaderboard's metrics first, then the others that the evaluation has."""
    order = [metric for metric in LEADERBOARD if metric in found.values]
    order += [metric for metric in found.values if metric not in order]
    rows = [
        {"metric": metric, "value": found.mean(metric), "facets": len(found.values[metric])}
        for metric in order
    ]
    caption = (
        f"Mean over facets or contexts; without a question, counting 0: {len(found.unasked)}; with one that "
        f"nobody judged, counting as the worst: {len(found.unjudged)}; left out, for want of an evaluation: "
        f"{len(found.unknown)}."
    )
    return DataTable("documents", "Document relevance", caption, _metric_columns("facets"), rows)


# --- Clarification need (task 1) -----------------------------------------------------------------------

NO_LABEL: Final = 0


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Weighted averages from 0 to 1 over `n` topics, `n_missing` of which have no prediction."""

    precision: float
    recall: float
    f1: float
    n: int
    n_missing: int


def label_agreement(truth: Mapping[str, int], predicted: Mapping[str, int]) -> LabelAgreement:
    """Agreement of labels by topic; at least one of `truth`. Predictions for other topics are ignored.

    Precision, recall and F1 of each label, averaged with the label's share of the topics as weight ("weighted" in
    scikit-learn). A label without predictions, or without topics, counts 0. A topic without a prediction has label 0.
    """
    pairs = [(label, predicted.get(topic, NO_LABEL)) for topic, label in truth.items()]
    right = Counter(label for label, guess in pairs if label == guess)
    of_truth, of_guess = Counter(label for label, _ in pairs), Counter(guess for _, guess in pairs)
    n = len(pairs)
    # Labels without topics have weight 0, so those of the truth are enough.
    return LabelAgreement(
        precision=sum(count * _share(right[label], of_guess[label]) for label, count in of_truth.items()) / n,
        recall=sum(right.values()) / n,
        f1=sum(count * _share(2 * right[label], count + of_guess[label]) for label, count in of_truth.items())
        / n,
        n=n,
        n_missing=sum(topic not in predicted for topic in truth),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


LEADERBOARD: Final = ("MRR100", "P1", "NDCG3", "NDCG5")
"""The metrics that systems are compared by."""
_BEST: Final = "MAX"


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

    def mean(self, metric: str) -> float:
        """The mean over the facets."""
        return fmean(self.values[metric].values())


def selected(run: Iterable[tuple[str, str, float]]) -> dict[str, str]:
    """The question with the highest score for each topic; of equal ones the last, as in the official figures."""
    best: dict[str, tuple[float, str]] = {}
    for topic, question, score in run:
        if topic not in best or score >= best[topic][0]:
            best[topic] = (score, question)
    return {topic: question for topic, (_, question) in best.items()}


def document_relevance(
    evaluation: Mapping[str, Mapping[str, Mapping[str, float]]],
    asked: Mapping[str, str],
    topic_of: Mapping[str, str] | None = None,
) -> DocumentRelevance | None:
    """What the questions `asked` by topic are worth, for the facets in `topic_of`; None where none is evaluated.

    A question that nobody judged counts as the worst that was judged ("MIN"), and so does asking for "MAX"; a facet
    without any question counts 0. `evaluation` is metric -> facet -> question -> value with the answer. Without
    `topic_of` it is about conversations: `asked` goes by context, and all contexts count.
    """
    contexts = list(dict.fromkeys(context for found in evaluation.values() for context in found))
    topics = topic_of if topic_of is not None else {context: context for context in contexts}
    judged = [context for context in contexts if context in topics]
    if not judged:
        return None
    chosen = {context: asked.get(topics[context]) for context in judged}
    chosen = {context: WORST if question == _BEST else question for context, question in chosen.items()}
    values = {
        metric: {context: _worth(found[context], chosen[context]) for context in judged if context in found}
        for metric, found in evaluation.items()
    }
    return DocumentRelevance(
        values={metric: by_context for metric, by_context in values.items() if by_context},
        unasked=tuple(context for context, question in chosen.items() if question is None),
        unjudged=tuple(
            context
            for context, question in chosen.items()
            if question is not None
            and not any(question in found.get(context, ()) for found in evaluation.values())
        ),
        unknown=tuple(context for context in topics if context not in chosen),
    )


def _worth(values: Mapping[str, float], question: str | None) -> float:
    if question is None:
        return 0.0
    return values.get(question, values[WORST])


def need_table(found: LabelAgreement) -> DataTable:
    """Precision, recall and F1, weighted by label."""
    values = {"precision": found.precision, "recall": found.recall, "F1": found.f1}
    rows = [{"metric": metric, "value": value, "topics": found.n} for metric, value in values.items()]
    caption = f"Weighted by label; {found.n_missing} topics without a prediction have label 0."
    return DataTable("need", "Clarification need", caption, _metric_columns("topics"), rows)


# --- Question relevance (task 2) -----------------------------------------------------------------------

CUTOFFS: Final = (5, 10, 20, 30)


@dataclass(frozen=True, slots=True)
class QuestionRelevance:
    """`recall` by cutoff and topic; `unranked` are the topics that the run says nothing about: they count 0."""

    recall: Mapping[int, Mapping[str, float]]
    unranked: tuple[str, ...]

    def mean(self, cutoff: int) -> float:
        """The macro mean over the topics, from 0 to 1."""
        return fmean(self.recall[cutoff].values())


def question_relevance(
    relevant: Mapping[str, frozenset[str]],
    run: Iterable[tuple[str, str, float]],
    cutoffs: Sequence[int] = CUTOFFS,
) -> QuestionRelevance:
    """Recall of a run, lines (topic, question, score) in file order. At least one topic; each has a question.

        Recall@k = mean over the topics of |top k and relevant| / |relevant|

    Relevant are all questions that people wrote for the topic; that nobody should ask is one of them. A topic's
    questions are sorted by falling score, and of those with the same score only the first is kept. A question that a
    run repeats with another score takes a rank each time and is found once, as in the official program. Lines of other
    topics are ignored.
    """
    given: dict[str, list[tuple[str, float]]] = {}
    for topic, question, score in run:
        if topic in relevant:
            given.setdefault(topic, []).append((question, score))
    ranking = {topic: ranked(scored) for topic, scored in given.items()}
    recall = {
        k: {
            topic: len(wanted.intersection(ranking.get(topic, ())[:k])) / len(wanted)
            for topic, wanted in relevant.items()
        }
        for k in cutoffs
    }
    return QuestionRelevance(recall, tuple(topic for topic in relevant if topic not in ranking))


def ranked(scored: Iterable[tuple[str, float]]) -> list[str]:
    """Questions by falling score; of equal scores the first alone."""
    first: dict[float, str] = {}
    for question, score in scored:
        first.setdefault(score, question)
    return [first[score] for score in sorted(first, reverse=True)]


def recall_json(found: QuestionRelevance) -> dict[str, Any]:
    """The official file: `{"Recall5": {topic: value}, ...}`."""
    return {f"Recall{k}": dict(values) for k, values in found.recall.items()}


def questions_table(found: QuestionRelevance) -> DataTable:
    """Recall at each cutoff."""
    rows = [
        {"metric": f"Recall{k}", "value": found.mean(k), "topics": len(found.recall[k])} for k in found.recall
    ]
    caption = f"Macro mean over topics; {len(found.unranked)} of them are not in the run and count 0."
    return DataTable("questions", "Question relevance", caption, _metric_columns("topics"), rows)


def _metric_columns(over: str) -> tuple[Column, ...]:
    return (
        Column("metric", text("metric"), numeric=False),
        Column("value", number("value", ".4f")),
        Column(over, number(over, ",d")),
    )
