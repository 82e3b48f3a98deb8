"""Retrieval after each of Qulac's conversations, over a few documents."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from cts_async.analysis.retrieval import standin_qrels
from cts_async.neighbours.qulac.collection import Facet, Pair, Topic, read_qulac
from cts_async.neighbours.qulac.gains import FacetMeans, question_gains
from cts_async.neighbours.qulac.retrieval import METRICS, evaluate_conversations, facet_records, walk_facets
from cts_async.search.backends.base import Page
from cts_async.search.backends.corpus import Corpus
from cts_async.search.rankers import (
    Conversation,
    QueryLikelihoodRanker,
    Ranked,
    TermIndex,
)

PAIRS = (Pair(10, "ten", "a ten"), Pair(2, "two", "a two"), Pair(3, "three", "a three"))
FACET = Facet("7-1", "inf", "about", PAIRS)
TOPIC = Topic(7, "topic", "faceted", "", (FACET, Facet("7-10", "inf", "", ()), Facet("7-2", "inf", "", ())))


def test_topic_alone_then_every_question_without_its_answer_and_with_it() -> None:
    assert facet_records(TOPIC, FACET, [1]) == {
        "7-1-0-0": Conversation("topic"),
        "7-1-2-0": Conversation("topic", ("two",)),
        "7-1-2-1": Conversation("topic", ("two",), ("a two",)),
        "7-1-3-0": Conversation("topic", ("three",)),
        "7-1-3-1": Conversation("topic", ("three",), ("a three",)),
        "7-1-10-0": Conversation("topic", ("ten",)),
        "7-1-10-1": Conversation("topic", ("ten",), ("a ten",)),
    }
    assert list(facet_records(TOPIC, FACET, [1], [False])) == ["7-1-0-0", "7-1-2-0", "7-1-3-0", "7-1-10-0"]


def test_past_questions_have_their_answers_and_order_makes_no_difference() -> None:
    records = facet_records(TOPIC, FACET, [2])
    assert records["7-1-10-2-0"] == Conversation("topic", ("two", "ten"), ("a ten",))
    assert records["7-1-10-2-1"] == records["7-1-2-10-1"]
    assert list(records)[:4] == ["7-1-0-0", "7-1-2-3-0", "7-1-2-3-1", "7-1-2-10-0"]


def test_facets_with_judgments_are_yielded_by_number() -> None:
    judged = {"7-10": {"d": 1}, "7-2": {"d": 1}, "3-1": {"d": 0}, "7-1": {}}
    other = Topic(3, "t", "faceted", "", (Facet("3-1", "inf", "", ()),))
    assert [facet.id for _, facet in walk_facets([TOPIC, other], judged)] == ["3-1", "7-2", "7-10"]


def test_means_over_facets_are_those_of_all_at_once() -> None:
    """Bests 0.8 and 0.4, worsts 0.2 and 0.4, means 0.5 and 0.4, none 0.5 and 0.1."""
    facets = [
        {"1-1-0-0": 0.5, "1-1-1-1": 0.8, "1-1-2-1": 0.2, "1-1-1-0": 0.9},
        {"1-2-0-0": 0.1, "1-2-1-1": 0.4},
    ]
    means = FacetMeans()
    for facet in facets:
        means.add({"P1": facet})
    (oracle,) = means.gains()["P1"].oracle
    assert (oracle.none, oracle.worst, oracle.mean, oracle.best, oracle.gain) == pytest.approx(
        (0.3, 0.3, 0.45, 0.6, 0.3)
    )
    (at_once,) = question_gains(facets[0] | facets[1]).oracle
    assert (oracle.best, oracle.gain, oracle.facets) == pytest.approx(
        (at_once.best, at_once.gain, at_once.facets)
    )


def test_facet_without_a_question_counts_nowhere_in_the_gains() -> None:
    means = FacetMeans()
    means.add({"P1": {"1-1-0-0": 0.5}})
    assert means.gains() == {}


def test_metrics_are_the_eleven_of_the_readme() -> None:
    assert sorted(METRICS) == sorted(
        ["MRR100", *(f"{family}{depth}" for family in ("NDCG", "P") for depth in (1, 3, 5, 10, 20))]
    )


def test_answers_improve_retrieval_on_real_topics(shared_data: Path) -> None:
    """With stand-in judgments: asking at random is better than not asking, the best question much better."""
    topics = read_qulac(shared_data / "qulac.json").topics[:12]
    documents = islice(Corpus.open(shared_data / "wiki_en.jsonl").documents(), 4000)
    ranker = QueryLikelihoodRanker(TermIndex.build(documents))
    facets = {facet.id: facet.description for topic in topics for facet in topic.facets}
    judged, means = standin_qrels(ranker, facets, 10), FacetMeans()
    for topic, facet in walk_facets(topics, judged):
        records = facet_records(topic, facet, [1])
        means.add(evaluate_conversations(ranker, judged[facet.id], records, ["NDCG20"]))
    (oracle,) = means.gains()["NDCG20"].oracle
    assert oracle.facets == len(facets)
    assert oracle.none is not None
    assert oracle.worst < oracle.none < oracle.mean < oracle.best


TEXTS = ("jaguar car engine", "jaguar cat jungle", "cow grass milk")


class Counting(QueryLikelihoodRanker):
    """Remembers what it ranked, and how deep."""

    def __init__(self) -> None:
        super().__init__(TermIndex.build(Page(f"d{n}", f"u{n}", "", text) for n, text in enumerate(TEXTS)))
        self.asked: list[tuple[Conversation, int]] = []

    def rank_conversation(self, said: Conversation, limit: int) -> list[Ranked]:
        self.asked.append((said, limit))
        return super().rank_conversation(said, limit)


def test_answer_improves_retrieval() -> None:
    """The question alone finds the car first; the cat is meant, and holds one of the two words, as cows do not."""
    said = {
        "1-1-1-0": Conversation("jaguar", ("the car",)),
        "1-1-1-1": Conversation("jaguar", ("the car",), ("no the cat in the jungle",)),
    }
    found = evaluate_conversations(Counting(), {"d1": 2, "d0": 0}, said, ["P1", "MRR100"])
    assert found == {"P1": {"1-1-1-0": 0.0, "1-1-1-1": 1.0}, "MRR100": {"1-1-1-0": 0.5, "1-1-1-1": 1.0}}


def test_same_words_are_ranked_once_as_deep_as_the_measures_look() -> None:
    ranker, one, other = Counting(), Conversation("jaguar"), Conversation("jaguar", ("car",))
    found = evaluate_conversations(ranker, {"d0": 1}, {"a": one, "b": other, "c": one}, ["P1", "NDCG200"])
    assert list(found["P1"]) == ["a", "b", "c"]
    assert ranker.asked == [(one, 200), (other, 200)]
    evaluate_conversations(ranker, {"d0": 1}, {"a": one}, ["P1"])
    evaluate_conversations(ranker, {"d0": 1}, {"a": one}, ["MAP", "P1"])
    assert [depth for _, depth in ranker.asked[2:]] == [100, 1000]


def test_intent_without_a_relevant_document_counts_zero() -> None:
    found = evaluate_conversations(Counting(), {"d0": 0, "d1": -2}, {"a": Conversation("jaguar")}, ["P1"])
    assert found == {"P1": {"a": 0.0}}


def test_value_does_not_depend_on_the_other_measures() -> None:
    """The query ties two documents, and trec_eval puts d1 before d0."""
    tied, judged = {"a": Conversation("jaguar")}, {"d1": 1}
    alone = evaluate_conversations(Counting(), judged, tied, ["P1"])
    together = evaluate_conversations(Counting(), judged, tied, ["P1", "MRR100"])
    assert alone["P1"] == together["P1"] == {"a": 1.0}
