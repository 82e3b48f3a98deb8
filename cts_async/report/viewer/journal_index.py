"""Where the steps of each instance stand in a journal, found without parsing its lines; 16 bytes a step.

A line that begins as a journal writes it is taken at its word, any other is parsed; damaged ones are passed over.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.report.viewer.columns import Columns
from cts_async.report.viewer.files import record_in
from cts_async.report.viewer.results_index import id_hash
from cts_async.report.viewer.tail import BLOCK, Tail

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_LINE: Final = re.compile(
    rb'(?:\{"key":"[0-9a-f]{32}","ok":(?:true|false),"instance":"([^"\\\n]*)","step":"[^\n]*\}|[^\n]*)\n'
)
"""A whole line, and whose it is if it looks as the journal writes it."""


class JournalIndex:
    """Grows with its file."""

    def __init__(self, path: Path, block: int = BLOCK) -> None:
        self.path = path
        self.tail = Tail(path, block)
        self._columns = Columns("int64", "int64")

    @property
    def n_steps(self) -> int:
        return len(self._columns)

    @property
    def nbytes(self) -> int:
        return self._columns.nbytes

    def advance(self) -> bool:
        """Take in some more of the file; whether there was any."""
        if self.tail.renewed():
            self._columns = Columns("int64", "int64")
        found = self.tail.next()
        if found is None:
            return False
        offset, block = found
        ids: list[int] = []
        offsets: list[int] = []
        for match in _LINE.finditer(block):
            own = match[1]
            id = hash(own) if own is not None else _parsed(match[0])
            if id is not None:
                ids.append(id)
                offsets.append(offset + match.start())
        self._columns.add(ids, offsets)
        return True

    def offsets(self, id: str) -> Array:
        """Where the lines of an instance begin, in the order of the file; shape (steps,)."""
        ids, offsets = self._columns.all()
        found: Array = offsets[ids == id_hash(id)]
        return found


def _parsed(line: bytes) -> int | None:
    """The hash of the instance that an unusual line names; None for damage."""
    record = record_in(line)
    if record is None or not isinstance(record.get("instance"), str):
        return None
    return id_hash(record["instance"])
