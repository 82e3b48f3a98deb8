"""All runs below a folder: their rows in the list of runs, which are open, and the thread that indexes them."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async import __version__, scorer
from cts_async.runs.files import MANIFEST, PER_ITEM, RESULTS, STEPS, SUMMARY
from cts_async.runs.index import NO_FILE, Json, Stat, is_serializable, read_object, stat_of
from cts_async.runs.manifest import Manifest
from cts_async.runs.open_run import (
    MAX_FOLDERS,
    OpenRun,
    Place,
    find_places,
    journal_of,
    judgment_files,
    viewed_manifest,
)
from cts_async.runs.untrusted import as_count, as_float, as_object, as_texts
from cts_async.watch.live import LIVE, LiveFile, is_current, is_live

MAX_OPEN: Final = 16
MAX_INDEX_BYTES: Final = 192 << 20
"""Memory of the indexes of open runs, enough for a dozen of 100,000 instances; the least recently used are closed."""
FOUND_S: Final = 0.5
"""How long a search of the folder stays valid."""
REST: Final = 9
"""A search is valid for at least so many times as long as it took: the folder may be somebody's home."""
COUNT_S: Final = 0.25
"""How long the list of runs waits for results to be counted."""
SLICE_S: Final = 0.05
"""How long the indexing thread works on one run at a time."""
_COPY_NS: Final = 2_000_000_000
"""Copying a run changes the order of modification times by up to this."""

_SUMMARY_KEYS: Final = frozenset(
    {"n_scored", "n_unjudged", "n_failed", "ua_unknown_rate", "cost_usd", "judge", "judges"}
)
_NO_COSTS: Final = {"cost_usd": None, "priced_usd": None, "unpriced_models": 0}
_NOT_COUNTED: Final = {
    "n_done": 0,
    "n_failed": 0,
    "scores": [],
    "unknown_rate": None,
    "cost_usd": None,
    "priced_usd": None,
    "unpriced_models": 0,
    "contradictions": [],
}

State = tuple[tuple[str, Stat], ...]


# --- A run as a row of the list


def files_state(place: Place) -> State:
    """The state of all files that a run's row depends on."""
    directory = place.path
    names = [MANIFEST, RESULTS, PER_ITEM, SUMMARY, STEPS, LIVE]
    found = [(name, stat_of(directory / name)) for name in names]
    return (*found, *((path.name, stat_of(path)) for path in judgment_files(directory)))


def scores_state(place: Place) -> State:
    """The state of all files that a run's scores depend on."""
    return tuple((name, of) for name, of in files_state(place) if name not in (SUMMARY, STEPS, LIVE))


def _summary_is_current(place: Place) -> bool:
    """Whether `summary.json` is no older than the results."""
    summary = stat_of(place.path / SUMMARY)
    latest = max(of.mtime_ns for name, of in scores_state(place) if name != MANIFEST)
    return summary != NO_FILE and latest <= summary.mtime_ns + _COPY_NS


def _read_summary(place: Place) -> Json:
    """The content of `summary.json`; {} if there is none that can be read."""
    try:
        return read_object(place.path / SUMMARY) or {}
    except ValueError:
        return {}


def _summary_tally(summary: Json) -> Json | None:
    """The tally in a summary; None if it has another form."""
    judges = as_object(summary.get("judges"))
    if not summary.keys() >= _SUMMARY_KEYS or not all(isinstance(of, dict) for of in judges.values()):
        return None
    names = sorted(judges, key=lambda judge: judge != summary.get("judge"))
    return {
        "n_done": sum(as_count(summary[name]) for name in ("n_scored", "n_unjudged", "n_failed")),
        "n_failed": as_count(summary["n_failed"]),
        "scores": [_scored(judge, judges[judge]) for judge in names],
        "unknown_rate": as_float(summary["ua_unknown_rate"]),
        **_costs(summary),
        "contradictions": as_texts(summary.get("contradictions")),
        "ready": 1.0,
    }


def _costs(summary: Mapping[str, Any]) -> Json:
    """The costs in a summary, of any version."""
    return {
        "cost_usd": as_float(summary.get("cost_usd")),
        "priced_usd": as_float(summary.get("priced_usd")),
        "unpriced_models": as_count(summary.get("unpriced_models")),
    }


def _scored(judge: str, numbers: Mapping[str, Any]) -> Json:
    means = {name: as_float(numbers.get(name)) for name in ("mean", "p50", "p90")}
    return {"judge": judge, "n_scored": as_count(numbers.get("n_scored")), **means}


