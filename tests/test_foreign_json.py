"""JSON from strangers is bounded in depth where it enters."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.foreign_json import MAX_DEPTH, NestedTooDeeply, check_depth, is_surely_shallow, loads


def nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    return opening * levels + "1" + closing * levels


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_deepest_allowed_value_is_read_and_one_level_more_is_refused(
    opening: str, closing: str, as_bytes: bool
) -> None:
    allowed, refused = nested(MAX_DEPTH, opening, closing), nested(MAX_DEPTH + 1, opening, closing)
    value = loads(allowed.encode() if as_bytes else allowed)
    assert orjson.dumps(value).decode() == allowed
    with pytest.raises(NestedTooDeeply):
        loads(refused.encode() if as_bytes else refused)


def test_an_empty_container_counts_as_a_level() -> None:
    assert loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(NestedTooDeeply):
        loads("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert loads("[" + ",".join(["{}"] * 1000) + "]") == [{}] * 1000


def test_what_is_no_json_raises_as_orjson_does() -> None:
    with pytest.raises(orjson.JSONDecodeError):
        loads(b"{")
    with pytest.raises(ValueError):  # beyond the parser's own bound
        loads(nested(2000))


@given(
    st.recursive(
        st.none() | st.text(max_size=3), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_a_value_that_passes_is_the_value_that_orjson_reads(value: object) -> None:
    check_depth(value)
    assert loads(orjson.dumps(value)) == value


@pytest.mark.parametrize(
    ("data", "shallow"),
    [
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, True),
        (b'{"a":[' * (MAX_DEPTH // 2) + b"1" + b"]}" * (MAX_DEPTH // 2), True),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), False),
        (b'"' + b"{" * (MAX_DEPTH + 1) + b'"', False),  # perhaps: only counted
    ],
)
def test_too_few_brackets_are_surely_shallow(data: bytes, shallow: bool) -> None:
    assert is_surely_shallow(data) == shallow
