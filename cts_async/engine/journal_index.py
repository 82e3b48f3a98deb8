"""The index of a journal: the offsets of its finished steps by key, found without parsing lines.

A journal is scanned in whole blocks, on bytes. A line that looks exactly as a journal writes it (its first fields, no
control character, valid UTF-8, a `}` at the end) is trusted; any other is parsed, and counts only if it is intact.
Memory grows by 16 bytes a finished step, and by nothing else.

A million lines take 0.6 s of CPU time here, less than half of what a set of keys parsed by orjson takes
(benchmarks journal).
"""

from __future__ import annotations

import os
import re
from binascii import unhexlify
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import orjson

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_LINE: Final = 64 << 20
"""Bytes of the longest line. A longer one is damage: it is never held in memory."""
KEY_HEX: Final = 32
"""A step's key: 16 bytes of BLAKE2b in hex."""


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The offsets of finished steps' lines by the first 64 bits of their keys; 16 bytes a step.

    Both views are sorted by fingerprint and, in an index that was not joined, by offset where fingerprints are equal.
    """

    fingerprints: memoryview
    offsets: memoryview

    def __len__(self) -> int:
        return len(self.fingerprints)

    def lookup(self, key: str) -> Iterator[int]:
        """Offsets of lines that may have `key`, the last first; another key's is practically impossible."""
        fingerprint = fingerprint_of(key)
        start = bisect_left(self.fingerprints, fingerprint)
        if start < len(self.fingerprints) and self.fingerprints[start] == fingerprint:
            end = bisect_right(self.fingerprints, fingerprint, start)
            for i in reversed(range(start, end)):
                yield self.offsets[i]

    def joined(self, later: KeyIndex) -> KeyIndex:
        """Both as one; the offsets of `later` follow those of this one where fingerprints are equal."""
        import numpy as np

        # Both are sorted: merging takes half the time of sorting them together.
        places = np.searchsorted(self.fingerprints, later.fingerprints, "right") + np.arange(len(later))
        is_earlier = np.ones(len(self) + len(later), bool)
        is_earlier[places] = False
        fingerprints, offsets = np.empty(len(is_earlier), np.uint64), np.empty(len(is_earlier), np.int64)
        fingerprints[places], fingerprints[is_earlier] = later.fingerprints, self.fingerprints
        offsets[places], offsets[is_earlier] = later.offsets, self.offsets
        return KeyIndex(fingerprints.data, offsets.data)


NO_KEYS: Final = KeyIndex(memoryview(b""), memoryview(b""))


def key_index(offsets: Mapping[str, int]) -> KeyIndex:
    """The index of steps given as the offsets of their lines by key."""
    import numpy as np

    fingerprints = np.fromiter(map(fingerprint_of, offsets), np.uint64, len(offsets))
    return index_of(fingerprints, np.fromiter(offsets.values(), np.int64, len(offsets)))


class KeyLayers:
    """An index that grows: few layers, each at most half as large as the one before.

    So a step is moved only some log2(n) times, however many parts it is added in.
    """

    def __init__(self, index: KeyIndex = NO_KEYS) -> None:
        self._layers: list[KeyIndex] = []
        self.add(index)

    def __len__(self) -> int:
        return sum(map(len, self._layers))

    def add(self, index: KeyIndex) -> None:
        """Add further steps."""
        if not len(index):
            return
        self._layers.append(index)
        while len(self._layers) > 1 and 2 * len(self._layers[-1]) > len(self._layers[-2]):
            newest = self._layers.pop()
            self._layers[-1] = self._layers[-1].joined(newest)

    def lookup(self, key: str) -> list[int]:
        """Offsets of lines that may have `key`, the latest first."""
        if not self._layers:  # a new run, in which each step asks
            return []
        offsets: list[int] = []
        for layer in self._layers:
            offsets += layer.lookup(key)
        # A later line has a higher offset, whichever layer it is in.
        return sorted(offsets, reverse=True)


def index_of(fingerprints: Array, offsets: Array) -> KeyIndex:
    """The index of steps that are in any order."""
    import numpy as np

    order = np.argsort(fingerprints)
    ordered = fingerprints[order]
    if (ordered[1:] == ordered[:-1]).any():  # a step recorded twice: only then is the slower sort needed
        order = np.lexsort((offsets, fingerprints))
    return KeyIndex(ordered.data, offsets[order].data)


def fingerprint_of(key: str) -> int:
    """The first 64 bits of a key."""
    return int(key[:16], 16)


# --- The scan of a journal ---

