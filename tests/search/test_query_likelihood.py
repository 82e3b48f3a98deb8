"""Query likelihood with Dirichlet smoothing: by hand, by its equation, and by what has to hold of it."""

from __future__ import annotations

from collections import Counter
from math import isclose, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import UsageError
from cts_async.search.backends.base import Page
from cts_async.search.rankers import (
    Conversation,
    QueryLikelihoodRanker,
    TermIndex,
    Weights,
)


def index_of(*texts: str) -> TermIndex:
    return TermIndex.build(Page(f"d{n}", f"u{n}", "", text) for n, text in enumerate(texts))


THREE = ("fox fox hen", "fox dog", "hen hen hen dog cow")


def test_the_index_counts_words_by_document() -> None:
    index = index_of(*THREE)
    assert (index.ids, index.lengths.tolist(), index.total) == (("d0", "d1", "d2"), [3, 2, 5], 10)
    postings = {
        term: [part.tolist() for part in index.postings(number)] for term, number in index.vocabulary.items()
    }
    assert postings == {
        "fox": [[0, 1], [2, 1]],
        "hen": [[0, 2], [1, 3]],
        "dog": [[1, 2], [1, 1]],
        "cow": [[2], [1]],
    }


def test_three_documents_by_hand() -> None:
    """mu = 10, |C| = 10, so a term that stands c times in C adds c to its numerator, over 10 + |d|.

    The query is "fox" (3 in C), the history "hen cow" (4 and 1 in C): p = 1/2, 1/4, 1/4.
    """
    ranker = QueryLikelihoodRanker(index_of(*THREE), mu=10)
    ranked = ranker.rank_conversation(Conversation("fox", ("hen",), ("cow",)), 5)
    assert dict(ranked) == {
        "d0": pytest.approx(log(5 / 13) / 2 + log(5 / 13) / 4 + log(1 / 13) / 4),
        "d1": pytest.approx(log(4 / 12) / 2 + log(4 / 12) / 4 + log(1 / 12) / 4),
        "d2": pytest.approx(log(3 / 15) / 2 + log(7 / 15) / 4 + log(2 / 15) / 4),
    }
    assert [found.id for found in ranked] == ["d0", "d1", "d2"]


def test_a_query_alone_has_the_query_model_alone() -> None:
    ranker = QueryLikelihoodRanker(index_of(*THREE), mu=10)
    assert ranker.rank("foxes", 1) == [("d0", pytest.approx(log(5 / 13)))]
    assert ranker.rank_conversation(Conversation("fox", ("",), ("is it",)), 3) == ranker.rank("fox", 3)


def test_words_that_are_nowhere_in_the_collection_are_left_out_but_dilute_their_text() -> None:
    """As published: p(fox | query) is 1/2, and the other half of the query says nothing."""
    ranker = QueryLikelihoodRanker(index_of(*THREE), mu=10)
    assert ranker.rank("fox unicorn", 1) == [("d0", pytest.approx(log(5 / 13) / 2))]
    assert ranker.rank("unicorn", 3) == []
    assert ranker.rank("fox", 0) == []


def test_documents_of_equal_score_stand_in_the_order_of_the_corpus() -> None:
    ranker = QueryLikelihoodRanker(index_of("cow", "fox", "cow", "fox"))
    assert [found.id for found in ranker.rank("fox", 9)] == ["d1", "d3", "d0", "d2"]


def test_stop_words_count_where_a_query_has_nothing_else() -> None:
    pages = [Page("d0", "u0", "Fox", "who is the fox"), Page("d1", "u1", "The Who", "a band")]
    ranker = QueryLikelihoodRanker(TermIndex.build(pages))
    assert ranker.rank("the who", 1)[0].id == "d1"


def test_questions_and_answers_may_have_weights_of_their_own() -> None:
    ranker = QueryLikelihoodRanker(index_of(*THREE), mu=10, weights=Weights(0.5, answers=0.4))
    ranked = dict(ranker.rank_conversation(Conversation("fox", ("hen",), ("cow",)), 5))
    assert ranked["d1"] == pytest.approx(0.5 * log(4 / 12) + 0.1 * log(4 / 12) + 0.4 * log(1 / 12))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (Weights(), [0.5, 0.3, 0.1, 0.1]),
        (Weights(0.2), [0.2, 0.48, 0.16, 0.16]),
        (Weights(0.5, answers=0.1), [0.5, 0.3, 0.1, 0.1]),
        (Weights(0.2, answers=0.8), [0.2, 0.0, 0.0, 0.8]),
    ],
)
def test_texts_of_a_part_share_its_weight_by_their_words(weights: Weights, expected: list[float]) -> None:
    """A query of 2 words, questions of 6 and 2, an answer of 2."""
    assert weights.of_texts(2, [6, 2], [2]) == pytest.approx(expected)


