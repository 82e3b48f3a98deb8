"""All runs of the folder: found anew whenever somebody asks, opened and indexed a few at a time.

Worker threads call this; what they share is guarded by one lock, and an index by its own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cts_async.report.viewer.about import About, read_about
from cts_async.report.viewer.files import Stat, stat_of
from cts_async.report.viewer.folder import MAX_FOLDERS, Place, find_places
from cts_async.report.viewer.open_run import OpenRun, journal_of
from cts_async.report.viewer.rows import State, Tally, counted, run_row, state_of, summarised, up_to_date
from cts_async.report.viewer.shapes import RunRow

MAX_OPEN: Final = 16
MAX_BYTES: Final = 64 << 20
"""Of the indices of runs that nobody looks at just now."""
FOUND_S: Final = 0.5
"""So long the folder counts as looked through."""
QUICK_S: Final = 0.1
REST: Final = 9
"""And so many times as long as looking through it took beyond QUICK_S: somebody's home is no folder of runs."""
COUNT_S: Final = 0.25
"""So long the list of runs waits for results to be counted; what is not by then is told as it stands."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the folder."""

    runs: Mapping[str, tuple[Place, About]] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    data_by_gold: Mapping[str, str] = field(default_factory=dict)
    """Digest of a gold -> that of data which runs were scored with by it."""


class Library:
    """The runs below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._found, self._found_until = Found(), float("-inf")
        self._abouts: dict[Path, tuple[Stat, About | None]] = {}
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._tallies: dict[str, tuple[State, Tally]] = {}

    def find(self) -> Found:
        """The runs that there are now, half a second ago at most where the folder is no large one."""
        with self._lock:
            began = time.monotonic()
            if began > self._found_until:
                self._found = self._look()
                ended = time.monotonic()
                self._found_until = ended + max(FOUND_S, REST * (ended - began - QUICK_S))
                self._forget()
            return self._found

    def open(self, name: str) -> OpenRun | None:
        """A run, opened; None where none of the runs found has that name."""
        known = self.find().runs.get(name)
        if known is None:
            return None
        place, about = known
        with self._lock:
            run = self._open.pop(name, None)
            if run is None:
                run = OpenRun(place, about, journal_of(place, about, self.root))
            run.about = about
            self._open[name] = run
            self._close_oldest()
            return run

    def rows(self) -> list[RunRow]:
        """Every run's row, newest first. Results that are not counted yet are, as far as a quarter of a second goes."""
        until = time.monotonic() + COUNT_S
        rows = [self._row(name, until) for name in self.find().runs]
        found = [row for row in rows if row is not None]
        return sorted(found, key=lambda row: row["started"] or "", reverse=True)

    def damaged(self) -> list[str]:
        """What cannot be shown of the folder, one line each; damaged lines as far as files have been read."""
        with self._lock:
            opened = sorted(self._open.items())
        lines = [f"{name}: {line}" for name, run in opened for line in run.damaged()]
        return [*self.find().damaged, *lines]

    def row(self, name: str) -> RunRow | None:
        """One run's row; None where there is no such run."""
        return self._row(name, time.monotonic() + COUNT_S)

    def data_sha(self, about: About) -> str:
        """What runs over the same data have in common: digests of queries and gold.

        Judged candidates know their gold only, and go with a run that was scored by the same.
        """
        return _data_sha(about) or self.find().data_by_gold.get(about.gold_sha256, about.gold_sha256)

    def over(self, data_sha: str) -> list[tuple[Place, About]]:
        """The runs over these data, by name; none over data that nobody names."""
        every = self.find().runs.values() if data_sha else ()
        return [(place, about) for place, about in every if self.data_sha(about) == data_sha]

    def unready(self) -> Iterator[OpenRun]:
        """The opened runs of which something is still to be indexed, the latest used first."""
        with self._lock:
            opened = list(reversed(self._open.values()))
        return (run for run in opened if run.ready < 1 or (run.looked_into and not run.is_prepared))

    def _row(self, name: str, until: float) -> RunRow | None:
        known = self.find().runs.get(name)
        if known is None:
            return None
        place, about = known
        return run_row(place, about, self._tally(place, until), self.data_sha(about))

    def _tally(self, place: Place, until: float) -> Tally:
        state = state_of(place)
        known = self._tallies.get(place.name)
        if known is not None and known[0] == state:
            return known[1]
        summary = summarised(place)
        tally = summary if up_to_date(place) else None
        if tally is None:
            late = time.monotonic() >= until
            run = None if late else self.open(place.name)
            if run is None:
                return Tally(0, 0, None, (), ready=0.0)
            run.advance(max(0.0, until - time.monotonic()))
            tally = counted(run, summary)
        if tally.ready >= 1:
            self._tallies[place.name] = (state, tally)
        return tally

    def _look(self) -> Found:
        runs: dict[str, tuple[Place, About]] = {}
        damaged = []
        places, whole = find_places(self.root)
        if not whole:
            damaged.append(
                f"only {MAX_FOLDERS:,} folders were looked into: name a smaller one that runs are in"
            )
        for place in places:
            try:
                about = self._about(place)
            except ValueError as error:
                damaged.append(f"{place.name}: run.json is no manifest ({error})")
                continue
            if about is not None:
                runs[place.name] = (place, about)
        named = [about for _, about in runs.values() if about.data_sha256]
        return Found(runs, tuple(damaged), {about.gold_digest: _data_sha(about) for about in named})

    def _about(self, place: Place) -> About | None:
        path = place.path / "run.json"
        state = stat_of(path)
        known = self._abouts.get(path)
        if known is None or known[0] != state:
            known = self._abouts[path] = (state, read_about(place.path))
        return known[1]

    def _forget(self) -> None:
        """Let go of runs that are there no longer."""
        for name in set(self._open) - set(self._found.runs):
            del self._open[name]
        for name in set(self._tallies) - set(self._found.runs):
            self._tallies.pop(name, None)

    def _close_oldest(self) -> None:
        while len(self._open) > 1 and (
            len(self._open) > MAX_OPEN or sum(run.nbytes for run in self._open.values()) > MAX_BYTES
        ):
            self._open.popitem(last=False)


def _data_sha(about: About) -> str:
    """By queries and gold; "" where nobody knows the queries. Gold that stands with its queries has no digest."""
    data, gold = about.data_sha256, about.gold_sha256
    return f"{data}.{gold[:16]}" if data and gold and gold != data else data