_HEAD: Final = b'{"key":"'
_OK: Final = b'","ok":true,'
_PLAIN: Final = re.compile(re.escape(_HEAD) + rb"([0-9a-f]{%d})" % KEY_HEX + _OK)
_PREFIX: Final = len(_HEAD) + KEY_HEX + len(_OK)
MAX_LINES_SHOWN: Final = 5
"""Damaged lines whose numbers a notice gives."""
_BLOCK: Final = 1 << 16
"""Bytes read at once. From 128 KB on, malloc maps each block and each array of its size anew: the page faults of a
million lines took as long as everything else (measured with 1 MB)."""
_LARGE_BLOCK: Final = 1 << 18
"""Bytes read at once into a buffer that stays mapped: of 64 KB to 1 MB the quickest."""


@dataclass(slots=True)
class Scan:
    """The content of a journal: its finished steps, the number of intact records, and the damaged lines."""

    index: KeyIndex = NO_KEYS
    records: int = 0
    damaged_lines: list[int] = field(default_factory=list)
    torn: Path | None = None
    """The file to which an incomplete last line was moved."""

    def notices(self, path: Path) -> list[str]:
        """What the user should know about `path`; empty if all is well."""
        notices = []
        if self.torn:
            notices.append(
                f"{path}: the last line was incomplete; it is kept in {self.torn.name} and its step is repeated"
            )
        if self.damaged_lines:
            lines = ", ".join(map(str, self.damaged_lines[:MAX_LINES_SHOWN]))
            if len(self.damaged_lines) > MAX_LINES_SHOWN:
                lines += " ..."
            notices.append(
                f"{path}: damaged lines: {len(self.damaged_lines)} (line {lines}); their steps are repeated"
            )
        return notices


def scan_journal(path: Path) -> Scan:
    """Scan a journal whose last line is complete. Raises OSError."""
    if path.stat().st_size == 0:
        return Scan()
    return _Scanner().scan(path)


def scan_keys(fd: int) -> Scan:
    """Scan another run's journal, which may be growing, for its finished steps: who reads a line has to check it.

    A line that begins and ends as that of a finished step is indexed, whatever is between. That takes a quarter of the
    time of `scan_journal`. A last line without its end is not there yet. Raises OSError.
    """
    return _Scanner().scan_keys(fd)


def key_of(line: bytes) -> str | None:
    """`finished_key`, where a line that looks exactly as a journal writes it is trusted."""
    head = _PLAIN.match(line)
    if head and line.endswith(b"}\n"):
        return head[1].decode()
    return finished_key(line)


def finished_key(line: bytes) -> str | None:
    """The key of a finished step's line; "" for another intact record; None for a damaged line."""
    try:
        record = orjson.loads(line)
        key = record["key"]
        if len(key) != KEY_HEX or len(bytes.fromhex(key)) != KEY_HEX // 2:  # fromhex overlooks spaces
            return None
        if not record["ok"]:
            return ""
        return str(key)
    except (ValueError, KeyError, TypeError):
        return None


