"""`cts gold`: builds the static golden reference (paper, sections 3.3 and 4.2): planned, run, and written.

    q* --agent: think, search, visit, ...--> answer, sources --extractor--> GOLD JSON, checked and grounded

Each distinct intent is a job of durable steps, as in a run, so the same command resumes. Finished intents are published
as a gold file whenever the command ends, also early.

The gold file has one JSON object a line: `id`, `fused_query` and `gold` as in the release; `instance_ids` (all that
share the intent); for debugging `answer`, `sources`, `evidence`, `grounding`, `repairs` and `provenance`. A file belongs
to this build if each of its lines is one that the build would write. A line that was edited by hand is the editor's, and
is not overwritten without --force.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, dataclass, fields
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async import __version__
from cts_async.config import GoldConfig, RunConfig, SearchConfig
from cts_async.datasets import normalise, open_dataset
from cts_async.engine.events import Events
from cts_async.engine.journal import AppendLog
from cts_async.engine.runner import Context, Job
from cts_async.errors import InputError, RunStopped, StepError, UsageError, write_error
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.protocol.batching import batch_widths, check_batches
from cts_async.protocol.custom.sources import is_custom
from cts_async.protocol.gold_check import (
    SMALL,
    GoldForm,
    GoldReference,
    SourceLimits,
    collect,
    gold_json,
    ground,
    grounding_json,
    same_address,
    select,
    source_json,
    source_key,
    source_lines,
)
from cts_async.protocol.plan import Plan, draft_plan, with_versions
from cts_async.protocol.roles import Role, Searcher
from cts_async.protocol.run import Jobs, Resources, execute, open_search, open_system_files
from cts_async.protocol.run_files import EndedLines, RunFiles
from cts_async.protocol.systems import PAPER_SUPPORT, System, check_run_name
from cts_async.protocol.versions import Series
from cts_async.protocol.views import ExtractorView, NumberedSource, SearchView
from cts_async.records import NOT_TO_BE_PUBLISHED, Instance, Trace, language_of
from cts_async.runs.files import RESULTS
from cts_async.runs.manifest import GOLDBUILD, manifest_or_empty
from cts_async.runs.results import LatestLines, Line, failure_line, search_json
from cts_async.safe_files import atomic_writer, check_writable
from cts_async.search.toolbox import NO_TOOLS

EXTRACTING = "extract"
"""The name of the extractor's step."""
TRACES: Final = "traces.jsonl"
_DEBUGGING: Final = ("answer", "sources", "evidence", "grounding", "repairs", "provenance")


class NoSources(StepError):
    """The search found no sources, so there is nothing a nugget could be grounded in, and no gold."""

    kind = "no_sources"
    step = "search"


# --- The plan


@dataclass(frozen=True, slots=True)
class Intent:
    """One intent query q*: its first instance, and the ids of all instances that share it."""

    instance: Instance
    ids: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.instance.id


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldPlan(Plan):
    """A search of each q* without Clarifiers and judges, and what its evidence is made into."""

    build: GoldConfig
    """The command's options; `config` is that of the searches."""
    limits: SourceLimits
    intents: tuple[Intent, ...]
    series: Series

    @property
    def directory(self) -> Path:
        """The run directory of the build."""
        (directory,) = self.systems.values()
        return directory

    @property
    def system(self) -> System:
        (system,) = self.systems
        return system

    def n_expected(self, system: System) -> int:
        """Number of intents."""
        return len(self.intents)

    def finished(self) -> Iterator[bytes]:
        """The gold lines of all finished intents in the order of the dataset, also those beyond this command's limit."""
        return self._finished_in(self.directory)

    def written_before(self) -> Iterator[bytes]:
        """The gold lines that this build, or another version of it, has written to its file."""
        for version in self.series.versions():
            yield from self._finished_in(version.directory)

    def _finished_in(self, directory: Path) -> Iterator[bytes]:
        intents = intents_of(self.dataset.instances())
        return gold_lines(directory, [(intent.id, intent.ids) for intent in intents])

    def identity(self, system: System) -> dict[str, Any]:
        """What determines the gold; a resumed build must agree with it. An existing gold file does not matter."""
        identity = Plan.identity(self, system)
        identity["system"] = GOLDBUILD
        identity["data"] = identity["data"] | {"gold_sha256": None}
        identity["evidence"] = asdict(self.limits)
        return identity