def test_what_was_not_said_leaves_its_weight_to_the_others() -> None:
    assert Weights().of_texts(2, [], []) == [1.0]
    assert Weights().of_texts(0, [3], [1]) == [0.0, 0.75, 0.25]
    assert Weights(0.2, answers=0.4).of_texts(2, [3], [0]) == pytest.approx([1 / 3, 2 / 3, 0.0])
    assert Weights(0.0).of_texts(2, [], []) == [0.0]


@pytest.mark.parametrize("weights", [(-0.1, None), (1.1, None), (0.6, 0.5), (float("nan"), None)])
def test_weights_beyond_one_are_refused(weights: tuple[float, float | None]) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        Weights(*weights)


@pytest.mark.parametrize("mu", [0, -1, float("nan"), float("inf")])
def test_smoothing_needs_a_weight_above_zero(mu: float) -> None:
    with pytest.raises(UsageError, match="mu must be"):
        QueryLikelihoodRanker(index_of(*THREE), mu=mu)


WORDS = st.lists(st.sampled_from(["ant", "bee", "cow", "dog", "elk", "zzz"]), max_size=6)
TEXT = WORDS.map(" ".join)
DOCUMENTS = st.lists(
    st.lists(st.sampled_from(["ant", "bee", "cow", "dog", "elk"]), min_size=1, max_size=9).map(" ".join),
    min_size=1,
    max_size=5,
)
SHARE = st.floats(0, 1)


def equation(texts: list[str], query_model: dict[str, float], mu: float) -> dict[str, float]:
    """The third line of the module's equations, word for word."""
    documents = {f"d{n}": Counter(text.split()) for n, text in enumerate(texts)}
    everywhere = sum(documents.values(), Counter())
    scores = {}
    for name, held in documents.items():
        smooth = mu / (mu + held.total())
        scores[name] = sum(
            share * log(held[t] / (mu + held.total()) + smooth * everywhere[t] / everywhere.total())
            for t, share in query_model.items()
            if everywhere[t]
        )
    return scores


def likelihoods(text: str) -> dict[str, float]:
    words = text.split()
    return {word: count / len(words) for word, count in Counter(words).items()}


@given(DOCUMENTS, WORDS.filter(bool).map(" ".join), TEXT, TEXT, SHARE, st.sampled_from([0.5, 10.0, 1500.0]))
def test_every_score_is_what_the_equation_says(texts, query, question, answer, alpha, mu) -> None:
    asked, said = likelihoods(query), likelihoods(f"{question} {answer}")
    share = alpha if said else 1.0
    model = {t: share * asked.get(t, 0) + (1 - share) * said.get(t, 0) for t in {*asked, *said}}
    ranker = QueryLikelihoodRanker(index_of(*texts), mu=mu, weights=Weights(alpha))
    ranked = ranker.rank_conversation(Conversation(query, (question,), (answer,)), 9)
    for name, score in ranked:
        assert isclose(score, equation(texts, model, mu)[name], rel_tol=1e-9, abs_tol=1e-9)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)


@given(SHARE, SHARE, *[st.lists(st.integers(0, 20), max_size=4)] * 2, st.integers(1, 20))
def test_the_weights_of_all_texts_sum_to_one(alpha, part, questions, answers, query) -> None:
    for weights in (Weights(alpha), Weights(alpha, answers=part * (1 - alpha))):
        total = sum(weights.of_texts(query, questions, answers))
        assert isclose(total, 1) or (total == 0 and weights.query == 0)


@given(DOCUMENTS, TEXT, TEXT, TEXT)
def test_alpha_one_hears_the_query_alone(texts, query, question, answer) -> None:
    ranker = QueryLikelihoodRanker(index_of(*texts), weights=Weights(1.0))
    conversation = Conversation(query, (question,), (answer,))
    assert ranker.rank_conversation(conversation, 9) == ranker.rank(query, 9)


@given(st.integers(0, 5), st.integers(1, 4), st.integers(0, 5))
def test_a_word_more_in_place_of_another_never_lowers_a_document(often, more, others) -> None:
    rest = ["cow"] * (others + more)
    fewer, many = ["ant"] * often + rest, ["ant"] * (often + more) + rest[more:]
    ranker = QueryLikelihoodRanker(index_of(" ".join(fewer), " ".join(many), "ant"))
    scores = dict(ranker.rank("ant", 9))
    assert scores["d1"] > scores["d0"]


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 9))
def test_of_documents_that_say_it_as_often_the_shorter_is_better(often, others, longer) -> None:
    short, long = (" ".join(["ant"] * often + ["cow"] * n) for n in (others, others + longer))
    ranker = QueryLikelihoodRanker(index_of(long, short))
    assert [found.id for found in ranker.rank("ant", 9)] == ["d1", "d0"]


def test_columns_forgotten_for_want_of_room_are_computed_again() -> None:
    ranker = QueryLikelihoodRanker(index_of(*THREE))
    ranker._most = 2
    before = ranker.rank("fox", 3)
    for query in ("hen", "cow", "dog"):
        ranker.rank(query, 1)
    assert len(ranker._columns) == 2
    assert ranker.rank("fox", 3) == before
