"""What workers do: instances of a campaign, or answers to judge, as tasks that travel.

A `Work` is pickled and sent to each worker, which opens it there: models, tools, and the lanes of the cluster's limiter.
It holds no key and no open file.
"""

from __future__ import annotations

import pickle
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from cts_async.cluster.messages import Line, Task
from cts_async.datasets import sha256_of
from cts_async.engine.events import Events
from cts_async.engine.journal import StepMemory
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Job
from cts_async.errors import StepError, UsageError
from cts_async.llm.catalog import ModelSpec
from cts_async.protocol import rejudge
from cts_async.protocol.answers import Judging, NoAnswer
from cts_async.protocol.judge import LEXICAL, Judge
from cts_async.protocol.pipeline import Cast
from cts_async.protocol.plan import Plan
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.rejudge import JudgePlan, width_of
from cts_async.protocol.resources import LaneOf, Resources, instances_in_flight, open_resources
from cts_async.protocol.results import Line as ResultLine
from cts_async.protocol.run import Files, judgments_of, open_cast, result_of, walk_of, work_left
from cts_async.protocol.run_files import STEPS, RunFiles
from cts_async.protocol.systems import System
from cts_async.records import Instance, Judgment, Nugget, Outcome
from cts_async.safe_files import replace_file
from cts_async.search.backends.corpus import default_cache_dir
from cts_async.values import value

Done = Callable[[tuple[Line, ...], bool], None]
"""Called with a task's lines at its end, and whether it failed."""
FindAtHead = Callable[[str], Awaitable[dict[str, Any] | None]]
"""Asks the head for the record of a step."""
LEAST_IN_FLIGHT: Final = 4
SPARE: Final = 2
"""Times a worker's even share of tasks: demand moves between workers, and tasks have to be there already."""

MAX_PACKED: Final = 10_000
"""Queries whose pickled nuggets the head keeps, of a few kilobytes each."""


class Bench(Protocol):
    """A work that is open on a worker's machine."""

    @property
    def lanes(self) -> Sequence[Lane]: ...

    @property
    def in_flight(self) -> int:
        """Tasks of each stream to work on at once."""

    def width(self, stream: int) -> int:
        """How many tasks of a stream are worked on at once, of those."""

    def job(self, task: Task, journal: StepMemory, find: FindAtHead | None, done: Done) -> Job:
        """The job that does a task; it calls `done` once, at its end."""


class Work(Protocol):
    """What a worker is sent. Picklable."""

    @property
    def files(self) -> Sequence[NeededFile]:
        """Files that have to be on the worker's machine before it is opened."""

    def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AbstractAsyncContextManager[Bench]:
        """Open it for one of so many workers. UsageError where a key or a file is missing on this machine."""


# --- What a worker's machine has to have


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file as the head has it; a machine that has no such file is sent a copy, which it keeps under its digest."""

    path: str
    """Absolute, on the head's machine."""
    sha256: str

    def here(self) -> Path | None:
        """Where this machine has it, None if it has not."""
        for path in (Path(self.path), self.copied_to()):
            if path.is_file() and sha256_of(path) == self.sha256:
                return path
        return None

    def copied_to(self) -> Path:
        cache = default_cache_dir()
        base = cache.parent if cache else Path(tempfile.gettempdir()) / "cts_async"
        return base / "files" / self.sha256 / Path(self.path).name

    def write(self, content: bytes) -> None:
        """Keep a copy that was sent. Raises UsageError where it cannot be written."""
        path = self.copied_to()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content, sync=False)
        except OSError as error:
            raise UsageError(
                f"{path}: cannot be written on {socket.gethostname()} ({error.strerror})"
            ) from None


