"""Values are taken only in the shape that is expected of them."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from cts_async.report.live import has_shape


class Part(TypedDict):
    name: str
    share: float | None


class Extra(TypedDict, total=False):
    note: str


class Whole(Extra):
    n: int
    by_name: dict[str, bool]
    parts: list[Part]


GOOD: dict[str, Any] = {
    "n": 1,
    "by_name": {"a": True},
    "parts": [{"name": "a", "share": 1}, {"name": "b", "share": None}],
}


def test_a_value_of_the_shape_fits_with_more_fields_than_it_needs() -> None:
    assert has_shape(GOOD, Whole)
    assert has_shape({**GOOD, "further": object()}, Whole)


def test_a_field_that_may_be_absent_has_to_fit_where_it_is_there() -> None:
    assert has_shape({**GOOD, "note": "well"}, Whole)
    assert not has_shape({**GOOD, "note": 1}, Whole)


@pytest.mark.parametrize(
    "value",
    [
        *(None, [], "x", {}, {"n": 1}, {**GOOD, "n": True}, {**GOOD, "n": 1.5}, {**GOOD, "n": "1"}),
        *({**GOOD, "parts": {}}, {**GOOD, "parts": [None]}, {**GOOD, "parts": [{"name": 1, "share": 1.0}]}),
        {**GOOD, "parts": [{"name": "a", "share": "1"}]},
        {**GOOD, "by_name": {"a": True, "b": 1}},
        {**GOOD, "by_name": ["a"]},
    ],
)
def test_anything_else_does_not(value: Any) -> None:
    assert not has_shape(value, Whole)
