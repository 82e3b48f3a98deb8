"""Qulac's file read in full, as instances, and its published figures counted again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from qulac_rows import SMALL, qulac_row, qulac_table

from cts_async.datasets.gold import read_gold
from cts_async.datasets.registry import AnnotatedQuery
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.collection import (
    Facet,
    Figure,
    Pair,
    Repeated,
    Topic,
    open_qulac,
    qulac_figures,
    read_instances,
    read_qulac,
    unescape,
)
from cts_async.records import Instance

Write = Callable[..., Path]


def refusal(path: Path, **bounds: int) -> InputError:
    with pytest.raises(InputError) as caught:
        read_qulac(path, **bounds)
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_topics_hold_facets_and_facets_hold_pairs_in_file_order(write: Write) -> None:
    two, eleven = read_qulac(write("qulac.json", SMALL)).topics
    assert (two.id, two.text, two.kind, two.description) == (2, "t2", "ambiguous", "about t2")
    assert [(facet.id, facet.kind) for facet in two.facets] == [("2-1", "nav"), ("2-3", "inf")]
    assert two.facets[0].pairs[2] == Pair(10, "q ten", "a ten")
    assert two.questions == ("q one", "q two", "q ten")
    assert (eleven.kind, eleven.facets[0].description) == ("faceted", 'Say "hi", it\'s late')


def test_row_without_a_question_makes_a_facet_and_no_pair(write: Write) -> None:
    (topic,) = read_qulac(write("qulac.json", qulac_table(qulac_row("1-1-X")))).topics
    assert (topic.facets[0].id, topic.facets[0].pairs, topic.questions) == ("1-1", (), ())


def test_id_with_two_answers_is_two_pairs_and_reported(write: Write) -> None:
    qulac = read_qulac(write("qulac.json", SMALL))
    assert qulac.topics[1].facets[0].pairs == (Pair(1, "q one", "yes"), Pair(1, "q one", "no"))
    assert qulac.topics[1].facets[0].by_number == {1: Pair(1, "q one", "yes")}
    assert qulac.repeated == (Repeated("11-1-1", ("6", "7")),)


def test_slip_inv_is_informational_and_reported(write: Write) -> None:
    assert read_qulac(write("qulac.json", SMALL)).slips == ("2-3",)


def test_questions_by_number_rise_although_the_file_sorts_them_as_text(write: Write) -> None:
    rows = [qulac_row(f"1-1-{n}", f"q{n}", "a") for n in (1, 10, 2)]
    (topic,) = read_qulac(write("qulac.json", qulac_table(*rows))).topics
    assert list(topic.facets[0].by_number) == [1, 2, 10]


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"topic_id": "1"}, "topic_id", "must be a whole number, is text"),
        ({"topic_id": True}, "topic_id", "must be a whole number, is true or false"),
        ({"facet_id": 0}, "facet_id", "must be a whole number from 1, is 0"),
        ({"topic_id": 10**9}, "topic_id", "must have at most nine digits, is 1000000000"),
        ({"topic_type": "vague" * 50}, "topic_type", "is 'vaguevague"),
        ({"topic_facet_id": "1-2"}, "topic_facet_id", "must be '1-1' by its topic and facet, is '1-2'"),
        ({"topic_facet_question_id": "1-2-1"}, "topic_facet_question_id", "must be '1-1-' and a question's"),
        ({"topic_facet_question_id": "1-1-0"}, "topic_facet_question_id", "a question's number or X"),
        ({"topic_type": "vague"}, "topic_type", "must be faceted or ambiguous, is 'vague'"),
        ({"facet_type": "x"}, "facet_type", "must be inf or nav"),
        ({"topic": " "}, "topic", "is empty"),
        ({"question": ""}, "question", "is empty"),
        ({"answer": None}, "answer", "must be text, is null"),
        ({"topic_facet_question_id": "1-1-X"}, "question", "must be empty, since the row's id ends in -X"),
        ({"topic_desc": "other"}, "topic_id", "the topic 1 occurs earlier with another"),
        ({"facet_desc": "other"}, "topic_facet_id", "the facet '1-1' occurs earlier with another"),
        ({"topic_facet_question_id": "1-1-1"}, "topic_facet_question_id", "row 0 with another question"),
        (
            {"topic_facet_question_id": "1-1-1", "question": "q", "answer": "a"},
            "topic_facet_question_id",
            "'1-1-1' already occurs on row 0 with the same answer",
        ),
    ],
)
def test_invalid_table_is_located_by_row_and_column(
    write: Write, changes: dict[str, Any], field: str, says: str
) -> None:
    rows = [qulac_row("1-1-1", "q", "a"), qulac_row("1-1-2", "r", "b") | changes]
    error = refusal(write("qulac.json", qulac_table(*rows)))
    assert error.field == field
    assert "row 1: " in str(error)
    assert says in str(error)
    assert len(error.problem) < 160


def test_all_eleven_columns_are_needed(write: Write) -> None:
    table = {name: column for name, column in SMALL.items() if name != "topic_desc"}
    error = refusal(write("qulac.json", table))
    assert error.field == "topic_desc"
    assert "the column is missing; the columns are 'topic_id', 'facet_id'" in str(error)


def test_columns_have_the_same_rows(write: Write) -> None:
    error = refusal(write("qulac.json", SMALL | {"answer": {"0": "a"}}))
    assert (error.field, error.problem) == ("answer", "has 1 rows that do not match the 9 of 'topic_id'")


def test_repeated_row_key_is_refused(write: Write) -> None:
    error = refusal(write("qulac.json", '{"topic_id": {"0": 1,\n"0": 2}}'))
    assert error.field == "0"


def test_broken_json_a_wrong_encoding_and_a_huge_line_are_located(write: Write, tmp_path: Path) -> None:
    broken = refusal(write("broken.json", '{"topic_id": {"0": 1}, "topic": '))
    assert broken.line == 1
    assert "at column 33" in str(broken)
    assert "is not UTF-8" in str(refusal(write("latin.json", b'{"topic": {"0": "caf\xe9"}}')))
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 30)
    assert "is larger than 268,435,456 bytes" in str(refusal(tmp_path / "huge.json"))
    assert "has no rows" in str(refusal(write("empty.json", qulac_table())))


def test_annotations_are_a_topic_s_distinct_questions_and_a_facet_s_pairs(write: Write) -> None:
    dataset = open_qulac(str(write("qulac.json", SMALL)), None, {})
    assert dataset.annotations is not None
    annotations = dataset.annotations()
    assert annotations.queries == {
        "t2": AnnotatedQuery("2", "t2", ("q one", "q two", "q ten")),
        "t11": AnnotatedQuery("11", "t11", ("q one",)),
    }
    assert annotations.pairs["2-3"] == (("q one", "a of three"),)
    assert annotations.pairs["11-1"] == (("q one", "yes"), ("q one", "no"))
    assert annotations.pairs.keys() == {instance.id for instance in dataset.instances()}


def test_topics_with_the_same_text_are_one_query(write: Write) -> None:
    rows = [qulac_row("1-1-1", "q", "a", topic="jaguar"), qulac_row("2-1-1", "r", "b", topic="jaguar")]
    annotations = open_qulac(str(write("qulac.json", qulac_table(*rows))), None, {}).annotations
    assert annotations is not None
    assert annotations().queries == {"jaguar": AnnotatedQuery("1", "jaguar", ("q", "r"))}


def test_annotations_are_not_read_before_they_are_asked_for(write: Write) -> None:
    """Instances need three columns; that the others are missing shows only here."""
    table = {name: SMALL[name] for name in ("topic_facet_id", "topic", "facet_desc")}
    dataset = open_qulac(str(write("qulac.json", table)), None, {})
    assert dataset.count == 3
    assert dataset.annotations is not None
    with pytest.raises(InputError, match="the column is missing"):
        dataset.annotations()


def test_real_file_holds_its_published_pairs(shared_data: Path) -> None:
    qulac = read_qulac(shared_data / "qulac.json")
    facets = [facet for topic in qulac.topics for facet in topic.facets]
    assert (len(qulac.topics), len(facets), sum(len(facet.pairs) for facet in facets)) == (198, 762, 10_277)
    assert {len(facet.pairs) for facet in facets} == set(range(7, 19))
    assert {repeated.id for repeated in qulac.repeated} == {"149-3-12", "154-3-14", "82-2-1"}
    assert qulac.slips == ("102-5",)
    wedding = next(facet for facet in facets if facet.id == "18-2").by_number
    assert wedding[10].question == "what is your projected budget for your wedding"
    assert wedding[10].answer == "i need to find a spreadsheet to figure it out"


SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "qulac.json"
needs_qulac = pytest.mark.skipif(not SHARED.exists(), reason=f"Qulac is not here: {SHARED}")


def table(*rows: tuple[str, str, str]) -> dict[str, Any]:
    names = ("topic_facet_id", "topic", "facet_desc")
    return {name: {str(i): row[n] for i, row in enumerate(rows)} for n, name in enumerate(names)}


def instances_refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        list(read_instances(path))
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_instance_is_a_facet_not_a_row_in_order_of_appearance(write: Write) -> None:
    rows = [
        ("10-2", "toilet", "Find parts."),
        ("1-1", "obama", "Find photos."),
        ("10-2", "toilet", "Find parts."),
    ]
    assert list(read_instances(write("qulac.json", table(*rows)))) == [
        Instance("10-2", "Find parts.", "toilet"),
        Instance("1-1", "Find photos.", "obama"),
    ]


def test_escaped_quotes_are_undone() -> None:
    assert unescape(r"Find \"Barack Obama\'s Family Tree\".") == 'Find "Barack Obama\'s Family Tree".'
    assert unescape(r"C:\temp") == r"C:\temp"


def test_gold_joins_by_facet(write: Write) -> None:
    gold = read_gold(write("gold.jsonl", [{"id": "1-1", "nuggets": [{"text": "x", "weight": 1}]}]))
    path = write("qulac.json", table(("1-1", "t", "d"), ("1-2", "t", "e")))
    assert [len(i.nuggets) for i in read_instances(path, gold)] == [1, 0]


def test_gold_that_joins_nowhere_is_refused(write: Write) -> None:
    gold = write("gold.jsonl", [{"id": "9-9", "nuggets": [{"text": "x", "weight": 1}]}])
    path = write("qulac.json", table(("1-1", "t", "d")))
    with pytest.raises(InputError, match=r"nothing in it can be joined.*'topic_facet_id'.*'id', 'nuggets'"):
        open_qulac(str(path), gold, {})


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"facet_desc": None}, "facet_desc", "must be an object"),
        ({"topic": ["t", "t"]}, "topic", "must be an object"),
        ({"topic": {"0": "t"}}, "topic", "has 1 rows that do not match the 2 of 'topic_facet_id'"),
        ({"topic": {"0": "t", "7": "t"}}, "topic", "do not match"),
        ({"topic": {"0": "t", "1": 5}}, "topic", "row 1: must be text, is a number"),
        ({"facet_desc": {"0": "d", "1": " "}}, "facet_desc", "row 1: is empty"),
        (
            {"topic_facet_id": {"0": "1-1", "1": "1-1"}},
            "topic_facet_id",
            "row 1: the facet '1-1' occurs earlier",
        ),
    ],
)
def test_invalid_instance_columns_are_located(
    write: Write, change: dict[str, Any], field: str, says: str
) -> None:
    error = instances_refusal(write("qulac.json", table(("1-1", "t", "d"), ("1-2", "t", "e")) | change))
    assert error.field == field
    assert says in str(error)


def test_missing_column_is_refused_with_those_there_are(write: Write) -> None:
    error = instances_refusal(write("qulac.json", {"topic_facet_id": {}, "topic": {}}))
    assert error.field == "facet_desc"
    assert "the columns are 'topic_facet_id', 'topic'" in str(error)


def test_table_without_rows_or_columns_is_no_qulac(write: Write, tmp_path: Path) -> None:
    assert "has no rows" in str(instances_refusal(write("a.json", table())))
    assert "must be an object of columns, is a list" in str(instances_refusal(write("b.json", "[]")))
    broken = instances_refusal(write("c.json", "{\n,"))
    assert broken.line == 2
    assert "no such file" in str(instances_refusal(tmp_path / "none.json"))
    with pytest.raises(UsageError, match="qulac:PATH"):
        open_qulac("", None, {})


@needs_qulac
def test_real_file_has_762_facets() -> None:
    dataset = open_qulac(str(SHARED), None, {})
    instances = list(dataset.instances())
    assert dataset.count == len(instances) == len({i.id for i in instances}) == 762
    assert instances[0].id == "1-1"
    assert instances[0].blurred_query == "obama family tree"
    assert instances[0].fused_query == 'Find the TIME magazine photo essay "Barack Obama\'s Family Tree".'
    assert not any("\\" in i.fused_query + i.blurred_query for i in instances)


@needs_qulac
def test_its_facets_divide_as_its_authors_say() -> None:
    """216 facets belong to ambiguous topics; 640 describe something else than their topic does."""
    columns = orjson.loads(SHARED.read_bytes())
    row_of = {facet: row for row, facet in columns["topic_facet_id"].items()}
    rows = [row_of[instance.id] for instance in read_instances(SHARED)]
    assert sum(columns["topic_type"][row] == "ambiguous" for row in rows) == 216
    assert sum(columns["facet_desc"][row] != columns["topic_desc"][row] for row in rows) == 640


def test_every_figure_is_counted_as_defined() -> None:
    """Three topics with 3, 1 and 0 facets; "a b" stands in two topics, so it is two questions but one text."""
    pairs = [("a b", "no"), ("a b", "yes i do"), ("c d e f", "no")]
    first = Facet("1-1", "inf", "d", tuple(Pair(n, *pair) for n, pair in enumerate(pairs)))
    other = Facet("1-2", "nav", "d", ())
    topics = [
        Topic(1, "t1", "faceted", "", (first, other, Facet("1-3", "inf", "d", ()))),
        Topic(2, "t2", "ambiguous", "", (Facet("2-1", "inf", "d", (Pair(1, "a b", "x"),)),)),
        Topic(3, "t3", "faceted", "", ()),
    ]
    assert {figure.name: figure.value for figure in qulac_figures(topics)} == {
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


def test_figure_is_reproduced_where_it_agrees_to_the_digits_published() -> None:
    assert Figure("x", 3.85, 3.8484, 2).reproduced
    assert not Figure("x", 3.85, 3.844, 2).reproduced
    assert Figure("x", 4, 4.0).reproduced
    assert not Figure("x", 198, 197).reproduced
    assert not Figure("x", 4, 4.5).reproduced


def test_averages_of_empty_collection_are_zero() -> None:
    assert {figure.value for figure in qulac_figures([])} == {0}


def test_real_file_reproduces_the_whole_table(shared_data: Path) -> None:
    figures = qulac_figures(read_qulac(shared_data / "qulac.json").topics)
    assert len(figures) == 12
    assert [figure for figure in figures if not figure.reproduced] == []