def _indexed_tally(run: OpenRun, summary: Json | None) -> Json:
    """The tally of the indexed lines. The cost is the summary's if that covers as many instances."""
    lines = run.results.lines()
    # Also of instances whose search or judge failed: they were asked and answered before.
    asked, unknown = int(lines.asked.sum(dtype=int)), int(lines.unknown.sum(dtype=int))
    scores = []
    for judge, index in run.judges().items():
        values = run.scores(index, lines)
        known = values[values == values]
        scores.append(_scored(judge, asdict(scorer.summarise(known.tolist(), 0, len(known)))))
    counts = {"n_done": len(lines), "n_failed": int(lines.failed.sum())}
    covered = summary is not None and counts.items() <= summary.items()
    return {
        **counts,
        "scores": scores,
        "unknown_rate": unknown / asked if asked else None,
        **(_costs(summary) if summary and covered else _NO_COSTS),
        "contradictions": run.contradictions(),
        "ready": run.ready,
    }


def _live_of(place: Place) -> LiveFile | None:
    """The `live.json` of a run; None if no process is writing the run."""
    try:
        found = read_object(place.path / LIVE)
    except ValueError:
        return None
    return found if is_current(found) and is_live(found) and is_serializable(found) else None


def _data_name(manifest: Manifest) -> str:
    """The name of the data; that of judged candidates, which know their gold only, is the gold's digest."""
    if manifest.identity.data.name or not manifest.gold_sha256:
        return manifest.identity.data.name
    return f"gold {manifest.gold_sha256[:8]}"


def _row(place: Place, manifest: Manifest, tally: Json, data_sha: str) -> Json:
    live = _live_of(place)
    wall_s = manifest.wall_s if manifest.sessions else None
    if live is not None:
        wall_s = (wall_s or 0.0) + live["time"] - live["started"]
    return {
        "name": place.name,
        "kind": manifest.kind,
        "system": manifest.system,
        "agent": manifest.agent,
        "data": _data_name(manifest),
        "data_sha": data_sha,  # equal for runs that can be compared
        "k": manifest.k,
        "scheme": manifest.identity.scheme or None,
        "mode": manifest.identity.mode or None,
        "started": manifest.started or None,
        "ended": None if live else manifest.last_session.end or None,
        "running": live is not None,
        "caveat": manifest.caveat,  # why its scores say nothing about a model; "" if they do
        **tally,
        "n_expected": max(manifest.n_expected, tally["n_done"]),
        "n_absent": manifest.n_absent,
        # While the run is running, `live` reports the cost of all runs of its command.
        **(_NO_COSTS if live else {}),
        "wall_s": wall_s,  # of all sessions, the current one included
        "live": live,
    }


# --- All runs


@dataclass(frozen=True, slots=True)
class Found:
    """The contents of the folder."""

    runs: Mapping[str, tuple[Place, Manifest]] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    data_by_gold: Mapping[str, str] = field(default_factory=dict)
    """Digest of a gold file -> `data_sha` of runs scored by it."""


