"""How far each nugget came on its way into the answer, worked out by hand, and what always holds of its points."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.losses import (
    STAGES,
    Document,
    Label,
    NuggetLoss,
    QueryForms,
    nugget_losses,
    system_losses,
)
from cts_async.protocol.judge import terms_among, terms_of
from cts_async.records import COVERAGES
from cts_async.runs.gold_texts import GoldNugget
from cts_async.scorer import restore_score_100

ASKED = QueryForms("winter ferry fares", "ferry", "ferry fares in winter")
NOT_ASKED = QueryForms("winter ferry fares", "ferry", "ferry timetable")
OWN, REFERENCE, OTHER = "https://a.example/own", "https://a.example/reference", "https://a.example/other"
FARE = "A winter single costs 9 crowns."
GOLD = {
    "N1": GoldNugget(FARE, 3.0, (OWN,), (REFERENCE,)),
    "N2": GoldNugget("Bicycles travel free.", 1.0, ("d2",), (REFERENCE,)),
}


def result(url: str, text: str = "", rank: int = 1) -> Document:
    return Document(url, "", text, "snippet", 1, rank)


def page(url: str, text: str = "", unread: str = "") -> Document:
    return Document(url, "Fares", text, "page", 2, unread=unread)


@pytest.mark.parametrize(
    ("documents", "queries", "stage", "shown"),
    [
        ([result(OTHER), page(OTHER, "In winter a single costs 9 crowns")], ASKED, "read", 1),
        ([result(OTHER), result(OTHER, FARE, rank=2), page(OTHER)], ASKED, "read", 1),
        # The result says it, and its page was not opened.
        ([result(REFERENCE), result(OTHER, FARE, rank=2), page(OWN + "/2")], ASKED, "found", 1),
        # In sight, but nobody asked for the winter.
        ([result(OTHER), result(OTHER, FARE, rank=2), page(OTHER)], NOT_ASKED, "not_asked", 1),
        ([result(OTHER), result(OWN, rank=2), page(OTHER)], NOT_ASKED, "not_asked", 1),
        ([page("http://A.example/own#top", "Nothing in these words")], ASKED, "read", 0),
        ([page(OTHER, "Welcome", unread=f"Welcome. {FARE}")], ASKED, "found", 0),
        ([result(OTHER), result(OWN, rank=2), page(OTHER)], ASKED, "found", 1),
        ([result(REFERENCE, "about fares")], ASKED, "found", 0),
        # The same intent's other source was read, and does not say it.
        ([result(REFERENCE), page(REFERENCE, "about fares")], ASKED, "not_found", None),
        # A summer fare has half of its words, and the wrong number.
        ([result(OTHER, "A summer single costs 12 crowns")], ASKED, "not_found", None),
        ([result(OTHER, "A summer single costs 12 crowns")], NOT_ASKED, "not_asked", None),
        ([], ASKED, "not_found", None),
        (None, NOT_ASKED, "unknown", None),
    ],
)
def test_a_nugget_is_lost_where_it_was_last_seen(
    documents: list[Document] | None, queries: QueryForms, stage: str, shown: int | None
) -> None:
    (lost,) = nugget_losses([Label("N1", 3.0, "none")], GOLD, documents, queries)
    seen = None if shown is None or documents is None else documents[shown]
    assert lost == NuggetLoss("N1", 100.0, stage, seen)  # type: ignore[arg-type]


def test_a_constraint_that_the_searched_query_lacks_comes_first() -> None:
    """Of "winter" and "fares" the search had the fares: N1 speaks of the winter, N2 of neither."""
    documents = [page(OTHER, f"{FARE} Bicycles travel free.")]
    queries = QueryForms("winter ferry fares", "ferry", "ferry fares")
    labels = [Label("N1", 3.0, "none"), Label("N2", 1.0, "none")]
    found = nugget_losses(labels, GOLD, documents, queries)
    assert [(one.id, one.points, one.stage) for one in found] == [
        ("N1", 75.0, "not_asked"),
        ("N2", 25.0, "read"),
    ]
    assert queries.unasked == {"winter"}
    assert QueryForms("winter ferry fares", "ferry", "").unasked == frozenset(), "no search is known"


def test_chinese_pairs_across_words_do_not_count_as_unasked() -> None:
    """Of q* the search has both words in another order: the pair 季图, between them, is no constraint; 开放时间 is."""
    unasked = QueryForms("考试季图书馆的开放时间", "图书馆", "图书馆，考试季").unasked
    assert unasked == {"开放", "放时", "时间"}


def test_sources_without_an_address_are_counted() -> None:
    """N2 has the id of a document only; a nugget without any source, as some releases have it, is none of these."""
    gold = {**GOLD, "N3": GoldNugget("Dogs pay half.", 1.0, ())}
    labels = [Label(id, 1.0, "none") for id in gold]
    losses = nugget_losses(labels, gold, [page(OTHER)], ASKED)
    assert [one.unplaced for one in losses] == [False, True, False]
    found = system_losses("gpt-k1", [losses, losses])
    assert found is not None
    assert found.n_unplaced == 2


def test_points_go_by_weight_and_label() -> None:
    labels = [Label("N1", 3.0, "partial"), Label("N2", 1.0, "full"), Label("N3", 4.0, "none")]
    found = nugget_losses(labels, GOLD, [page(OTHER, FARE)], ASKED)
    # 3 / 8 of 100 points, half of them; nothing; 4 / 8 of a nugget whose text the gold does not have.
    assert [(one.points, one.stage) for one in found] == [(18.75, "read"), (0.0, "said"), (50.0, "unknown")]


@pytest.mark.parametrize(
    ("searched", "reached"),
    [("ferry", 0.0), ("winter ferry", 0.5), ("the fares of a winter ferry", 1.0)],
)
def test_what_reached_the_search_is_a_share_of_what_the_query_hides(searched: str, reached: float) -> None:
    assert QueryForms("winter ferry fares", "ferry", searched).reached == reached
    assert QueryForms("ferry", "ferry", "boats").reached == 1.0, "nothing was hidden"


TEXTS = st.sampled_from([FARE, "Bicycles travel free.", "公交车在2024年9月停运。", "fares", "", "the"])
DOCUMENTS = st.builds(
    Document,
    st.sampled_from([OWN, REFERENCE, OTHER]),
    st.just(""),
    TEXTS,
    st.sampled_from(["snippet", "page"]),
    st.just(1),
)
LABELS = st.lists(
    st.tuples(st.sampled_from([1.0, 2.0, 3.0, 0.1]), st.sampled_from(COVERAGES), TEXTS),
    min_size=1,
    max_size=6,
)


@given(LABELS, st.none() | st.lists(DOCUMENTS, max_size=4), st.sampled_from([ASKED, NOT_ASKED]), st.randoms())
def test_points_add_up_whatever_the_order(
    judged: list[tuple[float, str, str]],
    documents: list[Document] | None,
    queries: QueryForms,
    dice: random.Random,
) -> None:
    labels = [Label(f"N{n}", weight, label) for n, (weight, label, _) in enumerate(judged)]  # type: ignore[arg-type]
    gold = {f"N{n}": GoldNugget(text, 1.0, (OWN,)) for n, (_, _, text) in enumerate(judged)}
    score = restore_score_100([(label.weight, label.coverage) for label in labels])
    losses = nugget_losses(labels, gold, documents, queries)
    assert sum(one.points for one in losses) == pytest.approx(100 - score, abs=1e-9)
    assert all((one.stage == "said") == (one.points == 0) for one in losses)
    mixed = dice.sample(labels, len(labels))
    assert {one.id: one.stage for one in nugget_losses(mixed, gold, documents, queries)} == {
        one.id: one.stage for one in losses
    }
    found = system_losses("one", [losses, losses])
    assert found is not None
    assert found.mean == pytest.approx(score, abs=1e-9)
    assert tuple(found.lost) == STAGES


def lost(*points: tuple[float, str]) -> Sequence[NuggetLoss]:
    return [NuggetLoss("N", of, stage) for of, stage in points]  # type: ignore[arg-type]


def test_a_systems_losses_are_means_over_its_instances() -> None:
    found = system_losses(
        "gpt-k1", [lost((30, "read"), (10, "unknown")), lost((20, "read")), lost((0, "said"))]
    )
    assert found is not None
    assert (found.n, found.mean) == (3, 80.0)
    assert {stage: points for stage, points in found.lost.items() if points} == pytest.approx(
        {"read": 50 / 3, "unknown": 10 / 3}
    )
    assert found.known
    unknown = system_losses("candidates", [lost((10, "unknown"))])
    assert unknown is not None
    assert not unknown.known
    assert system_losses("none", []) is None


MIXED = st.text(st.sampled_from("ab ing 公交在的年月9２.,：:15%éⅣ가"), max_size=40)


@given(MIXED, MIXED)
def test_terms_among_are_those_of_the_text(text: str, other: str) -> None:
    wanted = terms_of(f"{text[::2]} {other} 公交 年 9 ab").every
    for one in (text, other):
        assert terms_among(one, wanted) == terms_of(one).every & wanted
