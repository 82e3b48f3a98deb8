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
from cts_async.foreign_json import as_count, as_float, as_object, as_texts
from cts_async.runs.files import MANIFEST, PER_ITEM, RESULTS, STEPS, SUMMARY
from cts_async.runs.index import (
    NO_FILE,
    NO_RUN,
    Json,
    Refused,
    Stat,
    display_name,
    is_serializable,
    read_object,
    stat_of,
)
from cts_async.runs.manifest import ORIG, Manifest
from cts_async.runs.open_run import (
    MAX_FOLDERS,
    OpenRun,
    Place,
    find_places,
    journal_of,
    judgment_files,
    viewed_manifest,
)
from cts_async.runs.selection import older_directories
from cts_async.runs.settings import setting_of, settings_agree
from cts_async.runs.versions import version_of
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
_NO_COSTS: Final[Json] = {"cost_usd": None, "priced_usd": None, "unpriced_models": 0}
_NOT_COUNTED: Final[Json] = {
    "n_done": 0,
    "n_failed": 0,
    "scores": [],
    "unknown_rate": None,
    "cost_usd": None,
    "priced_usd": None,
    "unpriced_models": 0,
    "contradictions": [],
}

VERSION_KEYS: Final = (
    "name",
    "series",
    "version",
    "older",
    "changed",
    "changed_from",
    "worked_on",
    "scores",
    "data_sha",
)
"""Of a run's row, what a menu of versions shows."""

State = tuple[tuple[str, Stat], ...]


# --- A run as a row of the list


def files_state(place: Place) -> State:
    """The state of all files that a run's row depends on."""
    paths = [place.path / name for name in (MANIFEST, RESULTS, PER_ITEM, SUMMARY, STEPS, LIVE)]
    paths += judgment_files(place.path)
    return tuple((path.name, stat_of(path)) for path in paths)


def scores_state(place: Place) -> State:
    """The state of all files that a run's scores depend on."""
    return tuple((name, stat) for name, stat in files_state(place) if name not in (SUMMARY, STEPS, LIVE))


def _summary_is_current(place: Place) -> bool:
    """Whether `summary.json` is no older than the results."""
    summary = stat_of(place.path / SUMMARY)
    if summary == NO_FILE:
        return False
    latest = max(stat.mtime_ns for name, stat in scores_state(place) if name != MANIFEST)
    return latest <= summary.mtime_ns + _COPY_NS


def _read_summary(place: Place) -> Json:
    """The content of `summary.json`; {} if there is none that can be read."""
    try:
        return read_object(place.path / SUMMARY) or {}
    except ValueError:
        return {}


def _summary_tally(summary: Json) -> Json | None:
    """The tally in a summary; None if it has another form."""
    if not summary.keys() >= _SUMMARY_KEYS:
        return None
    judges = as_object(summary.get("judges"))
    scores: list[Json] = []
    # The scoring judge first, as in the indexed tally.
    for judge in sorted(judges, key=lambda judge: judge != summary.get("judge")):
        if not isinstance(judges[judge], dict):
            return None
        scores.append(_judge_scores(judge, judges[judge]))
    tally: Json = {
        "n_done": sum(as_count(summary[name]) for name in ("n_scored", "n_unjudged", "n_failed")),
        "n_failed": as_count(summary["n_failed"]),
        "scores": scores,
        "unknown_rate": as_float(summary["ua_unknown_rate"]),
        "contradictions": as_texts(summary.get("contradictions")),
        "ready": 1.0,
    }
    return tally | _costs(summary)


def _costs(summary: Mapping[str, Any]) -> Json:
    """The costs in a summary, of any version."""
    return {
        "cost_usd": as_float(summary.get("cost_usd")),
        "priced_usd": as_float(summary.get("priced_usd")),
        "unpriced_models": as_count(summary.get("unpriced_models")),
    }


def _judge_scores(judge: str, numbers: Mapping[str, Any]) -> Json:
    return {
        "judge": judge,
        "n_scored": as_count(numbers.get("n_scored")),
        "mean": as_float(numbers.get("mean")),
        "p50": as_float(numbers.get("p50")),
        "p90": as_float(numbers.get("p90")),
    }


