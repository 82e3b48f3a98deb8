"""How long the accounts take for what is asked of them, under each of their limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cts_async.llm.catalog import ModelSpec
from cts_async.protocol.effort import SENDING_S, Effort, Work, total_of
from cts_async.protocol.plan import Plan
from cts_async.search.backends.base import EngineSpec, ReaderSpec


@dataclass(frozen=True, slots=True)
class LaneForecast:
    """One provider account: what is asked of it, and how long that takes under each of its limits."""

    name: str
    models: tuple[str, ...]
    effort: Effort
    under: Mapping[str, float]
    """Seconds by limit: "requests/min", "tokens/min", "concurrency"; only limits that there are."""

    @property
    def binding(self) -> str:
        return max(self.under, key=lambda limit: self.under[limit])

    @property
    def time_s(self) -> float:
        return self.under[self.binding]


def model_lanes(players: Iterable[ModelSpec], work: Iterable[Work]) -> Iterable[LaneForecast]:
    """Each account of these models."""
    work = list(work)
    accounts: dict[str, list[ModelSpec]] = {}
    for spec in players:
        accounts.setdefault(spec.account, []).append(spec)
    for specs in accounts.values():
        names = tuple(spec.name for spec in specs)
        own = [one for one in work if one.model in names]
        yield LaneForecast(names[0], names, total_of(own), under_limits(specs[0], own))


def tool_lanes(plan: Plan, calls: float) -> Iterable[LaneForecast]:
    """What is asked of the accounts of search engine and page reader; what that costs nobody here knows."""
    accounts: dict[str, list[EngineSpec | ReaderSpec]] = {}
    for spec in plan.search.opened:
        accounts.setdefault(spec.account, []).append(spec)
    for specs in accounts.values():
        total = calls * len(specs)
        under = {"concurrency": total * SENDING_S / specs[0].max_concurrency}
        if specs[0].requests_per_min:
            under["requests/min"] = total / specs[0].requests_per_min * 60
        names = tuple(spec.name for spec in specs)
        yield LaneForecast(names[0], names, Effort(total, priced=False), under)


def under_limits(spec: ModelSpec, work: list[Work]) -> dict[str, float]:
    """Seconds under each limit of an account; they are those of its first model."""
    effort = total_of(work)
    busy_s = sum(one.effort.calls * one.latency_s for one in work)
    under = {"concurrency": busy_s / spec.max_concurrency}
    if spec.requests_per_min:
        under["requests/min"] = effort.calls / spec.requests_per_min * 60
    if spec.tokens_per_min:
        under["tokens/min"] = effort.tokens / spec.tokens_per_min * 60
    return under
