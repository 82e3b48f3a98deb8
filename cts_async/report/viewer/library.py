"""All runs below a folder: their rows in the list of runs, which are open, and the thread that indexes them."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypedDict, cast

from cts_async import scorer
from cts_async.protocol.run_files import MANIFEST, PER_ITEM, RESULTS, STEPS, SUMMARY
from cts_async.report.live import LIVE, Live, has_shape, holds
from cts_async.report.viewer.api_types import RunRow, Scored
from cts_async.report.viewer.files import NO_FILE, Stat, as_count, can_be_shown, read_object, stat_of
from cts_async.report.viewer.run import (
    MAX_FOLDERS,
    About,
    OpenRun,
    Place,
    find_places,
    journal_of,
    read_about,
    verdict_files,
)

_COPYING_NS = 2_000_000_000
State = tuple[tuple[str, Stat], ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """What a run came to, as far as its files are counted."""

    n_done: int
    """Instances that have ended, failed ones among them."""
    n_failed: int
    unknown_rate: float | None
    scores: tuple[Scored, ...]
    """The scoring judge first."""
    cost_usd: float | None = None
    ready: float = 1.0


def state_of(place: Place) -> State:
    """All that a run's row depends on: another state, perhaps another row."""
    directory = place.path
    names = [MANIFEST, RESULTS, PER_ITEM, SUMMARY, STEPS, LIVE]
    found = [(name, stat_of(directory / name)) for name in names]
    return (*found, *((path.name, stat_of(path)) for path in verdict_files(directory)))


def counted_state(place: Place) -> State:
    """All that a run's scores depend on."""
    return tuple((name, of) for name, of in state_of(place) if name not in (SUMMARY, STEPS, LIVE))


def up_to_date(place: Place) -> bool:
    """Whether no results have come since `summary.json` was written; a copy's times are not exact."""
    summary = stat_of(place.path / SUMMARY)
    latest = max(of.mtime_ns for name, of in counted_state(place) if name != MANIFEST)
    return summary != NO_FILE and latest <= summary.mtime_ns + _COPYING_NS


def summarised(place: Place) -> Tally | None:
    """What `summary.json` says; None where it says nothing of the kind."""
    try:
        summary = read_object(place.path / SUMMARY)
    except ValueError:
        return None
    return _tally_of(cast("_Summary", summary)) if has_shape(summary, _Summary) else None


class _Numbers(TypedDict):
    """What a summary says of one judge's scores."""

    n_scored: int
    mean: float | None
    p50: float | None
    p90: float | None


class _Summary(TypedDict):
    """What of a summary a row is made from."""

    n_scored: int
    n_unjudged: int
    n_failed: int
    ua_unknown_rate: float | None
    cost_usd: float | None
    judge: str | None
    judges: dict[str, _Numbers]


def _tally_of(summary: _Summary) -> Tally:
    judges, main = summary["judges"], summary["judge"]
    order = sorted(judges, key=lambda judge: judge != main)
    return Tally(
        n_done=sum(map(as_count, (summary["n_scored"], summary["n_unjudged"], summary["n_failed"]))),
        n_failed=as_count(summary["n_failed"]),
        unknown_rate=summary["ua_unknown_rate"],
        scores=tuple(_scored(judge, judges[judge]) for judge in order),
        cost_usd=summary["cost_usd"],
    )


def _scored(judge: str, of: _Numbers) -> Scored:
    return {
        "judge": judge,
        "n_scored": as_count(of["n_scored"]),
        "mean": of["mean"],
        "p50": of["p50"],
        "p90": of["p90"],
    }


def counted(run: OpenRun, summary: Tally | None) -> Tally:
    """What the indexed lines come to. What it cost a summary says, if it is about as many instances."""
    lines = run.results.lines()
    asked = int(lines.asked[~lines.failed].sum(dtype=int))
    unknown = int(lines.unknown[~lines.failed].sum(dtype=int))
    scores = []
    for judge, index in run.judges().items():
        values = run.scores(index, lines)
        known = values[values == values]
        numbers = scorer.summarise(known.tolist(), 0, len(known))
        said: _Numbers = {
            "n_scored": numbers.n_scored,
            "mean": numbers.mean,
            "p50": numbers.p50,
            "p90": numbers.p90,
        }
        scores.append(_scored(judge, said))
    n_failed = int(lines.failed.sum())
    n_done = len(lines)
    whole = summary is not None and (summary.n_done, summary.n_failed) == (n_done, n_failed)
    return Tally(
        n_done=n_done,
        n_failed=n_failed,
        unknown_rate=unknown / asked if asked else None,
        scores=tuple(scores),
        cost_usd=summary.cost_usd if summary and whole else None,
        ready=run.ready,
    )


def live_of(place: Place) -> Live | None:
    """What the process that writes the run says; None where none does."""
    try:
        said = read_object(place.path / LIVE)
    except ValueError:
        return None
    fits = holds(said) and has_shape(said, Live) and can_be_shown(said)
    return cast("Live", said) if fits else None


def _wall_s(about: About, live: Live | None) -> float | None:
    """Seconds of all sessions, the one that goes on included."""
    return about.wall_s if live is None else (about.wall_s or 0.0) + live["time"] - live["started"]


def run_row(place: Place, about: About, tally: Tally, data_sha: str) -> RunRow:
    """The row; `data_sha` says which other runs are over the same data."""
    live = live_of(place)
    return {
        "name": place.name,
        "kind": about.kind,
        "system": about.system,
        "data": about.data or (f"gold {about.gold_sha256[:8]}" if about.gold_sha256 else ""),
        "data_sha": data_sha,
        "k": about.k,
        "scheme": about.scheme,
        "mode": about.mode,
        "started": about.started,
        "ended": None if live else about.ended,
        "running": live is not None,
        "smoke_test": about.embedded,
        "n_expected": max(about.n_expected, tally.n_done),
        "n_done": tally.n_done,
        "n_failed": tally.n_failed,
        "scores": list(tally.scores),
        "unknown_rate": tally.unknown_rate,
        "cost_usd": None if live else tally.cost_usd,
        "wall_s": _wall_s(about, live),
        "live": live,
        "ready": tally.ready,
    }


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


SLICE_S: Final = 0.05


class Indexing:
    """`wake` whenever a run may have been opened, or may have grown."""

    def __init__(self, library: Library, prepare: Callable[[OpenRun], None]) -> None:
        self._library, self._prepare = library, prepare
        self._woken = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="indexing", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Stop after the slice under way."""
        self._closed = True
        self._woken.set()

    def _run(self) -> None:
        while not self._closed:
            self._woken.wait()
            self._woken.clear()
            try:
                while not self._closed and self._slice():
                    pass
            except Exception:  # a bug: the next request wakes us again
                logging.getLogger(__name__).exception("indexing failed")

    def _slice(self) -> bool:
        """Index a little of the run that was looked at last; whether there may be more to do."""
        run = next(self._library.unready(), None)
        if run is None:
            return False
        if run.looked_into and run.ready >= 1 and not run.prepared:
            self._prepare(run)  # before the journal, which takes longest
        else:
            run.advance(SLICE_S)
        return True
