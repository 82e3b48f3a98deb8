"""The state of runs, for whoever watches: `live.json` of a running process, and what the files of a run at rest say.

A process replaces its `live.json` once a second and removes it when it ends. A killed process leaves it behind; its
timestamp and pid tell.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypeGuard, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic refuses that of Python 3.11

from cts_async import foreign_json
from cts_async.analysis.stats import FEWEST, RunningMean
from cts_async.analysis.summary import ResultColumns
from cts_async.errors import CTSError, InputError
from cts_async.llm.batch_ledger import read_ledger
from cts_async.records import Caveat
from cts_async.runs.directory import json_bytes, locker_exists, process_exists
from cts_async.runs.files import (
    JUDGMENTS,
    MANIFEST,
    STEPS,
    judgments_path,
    paths_named,
    results_of,
)
from cts_async.runs.journal import journal_of
from cts_async.runs.manifest import Session, manifest_of, require_manifest
from cts_async.runs.results import no_fingerprint
from cts_async.runs.selection import RunPath, without_older_versions
from cts_async.safe_files import read_file, replace_file
from cts_async.tables.output import duration, unbroken
from cts_async.tables.summary import caveats_json

LIVE: Final = "live.json"
MAX_LIVE_BYTES: Final = 4 << 20
STALE_S: Final = 30.0
"""A process that has not written for so long is gone."""


class LiveLane(TypedDict):
    """The current state of a provider account."""

    name: str
    in_flight: int
    waiting: int
    places: int | None
    """Limit of requests in flight."""
    calls_per_min: float
    """Sent in the last minute."""
    calls_allowed: float | None
    tokens_per_min: float
    """Charged in the last minute."""
    tokens_allowed: float | None
    answers_429: int
    paused_s: float
    """Seconds until requests are sent again after a 429; 0 if none are held back."""
    open_s: float | None
    """Seconds until the next probe while the circuit is open; None while it is closed."""
    reason: str
    """Why the circuit is open; if it is closed, why the provider is not used any more; else ""."""


class LiveWorker(TypedDict):
    """The current state of a worker process, on this machine or another."""

    name: str
    host: str
    """"" until known."""
    pid: int
    state: str
    """starting, working, idle, lost or ended."""
    in_hand: int
    """Unfinished jobs it was given."""
    done: int
    """Finished jobs."""
    calls: int
    calls_per_min: float
    """In the last minute."""
    heard_s: float
    """Seconds since its last message."""
    note: str
    """Why it was lost, or another remark; "" for none."""


class LiveBatch(TypedDict):
    """The current state of a batch of requests; done and failed ones as its provider counts them."""

    model: str
    id: str
    """"" while it is not known."""
    state: str
    n_requests: int
    n_done: int
    n_failed: int
    since: float
    """When it was handed in, in seconds since 1970."""


class LiveCluster(TypedDict, total=False):
    """Present only if the command has workers."""

    workers: list[LiveWorker]
    workers_wanted: int
    """Number of workers requested."""
    cluster: str
    """Address of the cluster; "" for this machine."""


class LiveBatches(TypedDict, total=False):
    """Present only if the command asks models by batches."""

    batches: list[LiveBatch]
    """Those that have not ended."""


class Counts(TypedDict):
    """What is summed over the parts of a process."""

    n_expected: int
    n_done: int
    """Finished instances, failed ones included."""
    n_failed: int
    eta_s: float | None
    """Seconds left at this process's own pace; None while unknown."""
    calls: int
    replayed: int
    reused: NotRequired[int]
    """Steps taken from other runs; absent in files of versions up to 0.13."""
    retries: int
    tokens: int


class _State(Counts):
    mean: float | None
    """By the judge that gives the score."""
    mean_low: float | None
    mean_high: float | None
    """95 % interval of the mean: Student's t over the instances. It is shown from FEWEST scores on."""
    n_scored: int
    note: str
    """Why it waits, or why it ends early; "" for nothing."""


class LivePart(_State):
    """The work of one command on one system, or with one judge: a bar on the terminal."""

    name: str
    smoke_test: bool


class LiveFile(_State, LiveCluster, LiveBatches):
    """The state of the process that writes this run.

    Counts are this process's, except for instances (all of the run) and amounts of a budget (all sessions).
    """

    pid: int
    time: float
    """Seconds since 1970."""
    started: float
    spent_usd: float
    """With a budget, of all sessions of the command; else of this process, as far as prices are known."""
    unpriced_models: NotRequired[int]
    """Models of the command without a price: their dollars are unknown, and in no `spent_usd`."""
    spent_calls: int
    spent_tokens: float
    """Amounts of a budget, of all sessions of the command; 0 without a budget."""
    max_usd: float | None
    max_calls: int | None
    max_tokens: float | None
    lanes: list[LiveLane]
    """All of the process's."""
    parts: list[LivePart]
    """The parts of the process's work that go into this directory; one for each judge."""