class _Scanner:
    """One pass over a file. numpy is imported only here: a new run has nothing to scan."""

    def __init__(self) -> None:
        import numpy as np

        self._np = np
        self._scan = Scan()
        self._lines = 0
        self._fingerprints: list[Array] = []
        self._offsets: list[Array] = []

    def scan(self, path: Path) -> Scan:
        offset = 0
        # The parts of a line whose end is still to come: none where it is longer than MAX_LINE.
        begun: list[bytes] = []
        length = 0
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                end, done = block.rfind(b"\n") + 1, 0
                if end and length > _BLOCK:
                    # Separately and without numpy: an array of 8 bytes for each NUL in it would be large.
                    done = block.find(b"\n") + 1
                    line = b""
                    if length <= MAX_LINE:
                        begun.append(block[: done - 1])
                        line = b"".join(begun)
                    self._lines += 1
                    self._add_line(line, self._lines, offset)
                    offset += length + done
                    begun, length = [], 0
                if end > done:
                    begun.append(block[done:end])
                    self._add_lines(b"".join(begun), offset)
                    offset += length + end - done
                    begun, length = [], 0
                length += len(block) - end
                if length <= MAX_LINE:
                    begun.append(block[end:])
                else:
                    begun = []
        self._scan.index = self._sort_keys()
        return self._scan

    def scan_keys(self, fd: int) -> Scan:
        np = self._np
        buffer, is_newline = np.empty(_LARGE_BLOCK, np.uint8), np.empty(_LARGE_BLOCK, bool)
        offset = n_held = 0
        while n_read := os.preadv(fd, [memoryview(buffer)[n_held:]], offset + n_held):
            n_filled = n_held + n_read
            np.equal(buffer[:n_filled], 0x0A, out=is_newline[:n_filled])
            ends = np.flatnonzero(is_newline[:n_filled])
            if len(ends):
                length = int(ends[-1]) + 1
                self._add_keys(buffer[:length], ends, offset)
                n_held = n_filled - length
                buffer[:n_held] = buffer[length:n_filled].copy()
            elif n_filled < _LARGE_BLOCK:
                n_held, length = n_filled, 0
            else:
                length = _length_of_line(fd, offset)
                if not length:
                    break
                self._lines += 1
                line = b""
                if length <= MAX_LINE:
                    line = os.pread(fd, length, offset)
                self._add_line(line, self._lines, offset)
                n_held = 0
            offset += length
        self._scan.index = self._sort_keys()
        return self._scan

    def _add_keys(self, text: Array, ends: Array, offset: int) -> None:
        """Index complete lines that begin at `offset` of the file, of which nobody looks at what is within."""
        np = self._np
        starts = np.concatenate(([0], ends[:-1] + 1))
        plain = self._add_plain(text, starts, _plain_lines(np, text, starts, ends), offset)
        for i in np.flatnonzero(~plain).tolist():
            line = text[starts[i] : ends[i]].tobytes()
            self._add_line(line, self._lines + i + 1, offset + int(starts[i]))
        self._lines += len(ends)

    def _add_plain(self, text: Array, starts: Array, plain: Array, offset: int) -> Array:
        """Index the lines that are `plain`; returns which of them are indexed: all, or none."""
        np = self._np
        trusted = starts[plain]
        try:
            keys = unhexlify(_windows(np, text, KEY_HEX)[trusted + len(_HEAD)].tobytes())
        except ValueError:  # damage in some key: each line is parsed
            nothing: Array = np.zeros_like(plain)
            return nothing
        self._fingerprints.append(np.frombuffer(keys, ">u8")[:: KEY_HEX // 16].astype(np.uint64))
        self._offsets.append(trusted + offset)
        self._scan.records += len(trusted)
        return plain

    def _add_lines(self, block: bytes, offset: int) -> None:
        """Index complete lines that begin at `offset` of the file."""
        np = self._np
        text = np.frombuffer(block, np.uint8)
        low = np.flatnonzero(text < 0x20)
        newline = text[low] == 0x0A
        ends = low[newline]
        starts = np.concatenate(([0], ends[:-1] + 1))
        plain = np.zeros(len(starts), bool)
        if _is_utf8(block):
            plain = _plain_lines(np, text, starts, ends)
        if len(ends) < len(low):
            plain[np.searchsorted(ends, low[~newline])] = False
        plain = self._add_plain(text, starts, plain, offset)
        for i in np.flatnonzero(~plain).tolist():
            self._add_line(block[starts[i] : ends[i]], self._lines + i + 1, offset + int(starts[i]))
        self._lines += len(ends)

    def _add_line(self, line: bytes, number: int, offset: int) -> None:
        """Index a line of another form: a failed step's, an edited one, or damage."""
        key = finished_key(line)
        if key is None:
            self._scan.damaged_lines.append(number)
            return
        self._scan.records += 1
        if key:
            self._fingerprints.append(self._np.array([fingerprint_of(key)], self._np.uint64))
            self._offsets.append(self._np.array([offset]))

    def _sort_keys(self) -> KeyIndex:
        np = self._np
        if not self._fingerprints:
            return NO_KEYS
        fingerprints, offsets = np.concatenate(self._fingerprints), np.concatenate(self._offsets)
        self._fingerprints.clear()
        self._offsets.clear()
        return index_of(fingerprints, offsets)


def _plain_lines(np: Any, text: Array, starts: Array, ends: Array) -> Array:
    """Which lines of `text` begin and end as those of finished steps do."""
    plain: Array = np.zeros(len(starts), bool)
    # Only the last lines of a block can be too short to hold a prefix within it.
    whole = starts[: np.searchsorted(starts, len(text) - _PREFIX, "right")]
    if len(whole):
        plain[: len(whole)] = (
            (_windows(np, text, len(_HEAD))[whole] == np.void(_HEAD))
            & (_windows(np, text, len(_OK))[whole + _PREFIX - len(_OK)] == np.void(_OK))
            & (text[ends[: len(whole)] - 1] == ord("}"))
        )
    return plain


def _windows(np: Any, text: Array, size: int) -> Array:
    """Every run of `size` bytes of `text` as one element, by its start; nothing is copied."""
    return cast("Array", np.ndarray((len(text) - size + 1,), f"V{size}", text, strides=(1,)))


def _length_of_line(fd: int, offset: int) -> int:
    """Bytes of the line that begins at `offset`, its newline included; 0 where it has no end yet."""
    start = offset
    while block := os.pread(fd, _LARGE_BLOCK, start):
        end = block.find(b"\n")
        if end >= 0:
            return start + end + 1 - offset
        start += len(block)
    return 0


def _is_utf8(block: bytes) -> bool:
    try:
        return block.isascii() or block.decode() is not None
    except UnicodeDecodeError:
        return False
