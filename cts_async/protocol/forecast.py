"""What a run will take, before it is started: calls, tokens, dollars, and time under each account's limits.

Pure: prompts are rendered as they will be sent, over instances of the real data; what only a run can tell (how
long replies are, how many turns a search takes) is assumed, each assumption is said, and what the run's own files
show already takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean
from typing import Any

from cts_async.engine.run_dir import read_manifest
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.messages import Message
from cts_async.llm.model import prices_of
from cts_async.llm.tokens import FIRST_PER_BYTE, PER_MESSAGE, input_tokens
from cts_async.protocol.crew import enough_in_flight
from cts_async.protocol.judge import nuggets_by_call
from cts_async.protocol.observed import Observed, Seen, pooled
from cts_async.protocol.plan import Plan
from cts_async.protocol.rewrite import qa_pairs
from cts_async.protocol.systems import System
from cts_async.protocol.views import RewriterView
from cts_async.protocol.visit import page_tokens
from cts_async.records import Instance, language_of
from cts_async.search.catalog import EngineSpec, ReaderSpec

SAMPLE = 200
"""Instances whose prompts are rendered, evenly over the data."""

QUESTION, ANSWER, REWRITE = 25.0, 10.0, 40.0
TURN, FINAL = 250.0, 500.0
PER_NUGGET, AROUND = 12.0, 10.0
"""Tokens of a reply: a question, an answer to it, a rewritten query; a thought with its tool call, the agent's
answer; a nugget's label, and the JSON around a list."""
PAGE, EVIDENCE = 4000.0, 350.0
"""Tokens of a page that a model reads for a goal, and of what it says about it."""
SENDING_S, TOKENS_PER_S = 1.0, 50.0
"""A call takes so long, and longer by its reply at so many tokens a second."""
LINK_CHARS, VISIT_CHARS = 80, 300
"""Characters around a result's snippet, and around a page's evidence."""
FEWEST_TURNS = 4
"""Turns that a search takes at least, as far as it may: half of those allowed, where that is more."""
FEWEST_STEPS = 3
"""Steps of a kind that have to be seen before they stand for the others."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Calls, tokens and dollars. Unless `priced`, some model's price is unknown: then it costs more than that."""

    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost_usd: float = 0.0
    priced: bool = True

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
            self.priced and other.priced,
        )

    def times(self, n: float) -> Effort:
        """The same, `n` times over."""
        tokens = self.input_tokens * n, self.output_tokens * n
        return Effort(self.calls * n, *tokens, self.cost_usd * n, self.priced)

    @property
    def tokens(self) -> float:
        return self.input_tokens + self.output_tokens

    def as_json(self) -> dict[str, Any]:
        """Whole calls and tokens; `cost_usd` is None unless all of it is known."""
        return {
            "calls": round(self.calls),
            "input_tokens": round(self.input_tokens),
            "output_tokens": round(self.output_tokens),
            "cost_usd": round(self.cost_usd, 6) if self.priced else None,
            "known_cost_usd": round(self.cost_usd, 6),
        }


def effort_of(spec: ModelSpec, calls: float, input_tokens: float, output_tokens: float) -> Effort:
    """What so many calls and tokens of one model come to."""
    prices = prices_of(spec)
    if prices is None:
        return Effort(calls, input_tokens, output_tokens, priced=False)
    cost = input_tokens * prices.input_usd_per_mtok + output_tokens * prices.output_usd_per_mtok
    return Effort(calls, input_tokens, output_tokens, cost / 1e6)


@dataclass(frozen=True, slots=True)
class Work:
    """The steps of one kind that one system has one model do."""

    system: str
    kind: str
    model: str
    steps: float
    """Of all instances that are left."""
    each: Effort
    """What one step takes."""
    latency_s: float
    in_a_row: float
    """How many of them an instance waits for, one after the other."""
    observed: int = 0
    """Steps that this was observed in; 0 where it is assumed."""

    @property
    def effort(self) -> Effort:
        return self.each.times(self.steps)


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
        return _sum(self.work)

    def of(self, system: str) -> Effort:
        """One system's share."""
        return _sum(work for work in self.work if work.system == system)

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
    seen = pooled(runs.values())
    turns = _turns(plan, runs.values())
    work = [
        _informed(plan, work, left[system], seen, runs.get(system))
        for system in plan.systems
        for work in _assumed(plan, system, sample, turns)
    ]
    walks = {system: _walk_s(work, system) for system in plan.systems if left[system]}
    width = plan.config.in_flight or enough_in_flight(spec.max_concurrency for spec in _players(plan))
    return Forecast(
        work=tuple(work),
        lanes=(*_lanes(plan, work), *_tool_lanes(plan, sum(left.values()) * _visited(turns))),
        left={system.label: n for system, n in left.items()},
        chain_s=max(walks.values(), default=0.0),
        in_flight=width,
        in_flight_s=sum(walk_s * left[system] for system, walk_s in walks.items()) / width,
        unpriced=tuple(spec.name for spec in _players(plan) if prices_of(spec) is None),
        assumptions=tuple(_said(plan, len(sample), turns, work)),
    )


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