def _indexed_tally(run: OpenRun, summary: Json | None) -> Json:
    """The tally of the indexed lines. The cost is the summary's if that covers as many instances."""
    lines = run.results.lines()
    # Also of instances whose search or judge failed: they were asked and answered before.
    n_answers, n_unknown = int(lines.asked.sum(dtype=int)), int(lines.unknown.sum(dtype=int))
    unknown_rate: float | None = None
    if n_answers:
        unknown_rate = n_unknown / n_answers
    scores: list[Json] = []
    for judge, index in run.judges().items():
        values = run.scores(index, lines)
        # NaN, an instance without a score, is the value that is not equal to itself.
        present = values[values == values]
        numbers = scorer.summarise(present.tolist(), 0, len(present))
        scores.append(_judge_scores(judge, asdict(numbers)))
    counts: Json = {"n_done": len(lines), "n_failed": int(lines.failed.sum())}
    costs = _NO_COSTS
    if summary is not None and counts.items() <= summary.items():
        costs = _costs(summary)
    tally: Json = {
        "scores": scores,
        "unknown_rate": unknown_rate,
        "contradictions": run.contradictions(),
        "ready": run.ready,
    }
    return counts | costs | tally


def _live_of(place: Place) -> LiveFile | None:
    """The `live.json` of a run; None if no process is writing the run."""
    try:
        live = read_object(place.path / LIVE)
    except ValueError:
        return None
    if is_current(live) and is_live(live) and is_serializable(live):
        return live
    return None


def _data_name(manifest: Manifest) -> str:
    """The name of the data; that of judged candidates, which know their gold only, is the gold's digest."""
    if manifest.identity.data.name or not manifest.gold_sha256:
        return manifest.identity.data.name
    return f"gold {manifest.gold_sha256[:8]}"


def _version_fields(manifest: Manifest) -> Json:
    """Which version of which run it is, and what changed."""
    version = version_of(manifest)
    return {
        "series": display_name(version.series),
        "version": version.number,
        "changed": list(version.changed),
        "changed_from": version.changed_from,
        "worked_on": version.last_worked_on or None,
    }


def _run_row(place: Place, manifest: Manifest, tally: Json, data_sha: str) -> Json:
    live = _live_of(place)
    # Of all sessions, the current one included.
    wall_s: float | None = None
    if manifest.sessions:
        wall_s = manifest.wall_s
    ended = manifest.last_session.end or None
    if live is not None:
        wall_s = (wall_s or 0.0) + live["time"] - live["started"]
        ended = None
    row: Json = {
        "name": place.name,
        "kind": manifest.kind,
        "system": manifest.system,
        "agent": manifest.agent,
        "data": _data_name(manifest),
        # Equal for runs that can be compared.
        "data_sha": data_sha,
        "k": manifest.k,
        "scheme": manifest.identity.scheme or None,
        "mode": manifest.identity.mode or None,
        "started": manifest.started or None,
        "ended": ended,
        "running": live is not None,
        # Why its scores say nothing about a model; "" if they do.
        "caveat": manifest.caveat,
    }
    if manifest.restriction:
        row["restriction"] = manifest.restriction
    row |= _version_fields(manifest)
    row |= tally
    row["n_expected"] = max(manifest.n_expected, tally["n_done"])
    row["n_absent"] = manifest.n_absent
    # While the run is running, `live` reports the cost of all runs of its command.
    if live is not None:
        row |= _NO_COSTS
    row["wall_s"] = wall_s
    row["live"] = live
    return row


# --- All runs


@dataclass(frozen=True, slots=True)
class FolderContents:
    """The runs in a folder, as they were when it was searched."""

    runs: Mapping[str, tuple[Place, Manifest]] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    data_by_gold: Mapping[str, str] = field(default_factory=dict)
    """Digest of a gold file -> `data_sha` of runs scored by it."""
    older: frozenset[str] = frozenset()
    """Names of the older versions that are shown on demand only (`selection.older_directories`)."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By name, the versions of a run's lineage in its folder, itself among them, the newest first."""
    hidden: Mapping[Path, Manifest] = field(default_factory=dict)
    """By directory, the runs that are left out; see `Library`."""


