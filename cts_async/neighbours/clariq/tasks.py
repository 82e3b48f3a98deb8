"""The three tasks of ClariQ (EMNLP 2021): question relevance, document relevance and clarification need.

For each the files that systems hand in, the measure, and its table.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    seen: set[tuple[str, str]] = set()
    for line, (topic, _, question, _, score, _) in _cells(path, "topic Q0 question rank score tag"):
        lines.append(checked(_RUN_LINE, (topic, question, score), path, line=line))
        if (topic, question) in seen:
            repeats.append(line)
        seen.add((topic, question))
    if not repeats:
        return lines, []
    repeated = "1 line repeats" if len(repeats) == 1 else f"{len(repeats):,} lines repeat"
    return lines, [
        f"{path}:{repeats[0]}: {repeated} a question of the same topic (this is the first); "
        "a repeat takes a rank of its own, as in the official program"
    ]


def read_predictions(path: Path) -> dict[str, int]:
    """The predicted label of each topic, a whole number, from lines `topic label`. InputError as `read_clariq_run`."""
    found: dict[str, int] = {}
    for line, (topic, label) in _cells(path, "topic label"):
        if topic in found:
            raise InputError(path, f"{short(topic)} occurs twice", line=line, field="topic")
        found[topic] = checked(_LABEL, label, path, line=line)
    return found


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
    found = read_evaluation(path, _EVALUATION)
    for metric, contexts in found.items():
        for context, questions in contexts.items():
            if _WORST not in questions:
                raise InputError(path, f"has no {_WORST!r}", field=f"{metric}.{context}")
    return {
        metric: {
            context: {question: pair.with_answer for question, pair in questions.items()}
            for context, questions in contexts.items()
        }
        for metric, contexts in found.items()
    }


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


def selected(run: Iterable[tuple[str, str, float]]) -> dict[str, str]:
    """The question with the highest score for each topic; of equal ones the last, as in the official figures."""
    best: dict[str, tuple[float, str]] = {}
    for topic, question, score in run:
        if topic not in best or score >= best[topic][0]:
            best[topic] = (score, question)
    return {topic: question for topic, (_, question) in best.items()}


def document_relevance(
    evaluation: ClariqEvaluation, asked: Mapping[str, str], topic_of: Mapping[str, str] | None = None
) -> DocumentRelevance | None:
    """What the questions `asked` by topic are worth, for the facets in `topic_of`; None where none is evaluated.

    A question that nobody judged counts as the worst that was judged ("MIN"), and so does asking for "MAX"; a facet
    without any question counts 0. Without `topic_of` it is about conversations: `asked` goes by context, and all
    contexts count.
    """
    contexts = list(dict.fromkeys(context for found in evaluation.values() for context in found))
    topics = topic_of if topic_of is not None else {context: context for context in contexts}
    chosen = {context: asked.get(topics[context]) for context in contexts if context in topics}
    if not chosen:
        return None
    chosen = {context: _WORST if question == _BEST else question for context, question in chosen.items()}
    values = {}
    judged = set()
    for metric, found in evaluation.items():
        values[metric] = {
            context: 0.0 if question is None else found[context].get(question, found[context][_WORST])
            for context, question in chosen.items()
            if context in found
        }
        judged |= {context for context, question in chosen.items() if question in found.get(context, ())}
    return DocumentRelevance(
        values={metric: by_context for metric, by_context in values.items() if by_context},
        unasked=tuple(context for context, question in chosen.items() if question is None),
        unjudged=tuple(c for c, question in chosen.items() if question is not None and c not in judged),
        unknown=tuple(context for context in topics if context not in chosen),
    )


def document_relevance_table(found: DocumentRelevance) -> DataTable:
    """The leaderboard's metrics first, then the others that the evaluation has."""
    order = [metric for metric in LEADERBOARD if metric in found.values]
    order += [metric for metric in found.values if metric not in order]
    caption = (
        f"Mean over facets or contexts; without a question, counting 0: {len(found.unasked)}; with one that "
        f"nobody judged, counting as the worst: {len(found.unjudged)}; left out, without an evaluation: "
        f"{len(found.unknown)}."
    )
    rows = [_mean_row(metric, found.values[metric], "facets") for metric in order]
    return _metric_table("documents", "Document relevance", caption, rows, "facets")


# --- Clarification need (task 1) -----------------------------------------------------------------------


def label_agreement(truth: Mapping[str, int], predicted: Mapping[str, int]) -> tuple[float, float, float]:
    """Precision, recall and F1 of labels by topic; at least one of `truth`. Predictions for other topics are ignored.

    Each is an average over labels with the label's share of the topics as weight ("weighted" in scikit-learn). A label
    without predictions counts 0. A topic without a prediction has label 0.
    """
    pairs = [(label, predicted.get(topic, 0)) for topic, label in truth.items()]
    right = Counter(label for label, guess in pairs if label == guess)
    of_truth, of_guess = Counter(label for label, _ in pairs), Counter(guess for _, guess in pairs)
    n = len(pairs)
    # Labels without topics have weight 0, so those of the truth are enough.
    precision = sum(
        count * (right[label] / of_guess[label]) for label, count in of_truth.items() if right[label]
    )
    f1 = sum(count * (2 * right[label] / (count + of_guess[label])) for label, count in of_truth.items())
    return precision / n, sum(right.values()) / n, f1 / n


def need_table(truth: Mapping[str, int], predicted: Mapping[str, int]) -> DataTable:
    """Precision, recall and F1, weighted by label."""
    values = zip(("precision", "recall", "F1"), label_agreement(truth, predicted), strict=True)
    rows = [{"metric": metric, "value": value, "topics": len(truth)} for metric, value in values]
    missing = sum(topic not in predicted for topic in truth)
    caption = f"Weighted by label; {missing} topics without a prediction have label 0."
    return _metric_table("need", "Clarification need", caption, rows, "topics")


# --- Question relevance (task 2) -----------------------------------------------------------------------

CUTOFFS: Final = (5, 10, 20, 30)


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
    ranking = {topic: [first[s] for s in sorted(first, reverse=True)] for topic, first in by_score.items()}
    recall = {
        k: {
            topic: len(wanted.intersection(ranking.get(topic, ())[:k])) / len(wanted)
            for topic, wanted in relevant.items()
        }
        for k in cutoffs
    }
    return recall, [topic for topic in relevant if topic not in ranking]


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
