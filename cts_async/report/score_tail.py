"""The scores in a results file that grows: each once, as they are appended, at the price of a search for bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cts_async.report.viewer.tail import BLOCK, Tail

_SCORE: Final = re.compile(rb'"restore_score_100":\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)')
"""A key: in a text its quotes would be escaped."""


class ScoreTail:
    """Reads on where it stopped. Of an instance that is scored twice both count; failures have no score."""

    def __init__(self, path: Path, block: int = BLOCK) -> None:
        self._tail = Tail(path.parent.resolve() / path.name, block)

    def read(self) -> Iterator[float]:
        """The scores in whole lines that were appended; none where nothing can be read."""
        self._tail.renewed()
        while found := self._tail.next():
            yield from map(float, _SCORE.findall(found[1]))
