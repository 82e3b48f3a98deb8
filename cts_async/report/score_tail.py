"""The scores in a results file that grows: each once, as they are appended, at the price of a search for bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SCORE: Final = re.compile(rb'"restore_score_100":\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)')
"""A key: in a text its quotes would be escaped."""
_BLOCK: Final = 1 << 20


class ScoreTail:
    """Reads on where it stopped. Of an instance that is scored twice both count; failures have no score."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def read(self) -> Iterator[float]:
        """The scores in whole lines that were appended; none where nothing can be read."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                rest = b""
                while block := file.read(_BLOCK):
                    read = rest + block
                    whole = read.rfind(b"\n") + 1
                    rest = read[whole:]
                    self._at += whole
                    yield from map(float, _SCORE.findall(read[:whole]))
        except OSError:
            return
