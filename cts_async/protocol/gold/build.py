"""Builds the static golden reference (paper, sections 3.3 and 4.2): one search of each q*, nuggets from its evidence.

    q* --agent: think, search, visit, ...--> answer, sources --extractor--> GOLD JSON, checked and grounded

Each intent is a job of durable steps, as in a run, so typing the same command again resumes. What is done so far is
published as a gold file at every end, early ones too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async import __version__
from cts_async.config import GoldConfig, RunConfig
from cts_async.datasets import normalise, open_dataset
from cts_async.engine.events import Events
from cts_async.engine.journal import AppendLog
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.signals import stoppable
from cts_async.errors import InputError, RunStopped, StepError, UsageError, write_error
from cts_async.llm.catalog import Catalogue
from cts_async.protocol.gold.check import Gold, GoldForm, gold_json, ground, grounding_json
from cts_async.protocol.gold.sources import (
    NumberedSource,
    Selection,
    SourceLimits,
    collect,
    limits_for,
    select,
    source_json,
    source_key,
    source_lines,
)
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.resources import (
    instances_in_flight,
    manifest_prices,
    open_budget,
    opened,
    opened_searcher,
)
from cts_async.protocol.results import LatestLines, Line, failure_line, search_json
from cts_async.protocol.roles import DeepSearch, Role
from cts_async.protocol.run_files import RESULTS, RunFiles, opened_files
from cts_async.protocol.run_folders import GOLDBUILD
from cts_async.protocol.systems import PAPER_SUPPORT, System, check_run_name
from cts_async.protocol.views import ExtractorView, SearchView
from cts_async.records import Instance, Trace, language_of
from cts_async.safe_files import atomic_writer, check_writable


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
        "prices": manifest_prices(inner.specs.values()),
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


# --- The nugget extractor: a golden reference from the evidence of one search (paper, section 4.2 and prompt D).


EXTRACTING = "extract"
"""The name of the extractor's step."""


async def extract_gold(ctx: Context, extractor: Role, view: ExtractorView) -> Gold:
    """The gold of the view's query; asked again, with everything that was wrong, until it is good.

    `view.sources` is not empty. Raises UnusableOutput where it never becomes good.
    """
    small = extractor.model.spec.prompt_size == "small"
    return await extractor.ask(
        ctx,
        EXTRACTING,
        "gold",
        language_of(view.query),
        GoldForm(view.sources),
        on_record=("query", "answer", "sources"),
        query=view.query,
        answer=view.answer,
        sources=source_lines(view.sources, small=small),
    )


# --- What a golden reference will be built of: distinct intents, models, evidence budget; all checked first.


@dataclass(frozen=True, slots=True)
class Intent:
    """One intent query q*: its first instance, and the ids of all that share it."""

    instance: Instance
    ids: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.instance.id


@dataclass(frozen=True, slots=True)
class GoldPlan:
    """A build: `plan` is that of a search of q* without Clarifiers and judges."""

    plan: Plan
    config: GoldConfig
    extractor: str
    limits: SourceLimits
    intents: tuple[Intent, ...]

    @property
    def directory(self) -> Path:
        """The run directory of the build."""
        (directory,) = self.plan.systems.values()
        return directory

    @property
    def system(self) -> System:
        (system,) = self.plan.systems
        return system

    def finished(self) -> Iterator[bytes]:
        """The gold lines of all that is done, in the order of the dataset, also beyond this command's limit."""
        return gold_lines(
            self.directory, ((one.id, one.ids) for one in intents_of(self.plan.dataset.instances()))
        )

    def identity(self) -> dict[str, Any]:
        """What determines the gold; a resumed build must agree on it. A gold that exists already does not."""
        identity = self.plan.identity(self.system)
        return {
            **identity,
            "system": GOLDBUILD,
            "data": {**identity["data"], "gold_sha256": None},
            "evidence": asdict(self.limits),
        }


def plan_gold(config: GoldConfig, catalogue: Catalogue, environ: Mapping[str, str]) -> GoldPlan:
    """Check everything, `out` too. Raises UsageError; starts and writes nothing."""
    run = config.run
    extractor = run.extractor or run.every_role or catalogue.roles.get("extractor") or PAPER_SUPPORT
    plan = make_plan(_search_of_intents(run, extractor), catalogue, environ)
    built = GoldPlan(
        plan=plan,
        config=config,
        extractor=extractor,
        limits=_limits(config, limits_for(plan.specs[extractor])),
        intents=intents_of(plan.instances()),
    )
    _spare_inputs(config.out, plan)
    check_target(config.out, built.finished(), force=config.force)
    return built


def intents_of(instances: Iterable[Instance]) -> tuple[Intent, ...]:
    """The distinct q* in order of appearance; queries that differ only in white space or width are the same."""
    first: dict[str, Instance] = {}
    ids: dict[str, list[str]] = {}
    for instance in instances:
        query = normalise(instance.fused_query)
        first.setdefault(query, instance)
        ids.setdefault(query, []).append(instance.id)
    return tuple(Intent(instance, tuple(ids[query])) for query, instance in first.items())


def _search_of_intents(run: RunConfig, extractor: str) -> RunConfig:
    """What of the options concerns a search of each q*. A build has a directory of its own, named after the data."""
    check_run_name(run.name)
    name = run.name or f"{open_dataset(run.data, None, run.fields).name}-{GOLDBUILD}"
    return replace(
        run, models=(), references=("gold",), no_judge=True, gold=None, extractor=extractor, name=name
    )


