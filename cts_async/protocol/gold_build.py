"""Builds the static golden reference (paper, sections 3.3 and 4.2): one search of each q*, nuggets from its evidence.

    q* --agent: think, search, visit, ...--> answer, sources --extractor--> GOLD JSON, checked and grounded

Each intent is a job of durable steps, as in a run, so typing the same command again resumes. What is done so far is
published as a gold file at every end, early ones too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from cts_async import __version__
from cts_async.engine.events import Events
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.stop import stoppable
from cts_async.errors import RunStopped, StepError
from cts_async.protocol.crew import instances_in_flight, opened, prices_of
from cts_async.protocol.deep_search import DeepSearch
from cts_async.protocol.gold import extract_gold
from cts_async.protocol.gold_check import Gold, gold_json
from cts_async.protocol.gold_file import check_target, write_gold
from cts_async.protocol.gold_plan import GoldPlan, Intent
from cts_async.protocol.grounding import ground, grounding_json
from cts_async.protocol.results import Line, failure_line, search_json
from cts_async.protocol.role import Role
from cts_async.protocol.run_files import RunFiles, opened_files
from cts_async.protocol.run_folders import GOLDBUILD
from cts_async.protocol.searcher import opened_searcher
from cts_async.protocol.sources import Selection, collect, select, source_json
from cts_async.protocol.spending import open_budget
from cts_async.protocol.trace_archive import TraceArchive, trace_line
from cts_async.protocol.views import ExtractorView, SearchView
from cts_async.records import Trace


class NoSources(StepError):
    """The search brought no evidence: there is nothing that a nugget could stand on, and so no gold."""

    kind = "no_sources"
    step = "search"


@dataclass(frozen=True, slots=True)
class Built:
    """The golden reference of one intent, and what it was made of."""

    trace: Trace
    n_found: int
    """Sources that the search brought; the selection is what the extractor saw of them."""
    selection: Selection
    gold: Gold


async def build_gold(plan: GoldPlan, environ: Mapping[str, str], events: Events) -> None:
    """Build or resume, and publish what is done. Raises RunStopped when it ends early."""
    try:
        await _build(plan, environ, events)
    except RunStopped:
        publish(plan)
        raise
    publish(plan)


def publish(plan: GoldPlan) -> int:
    """Write the gold file from what the run directory holds; give the number of its intents."""
    out = plan.config.out
    check_target(out, plan.finished(), force=plan.config.force)
    return write_gold(out, plan.finished())


async def _build(plan: GoldPlan, environ: Mapping[str, str], events: Events) -> None:
    config = plan.plan.config
    async with (
        stoppable() as stopper,
        opened(plan.plan.specs, plan.plan.prompts, environ, events, max_outage_s=config.max_outage_s) as crew,
        opened_searcher(plan.plan, crew) as searcher,
    ):
        with _files(plan) as files, closing(TraceArchive(files.directory, sync=config.sync)) as archive:
            files.tell(events, len(plan.intents), retry_failed=config.retry_failed)
            runner = Runner(
                crew.lanes,
                events=events,
                seed=config.seed,
                in_flight=config.in_flight or instances_in_flight(crew),
                budget=open_budget(config.budget, plan.plan.specs.values(), [files.journal.path], (), events),
            )
            stopper.watch(runner)
            work = _Work(plan, searcher, crew.role(plan.extractor), files, archive)
            await runner.run(work.jobs())


def _files(plan: GoldPlan) -> Any:
    config, inner = plan.plan.config, plan.plan
    notes = {
        "command": config.command,
        "data": {
            "spec": config.data,
            "path": str(inner.dataset.path),
            "gold": None,
            "fields": dict(config.fields),
            "corpus": str(inner.corpus) if inner.corpus else None,
        },
        "tools": inner.search.notes,
        "players": inner.players(plan.system),
        "prices": prices_of(inner.specs.values()),
        "embedded": inner.embedded,
        "n_expected": len(plan.intents),
    }
    texts = inner.prompt_texts(plan.system)
    return opened_files(plan.directory, plan.identity(), notes, prompts=texts, sync=config.sync)


@dataclass(frozen=True, slots=True)
class _Work:
    """Everything that an intent's walk reaches for."""

    plan: GoldPlan
    searcher: DeepSearch
    extractor: Role
    files: RunFiles
    archive: TraceArchive

    def jobs(self) -> Iterator[Job]:
        for intent in self.plan.intents:
            if self.files.needs_work(intent.id, retry_failed=self.plan.plan.config.retry_failed):
                yield Job(
                    group=self.files.directory.name,
                    id=intent.id,
                    journal=self.files.journal,
                    walk=partial(self._walk, intent=intent),
                    finish=partial(self._finish, intent=intent),
                )

    async def _walk(self, ctx: Context, *, intent: Intent) -> Built:
        query = intent.instance.fused_query
        trace = await self.searcher.search(ctx, SearchView(query), anew=self._found_nothing(intent))
        found = collect(trace.turns)
        await self.archive.keep(trace_line(intent.instance, trace, found))
        if not found:
            raise NoSources(
                "the search found no sources: there is nothing that a nugget could be grounded in"
            )
        selection = select(found, self.plan.limits)
        view = ExtractorView(query, trace.answer, selection.sources)
        return Built(trace, len(found), selection, await extract_gold(ctx, self.extractor, view))

    def _found_nothing(self, intent: Intent) -> bool:
        """Whether an earlier search found no sources: telling its agent of the same failures would find none again."""
        line = self.files.finished.line(intent.id) or {}
        return bool(line.get("error", {}).get("kind") == NoSources.kind)

    async def _finish(self, ended: Built | StepError, *, intent: Intent) -> None:
        if isinstance(ended, StepError):
            await self.files.add_result(failure_line(GOLDBUILD, intent.instance, ended))
        else:
            await self.files.add_result(_line(self.plan, intent, ended))


def _line(plan: GoldPlan, intent: Intent, built: Built) -> Line:
    """The record of one intent, in `results.jsonl` and, but for its first fields, in the gold file."""
    trace, shown = built.trace, built.selection
    return {
        "id": intent.id,
        "system": GOLDBUILD,
        "fused_query": intent.instance.fused_query,
        "gold": gold_json(built.gold),
        "answer": trace.answer,
        "answer_from": trace.answer_from,
        "search": search_json(trace),
        "sources": [source_json(source) for source in shown.sources],
        "evidence": {"found": built.n_found, "dropped": shown.dropped, "cut": dict(shown.cut)},
        "grounding": grounding_json(ground(built.gold.nuggets, shown.sources)),
        "repairs": built.gold.repairs,
        "provenance": _provenance(plan),
    }


def _provenance(plan: GoldPlan) -> dict[str, str]:
    """Who made it and when the search was told it was."""
    specs, roles = plan.plan.specs, plan.plan.roles
    return {
        "made_by": f"cts_async {__version__}",
        "run": plan.directory.name,
        "agent": specs[roles.agent].model,
        "extractor": specs[plan.extractor].model,
        "date": plan.plan.current_date,
    }