def plan_gold(config: GoldConfig, catalogue: Catalogue, environ: Mapping[str, str]) -> GoldPlan:
    """Check everything, `out` too. Raises UsageError; starts and writes nothing."""
    extractor = config.extractor or config.every_role or catalogue.roles.get("extractor") or PAPER_SUPPORT
    if is_custom(extractor, catalogue):
        raise UsageError(f"{extractor}: nuggets are extracted by a model; name one with --extractor")
    if config.tools == (NO_TOOLS,):
        raise UsageError(
            f"--tools {NO_TOOLS}: gold is extracted from what was found; name the tools to find it with"
        )
    # A build is a run of the reference point `gold`, whose searches are then read by the extractor.
    plan, series = draft_plan(_search_of_intents(config), catalogue, environ, extractor=extractor)
    check_batches(config, [extractor], plan.specs)
    built = GoldPlan(
        **{field.name: getattr(plan, field.name) for field in fields(plan)},
        build=config,
        limits=_limits(config, plan.specs[extractor]),
        intents=intents_of(plan.instances()),
        series=series[next(iter(plan.systems))],
    )
    built = with_versions(built, series)
    for path in (plan.dataset.path, *plan.dataset.more_paths, plan.search.corpus):
        # Queries and documents are never overwritten, not even with --force.
        if path is not None and config.out.exists() and config.out.samefile(path):
            raise UsageError(f"--out {config.out}: is an input of this command; name another file")
    check_target(config.out, built.written_before(), force=config.force)
    return built


def intents_of(instances: Iterable[Instance]) -> tuple[Intent, ...]:
    """The distinct q* in order of appearance; queries that differ only in white space or width are the same."""
    instances_by_text: dict[str, list[Instance]] = {}
    for instance in instances:
        instances_by_text.setdefault(normalise(instance.intent), []).append(instance)
    intents = []
    for sharing in instances_by_text.values():
        ids = tuple(instance.id for instance in sharing)
        intents.append(Intent(sharing[0], ids))
    return tuple(intents)


def _search_of_intents(config: GoldConfig) -> RunConfig:
    """The run that searches each q*. A build has a directory of its own, named after the data."""
    check_run_name(config.name)
    options = {field.name: getattr(config, field.name) for field in fields(SearchConfig)}
    if config.name is None:
        options["name"] = f"{open_dataset(config.data, None, config.fields).name}-{GOLDBUILD}"
    if config.agent_mode is None:
        # Without an answer there is no gold: only who asks for it gets an agent that may end without one.
        options["agent_mode"] = "strict"
    return RunConfig(**options, models=(), references=("gold",), no_judge=True)


def _limits(config: GoldConfig, extractor: ModelSpec) -> SourceLimits:
    """The limits as given, else those that suit the extractor."""
    defaults = SMALL if extractor.prompt_size == "small" else SourceLimits()
    return SourceLimits(
        max_sources=config.max_sources or defaults.max_sources,
        chars_per_source=config.source_chars or defaults.chars_per_source,
        total_chars=config.total_chars or defaults.total_chars,
    )


# --- Building


async def build_gold(plan: GoldPlan, environ: Mapping[str, str], events: Events) -> None:
    """Build or resume, and publish what is finished. Raises RunStopped when it ends early."""
    try:
        await execute(plan, environ, events, _open_jobs)
    except RunStopped:
        # Hours of searches are worth having, also where the build ends early.
        publish(plan)
        raise
    publish(plan)


def publish(plan: GoldPlan) -> int:
    """Write the gold file from the run directory; return the number of its intents."""
    out = plan.build.out
    # Once more: the file may have been edited while the build ran.
    check_target(out, plan.written_before(), force=plan.build.force)
    return write_gold(out, plan.finished())


@asynccontextmanager
async def _open_jobs(plan: GoldPlan, resources: Resources, events: Events) -> AsyncIterator[Jobs]:
    async with open_search(plan, resources) as searcher:
        with (
            open_system_files(plan, events) as files,
            closing(TraceArchive(plan.directory, sync=plan.config.sync)) as archive,
        ):
            extractor = resources.role(plan.extractor, batched=True)
            build = _Build(plan, searcher, extractor, files[plan.system], archive)
            in_flight = batch_widths(plan.config, len(plan.intents))
            yield Jobs([build.jobs()], in_flight=in_flight)


@dataclass(frozen=True, slots=True)
class _Build:
    """Everything that the job of an intent uses."""

    plan: GoldPlan
    searcher: Searcher
    extractor: Role
    files: RunFiles
    archive: TraceArchive

    def jobs(self) -> Iterator[Job]:
        for intent in self.plan.intents:
            if self.files.needs_work(intent.id, retry_failed=self.plan.config.retry_failed):
                walk = partial(self._walk, intent=intent)
                yield self.files.job(intent.id, walk, partial(self._lines_of, intent))

    async def _walk(self, ctx: Context, *, intent: Intent) -> Line:
        """The record of one intent in results.jsonl and, without its first fields, in the gold file."""
        query, plan, agent = intent.instance.intent, self.plan, self.plan.roles.agent
        trace = await self.searcher.search(ctx, SearchView(query), retry_failures=self._found_nothing(intent))
        sources = collect(trace.turns)
        # Before the extractor is asked: a search is worth keeping, whatever becomes of its nuggets.
        await self.archive.keep(trace_line(intent.instance, trace, sources))
        if not sources:
            raise NoSources("the search found no sources, so no nugget could be grounded")
        selection = select(sources, plan.limits)
        view = ExtractorView(query, trace.answer, selection.sources)
        gold = await extract_gold(ctx, self.extractor, view)
        return {
            "id": intent.id,
            "system": GOLDBUILD,
            "fused_query": query,
            "gold": gold_json(gold),
            "answer": trace.answer,
            "answer_from": trace.answer_from,
            "search": search_json(trace),
            "sources": list(map(source_json, selection.sources)),
            "evidence": {"found": len(sources), "dropped": selection.dropped, "cut": dict(selection.cut)},
            "grounding": grounding_json(ground(gold.nuggets, selection.sources)),
            "repairs": gold.repairs,
            "provenance": {
                "made_by": f"cts_async {__version__}",
                "run": plan.directory.name,
                "agent": plan.specs[agent].model if agent in plan.specs else agent,
                "extractor": plan.specs[plan.extractor].model,
                "date": plan.current_date,
            },
        }

    def _found_nothing(self, intent: Intent) -> bool:
        """Whether an earlier search found no sources: replaying its failed tool calls would find none again."""
        line = self.files.finished.line(intent.id) or {}
        return bool(line.get("error", {}).get("kind") == NoSources.kind)

    def _lines_of(self, intent: Intent, ended: Line | StepError) -> EndedLines:
        if isinstance(ended, StepError):
            ended = failure_line(GOLDBUILD, intent.instance, ended)
        return [(None, ended)]


