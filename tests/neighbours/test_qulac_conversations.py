"""Qulac's record ids and artificial conversations, and retrieval after each over a few documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qulac_rows import SMALL

from cts_async.analysis.retrieval import pseudo_qrels
from cts_async.neighbours.qulac.collection import Facet, Pair, Topic, read_qulac
from cts_async.neighbours.qulac.conversations import (
    RecordId,
    conversations,
    counts_table,
    decode_record_id,
    evaluate_records,
    facet_records,
    question_gains,
)
from cts_async.search.backends import Page, Ranked
from cts_async.search.backends.corpus import Corpus
from cts_async.search.rankers import ConversationText, QueryLikelihoodRanker

NUMBERS = st.integers(1, 10**9 - 1)
ASKED = st.builds(
    RecordId, NUMBERS, NUMBERS, st.lists(NUMBERS, max_size=2).map(tuple), NUMBERS, st.booleans()
)
UNASKED = st.builds(RecordId, NUMBERS, NUMBERS, st.just(()), st.just(0), st.just(False))


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("18-2-1-2-10-1", RecordId(18, 2, (1, 2), 10, True)),
        ("18-2-1-2-10-0", RecordId(18, 2, (1, 2), 10, False)),
        ("25-1-3-8-1", RecordId(25, 1, (3,), 8, True)),
        ("18-2-10-1", RecordId(18, 2, (), 10, True)),
        ("18-2-0-0", RecordId(18, 2, (), 0, False)),
    ],
)
def test_readme_s_examples_decode(text: str, record: RecordId) -> None:
    assert decode_record_id(text) == record
    assert str(record) == text


@given(ASKED | UNASKED)
def test_record_id_survives_encoding_and_decoding(record: RecordId) -> None:
    assert decode_record_id(str(record)) == record


@given(st.from_regex(r"[0-9X-]{1,14}", fullmatch=True) | st.text(max_size=9))
def test_decoded_record_id_encodes_to_same_text(text: str) -> None:
    try:
        record = decode_record_id(text)
    except ValueError:
        return
    assert str(record) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "18-2",
        "18-2-1",
        "18-2-1-2",  # the flag is 0 or 1
        "18-2-1-2-3-4-1",  # three past questions
        "18-2-X-0",
        "18-2-01-1",
        "18-0-1-1",
        "18-2-3-0-0",  # no question, yet a history
        "18-2-0-1",  # no question, yet an answer
        "-18-2-1-1",
        "18-2-1-1\n",
        "١٨-2-1-1",
        "18-2-12345678901-1",
    ],
)
def test_anything_else_is_no_record_id(text: str) -> None:
    with pytest.raises(ValueError):
        decode_record_id(text)


def test_ids_sort_by_their_numbers_and_name_facet_and_history() -> None:
    ids = ["18-10-1-1", "18-2-10-1", "18-2-9-1", "9-1-1-0"]
    assert sorted(ids, key=decode_record_id) == ["9-1-1-0", "18-2-9-1", "18-2-10-1", "18-10-1-1"]
    record = RecordId(18, 2, (1, 2), 10, True)
    assert (record.facet_id, record.history_id) == ("18-2", "18-2-1-2")
    assert RecordId(18, 2, (), 10, True).history_id == "18-2"


Write = Callable[..., Path]


def topic(number: int, *facets: int) -> Topic:
    """A topic with a facet for each number of questions."""
    made = [
        Facet(f"{number}-{i}", "inf", "d", tuple(Pair(q, f"q{q}", f"a{q}") for q in range(1, n + 1)))
        for i, n in enumerate(facets, start=1)
    ]
    return Topic(number, f"t{number}", "faceted", "about", tuple(made))


def ids(*topics: Topic, turns: tuple[int, ...] = (1, 2, 3)) -> list[str]:
    return [str(conversation.id) for conversation in conversations(topics, turns)]


def test_facet_with_three_questions_has_three_six_and_three() -> None:
    """n C(n-1, h) at n = 3: 3, 3 * 2 and 3 * 1. Histories rise; the current question is any other one."""
    assert ids(topic(5, 3), turns=(1,)) == ["5-1-1-1", "5-1-2-1", "5-1-3-1"]
    assert ids(topic(5, 3), turns=(2,)) == [
        *("5-1-1-2-1", "5-1-1-3-1", "5-1-2-1-1", "5-1-2-3-1", "5-1-3-1-1", "5-1-3-2-1"),
    ]
    assert ids(topic(5, 3), turns=(3,)) == ["5-1-1-2-3-1", "5-1-1-3-2-1", "5-1-2-3-1-1"]
    assert [row["conversations"] for row in counts_table([topic(5, 3)]).rows] == [3, 6, 3, 12]


def test_record_has_the_fields_of_the_readme(write: Write) -> None:
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


@given(st.lists(st.integers(0, 6), min_size=1, max_size=3))
def test_formula_counts_conversations_and_ids_are_unique(facets: list[int]) -> None:
    made = ids(topic(1, *facets))
    assert counts_table([topic(1, *facets)]).rows[-1]["conversations"] == len(made) == len(set(made))


def test_first_conversations_are_generated_lazily() -> None:
    """Of endlessly many topics with 10^8 conversations each nobody could wait for more than a few."""

    def endless() -> Iterator[Topic]:
        taken.append(1)
        yield topic(1, 600)
        taken.append(2)
        yield topic(2, 600)

    taken: list[int] = []
    first = list(islice(conversations(endless()), 1_000))
    assert str(first[-1].id) == "1-1-1-401-1"
    assert taken == [1]
    assert counts_table([topic(1, 600)]).rows[-1]["conversations"] == 600 + 600 * 599 + 600 * 599 * 598 // 2


def test_real_file_gives_922_114_with_the_readme_s_examples_among_them(shared_data: Path) -> None:
    topics = read_qulac(shared_data / "qulac.json").topics
    counts = [row["conversations"] for row in counts_table(topics).rows]
    assert counts == [10_274, 130_670, 781_170, 922_114]
    records = {str(c.id): c.as_record() for c in conversations(t for t in topics if t.id in (18, 25))}
    assert records["25-1-3-8-1"]["question"] == "do you want to know related people"
    assert records["25-1-3-8-1"]["history_list"] == [
        {
            "question": "do you need directions to euclid ave",
            "answer": "no i am looking for information on the greek mathematician euclid",
        }
    ]
    assert [pair["answer"] for pair in records["18-2-1-2-10-1"]["history_list"]] == [
        "no i just want to find spreadsheets and templates",
        "yes i want to find some spreadsheets to help me budget",
    ]


PAIRS = (Pair(10, "ten", "a ten"), Pair(2, "two", "a two"), Pair(3, "three", "a three"))
FACET = Facet("7-1", "inf", "about", PAIRS)
TOPIC = Topic(7, "topic", "faceted", "", (FACET, Facet("7-10", "inf", "", ()), Facet("7-2", "inf", "", ())))


def test_topic_alone_then_every_question_without_its_answer_and_with_it() -> None:
    assert facet_records(TOPIC, FACET, [1]) == {
        "7-1-0-0": ConversationText("topic"),
        "7-1-2-0": ConversationText("topic", ("two",)),
        "7-1-2-1": ConversationText("topic", ("two",), ("a two",)),
        "7-1-3-0": ConversationText("topic", ("three",)),
        "7-1-3-1": ConversationText("topic", ("three",), ("a three",)),
        "7-1-10-0": ConversationText("topic", ("ten",)),
        "7-1-10-1": ConversationText("topic", ("ten",), ("a ten",)),
    }
    assert list(facet_records(TOPIC, FACET, [1], [False])) == ["7-1-0-0", "7-1-2-0", "7-1-3-0", "7-1-10-0"]


def test_past_questions_have_their_answers_and_order_makes_no_difference() -> None:
    records = facet_records(TOPIC, FACET, [2])
    assert records["7-1-10-2-0"] == ConversationText("topic", ("two", "ten"), ("a ten",))
    assert records["7-1-10-2-1"] == records["7-1-2-10-1"]
    assert list(records)[:4] == ["7-1-0-0", "7-1-2-3-0", "7-1-2-3-1", "7-1-2-10-0"]


def test_answers_improve_retrieval_on_real_topics(shared_data: Path) -> None:
    """With pseudo-judgments: asking at random is better than not asking, the best question much better."""
    topics = read_qulac(shared_data / "qulac.json").topics[:12]
    documents = islice(Corpus.open(shared_data / "wiki_en.jsonl").documents(), 4000)
    ranker = QueryLikelihoodRanker(documents)
    facets = {facet.id: (topic, facet) for topic in topics for facet in topic.facets}
    judged = pseudo_qrels(ranker, {id: facet.description for id, (_, facet) in facets.items()}, 10)
    values = {}
    for id, grades in judged.items():
        records = facet_records(*facets[id], [1])
        values |= evaluate_records(ranker, grades, records, ["NDCG20"])["NDCG20"]
    (oracle,) = question_gains(values).oracle
    assert oracle["facets"] == len(facets)
    assert oracle["none"] is not None
    assert oracle["worst"] < oracle["none"] < oracle["mean"] < oracle["best"]


TEXTS = ("jaguar car engine", "jaguar cat jungle", "cow grass milk")


class Counting(QueryLikelihoodRanker):
    """Remembers what it ranked, and how deep."""

    def __init__(self) -> None:
        super().__init__(Page(f"d{n}", f"u{n}", "", text) for n, text in enumerate(TEXTS))
        self.asked: list[tuple[ConversationText, int]] = []

    def rank_conversation(self, conversation: ConversationText, limit: int) -> list[Ranked]:
        self.asked.append((conversation, limit))
        return super().rank_conversation(conversation, limit)


def test_answer_improves_retrieval() -> None:
    """The question alone finds the car first; the cat is meant, and holds one of the two words, as cows do not."""
    texts = {
        "1-1-1-0": ConversationText("jaguar", ("the car",)),
        "1-1-1-1": ConversationText("jaguar", ("the car",), ("no the cat in the jungle",)),
    }
    found = evaluate_records(Counting(), {"d1": 2, "d0": 0}, texts, ["P1", "MRR100"])
    assert found == {"P1": {"1-1-1-0": 0.0, "1-1-1-1": 1.0}, "MRR100": {"1-1-1-0": 0.5, "1-1-1-1": 1.0}}


def test_same_words_are_ranked_once_as_deep_as_the_measures_look() -> None:
    ranker, one, other = Counting(), ConversationText("jaguar"), ConversationText("jaguar", ("car",))
    found = evaluate_records(ranker, {"d0": 1}, {"a": one, "b": other, "c": one}, ["P1", "NDCG200"])
    assert list(found["P1"]) == ["a", "b", "c"]
    assert ranker.asked == [(one, 200), (other, 200)]
    evaluate_records(ranker, {"d0": 1}, {"a": one}, ["P1"])
    evaluate_records(ranker, {"d0": 1}, {"a": one}, ["MAP", "P1"])
    assert [depth for _, depth in ranker.asked[2:]] == [100, 1000]


def test_intent_without_a_relevant_document_counts_zero() -> None:
    found = evaluate_records(Counting(), {"d0": 0, "d1": -2}, {"a": ConversationText("jaguar")}, ["P1"])
    assert found == {"P1": {"a": 0.0}}


def test_value_does_not_depend_on_the_other_measures() -> None:
    """The query ties two documents, and trec_eval puts d1 before d0."""
    tied, judged = {"a": ConversationText("jaguar")}, {"d1": 1}
    alone = evaluate_records(Counting(), judged, tied, ["P1"])
    together = evaluate_records(Counting(), judged, tied, ["P1", "MRR100"])
    assert alone["P1"] == together["P1"] == {"a": 1.0}
