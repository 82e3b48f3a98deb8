"""Writes `live.json` into the directories of a command while it runs, once a second, and removes it at the end.

A directory gets one as soon as this process is known to hold its lock, and never before: it may be another's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cts_async.report.doing import Doing
from cts_async.report.live import read_live, remove_live, write_live
from cts_async.report.score_tail import ScoreTail
from cts_async.report.ticking import ticking

EVERY_S = 1.0


class LiveWriter:
    """`tick` now and then, `end` once."""

    def __init__(self, doing: Doing) -> None:
        self._doing = doing
        self._tails: dict[str, ScoreTail] = {}

    def tick(self) -> None:
        """Take in the scores that are new, and say in each directory how things stand with what goes there."""
        groups: dict[Path, list[str]] = {}
        for work in self._doing.begun:
            if work.scores is not None:
                tail = self._tails.setdefault(work.group, ScoreTail(work.scores))
                self._doing.scored(work.group, tail.read())
            for directory in work.directories:
                groups.setdefault(directory, []).append(work.group)
        for directory, names in groups.items():
            write_live(directory, self._doing.live(names))

    def end(self) -> None:
        """Nothing is going on any more: no word stays, a killed process's neither, but for that of a next one."""
        for work in self._doing.begun:
            for directory in work.directories:
                said = read_live(directory)
                if said is None or said["pid"] == os.getpid():
                    remove_live(directory)


@contextmanager
def told_live(doing: Doing) -> Iterator[None]:
    """`live.json` while the block runs."""
    writer = LiveWriter(doing)
    try:
        with ticking(EVERY_S, writer.tick):
            yield
    finally:
        writer.end()
