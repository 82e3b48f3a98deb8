"""What workers do: instances of a campaign, or answers to judge, as tasks that travel.

A `Work` is pickled and sent to each worker, which opens it there: models, tools, and the lanes that all workers share.
It holds no key and no open file.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from cts_async.datasets import sha256_of
from cts_async.engine.events import Events
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Context
from cts_async.errors import UsageError
from cts_async.llm.catalog import ModelSpec
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.plan import Plan
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.rejudge import (
    JudgePlan,
    PendingVerdict,
    make_verdict,
    verdict_line,
    verdicts_left,
    width_of,
)
from cts_async.protocol.resources import LaneOf, instances_in_flight, open_resources
from cts_async.protocol.results import Line as ResultLine
from cts_async.protocol.run import Files, judgments_of, open_cast, result_of, walk_of, work_left
from cts_async.protocol.run_files import STEPS, RunFiles
from cts_async.records import Instance, value
from cts_async.safe_files import replace_file
from cts_async.search.backends.corpus import default_cache_dir

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
    place: int
    """The number of the run directory that its lines go into."""
    payload: Any
    """The Instance, or the Verdict that is wanted."""
    question: int = 0
    """Tasks of the same question, other than 0, make the same calls: one is done at a time, and the others reuse it."""
    resumed: bool = False
    """Whether steps of it may be in the journal: then the head is asked before one is executed."""
    stream: int = 0
    """A slow task holds up others of its own stream only."""


@value
class Line:
    """A line for a file at a place: `judge` names a further judge's verdicts, None is for the results."""

    place: int
    judge: str | None
    data: bytes
    """One JSON object with its newline."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A work that is open on a worker's machine."""

    lanes: Sequence[Lane]
    in_flight: Sequence[int]
    """Tasks to work on at once, by stream."""
    walk_of: Callable[[Task], Callable[[Context], Awaitable[Any]]]
    """The steps of a task."""
    lines_of: Callable[[Task, Any], Sequence[Line]]
    """The lines of a task that has ended with a result or a StepError, those of further judges first."""


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

    @property
    def copy(self) -> Path:
        """Where a machine keeps its copy."""
        cache = default_cache_dir()
        base = cache.parent if cache else Path(tempfile.gettempdir()) / "cts_async"
        return base / "files" / self.sha256 / Path(self.path).name

    def here(self) -> Path | None:
        """Where this machine has it, None if it has not."""
        found = (path for path in (Path(self.path), self.copy) if path.is_file())
        return next((path for path in found if sha256_of(path) == self.sha256), None)

    def write(self, content: bytes) -> None:
        """Keep a copy that was sent. Raises OSError."""
        self.copy.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.copy, content, sync=False)


def check_keys(specs: Iterable[Any], environ: Mapping[str, str]) -> None:
    """Raise UsageError naming the variables of keys that are missing here for these models and tools."""
    keys = dict.fromkeys(spec.key_env for spec in specs if spec.key_env)
    if missing := [key for key in keys if not environ.get(key, "").strip()]:
        raise UsageError(f"no {', '.join(missing)} in the environment of its Ray: restart that with it")


