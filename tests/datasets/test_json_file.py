"""JSON files read whole: bounded, each key once, errors located."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.datasets.io import parse_json, read_bytes
from cts_async.errors import InputError

Write = Callable[..., Path]


def refusal(path: Path, **bounds: int) -> InputError:
    with pytest.raises(InputError) as caught:
        parse_json(path, read_bytes(path, **bounds))
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_a_byte_order_mark_is_no_part_of_the_value(write: Write) -> None:
    path = write("a.json", b'\xef\xbb\xbf{"a": 1}')
    assert parse_json(path, read_bytes(path)) == {"a": 1}


def test_a_file_above_the_bound_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert "is larger than 268,435,456 bytes" in str(refusal(path))


def test_a_file_at_the_bound_is_read(write: Write) -> None:
    path = write("a.json", "[1]")
    assert parse_json(path, read_bytes(path, max_bytes=3)) == [1]
    assert "is larger than 2 bytes" in str(refusal(path, max_bytes=2))


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b'{"a":\n 1,}', 2, "is not valid JSON"),
        (b'{"a": "1', 1, "is not valid JSON"),
        (b"", 1, "is not valid JSON"),
        (b'{"a": NaN}', 1, "is not valid JSON"),
        (b"[" * 2000, 1, "is not valid JSON"),
        (b'{"a":\n"\xff"}', 2, "is not UTF-8: byte 0xff at byte 7"),
        (b'{"a": "\0"}', 1, "contains a NUL byte"),
        ('{"a": 1}'.encode("utf-16"), 1, "is UTF-16, not UTF-8"),
    ],
)
def test_what_is_no_json_is_located(write: Write, content: bytes, line: int, says: str) -> None:
    error = refusal(write("a.json", content))
    assert error.line == line
    assert says in str(error)


def test_a_key_that_stands_twice_is_named_with_its_line(write: Write) -> None:
    error = refusal(write("a.json", '{"x": {"a": 1},\n "y": {"b": "\\"b\\":", "c": {"b": 1},\n "b": 2}}'))
    assert (error.line, error.field) == (3, "b")


def test_a_key_that_is_escaped_another_way_is_the_same_key(write: Write) -> None:
    assert refusal(write("a.json", '{"a":1,\n"\\u0061":2}')).line == 2


def test_equal_keys_of_different_objects_are_no_repetition(write: Write) -> None:
    value = {"a": {"a": [{"a": 'a": {'}, {"a": "}"}]}, "b": {"a": ":"}}
    assert parse_json(write("a.json", value), json.dumps(value).encode()) == value


JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_no_value_is_taken_for_one_with_a_repeated_key(value: Any) -> None:
    assert parse_json(Path("a.json"), json.dumps(value, ensure_ascii=False).encode()) == value