def _sum(work: Iterable[Work]) -> Effort:
    return sum((one.effort for one in work), Effort())


def _players(plan: Plan) -> list[ModelSpec]:
    """The models that some role is played by, in the plan's order."""
    names = {name for system in plan.systems for name in plan.players(system).values()}
    return [spec for name, spec in plan.specs.items() if name in names]


# --- What is known: the data


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


# --- What is assumed


def _turns(plan: Plan, runs: Iterable[Observed]) -> float:
    """Model calls of a search: as seen, else half of those allowed, or a few where only a few are."""
    runs = list(runs)
    searches, turns = sum(run.searches for run in runs), sum(run.turns for run in runs)
    return turns / searches if searches >= FEWEST_STEPS else _usual_turns(plan.settings.max_turns)


def _usual_turns(allowed: int) -> int:
    return max(ceil(allowed / 2), min(allowed, FEWEST_TURNS))


def _assumed(plan: Plan, system: System, sample: list[Instance], turns: float) -> list[Work]:
    """The system's steps over one instance, as they are on average over the sample."""
    players = plan.players(system)
    work = []
    if system.kind == "clarify":
        k = system.k
        clarifier, support = players["clarifier"], players["support"]
        asks = [_prompt(plan, clarifier, "clarify", i, blurred_query=i.blurred_query, k=k) for i in sample]
        work.append(_work(plan, system, "clarify", clarifier, asks, k * QUESTION + AROUND))
        asks = [_answer_prompt(plan, support, i) for i in sample]
        work.append(replace(_work(plan, system, "answer", support, asks, ANSWER), steps=k))
        asks = [_rewrite_prompt(plan, support, i, k) for i in sample]
        work.append(_work(plan, system, "rewrite", support, asks, REWRITE))
    work.append(_search(plan, system, players["agent"], sample, turns))
    if "visit" in players:
        work.append(_visits(plan, system, players["visit"], sample, turns))
    for role, name in players.items():
        if role.startswith("judge "):
            asks = [tokens for instance in sample for tokens in _judge_prompts(plan, name, instance)]
            n_nuggets = sum(len(instance.nuggets) for instance in sample)
            output = n_nuggets / max(1, len(asks)) * PER_NUGGET + AROUND
            one = _work(plan, system, "judge", name, asks, output)
            work.append(replace(one, steps=len(asks) / max(1, len(sample))))
    return work


def _work(plan: Plan, system: System, kind: str, model: str, input_means: list[float], output: float) -> Work:
    each = effort_of(plan.specs[model], 1.0, _mean(input_means), output)
    return Work(system.label, kind, model, 1.0, each, SENDING_S + output / TOKENS_PER_S, in_a_row=1.0)


def _search(plan: Plan, system: System, model: str, sample: list[Instance], turns: float) -> Work:
    """A call of the agent: each reads again what all turns before it said and were given."""
    turn, final = _agent_tokens(plan)
    inputs = []
    for instance in sample:
        query = instance.blurred_query if system.kind == "orig" else instance.fused_query
        opening = _prompt(
            plan,
            model,
            "agent",
            instance,
            language_from=query,
            question=query,
            current_date=plan.current_date,
        )
        per_turn = turn + _tool_chars(plan) * _per_char(query) + 2 * PER_MESSAGE
        inputs.append(opening + per_turn * (turns - 1) / 2)
    output = (turn * (turns - 1) + final) / turns
    work = _work(plan, system, "search", model, inputs, output)
    return replace(work, steps=turns, in_a_row=turns)


def _visits(plan: Plan, system: System, model: str, sample: list[Instance], turns: float) -> Work:
    """Pages that a model reads: one for every other call of a tool."""
    page = min(PAGE, page_tokens(plan.specs[model]))
    asks = []
    for instance in sample:
        query = instance.blurred_query
        fields = {"goal": query, "page": _filler(page, query)}
        asks.append(_prompt(plan, model, "visit", instance, **fields))
    work = _work(plan, system, "visit", model, asks, EVIDENCE)
    return replace(work, steps=_visited(turns), in_a_row=_visited(turns))


def _visited(turns: float) -> float:
    """Pages that a search visits, and as many queries: every turn but the last calls a tool."""
    return (turns - 1) / 2


def _agent_tokens(plan: Plan) -> tuple[float, float]:
    """Tokens of a turn and of the answer; a constrained model's are bounded by its settings."""
    if plan.specs[plan.roles.agent].structured != "llama":
        return TURN, FINAL
    settings = plan.settings
    per_char = FIRST_PER_BYTE
    return (
        settings.think_chars * per_char + AROUND * 2,
        (settings.think_chars + settings.answer_chars) * per_char + AROUND,
    )


