"""Qulac (Aliannejadi et al., SIGIR 2019) as pairs of queries: a topic is ambiguous, its facet is the intent.

`qulac.json` is an object of columns, each {"0": value, "1": ...}, a row for every question asked about a
facet. An instance is a facet, not a row: 762 in all, with blurred = `topic` and fused = `facet_desc`.
Descriptions hold literal backslash escapes (\\' and \\"), which are undone here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from cts_async.datasets.annotations import AnnotatedQuery, Annotations
from cts_async.datasets.columns import Columns, read_columns
from cts_async.datasets.dataset import Dataset, make_dataset
from cts_async.datasets.fields import short
from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.datasets.qulac_table import Topic, read_qulac, unescape
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance

COLUMNS: Final = ("topic_facet_id", "topic", "facet_desc")


def read_instances(path: Path, gold: GoldIndex | None = None) -> Iterator[Instance]:
    """Give the facets in the order in which the file first mentions them; id = `topic_facet_id`.

    The file is one JSON value and so is held in memory while it is read. InputError for a missing column,
    columns of unequal length, a value that is not non-empty text, or a facet described in two ways.
    """
    facets = _facets(read_columns(path, COLUMNS))
    if gold is not None:
        keys = ((facet.id, facet.fused_query) for facet in facets)
        gold.require_join(path, COLUMNS, keys)
    for facet in facets:
        nuggets = gold.lookup(facet.id, facet.fused_query) if gold is not None else None
        yield Instance(facet.id, facet.fused_query, facet.blurred_query, nuggets or ())


def open_qulac(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """`qulac:PATH`, the path of `qulac.json`. It has no gold of its own."""
    if not target:
        raise UsageError("qulac needs a path: qulac:PATH, the file qulac.json")
    path = Path(target).expanduser()
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    instances, annotations = partial(read_instances, path, index), partial(read_annotations, path)
    return make_dataset("qulac", path, index, instances, annotations=annotations)


def read_annotations(path: Path) -> Annotations:
    """What people wrote about each topic and facet; errors as `qulac_table.read_qulac`.

    A topic's questions are its distinct ones, of all its facets; a facet's pairs are all of its own, so that a
    question asked twice stands there with both answers.
    """
    topics = read_qulac(path).topics
    same_text: dict[str, list[Topic]] = {}
    for topic in topics:
        same_text.setdefault(topic.text, []).append(topic)
    queries = {text: _annotated(text, same) for text, same in same_text.items()}
    pairs = {
        facet.id: tuple((pair.question, pair.answer) for pair in facet.pairs)
        for topic in topics
        for facet in topic.facets
    }
    return Annotations(queries, pairs)


def _annotated(text: str, topics: list[Topic]) -> AnnotatedQuery:
    questions = dict.fromkeys(question for topic in topics for question in topic.questions)
    return AnnotatedQuery(str(topics[0].id), text, tuple(questions))


def _facets(columns: Columns) -> list[Instance]:
    facets: dict[str, Instance] = {}
    for row in columns.rows:
        facet_id, topic, description = (columns.text(name, row) for name in COLUMNS)
        facet = Instance(facet_id, unescape(description), unescape(topic))
        if facets.setdefault(facet_id, facet) != facet:
            problem = f"the facet {short(facet_id)} stands earlier with another topic or facet_desc"
            raise columns.error("topic_facet_id", row, problem)
    if not facets:
        raise InputError(columns.path, "has no rows", field="topic_facet_id")
    return list(facets.values())
