"""Scores in columns give what a dict of them would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cts_async.report.result_columns import Scores

TABLES = st.dictionaries(st.text(max_size=3), st.floats(0, 100), max_size=20)


def test_the_two_scores_of_an_instance_stand_side_by_side_in_the_firsts_order() -> None:
    first, second = Scores.of({"c": 1.0, "a": 2.0, "b": 3.0}), Scores.of({"a": 20.0, "c": 10.0, "d": 40.0})
    here, there = first.paired(second)
    assert (here.tolist(), there.tolist()) == ([1.0, 2.0], [10.0, 20.0])


def test_no_scores_pair_with_nothing() -> None:
    nothing, some = Scores.of({}), Scores.of({"a": 1.0})
    assert [len(column) for column in (*nothing.paired(some), *some.paired(nothing))] == [0, 0, 0, 0]
    assert (len(nothing), list(nothing.numbers()), nothing.get("a")) == (0, [], None)


@given(TABLES, TABLES)
def test_they_agree_with_dicts(a: dict[str, float], b: dict[str, float]) -> None:
    scores = Scores.of(a)
    assert len(scores) == len(a)
    assert [scores.get(id) for id in (*a, *b)] == [a.get(id) for id in (*a, *b)]
    assert list(scores.numbers()) == sorted(a.values())
    both = [id for id in a if id in b]
    here, there = scores.paired(Scores.of(b))
    assert (here.tolist(), there.tolist()) == ([a[id] for id in both], [b[id] for id in both])
