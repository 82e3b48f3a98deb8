"""Features of panes, computed by hand."""

from __future__ import annotations

from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.neighbours.mimics_duo.features import (
    FEATURES,
    Collection,
    PaneText,
    bm25,
    collections,
    features,
    matching_terms,
    tf_idf_cosine,
    words_of,
)

PANE = PaneText("win 10", "Which win do you run?", ("win 10", "", "win 7"))
KNOWN = Collection.of([["a", "b"], ["a", "c", "c", "d"]])
"""Two texts of three words on average; "a" occurs in both."""
WORDS = st.lists(st.sampled_from("abcde"), max_size=6)


def test_table_5_names_the_columns() -> None:
    assert len(FEATURES) == 3 * 6 + 2 == len(set(FEATURES))
    for named in (
        "BM25 (Query, Clarification Question + Option2)",
        "CosineSimilarity_TF-IDF (Clarification Pane, Query)",
        "Overall Matching Terms (Query, Clarification Question + Option5)",
        "The clarification is a Statement or a Question",
    ):
        assert named in FEATURES


def test_pane_is_its_question_with_all_options_and_with_each() -> None:
    words = words_of(PANE)
    question = ("which", "win", "do", "you", "run")
    assert words.query == ("win", "10")
    assert words.fields == (
        (*question, "win", "10", "win", "7"),
        (*question, "win", "10"),
        None,
        (*question, "win", "7"),
        None,
        None,
    )
    assert (words.options, words.is_question) == (2, True)


def test_sixth_option_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 5"):
        words_of(PaneText("q", "s", ("o",) * 6))


def test_bm25_by_hand() -> None:
    """c: idf ln(1 + 1.5 / 1.5), tf 2 in a text of 4 where 3 is usual; a: idf ln(1 + .5 / 2.5), tf 1 in one of 3."""
    assert bm25(["c"], ["a", "c", "c", "d"], KNOWN) == pytest.approx(
        log(2) * 2 * 2.2 / (2 + 1.2 * (0.25 + 1))
    )
    assert bm25(["a"], ["a", "x", "y"], KNOWN) == pytest.approx(log(1.2))


def test_bm25_counts_a_word_of_the_query_once() -> None:
    assert bm25(["a", "a", "z"], ["a", "x", "y"], KNOWN) == pytest.approx(log(1.2))


def test_tf_idf_cosine_by_hand() -> None:
    """idf a = 1 + ln(3/3) = 1, of c 1 + ln(3/2): (1, 0) against (1, 2 (1 + ln 1.5))."""
    idf = 1 + log(1.5)
    assert tf_idf_cosine(["a"], ["a", "c", "c"], KNOWN) == pytest.approx(1 / sqrt(1 + 4 * idf * idf))
    assert tf_idf_cosine(["a", "c"], ["c", "a"], KNOWN) == pytest.approx(1)
    assert tf_idf_cosine(["a"], [], KNOWN) == 0


def test_matching_terms_by_hand() -> None:
    """ "7 win" in "7 win xp" leaves out 3 of 5 + 8 characters, and the order of words does not matter."""
    assert matching_terms(["win", "7"], ["xp", "win", "7"]) == pytest.approx(10 / 13)
    assert matching_terms(["win", "7"], ["7", "win"]) == 1
    assert matching_terms(["ab"], ["xy"]) == 0


def test_missing_option_scores_nothing() -> None:
    words = words_of(PANE)
    row = dict(zip(FEATURES, features([words], collections([words]))[0], strict=True))
    for name, value in row.items():
        assert (value == 0) == ("Option2" in name or "Option4" in name or "Option5" in name), name
    assert row["The Number of Candidate Answers"] == 2
    assert row["The clarification is a Statement or a Question"] == 1


def test_select_one_to_refine_your_search_is_a_statement() -> None:
    assert not words_of(PaneText("q", "Select one to refine your search", ("a",))).is_question
    assert words_of(PaneText("q", "Which one? ", ("a",))).is_question


def test_each_field_has_its_own_frequencies() -> None:
    """The second option is there in one pane of two, so its collection is of one text."""
    panes = [words_of(PaneText("q", "s", ("a", "b"))), words_of(PaneText("q", "s", ("a",)))]
    found = collections(panes)
    assert [known.n for known in found] == [2, 2, 1, 0, 0, 0]
    assert found[2].frequency == {"s": 1, "b": 1}


def test_frequencies_of_nothing_give_finite_features() -> None:
    words = words_of(PANE)
    assert features([words], collections([])).shape == (1, len(FEATURES))


@given(WORDS, WORDS, st.lists(WORDS, max_size=4))
def test_similarities_are_bounded_and_silent_on_nothing_in_common(
    query: list[str], words: list[str], texts: list[list[str]]
) -> None:
    known = Collection.of(texts)
    assert bm25(query, words, known) >= 0
    assert 0 <= tf_idf_cosine(query, words, known) <= 1 + 1e-9
    assert 0 <= matching_terms(query, words) <= 1
    if not set(query) & set(words):
        assert bm25(query, words, known) == tf_idf_cosine(query, words, known) == 0
