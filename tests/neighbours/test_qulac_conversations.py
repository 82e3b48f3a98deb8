"""Artificial conversations: which there are, how many, and that none is made before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qulac_rows import SMALL

from cts_async.neighbours.qulac.collection import Facet, Pair, Topic, read_qulac
from cts_async.neighbours.qulac.records import TURNS, conversations, count_conversations, encode_record_id

Write = Callable[..., Path]


def topic(number: int, *facets: int) -> Topic:
    """A topic with a facet for each number of questions."""
    made = [
        Facet(f"{number}-{i}", "inf", "d", tuple(Pair(q, f"q{q}", f"a{q}") for q in range(1, n + 1)))
        for i, n in enumerate(facets, start=1)
    ]
    return Topic(number, f"t{number}", "faceted", "about", tuple(made))


def ids(*topics: Topic, turns: tuple[int, ...] = TURNS) -> list[str]:
    return [encode_record_id(conversation.id) for conversation in conversations(topics, turns)]


def test_a_facet_with_three_questions_has_three_six_and_three() -> None:
    """n C(n-1, h) at n = 3: 3, 3 * 2 and 3 * 1. Histories rise; the current question is any other one."""
    assert ids(topic(5, 3), turns=(1,)) == ["5-1-1-1", "5-1-2-1", "5-1-3-1"]
    assert ids(topic(5, 3), turns=(2,)) == [
        *("5-1-1-2-1", "5-1-1-3-1", "5-1-2-1-1", "5-1-2-3-1", "5-1-3-1-1", "5-1-3-2-1"),
    ]
    assert ids(topic(5, 3), turns=(3,)) == ["5-1-1-2-3-1", "5-1-1-3-2-1", "5-1-2-3-1-1"]
    assert count_conversations([topic(5, 3)]) == {1: 3, 2: 6, 3: 3}


def test_a_record_has_what_the_readme_says(write: Write) -> None:
    topics = read_qulac(write("qulac.json", SMALL)).topics
    records = {record["id"]: record for record in (c.as_record() for c in conversations(topics))}
    assert records["2-1-1-10-2-1"] == {
        "id": "2-1-1-10-2-1",
        "history_id": "2-1-1-10",
        "history_list": [
            {"question": "q one", "answer": "a one"},
            {"question": "q ten", "answer": "a ten"},
        ],
        "query": "t2",
        "question": "q two",
        "answer": "a two",
    }
    assert (records["2-1-2-1"]["history_id"], records["2-1-2-1"]["history_list"]) == ("2-1", [])


def test_of_two_answers_under_one_id_the_first_stands(write: Write) -> None:
    (conversation,) = conversations(read_qulac(write("qulac.json", SMALL)).topics[1:])
    assert conversation.current == Pair(1, "q one", "yes")


def test_a_length_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 3 turns, not 4"):
        list(conversations([], (1, 4)))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=3))
def test_the_formula_counts_what_is_made_and_no_id_occurs_twice(facets: list[int]) -> None:
    made = ids(topic(1, *facets))
    assert sum(count_conversations([topic(1, *facets)]).values()) == len(made) == len(set(made))


def test_the_first_come_without_making_the_others() -> None:
    """Of endlessly many topics with 10^8 conversations each nobody could wait for more than a few."""

    def endless() -> Iterator[Topic]:
        taken.append(1)
        yield topic(1, 600)
        taken.append(2)
        yield topic(2, 600)

    taken: list[int] = []
    first = list(islice(conversations(endless()), 1_000))
    assert encode_record_id(first[-1].id) == "1-1-1-401-1"
    assert taken == [1]
    assert sum(count_conversations([topic(1, 600)]).values()) == 600 + 600 * 599 + 600 * 599 * 598 // 2


def test_the_real_file_gives_922_114_with_the_readme_s_examples_among_them(shared_data: Path) -> None:
    topics = read_qulac(shared_data / "qulac.json").topics
    assert count_conversations(topics) == {1: 10_274, 2: 130_670, 3: 781_170}
    records = {
        encode_record_id(c.id): c.as_record() for c in conversations(t for t in topics if t.id in (18, 25))
    }
    assert records["25-1-3-8-1"] == {
        "id": "25-1-3-8-1",
        "history_id": "25-1-3",
        "history_list": [
            {
                "answer": "no i am looking for information on the greek mathematician euclid",
                "question": "do you need directions to euclid ave",
            }
        ],
        "query": "euclid",
        "question": "do you want to know related people",
        "answer": "no i only want to know about one particular person",
    }
    assert [pair["answer"] for pair in records["18-2-1-2-10-1"]["history_list"]] == [
        "no i just want to find spreadsheets and templates",
        "yes i want to find some spreadsheets to help me budget",
    ]