def sum_of(parts: Sequence[Counts]) -> Counts:
    """Counts of several parts; their time left is that of the slowest, unknown if any is unknown."""
    total: Counts = {
        "n_expected": 0,
        "n_done": 0,
        "n_failed": 0,
        "eta_s": None,
        "calls": 0,
        "replayed": 0,
        "reused": 0,
        "retries": 0,
        "tokens": 0,
    }
    times: list[float] = []
    for part in parts:
        total["n_expected"] += part["n_expected"]
        total["n_done"] += part["n_done"]
        total["n_failed"] += part["n_failed"]
        total["calls"] += part["calls"]
        total["replayed"] += part["replayed"]
        total["reused"] = total["reused"] + part.get("reused", 0)
        total["retries"] += part["retries"]
        total["tokens"] += part["tokens"]
        if part["eta_s"] is not None:
            times.append(part["eta_s"])
    # Parts without an estimate may be the slowest.
    if times and len(times) == len(parts):
        total["eta_s"] = max(times)
    return total


def write_live(directory: Path, live: LiveFile) -> None:
    """Replace the file. A failure is ignored: it must not disturb the run."""
    with suppress(CTSError):
        replace_file(directory / LIVE, json_bytes(live), sync=False)


def remove_live(directory: Path) -> None:
    """Remove the file, if it is there."""
    with suppress(OSError):
        (directory / LIVE).unlink()


def read_live(directory: Path, clock: Callable[[], float] = time.time) -> LiveFile | None:
    """The file's contents, unchecked but for pid and time; None if there is none, or it was left behind."""
    try:
        live = foreign_json.loads(read_file(directory / LIVE, MAX_LIVE_BYTES))
    except (OSError, ValueError):
        return None
    if not is_current(live, clock):
        return None
    return cast("LiveFile", live)


