"""What a run will take, before it is started: calls, tokens, dollars, and time under each account's limits.

Pure: what `assumed` tells of a system's steps is taken, and what the run's own files show already takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from cts_async.engine.run_dir import read_manifest
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import prices_of
from cts_async.protocol.assumed import assumed, said, turns_of, visited
from cts_async.protocol.crew import enough_in_flight
from cts_async.protocol.effort import FEWEST_STEPS, Effort, Work, effort_of, total_of
from cts_async.protocol.lane_forecast import LaneForecast, model_lanes, tool_lanes
from cts_async.protocol.observed import Observed, Seen, pooled
from cts_async.protocol.plan import Plan
from cts_async.protocol.systems import System
from cts_async.records import Instance

SAMPLE = 200
"""Instances whose prompts are rendered, evenly over the data."""
BY_SCHEME = ("clarify", "answer")
"""Steps whose prompts and replies depend on scheme and mode."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is left to do of a plan, and how long it takes at least."""

    work: tuple[Work, ...]
    lanes: tuple[LaneForecast, ...]
    left: Mapping[str, int]
    """Instances that need work, by system."""
    chain_s: float
    """The longest walk of one instance, with nothing in its way."""
    in_flight: int
    in_flight_s: float
    """All walks, that many at a time."""
    unpriced: tuple[str, ...]
    """Models whose price is unknown."""
    assumptions: tuple[str, ...]

    @property
    def total(self) -> Effort:
        return total_of(self.work)

    def of(self, system: str) -> Effort:
        """One system's share."""
        return total_of(work for work in self.work if work.system == system)

    @property
    def time_s(self) -> float:
        return max(self._times().values())

    @property
    def binding(self) -> str:
        """What the time comes from: "ernie: requests/min", "one instance's walk", "24 instances in flight"."""
        times = self._times()
        return max(times, key=lambda bound: times[bound])

    def _times(self) -> dict[str, float]:
        times = {f"{lane.name}: {lane.binding}": lane.time_s for lane in self.lanes}
        times[f"{self.in_flight} instances in flight"] = self.in_flight_s
        return {**times, "one instance's walk": self.chain_s}


def forecast(plan: Plan, runs: Mapping[System, Observed] | None = None) -> Forecast:
    """What is left of `plan` after what `runs` have done, judged by what they show; without them, all of it."""
    runs = runs or {}
    sample, left = _read(plan, {system: run.done for system, run in runs.items()})
    turns = turns_of(plan, runs.values())
    work = [
        _informed(plan, work, left[system], seen, runs.get(system))
        for system in plan.systems
        for seen in [_shown(system, runs)]
        for work in assumed(plan, system, sample, turns)
        if plan.people is None or work.kind != "answer"
    ]
    walks = {system: _walk_s(work, system) for system in plan.systems if left[system]}
    width = plan.config.in_flight or enough_in_flight(spec.max_concurrency for spec in _players(plan))
    return Forecast(
        work=tuple(work),
        lanes=(*model_lanes(_players(plan), work), *tool_lanes(plan, sum(left.values()) * visited(turns))),
        left={system.label: n for system, n in left.items()},
        chain_s=max(walks.values(), default=0.0),
        in_flight=width,
        in_flight_s=sum(walk_s * left[system] for system, walk_s in walks.items()) / width,
        unpriced=tuple(spec.name for spec in _players(plan) if prices_of(spec) is None),
        assumptions=(*said(plan, len(sample), turns, work), *_said_of_people(plan)),
    )


def _said_of_people(plan: Plan) -> Iterable[str]:
    if plan.people is not None:
        yield f"answers: people's, from {plan.dataset.name}; no calls"


def actual(plan: Plan, runs: Iterable[Observed]) -> Effort:
    """What the runs took so far."""
    by_model = {spec.model: spec for spec in plan.specs.values()}
    efforts = [
        effort_of(by_model[model], seen.calls, seen.input_tokens, seen.output_tokens)
        for run in runs
        for (_, model), seen in run.seen.items()
        if model in by_model
    ]
    return sum(efforts, Effort())


def note(plan: Plan, planned: Forecast, system: System) -> dict[str, Any]:
    """One system's forecast as its manifest keeps it: made at the start, or when instances were added."""
    before = (read_manifest(plan.systems[system]) or {}).get("forecast")
    if isinstance(before, dict) and int(before.get("instances", 0)) >= plan.n_instances:
        return before
    effort = planned.of(system.label).as_json()
    return {"instances": plan.n_instances, **effort, "time_s": round(planned.time_s, 1)}


def _players(plan: Plan) -> list[ModelSpec]:
    """The models that some role is played by, in the plan's order."""
    names = {name for system in plan.systems for name in plan.players(system).values()}
    return [spec for name, spec in plan.specs.items() if name in names]


def _read(plan: Plan, done: Mapping[System, set[str]]) -> tuple[list[Instance], dict[System, int]]:
    """An even sample of the instances, and how many are left for each system."""
    every = max(1, ceil(plan.n_instances / SAMPLE))
    sample: list[Instance] = []
    left = dict.fromkeys(plan.systems, 0)
    for i, instance in enumerate(plan.instances()):
        if i % every == 0:
            sample.append(instance)
        for system in plan.systems:
            left[system] += instance.id not in done.get(system, ())
    return sample, left


def _shown(system: System, runs: Mapping[System, Observed]) -> dict[tuple[str, str], Seen]:
    """What the runs show of a system's steps: of those that scheme and mode make longer, only runs of its own."""
    own = [run for of, run in runs.items() if (of.scheme, of.mode) == (system.scheme, system.mode)]
    shared = {key: seen for key, seen in pooled(runs.values()).items() if key[0] not in BY_SCHEME}
    return shared | {key: seen for key, seen in pooled(own).items() if key[0] in BY_SCHEME}


def _informed(
    plan: Plan, work: Work, left: int, seen: Mapping[tuple[str, str], Seen], run: Observed | None
) -> Work:
    """The work on all instances that are left, by what was seen of it if that is enough."""
    spec = plan.specs[work.model]
    key = work.kind, spec.model
    steps = work.steps * left
    if run is not None:
        steps = max(0.0, steps - run.begun[key])
    shown = seen.get(key)
    if shown is None or shown.steps < FEWEST_STEPS:
        return replace(work, steps=steps)
    n = shown.steps
    told = shown.input_tokens > 0  # else the server tells no usage
    input, output = (
        (shown.input_tokens / n, shown.output_tokens / n)
        if told
        else (work.each.input_tokens, work.each.output_tokens)
    )
    each = effort_of(spec, shown.calls / n, input, output)
    return replace(work, steps=steps, each=each, latency_s=shown.latency_s / n, observed=n)


def _walk_s(work: Iterable[Work], system: System) -> float:
    """Seconds of one instance's walk; several judges judge side by side."""
    own = [one for one in work if one.system == system.label]
    judging = max((one.latency_s for one in own if one.kind == "judge"), default=0.0)
    return judging + sum(one.latency_s * one.in_a_row for one in own if one.kind != "judge")
