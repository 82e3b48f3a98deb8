"""An index that came in parts finds what one made at once would find."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.engine.journal_index import NO_KEYS, KeyLayers, key_index
from cts_async.engine.step import step_key


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 20), max_size=8, unique=True), max_size=12))
def test_layers_find_what_one_index_finds_and_are_few(parts: list[list[int]]) -> None:
    layers, offset = KeyLayers(), 0
    expected: dict[int, list[int]] = {}
    for part in parts:
        places = {}
        for n in part:
            offset += 1
            places[step_key(n)] = offset
            expected.setdefault(n, []).insert(0, offset)
        layers.add(key_index(places) if places else NO_KEYS)
    assert len(layers) == sum(map(len, parts))
    for n in range(21):
        assert layers.lookup(step_key(n)) == expected.get(n, [])
    sizes = [len(layer) for layer in layers._layers]
    assert all(2 * later <= earlier for earlier, later in itertools.pairwise(sizes))
