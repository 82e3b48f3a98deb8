"""Places move to where they lack, and are never held twice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.cluster.places import Demand, PlaceBook, shares


@pytest.mark.parametrize(
    ("total", "demands", "expected"),
    [
        (10, {"a": 20, "b": 20}, {"a": 5, "b": 5}),
        (10, {"a": 2, "b": 20}, {"a": 2, "b": 8}),
        (11, {"a": 20, "b": 20}, {"a": 6, "b": 5}),
        (12, {"a": 2, "b": 4}, {"a": 5, "b": 7}),
        (10, {"a": 0, "b": 20}, {"a": 0, "b": 10}),
        (2, {"a": 5, "b": 5, "c": 5}, {"a": 1, "b": 1, "c": 0}),
        (7, {"a": 0, "b": 0}, {"a": 4, "b": 3}),
        (5, {}, {}),
    ],
)
def test_what_there_is_fills_up_from_below(
    total: int, demands: dict[str, int], expected: dict[str, int]
) -> None:
    wanted = {worker: Demand(places, seq) for seq, (worker, places) in enumerate(demands.items())}
    assert shares(total, wanted) == expected


def test_where_there_are_too_few_they_go_to_the_oldest_jobs() -> None:
    demands = {"a": Demand(9, 30), "b": Demand(9, 10), "c": Demand(9, 20), "d": Demand(9, None)}
    assert shares(2, demands) == {"a": 0, "b": 1, "c": 1, "d": 0}


@given(st.integers(0, 40), st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 30), max_size=6))
def test_shares_add_up_and_nobody_lacks_what_another_cannot_use(total: int, demands: dict[str, int]) -> None:
    wanted = {worker: Demand(places, 1) for worker, places in demands.items()}
    share = shares(total, wanted)
    assert sum(share.values()) == (total if demands else 0)
    lacking = [share[w] for w in demands if share[w] < demands[w]]
    if lacking:
        assert all(share[w] <= demands[w] for w in demands)
        assert max(lacking) - min(lacking) <= 1
        assert all(share[w] <= min(lacking) + 1 for w in demands)


def test_a_shrink_takes_effect_when_the_worker_says_so() -> None:
    book = PlaceBook(10)
    book.heard("a", 0, 0, 0, Demand(10, 1))
    while book.plan():
        pass
    assert book.say("a", 1) == 10
    book.heard("a", 1, 10, 10, Demand(20, 1))
    book.heard("b", 0, 0, 0, Demand(20, 2))
    assert book.plan() == ["a"], "a is to have fewer; nothing is free for b"
    assert (book.let("a"), book.let("b")) == (5, 0)
    book.say("a", 2)
    book.heard("a", 2, 5, 7, Demand(20, 1))
    book.plan()
    assert book.let("b") == 2, "7 of a's are still under way: half of what is free, at a time"
    book.heard("a", 2, 5, 5, Demand(20, 1))
    book.plan()
    book.plan()
    assert (book.let("a"), book.let("b")) == (5, 5)


def test_a_grant_that_may_have_been_acted_on_counts() -> None:
    book = PlaceBook(8)
    book.heard("a", 0, 0, 0, Demand(8, 1))
    while book.plan():
        pass
    book.say("a", 1)  # of 8: perhaps it never comes
    book.heard("b", 0, 0, 0, Demand(8, 0))
    book.plan()
    book.say("a", 2)  # of 4
    book.heard("a", 0, 0, 0, Demand(8, 1))
    assert book.held == 8
    book.plan()
    assert book.let("b") == 0, "a has heard of neither by now, and may act on the first any time"
    book.heard("a", 2, 4, 4, Demand(8, 1))
    book.plan()
    assert book.let("b") == 2


def test_what_the_dead_held_is_free() -> None:
    book = PlaceBook(4)
    book.heard("a", 0, 4, 4, Demand(4, 1))
    book.heard("b", 0, 0, 0, Demand(4, 2))
    book.plan()
    assert book.let("b") == 0
    book.gone("a")
    while book.plan():
        pass
    assert book.let("b") == 4


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 12),
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.booleans(), st.booleans()), max_size=60
    ),
)
def test_workers_never_hold_more_than_there_are_however_messages_are_lost(
    total: int, turns: list[tuple[str, int, bool, bool]]
) -> None:
    """At each turn a worker says what it holds and wants, unless that is lost; the answer may be lost, too."""
    book, number = PlaceBook(total), 0
    holds = dict.fromkeys("abc", 0)
    acted_on = dict.fromkeys("abc", 0)
    for worker, wants, ask_lost, answer_lost in turns:
        if ask_lost:
            continue
        book.heard(worker, acted_on[worker], holds[worker], 0, Demand(wants, number))
        book.plan()
        number += 1
        let = book.say(worker, number)
        if not answer_lost:
            holds[worker], acted_on[worker] = let, number
        assert sum(holds.values()) <= book.held <= total
