"""Values that are made, compared and sent by the million."""

from __future__ import annotations

import pickle
from dataclasses import fields

import pytest

from cts_async.records import value


@value
class Pair:
    left: int
    right: tuple[str, ...] = ()


@value
class Single:
    only: int


@pytest.mark.parametrize("one", [Pair(1, ("a", "b")), Pair(2), Single(3)])
def test_value_that_was_pickled_is_equal_to_itself(one: Pair | Single) -> None:
    assert pickle.loads(pickle.dumps(one, protocol=5)) == one


def test_pickled_value_does_not_name_its_fields() -> None:
    pickled = pickle.dumps(Pair(1, ("a",)), protocol=5)
    assert [field.name for field in fields(Pair) if field.name.encode() in pickled] == []


def test_values_are_compared_and_hashed_by_their_fields() -> None:
    assert len({Pair(1), Pair(1), Pair(2)}) == 2
