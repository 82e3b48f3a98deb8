"""What a golden reference will be built of: distinct intents, models, evidence budget; all checked first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cts_async.config import GoldConfig, RunConfig
from cts_async.datasets import normalise, open_dataset
from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue
from cts_async.protocol.gold_file import check_target, gold_lines
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.roles import PAPER_SUPPORT
from cts_async.protocol.run_folders import GOLDBUILD
from cts_async.protocol.sources import SourceLimits, limits_for
from cts_async.protocol.systems import System, check_run_name
from cts_async.records import Instance


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
