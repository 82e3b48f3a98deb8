"""Benches at work without a cluster: every piece is pickled as it would travel, and done by one engine."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cts_async.cluster.trades import Trade

from cts_async.cluster.messages import Line, Piece
from cts_async.engine.events import Events
from cts_async.engine.journal import Journal
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Job, Runner

WrittenAt = Mapping[tuple[int, str | None], list[bytes]]
"""Lines by their place and judge, sorted."""


async def done_at_a_bench(
    trade: Trade,
    pieces: Iterable[Piece],
    part: Callable[[int], Any],
    journal: Path,
    environ: Mapping[str, str],
) -> WrittenAt:
    """Do `pieces` and give their lines."""
    written: defaultdict[tuple[int, str | None], list[bytes]] = defaultdict(list)
    events = Events()

    def done(lines: tuple[Line, ...], failed: bool) -> None:
        for line in lines:
            written[line.place, line.judge].append(line.data)

    travelled: Trade = pickle.loads(pickle.dumps(trade))
    lane_of = lambda account, name, limits: Lane(name, limits, events)  # noqa: E731
    async with travelled.opened(environ, events, lane_of, workers=1) as bench:
        book = Journal(journal)

        def job(piece: Piece) -> Job:
            parts = {number: part(number) for number in piece.parts}
            own, parts = pickle.loads(pickle.dumps((piece, parts)))
            return bench.job(own, parts, book, None, done)

        await Runner(bench.lanes, in_flight=bench.in_flight).run(map(job, pieces))
        book.close()
    return {where: sorted(lines) for where, lines in written.items()}


def lines_of(path: Path) -> list[bytes]:
    """A file's lines, sorted."""
    return sorted(path.read_bytes().splitlines(keepends=True))
