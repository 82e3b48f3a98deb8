"""Qulac's published figures: counted by hand on a tiny collection, and on the real one."""

from __future__ import annotations

from pathlib import Path

from cts_async.neighbours.qulac.collection import Collection, Figure, qulac_figures
from cts_async.neighbours.qulac.collection import read_qulac
from cts_async.neighbours.qulac.gains import collection_of


def test_every_figure_is_counted_as_defined() -> None:
    """Three topics with 3, 1 and 0 facets; "a b" stands in two topics, so it is two questions but one text."""
    collection = Collection(
        {1: "faceted", 2: "ambiguous", 3: "faceted"},
        [(1, "inf"), (1, "nav"), (1, "inf"), (2, "inf")],
        [(1, "a b", "no"), (1, "a b", "yes i do"), (1, "c d e f", "no"), (2, "a b", "x")],
    )
    assert {figure.name: figure.value for figure in qulac_figures(collection)} == {
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
    assert {figure.value for figure in qulac_figures(Collection({}, [], []))} == {0}


def test_the_real_file_reproduces_the_whole_table(shared_data: Path) -> None:
    figures = qulac_figures(collection_of(read_qulac(shared_data / "qulac.json").topics))
    assert len(figures) == 12
    assert [figure for figure in figures if not figure.reproduced] == []
