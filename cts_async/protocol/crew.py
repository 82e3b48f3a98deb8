"""Everything a run talks to, opened together and closed together: models, lanes, tools, prompts.

Models that share an account share a lane. An embedded model's server runs only while a crew is open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from cts_async.engine.events import Events
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.processes import allow_more_files
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.client import Client
from cts_async.llm.local import serving
from cts_async.llm.model import Model, ServedModels
from cts_async.protocol.judge import LEXICAL, Judge, LexicalJudge, ModelJudge
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.role import Role

EMBEDDED_OUTAGE_S = 20.0
"""A server of our own that is gone does not come back: no use waiting long for it."""


LaneOf = Callable[[str, str, LaneLimits], Lane]
"""Makes the lane of an account, by account, name and limits."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Models by the name they were asked for, each bound to its account's lane.

    Others that send something over a network get their lanes here too, so that one engine drives them all.
    """

    prompts: PromptSet
    models: Mapping[str, Model]
    environ: Mapping[str, str]
    events: Events
    max_outage_s: float
    accounts: dict[str, Lane] = field(default_factory=dict)
    """Lanes by account."""
    lane_of: LaneOf | None = None
    """Who makes lanes; None: each account is this process's alone."""

    @property
    def lanes(self) -> Sequence[Lane]:
        return tuple(self.accounts.values())

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        """The lane of `account`, made with `name` and `limits` if there is none yet."""
        if account not in self.accounts:
            shared = self.lane_of and self.lane_of(account, name, limits)
            self.accounts[account] = shared or Lane(name, limits, self.events)
        return self.accounts[account]

    def role(self, name: str) -> Role:
        return Role(self.models[name], self.prompts)

    def judge(self, name: str) -> Judge:
        return LexicalJudge() if name == LEXICAL else ModelJudge(name, self.role(name))


@asynccontextmanager
async def opened(
    specs: Mapping[str, ModelSpec],
    prompts: PromptSet,
    environ: Mapping[str, str],
    events: Events,
    *,
    max_outage_s: float,
    lane_of: LaneOf | None = None,
) -> AsyncIterator[Crew]:
    """Start what has to be started and give the crew. Raises UsageError where the embedded model is missing or a
    proxy cannot be used.

    `lane_of` makes the lanes of accounts that other processes use, too; an embedded model is this process's own.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(environ))
        served = ServedModels(events)
        models: dict[str, Model] = {}
        crew = Crew(prompts, models, environ, events, max_outage_s, lane_of=lane_of)
        for name, spec in specs.items():
            ready = await stack.enter_async_context(serving(spec, environ)) if spec.embedded else spec
            client.proxy(ready)  # one that cannot be used is an error now, not at the first call
            limits = _limits(spec, max_outage_s)
            if spec.embedded:
                crew.accounts.setdefault(spec.account, Lane(name, limits, events))
            lane = crew.lane(spec.account, name, limits)
            models[name] = Model(ready, client, lane, served)
        allow_more_files(sum(lane.limits.max_concurrency for lane in crew.lanes))
        yield crew


def enough_in_flight(widths: Iterable[int]) -> int:
    """Instances that keep lanes of these widths busy while others of theirs wait, few enough to finish steadily."""
    widest = max(widths, default=1)
    return max(4, min(1024, widest + widest // 2))


def instances_in_flight(crew: Crew) -> int:
    """Enough for the lanes of the crew's models; what tools allow makes no more instances useful."""
    return enough_in_flight(model.lane.limits.max_concurrency for model in crew.models.values())


def prices_of(specs: Iterable[ModelSpec]) -> dict[str, dict[str, float | None]]:
    """Dollars per million tokens, by model id, as a manifest records them."""
    return {
        spec.model: {"input": spec.input_usd_per_mtok, "output": spec.output_usd_per_mtok} for spec in specs
    }


def _limits(spec: ModelSpec, max_outage_s: float) -> LaneLimits:
    return LaneLimits(
        requests_per_min=spec.requests_per_min,
        tokens_per_min=spec.tokens_per_min,
        max_concurrency=spec.max_concurrency,
        kind=spec.limit,
        window_s=spec.window_s,
        raisable=not spec.limits_fixed,
        max_outage_s=min(max_outage_s, EMBEDDED_OUTAGE_S) if spec.embedded else max_outage_s,
    )
