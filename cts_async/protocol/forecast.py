"""Forecasts of what a run or judging will take: calls, tokens, dollars, and time under each account's limits.

A run's forecast uses `estimates`, and `past_usage` where the run has some already. That of judging renders prompts over
an even sample of the real answers; existing verdicts are subtracted, and repeated questions count once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from statistics import fmean
from typing import Any

from cts_async.engine.run_dir import read_manifest
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.messages import input_tokens
from cts_async.llm.model import prices_of
from cts_async.protocol.answers import Judging
from cts_async.protocol.estimates import (
    AROUND,
    FEWEST_STEPS,
    PER_NUGGET,
    SENDING_S,
    TOKENS_PER_S,
    Effort,
    Work,
    assumptions_of,
    effort_of,
    estimate,
    total_of,
    turns_of,
    visited,
)
from cts_async.protocol.judge import nuggets_by_call
from cts_async.protocol.judge_plan import JudgePlan, Target
from cts_async.protocol.past_usage import Observed, Seen, pooled
from cts_async.protocol.plan import Plan
from cts_async.protocol.resources import enough_in_flight
from cts_async.protocol.results import HASHES, LatestLines, judged_mark
from cts_async.protocol.run_files import PER_ITEM, judgments_path
from cts_async.protocol.systems import System
from cts_async.records import Instance, language_of
from cts_async.search.catalog import EngineSpec, ReaderSpec

SAMPLE = 200
"""Instances whose prompts are rendered, spread evenly over the data."""
BY_SCHEME = ("clarify", "answer")
"""Kinds of steps whose length depends on scheme and mode."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The work left of a plan, and a lower bound of its time."""

    work: tuple[Work, ...]
    lanes: tuple[LaneForecast, ...]
    left: Mapping[str, int]
    """Unfinished instances, by system label."""
    chain_s: float
    """The longest time of one instance by itself, in seconds."""
    in_flight: int
    in_flight_s: float
    """The time of all instances, `in_flight` at a time, in seconds."""
    unpriced: tuple[str, ...]
    """Models whose price is unknown."""
    assumptions: tuple[str, ...]

    @property
    def total(self) -> Effort:
        return total_of(self.work)

    def of(self, system: str) -> Effort:
        """The effort of one system."""
        return total_of(work for work in self.work if work.system == system)

    @property
    def time_s(self) -> float:
        return max(self._times().values())

    @property
    def binding(self) -> str:
        """The limit that determines the time: "ernie: requests/min", "one instance's walk", "24 instances in flight"."""
        times = self._times()
        return max(times, key=lambda bound: times[bound])

    def _times(self) -> dict[str, float]:
        times = {f"{lane.name}: {lane.binding}": lane.time_s for lane in self.lanes}
        times[f"{self.in_flight} instances in flight"] = self.in_flight_s
        return {**times, "one instance's walk": self.chain_s}


def forecast(plan: Plan, runs: Mapping[System, Observed] | None = None) -> Forecast:
    """The forecast of what `plan` has left after `runs`, with their observed averages; without them, of all of it."""
    runs = runs or {}
    sample, left = _read(plan, {system: run.done for system, run in runs.items()})
    turns = turns_of(plan, runs.values())
    work = [
        _informed(plan, work, left[system], seen, runs.get(system))
        for system in plan.systems
        for seen in [_shown(system, runs)]
        for work in estimate(plan, system, sample, turns)
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
        assumptions=(*assumptions_of(plan, len(sample), turns, work), *_people_assumption(plan)),
    )


def _people_assumption(plan: Plan) -> Iterable[str]:
    if plan.people is not None:
        yield f"answers: people's, from {plan.dataset.name}; no calls"


def actual(plan: Plan, runs: Iterable[Observed]) -> Effort:
    """The effort of the runs so far."""
    by_model = {spec.model: spec for spec in plan.specs.values()}
    efforts = [
        effort_of(by_model[model], seen.calls, seen.input_tokens, seen.output_tokens)
        for run in runs
        for (_, model), seen in run.seen.items()
        if model in by_model
    ]
    return sum(efforts, Effort())


def note(plan: Plan, planned: Forecast, system: System) -> dict[str, Any]:
    """One system's forecast for its manifest: that of the first session, or a new one if instances were added."""
    before = (read_manifest(plan.systems[system]) or {}).get("forecast")
    if isinstance(before, dict) and int(before.get("instances", 0)) >= plan.n_instances:
        return before
    effort = planned.of(system.label).as_json()
    return {"instances": plan.n_instances, **effort, "time_s": round(planned.time_s, 1)}


