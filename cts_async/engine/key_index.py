"""Where the steps of a journal stand, by key: sorted fingerprints and offsets, 16 bytes a step."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

KEY_HEX: Final = 32
"""A step's key: 16 bytes of BLAKE2b in hex."""


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Where the lines of finished steps begin, by the first 64 bits of their keys; 16 bytes a step.

    Both views are sorted by fingerprint and, in an index that was not joined, by offset where fingerprints are equal.
    """

    fingerprints: memoryview
    offsets: memoryview

    def __len__(self) -> int:
        return len(self.fingerprints)

    def places(self, key: str) -> Iterator[int]:
        """Offsets at which `key` may stand, the last first; one of another key is as good as impossible."""
        wanted = fingerprint_of(key)
        first = bisect_left(self.fingerprints, wanted)
        if first < len(self.fingerprints) and self.fingerprints[first] == wanted:
            for i in range(bisect_right(self.fingerprints, wanted, first) - 1, first - 1, -1):
                yield self.offsets[i]

    def joined(self, other: KeyIndex) -> KeyIndex:
        """Both as one; the offsets of `other` stand behind those of this one where fingerprints are equal."""
        import numpy as np

        # Merged, since both are sorted: in half the time of sorting them anew.
        places = np.searchsorted(self.fingerprints, other.fingerprints, "right") + np.arange(len(other))
        ours = np.ones(len(self) + len(other), bool)
        ours[places] = False
        fingerprints, offsets = np.empty(len(ours), np.uint64), np.empty(len(ours), np.int64)
        fingerprints[places], fingerprints[ours] = other.fingerprints, self.fingerprints
        offsets[places], offsets[ours] = other.offsets, self.offsets
        return KeyIndex(fingerprints.data, offsets.data)


NO_KEYS: Final = KeyIndex(memoryview(b""), memoryview(b""))


def key_index(places: Mapping[str, int]) -> KeyIndex:
    """The index of steps of which each key comes with the offset of its line."""
    import numpy as np

    fingerprints = np.fromiter(map(fingerprint_of, places), np.uint64, len(places))
    return index_of(fingerprints, np.fromiter(places.values(), np.int64, len(places)))


class KeyLayers:
    """An index that grows: few layers, each at most half as large as the one before.

    So a step is moved only some log2(n) times, however many parts a journal came in. The lines of one layer may
    stand before or behind those of another, or between them.
    """

    def __init__(self, first: KeyIndex = NO_KEYS) -> None:
        self._layers = [first] if len(first) else []

    def __len__(self) -> int:
        return sum(map(len, self._layers))

    def add(self, index: KeyIndex) -> None:
        """Take in further steps."""
        if not len(index):
            return
        self._layers.append(index)
        while len(self._layers) > 1 and 2 * len(self._layers[-1]) > len(self._layers[-2]):
            last = self._layers.pop()
            self._layers[-1] = self._layers[-1].joined(last)

    def places(self, key: str) -> list[int]:
        """Offsets at which `key` may stand, the latest first."""
        return sorted((place for layer in self._layers for place in layer.places(key)), reverse=True)


def index_of(fingerprints: Array, offsets: Array) -> KeyIndex:
    """The index of steps in any order."""
    import numpy as np

    order = np.argsort(fingerprints)
    ordered = fingerprints[order]
    if (ordered[1:] == ordered[:-1]).any():  # a step done twice: only then is the slower sort needed
        order = np.lexsort((offsets, fingerprints))
    return KeyIndex(ordered.data, offsets[order].data)


def fingerprint_of(key: str) -> int:
    """The first 64 bits of a key."""
    return int(key[:16], 16)
