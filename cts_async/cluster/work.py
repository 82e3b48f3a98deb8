"""What workers do, as tasks that travel: instances of a campaign or answers to judge; and which worker does which.

A `Work` is pickled and sent to each worker, which opens it there: models, tools, and the lanes that all workers share.
It holds no key and no open file. `Leases` gives a worker a little more than it works on, older tasks first; a task that
several workers died with is done last and alone, so that nothing else is lost with it.

Answers that are lines of a file are dealt in blocks (`LineTasks`): one object and one piece of bytes for many tasks,
which the head neither parses nor looks at one by one.
"""

from __future__ import annotations

import pickle
import time
from array import array
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from heapq import heappop, heappush
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from cts_async.custom import RoleName
from cts_async.datasets import sha256_of
from cts_async.datasets.io import NumberedLine
from cts_async.engine.events import Events
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Context
from cts_async.errors import RunStopped, StepError, UsageError, reason_to_stop
from cts_async.protocol.answers import Answers, Judging, Repeats, Wanted
from cts_async.protocol.config_trust import Spec
from cts_async.protocol.custom.sources import CustomRole, Players, is_script, with_files
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.plan import Plan
from cts_async.protocol.rejudge import (
    JudgePlan,
    PendingVerdict,
    Target,
    UnreadVerdict,
    make_verdict,
    verdict_lines,
    verdicts_to_deal,
    width_of,
)
from cts_async.protocol.run import (
    Files,
    LaneOf,
    ModelHost,
    instances_in_flight,
    lines_of,
    open_cast,
    open_resources,
    walk_of,
    work_left,
)
from cts_async.protocol.run_files import EndedLines, RunFiles
from cts_async.records import Instance, Nugget, value
from cts_async.runs.files import STEPS
from cts_async.runs.written import WrittenFiles

LEAST_IN_FLIGHT: Final = 4
SPARE: Final = 2
"""Times a worker's even share of tasks: demand moves between workers, and tasks have to be there already."""


@value
class Task:
    """One job: an instance in one system, or an answer to judge."""

    seq: int
    """Unique; lower for older ones."""
    group: str
    id: str
    run: int
    """The number of the run directory that its lines go into."""
    payload: Any
    """What is left of an instance (`Remaining`), or the verdict that is wanted: a `PackedVerdict`, or an `UnreadVerdict`
    out of a `LineTasks`, and on a worker the `PendingVerdict` that it becomes on its way, or when it is read."""
    question: int = 0
    """Tasks of the same question, other than 0, make the same calls: one is done at a time, and the others reuse it."""
    resumed: bool = False
    """Whether steps of it may be in the journal, or in another run's: then the head is asked before one is executed."""
    stream: int = 0
    """A slow task holds up others of its own stream only."""
    deaths: int = 0
    """Workers that were lost with it."""