def share_in_flight(asked: int | None, usual: int, workers: int) -> int:
    """Tasks that one of `workers` works on at once: its part of those `asked` for, else of the `usual` more."""
    if asked is not None:
        return max(1, -(-asked // workers))
    return min(usual, max(LEAST_IN_FLIGHT, -(-usual * SPARE // workers)))


def _line(place: int, judge: str | None, line: ResultLine) -> Line:
    return Line(place, judge, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


# --- A campaign


def campaign_tasks(plan: Plan, files: Files) -> Iterator[Task]:
    """The instances that have to be done, all systems of an instance side by side."""
    resumed = any(len(run.journal) for run in files.values())
    places = {system: place for place, system in enumerate(plan.systems)}
    for seq, (instance, system) in enumerate(work_left(plan, files)):
        yield Task(seq, files[system].directory.name, instance.id, places[system], instance, resumed=resumed)


@dataclass(frozen=True, slots=True)
class CampaignWork:
    """A plan without its instances, which the head deals out."""

    plan: Plan
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
        return cls(replace(plan, search=search, instances=_at_the_head), tuple(files))

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AsyncIterator[Bench]:
        search = self.plan.search
        check_keys([*self.plan.specs.values(), *search.opened], environ)
        here = replace(
            search,
            corpus=search.corpus and self._here(search.corpus),
            replayed=tuple(self._here(run / STEPS).parent for run in search.replayed),
        )
        plan, outage_s = replace(self.plan, search=here), self.plan.config.max_outage_s
        systems = tuple(plan.systems)

        def lines_of(task: Task, ended: Any) -> Sequence[Line]:
            lines = [_line(task.place, judge, line) for judge, line in judgments_of(task.payload, ended)]
            return [*lines, _line(task.place, None, result_of(systems[task.place], task.payload, ended))]

        async with (
            open_resources(
                plan.specs, plan.prompts, environ, events, max_outage_s=outage_s, lane_of=lane_of
            ) as resources,
            open_cast(plan, resources) as cast,
        ):
            yield Bench(
                resources.lanes,
                [share_in_flight(plan.config.in_flight, instances_in_flight(resources), workers)],
                lambda task: walk_of(resources, cast, systems[task.place], task.payload),
                lines_of,
            )

    def _here(self, path: Path) -> Path:
        here = next((file.here() for file in self.files if file.path == str(path)), None)
        if here is None:
            raise UsageError(f"{path} is missing")
        return here


def _at_the_head() -> Iterator[Instance]:
    raise AssertionError("instances are dealt by the head")


# --- Judging


def judging_tasks(plan: JudgePlan, files: Sequence[RunFiles], events: Events) -> list[Iterator[Task]]:
    """A stream of tasks for each judge; the n-th tasks of all streams are equally old."""
    resumed = any(len(run.journal) for run in files)

    def tasks_of(stream: int, judge: str) -> Iterator[Task]:
        for n, verdict in enumerate(verdicts_left(plan, judge, files, events)):
            judging = verdict.judging
            yield Task(
                seq=stream + n * len(plan.judges),
                group=plan.group(judge),
                id=plan.targets[verdict.n].job_id(judging.instance.id),
                place=verdict.n,
                payload=verdict,
                question=hash((judge, judging.digest)) if judge != LEXICAL and judging in plan.repeats else 0,
                resumed=resumed,
                stream=stream,
            )

    return [tasks_of(stream, judge) for stream, judge in enumerate(plan.judges)]


@dataclass(frozen=True, slots=True)
class JudgingWork:
    """Judges that travel."""

    specs: Mapping[str, ModelSpec]
    judges: tuple[str, ...]
    prompts: PromptSet
    max_outage_s: float
    in_flight: int | None
    files: tuple[NeededFile, ...] = ()

    @classmethod
    def of(cls, plan: JudgePlan) -> JudgingWork:
        config = plan.config
        return cls(plan.specs, plan.judges, plan.prompts, config.max_outage_s, config.in_flight)

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AsyncIterator[Bench]:
        check_keys(self.specs.values(), environ)
        async with open_resources(
            self.specs, self.prompts, environ, events, max_outage_s=self.max_outage_s, lane_of=lane_of
        ) as resources:
            judges = {name: resources.judge(name) for name in self.judges}
            usual = share_in_flight(self.in_flight, instances_in_flight(resources), workers)

            def walk_of(task: Task) -> Callable[[Context], Awaitable[Any]]:
                wanted: PendingVerdict = task.payload
                return partial(make_verdict, judge=judges[wanted.judge], judging=wanted.judging)

            yield Bench(
                resources.lanes,
                [width_of(judge, self.judges, usual) for judge in self.judges],
                walk_of,
                _lines_of_verdict,
            )


def _lines_of_verdict(task: Task, ended: Any) -> Sequence[Line]:
    wanted: PendingVerdict = task.payload
    return [_line(task.place, None if wanted.scoring else wanted.judge, verdict_line(wanted, ended))]
