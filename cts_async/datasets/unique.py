"""Remembers on which line each key first stood, in 24 to 48 bytes a key."""

from __future__ import annotations

from array import array
from typing import Final

_START: Final = 1024
_MASK64: Final = (1 << 64) - 1


class FirstLines:
    """An open-addressing table of 64-bit hashes and lines, at most half full.

    Keys are told apart by their hash; that two of a million share one happens once in 10^7 files.
    """

    def __init__(self) -> None:
        self._hashes = array("Q", bytes(8 * _START))
        self._lines = array("I", bytes(4 * _START))
        self._used = 0

    def add(self, key: str, line: int) -> int | None:
        """Give the line of an earlier equal key, else remember this one and give None. Lines start at 1."""
        digest = hash(key) & _MASK64
        slot = self._slot(digest)
        if self._lines[slot]:
            return self._lines[slot]
        self._hashes[slot], self._lines[slot] = digest, line
        self._used += 1
        if 2 * self._used > len(self._lines):
            self._grow()
        return None

    def _slot(self, digest: int) -> int:
        mask = len(self._lines) - 1
        slot = digest & mask
        while self._lines[slot] and self._hashes[slot] != digest:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        hashes, lines = self._hashes, self._lines
        self._hashes = array("Q", bytes(2 * len(hashes) * hashes.itemsize))
        self._lines = array("I", bytes(2 * len(lines) * lines.itemsize))
        for digest, line in zip(hashes, lines, strict=True):
            if line:
                slot = self._slot(digest)
                self._hashes[slot], self._lines[slot] = digest, line