def _tool_chars(plan: Plan) -> float:
    """Characters that a tool gives back: half the calls search one query, the others visit one page."""
    settings = plan.settings
    found = settings.results_per_query * (settings.snippet_chars + LINK_CHARS)
    return (found + settings.page_chars + VISIT_CHARS) / 2


# --- Prompts as they will be sent


def _prompt(
    plan: Plan, model: str, name: str, instance: Instance, *, language_from: str = "", **fields: object
) -> float:
    """Tokens of a role's prompt, rendered."""
    language = language_of(language_from or instance.blurred_query)
    prompt = plan.prompts.get(name, language, plan.specs[model].prompt_size)
    messages: tuple[Message, ...] = prompt.render(**fields)
    return input_tokens(messages)


def _answer_prompt(plan: Plan, model: str, instance: Instance) -> float:
    intent = instance.fused_query
    question = _filler(QUESTION, intent)
    fields = {"clear_query": intent, "clarification_question": question}
    return _prompt(plan, model, "answer", instance, language_from=intent, **fields)


def _rewrite_prompt(plan: Plan, model: str, instance: Instance, k: int) -> float:
    query = instance.blurred_query
    pairs = ((_filler(QUESTION, query), _filler(ANSWER, query)),) * k
    told = qa_pairs(RewriterView(query, pairs), language_of(query))
    return _prompt(plan, model, "rewrite", instance, blurred_query=query, qa_pairs=told)


def _judge_prompts(plan: Plan, model: str, instance: Instance) -> list[float]:
    """Tokens of each call that one answer takes."""
    intent = instance.fused_query
    answer = _filler(_agent_tokens(plan)[1], intent)
    return [
        _prompt(
            plan,
            model,
            "judge",
            instance,
            language_from=intent,
            query=intent,
            nuggets=nuggets,
            candidate_answer=answer,
        )
        for nuggets in nuggets_by_call(instance.nuggets, plan.specs[model].judge_nuggets)
    ]


def _filler(tokens: float, like: str) -> str:
    """Text of so many tokens in the language of `like`."""
    letter = "字" if language_of(like) == "zh" else "x"
    return letter * round(tokens / _per_char(like))


def _per_char(like: str) -> float:
    return FIRST_PER_BYTE * (3 if language_of(like) == "zh" else 1)


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return fmean(known) if known else 0.0


# --- What the run itself shows


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


def _lanes(plan: Plan, work: Iterable[Work]) -> Iterable[LaneForecast]:
    accounts: dict[str, list[ModelSpec]] = {}
    for spec in _players(plan):
        accounts.setdefault(spec.account, []).append(spec)
    for specs in accounts.values():
        names = tuple(spec.name for spec in specs)
        own = [one for one in work if one.model in names]
        yield LaneForecast(names[0], names, _sum(own), under_limits(specs[0], own))


def _tool_lanes(plan: Plan, calls: float) -> Iterable[LaneForecast]:
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
    effort = _sum(work)
    busy_s = sum(one.effort.calls * one.latency_s for one in work)
    under = {"concurrency": busy_s / spec.max_concurrency}
    if spec.requests_per_min:
        under["requests/min"] = effort.calls / spec.requests_per_min * 60
    if spec.tokens_per_min:
        under["tokens/min"] = effort.tokens / spec.tokens_per_min * 60
    return under


# --- Said in words


def _said(plan: Plan, sampled: int, turns: float, work: Iterable[Work]) -> Iterable[str]:
    work = list(work)
    yield (
        f"prompts: rendered over {sampled} of {plan.n_instances} instances, {FIRST_PER_BYTE:g} tokens a byte "
        f"and {PER_MESSAGE:g} a message"
    )
    turn, final = _agent_tokens(plan)
    yield (
        f"replies in tokens: {QUESTION:g} a question, {ANSWER:g} an answer, {REWRITE:g} a rewritten query, "
        f"{turn:g} a turn of the agent, {final:g} its answer, {PER_NUGGET:g} a nugget judged; no hidden reasoning"
    )
    yield (
        f"a search: {turns:.3g} of {plan.settings.max_turns} model calls allowed, each tool "
        f"gives back {_tool_chars(plan):,.0f} characters, and every later turn reads them again"
    )
    if plan.roles.visit:
        page = min(PAGE, page_tokens(plan.specs[plan.roles.visit]))
        yield (
            f"every other tool call visits one page: {plan.roles.visit} reads {page:,.0f} tokens of it and says "
            f"{EVIDENCE:g}"
        )
    yield f"a call: {SENDING_S:g} s and its reply at {TOKENS_PER_S:g} tokens a second; none fails"
    shown = {(one.kind, one.model): one.observed for one in work if one.observed}
    if shown:
        seen = ", ".join(f"{kind} by {model} ({n} steps)" for (kind, model), n in shown.items())
        yield f"seen in this run, in place of the above: {seen}"
