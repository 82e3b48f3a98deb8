"""A campaign's instances as pieces, and the bench that workers do them at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cts_async.cluster.lines import RESULTS, travelling
from cts_async.cluster.messages import Piece
from cts_async.cluster.needs import Needs, keys_of
from cts_async.cluster.share import share_in_flight
from cts_async.cluster.trades import Done, Elsewhere
from cts_async.engine.events import Events
from cts_async.engine.journal import StepMemory
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Job
from cts_async.errors import StepError
from cts_async.protocol.plan import Plan
from cts_async.protocol.resources import LaneOf, instances_in_flight
from cts_async.protocol.run import Company, Files, judgments_of, opened_company, result_of, work_left
from cts_async.protocol.run_files import STEPS
from cts_async.protocol.systems import System
from cts_async.records import Instance, Outcome


def pieces_of(plan: Plan, files: Files, *, again: bool) -> Iterator[Piece]:
    """What has to be done; `again` where the journals hold steps of earlier sessions."""
    places = {system: place for place, system in enumerate(plan.systems)}
    for seq, (instance, system) in enumerate(work_left(plan, files)):
        place = places[system]
        yield Piece(seq, files[system].directory.name, instance.id, place, instance, again=again)


@dataclass(frozen=True, slots=True)
class CampaignTrade:
    """A plan that travels: where the instances come from stays with the head."""

    plan: Plan
    needs: Needs

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AsyncIterator[CampaignBench]:
        """Everybody who plays, on this machine. Raises UsageError for a key or a file that is missing here."""
        self.needs.check(environ)
        plan = _found_here(self.plan, self.needs)
        async with opened_company(plan, environ, events, lane_of) as company:
            yield CampaignBench(plan, tuple(plan.systems), company, workers)


def trade_of(plan: Plan) -> CampaignTrade:
    """What workers have to be told of `plan`."""
    search = replace(
        plan.search,
        corpus=plan.search.corpus and plan.search.corpus.resolve(),
        replayed=tuple(run.resolve() for run in plan.search.replayed),
    )
    files = {} if search.corpus is None else {search.corpus: search.corpus_sha256 or ""}
    replayed = zip(search.replayed, search.replayed_sha256, strict=True)
    files |= {run / STEPS: sha256 for run, sha256 in replayed}
    needs = Needs.of(keys_of(plan.specs.values(), search.opened), files)
    return CampaignTrade(replace(plan, search=search, instances=_with_the_head), needs)


@dataclass(frozen=True, slots=True)
class CampaignBench:
    """A company, and the systems by their place."""

    plan: Plan
    systems: Sequence[System]
    company: Company
    workers: int

    @property
    def lanes(self) -> Sequence[Lane]:
        return self.company.crew.lanes

    @property
    def in_flight(self) -> int:
        usual = instances_in_flight(self.company.crew)
        return share_in_flight(self.plan.config.in_flight, usual, self.workers)

    def width(self, stream: int) -> int:
        """There is one stream."""
        return self.in_flight

    def job(
        self,
        piece: Piece,
        parts: Mapping[int, Any],
        journal: StepMemory,
        elsewhere: Elsewhere | None,
        done: Done,
    ) -> Job:
        """An instance's walk through one system."""
        system, instance = self.systems[piece.place], piece.task
        return Job(
            group=piece.group,
            id=piece.id,
            journal=journal,
            walk=partial(self.company.walk, system=system, instance=instance),
            finish=partial(_finish, place=piece.place, system=system, instance=instance, done=done),
            elsewhere=elsewhere,
        )


async def _finish(
    ended: Outcome | StepError, *, place: int, system: System, instance: Instance, done: Done
) -> None:
    lines = [travelling(place, judge, line) for judge, line in judgments_of(instance, ended)]
    lines.append(travelling(place, RESULTS, result_of(system, instance, ended)))
    done(tuple(lines), isinstance(ended, StepError))


def _found_here(plan: Plan, needs: Needs) -> Plan:
    """The plan with its files where this machine has them."""
    search = plan.search
    corpus = search.corpus and needs.place_of(search.corpus)
    replayed = tuple(needs.place_of(run / STEPS).parent for run in search.replayed)
    return replace(plan, search=replace(search, corpus=corpus, replayed=replayed))


def _with_the_head() -> Iterator[Instance]:
    raise AssertionError("instances are dealt by the head")