class Library:
    """The runs below `root`, or only those in its `parts`. Its methods are called by worker threads.

    Older versions are among them unless the library has the `newest_only`; one that `parts` name is.
    """

    def __init__(self, root: Path, parts: Sequence[Path] = (), *, newest_only: bool = False) -> None:
        self.root, self._parts, self._newest_only = root, parts, newest_only
        self._lock = threading.Lock()
        self._contents = FolderContents()
        self._valid_until = float("-inf")
        """When the folder is searched again, by `time.monotonic`."""
        self._manifests: dict[Path, tuple[Stat, Manifest | None]] = {}
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._tallies: dict[str, tuple[State, Json]] = {}

    def find(self, *, fresh: bool = False) -> FolderContents:
        """The runs there are, as of half a second ago at most; longer ago if searching the folder is slow."""
        with self._lock:
            began = time.monotonic()
            if fresh or began > self._valid_until:
                self._contents = self._search()
                ended = time.monotonic()
                self._valid_until = ended + max(FOUND_S, REST * (ended - began))
                self._forget_removed()
            return self._contents

    def _forget_removed(self) -> None:
        runs = self._contents.runs
        for name in self._open.keys() - runs.keys():
            self._open.pop(name)
        # Another thread may be adding a tally.
        for name in list(self._tallies):
            if name not in runs:
                self._tallies.pop(name, None)

    def get(self, name: str) -> tuple[Place, Manifest] | None:
        """A run by its name, or None. The run may be younger than the last search, so a miss searches again."""
        return self.find().runs.get(name) or self.find(fresh=True).runs.get(name)

    def open(self, name: str) -> OpenRun | None:
        """Open a run by its name; None if there is no such run."""
        place_and_manifest = self.get(name)
        if place_and_manifest is None:
            return None
        place, manifest = place_and_manifest
        with self._lock:
            # Taken out and put in again: the order is that of their last use.
            run = self._open.pop(name, None)
            if run is None:
                run = OpenRun(place, manifest, journal_of(place, manifest, self.root))
            run.manifest = manifest
            self._open[name] = run
            self._close_oldest()
            return run

    def _close_oldest(self) -> None:
        """Close runs while too many are open; the one that was opened last stays, however large it is."""
        while len(self._open) > 1:
            n_bytes = sum(run.nbytes for run in self._open.values())
            if len(self._open) <= MAX_OPEN and n_bytes <= MAX_INDEX_BYTES:
                return
            self._open.popitem(last=False)

    def rows(self) -> list[Json]:
        """Every run's row, newest first. Results that take longer than COUNT_S to count are reported as they stand."""
        until = time.monotonic() + COUNT_S
        rows: list[Json] = []
        for name in self.find().runs:
            row = self._row(name, until)
            # None for a run that was removed since.
            if row is not None:
                rows.append(row)
        return sorted(rows, key=lambda row: row["started"] or "", reverse=True)

    def row(self, name: str) -> Json | None:
        """One run's row; None if there is no such run."""
        return self._row(name, time.monotonic() + COUNT_S)

    def data_sha(self, manifest: Manifest) -> str:
        """Identifies the data of a run: digests of its queries and gold.

        Judged candidates know their gold only; they belong to the runs that were scored by it.
        """
        gold = manifest.gold_sha256
        return _data_sha(manifest) or self.find().data_by_gold.get(gold, gold)

    def shown_data(self) -> str:
        """`data_sha` of the runs that are shown; "" if they are over several. Raises Refused if none is known."""
        contents = self.find()
        digests: set[str] = set()
        for name, (_, manifest) in contents.runs.items():
            if name not in contents.older:
                digests.add(self.data_sha(manifest))
        digests.discard("")
        if not digests:
            raise Refused(404, "no runs over known data")
        if len(digests) > 1:
            return ""
        return digests.pop()

    def shown_over(
        self, data_sha: str, chosen: Sequence[str] = (), *, all_versions: bool = False
    ) -> list[tuple[Place, Manifest]]:
        """The runs over these data that tables show, by name; over all known data for "".

        Of each lineage that is the newest version, or the `chosen` ones, which may be over other data: then what they
        can be compared with is shown, too. With `all_versions` all of these lineages. Raises Refused for a chosen one
        that is no run.
        """
        contents = self.find()
        others: set[str] = set()
        for name in chosen:
            if name not in contents.runs:
                raise Refused(404, NO_RUN)
            others.update(contents.versions[name])
        others -= set(chosen)
        # Without the other versions of their lineages, the chosen ones are the newest.
        runs = {name: run for name, run in contents.runs.items() if name not in others}
        older = self._older(runs)
        digests = {self.data_sha(runs[name][1]) for name in chosen} | {data_sha}
        shown: set[str] = set()
        for name, (_, manifest) in runs.items():
            sha = self.data_sha(manifest)
            is_over = sha in digests or not data_sha
            if sha and is_over and name not in older:
                shown.add(name)
        if all_versions:
            for name in list(shown):
                shown.update(contents.versions[name])
        # All are older, as after a change of the gold: an address that was noted before shows them as it did.
        if not shown:
            over = self.over(data_sha)
            older = self._older({place.name: (place, manifest) for place, manifest in over})
            shown = {place.name for place, _ in over if place.name not in older}
        return [run for name, run in contents.runs.items() if name in shown]

    def version_rows(self, name: str) -> list[Json]:
        """What a menu of the versions of a run's lineage shows, the newest first; results are counted for COUNT_S."""
        until = time.monotonic() + COUNT_S
        rows: list[Json] = []
        for version in self.find().versions.get(name, ()):
            row = self._row(version, until)
            # None for one that was removed since.
            if row is not None:
                rows.append({key: row[key] for key in VERSION_KEYS})
        return rows

    def origs(self, name: str) -> list[str]:
        """The runs of orig that a run can be compared with, the one last worked on first; itself, if it is one."""
        contents = self.find()
        setting = setting_of(contents.runs[name][1])
        origs: list[tuple[tuple[str, int, str], str]] = []
        for orig, (_, manifest) in contents.runs.items():
            if manifest.system == ORIG and settings_agree(setting_of(manifest), setting):
                origs.append((version_of(manifest).recency, orig))
        return [orig for _, orig in sorted(origs, reverse=True)]

    def origin(self, place: Place, manifest: Manifest) -> Manifest | None:
        """The run beside this one that a version was compared with when it was made; None if that is not known here."""
        if not manifest.changed_from:
            return None
        # Looked up, not opened: the manifest may come from anywhere, and may name any path.
        directory = place.path.parent / Path(manifest.changed_from).name
        contents = self.find()
        for origin_place, origin in contents.runs.values():
            if origin_place.path == directory:
                return origin
        return contents.hidden.get(directory)

    def over(self, data_sha: str) -> list[tuple[Place, Manifest]]:
        """The runs over these data, older versions among them, by name; none for ""."""
        # Runs of unknown data are not over the same ones.
        if not data_sha:
            return []
        runs = self.find().runs.values()
        return [(place, manifest) for place, manifest in runs if self.data_sha(manifest) == data_sha]

    def to_index(self) -> OpenRun | None:
        """The most recently used open run that is not fully indexed."""
        # Copied, as asking a run whether it has grown reads its files.
        with self._lock:
            latest_first = list(reversed(self._open.values()))
        for run in latest_first:
            if run.needs_indexing:
                return run
        return None

    def _row(self, name: str, until: float) -> Json | None:
        place_and_manifest = self.find().runs.get(name)
        if place_and_manifest is None:
            return None
        place, manifest = place_and_manifest
        row = _run_row(place, manifest, self._tally(place, until), self.data_sha(manifest))
        contents = self.find()
        # Removed at this moment, it is the only one.
        row["versions"] = list(contents.versions.get(name, (name,)))
        row["older"] = name in contents.older
        return row

    def _tally(self, place: Place, until: float) -> Json:
        # Before anything is read: what is written meanwhile makes another state.
        state = files_state(place)
        cached_state, cached_tally = self._tallies.get(place.name, (None, {}))
        if cached_state == state:
            return cached_tally
        summary = _read_summary(place)
        summary_tally = _summary_tally(summary)
        tally: Json | None = None
        # Earlier versions took stored scores as they were, and a score may have been edited before they summed it up.
        if summary.get("version") == __version__ and _summary_is_current(place):
            tally = summary_tally
        if tally is None:
            run: OpenRun | None = None
            if time.monotonic() < until:
                run = self.open(place.name)
            if run is None:
                return _NOT_COUNTED | {"ready": 0.0}
            run.advance(max(0.0, until - time.monotonic()))
            tally = _indexed_tally(run, summary_tally)
        if tally["ready"] >= 1:
            self._tallies[place.name] = (state, tally)
        return tally

    def _search(self) -> FolderContents:
        runs: dict[str, tuple[Place, Manifest]] = {}
        damaged: list[str] = []
        places, complete = find_places(self.root, self._parts)
        if not complete:
            damaged.append(f"only the first {MAX_FOLDERS:,} folders were searched: name a smaller folder")
        for place in places:
            try:
                manifest = self._read_manifest(place)
            except ValueError as error:
                damaged.append(f"{place.name}: run.json is not a manifest ({error})")
                continue
            if manifest is not None:
                runs[place.name] = (place, manifest)
        data_by_gold: dict[str, str] = {}
        for _, manifest in runs.values():
            if manifest.identity.data.sha256:
                data_by_gold[manifest.gold_digest] = _data_sha(manifest)
        older = self._older(runs)
        hidden: dict[Path, Manifest] = {}
        if self._newest_only:
            for name in older:
                place, manifest = runs.pop(name)
                hidden[place.path] = manifest
            older = set()
        return FolderContents(
            runs, tuple(damaged), data_by_gold, frozenset(older), _versions_by_run(runs), hidden
        )

    def _older(self, runs: Mapping[str, tuple[Place, Manifest]]) -> set[str]:
        """The names of the older versions that are shown on demand only: of all but those that were named by path."""
        directories = older_directories([manifest for _, manifest in runs.values()], set(self._parts))
        return {name for name, (place, _) in runs.items() if place.path in directories}

    def _read_manifest(self, place: Place) -> Manifest | None:
        """The manifest, read again only if its file has changed. Raises ValueError if it is damaged."""
        path = place.path / MANIFEST
        stat = stat_of(path)
        cached_stat, manifest = self._manifests.get(path, (None, None))
        if cached_stat != stat:
            manifest = viewed_manifest(place.path)
            self._manifests[path] = (stat, manifest)
        return manifest