@dataclass(slots=True)
class LineTasks:
    """Tasks of one stream, each a line of the same file: they differ in their numbers and lines only.

    Pickled, the lines are one bytes object and two arrays, whatever their number.
    """

    shared: Task
    """What they have in common: a task without id and payload, whose `seq` is that of the first."""
    seq_step: int
    """From the `seq` of one task to that of the next."""
    verdict: UnreadVerdict
    """The verdict that is wanted on each line; its own is the first."""
    lines: list[NumberedLine]
    question: ClassVar[int] = 0
    deaths: ClassVar[int] = 0
    """Tasks that were lost with a worker are dealt one by one."""

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def seq(self) -> int:
        """Of the first task."""
        return self.shared.seq

    @property
    def group(self) -> str:
        return self.shared.group

    @property
    def seqs(self) -> range:
        """Of all tasks, in the order of their lines."""
        return range(self.seq, self.seq + len(self.lines) * self.seq_step, self.seq_step)

    def task(self, seq: int) -> Task:
        """One of the tasks by itself."""
        shared, verdict = self.shared, self.verdict
        line = self.lines[(seq - shared.seq) // self.seq_step]
        return Task(
            seq=seq,
            group=shared.group,
            id=f"line {line.number}",
            run=shared.run,
            payload=UnreadVerdict(verdict.judge, verdict.n, line, verdict.scoring),
            resumed=shared.resumed,
            stream=shared.stream,
        )

    def split(self, n: int) -> tuple[LineTasks, LineTasks]:
        """The first `n` tasks, and the others; at least one each."""
        later = replace(self.shared, seq=self.seqs[n])
        first_of_later = replace(self.verdict, line=self.lines[n])
        return (
            LineTasks(self.shared, self.seq_step, self.verdict, self.lines[:n]),
            LineTasks(later, self.seq_step, first_of_later, self.lines[n:]),
        )

    def __reduce__(self) -> tuple[Callable[..., LineTasks], tuple[Any, ...]]:
        positions, texts = array("Q"), []
        for line in self.lines:
            positions.append(line.number)
            positions.append(line.offset)
            texts.append(line.raw)
        sizes = array("L", map(len, texts))
        verdict = self.verdict.judge, self.verdict.n, self.verdict.scoring
        return _unpacked_lines, (self.shared, self.seq_step, verdict, positions, sizes, b"".join(texts))


def _unpacked_lines(
    shared: Task,
    seq_step: int,
    verdict: tuple[str, int, bool],
    positions: array[int],
    sizes: array[int],
    joined: bytes,
) -> LineTasks:
    lines = []
    end = 0
    for number, offset, size in zip(positions[::2], positions[1::2], sizes, strict=True):
        begin, end = end, end + size
        lines.append(NumberedLine(number, offset, joined[begin:end]))
    judge, n, scoring = verdict
    return LineTasks(shared, seq_step, UnreadVerdict(judge, n, lines[0], scoring), lines)


def tasks_in(dealt: Iterable[Task | LineTasks]) -> Iterator[Task]:
    """The tasks that were dealt, one by one."""
    for task in dealt:
        if isinstance(task, LineTasks):
            yield from map(task.task, task.seqs)
        else:
            yield task


def as_it_is(task: Task) -> Task:
    return task


@dataclass(frozen=True, slots=True)
class OpenWork:
    """A work that is open on a worker's machine."""

    lanes: Sequence[Lane]
    in_flight: Sequence[int]
    """Tasks to work on at once, by stream."""
    walk_of: Callable[[Task], Callable[[Context], Awaitable[Any]]]
    """The steps of a task."""
    lines_of: Callable[[Task, Any], EndedLines]
    """The lines of a task that has ended with a result or a StepError."""
    read: Callable[[Task], Task] = as_it_is
    """The task with what was left to be read of it here. Raises RunStopped where that is not possible any more."""
    is_one_step: bool = False
    """Whether each task is one step: then nothing uses its result before the head has both, the step and the result."""
    host: ModelHost | None = None
    """What custom roles may use: its `on_lane` gets the lanes of models that are opened while tasks run."""


class Work(Protocol):
    """What a worker is sent. Picklable."""

    @property
    def files(self) -> Sequence[NeededFile]:
        """Files that it reads; a worker's machine has to have the same ones at the same paths."""

    def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AbstractAsyncContextManager[OpenWork]:
        """Open it for one of so many workers. UsageError where a key or a file is missing on this machine."""


# --- What a worker's machine has to have


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file as the head has it."""

    path: Path
    """Absolute."""
    sha256: str

    def check(self) -> None:
        """Raise UsageError unless this machine has the same file."""
        if not self.path.is_file() or sha256_of(self.path) != self.sha256:
            raise UsageError(
                f"{self.path} is missing here, or is not the file that the head has: put a copy at the same path on "
                "every machine"
            )


def portable_players(players: Players) -> tuple[Players, list[NeededFile]]:
    """Custom roles with absolute paths, and their files. Raises UsageError for what exists in this process only."""
    scripts: dict[Path, None] = {}

    def add_script(path: Path) -> Path | None:
        if not is_script(path):
            return None
        scripts[path] = None
        return path

    portable: dict[str, dict[RoleName, CustomRole]] = {}
    for label, player_by_role in players.items():
        portable[label] = {role: with_files(player, add_script) for role, player in player_by_role.items()}
    return portable, [NeededFile(path, sha256_of(path)) for path in scripts]


def check_machine(files: Iterable[NeededFile], specs: Iterable[Spec], environ: Mapping[str, str]) -> None:
    """Raise UsageError naming what this machine lacks: a file, or the keys of these models and tools."""
    keys = dict.fromkeys(spec.key_env for spec in specs if spec.key_env)
    missing = [key for key in keys if not environ.get(key, "").strip()]
    if missing:
        raise UsageError(f"no {', '.join(missing)} in the environment of its Ray: restart that with it")
    for file in files:
        file.check()


def share_in_flight(requested: int | None, usual: int, workers: int) -> int:
    """Tasks that one of `workers` works on at once: its part of the number requested, else of the `usual` more."""
    if requested is not None:
        return max(1, ceil(requested / workers))
    return min(usual, max(LEAST_IN_FLIGHT, ceil(usual * SPARE / workers)))


# --- A campaign


def campaign_tasks(plan: Plan, files: Files) -> Iterator[Task]:
    """The instances that have to be done, all systems of an instance side by side."""
    resumed = any(run.may_have_steps for run in files.values())
    numbers = {system: number for number, system in enumerate(plan.systems)}
    for seq, (remaining, system) in enumerate(work_left(plan, files)):
        group, id = files[system].directory.name, remaining.instance.id
        yield Task(seq, group, id, numbers[system], remaining, resumed=resumed)


@dataclass(frozen=True, slots=True)
class CampaignWork:
    """A plan without its instances, which the head deals out."""

    plan: Plan
    files: tuple[NeededFile, ...]

    @classmethod
    def from_plan(cls, plan: Plan) -> CampaignWork:
        """Build from a plan, with absolute paths: workers may run in another folder, or on another machine."""
        search = replace(
            plan.search,
            corpus=plan.search.corpus and plan.search.corpus.resolve(),
            replayed=tuple(run.resolve() for run in plan.search.replayed),
        )
        files = []
        if search.corpus:
            files.append(NeededFile(search.corpus, search.corpus_sha256 or ""))
        for run, sha256 in zip(search.replayed, search.replayed_sha256, strict=True):
            files.append(NeededFile(run / STEPS, sha256))
        custom, scripts = portable_players(plan.custom)
        files += scripts
        portable_plan = replace(plan, search=search, instances=_no_instances, custom=custom)
        return cls(portable_plan, tuple(files))

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AsyncIterator[OpenWork]:
        plan = self.plan
        check_machine(self.files, [*plan.specs.values(), *plan.search.opened], environ)
        systems = tuple(plan.systems)
        async with (
            open_resources(plan, environ, events, lane_of) as resources,
            open_cast(plan, resources) as cast,
        ):
            in_flight = share_in_flight(plan.config.in_flight, instances_in_flight(resources), workers)

            def walk_of_task(task: Task) -> Callable[[Context], Awaitable[Any]]:
                return walk_of(resources, cast, systems[task.run], task.payload)

            def lines_of_task(task: Task, ended: Any) -> EndedLines:
                return lines_of(systems[task.run], task.payload, ended, scoring=cast.scoring)

            yield OpenWork(resources.lanes, [in_flight], walk_of_task, lines_of_task, host=resources.host)


def _no_instances() -> Iterator[Instance]:
    raise AssertionError("instances are dealt by the head")


# --- Judging

PACKED_GOLD: Final = 4096
"""Instances whose nuggets are kept packed on the head and unpacked on a worker; the benchmark's gold has 518."""


@dataclass(slots=True)
class PackedVerdict:
    """A `PendingVerdict` as it is sent: pickled, it becomes that verdict again.

    Its nuggets are bytes, which are made once for all answers to a question: object by object they would be most of
    what the head does for a verdict.
    """

    verdict: PendingVerdict
    nuggets: bytes

    def __reduce__(self) -> tuple[Callable[..., PendingVerdict], tuple[Any, ...]]:
        verdict = self.verdict
        judging, instance = verdict.judging, verdict.judging.instance
        return _unpacked_verdict, (
            verdict.judge,
            verdict.n,
            verdict.scoring,
            (instance.id, instance.intent, instance.query),
            self.nuggets,
            (instance.judged_query, instance.domain),
            judging.answer,
            judging.failure,
        )


def _unpacked_verdict(
    judge: str,
    n: int,
    scoring: bool,
    texts: tuple[str, str, str],
    nuggets: bytes,
    further: tuple[str, str],
    answer: str,
    failure: StepError | None,
) -> PendingVerdict:
    instance = Instance(*texts, _unpacked_nuggets(nuggets), *further)
    return PendingVerdict(judge, n, Judging(instance, answer, failure), scoring)


@lru_cache(PACKED_GOLD)
def _unpacked_nuggets(packed: bytes) -> tuple[Nugget, ...]:
    nuggets: tuple[Nugget, ...] = pickle.loads(packed)
    return nuggets


class GoldPacker:
    """Packs verdicts; remembers the packed nuggets of the instances used last."""

    def __init__(self) -> None:
        self._packed: OrderedDict[str, tuple[tuple[Nugget, ...], bytes]] = OrderedDict()
        """By the judged query: hashing nuggets takes longer than pickling them."""

    def pack(self, verdict: PendingVerdict) -> PackedVerdict:
        instance = verdict.judging.instance
        query, nuggets = instance.judged_by, instance.nuggets
        remembered = self._packed.get(query)
        if remembered is not None and remembered[0] is nuggets:
            return PackedVerdict(verdict, remembered[1])
        packed = pickle.dumps(nuggets, protocol=5)
        self._packed[query] = nuggets, packed
        if len(self._packed) > PACKED_GOLD:
            self._packed.popitem(last=False)
        return PackedVerdict(verdict, packed)


MOST_LINES: Final = 64
"""Lines in a block at most: about as many tasks as a worker ends in a turn."""


def judging_tasks(
    plan: JudgePlan, files: Sequence[RunFiles], events: Events
) -> list[Iterator[Task | LineTasks]]:
    """A stream of tasks for each judge; the n-th tasks of all streams are equally old."""
    resumed = any(run.may_have_steps for run in files)
    packer = GoldPacker()

    def tasks_of_judge(stream: int, judge: str) -> Iterator[Task | LineTasks]:
        group = plan.group(judge)
        seq, seq_step = stream, len(plan.judges)
        for verdict in _in_line_blocks(verdicts_to_deal(plan, judge, files, events)):
            if isinstance(verdict, LineBlock):
                shared = Task(seq, group, "", verdict.wanted.n, None, resumed=resumed, stream=stream)
                yield LineTasks(shared, seq_step, verdict.wanted, verdict.lines)
                seq += seq_step * len(verdict.lines)
                continue
            judging = verdict.judging
            question = 0
            # The lexical judge asks no model: there is no call to share.
            if judge != LEXICAL and judging in plan.repeats:
                question = hash((judge, judging.question_hash))
            yield Task(
                seq=seq,
                group=group,
                id=plan.targets[verdict.n].job_id(judging.instance.id),
                run=verdict.n,
                payload=packer.pack(verdict),
                question=question,
                resumed=resumed,
                stream=stream,
            )
            seq += seq_step

    return [tasks_of_judge(stream, judge) for stream, judge in enumerate(plan.judges)]


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Verdicts on consecutive lines of the same file."""

    wanted: UnreadVerdict
    """The first; the others are wanted of the same judge."""
    lines: list[NumberedLine]

    def takes(self, verdict: UnreadVerdict) -> bool:
        """True if a verdict may be added."""
        return verdict.n == self.wanted.n and len(self.lines) < MOST_LINES


def _in_line_blocks(
    verdicts: Iterable[PendingVerdict | UnreadVerdict],
) -> Iterator[PendingVerdict | LineBlock]:
    """Gather verdicts on lines into blocks, in their order."""
    block: LineBlock | None = None
    try:
        for verdict in verdicts:
            if isinstance(verdict, UnreadVerdict) and block is not None and block.takes(verdict):
                block.lines.append(verdict.line)
                continue
            if block is not None:
                yield block
                block = None
            if isinstance(verdict, UnreadVerdict):
                block = LineBlock(verdict, [verdict.line])
            else:
                yield verdict
    except RunStopped:
        # What comes before the line that cannot be read is judged.
        if block is not None:
            yield block
        raise
    if block is not None:
        yield block


def _without_answers(target: Target) -> Target:
    """A target as it travels: with what its lines are read by, if they are dealt unread."""
    lines = target.answers.lines
    return replace(target, answers=Answers(_no_answers, lines=lines))


def _no_answers(wanted: Wanted) -> Iterator[Judging]:
    raise AssertionError("answers are dealt by the head")


@dataclass(frozen=True, slots=True)
class JudgingWork:
    """A plan without its answers, which the head deals out."""

    plan: JudgePlan
    files: tuple[NeededFile, ...] = ()

    @classmethod
    def from_plan(cls, plan: JudgePlan) -> JudgingWork:
        """Build from a plan, whose answers travel with the tasks: of the targets their names are left."""
        # Which questions repeat is the head's to know: a task says whether its own does.
        custom, scripts = portable_players(plan.custom)
        targets = tuple(_without_answers(target) for target in plan.targets)
        # What is written is the head's to know, and has numbers of every answer by the time a lost worker is replaced.
        portable_plan = replace(
            plan, targets=targets, repeats=Repeats([]), custom=custom, written=WrittenFiles()
        )
        return cls(portable_plan, tuple(scripts))

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AsyncIterator[OpenWork]:
        plan = self.plan
        check_machine(self.files, plan.specs.values(), environ)
        async with open_resources(plan, environ, events, lane_of) as resources:
            judges = {name: resources.judge(name) for name in plan.judges}
            usual = share_in_flight(plan.config.in_flight, instances_in_flight(resources), workers)
            in_flight = [width_of(judge, plan.judges, usual) for judge in plan.judges]

            def walk_of_task(task: Task) -> Callable[[Context], Awaitable[Any]]:
                verdict: PendingVerdict = task.payload
                return partial(make_verdict, judge=judges[verdict.judge], judging=verdict.judging)

            def lines_of_task(task: Task, ended: Any) -> EndedLines:
                return verdict_lines(task.payload, ended)

            readers: dict[int, Callable[[NumberedLine], Judging]] = {}

            def read(task: Task) -> Task:
                unread = task.payload
                if not isinstance(unread, UnreadVerdict):
                    return task
                target = plan.targets[unread.n]
                assert target.answers.lines is not None, "its lines are what is dealt"
                if unread.n not in readers:
                    readers[unread.n] = target.answers.lines.reader()
                judging = readers[unread.n](unread.line)
                verdict = PendingVerdict(unread.judge, unread.n, judging, unread.scoring)
                return replace(task, id=target.job_id(judging.instance.id), payload=verdict)

            # A function of the user's may ask models of its own: steps within its step.
            is_one_step = not plan.custom
            yield OpenWork(
                resources.lanes, in_flight, walk_of_task, lines_of_task, read, is_one_step, resources.host
            )


# --- Leases: pure, but for reading the stream of tasks

RESERVE: Final = 1 / 2
"""Tasks that a worker has in reserve, as a share of those that it works on: as many as may end before it ends a turn
(`worker.ENOUGH`), which brings more."""
MAX_AHEAD: Final = 4096
"""Tasks that are read ahead to see whether there are enough for everybody."""
READ_S: Final = 0.02
"""Reading ahead takes no longer than this at once: where most is done already, a next task may be far."""
MAX_DEATHS: Final = 3
"""Workers lost with a task before it counts as the cause: it is done last, and alone."""


@dataclass(slots=True)
class _Holder:
    """A worker's tasks of one stream."""

    in_flight: int
    tasks: dict[int, Task | LineTasks] = field(default_factory=dict)
    """By `seq`: a block is there once for each of its tasks."""

    @property
    def room(self) -> int:
        return self.in_flight + ceil(RESERVE * self.in_flight) - len(self.tasks)


class Leases:
    """The tasks of one stream."""

    def __init__(
        self, tasks: Iterator[Task | LineTasks], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._unread: Iterator[Task | LineTasks] | None = tasks
        self._clock = clock
        self._ready: list[tuple[int, int, Task | LineTasks]] = []
        """Read, or lost with a worker: a heap, at whose end are those that MAX_DEATHS workers or more were lost with."""
        self._n_ready = 0
        """Tasks in it, those of blocks included."""
        self._asking: dict[int, str] = {}
        """By question, the worker that is at it."""
        self._later: defaultdict[int, list[Task]] = defaultdict(list)
        """By question, tasks that wait for another worker to end theirs."""
        self._holders: dict[str, _Holder] = {}
        self._dropped_groups: set[str] = set()
        self._dropped_tasks: dict[int, Task | LineTasks] = {}
        """Tasks of such groups that some worker has: it may end them, and nobody waits for it."""
        self._failure: RunStopped | None = None
        """What the stream broke off with."""

    @property
    def broken_off(self) -> RunStopped | None:
        """Why the stream broke off, once every task before that has ended or was dropped."""
        if self._failure is None or not self.over:
            return None
        return self._failure

    @property
    def over(self) -> bool:
        """Whether every task has ended or was dropped."""
        if self._read(1) or self._unread:
            return False
        return self._n_later() + self._n_held() == 0

    def n_held(self, worker: str) -> int:
        """How many tasks a worker has."""
        holder = self._holders.get(worker)
        return len(holder.tasks) if holder else 0

    def joined(self, worker: str, in_flight: int) -> None:
        """Add a worker that works on `in_flight` tasks at once."""
        self._holders[worker] = _Holder(in_flight)

    def deal(self, worker: str) -> list[Task | LineTasks]:
        """Choose tasks for a worker, in addition to those that it has."""
        holder = self._holders[worker]
        room = holder.room
        if room <= 0:
            return []
        self._read(min(room * len(self._holders), MAX_AHEAD))
        if self._unread is None:
            # The end is near: an even part for everybody, so that none works alone while the others have ended.
            n_open = self._n_ready + self._n_later() + self._n_held()
            room = min(room, ceil(n_open / len(self._holders)) - len(holder.tasks))
        dealt: list[Task | LineTasks] = []
        n_dealt = 0
        while n_dealt < room and self._ready:
            deadly, _, task = self._ready[0]
            if deadly and (dealt or holder.tasks or self._unread):
                break
            heappop(self._ready)
            if isinstance(task, LineTasks):
                self._n_ready -= len(task)
                if n_dealt + len(task) > room:
                    # The later lines wait for whoever has room next.
                    task, later_lines = task.split(room - n_dealt)
                    self._add(later_lines)
                n_dealt += len(task)
                dealt.append(task)
                holder.tasks.update(dict.fromkeys(task.seqs, task))
                continue
            self._n_ready -= 1
            if task.question and self._asking.setdefault(task.question, worker) != worker:
                self._later[task.question].append(task)
                continue
            n_dealt += 1
            dealt.append(task)
            holder.tasks[task.seq] = task
            if deadly:
                break
        return dealt

    def ended(self, worker: str, seqs: Sequence[int]) -> dict[int, Task | LineTasks]:
        """Record that tasks have ended; returns those that the worker had, by `seq`, or the blocks that they are in."""
        if worker not in self._holders or not seqs:
            return {}
        ended = self._remove(self._holders[worker], seqs)
        if self._dropped_tasks:
            for seq in seqs:
                if seq in self._dropped_tasks:
                    ended[seq] = self._dropped_tasks.pop(seq)
        return ended

    def lost(self, worker: str) -> list[Task]:
        """Remove a worker that is gone; returns its tasks, which others get."""
        holder = self._holders.pop(worker, None)
        if holder is None:
            return []
        tasks = []
        for seq, task in self._remove(holder, sorted(holder.tasks)).items():
            if isinstance(task, LineTasks):
                task = task.task(seq)
            tasks.append(task)
            # Its steps may be in the journal already.
            self._add(replace(task, resumed=True, deaths=task.deaths + 1))
        return tasks

    def drop(self, group: str) -> None:
        """Deal nothing of this group any more, and wait for none of it."""
        self._dropped_groups.add(group)
        for holder in self._holders.values():
            dropped = [seq for seq, task in holder.tasks.items() if task.group == group]
            self._dropped_tasks |= self._remove(holder, dropped)
        waiting: list[Task | LineTasks] = [task for _, _, task in self._ready]
        for tasks in self._later.values():
            waiting += tasks
        self._ready, self._later = [], defaultdict(list)
        self._n_ready = 0
        for task in waiting:
            self._add(task)

    def _add(self, task: Task | LineTasks) -> None:
        if task.group in self._dropped_groups:
            return
        deadly = 0
        if task.deaths >= MAX_DEATHS:
            # The more it has had, the later it comes.
            deadly = task.deaths + 1 - MAX_DEATHS
        heappush(self._ready, (deadly, task.seq, task))
        if isinstance(task, LineTasks):
            self._n_ready += len(task)
        else:
            self._n_ready += 1

    def _remove(self, holder: _Holder, seqs: Iterable[int]) -> dict[int, Task | LineTasks]:
        """Remove tasks from a worker; others of the same question need not wait any more."""
        removed: dict[int, Task | LineTasks] = {}
        questions: set[int] = set()
        for seq in seqs:
            task = holder.tasks.pop(seq, None)
            if task is None:
                continue
            removed[seq] = task
            if task.question:
                questions.add(task.question)
        if questions:
            # It may be at another task of the same question itself.
            questions -= {task.question for task in holder.tasks.values()}
        for question in questions:
            del self._asking[question]
            for task in self._later.pop(question, ()):
                self._add(task)
        return removed

    def _n_held(self) -> int:
        return sum(len(holder.tasks) for holder in self._holders.values())

    def _n_later(self) -> int:
        return sum(map(len, self._later.values()))

    def _read(self, n: int) -> bool:
        """Read until `n` tasks are ready, for READ_S at most; True if any is ready."""
        until = self._clock() + READ_S
        while self._unread is not None:
            all_deadly = bool(self._ready) and self._ready[0][0] > 0
            if self._n_ready >= n and not all_deadly:
                break
            task = None
            try:
                task = next(self._unread, None)
            except (RunStopped, UsageError, OSError) as error:
                self._failure = reason_to_stop(error)
                if self._failure is None:
                    raise
            if task is None:
                self._unread = None
            else:
                self._add(task)
            if self._clock() > until:
                break
        return bool(self._ready)
