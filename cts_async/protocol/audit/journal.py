"""A journal's audited steps by instance, though it is written with all instances mixed: an index first.

16 bytes of memory a step, whatever it holds; damaged lines are counted and named, never guessed at.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from typing import BinaryIO

_HEAD: Final = re.compile(
    rb'\{"key":"[0-9a-f]{32}","ok":(?:true|false),"instance":"([^"\\]*)","step":"([^"\\]*)"[,}]'
)
"""How a line begins; what begins otherwise is parsed whole."""
_AUDITED: Final = re.compile(r"clarify(?:/\d+)?|(?:answer|select|reformulate)/\d+|rewrite|search/turn/\d+")
_AUDITED_BYTES: Final = re.compile(_AUDITED.pattern.encode())

Record = dict[str, Any]


class StepsByInstance:
    """The records of each instance of what somebody was told before or for the search, failed ones among them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged_lines: list[int] = []
        """Numbers of lines that are no records, found while indexing or reading."""
        self._hashes, self._offsets, self._numbers = array("q"), array("q"), array("q")
        if path.exists():
            with path.open("rb", buffering=1 << 20) as file:
                self._index(file)

    def _index(self, file: BinaryIO) -> None:
        offset = 0
        for number, line in enumerate(file, 1):
            place = self._place(line, number)
            if place is not None:
                self._hashes.append(hash(place))
                self._offsets.append(offset)
                self._numbers.append(number)
            offset += len(line)

    def _place(self, line: bytes, number: int) -> str | None:
        """The instance that an audited line belongs to; None for any other line."""
        head = _HEAD.match(line)
        if head is not None and line.endswith(b"}\n"):
            return head[1].decode(errors="replace") if _AUDITED_BYTES.fullmatch(head[2]) else None
        record = _read(line)
        if record is None:
            self.damaged_lines.append(number)
            return None
        return str(record["instance"]) if _AUDITED.fullmatch(str(record["step"])) else None

    def __iter__(self) -> Iterator[tuple[str, list[Record]]]:
        """Each instance with its records in the order of the journal, instances by their first record."""
        import numpy as np

        if not self._hashes:
            return
        hashes = np.frombuffer(self._hashes, np.int64)
        order = np.argsort(hashes, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(hashes[order]) != 0])
        ends = np.r_[starts[1:], len(order)]
        with self.path.open("rb") as file:
            for group in np.argsort(order[starts], kind="stable").tolist():
                yield from self._read_group(file, order[starts[group] : ends[group]].tolist())

    def _read_group(self, file: BinaryIO, rows: list[int]) -> Iterator[tuple[str, list[Record]]]:
        """The records in `rows`, which share a hash: those of one instance, but for a chance in 10^7."""
        found: dict[str, list[Record]] = {}
        for row in rows:
            file.seek(self._offsets[row])
            record = _read(file.readline())
            if record is None:
                self.damaged_lines.append(self._numbers[row])
            else:
                found.setdefault(str(record["instance"]), []).append(record)
        yield from found.items()


def _read(line: bytes) -> Record | None:
    """A whole line as a record; None for a damaged one."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not line.endswith(b"\n") or not isinstance(record, dict):
        return None
    return record if isinstance(record.get("instance"), str) and isinstance(record.get("step"), str) else None