def _players(plan: Plan) -> list[ModelSpec]:
    """The models that play a role, in the plan's order."""
    names = {name for system in plan.systems for name in plan.players(system).values()}
    return [spec for name, spec in plan.specs.items() if name in names]


def _read(plan: Plan, done: Mapping[System, set[str]]) -> tuple[list[Instance], dict[System, int]]:
    """An even sample of the instances, and the number of unfinished ones by system."""
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
    """Past usage that applies to a system: kinds that depend on scheme and mode only from runs with the same."""
    own = [run for of, run in runs.items() if (of.scheme, of.mode) == (system.scheme, system.mode)]
    shared = {key: seen for key, seen in pooled(runs.values()).items() if key[0] not in BY_SCHEME}
    return shared | {key: seen for key, seen in pooled(own).items() if key[0] in BY_SCHEME}


def _informed(
    plan: Plan, work: Work, left: int, seen: Mapping[tuple[str, str], Seen], run: Observed | None
) -> Work:
    """The work on all unfinished instances, with observed averages if there are enough observations."""
    spec = plan.specs[work.model]
    key = work.kind, spec.model
    steps = work.steps * left
    if run is not None:
        steps = max(0.0, steps - run.begun[key])
    shown = seen.get(key)
    if shown is None or shown.steps < FEWEST_STEPS:
        return replace(work, steps=steps)
    n = shown.steps
    has_usage = shown.input_tokens > 0  # some servers report none
    input, output = (
        (shown.input_tokens / n, shown.output_tokens / n)
        if has_usage
        else (work.each.input_tokens, work.each.output_tokens)
    )
    each = effort_of(spec, shown.calls / n, input, output)
    return replace(work, steps=steps, each=each, latency_s=shown.latency_s / n, observed=n)


def _walk_s(work: Iterable[Work], system: System) -> float:
    """Seconds of one instance; several judges work concurrently."""
    own = [one for one in work if one.system == system.label]
    judging = max((one.latency_s for one in own if one.kind == "judge"), default=0.0)
    return judging + sum(one.latency_s * one.in_a_row for one in own if one.kind != "judge")


# --- Time under each account's limits


@dataclass(frozen=True, slots=True)
class LaneForecast:
    """One provider account: its effort, and the time under each of its limits."""

    name: str
    models: tuple[str, ...]
    effort: Effort
    under: Mapping[str, float]
    """Seconds by limit: "requests/min", "tokens/min", "concurrency"; only existing limits."""

    @property
    def binding(self) -> str:
        return max(self.under, key=lambda limit: self.under[limit])

    @property
    def time_s(self) -> float:
        return self.under[self.binding]


def model_lanes(players: Iterable[ModelSpec], work: Iterable[Work]) -> Iterable[LaneForecast]:
    """The forecast of each account of the models."""
    work = list(work)
    accounts: dict[str, list[ModelSpec]] = {}
    for spec in players:
        accounts.setdefault(spec.account, []).append(spec)
    for specs in accounts.values():
        names = tuple(spec.name for spec in specs)
        own = [one for one in work if one.model in names]
        yield LaneForecast(names[0], names, total_of(own), under_limits(specs[0], own))


def tool_lanes(plan: Plan, calls: float) -> Iterable[LaneForecast]:
    """The forecast of the accounts of search engine and page reader; their prices are unknown."""
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
    """Seconds under each limit of an account; the limits are those of its first model."""
    effort = total_of(work)
    busy_s = sum(one.effort.calls * one.latency_s for one in work)
    under = {"concurrency": busy_s / spec.max_concurrency}
    if spec.requests_per_min:
        under["requests/min"] = effort.calls / spec.requests_per_min * 60
    if spec.tokens_per_min:
        under["tokens/min"] = effort.tokens / spec.tokens_per_min * 60
    return under


# --- Judging


@dataclass(frozen=True, slots=True)
class JudgeForecast:
    """The work that one judge has left."""

    judge: str
    n_left: int
    """Answers without a verdict of this judge."""
    n_questions: int
    """Distinct questions among them that it has not answered for another answer."""
    work: Work