def check_keys(keys: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raises UsageError naming this machine and the variables that are missing."""
    missing = [key for key in keys if not environ.get(key, "").strip()]
    if missing:
        raise UsageError(
            f"node {socket.gethostname()} has no {', '.join(missing)}: start ray there with "
            f"{'it' if len(missing) == 1 else 'them'} in the environment"
        )


def keys_of(specs: Iterable[Any]) -> tuple[str, ...]:
    """The variables whose keys these models and tools send."""
    return tuple(dict.fromkeys(spec.key_env for spec in specs if spec.key_env))


def share_in_flight(asked: int | None, usual: int, workers: int) -> int:
    """Tasks that one of `workers` works on at once: its part of those `asked` for, else of the `usual` more."""
    if asked is not None:
        return max(1, -(-asked // workers))
    return min(usual, max(LEAST_IN_FLIGHT, -(-usual * SPARE // workers)))


def _line(place: int, judge: str | None, line: ResultLine) -> Line:
    return Line(place, judge, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


# --- A campaign


def campaign_tasks(plan: Plan, files: Files, *, resumed: bool) -> Iterator[Task]:
    """The instances that have to be done, all systems of an instance side by side."""
    places = {system: place for place, system in enumerate(plan.systems)}
    for seq, (instance, system) in enumerate(work_left(plan, files)):
        yield Task(seq, files[system].directory.name, instance.id, places[system], instance, resumed=resumed)


@dataclass(frozen=True, slots=True)
class CampaignWork:
    """A plan without its instances, which the head deals out."""

    plan: Plan
    keys: tuple[str, ...]
    files: tuple[NeededFile, ...]

    @classmethod
    def of(cls, plan: Plan) -> CampaignWork:
        search = replace(
            plan.search,
            corpus=plan.search.corpus and plan.search.corpus.resolve(),
            replayed=tuple(run.resolve() for run in plan.search.replayed),
        )
        files = [NeededFile(str(search.corpus), search.corpus_sha256 or "")] if search.corpus else []
        replayed = zip(search.replayed, search.replayed_sha256, strict=True)
        files += [NeededFile(str(run / STEPS), sha256) for run, sha256 in replayed]
        keys = keys_of([*plan.specs.values(), *search.opened])
        return cls(replace(plan, search=search, instances=_at_the_head), keys, tuple(files))

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AsyncIterator[CampaignBench]:
        check_keys(self.keys, environ)
        search = self.plan.search
        plan = replace(
            self.plan,
            search=replace(
                search,
                corpus=search.corpus and self._here(search.corpus),
                replayed=tuple(self._here(run / STEPS).parent for run in search.replayed),
            ),
        )
        outage_s = plan.config.max_outage_s
        async with (
            open_resources(
                plan.specs, plan.prompts, environ, events, max_outage_s=outage_s, lane_of=lane_of
            ) as resources,
            open_cast(plan, resources) as cast,
        ):
            yield CampaignBench(plan, tuple(plan.systems), resources, cast, workers)

    def _here(self, path: Path) -> Path:
        here = next((file.here() for file in self.files if file.path == str(path)), None)
        if here is None:
            raise UsageError(f"{path} is not on {socket.gethostname()}")
        return here


@dataclass(frozen=True, slots=True)
class CampaignBench:
    plan: Plan
    systems: Sequence[System]
    resources: Resources
    cast: Cast
    workers: int

    @property
    def lanes(self) -> Sequence[Lane]:
        return self.resources.lanes

    @property
    def in_flight(self) -> int:
        usual = instances_in_flight(self.resources)
        return share_in_flight(self.plan.config.in_flight, usual, self.workers)

    def width(self, stream: int) -> int:
        return self.in_flight

    def job(self, task: Task, journal: StepMemory, find: FindAtHead | None, done: Done) -> Job:
        system, instance = self.systems[task.place], task.payload

        async def finish(ended: Outcome | StepError) -> None:
            lines = [_line(task.place, judge, line) for judge, line in judgments_of(instance, ended)]
            lines.append(_line(task.place, None, result_of(system, instance, ended)))
            done(tuple(lines), isinstance(ended, StepError))

        walk = walk_of(self.resources, self.cast, system, instance)
        return Job(task.group, task.id, journal, walk, finish, elsewhere=find)


def _at_the_head() -> Iterator[Instance]:
    raise AssertionError("instances are dealt by the head")


# --- Judging


@value
class ToJudge:
    """One verdict that is wanted."""

    judge: str
    scoring: bool
    id: str
    query: str
    answer: str
    failure: str | None
    """Why there is no answer to judge."""
    nuggets: bytes
    """Pickled: made once for all answers to a query, and read once by a worker for most of them."""


def judging_tasks(
    plan: JudgePlan, files: Sequence[RunFiles], events: Events, *, resumed: bool
) -> list[Iterator[Task]]:
    """A stream of tasks for each judge; the n-th tasks of all streams are equally old."""
    packed: dict[int, tuple[tuple[Nugget, ...], bytes]] = {}
    return [
        _tasks_of(plan, n, judge, files, events, packed, resumed=resumed)
        for n, judge in enumerate(plan.judges)
    ]


def _tasks_of(
    plan: JudgePlan,
    first: int,
    judge: str,
    files: Sequence[RunFiles],
    events: Events,
    packed: dict[int, tuple[tuple[Nugget, ...], bytes]],
    *,
    resumed: bool,
) -> Iterator[Task]:
    group = plan.group(judge)
    for n, verdict in enumerate(rejudge.verdicts_left(plan, judge, files, events)):
        judging, instance = verdict.judging, verdict.judging.instance
        repeated = judge != LEXICAL and judging in plan.repeats
        nuggets = instance.nuggets
        if id(nuggets) not in packed:
            if len(packed) >= MAX_PACKED:
                packed.clear()
            packed[id(nuggets)] = nuggets, pickle.dumps(nuggets)  # kept, so that no other gets its id
        failure = None if judging.failure is None else str(judging.failure)
        yield Task(
            seq=first + n * len(plan.judges),
            group=group,
            id=plan.targets[verdict.n].job_id(instance.id),
            place=verdict.n,
            payload=ToJudge(
                judge,
                verdict.scoring,
                instance.id,
                instance.fused_query,
                judging.answer,
                failure,
                packed[id(nuggets)][1],
            ),
            question=hash((judge, judging.digest)) if repeated else 0,
            resumed=resumed,
            stream=first,
        )


@dataclass(frozen=True, slots=True)
class JudgingWork:
    """Judges that travel."""

    specs: Mapping[str, ModelSpec]
    judges: tuple[str, ...]
    prompts: PromptSet
    max_outage_s: float
    in_flight: int | None
    files: tuple[NeededFile, ...] = field(default=())

    @classmethod
    def of(cls, plan: JudgePlan) -> JudgingWork:
        config = plan.config
        return cls(plan.specs, plan.judges, plan.prompts, config.max_outage_s, config.in_flight)

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AsyncIterator[JudgingBench]:
        check_keys(keys_of(self.specs.values()), environ)
        async with open_resources(
            self.specs, self.prompts, environ, events, max_outage_s=self.max_outage_s, lane_of=lane_of
        ) as crew:
            judges = {name: crew.judge(name) for name in self.judges}
            width = share_in_flight(self.in_flight, instances_in_flight(crew), workers)
            yield JudgingBench(crew, judges, width)


@dataclass(frozen=True, slots=True)
class JudgingBench:
    crew: Resources
    judges: Mapping[str, Judge]
    in_flight: int

    @property
    def lanes(self) -> Sequence[Lane]:
        return self.crew.lanes

    def width(self, stream: int) -> int:
        return width_of([*self.judges][stream], self.judges, self.in_flight)

    def job(self, task: Task, journal: StepMemory, find: FindAtHead | None, done: Done) -> Job:
        wanted: ToJudge = task.payload
        failure = None if wanted.failure is None else NoAnswer(wanted.failure)
        instance = Instance(wanted.id, wanted.query, "", _unpacked(wanted.nuggets))
        judging = Judging(instance, wanted.answer, failure)
        verdict = rejudge.Verdict(wanted.judge, task.place, judging, wanted.scoring)

        async def finish(ended: Judgment | StepError) -> None:
            line = rejudge.line_of(verdict, ended)
            judge = None if verdict.scoring else verdict.judge
            done((_line(verdict.n, judge, line),), isinstance(ended, StepError))

        walk = partial(rejudge.judge_answer, judge=self.judges[wanted.judge], judging=judging)
        shared = task.question != 0
        return Job(task.group, task.id, journal, walk, finish, shared=shared, elsewhere=find)


@lru_cache(maxsize=1024)
def _unpacked(nuggets: bytes) -> tuple[Nugget, ...]:
    unpacked: tuple[Nugget, ...] = pickle.loads(nuggets)
    return unpacked
