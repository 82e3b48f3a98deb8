"""The progress of a command: engine events in, the contents of `live.json` out; and the arithmetic of pace."""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cts_async.analysis.stats import RunningMean
from cts_async.engine import events
from cts_async.runs.index import BLOCK, Tail, record_in
from cts_async.runs.results import score_of
from cts_async.watch.live import (
    LiveBatch,
    LiveBatches,
    LiveCluster,
    LiveFile,
    LiveLane,
    LivePart,
    LiveWorker,
    read_live,
    remove_live,
    sum_of,
    write_live,
)
from cts_async.watch.screen import notable

# --- Arithmetic: the growth of a counter in the last minute, and the time left

MINUTE_S: Final = 60.0
RESOLUTION_S: Final = 0.5
"""Readings closer together than this are not kept."""
MIN_JOBS: Final = 3
"""Jobs that must end before a time is estimated; a third of all jobs if that is less."""
WINDOW_S: Final = 60.0
"""The pace is measured over the second half of the time, and over WINDOW_S at least."""
SAMPLES: Final = 100


class LastMinute:
    """Growth of a counter in the last minute. `at` is in seconds and never decreases."""

    def __init__(self, at: float, total: float) -> None:
        self._readings: deque[tuple[float, float]] = deque([(at, total)])

    def grown(self, at: float, total: float) -> float:
        """What was added in the last minute, or since the first reading if that is less long ago."""
        readings = self._readings
        while len(readings) > 1 and readings[1][0] <= at - MINUTE_S:
            readings.popleft()
        _, total_before = readings[0]
        if at - readings[-1][0] >= RESOLUTION_S:
            readings.append((at, total))
        return total - total_before


class Pace:
    """Time left for a group of jobs, from steps: jobs may be long and end all at once.

    Replayed steps take no time and do not count towards the pace. Until some jobs have ended, nobody knows how many
    steps a job has, and no time is estimated. Times are seconds of one clock, which `hold` stops.
    """

    def __init__(self) -> None:
        self.n_ended = 0
        self._executed = 0
        """Steps executed, and jobs ended."""
        self._of_ended = 0
        """Steps of ended jobs, replayed ones included."""
        self._active: dict[str, int] = {}
        """By unfinished job, its steps so far."""
        self._held_s, self._held_since = 0.0, math.inf
        self._samples: list[tuple[float, int]] = []

    def began(self, at: float) -> None:
        """The first job begins; later calls do nothing."""
        if not self._samples:
            self._samples.append((self._time(at), 0))

    def stepped(self, job: str, *, replayed: bool) -> None:
        """A step of a job has a result."""
        if job not in self._active:
            self._active[job] = 0
        self._active[job] += 1
        self._executed += not replayed

    def ended(self, job: str) -> None:
        """A job ended. This counts like a step, since some jobs have none."""
        self._of_ended += self._active.pop(job, 0) + 1
        self._executed += 1
        self.n_ended += 1

    def ended_together(self, n_jobs: int, n_steps: int, n_executed: int) -> None:
        """So many jobs ended, and steps have a result, of which `n_executed` were not replayed."""
        # Steps of jobs that have not ended yet are few, and count as if these had.
        self._of_ended += n_steps + n_jobs
        self._executed += n_executed + n_jobs
        self.n_ended += n_jobs

    def hold(self, at: float, *, held: bool) -> None:
        """Stop the clock while nothing can proceed (`held`)."""
        if held and self._held_since == math.inf:
            self._held_since = at
        elif not held and self._held_since < math.inf:
            self._held_s += at - self._held_since
            self._held_since = math.inf

    def left_s(self, n_left: int, at: float) -> float | None:
        """Seconds for `n_left` jobs, active ones included; None while unknown."""
        if n_left <= 0:
            return 0.0
        # Also while no time can be told: it takes the samples.
        rate = self._steps_per_s(self._time(at))
        n_needed = min(MIN_JOBS, math.ceil((n_left + self.n_ended) / 3))
        if self._held_since < math.inf or self.n_ended < n_needed or not rate:
            return None
        per_job = self._of_ended / self.n_ended
        # A job that has more steps than the average is nearly done.
        done = sum(min(steps, per_job - 1) for steps in self._active.values())
        return max(0.0, n_left * per_job - done) / rate

    def _time(self, at: float) -> float:
        return min(at, self._held_since) - self._held_s

    def _steps_per_s(self, at: float) -> float:
        """Recent rate if enough happened recently; 0 while unknown."""
        if not self._samples:
            return 0.0
        began_at, n_at_begin = self._samples[0]
        elapsed_s = at - began_at
        since, n_before = self._sample_before(at - max(WINDOW_S, elapsed_s / 2))
        if self._executed - n_before < MIN_JOBS:
            since, n_before = began_at, n_at_begin
        latest, _ = self._samples[-1]
        if at - latest >= max(1.0, elapsed_s / SAMPLES):
            self._samples.append((at, self._executed))
        if at <= since:
            return 0.0
        return (self._executed - n_before) / (at - since)

    def _sample_before(self, at: float) -> tuple[float, int]:
        """The latest sample that was taken by then, else the first one."""
        for sample in reversed(self._samples):
            if sample[0] <= at:
                return sample
        return self._samples[0]


