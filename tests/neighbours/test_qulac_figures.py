"""Qulac's published figures: counted by hand on a tiny collection, and on the real one."""

from __future__ import annotations

from pathlib import Path

from cts_async.neighbours.qulac.collection import Facet, Figure, Pair, Topic, qulac_figures, read_qulac


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


def test_a_figure_is_reproduced_where_it_agrees_to_the_digits_published() -> None:
    assert Figure("x", 3.85, 3.8484, 2).reproduced
    assert not Figure("x", 3.85, 3.844, 2).reproduced
    assert Figure("x", 4, 4.0).reproduced
    assert not Figure("x", 198, 197).reproduced
    assert not Figure("x", 4, 4.5).reproduced


def test_nothing_has_averages_of_zero() -> None:
    assert {figure.value for figure in qulac_figures([])} == {0}


def test_the_real_file_reproduces_the_whole_table(shared_data: Path) -> None:
    figures = qulac_figures(read_qulac(shared_data / "qulac.json").topics)
    assert len(figures) == 12
    assert [figure for figure in figures if not figure.reproduced] == []
