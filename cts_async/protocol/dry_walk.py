"""How far a run would come without a call: its pipeline over the instances that are left, with lookups only.

Steps that the run's own journal or another run has return, under the rules of `engine.reuse`; the first one that
neither has ends its branch. Nothing is sent, started or written, and no file is locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio

from cts_async.custom import RoleName
from cts_async.engine.events import Event, Events, Notice
from cts_async.engine.lookup import LookedUpSteps, LookupRunner, StepNotFound
from cts_async.engine.processes import collect_seldom
from cts_async.engine.reuse import StepSource
from cts_async.engine.runner import Context, Job
from cts_async.errors import StepError
from cts_async.llm.model import Client, Model
from cts_async.protocol.conversation import NOBODY
from cts_async.protocol.custom.calls import Call, CustomPlayer
from cts_async.protocol.custom.wire import View
from cts_async.protocol.found_steps import DryWalk, FoundVerdicts, WalkProgress, kind_of_step
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.plan import CORPUS, CommandPlan, Plan
from cts_async.protocol.rejudge import JudgePlan, make_verdict, verdicts_left
from cts_async.protocol.roles import Searcher
from cts_async.protocol.run import Resources, cast_of, lane_limits_of, searcher_of, walk_of, work_left
from cts_async.protocol.run_files import RecordedWork
from cts_async.protocol.systems import System
from cts_async.runs.files import PER_ITEM, RESULTS, STEPS
from cts_async.runs.reuse import OwnSteps
from cts_async.search.backends import Hit, Page, PageReader, SearchEngine
from cts_async.search.backends.corpus import CorpusBackend

PlanT = TypeVar("PlanT", bound=CommandPlan)
WalksT = TypeVar("WalksT")


def look_up(
    walk: Callable[[PlanT, Mapping[str, str], Events], Awaitable[WalksT]],
    plan: PlanT,
    environ: Mapping[str, str],
) -> tuple[WalksT, list[str]]:
    """What `walk(plan, environ, events)` finds, in an event loop of its own, and what it has to say of damaged runs."""
    notices: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    # As a run has it: most of a walk is rendering prompts and parsing replies, and garbage collections in between.
    collect_seldom()
    found = anyio.run(walk, plan, environ, Events(note), backend_options={"use_uvloop": True})
    return found, notices


class Walker:
    """Walks instances of one run or folder, one after the other, and notes how far each of them comes."""

    def __init__(
        self, runner: LookupRunner, own_journals: Sequence[Path], source: StepSource | None, walk: DryWalk
    ) -> None:
        """Steps are looked up in `own_journals`, which may not exist, then in `source`."""
        self._runner, self._source, self._walk = runner, source, walk
        self._steps = LookedUpSteps(OwnSteps(own_journals))

    async def walk(
        self, id: str, steps: Callable[[Context], Awaitable[Any]], *, shared: bool = False
    ) -> WalkProgress:
        """Make the steps of one instance as far as they are found."""
        runner, memory = self._runner, self._steps
        runner.found.clear()
        runner.missing.clear()
        memory.taken.clear()
        job = Job("", id, memory, steps, _record_nothing, shared=shared, source=self._source)
        ctx = Context(runner, job, 0)
        # A step that is found may hold a failure, too: its instance fails as it did before.
        with suppress(StepError, StepNotFound):
            await steps(ctx)
        for record in memory.taken:
            self._walk.add_taken(record)
        if not shared:
            memory.forget(ctx.copied)
        found: Counter[str] = Counter()
        for name, n in runner.found.items():
            found[kind_of_step(name)] += n
        progress = WalkProgress(frozenset(found.items()), frozenset(map(kind_of_step, runner.missing)))
        self._walk.progress[progress] += 1
        return progress


async def _record_nothing(ended: Any) -> None:
    """Do nothing with the end of a job."""


async def walk_plan(plan: Plan, environ: Mapping[str, str], events: Events) -> Mapping[System, DryWalk]:
    """Walk all instances that a run has left, by system; emits which runs are damaged.

    Raises UsageError where the plan's documents cannot be read.
    """
    resources = unasked_resources(plan, environ, events)
    searcher: Searcher = NOBODY
    if plan.searches:
        searcher = searcher_of(plan, resources, *_unasked_tools(plan))
    cast = cast_of(plan, resources, searcher)
    # The lexical judge makes no steps, and its verdicts are not wanted here.
    cast = replace(cast, judges=tuple(judge for judge in cast.judges if judge.name != LEXICAL))
    origins = plan.reuse.origins(plan.directories(), events)
    walks: dict[System, DryWalk] = {}
    walkers: dict[System, Walker] = {}
    recorded: dict[System, RecordedWork] = {}
    for system, directory in plan.systems.items():
        source = None
        if plan.versions[system].reuses:
            source = plan.source_of(system, origins)
        recorded[system] = RecordedWork(directory)
        walks[system] = DryWalk()
        walkers[system] = Walker(LookupRunner(plan.config.seed), [directory / STEPS], source, walks[system])
    for remaining, system in work_left(plan, recorded):
        steps = walk_of(resources, cast, system, remaining)
        await walkers[system].walk(remaining.instance.id, steps)
    return walks


async def walk_judging(
    plan: JudgePlan, environ: Mapping[str, str], events: Events
) -> Mapping[str, FoundVerdicts]:
    """Look up all verdicts that a judging has left, by judge; emits which runs are damaged."""
    resources = unasked_resources(plan, environ, events)
    origins = plan.reuse.origins(plan.directories(), events)
    recorded: list[RecordedWork] = []
    for target in plan.targets:
        results = RESULTS if target.scoring is None else PER_ITEM
        recorded.append(RecordedWork(target.directory, results))
    verdicts_by_judge: dict[str, FoundVerdicts] = {}
    for name in plan.specs:
        verdicts = verdicts_by_judge[name] = FoundVerdicts()
        judge, runner, questions = resources.judge(name), LookupRunner(plan.config.seed), set[int]()
        walkers: list[Walker] = []
        for target in plan.targets:
            # Judged together, each finds what any of the others has.
            walkers.append(Walker(runner, plan.journals, plan.source_of(target, origins), verdicts.walk))
        for pending in verdicts_left(plan, name, recorded, events):
            judging = pending.judging
            # Equal answers are asked about once.
            if judging.question_hash in questions:
                continue
            questions.add(judging.question_hash)
            id = plan.targets[pending.n].job_id(judging.instance.id)
            await walkers[pending.n].walk(id, partial(make_verdict, judge=judge, judging=judging))
            if runner.missing:
                verdicts.n_questions += 1
                verdicts.n_calls += runner.missing.total()
    return verdicts_by_judge


# --- Players that are never asked


def unasked_resources(plan: CommandPlan, environ: Mapping[str, str], events: Events) -> Resources:
    """The players of a plan as `open_resources` opens them, without a connection, a server or a process."""
    client = Client(environ)
    models: dict[str, Model] = {}
    resources = Resources(plan.prompts, models, environ, events, plan.config.max_outage_s)
    resources.as_published = isinstance(plan, Plan) and plan.config.as_published
    resources.fixed_temperature = plan.fixed_temperature
    resources.judge_form = plan.judge_form
    for name, spec in plan.specs.items():
        lane = resources.lane(spec.account, name, lane_limits_of(spec, plan.config.max_outage_s))
        models[name] = Model(spec, client, lane)
    custom: dict[tuple[str, RoleName], CustomPlayer] = {}
    for label, roles in plan.custom.items():
        for role, player in roles.items():
            custom[label, role] = CustomPlayer(player, _never_called, NOBODY)
    resources.custom = custom
    return resources


async def _never_called(call: Call, view: View) -> Any:
    raise AssertionError("a dry walk calls no role")


def _unasked_tools(plan: Plan) -> tuple[SearchEngine, PageReader]:
    """The engine, which nobody asks, and the reader: of documents the real one, since some reads are no steps."""
    search = plan.search
    unasked = _UnaskedTools(search.engine.engine)
    if search.corpus is None or search.reader.kind != CORPUS:
        return unasked, unasked
    return unasked, CorpusBackend(search.corpus, snippet_chars=plan.settings.snippet_chars, stores=False)


class _UnaskedTools:
    """A search engine and a page reader; `engine` is the name that the agent reads above results."""

    name: Final = "not asked"

    def __init__(self, engine: str) -> None:
        self.engine = engine

    async def search(self, query: str, limit: int) -> list[Hit]:
        raise StepNotFound("nothing is searched")

    async def fetch(self, url: str) -> Page:
        raise StepNotFound("no page is read")
