"""ClariQ in tables: the figures of its files, and what run files are worth in its three tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from cts_async.analysis.clarification_need import LabelAgreement
from cts_async.analysis.clariq_documents import LEADERBOARD, DocumentRelevance
from cts_async.analysis.question_relevance import QuestionRelevance
from cts_async.datasets.clariq import Clariq
from cts_async.datasets.clariq_rows import NEEDS, NO_QUESTION
from cts_async.report.tables import Column, DataTable, number, text

PUBLISHED: Final = {
    "topics": "187 train, 50 dev",
    "facets": "891 train and dev",
    "questions": "3,929 in all",
    "conversations": "11,489 train and dev",
}
"""The release's README, "ClariQ Train"."""


def _topics(found: Clariq, need: int) -> int:
    return sum(topic.need == need for topic in found.topics.values())


def _facets(found: Clariq, need: int) -> int:
    return sum(found.topics[facet.topic_id].need == need for facet in found.facets.values())


_FIGURES: Final[Mapping[str, Callable[[Clariq], int]]] = {
    "topics": lambda found: len(found.topics),
    **{f"topics of need {need}": partial(_topics, need=need) for need in NEEDS},
    "facets": lambda found: len(found.facets),
    "facets of need 3 or 4": lambda found: _facets(found, 3) + _facets(found, 4),
    "facets of need 1": lambda found: _facets(found, 1),
    "questions": lambda found: len(
        {id for topic in found.topics.values() for id in topic.questions} - {NO_QUESTION}
    ),
    "conversations": lambda found: found.n_rows,
    "pairs": lambda found: sum(len(facet.pairs) for facet in found.facets.values()),
}


def figures_table(parts: Mapping[str, Clariq], everything: Clariq) -> DataTable:
    """Counts by file, and over all of them, beside what is published."""
    columns = {**parts, "all": everything} if len(parts) > 1 else parts
    rows = [
        {
            "figure": name,
            **{part: count(found) for part, found in columns.items()},
            "published": PUBLISHED.get(name),
        }
        for name, count in _FIGURES.items()
    ]
    return DataTable(
        "figures",
        "ClariQ",
        "A conversation is a row: a facet, a question and its answer. Pairs are those with a question.",
        (
            Column("figure", text("figure"), numeric=False),
            *(Column(part, number(part, ",d")) for part in columns),
            Column("published (README)", text("published"), numeric=False),
        ),
        rows,
    )


def questions_table(found: QuestionRelevance) -> DataTable:
    """Recall at each cutoff."""
    rows = [
        {"metric": f"Recall{k}", "value": found.mean(k), "topics": len(found.recall[k])} for k in found.recall
    ]
    caption = f"Macro mean over topics; {len(found.unranked)} of them are not in the run and count 0."
    return DataTable("questions", "Question relevance", caption, _metric_columns("topics"), rows)


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


def need_table(found: LabelAgreement) -> DataTable:
    """Precision, recall and F1, weighted by label."""
    values = {"precision": found.precision, "recall": found.recall, "F1": found.f1}
    rows = [{"metric": metric, "value": value, "topics": found.n} for metric, value in values.items()]
    caption = f"Weighted by label; {found.n_missing} topics without a prediction have label 0."
    return DataTable("need", "Clarification need", caption, _metric_columns("topics"), rows)


def recall_json(found: QuestionRelevance) -> dict[str, Any]:
    """The official file: `{"Recall5": {topic: value}, ...}`."""
    return {f"Recall{k}": dict(values) for k, values in found.recall.items()}


def _metric_columns(over: str) -> tuple[Column, ...]:
    return (
        Column("metric", text("metric"), numeric=False),
        Column("value", number("value", ".4f")),
        Column(over, number(over, ",d")),
    )