# --- From events to one picture

Clock = Callable[[], float]

LIVE_EVERY_S: Final = 1.0
MAX_NOTICES: Final = 1000
"""Notices kept for display; without a display, older ones are dropped."""
JOIN_S: Final = 2.0
"""How long the end of a command waits for a call under way: a disk that hangs must not block it."""
_NO_BUDGET: Final = events.BudgetUsed(events.Cost(), None, None, None)
_SCORE_KEY: Final = b'"restore_score_100":'
"""Found as a key only: inside a text its quotes would be escaped."""
_NUMBER: Final = re.compile(rb"\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The jobs of a command on one system, or with one judge: a bar on the terminal."""

    group: str
    """Its name in the engine's events."""
    n_expected: int
    directories: tuple[Path, ...]
    """Where it writes, and where `live.json` is written."""
    scores: Path | None = None
    """The results file that holds its scores, if it has any."""
    smoke_test: bool = False


@dataclass(slots=True)
class _Counters:
    """What the events of one group said so far."""

    group: RunGroup
    seen: bool = False
    done: int = 0
    failed: int = 0
    calls: int = 0
    replayed: int = 0
    reused: int = 0
    """Steps that were taken from other runs."""
    retries: int = 0
    tokens: int = 0
    usd: float = 0.0
    lanes: set[str] = field(default_factory=set)
    """Lanes that it used."""
    held_up: str | None = None
    """The lane that is gone for good; "" if unknown which."""
    pace: Pace = field(default_factory=Pace)
    mean: RunningMean = field(default_factory=RunningMean)

    def add_jobs(self, jobs: int, failed: int) -> None:
        self.done += jobs
        self.failed += failed

    def step_ended(self, event: events.StepEnded) -> None:
        """Count a step that has a result."""
        self.pace.stepped(event.job_id, replayed=event.replayed)
        # A step without a lane asked nobody, so it is no call.
        if not event.lane:
            return
        if event.lane not in self.lanes:
            self.lanes.add(event.lane)
        if not event.replayed:
            usage = event.usage
            self.calls += 1
            self.tokens += usage.input_tokens + usage.output_tokens
            self.usd += event.usd
        elif event.reused:
            self.reused += 1
        else:
            self.replayed += 1

    def job_ended(self, event: events.JobEnded) -> None:
        """Count a job that has ended."""
        self.done += 1
        self.failed += event.failure is not None
        self.pace.ended(event.job_id)

    def add_sums(self, sums: events.EndedSums) -> None:
        """Count steps that have a result, and jobs that have ended."""
        self.add_jobs(sums.jobs, sums.failed)
        self.lanes |= sums.lanes
        self.calls += sums.calls
        self.replayed += sums.replayed
        self.reused += sums.reused
        self.tokens += sums.tokens
        self.usd += sums.usd
        self.pace.ended_together(sums.jobs, sums.steps, sums.executed)

    def part(self, at: float, outages: AbstractSet[str]) -> LivePart:
        """Its state at a time; `outages` are lanes whose provider does not answer."""
        n_left = self.group.n_expected - self.done
        eta_s = self.pace.left_s(n_left, at)
        # Its provider is gone for good: no time brings the rest.
        if self.held_up is not None and n_left > 0:
            eta_s = None
        mean = None
        if self.mean.n:
            mean = self.mean.mean
        low, high = self.mean.interval() or (None, None)
        return {
            "name": self.group.group,
            "n_expected": self.group.n_expected,
            "n_done": self.done,
            "n_failed": self.failed,
            "eta_s": eta_s,
            "mean": mean,
            "mean_low": low,
            "mean_high": high,
            "n_scored": self.mean.n,
            "calls": self.calls,
            "replayed": self.replayed,
            "reused": self.reused,
            "retries": self.retries,
            "tokens": self.tokens,
            "note": self._note(n_left, outages),
            "smoke_test": self.group.smoke_test,
        }

    def _note(self, n_left: int, outages: AbstractSet[str]) -> str:
        """Why it waits, or ends early; "" for nothing."""
        if self.held_up:
            return f"held up: {self.held_up} is gone"
        if self.held_up is not None:
            return "held up"
        missing = sorted(self.lanes & outages)
        if missing and n_left > 0:
            return f"waiting for {', '.join(missing)}"
        return ""


@dataclass(slots=True)
class _LaneRates:
    """A provider account, with its rates in the last minute."""

    status: Callable[[], events.LaneStatus]
    sent: LastMinute
    tokens: LastMinute

    def lane(self, at: float) -> LiveLane:
        status = self.status()
        return {
            "name": status.name,
            "in_flight": status.in_flight,
            "waiting": status.waiting,
            "places": status.places,
            "calls_per_min": self.sent.grown(at, status.sent),
            "calls_allowed": status.requests_per_min,
            "tokens_per_min": self.tokens.grown(at, status.tokens),
            "tokens_allowed": status.tokens_per_min,
            "answers_429": status.answers_429,
            "paused_s": status.paused_s,
            "open_s": status.probe_s,
            "reason": status.reason,
        }


class Progress:
    """Subscribes to engine events and knows the current state of a command. It prints and writes nothing.

    Events come from the loop's thread, while other threads draw and write: a lock separates them.
    """

    def __init__(
        self,
        groups: Sequence[RunGroup],
        *,
        unpriced_models: int = 0,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self._groups = {group.group: _Counters(group) for group in groups}
        self._clock, self._wall = clock, wall
        self._unpriced_models = unpriced_models
        self._started = wall()
        self._lanes: dict[str, _LaneRates] = {}
        self._batches: list[Callable[[], Sequence[events.BatchStatus]]] = []
        """By model, what its batches are doing."""
        self._workers: WorkersView | None = None
        self._outages: set[str] = set()
        """Lanes whose provider does not answer."""
        self._budget = _NO_BUDGET
        self._stopping = ""
        self._notices: deque[str] = deque(maxlen=MAX_NOTICES)
        self._lock = threading.Lock()

    def __call__(self, event: events.Event) -> None:
        """Handle an event."""
        with self._lock:
            if type(event) is events.StepEnded:
                self._counters(event.group).step_ended(event)
                return
            self._handle(event)
            if type(event) is events.JobEnded:  # nothing that a user has to be told at once
                return
            notice = notable(event)
            if notice:
                self._notices.append(notice)

    def take_ends(self, ends: Sequence[events.StepEnded | events.JobEnded]) -> None:
        """Handle ends of steps and jobs that came together."""
        if not ends:
            return
        with self._lock:
            name = ends[0].group
            group = self._counters(name)
            for event in ends:
                if event.group != name:
                    name = event.group
                    group = self._counters(name)
                if type(event) is events.StepEnded:
                    group.step_ended(event)
                elif type(event) is events.JobEnded:
                    group.job_ended(event)

    def take_sums(self, sums: events.EndedSums) -> None:
        """Handle ends of steps and jobs of a group that came as sums."""
        with self._lock:
            self._counters(sums.group).add_sums(sums)

    def _handle(self, event: events.Event) -> None:
        match event:
            case events.JobEnded():
                self._counters(event.group).job_ended(event)
            case events.JobsFound():
                self._counters(event.group).add_jobs(event.jobs, event.failed)
            case events.GroupBegan():
                self._counters(event.group).pace.began(self._clock())
            case events.GroupHeldUp():
                self._counters(event.group).held_up = event.lane
            case events.AttemptFailed():
                group = self._counters(event.group)
                # A last attempt has no wait: it is a failure, which JobEnded counts.
                group.retries += event.wait_s is not None
                if event.lane:
                    group.lanes.add(event.lane)
            case events.LaneInUse():
                at = self._clock()
                self._lanes[event.lane] = _LaneRates(event.ask, LastMinute(at, 0), LastMinute(at, 0.0))
            case events.BatchesInUse():
                self._batches.append(event.ask)
            case events.WorkersInUse():
                self._workers = WorkersView(event)
            case events.CircuitChanged():
                # Held until now by the outages of before, and from now on by those of after.
                at = self._clock()
                self._hold(at)
                if event.open:
                    self._outages.add(event.lane)
                else:
                    self._outages.discard(event.lane)
                self._hold(at)
            case events.BudgetUsed():
                self._budget = event
            case events.Stopping():
                self._stopping = f"stopping: {event.reason}"

    def add_scores(self, group: str, scores: Iterable[float]) -> None:
        """Take in further scores of a group's instances, those of earlier sessions included."""
        self._groups[group].mean.add(scores)

    def notify(self, text: str) -> None:
        """Add a message to the notices."""
        with self._lock:
            self._notices.append(text)

    def notices(self) -> list[str]:
        """Messages to be shown at once; each is returned a single time."""
        with self._lock:
            notices = list(self._notices)
            self._notices.clear()
        return notices

    @property
    def begun(self) -> list[RunGroup]:
        """Groups that had an event: this process holds the locks of their directories."""
        # A copy: another thread adds groups.
        counters = list(self._groups.values())
        # A group that is still waiting has no lock: its directory may be another process's.
        return [counter.group for counter in counters if counter.seen]

    def live(self, groups: Collection[str] | None = None) -> LiveFile:
        """The current state of these groups (None: all); lanes and amounts spent are those of the whole process."""
        with self._lock:
            counters = list(self._groups.values())
            if groups is not None:
                counters = [counter for name, counter in self._groups.items() if name in groups]
            return self._live(counters)

    def _live(self, groups: Sequence[_Counters]) -> LiveFile:
        at = self._clock()
        self._hold(at)
        parts: list[LivePart] = []
        notes: dict[str, None] = {}
        for group in groups:
            part = group.part(at, self._outages)
            parts.append(part)
            # Systems that wait for the same provider have the same note.
            if part["note"]:
                notes[part["note"]] = None
        spent, budget = self._budget.spent, self._budget
        spent_usd = spent.usd
        if budget is _NO_BUDGET:  # then no event tells what is spent
            for counters in self._groups.values():
                spent_usd += counters.usd
        workers: LiveCluster = {}
        if self._workers:
            workers = self._workers.live(at)
        batches: LiveBatches = {}
        if self._batches:
            batches = {"batches": self._open_batches()}
        live: LiveFile = {
            "pid": os.getpid(),
            "time": self._wall(),
            "started": self._started,
            **sum_of(parts),
            "mean": None,
            "mean_low": None,
            "mean_high": None,
            "n_scored": 0,
            "spent_usd": spent_usd,
            "unpriced_models": self._unpriced_models,
            "spent_calls": spent.calls,
            "spent_tokens": spent.tokens,
            "max_usd": budget.max_usd,
            "max_calls": budget.max_calls,
            "max_tokens": budget.max_tokens,
            "note": self._stopping or "; ".join(notes),
            "lanes": [lane.lane(at) for lane in self._lanes.values()],
            "parts": parts,
            **workers,
            **batches,
        }
        # The first judge gives the score; of several systems without one yet, no mean is shown.
        if len(parts) == 1 or (parts and parts[0]["n_scored"]):
            live["mean"] = parts[0]["mean"]
            live["mean_low"] = parts[0]["mean_low"]
            live["mean_high"] = parts[0]["mean_high"]
            live["n_scored"] = parts[0]["n_scored"]
        return live

    def _open_batches(self) -> list[LiveBatch]:
        """The batches of all models that have not ended."""
        batches: list[LiveBatch] = []
        for ask in self._batches:
            for status in ask():
                if not status.ended:
                    batches.append(
                        {
                            "model": status.model,
                            "id": status.id,
                            "state": status.state,
                            "n_requests": status.n_requests,
                            "n_done": status.n_done,
                            "n_failed": status.n_failed,
                            "since": status.since,
                        }
                    )
        return batches

    def _hold(self, at: float) -> None:
        for group in self._groups.values():
            group.pace.hold(at, held=bool(group.lanes & self._outages))

    def _counters(self, name: str) -> _Counters:
        if name not in self._groups:
            self._groups[name] = _Counters(RunGroup(name, 0, ()))
        group = self._groups[name]
        group.seen = True
        return group


# --- Writing live.json


class ScoreTail:
    """The scores appended to a results file. If an instance is scored twice, both scores count; failed ones have none.

    The lines that an earlier session wrote are scored by their labels, as everywhere. Those that are appended meanwhile
    have scores that this process has just computed: finding these by their bytes costs no parsing.
    """

    def __init__(self, path: Path, block: int = BLOCK) -> None:
        self._tail = Tail(path.parent.resolve() / path.name, block)
        self._earlier = self._tail.size
        """Bytes that were there before."""

    def read(self) -> Iterator[float]:
        """The scores in whole lines since the last call; none if the file cannot be read."""
        # Another file of that name: nobody knows that this process wrote its lines.
        if self._tail.renewed():
            self._earlier = self._tail.size
        while block := self._tail.next():
            offset, lines = block
            if offset >= self._earlier:
                # Splitting finds a key in half the time of a pattern, which looks at each byte.
                for after_key in lines.split(_SCORE_KEY)[1:]:
                    number = _NUMBER.match(after_key)
                    if number is not None:
                        yield float(number[1])
                continue
            for raw in lines.split(b"\n"):
                line = record_in(raw)
                score = line and score_of(line)
                if isinstance(score, float):
                    yield score


class LiveWriter:
    """Writes `live.json` into the directories of a command: `tick` repeatedly, `end` once.

    A directory gets one as soon as this process is known to hold its lock: until then it may be another process's.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tails: dict[str, ScoreTail] = {}

    def tick(self) -> None:
        """Read new scores, and write the current state into each directory."""
        groups: dict[Path, list[str]] = {}
        for group in self._progress.begun:
            if group.scores is not None:
                tail = self._tails.setdefault(group.group, ScoreTail(group.scores))
                self._progress.add_scores(group.group, tail.read())
            for directory in group.directories:
                groups.setdefault(directory, []).append(group.group)
        # A directory has the state of its own systems: `cts status RUN` shows no other.
        for directory, names in groups.items():
            write_live(directory, self._progress.live(names))

    def end(self) -> None:
        """Remove this process's files and those that killed processes left, but not those of a next process."""
        for group in self._progress.begun:
            for directory in group.directories:
                live = read_live(directory)
                # None: there is none, or a killed process left it.
                if live is None or live["pid"] == os.getpid():
                    remove_live(directory)


@contextmanager
def writing_live(progress: Progress) -> Iterator[None]:
    """Keep `live.json` up to date while the block runs."""
    writer = LiveWriter(progress)
    try:
        with periodic(LIVE_EVERY_S, writer.tick):
            yield
    finally:
        writer.end()


@contextmanager
def periodic(every_s: float, call: Callable[[], None]) -> Iterator[None]:
    """Call a function periodically from a daemon thread while the block runs: at once, and never after it."""
    ended = threading.Event()

    def run() -> None:
        call()
        while not ended.wait(every_s):
            call()

    # A daemon: a disk that hangs must not keep the process from ending.
    thread = threading.Thread(target=run, name="cts-tick", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(JOIN_S)


class WorkersView:
    """The workers' part of `live.json`, with each worker's pace of the last minute."""

    def __init__(self, event: events.WorkersInUse) -> None:
        self._event = event
        self._calls: dict[str, LastMinute] = {}

    def live(self, at: float) -> LiveCluster:
        """The state at `at`, in seconds that never decrease."""
        counters = self._calls
        self._calls = {}  # workers that are no more are forgotten
        workers: list[LiveWorker] = []
        for status in self._event.ask():
            # A worker that is new made all its calls since the last look.
            calls = counters.get(status.name) or LastMinute(at, 0)
            self._calls[status.name] = calls
            workers.append(
                {
                    "name": status.name,
                    "host": status.host,
                    "pid": status.pid,
                    "state": status.state,
                    "in_hand": status.in_hand,
                    "done": status.ended,
                    "calls": status.calls,
                    "calls_per_min": calls.grown(at, status.calls),
                    "heard_s": status.heard_s,
                    "note": status.note,
                }
            )
        return {"workers": workers, "workers_wanted": self._event.n_workers, "cluster": self._event.address}
