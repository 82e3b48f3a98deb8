"""A campaign, or judging, on a cluster: the doers that take the place of this process's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import anyio

from cts_async.cluster import campaign, judging
from cts_async.cluster.head import Head
from cts_async.cluster.links import WorkerLink
from cts_async.cluster.messages import Piece
from cts_async.cluster.purse import Purse
from cts_async.cluster.trades import Setup, Trade
from cts_async.config import JudgeConfig, RunConfig
from cts_async.engine.budget import Budget
from cts_async.engine.events import Events
from cts_async.engine.shards import until_free
from cts_async.engine.signals import Stopper, stoppable
from cts_async.engine.worker_status import census
from cts_async.errors import RunStopped
from cts_async.protocol.judge_plan import JudgePlan
from cts_async.protocol.plan import Plan
from cts_async.protocol.rejudge import budget_of as judging_budget_of
from cts_async.protocol.rejudge import opened_verdicts
from cts_async.protocol.run import budget_of, opened_runs
from cts_async.protocol.run_files import RunFiles

FINISH_S: Final = 25.0
"""So long workers may finish what they have in flight when their cluster has ended: Ray soon ends the head, too."""


class HeadsLimiter(Protocol):
    """The limiter, as the head has it."""

    def gone(self, worker: str) -> None:
        """A worker is known to be no more."""

    async def keep(self, roster: Callable[[], Mapping[str, float | None]]) -> None:
        """Tell each incarnation of the limiter who there is and was, until cancelled."""


class Cluster(Protocol):
    """Where workers come from."""

    @property
    def workers(self) -> int:
        """How many there are to be."""

    @property
    def address(self) -> str:
        """What to call it; "" for this machine."""

    @property
    def limiter(self) -> HeadsLimiter: ...

    async def hire(self, setup: Setup) -> WorkerLink:
        """Start a worker and wait until there is room for it. Raises WorkerLost where it dies of that."""

    async def gone(self) -> str:
        """Wait until nobody can be hired any more because the cluster itself has ended; say what is missing of it."""


async def run_campaign_on(cluster: Cluster, plan: Plan, environ: Mapping[str, str], events: Events) -> None:
    """`campaign.run_campaign` on a cluster: the same files, and the same errors."""
    async with stoppable() as stopper:
        crowd = Crowd()
        await until_free(plan.systems.values(), events)
        with opened_runs(plan, events, also=crowd.census) as files:
            places = list(files.values())
            pieces = campaign.pieces_of(plan, files, again=_begun(places))
            budget = budget_of(plan, files, events)
            head = _head(cluster, plan.config, places, [pieces], campaign.trade_of(plan), budget, events)
            await crowd.led(head, cluster, stopper)


async def run_judging_on(
    cluster: Cluster, plan: JudgePlan, environ: Mapping[str, str], events: Events
) -> None:
    """`rejudge.run_judging` on a cluster: the same files, and the same errors."""
    async with stoppable() as stopper:
        crowd = Crowd()
        await until_free([journal.parent for journal in plan.journals], events)
        with opened_verdicts(plan, events, also=crowd.census) as files:
            made = judging.JudgingPieces(plan, files, events, again=_begun(files))
            budget = judging_budget_of(plan, events)
            trade = judging.trade_of(plan)
            head = _head(cluster, plan.config, files, made.streams(), trade, budget, events, parts=made.part)
            await crowd.led(head, cluster, stopper)


class Crowd:
    """The head at work, and afterwards what a session's note tells of its workers."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._alone: RunStopped | None = None
        """That the cluster has ended."""

    async def led(self, head: Head, cluster: Cluster, stopper: Stopper) -> None:
        """Have it all done. Raises what Head.run does."""
        self._head = head
        stopper.watch(head)
        failure: Exception | None = None
        async with anyio.create_task_group() as beside:
            beside.start_soon(cluster.limiter.keep, head.roster)
            with anyio.CancelScope() as at_work:
                beside.start_soon(self._end_with, cluster, head, at_work)
                try:
                    await head.run()
                except Exception as raised:
                    failure = raised  # raised again outside, so that the task group does not wrap it
            beside.cancel_scope.cancel()
        if reason := failure or (self._alone if at_work.cancelled_caught else None):
            raise reason

    async def _end_with(self, cluster: Cluster, head: Head, at_work: anyio.CancelScope) -> None:
        """When the cluster has ended, have those finish who still can."""
        missing = await cluster.gone()
        self._alone = RunStopped(
            f"Ray has ended: {missing} does not answer; nothing is lost, the same command resumes"
        )
        head.stop(self._alone)
        await anyio.sleep(FINISH_S)
        at_work.cancel()

    def census(self) -> Mapping[str, Any]:
        return census(self._head.members) if self._head else {}


def _head(
    cluster: Cluster,
    config: RunConfig | JudgeConfig,
    places: Sequence[RunFiles],
    streams: Sequence[Iterator[Piece]],
    trade: Trade,
    budget: Budget | None,
    events: Events,
    *,
    parts: Callable[[int], Any] = lambda number: None,
) -> Head:
    return Head(
        places,
        streams,
        trade,
        cluster.hire,
        workers=cluster.workers,
        events=events,
        parts=parts,
        seed=config.seed,
        sync=config.sync,
        budget=config.budget if budget else None,
        purse=Purse(budget.lines, budget.spent, events) if budget else None,
        gone=cluster.limiter.gone,
        address=cluster.address,
    )


def _begun(places: Sequence[RunFiles]) -> bool:
    """Whether steps of earlier sessions are on record."""
    return any(len(files.journal) for files in places)