async def extract_gold(ctx: Context, extractor: Role, view: ExtractorView) -> GoldReference:
    """The gold of the view's query (paper, prompt D); `view.sources` is not empty.

    An invalid reply is asked for again, with all its problems. Raises UnusableOutput where it never becomes valid.
    """
    small = extractor.model.spec.prompt_size == "small"
    return await ctx.step(
        extractor.step(
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
    )


# --- The gold file


def gold_lines(directory: Path, intents: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[bytes]:
    """The gold lines of finished intents, in order; `intents` are pairs (id, ids of all instances that share it).

    Raises InputError for a line that was edited or damaged.
    """
    results = LatestLines(directory / RESULTS)
    restriction = manifest_or_empty(directory).data.restriction
    for id, ids in intents:
        line = results.line(id) if results.failed(id) is False else None
        if line is None:
            continue
        # The run directory may have been edited, too: what is no gold must not become a gold file.
        if not (isinstance(line.get("gold"), dict) and isinstance(line.get("fused_query"), str)):
            raise InputError(
                directory / RESULTS, f"the line of {id!r} is damaged: remove it to make it again"
            )
        record: Line = {
            "id": id,
            "fused_query": line["fused_query"],
            "gold": line["gold"],
            "instance_ids": ids,
        }
        for name in _DEBUGGING:
            if name in line:
                record[name] = line[name]
        if restriction:
            record[NOT_TO_BE_PUBLISHED] = restriction
        yield orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def check_target(out: Path, lines: Iterable[bytes], *, force: bool) -> None:
    """Raise UsageError for a path where gold cannot be written, or must not be without `force`.

    `lines` are those that the build's versions have written: a file of nothing else is its own.
    """
    if out.is_dir():
        raise UsageError(f"--out {out}: is a directory; name a file in it")
    # Folders above it that do not exist are made when it is written.
    folder = out.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise UsageError(f"--out {out}: cannot write in {folder}")
    try:
        check_writable(out)
    except OSError as error:
        raise write_error(f"--out {out}", error) from None
    if force or not out.exists() or not out.stat().st_size:
        return
    # Digests, since a line has all the sources of an intent.
    digests = {_digest(line) for line in lines}
    with out.open("rb") as file:
        for number, line in enumerate(file, 1):
            if _digest(line) not in digests:
                raise UsageError(
                    f"--out {out}: line {number} was not written by this build; use another file, or --force "
                    "to replace it"
                )


def write_gold(out: Path, lines: Iterator[bytes]) -> int:
    """Write the lines atomically and return their number; without lines the file is left alone.

    Raises StorageFull, UsageError.
    """
    first_line = next(lines, None)
    if first_line is None:
        return 0
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(f"--out {out}", error) from None
    n_lines = 0
    with atomic_writer(out) as file:
        for line in chain([first_line], lines):
            file.write(line)
            n_lines += 1
    return n_lines


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=16).digest()


# --- The archive of searches


class TraceArchive:
    """`traces.jsonl`: appends searches with all their evidence; an unchanged one is not written again (paper, 4.2)."""

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
    """A search of the instance's q* as JSON; every turn lists the ids of its sources."""
    ids = {same_address(source.url) or source.text: source.id for source in sources}
    turns = []
    for turn in trace.turns:
        source_ids: list[str] = []
        for source in turn.sources:
            id = ids.get(source_key(source))
            if id is not None and id not in source_ids:  # a source without text has none
                source_ids.append(id)
        turns.append(
            {"kind": turn.kind, "request": turn.request, "text": turn.text, "source_ids": source_ids}
        )
    return {
        "id": instance.id,
        "fused_query": instance.intent,
        "answer": trace.answer,
        "answer_from": trace.answer_from,
        "model_calls": trace.model_calls,
        "forced": trace.forced,
        "turns": turns,
        "sources": list(map(source_json, sources)),
    }