@dataclass(frozen=True, slots=True)
class JudgingForecast:
    """The forecast of all model judges, and of their accounts."""

    judges: tuple[JudgeForecast, ...]
    lanes: tuple[LaneForecast, ...]

    @property
    def total(self) -> Effort:
        return sum((one.work.effort for one in self.judges), Effort())

    @property
    def time_s(self) -> float:
        """Accounts work concurrently: the slowest counts."""
        return max((lane.time_s for lane in self.lanes), default=0.0)


def forecast_judging(plan: JudgePlan) -> JudgingForecast:
    """Forecast judging from the answers and the existing verdicts; starts and writes nothing."""
    judges = tuple(_of_judge(plan, name, spec) for name, spec in plan.specs.items())
    accounts: dict[str, list[JudgeForecast]] = {}
    for one in judges:
        accounts.setdefault(plan.specs[one.judge].account, []).append(one)
    lanes = tuple(_lane(plan.specs[own[0].judge], own) for own in accounts.values())
    return JudgingForecast(judges, lanes)


def _of_judge(plan: JudgePlan, judge: str, spec: ModelSpec) -> JudgeForecast:
    every = max(1, ceil(plan.n_answers / SAMPLE))
    found = _Left()
    for target in plan.targets:
        wanted = _wanted(plan, judge, target)
        for judging in target.answers.stream(_all):
            if judging.failure is None:
                found.take(judging, left=wanted(judging), sampled_every=every)
    n_questions, calls = found.questions(spec.judge_nuggets)
    prompts = [tokens for judging in found.sample for tokens in _prompts(plan, spec, judging)]
    nuggets = sum(len(judging.instance.nuggets) for judging in found.sample)
    output = nuggets / max(1, len(prompts)) * PER_NUGGET + AROUND
    each = effort_of(spec, 1.0, fmean(prompts) if prompts else 0.0, output)
    work = Work("", "judge", judge, calls, each, SENDING_S + output / TOKENS_PER_S, in_a_row=1.0)
    return JudgeForecast(judge, len(found.left), n_questions, work)


class _Left:
    """Digests of answers with and without a verdict, and a sample of the latter."""

    def __init__(self) -> None:
        self.left, self.done, self.n_nuggets = array(HASHES), array(HASHES), array("I")
        self.sample: list[Judging] = []

    def take(self, judging: Judging, *, left: bool, sampled_every: int) -> None:
        if not left:
            self.done.append(judging.digest)
            return
        if len(self.left) % sampled_every == 0:
            self.sample.append(judging)
        self.left.append(judging.digest)
        self.n_nuggets.append(len(judging.instance.nuggets))

    def questions(self, per_call: int) -> tuple[int, int]:
        """Distinct questions without a verdict, and the calls that they take."""
        import numpy as np

        digests, first = np.unique(np.array(self.left, np.int64), return_index=True)
        new = first[~np.isin(digests, np.array(self.done, np.int64))]
        n_nuggets = np.array(self.n_nuggets, np.int64)[new]
        return len(new), int((-(-n_nuggets // per_call)).sum())


def _all(id: str) -> bool:
    return True


def _wanted(plan: JudgePlan, judge: str, target: Target) -> Callable[[Judging], bool]:
    """Whether an answer still has to be judged, by the rules of `rejudge`."""
    further = target.scoring != judge
    path = judgments_path(target.directory, judge) if further else target.directory / PER_ITEM
    return partial(_needs, LatestLines(path, judged_mark), again=further or plan.config.retry_failed)


def _needs(lines: LatestLines, judging: Judging, *, again: bool) -> bool:
    known = lines.failed(judging.instance.id)
    return known is None or (known and again) or lines.outdated(judging.instance.id, judging.mark)


def _prompts(plan: JudgePlan, spec: ModelSpec, judging: Judging) -> list[float]:
    """Tokens of each call that judging an answer takes."""
    instance = judging.instance
    prompt = plan.prompts.get("judge", language_of(instance.fused_query), spec.prompt_size)
    texts = nuggets_by_call(instance.nuggets, spec.judge_nuggets)
    return [
        input_tokens(prompt.render(query=instance.fused_query, nuggets=text, candidate_answer=judging.answer))
        for text in texts
    ]


def _lane(spec: ModelSpec, own: list[JudgeForecast]) -> LaneForecast:
    work = [one.work for one in own]
    effort = sum((one.effort for one in work), Effort())
    return LaneForecast(spec.name, tuple(one.judge for one in own), effort, under_limits(spec, work))
