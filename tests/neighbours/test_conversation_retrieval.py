"""Retrieval after conversations about one intent."""

from __future__ import annotations

from cts_async.neighbours.qulac.retrieval import evaluate_conversations
from cts_async.search.backends.base import Page
from cts_async.search.rankers import Conversation, QueryLikelihoodRanker, Ranked, TermIndex

TEXTS = ("jaguar car engine", "jaguar cat jungle", "cow grass milk")


class Counting(QueryLikelihoodRanker):
    """Remembers what it ranked, and how deep."""

    def __init__(self) -> None:
        super().__init__(TermIndex.build(Page(f"d{n}", f"u{n}", "", text) for n, text in enumerate(TEXTS)))
        self.asked: list[tuple[Conversation, int]] = []

    def rank_conversation(self, said: Conversation, limit: int) -> list[Ranked]:
        self.asked.append((said, limit))
        return super().rank_conversation(said, limit)


def test_an_answer_finds_what_was_meant() -> None:
    """The question alone finds the car first; the cat is meant, and holds one of the two words, as cows do not."""
    said = {
        "1-1-1-0": Conversation("jaguar", ("the car",)),
        "1-1-1-1": Conversation("jaguar", ("the car",), ("no the cat in the jungle",)),
    }
    found = evaluate_conversations(Counting(), {"d1": 2, "d0": 0}, said, ["P1", "MRR100"])
    assert found == {"P1": {"1-1-1-0": 0.0, "1-1-1-1": 1.0}, "MRR100": {"1-1-1-0": 0.5, "1-1-1-1": 1.0}}


def test_the_same_words_are_ranked_once_as_deep_as_the_measures_look() -> None:
    ranker, one, other = Counting(), Conversation("jaguar"), Conversation("jaguar", ("car",))
    found = evaluate_conversations(ranker, {"d0": 1}, {"a": one, "b": other, "c": one}, ["P1", "NDCG200"])
    assert list(found["P1"]) == ["a", "b", "c"]
    assert ranker.asked == [(one, 200), (other, 200)]
    evaluate_conversations(ranker, {"d0": 1}, {"a": one}, ["P1"])
    evaluate_conversations(ranker, {"d0": 1}, {"a": one}, ["MAP", "P1"])
    assert [depth for _, depth in ranker.asked[2:]] == [100, 1000]


def test_an_intent_without_a_relevant_document_counts_zero() -> None:
    found = evaluate_conversations(Counting(), {"d0": 0, "d1": -2}, {"a": Conversation("jaguar")}, ["P1"])
    assert found == {"P1": {"a": 0.0}}


def test_a_value_does_not_depend_on_the_other_measures() -> None:
    """The query ties two documents, and trec_eval puts d1 before d0."""
    tied, judged = {"a": Conversation("jaguar")}, {"d1": 1}
    alone = evaluate_conversations(Counting(), judged, tied, ["P1"])
    together = evaluate_conversations(Counting(), judged, tied, ["P1", "MRR100"])
    assert alone["P1"] == together["P1"] == {"a": 1.0}