def _limits(config: GoldConfig, suited: SourceLimits) -> SourceLimits:
    return SourceLimits(
        max_sources=config.max_sources or suited.max_sources,
        chars_per_source=config.source_chars or suited.chars_per_source,
        total_chars=config.total_chars or suited.total_chars,
    )


def _spare_inputs(out: Path, plan: Plan) -> None:
    """The queries and documents are never overwritten, not even by force."""
    for path in (plan.dataset.path, *plan.dataset.more_paths, plan.corpus):
        if path is not None and out.exists() and out.samefile(path):
            raise UsageError(f"--out {out}: the data is read from this file; name another")


# --- The gold file that a build writes, in the release's format, and the care not to overwrite anybody else's.
#
# One JSON object a line: `id`, `fused_query` and `gold` as in the release; `instance_ids` (all that share the intent);
# for debugging `answer`, `sources`, `evidence`, `grounding`, `repairs` and `provenance`.
#
# A file is this build's own if each of its lines is one that the build would write. A line that was edited by hand
# is therefore nobody's but its editor's.


_DEBUGGING: Final = ("answer", "sources", "evidence", "grounding", "repairs", "provenance")


def gold_lines(directory: Path, intents: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[bytes]:
    """The lines of the intents that are done, in order; `intents` are pairs (id, ids of all that share it).

    Raises InputError for a result that is not as a build writes it.
    """
    results = LatestLines(directory / RESULTS)
    for id, ids in intents:
        line = results.line(id) if results.failed(id) is False else None
        if line is None:
            continue
        if not _is_built(line):
            raise not_as_built(directory / RESULTS, id)
        record: dict[str, Any] = {
            "id": id,
            "fused_query": line["fused_query"],
            "gold": line["gold"],
            "instance_ids": ids,
            **{name: line[name] for name in _DEBUGGING if name in line},
        }
        yield orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def not_as_built(path: Path, id: str) -> InputError:
    """What to say of a result that somebody broke."""
    problem = (
        f"the line of {id!r} is not as a build writes it: remove it, and the same command makes it again"
    )
    return InputError(path, problem)


def _is_built(line: Mapping[str, Any]) -> bool:
    """Whether a reader of gold could do with it."""
    gold = line.get("gold")
    nuggets = gold.get("nuggets") if isinstance(gold, dict) else None
    return (
        isinstance(line.get("fused_query"), str)
        and isinstance(nuggets, list)
        and all(isinstance(one, dict) and one.keys() >= {"id", "text", "weight"} for one in nuggets)
    )


def check_target(out: Path, own: Iterable[bytes], *, force: bool) -> None:
    """Refuse, with UsageError, a place where gold cannot be written, or should not be without `force`."""
    if out.is_dir():
        raise UsageError(f"--out {out}: is a directory; name a file in it")
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise UsageError(f"--out {out}: cannot write in {folder}")
    try:
        check_writable(out)
    except OSError as error:
        raise write_error(f"--out {out}", error) from None
    if force or not out.exists() or not out.stat().st_size:
        return
    known = {_digest(line) for line in own}
    with out.open("rb") as file:
        strange = next((number for number, line in enumerate(file, 1) if _digest(line) not in known), None)
    if strange is not None:
        raise UsageError(
            f"--out {out}: line {strange} was not written by this build; name another file, or replace it with --force"
        )


def write_gold(out: Path, lines: Iterable[bytes]) -> int:
    """Write the lines so that a reader, or a crash, sees the old file or the new one whole; give their number.

    Without lines nothing is written. Raises StorageFull, UsageError.
    """
    remaining = iter(lines)
    first = next(remaining, None)
    if first is None:
        return 0
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(f"--out {out}", error) from None
    n_lines = 0
    with atomic_writer(out) as file:
        for line in chain([first], remaining):
            file.write(line)
            n_lines += 1
    return n_lines


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=16).digest()


# --- `traces.jsonl`: each search as it happened, with all evidence that it brought, archived once (paper, section 4.2).


TRACES = "traces.jsonl"


class TraceArchive:
    """Appends traces; one that stands there already is not written again. Of each id the last line counts."""

    def __init__(self, directory: Path, *, sync: bool = False) -> None:
        path = directory / TRACES
        try:
            self._log = AppendLog(path, sync=sync)
        except OSError as error:
            raise write_error(path, error, verb="write there") from None
        self._known = LatestLines(path)

    async def keep(self, line: dict[str, Any]) -> None:
        """Archive a line made by `trace_line`."""
        if self._known.line(line["id"]) != line:
            await self._log.append(line)

    def close(self) -> None:
        """Write what is pending and close. Raises StorageFull if the disk refused it."""
        self._log.close()


def trace_line(instance: Instance, trace: Trace, sources: Sequence[NumberedSource]) -> dict[str, Any]:
    """A search of the instance's q* in plain JSON; every turn names the sources that it brought."""
    ids = {source.key: source.id for source in sources}
    turns = [
        {
            "kind": turn.kind,
            "request": turn.request,
            "text": turn.text,
            "source_ids": list(
                dict.fromkeys(ids[key] for one in turn.sources if (key := source_key(one)) in ids)
            ),
        }
        for turn in trace.turns
    ]
    return {
        "id": instance.id,
        "fused_query": instance.fused_query,
        "answer": trace.answer,
        "answer_from": trace.answer_from,
        "model_calls": trace.model_calls,
        "forced": trace.forced,
        "turns": turns,
        "sources": [source_json(source) for source in sources],
    }