def _versions_by_run(runs: Mapping[str, tuple[Place, Manifest]]) -> dict[str, tuple[str, ...]]:
    lineages: dict[tuple[Path, str], list[tuple[tuple[str, int, str], str]]] = {}
    for name, (place, manifest) in runs.items():
        version = version_of(manifest)
        lineages.setdefault((place.path.parent, version.lineage), []).append((version.recency, name))
    versions: dict[str, tuple[str, ...]] = {}
    for lineage in lineages.values():
        newest_first = tuple(name for _, name in sorted(lineage, reverse=True))
        for name in newest_first:
            versions[name] = newest_first
    return versions


def _data_sha(manifest: Manifest) -> str:
    """By queries and gold; "" if the queries are unknown. Gold in the same file as the queries adds nothing."""
    data, gold = manifest.identity.data.sha256, manifest.gold_sha256
    if not data or not gold or gold == data:
        return data
    return f"{data}.{gold[:16]}"


# --- Changes, for pages that listen


class Changes:
    """What changes in one run, or in all (""), as server-sent events for one page."""

    def __init__(self, library: Library, run: str) -> None:
        self._library, self._run = library, run
        self._sent: dict[str, tuple[object, float]] = {}
        """By run, the state of its row and the share indexed when it was last sent."""

    def next(self) -> bytes:
        """Everything new since the last call, first all rows. Runs in a worker thread."""
        contents = self._library.find()
        runs = contents.runs
        events: list[bytes] = []
        for name in list(self._sent):
            if name not in runs:
                del self._sent[name]
                events.append(_event("gone", {"name": name}))
        for name, (place, _) in runs.items():
            if self._run not in ("", name):
                continue
            # A run becomes an older version when another one begins.
            state = files_state(place), contents.versions[name], name in contents.older
            sent_state, sent_ready = self._sent.get(name, (None, 0.0))
            # A row that was sent while its results were being indexed is sent again.
            if sent_state == state and sent_ready >= 1:
                continue
            row = self._library.row(name)
            if row is not None:
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

    def _index_all(self) -> None:
        """Index slice by slice until nothing is left: another run may have been opened last meanwhile."""
        while not self._closed:
            run = self._library.to_index()
            if run is None:
                return
            # Before the journal, which takes longest.
            if run.viewed and run.ready >= 1 and not run.prepared:
                self._prepare(run)
            else:
                run.advance(SLICE_S)

    def _run(self) -> None:
        while not self._closed:
            self._woken.wait()
            self._woken.clear()
            try:
                self._index_all()
            # A bug: the next request wakes this thread again.
            except Exception:
                logging.getLogger(__name__).exception("indexing failed")
