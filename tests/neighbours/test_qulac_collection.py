"""Qulac's file read in full, as instances, and its published figures counted again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qulac_rows import SMALL, qulac_row, qulac_table

from cts_async.datasets.kinds import AnnotatedQuery
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.collection import (
    Facet,
    Pair,
    Topic,
    open_qulac,
    qulac_figures,
    read_qulac,
    unescape,
)
from cts_async.records import Instance

Write = Callable[..., Path]


def test_topics_hold_facets_and_facets_hold_pairs_in_file_order(write: Write) -> None:
    found = read_qulac(write("qulac.json", SMALL))
    two, eleven = found.topics
    assert (two.id, two.text, two.kind, two.description) == (2, "t2", "ambiguous", "about t2")
    assert [(facet.id, facet.numbers, facet.kind) for facet in two.facets] == [
        ("2-1", (2, 1), "nav"),
        ("2-3", (2, 3), "inf"),
    ]
    assert two.facets[0].pairs[2] == Pair(10, "q ten", "a ten")
    assert two.questions == ("q one", "q two", "q ten")
    assert (eleven.kind, eleven.facets[0].description) == ("faceted", 'Say "hi", it\'s late')
    # One id has two answers: both are kept, the first counts by number. One type is misspelt.
    assert eleven.facets[0].pairs == (Pair(1, "q one", "yes"), Pair(1, "q one", "no"))
    assert eleven.facets[0].by_number == {1: Pair(1, "q one", "yes")}
    assert (found.repeated, found.slips) == ({"11-1-1": ("6", "7")}, ("2-3",))


def test_questions_by_number_rise_although_the_file_sorts_them_as_text(write: Write) -> None:
    rows = [qulac_row(f"1-1-{n}", f"q{n}", "a") for n in (1, 10, 2)]
    facet, other = read_qulac(write("qulac.json", qulac_table(*rows, qulac_row("1-2-X")))).facets
    assert list(facet.by_number) == [1, 2, 10]
    assert (other.id, other.pairs) == ("1-2", ())


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"topic_id": "1"}, "topic_id", "must be a valid integer, is '1'"),
        ({"topic_id": True}, "topic_id", "must be a valid integer, is True"),
        ({"facet_id": 0}, "facet_id", "must be greater than or equal to 1, is 0"),
        ({"topic_id": 10**9}, "topic_id", "must be less than 1000000000"),
        ({"topic_type": "vague" * 50}, "topic_type", "must be 'faceted' or 'ambiguous', is 'vaguevague"),
        ({"facet_type": "x"}, "facet_type", "must be 'inf', 'nav' or 'inv', is 'x'"),
        ({"topic": " "}, "topic", "is empty"),
        ({"answer": None}, "answer", "must be a valid string, is None"),
        ({"topic_facet_id": "1-2"}, "topic_facet_question_id", "with topic_facet_id '1-1'"),
        ({"topic_facet_question_id": "1-2-1"}, "topic_facet_question_id", "must be '1-1-' and a question's"),
        ({"topic_facet_question_id": "1-1-0"}, "topic_facet_question_id", "a question's number or X"),
        ({"question": ""}, "topic_facet_question_id", "must be empty if the id ends in -X, and only then"),
        ({"topic_facet_question_id": "1-1-X"}, "topic_facet_question_id", "must be empty if the id ends"),
        ({"topic_desc": "other"}, "topic_id", "topic 1 occurs earlier with another"),
        ({"facet_desc": "other"}, "topic_facet_id", "facet '1-1' occurs earlier with another"),
        ({"topic_facet_question_id": "1-1-1"}, "topic_facet_question_id", "earlier with another question"),
        (
            {"topic_facet_question_id": "1-1-1", "question": "q", "answer": "a"},
            "topic_facet_question_id",
            "or with the same answer",
        ),
    ],
)
def test_invalid_row_is_located_by_column_and_row(
    write: Write, changes: dict[str, Any], field: str, says: str
) -> None:
    rows = [qulac_row("1-1-1", "q", "a"), qulac_row("1-1-2", "r", "b") | changes]
    with pytest.raises(InputError) as caught:
        read_qulac(write("qulac.json", qulac_table(*rows)))
    assert caught.value.field == f"{field}.1"
    assert says in caught.value.problem
    assert len(caught.value.problem) < 200


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({name: column for name, column in SMALL.items() if name != "topic_desc"}, "field 'topic_desc': is"),
        (SMALL | {"answer": {"0": "a"}}, "field 'answer': has 1 rows that do not match the 9 of 'topic_id'"),
        (SMALL | {"answer": ["a"]}, "field 'answer': must be a valid dictionary"),
        ('{"topic_id": {"0": 1}, "topic": ', ":1: is not valid JSON"),
        ("[]", "is []"),
        (qulac_table(), "has no rows"),
    ],
)
def test_file_that_is_no_qulac_is_refused(write: Write, content: Any, says: str) -> None:
    path = write("qulac.json", content)
    with pytest.raises(InputError) as caught:
        read_qulac(path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)


def test_kind_without_a_path_is_refused() -> None:
    with pytest.raises(UsageError, match="qulac:PATH"):
        open_qulac("", None, {})


def test_instance_is_a_facet_with_its_pairs_as_annotations(write: Write) -> None:
    dataset = open_qulac(str(write("qulac.json", SMALL)), None, {})
    assert list(dataset.instances()) == [
        Instance("2-1", "d2-1", "t2"),
        Instance("2-3", "d2-3", "t2"),
        Instance("11-1", 'Say "hi", it\'s late', "t11"),
    ]
    assert dataset.annotations is not None
    annotations = dataset.annotations()
    assert annotations.queries == {
        "t2": AnnotatedQuery("2", "t2", ("q one", "q two", "q ten")),
        "t11": AnnotatedQuery("11", "t11", ("q one",)),
    }
    assert annotations.pairs["2-3"] == (("q one", "a of three"),)
    assert annotations.pairs["11-1"] == (("q one", "yes"), ("q one", "no"))


def test_topics_with_the_same_text_are_one_query(write: Write) -> None:
    rows = [qulac_row("1-1-1", "q", "a", topic="jaguar"), qulac_row("2-1-1", "r", "b", topic="jaguar")]
    annotations = open_qulac(str(write("qulac.json", qulac_table(*rows))), None, {}).annotations
    assert annotations is not None
    assert annotations().queries == {"jaguar": AnnotatedQuery("1", "jaguar", ("q", "r"))}


def test_gold_joins_by_facet_or_is_refused(write: Write) -> None:
    path = write("qulac.json", SMALL)
    gold = write("gold.jsonl", [{"id": "2-3", "nuggets": [{"text": "x", "weight": 1}]}])
    assert [len(one.nuggets) for one in open_qulac(str(path), gold, {}).instances()] == [0, 1, 0]
    other = write("other.jsonl", [{"id": "9-9", "nuggets": [{"text": "x", "weight": 1}]}])
    with pytest.raises(InputError, match=r"nothing in it can be joined.*'topic_facet_id'.*'id', 'nuggets'"):
        open_qulac(str(path), other, {})


def test_escaped_quotes_are_undone() -> None:
    assert unescape(r"Find \"Barack Obama\'s Family Tree\".") == 'Find "Barack Obama\'s Family Tree".'
    assert unescape(r"C:\temp") == r"C:\temp"


# --- Published figures -----------------------------------------------------------------------------------


def test_every_figure_is_counted_as_defined() -> None:
    """Three topics with 3, 1 and 0 facets; "a b" stands in two topics, so it is two questions but one text."""
    pairs = [("a b", "no"), ("a b", "yes i do"), ("c d e f", "no")]
    first = Facet("1-1", "inf", "d", tuple(Pair(n, *pair) for n, pair in enumerate(pairs)))
    topics = (
        Topic(1, "t1", "faceted", "", (first, Facet("1-2", "nav", "d", ()), Facet("1-3", "inf", "d", ()))),
        Topic(2, "t2", "ambiguous", "", (Facet("2-1", "inf", "d", (Pair(1, "a b", "x"),)),)),
        Topic(3, "t3", "faceted", "", ()),
    )
    assert {row["figure"]: row["counted"] for row in qulac_figures(topics).rows} == {
        "topics": 3,
        "faceted topics": 2,
        "ambiguous topics": 1,
        "facets": 4,
        "facets per topic, average": 4 / 3,
        "facets per topic, median": 1,
        "informational facets": 3,
        "navigational facets": 1,
        "questions": 3,
        "question-answer pairs": 4,
        "terms per question, average": 3.0,
        "terms per answer, average": 1.5,
    }
    assert {row["counted"] for row in qulac_figures([]).rows} == {0}


def test_released_file_reproduces_every_published_figure(shared_data: Path) -> None:
    """216 facets belong to ambiguous topics; 640 describe something else than their topic does."""
    released = read_qulac(shared_data / "qulac.json")
    rows = qulac_figures(released.topics).rows
    assert len(rows) == 12
    assert all(row["reproduced"] for row in rows)
    assert set(released.repeated) == {"149-3-12", "154-3-14", "82-2-1"}
    assert released.slips == ("102-5",)
    assert {len(facet.pairs) for facet in released.facets} == set(range(7, 19))
    facets = [(topic, facet) for topic in released.topics for facet in topic.facets]
    assert sum(topic.kind == "ambiguous" for topic, _ in facets) == 216
    assert sum(topic.description != facet.description for topic, facet in facets) == 640
    dataset = open_qulac(str(shared_data / "qulac.json"), None, {})
    instances = list(dataset.instances())
    assert dataset.count == len(instances) == len({one.id for one in instances}) == 762
    intent = 'Find the TIME magazine photo essay "Barack Obama\'s Family Tree".'
    assert instances[0] == Instance("1-1", intent, "obama family tree")
    assert not any("\\" in one.intent + one.query for one in instances)
