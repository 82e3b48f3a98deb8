"""The table of first lines agrees with a dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cts_async.datasets.unique import FirstLines


@given(st.lists(st.text(max_size=2)))
def test_it_gives_the_first_line_of_a_key_seen_before(keys: list[str]) -> None:
    table, expected = FirstLines(), dict[str, int]()
    for line, key in enumerate(keys, start=1):
        assert table.add(key, line) == expected.get(key)
        expected.setdefault(key, line)


def test_it_keeps_its_memory_while_growing() -> None:
    table = FirstLines()
    assert all(table.add(f"k{i}", i + 1) is None for i in range(20_000))
    assert all(table.add(f"k{i}", 99_999) == i + 1 for i in range(20_000))