def is_current(live: Any, clock: Callable[[], float] = time.time) -> bool:
    """Whether the contents of a `live.json` are recent, and their process exists."""
    try:
        pid, written = int(live["pid"]), float(live["time"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return False
    return abs(clock() - written) <= STALE_S and process_exists(pid)


def is_live(value: object) -> TypeGuard[LiveFile]:
    """Whether a JSON value has the fields of `LiveFile`, and their types: other versions write other files."""
    try:
        _live_file_form().validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


# Built when it is first needed: a run only writes the file, and pays for no check of it.
@cache
def _live_file_form() -> TypeAdapter[LiveFile]:
    return TypeAdapter(LiveFile)


def compact(value: float) -> str:
    """In full below 10,000, else `short_number`."""
    # From here on it would be rounded to 10,000.
    if value >= 9_999.5:
        return short_number(value)
    return f"{value:,.0f}"


def short_number(value: float) -> str:
    """At most five characters: `950`, `1.2k`, `12k`, `3.4M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # Below 0.9995 of a unit a number is at most 999 of the next smaller one.
        if value < size * 0.9995:
            continue
        # One decimal up to 9.9; 9.95 would be rounded to 10.0.
        if value < 9.95 * size:
            return f"{value / size:.1f}{unit}"
        return f"{value / size:.0f}{unit}"
    return f"{value:.0f}"


# --- Runs as seen from another shell


State = Literal["finished", "stopped", "killed", "working", "damaged"]
"""stopped: the process ended in order; killed: it ended without a record of it; working: it exists, but writes no
`live.json` (yet); damaged: there is no readable run."""
_STATES: Final[Mapping[State, str]] = {
    "finished": "finished,",
    "stopped": "stopped at",
    "killed": "killed at",
    "working": "running, at",
    "damaged": "damaged,",
}
DAY_S: Final = 86_400.0


def run_directories(
    words: Iterable[Path], on_note: Callable[[str], None] = lambda note: None, *, all_versions: bool = False
) -> list[Path]:
    """Run directories, each once: named by themselves, by a pattern, or by the folder that contains them.

    Of folders and patterns the newest versions, and whatever a process is writing now, unless `all_versions`; `on_note`
    is told how many were left out. Raises InputError for a word that names none.
    """
    runs: dict[Path, RunPath] = {}
    words = list(words)
    for path in paths_named(words, "no such run or folder"):
        for directory in _runs_at(path):
            # The same run may be named by itself and by its folder: it stands where it was named first.
            place = directory.resolve()
            by_path = directory == path and path in words
            if place in runs:
                by_path = by_path or runs[place].by_path
            runs[place] = RunPath(directory, named=by_path, by_path=by_path)
    if not all_versions:
        # As if they were named: what is under way is what somebody wants to see.
        listed = [replace(run, by_path=run.by_path or live_of(run.path) is not None) for run in runs.values()]
        return [run.path for run in without_older_versions(listed, on_note)]
    return [run.path for run in runs.values()]


def _runs_at(path: Path) -> list[Path]:
    """The directory itself, or the runs in it if it is a folder of runs or of several judged systems."""
    if (path / MANIFEST).is_file() and not manifest_of(path).is_of_several_systems:
        return [path]
    directories = [manifest.parent for manifest in sorted(path.glob(f"*/{MANIFEST}"))]
    if not directories:
        raise InputError(path, f"no run found: no {MANIFEST} in this folder or one level below")
    return directories


def live_of(directory: Path) -> LiveFile | None:
    """The `live.json` of a run; None if no process writes the run, or one of another version does."""
    live = read_live(directory)
    if not is_live(live):
        return None
    return live


def by_process(lives: Sequence[LiveFile]) -> list[LiveFile]:
    """The files of each process combined into one; its common fields are those of its latest file."""
    lives_by_pid: dict[int, list[LiveFile]] = {}
    for live in lives:
        lives_by_pid.setdefault(live["pid"], []).append(live)
    return [_combined(process_lives) for process_lives in lives_by_pid.values()]


def _combined(lives: Sequence[LiveFile]) -> LiveFile:
    latest = lives[0]
    parts: dict[str, LivePart] = {}
    # As an ordered set: the parts of a process mostly wait for the same reason.
    notes: dict[str, None] = {}
    for live in lives:
        if live["time"] > latest["time"]:
            latest = live
        if live["note"]:
            notes[live["note"]] = None
        for part in live["parts"]:
            parts[part["name"]] = part
    every_part = list(parts.values())
    return {**latest, **sum_of(every_part), "note": "; ".join(notes), "parts": every_part}


# --- Runs at rest


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run according to its files; the fields but the directory are those of `--json`, in this order."""

    directory: Path
    state: State
    n_expected: int = 0
    n_done: int = 0
    """Finished instances, failed ones included."""
    n_failed: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """Current failures by kind, the most frequent first."""
    judge_failures: Mapping[str, int] = field(default_factory=dict)
    """Answers that further judges failed to label, by judge; they are not among `n_failed`."""
    judge: str | None = None
    mean: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    """95 % interval of the mean."""
    n_scored: int = 0
    caveat: Caveat = ""
    last_worked: float | None = None
    """When its files were last written, in seconds since 1970."""
    reason: str = ""
    """Why its last session stopped; "" if unknown."""
    command: str = ""
    batches: tuple[int, int, float] = (0, 0, 0.0)
    """Batches that may be under way: how many, their requests, and since when, in seconds since 1970."""
    contradictions: str = ""
    """That stored scores of some judge contradict their labels, and are recomputed; "" if none do."""

    def line(self, current_time: float) -> str:
        """One line for a person at this time, in seconds since 1970."""
        if self.state == "damaged":
            return self.reason
        pieces = [f"{_STATES[self.state]} {self.n_done} of {self.n_expected}"]
        if self.failures:
            kinds = ", ".join(f"{kind} {n}" for kind, n in self.failures.items())
            pieces.append(f"{self.n_failed} failed ({kinds})")
        pieces += [f"{n} that {judge} failed to label" for judge, n in self.judge_failures.items()]
        if self.mean is not None:
            mean = f"mean {mean_text(self.mean, self.mean_high, self.n_scored)} by {self.judge}"
            if self.caveat:
                mean += f" ({self.caveat})"
            pieces.append(mean)
        if self.last_worked is not None:
            pieces.append(f"last written {_time_and_age(self.last_worked, current_time)}")
        line = f"{self.directory}: {', '.join(pieces)}"
        n_batches, n_requests, since = self.batches
        if self.reason and self.resumable:
            line += f"; {self.reason}"
        if n_batches:
            name = "1 batch" if n_batches == 1 else f"{n_batches} batches"
            line += f"; {name} of {n_requests:,} requests handed in {_time_and_age(since, current_time)}"
        if self.contradictions:
            line += f"; {self.contradictions}"
        return line

    @property
    def resumable(self) -> bool:
        """Whether work is left, and no process does it."""
        return self.state in ("stopped", "killed")

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        fields: dict[str, Any] = {}
        for name, value in asdict(self).items():
            # In the place of "caveat", a field for each that there may be.
            if name == "caveat":
                fields |= caveats_json([self.caveat])
            else:
                fields[name] = value
        del fields["directory"]
        # Most runs have neither.
        if not self.judge_failures:
            del fields["judge_failures"]
        if not self.contradictions:
            del fields["contradictions"]
        n_batches, n_requests, since = self.batches
        del fields["batches"]
        if n_batches:
            fields["batches"] = {"n": n_batches, "n_requests": n_requests, "since": since}
        return fields


def mean_text(mean: float, high: float | None, n: int) -> str:
    """`54.2 ± 3.1`: the mean of n scores and half of its 95 % interval, which is shown from FEWEST scores on."""
    if high is None or n < FEWEST:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {high - mean:.1f}"


def idle_state(directory: Path) -> RunState:
    """`state_of_run`; a run that cannot be read has the state "damaged"."""
    try:
        return state_of_run(directory)
    except InputError as error:
        return RunState(directory, "damaged", reason=str(error))


def state_of_run(directory: Path) -> RunState:
    """Read a run's manifest and results, but not its journal. Raises InputError if it is not a run."""
    manifest = require_manifest(directory)
    lines = ResultColumns(directory / results_of(directory), no_fingerprint)
    _, scores = lines.scored()
    mean = RunningMean()
    mean.add(scores.tolist())
    mean_or_none: float | None = None
    if mean.n:
        mean_or_none = mean.mean
    low, high = mean.interval() or (None, None)
    kinds: Counter[str] = Counter()
    for line in lines.failures():
        error = line.get("error") or {}
        kinds[str(error.get("kind") or "unknown")] += 1
    times = [path.stat().st_mtime for path in (directory / STEPS, lines.path) if path.exists()]
    session = manifest.last_session
    n_expected = max(manifest.n_expected, lines.n)
    judges = manifest.identity.judges
    contradictions = [lines.contradictions]
    verdicts_by_file: dict[Path, ResultColumns] = {}
    # Also of judges that `cts judge` added: their scores are shown beside the others.
    for path in sorted((directory / JUDGMENTS).glob("*.jsonl")):
        verdicts_by_file[path] = ResultColumns(path, no_fingerprint)
        contradictions.append(verdicts_by_file[path].contradictions)
    # A judge whose provider was gone leaves answers without its verdict: the same command adds them.
    n_answers = int(lines.answered.sum())
    pending = len(scores) + int(lines.judge_failed.sum()) < n_answers
    judge_failures: dict[str, int] = {}
    for judge in judges[1:]:
        verdicts = verdicts_by_file.get(judgments_path(directory, judge))
        if verdicts is None:
            pending = pending or n_answers > 0
            continue
        pending = pending or verdicts.n < n_answers
        if verdicts.n_failed:
            judge_failures[judge] = verdicts.n_failed
    finished = lines.n >= n_expected - manifest.n_absent
    if session.stopped and judges and pending:
        finished = False
    return RunState(
        directory=directory,
        state=_state(directory, session, finished=finished),
        n_expected=n_expected,
        n_done=lines.n,
        n_failed=kinds.total(),
        failures=dict(kinds.most_common()),
        judge_failures=judge_failures,
        judge=lines.judge,
        mean=mean_or_none,
        mean_low=low,
        mean_high=high,
        n_scored=mean.n,
        caveat=manifest.caveat,
        last_worked=max(times, default=None),
        reason=session.stopped,
        batches=_open_batches(journal_of(manifest)[0].parent),
        command=manifest.command,
        contradictions=" ".join(filter(None, contradictions)),
    )


def _open_batches(ledger_folder: Path) -> tuple[int, int, float]:
    """Batches that have not ended, as far as the last command knew: how many, their requests, since when."""
    n_batches, n_requests, since = 0, 0, 0.0
    for batch in read_ledger(ledger_folder):
        if batch.is_open:
            n_batches += 1
            n_requests += len(batch.ids)
            # The oldest first.
            since = since or batch.intended_at
    return n_batches, n_requests, since


def how_to_resume(states: Iterable[RunState]) -> list[str]:
    """A line for each command that would resume some of these runs."""
    lines: list[str] = []
    for command in dict.fromkeys(state.command for state in states if state.resumable):
        line = "To resume, run the same command again"
        # Not every run has recorded it.
        if command:
            line += f": {unbroken(command)}"
        lines.append(line)
    return lines


def _state(directory: Path, session: Session, *, finished: bool) -> State:
    open_ended = bool(session.start) and not session.end
    if open_ended and locker_exists(directory):
        return "working"
    if finished:
        return "finished"
    if open_ended:
        return "killed"
    return "stopped"


def _time_and_age(
    at: float, current_time: float, local: Callable[[float], datetime] = datetime.fromtimestamp
) -> str:
    """`16:02:31, 0:45 ago`; date and time if that is longer than a day ago."""
    # A file of another machine may be of a later time than ours.
    age_s = max(0.0, current_time - at)
    if age_s >= DAY_S:
        return local(at).isoformat(sep=" ", timespec="minutes")
    return f"{local(at).time().isoformat(timespec='seconds')}, {duration(age_s)} ago"