class Library:
    """The runs below `root`, or only those in its `parts`. Its methods are called by worker threads."""

    def __init__(self, root: Path, parts: Sequence[Path] = ()) -> None:
        self.root, self._parts = root, parts
        self._lock = threading.Lock()
        self._found, self._found_until = Found(), float("-inf")
        self._manifests: dict[Path, tuple[Stat, Manifest | None]] = {}
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._tallies: dict[str, tuple[State, Json]] = {}

    def find(self, *, again: bool = False) -> Found:
        """The runs there are, as of half a second ago at most; longer ago if searching the folder is slow."""
        with self._lock:
            began = time.monotonic()
            if again or began > self._found_until:
                self._found = self._look()
                ended = time.monotonic()
                self._found_until = ended + max(FOUND_S, REST * (ended - began))
                for known in (self._open, self._tallies):
                    for name in known.keys() - self._found.runs.keys():
                        known.pop(name, None)
            return self._found

    def get(self, name: str) -> tuple[Place, Manifest] | None:
        """A run by its name, or None. The run may be younger than the last search, so a miss searches again."""
        return self.find().runs.get(name) or self.find(again=True).runs.get(name)

    def open(self, name: str) -> OpenRun | None:
        """Open a run by its name; None if there is no such run."""
        known = self.get(name)
        if known is None:
            return None
        place, manifest = known
        with self._lock:
            run = self._open.pop(name, None)
            if run is None:
                run = OpenRun(place, manifest, journal_of(place, manifest, self.root))
            run.manifest = manifest
            self._open[name] = run
            while len(self._open) > 1 and (
                len(self._open) > MAX_OPEN or sum(run.nbytes for run in self._open.values()) > MAX_INDEX_BYTES
            ):
                self._open.popitem(last=False)
            return run

    def rows(self) -> list[Json]:
        """Every run's row, newest first. Results that take longer than COUNT_S to count are reported as they stand."""
        until = time.monotonic() + COUNT_S
        rows = [self._row(name, until) for name in self.find().runs]
        found = [row for row in rows if row is not None]
        return sorted(found, key=lambda row: row["started"] or "", reverse=True)

    def row(self, name: str) -> Json | None:
        """One run's row; None if there is no such run."""
        return self._row(name, time.monotonic() + COUNT_S)

    def data_sha(self, manifest: Manifest) -> str:
        """Identifies the data of a run: digests of its queries and gold.

        Judged candidates know their gold only; they belong to the runs that were scored by it.
        """
        gold = manifest.gold_sha256
        return _data_sha(manifest) or self.find().data_by_gold.get(gold, gold)

    def over(self, data_sha: str) -> list[tuple[Place, Manifest]]:
        """The runs over these data, by name; none for ""."""
        every = self.find().runs.values() if data_sha else ()
        return [(place, manifest) for place, manifest in every if self.data_sha(manifest) == data_sha]

    def to_index(self) -> OpenRun | None:
        """The most recently used open run that is not fully indexed."""
        with self._lock:
            opened = list(reversed(self._open.values()))
        return next((run for run in opened if run.needs_indexing), None)

    def _row(self, name: str, until: float) -> Json | None:
        known = self.find().runs.get(name)
        if known is None:
            return None
        place, manifest = known
        return _row(place, manifest, self._tally(place, until), self.data_sha(manifest))

    def _tally(self, place: Place, until: float) -> Json:
        state = files_state(place)
        known = self._tallies.get(place.name)
        if known is not None and known[0] == state:
            return known[1]
        summary = _read_summary(place)
        summary_tally = _summary_tally(summary)
        tally: Json | None = None
        # Earlier versions took stored scores as they were, and a score may have been edited before they summed it up.
        if summary.get("version") == __version__ and _summary_is_current(place):
            tally = summary_tally
        if tally is None:
            late = time.monotonic() >= until
            run = None if late else self.open(place.name)
            if run is None:
                return {**_NOT_COUNTED, "ready": 0.0}
            run.advance(max(0.0, until - time.monotonic()))
            tally = _indexed_tally(run, summary_tally)
        if tally["ready"] >= 1:
            self._tallies[place.name] = (state, tally)
        return tally

    def _look(self) -> Found:
        runs: dict[str, tuple[Place, Manifest]] = {}
        damaged = []
        places, complete = find_places(self.root, self._parts)
        if not complete:
            damaged.append(f"only the first {MAX_FOLDERS:,} folders were searched: name a smaller folder")
        for place in places:
            path = place.path / MANIFEST
            state = stat_of(path)
            known = self._manifests.get(path)
            try:
                if known is None or known[0] != state:
                    known = self._manifests[path] = (state, viewed_manifest(place.path))
            except ValueError as error:
                damaged.append(f"{place.name}: run.json is not a manifest ({error})")
                continue
            if known[1] is not None:
                runs[place.name] = (place, known[1])
        named = [manifest for _, manifest in runs.values() if manifest.identity.data.sha256]
        return Found(runs, tuple(damaged), {one.gold_digest: _data_sha(one) for one in named})


def _data_sha(manifest: Manifest) -> str:
    """By queries and gold; "" if the queries are unknown. Gold in the same file as the queries adds nothing."""
    data, gold = manifest.identity.data.sha256, manifest.gold_sha256
    return f"{data}.{gold[:16]}" if data and gold and gold != data else data


# --- Changes, for pages that listen


class Changes:
    """What changes in one run, or in all (""), as server-sent events for one page."""

    def __init__(self, library: Library, run: str) -> None:
        self._library, self._run = library, run
        self._sent: dict[str, tuple[State, float]] = {}
        """By run, the state of its files and the share indexed when its row was last sent."""

    def next(self) -> bytes:
        """Everything new since the last call, first all rows. Runs in a worker thread."""
        runs = self._library.find().runs
        events = [_event("gone", {"name": name}) for name in self._sent if name not in runs]
        self._sent = {name: sent for name, sent in self._sent.items() if name in runs}
        for name, (place, _) in runs.items():
            state, sent = files_state(place), self._sent.get(name)
            # A row that was sent while its results were being indexed is sent again.
            changed = sent is None or sent[1] < 1 or sent[0] != state
            if changed and self._run in ("", name) and (row := self._library.row(name)):
                self._sent[name] = (state, row["ready"])
                events.append(_event("changed", row))
        return b"".join(events)


def _event(kind: str, data: Json) -> bytes:
    # JSON contains no line breaks, so that the data of an event is one line.
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


# --- The indexing thread


class Indexer:
    """Indexes open runs in a thread of its own. Call `wake` after a run was opened or may have grown."""

    def __init__(self, library: Library, prepare: Callable[[OpenRun], None]) -> None:
        self._library, self._prepare = library, prepare
        self._woken = threading.Event()
        self._closed = False
        threading.Thread(target=self._run, name="indexing", daemon=True).start()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Stop after the current slice."""
        self._closed = True
        self._woken.set()

    def _run(self) -> None:
        while not self._closed:
            self._woken.wait()
            self._woken.clear()
            try:
                while not self._closed and (run := self._library.to_index()):
                    if run.viewed and run.ready >= 1 and not run.prepared:
                        self._prepare(run)  # before the journal, which takes longest
                    else:
                        run.advance(SLICE_S)
            except Exception:  # a bug: the next request wakes this thread again
                logging.getLogger(__name__).exception("indexing failed")
