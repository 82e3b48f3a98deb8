"""What retrieval is asked of a facet, and the means over facets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.analysis.retrieval import standin_qrels
from cts_async.neighbours.qulac.collection import Facet, Pair, Topic, read_qulac
from cts_async.neighbours.qulac.gains import FacetMeans, evaluated, question_gains
from cts_async.neighbours.qulac.retrieval import METRICS, evaluate_conversations, facet_records, walk_facets
from cts_async.search.backends.corpus import Corpus
from cts_async.search.rankers import Conversation, QueryLikelihoodRanker, TermIndex

PAIRS = (Pair(10, "ten", "a ten"), Pair(2, "two", "a two"), Pair(3, "three", "a three"))
FACET = Facet("7-1", "inf", "about", PAIRS)
TOPIC = Topic(7, "topic", "faceted", "", (FACET, Facet("7-10", "inf", "", ()), Facet("7-2", "inf", "", ())))


def test_the_topic_alone_then_every_question_without_its_answer_and_with_it() -> None:
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


def test_facets_with_judgments_come_by_number() -> None:
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
    (at_once,) = question_gains(evaluated(facets[0] | facets[1])).oracle
    assert (oracle.best, oracle.gain, oracle.n) == pytest.approx((at_once.best, at_once.gain, at_once.n))


def test_a_facet_without_a_question_counts_nowhere_in_the_gains() -> None:
    means = FacetMeans()
    means.add({"P1": {"1-1-0-0": 0.5}})
    assert means.gains() == {}


def test_the_metrics_are_the_eleven_of_the_readme() -> None:
    assert sorted(METRICS) == sorted(
        ["MRR100", *(f"{family}{depth}" for family in ("NDCG", "P") for depth in (1, 3, 5, 10, 20))]
    )


def test_on_real_topics_answers_come_closer_to_what_was_meant(shared_data: Path) -> None:
    """With stand-in judgments: asking at random is better than not asking, the best question much better."""
    topics = read_qulac(shared_data / "qulac.json").topics[:12]
    ranker = QueryLikelihoodRanker(TermIndex.build(Corpus.open(shared_data / "wiki_en.jsonl").documents()))
    facets = {facet.id: facet.description for topic in topics for facet in topic.facets}
    judged, means = standin_qrels(ranker, facets, 10), FacetMeans()
    for topic, facet in walk_facets(topics, judged):
        records = facet_records(topic, facet, [1])
        means.add(evaluate_conversations(ranker, judged[facet.id], records, ["NDCG20"]))
    (oracle,) = means.gains()["NDCG20"].oracle
    assert oracle.n == len(facets)
    assert oracle.none is not None
    assert oracle.worst < oracle.none < oracle.mean < oracle.best
