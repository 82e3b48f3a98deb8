"""Forecasts of what a run or judging will take: calls, tokens, dollars, and time under each account's limits.

Prompts are rendered over a sample of the real instances or answers. Only a run can show how long replies are and how
many turns a search takes: here they are constants, which `Forecast.assumptions` lists, until a run of the same plan has
measured them, or the run that it is a new version of (`read_past_usage`). Work that is done already is subtracted, and
so are the steps that a dry walk has found in other runs (`dry_walk`). Nothing is started or written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from math import ceil
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

from cts_async.engine.journal import read_records
from cts_async.engine.prices import CACHE_WRITE, CACHED, INPUT, OUTPUT, Prices, cost_terms
from cts_async.llm.catalog import BATCH, ModelSpec
from cts_async.llm.model import (
    FIRST_PER_BYTE,
    PER_MESSAGE,
    dearest_prices,
    input_tokens,
    model_prices,
    unpriced_models,
)
from cts_async.protocol.batching import has_batches
from cts_async.protocol.conversation import (
    QUERIES_OFFERED,
    conversation_text,
    numbered_queries,
    offering_of,
)
from cts_async.protocol.found_steps import ASK, DryWalk, kind_of_step
from cts_async.protocol.judge import nuggets_by_call
from cts_async.protocol.plan import Plan, enough_in_flight
from cts_async.protocol.prompts import FIELDS, JUDGE_PROMPTS, PromptSet
from cts_async.protocol.roles import page_tokens, qa_pairs
from cts_async.protocol.systems import System, manifest_prices
from cts_async.protocol.views import Conversation, Exchange, RewriterView
from cts_async.records import JUDGING, Instance, JudgeForm, language_of, stated_answer
from cts_async.runs.files import RESULTS, STEPS
from cts_async.runs.manifest import read_manifest
from cts_async.runs.results import answered, failed, read_results
from cts_async.search.catalog import EngineSpec, ReaderSpec
from cts_async.search.toolbox.ask import TOOL as ASK_TOOL

SAMPLE = 200
"""Instances whose prompts are rendered, spread evenly over the data."""
# Estimates, not measurements: hosted models differ widely, and a run's own averages replace them.
SENDING_S, TOKENS_PER_S = 1.0, 50.0
"""Latency of a call without its reply, in seconds, and the tokens of its reply per second."""
FEWEST_STEPS = 3
"""Finished steps of a kind from which on their averages replace the estimates."""
BY_SCHEME = ("clarify", "answer", ASK)
"""Kinds of steps whose length depends on scheme, mode and the Clarifier's prompts, or on how the user has to reply."""

QUESTION, ANSWER, REWRITE = 25.0, 10.0, 40.0
REASONING, OFFER, CHOICE = 80.0, 15.0, 8.0
"""Tokens of a reply: a question, an answer, a rewritten query; a scheme's reasoning, a reformulated query on offer, the
number of the chosen one."""
TURN, FINAL, PER_NUGGET = 250.0, 500.0, 12.0
"""Tokens of a reply: a turn of the agent (thought and tool call), its answer; the label of a nugget."""
AROUND = 10.0
"""Tokens of the JSON syntax around a list."""
PAGE, EVIDENCE = 4000.0, 350.0
"""Tokens of a page that a model reads for a goal, and of its reply."""
FEWEST_TURNS = 4
"""The assumed minimum of turns per search, if so many are allowed; half of those allowed, if that is more."""


NO_PARTS: Final[Mapping[str, float]] = {}


@dataclass(frozen=True, slots=True)
class Effort:
    """Calls, tokens and dollars. Unless `priced`, some cost is unknown and `cost_usd` is a lower bound."""

    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost_usd: float = 0.0
    priced: bool = True
    all_counted: bool = True
    """False if some replies named no tokens: those here are of the others."""

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
            self.priced and other.priced,
            self.all_counted and other.all_counted,
        )

    def times(self, n: float) -> Effort:
        """This effort, `n` times."""
        tokens = self.input_tokens * n, self.output_tokens * n
        return Effort(self.calls * n, *tokens, self.cost_usd * n, self.priced, self.all_counted)

    @property
    def tokens(self) -> float:
        return self.input_tokens + self.output_tokens

    def as_json(self) -> dict[str, Any]:
        """Rounded calls and tokens; `cost_usd` is None if any of the cost is unknown."""
        return {
            "calls": round(self.calls),
            "input_tokens": round(self.input_tokens),
            "output_tokens": round(self.output_tokens),
            "cost_usd": round(self.cost_usd, 6) if self.priced else None,
            "known_cost_usd": round(self.cost_usd, 6),
        }


def effort_of(
    spec: ModelSpec,
    calls: float,
    input_tokens: float,
    output_tokens: float,
    parts: Mapping[str, float] = NO_PARTS,
) -> Effort:
    """The effort of so many calls and tokens of one model, in the tier in which it is asked.

    `parts` are those of the tokens with other prices: "cached", "cache_write" (see `engine.prices`).
    """
    prices = model_prices(spec)
    if prices is None:
        return Effort(calls, input_tokens, output_tokens, priced=False)
    cost = _usd_of(prices, input_tokens, output_tokens, parts)
    if spec.asked_tier is not None:
        cost *= spec.asked_tier.price
    return Effort(calls, input_tokens, output_tokens, cost)


def effort_used(spec: ModelSpec, usage: StepUsage) -> Effort:
    """The effort of what was used, each token at the price of the tier in which it was charged."""
    all_counted = usage.n_without_usage == 0
    cost = 0.0
    prices = model_prices(spec)
    if prices is not None:
        cost = _usd_of(prices, usage.input_tokens, usage.output_tokens, usage.parts)
    # Where tokens cost nothing, it does not matter how many they were.
    priced = prices is not None and (all_counted or spec.is_free)
    return Effort(usage.calls, usage.input_tokens, usage.output_tokens, cost, priced, all_counted)


def _usd_of(prices: Prices, input_tokens: float, output_tokens: float, parts: Mapping[str, float]) -> float:
    """Dollars of tokens; `parts` are those with prices of their own, by kind."""
    if not parts:
        cost = input_tokens * prices.input_usd_per_mtok + output_tokens * prices.output_usd_per_mtok
        return cost / 1e6
    return sum(cost_terms({INPUT: input_tokens, OUTPUT: output_tokens, **parts}, prices.by_kind))


@dataclass(frozen=True, slots=True)
class StepsForecast:
    """The steps of one kind that a model does for a system."""

    system: str
    kind: str
    model: str
    steps: float
    """Number of steps, over all instances that are left."""
    each: Effort
    """The effort of one step."""
    latency_s: float
    in_a_row: float
    """How many of them are sequential within one instance."""
    observed: int = 0
    """Finished steps behind these numbers; 0: estimated."""

    @property
    def effort(self) -> Effort:
        return self.each.times(self.steps)


def total_of(work: Iterable[StepsForecast]) -> Effort:
    """The sum of all efforts."""
    total = Effort()
    for steps in work:
        total += steps.effort
    return total


# --- The same work, asked live, in cheaper tiers, and by batches

Way = Literal["live", "cheap", "batch"]
IN_BATCHES: Final = ("judge", "gold")
"""Kinds of steps that can be asked by batches: nothing waits for their replies."""


@dataclass(frozen=True, slots=True)
class WayForecast:
    """What some work costs if its models are asked in one way; a model that cannot be is asked live."""

    way: Way
    effort: Effort
    tiers: Mapping[str, str]
    """The tier in which each model is asked, by name; without those that are asked live."""
    waits: tuple[str, ...]
    """What a reply waits for, as the catalogue says it."""


def ways_to_ask(
    specs: Mapping[str, ModelSpec], work: Sequence[StepsForecast], besides: Effort
) -> tuple[WayForecast, ...]:
    """The cost of the work asked live, then of the ways that would be cheaper; `besides` is added to each.

    By batches only steps of the kinds IN_BATCHES are asked.
    """
    live = _way(specs, work, besides, "live")
    ways = [live]
    for way in ("cheap", "batch"):
        cheaper = _way(specs, work, besides, way)
        if cheaper.tiers:
            ways.append(cheaper)
    return tuple(ways)


def in_batches(specs: Mapping[str, ModelSpec], work: Iterable[StepsForecast]) -> list[StepsForecast]:
    """The work at the price of batches, where it is asked by these."""
    priced: list[StepsForecast] = []
    for steps in work:
        spec = specs[steps.model]
        if steps.kind in IN_BATCHES and has_batches(spec):
            each = replace(steps.each, cost_usd=steps.each.cost_usd * spec.tiers[BATCH].price)
            steps = replace(steps, each=each)
        priced.append(steps)
    return priced


def _way(
    specs: Mapping[str, ModelSpec], work: Sequence[StepsForecast], besides: Effort, way: Way
) -> WayForecast:
    total = besides
    tiers: dict[str, str] = {}
    waits: dict[str, None] = {}
    for steps in work:
        spec = specs[steps.model]
        tier_name = ""
        if way == "cheap":
            tier_name = spec.tier or spec.cheap_tier
        elif way == "batch" and steps.kind in IN_BATCHES and has_batches(spec):
            tier_name = BATCH
        factor = 1.0
        if tier_name and steps.steps:
            tier = spec.tiers[tier_name]
            factor = tier.price
            tiers[steps.model] = tier_name
            waits[tier.waits or "not known"] = None
        # The forecast is that of the tier in which the plan asks.
        if spec.asked_tier is not None:
            factor /= spec.asked_tier.price
        effort = steps.effort
        total += replace(effort, cost_usd=effort.cost_usd * factor)
    return WayForecast(way, total, tiers, tuple(waits))


# --- What a run has used so far, from its files, which may not exist yet or may be growing


@dataclass(slots=True)
class StepUsage:
    """Sums over the steps of one kind with one model. Tokens and calls include those of failed attempts."""

    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    latency_s: float = 0.0
    parts: Counter[str] = field(default_factory=Counter)
    """Those of the tokens that have prices of their own, by kind as in the journal: "cached", "input@flex"."""
    n_without_usage: int = 0
    """Those of the steps whose reply named no tokens."""

    def add(self, usage: StepUsage) -> None:
        self.parts.update(usage.parts)
        self.steps += usage.steps
        self.n_without_usage += usage.n_without_usage
        self.calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.latency_s += usage.latency_s


Usages = dict[tuple[str, str], StepUsage]
"""Usage by kind of step and model id."""


@dataclass(slots=True)
class PastUsage:
    """The usage of one system's run; empty without a run."""

    usages: Usages = field(default_factory=dict)
    searches: int = 0
    turns: int = 0
    """Model calls of all these searches."""
    done: set[str] = field(default_factory=set)
    """Instances that need no more work."""
    begun: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Finished steps of unfinished instances, by kind and model id."""
    reused: Usages = field(default_factory=dict)
    """The usage of steps that were taken from other runs, which paid for it."""
    forecast: Mapping[str, Any] | None = None
    """The forecast that the manifest records."""
    wall_s: float = 0.0


def read_past_usage(directory: Path, judges: Iterable[str], *, retry_failed: bool = False) -> PastUsage:
    """Read the run in `directory`; of the judging steps only those of `judges` count."""
    past = PastUsage()
    manifest = read_manifest(directory)
    if manifest is None:
        return past
    past.forecast = manifest.forecast
    past.wall_s = manifest.wall_s
    # Model calls of each instance's search; None for a failure without an answer.
    turns_by_id: dict[str, int | None] = {}
    for line in read_results(directory / RESULTS):
        turns_by_id[line["id"]] = None
        if answered(line) or not failed(line):
            search = line.get("search")
            calls = search.get("model_calls") if isinstance(search, dict) else None
            turns_by_id[line["id"]] = calls if isinstance(calls, int) else 0
    for id, turns in turns_by_id.items():
        if turns is not None:
            past.searches += 1
            past.turns += turns
        if turns is not None or not retry_failed:
            past.done.add(id)
    judging_steps = {f"{JUDGING}{judge}" for judge in judges}
    for record in read_records(directory / STEPS):
        step = str(record.get("step"))
        if "model" not in record or (step.startswith(JUDGING) and step not in judging_steps):
            continue
        kind = kind_of_step(step)
        if step.startswith(JUDGING):
            kind = "judge"
        key = kind, str(record["model"])
        tokens, succeeded = record.get("usage") or {}, bool(record.get("ok"))
        usages = past.usages
        if "reused" in record:
            usages = past.reused
        usage = usages.setdefault(key, StepUsage())
        usage.calls += int(record.get("attempts", 1))
        usage.input_tokens += int(tokens.get("input", 0))
        usage.output_tokens += int(tokens.get("output", 0))
        if len(tokens) > 2:
            for kind, n_tokens in tokens.items():
                if kind not in (INPUT, OUTPUT):
                    usage.parts[kind] += int(n_tokens)
        usage.latency_s += float(record.get("latency_s", 0.0))
        if succeeded:
            usage.steps += 1
            usage.n_without_usage += not tokens
            # What a finished instance took is no part of the work that is left.
            if record.get("instance") not in past.done:
                past.begun[key] += 1
    return past


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run whose averages stand for those of a run that is yet to be made."""

    name: str
    usage: PastUsage


def measured_runs(plan: Plan, walks: Mapping[System, DryWalk]) -> dict[System, MeasuredRun]:
    """For each system without a run of these settings the run that it comes from: the version before it, or the run in
    the folder that most of its steps would be taken from.
    """
    folder, measured = plan.config.runs_dir, dict[System, MeasuredRun]()
    for system, version in plan.versions.items():
        if not version.is_new:
            continue
        name = version.changed_from
        if not name and system in walks:
            name = walks[system].main_origin
        directory = folder / name
        if not name or not directory.is_dir():
            continue
        measured[system] = MeasuredRun(directory.name, read_past_usage(directory, plan.roles.judges))
    return measured


def planned_effort(plan: Plan, run: PastUsage, work: Iterable[StepsForecast]) -> tuple[Effort, float] | None:
    """The forecast that a run's manifest records, without the steps that were reused: they were not paid for, and stand
    in no comparison with what was. Effort and seconds; None without a forecast.

    `work` is the forecast of all steps of its system. Of each kind the planned steps count as far as the run executed
    those that it has.
    """
    note = run.forecast
    if not note:
        return None
    recorded = Effort(
        float(note["calls"] or 0),
        float(note["input_tokens"] or 0),
        float(note["output_tokens"] or 0),
        float(note["known_cost_usd"] or 0),
        note["cost_usd"] is not None,
    )
    whole, executed = Effort(), Effort()
    for steps in work:
        key = steps.kind, plan.specs[steps.model].model
        n_executed = run.usages[key].steps if key in run.usages else 0
        n_reused = run.reused[key].steps if key in run.reused else 0
        share = 1.0
        if n_reused:
            share = n_executed / (n_executed + n_reused)
        whole += steps.effort
        executed += steps.effort.times(share)
    effort = Effort(
        recorded.calls * _ratio(executed.calls, whole.calls),
        recorded.input_tokens * _ratio(executed.input_tokens, whole.input_tokens),
        recorded.output_tokens * _ratio(executed.output_tokens, whole.output_tokens),
        recorded.cost_usd * _ratio(executed.cost_usd, whole.cost_usd),
        recorded.priced,
    )
    return effort, float(note["time_s"] or 0) * _ratio(executed.calls, whole.calls)


def _ratio(part: float, whole: float) -> float:
    if not whole:
        return 1.0
    return part / whole


def actual(plan: Plan, runs: Iterable[PastUsage]) -> Effort:
    """The effort of the runs so far."""
    specs, total = plan.specs_by_model, Effort()
    for run in runs:
        for (_, model), usage in run.usages.items():
            if model in specs:
                total += effort_used(specs[model], usage)
    return total


# --- Estimates of one instance's steps: prompts rendered over a sample, and assumed replies


@dataclass(frozen=True, slots=True)
class _Estimates:
    """Estimates for one plan; `usual_turns` are the model calls of a search."""

    plan: Plan
    sample: list[Instance]
    usual_turns: float

    def turns(self, system: System) -> float:
        """Model calls of a search of a system."""
        if system.asks is not None and not self.plan.toolbox.tools:
            return 1.0 + system.asks.max_asks
        return self.usual_turns

    def asks(self, system: System) -> float:
        """The agent's questions to the user in a search: as many as are allowed, each in a turn of its own."""
        if system.asks is None:
            return 0.0
        # Code of the user's has turns of another kind.
        if self.plan.roles.agent not in self.plan.specs:
            return float(system.asks.max_asks)
        return min(float(system.asks.max_asks), self.turns(system) - 1)

    def tool_calls(self, system: System) -> float:
        """The agent's searches and visits: the last turn answers, all others call a tool."""
        return self.turns(system) - 1 - self.asks(system)

    def of(self, system: System) -> Iterator[StepsForecast]:
        """All steps of a system that models take, per instance, averaged over the sample."""
        for prompt, model in self.plan.prompted(system):
            if model not in self.plan.specs or prompt == "gold":
                continue
            if prompt == "answer_yes_no" or (prompt == "answer" and system.kind == "ask"):
                continue  # `_replies`
            if prompt == "agent":
                yield self._search(system, model)
            elif prompt == "visit":
                yield self._visits(system, model)
            elif prompt in JUDGE_PROMPTS.values():
                yield self._judging(system, model)
            else:
                yield self._before_search(prompt, system, model)
        user = self.plan.roles.supporters[0]
        if system.asks is not None and user in self.plan.specs:
            yield self._replies(system, user)

    def _replies(self, system: System, model: str) -> StepsForecast:
        """The user's replies to the agent."""
        prompt, asks = "answer", self.asks(system)
        if system.asks is not None and system.asks.replies == "yes-no":
            prompt = "answer_yes_no"
        inputs = []
        for instance in self.sample:
            inputs.append(self._prompt_tokens(model, prompt, instance, _fields(system, instance, 1, 0)))
        effort, latency_s = step_of(self.plan.specs[model], inputs, ANSWER)
        return StepsForecast(system.label, ASK, model, asks, effort, latency_s, asks)

    def _before_search(self, prompt: str, system: System, model: str) -> StepsForecast:
        """A step of clarifying or answering; prompts within a conversation are averaged over its turns."""
        k = system.k
        turns, n_offered, offer = k, 1, QUESTION
        if system.mode == "at-once":
            turns, n_offered = 1, k
        elif system.mode == "select":
            n_offered, offer = QUERIES_OFFERED, OFFER
        kind, reply, steps, in_a_row = "clarify", AROUND + n_offered * offer, turns, turns
        # Each step is asked with the conversation of so many turns before it.
        histories = range(turns)
        if system.scheme in ("cot", "at-cot"):
            reply += REASONING
        if system.scheme == "at-cot":  # the ambiguity types are a list of their own
            reply += AROUND
        if prompt == "answer":
            kind, reply, steps, in_a_row = "answer", ANSWER, k, 1
        elif prompt == "rewrite":
            kind, reply, steps, in_a_row = "rewrite", REWRITE, 1, 1
        elif prompt == "respond":
            kind, reply, steps, in_a_row = "answer", ANSWER, k, k
        elif prompt == "reformulate":
            kind, reply, steps, in_a_row = "reformulate", REWRITE, 1, 1
            histories = range(k, k + 1)
        elif prompt == "select_query":
            kind, reply, steps, in_a_row = "select", CHOICE, k, k
        inputs = []
        for instance, history in product(self.sample, histories):
            fields = _fields(system, instance, n_offered, history)
            inputs.append(self._prompt_tokens(model, prompt, instance, fields))
        effort, latency_s = step_of(self.plan.specs[model], inputs, reply)
        return StepsForecast(system.label, kind, model, steps, effort, latency_s, in_a_row)

    def _search(self, system: System, model: str) -> StepsForecast:
        """The agent's calls: each one reads all earlier turns and tool results again."""
        plan, turns = self.plan, self.turns(system)
        turn, final = _agent_tokens(plan)
        # Replies are much shorter than pages and results.
        asks, tool_calls = self.asks(system), self.tool_calls(system)
        response_chars = _response_chars(plan)
        if asks:
            asks_chars = asks * ASK_TOOL.response_chars(plan.settings)
            response_chars = (asks_chars + tool_calls * response_chars) / (asks + tool_calls)
        inputs = []
        for instance in self.sample:
            query = instance.intent
            # What was elicited is learned during the search, if it is.
            if system.kind in ("orig", "ask") or system.inject_at is not None:
                query = instance.query
            prompt = (
                plan.prompt_set(system)
                .of(model)
                .agent(plan.agent_prompt, query, plan.specs[model].prompt_size)
            )
            # Each turn reads all before it again: on average half of those there will be.
            opening = input_tokens(prompt.render(question=query, current_date=plan.current_date))
            per_turn = turn + response_chars * _per_char(query) + 2 * PER_MESSAGE
            inputs.append(opening + per_turn * (turns - 1) / 2)
        reply = (turn * (turns - 1) + final) / turns
        effort, latency_s = step_of(plan.specs[model], inputs, reply)
        return StepsForecast(system.label, "search", model, turns, effort, latency_s, turns)

    def _visits(self, system: System, model: str) -> StepsForecast:
        """Pages that a model reads: one for each visit."""
        spec, visits = self.plan.specs[model], self.tool_calls(system) * self.plan.toolbox.share("visit")
        page = min(PAGE, page_tokens(spec, whole=self.plan.settings.whole_pages) or PAGE)
        inputs = []
        for instance in self.sample:
            fields = {"goal": instance.query, "page": _filler(page, instance.query)}
            inputs.append(self._prompt_tokens(model, "visit", instance, fields))
        return StepsForecast(system.label, "visit", model, visits, *step_of(spec, inputs, EVIDENCE), visits)

    def _judging(self, system: System, judge: str) -> StepsForecast:
        final = _agent_tokens(self.plan)[1]
        answers = [(instance, _filler(final, instance.intent)) for instance in self.sample]
        spec = self.plan.specs[judge]
        inputs, reply = judge_tokens(self.plan.prompts.of(judge), spec, answers, self.plan.judge_form)
        calls = len(inputs) / max(1, len(answers))
        return StepsForecast(system.label, "judge", judge, calls, *step_of(spec, inputs, reply), 1.0)

    def _prompt_tokens(
        self, model: str, prompt: str, instance: Instance, values: Mapping[str, object]
    ) -> float:
        """Tokens of a prompt; one with the intent is written in its language, any other in the language of q."""
        names = FIELDS[prompt]
        language = language_of(instance.intent if "clear_query" in names else instance.query)
        prompts, size = self.plan.prompts.of(model), self.plan.specs[model].prompt_size
        rendered = prompts.get(prompt, language, size)
        return input_tokens(rendered.render(**{name: values[name] for name in names}))


def step_of(spec: ModelSpec, inputs: Sequence[float], output: float) -> tuple[Effort, float]:
    """Effort and latency of a step: `inputs` are tokens of prompts over a sample, `output` those of a reply."""
    # Without instances that are left there is no sample.
    mean_input = fmean(inputs) if inputs else 0.0
    return effort_of(spec, 1.0, mean_input, output), SENDING_S + output / TOKENS_PER_S


def _fields(system: System, instance: Instance, offered: int, turns: int) -> dict[str, object]:
    """Everything that prompts before the search may contain, with a conversation of so many turns."""
    query, intent = instance.query, instance.intent
    language = language_of(query)
    question, answer, offer = _filler(QUESTION, query), _filler(ANSWER, query), _filler(OFFER, query)
    exchange = Exchange((question,), answer)
    if system.mode == "select":
        exchange = Exchange((offer,) * QUERIES_OFFERED, offer)
    conversation = Conversation(query, (exchange,) * turns)
    return {
        "blurred_query": query,
        "k": offered,
        "clear_query": intent,
        "clarification_question": _filler(QUESTION, intent),
        "qa_pairs": qa_pairs(RewriterView(query, ((question, answer),) * system.k), language),
        "conversation": conversation_text(conversation, offering_of(system.mode), language),
        "offered_queries": numbered_queries((offer,) * QUERIES_OFFERED),
    }


def _filler(tokens: float, like: str) -> str:
    """A text of about so many tokens in the language of `like`."""
    letter = "字" if language_of(like) == "zh" else "x"
    return letter * round(tokens / _per_char(like))


def _per_char(like: str) -> float:
    """Tokens per character in the language of `like`."""
    # A Chinese character has three bytes in UTF-8.
    return FIRST_PER_BYTE * (3 if language_of(like) == "zh" else 1)


def _agent_tokens(plan: Plan) -> tuple[float, float]:
    """Tokens of a turn and of the answer; those of a grammar-constrained model are bounded by its settings."""
    agent = plan.specs.get(plan.roles.agent)
    if agent is None or agent.structured != "llama":
        return TURN, FINAL
    think, answer = plan.settings.think_chars * FIRST_PER_BYTE, plan.settings.answer_chars * FIRST_PER_BYTE
    return think + AROUND * 2, think + answer + AROUND


def _response_chars(plan: Plan) -> float:
    """Characters of an average tool response."""
    settings = plan.settings
    if plan.roles.visit is None:
        # By words alone a page's passages are cut in every mode.
        settings = replace(settings, whole_evidence=False)
    return plan.toolbox.response_chars(settings)


def judge_tokens(
    prompts: PromptSet,
    spec: ModelSpec,
    answers: Iterable[tuple[Instance, str]],
    form: JudgeForm = "nuggets",
) -> tuple[list[float], float]:
    """Tokens of the prompt of each call that judging some answers takes, and of a reply."""
    inputs: list[float] = []
    n_nuggets = 0
    for instance, answer in answers:
        query = instance.judged_by
        n_nuggets += len(instance.nuggets)
        prompt = prompts.get(JUDGE_PROMPTS[form], language_of(query), spec.prompt_size)
        if form == "match":
            for nugget in instance.nuggets:
                correct = stated_answer(nugget)
                messages = prompt.render(query=query, correct_answer=correct, candidate_answer=answer)
                inputs.append(input_tokens(messages))
            continue
        for nuggets in nuggets_by_call(instance.nuggets, spec.judge_nuggets):
            messages = prompt.render(query=query, nuggets=nuggets, candidate_answer=answer)
            inputs.append(input_tokens(messages))
    return inputs, n_nuggets / max(1, len(inputs)) * PER_NUGGET + AROUND


def _assumptions(
    plan: Plan, sampled: int, turns: float, work: Iterable[StepsForecast], seen_in: Sequence[str]
) -> Iterator[str]:
    """The assumptions, and what was observed instead, for the user; prompts of `sampled` instances were rendered.

    Observed was what runs of these names took, or the plan's own.
    """
    yield (
        f"prompts: rendered over {sampled} of {plan.n_instances} instances, {FIRST_PER_BYTE:g} tokens a byte "
        f"and {PER_MESSAGE:g} a message"
    )
    turn, final = _agent_tokens(plan)
    replies = f"{QUESTION:g} a question, {ANSWER:g} an answer, {REWRITE:g} a rewritten query"
    if any(system.converses for system in plan.systems):
        replies += f", {REASONING:g} a scheme's reasoning, {OFFER:g} an offered query, {CHOICE:g} a choice"
    yield (
        f"replies in tokens: {replies}, {turn:g} a turn of the agent, {final:g} its answer, "
        f"{PER_NUGGET:g} a nugget judged; no hidden reasoning"
    )
    if plan.searches and plan.roles.agent in plan.specs and plan.toolbox.tools:
        yield (
            f"a search: {turns:.3g} of {plan.settings.max_turns} model calls allowed, each tool "
            f"gives back {_response_chars(plan):,.0f} characters, and every later turn reads them again"
        )
    asking = {plan.roles.agent, plan.roles.supporters[0]}
    if plan.config.asks_during_search and not asking.isdisjoint(plan.specs):
        yield (
            f"an agent that may ask the user does so as often as it may: at most {plan.config.max_asks} of its turns "
            "are questions, each with one call of the user"
        )
    if plan.searches and plan.roles.visit:
        often = "every other tool call" if plan.toolbox.share("visit") == 1 / 2 else "a visit"
        yield f"{often} visits one page, which {plan.roles.visit} reads in one call"
    if plan.searches and not plan.toolbox.tools:
        yield "the agent has no tools but for questions to the user, where it may ask"
    elif plan.searches and not plan.toolbox.is_default:
        calls = (turns - 1) / len(plan.toolbox.tools)
        yield f"tools: {', '.join(plan.toolbox.names)}, each called equally often: {calls:.3g} times a search"
    yield f"a call: {SENDING_S:g} s and its reply at {TOKENS_PER_S:g} tokens a second; none fails"
    tools = [spec.name for spec in plan.search.opened]
    if plan.searches and tools:
        yield f"each tool call is one request to {' or '.join(tools)}"
    measured: dict[str, int] = {}
    for steps in work:
        if steps.observed:
            measured[f"{steps.kind} by {steps.model}"] = steps.observed
    if measured:
        texts = [f"{text} ({n} steps)" for text, n in measured.items()]
        place = ", ".join(seen_in) or "this run"
        yield f"seen in {place}, in place of the above: {', '.join(texts)}"
    if plan.human_answers is not None:
        yield f"answers: people's, from {plan.dataset.name}; no calls"
    for given_texts in plan.given.values():
        yield f"{given_texts.kind}: given, from {given_texts.source}; no calls"
    if not plan.searches:
        yield f"stops after {plan.config.stop_after}: no search, no judges"


# --- The forecast of a run


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
        return max(self.under, key=self.under.__getitem__)

    @property
    def time_s(self) -> float:
        return self.under[self.binding]


@dataclass(frozen=True, slots=True)
class ReusedEffort:
    """Steps that are taken from other runs, the calls of models that they took there, and their known dollars."""

    steps: int = 0
    calls: int = 0
    priced_usd: float = 0.0
    priced: bool = True
    """Whether these are all their dollars."""

    def __add__(self, other: ReusedEffort) -> ReusedEffort:
        return ReusedEffort(
            self.steps + other.steps,
            self.calls + other.calls,
            self.priced_usd + other.priced_usd,
            self.priced and other.priced,
        )

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {"steps": self.steps, "calls": self.calls, "priced_usd": round(self.priced_usd, 6)}


def reused_effort(walk: DryWalk, specs: Iterable[ModelSpec]) -> ReusedEffort:
    """What a dry walk has found in other runs, at today's prices of these models."""
    priced_usd, unpriced = walk.reused.known_cost(manifest_prices(specs))
    return ReusedEffort(walk.reused.steps, walk.reused.calls, priced_usd, priced=not unpriced)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The work left of a plan, and a lower bound of its time."""

    work: tuple[StepsForecast, ...]
    lanes: tuple[LaneForecast, ...]
    left: Mapping[str, int]
    """Unfinished instances, by system label."""
    chain_s: float
    """The longest time of one instance by itself, in seconds."""
    in_flight: int
    in_flight_s: float
    """The time of all instances, `in_flight` at a time, in seconds."""
    binding: str
    """The limit that determines the time: "ernie: requests/min", "one instance's walk", "24 instances in flight"."""
    time_s: float
    unpriced: tuple[str, ...]
    """Models whose price is unknown."""
    assumptions: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Custom roles, as "label (role)": what they call comes on top."""

    tools: tuple[StepsForecast, ...] = ()
    """Queries of each search engine and pages of each reader."""
    reused: Mapping[str, ReusedEffort] = field(default_factory=dict)
    """What is taken from other runs, by system label: no part of the work."""
    changed_roles: tuple[str, ...] = ()
    """Custom roles of new versions, as in `unknown`, whose replies are known only once they are called: what follows
    from the same replies as before is reused beyond `reused`."""
    ways: tuple[WayForecast, ...] = ()
    """The work asked live, and in the ways that are cheaper."""

    @property
    def all_reused(self) -> ReusedEffort:
        """What all systems take from other runs."""
        total = ReusedEffort()
        for reused in self.reused.values():
            total += reused
        return total

    @property
    def total(self) -> Effort:
        """Calls and tokens of models, and the dollars of models, search engines and page readers."""
        # Requests are no calls of models: of tools only the dollars are added.
        tools = total_of(self.tools)
        return total_of(self.work) + Effort(cost_usd=tools.cost_usd, priced=tools.priced)

    @property
    def most_usd(self) -> float | None:
        """Dollars if each model without a price cost as much as the dearest of the catalogue.

        None if a search engine or page reader has no price: for requests there is no such bound.
        """
        for tool in self.tools:
            if tool.effort.calls and not tool.each.priced:
                return None
        _, dearest = dearest_prices()
        unpriced = total_of([steps for steps in self.work if not steps.each.priced])
        usd_per_million = (
            unpriced.input_tokens * dearest.input_usd_per_mtok
            + unpriced.output_tokens * dearest.output_usd_per_mtok
        )
        return self.total.cost_usd + usd_per_million / 1e6

    def of(self, system: str) -> Effort:
        """The effort of one system."""
        return total_of([steps for steps in self.work if steps.system == system])


def forecast(
    plan: Plan,
    runs: Mapping[System, PastUsage] | None = None,
    walks: Mapping[System, DryWalk] | None = None,
    measured: Mapping[System, MeasuredRun] | None = None,
) -> Forecast:
    """The forecast of what `plan` has left after `runs`; without them, of all of it.

    `walks` found what need not be called for. Observed averages are those of `runs` and of `measured`, the runs that
    systems without one of their own come from.
    """
    runs, walks, measured = runs or {}, walks or {}, measured or {}
    seen = {system: run for system, run in runs.items() if system not in measured}
    seen |= {system: run.usage for system, run in measured.items()}
    sample, n_unfinished = _sample(plan, {system: run.done for system, run in runs.items()})
    n_left: dict[System, int] = {}
    for system in plan.systems:
        n_left[system] = n_unfinished[system]
        if system in walks:
            n_left[system] = walks[system].progress.total()
    turns = _turns_of(plan, seen.values())
    estimates = _Estimates(plan, sample, turns)
    work: list[StepsForecast] = []
    chain_s = total_s = 0.0
    for system in plan.systems:
        usages = _usage_for(system, seen)
        each: list[StepsForecast] = []
        left: list[StepsForecast] = []
        for estimate in estimates.of(system):
            estimate = _with_past_usage(plan, estimate, usages)
            each.append(estimate)
            n_steps = _steps_left(plan, estimate, n_left[system], walks.get(system), runs.get(system))
            left.append(replace(estimate, steps=n_steps))
        work += left
        chain_s = max(chain_s, _instance_s([steps for steps in left if steps.steps]))
        total_s += _walks_s(each, left)
    names: set[str] = set()
    for system in plan.systems:
        names.update(plan.players(system).values())
    players = [spec for name, spec in plan.specs.items() if name in names]
    services, tool_work = _tool_work(plan, _tool_calls_left(plan, work, n_left, walks, estimates))
    lanes = tuple(chain(lanes_of(players, work), lanes_of(services, tool_work)))
    width = plan.config.in_flight or enough_in_flight(spec.max_concurrency for spec in players)
    in_flight_s = total_s / width
    bounds = [(lane.time_s, f"{lane.name}: {lane.binding}") for lane in lanes]
    bounds += [(in_flight_s, f"{width} instances in flight"), (chain_s, "one instance's walk")]
    time_s, binding = max(bounds, key=itemgetter(0))
    ways = ways_to_ask(plan.specs, work, replace(total_of(tool_work), calls=0.0))
    if plan.config.uses_batches:
        work = in_batches(plan.specs, work)
    unknown = []
    for label, roles in plan.custom.items():
        for role in roles:
            unknown.append(f"{label} ({role})")
    reused: dict[str, ReusedEffort] = {}
    for system, walk in walks.items():
        reused[system.label] = reused_effort(walk, plan.specs_by_model.values())
    seen_in = list(dict.fromkeys(run.name for run in measured.values()))
    return Forecast(
        work=tuple(work),
        lanes=lanes,
        left={system.label: n_instances for system, n_instances in n_left.items()},
        chain_s=chain_s,
        in_flight=width,
        in_flight_s=in_flight_s,
        binding=binding,
        time_s=time_s,
        unpriced=unpriced_models(players),
        assumptions=tuple(_assumptions(plan, len(sample), turns, work, seen_in)),
        tools=tuple(tool_work),
        unknown=tuple(unknown),
        reused=reused,
        changed_roles=tuple(_changed_roles(plan, walks)),
        ways=ways,
    )


_STEP_OF_ROLE: Mapping[str, str] = {
    "clarifier": "clarify",
    "answerer": "answer",
    "rewriter": "rewrite",
    "agent": "search",
}


def _changed_roles(plan: Plan, walks: Mapping[System, DryWalk]) -> Iterator[str]:
    """The custom roles at which the walks of new versions have ended, as "label (role)"."""
    missing: set[str] = set()
    players: set[str] = set()
    for system, walk in walks.items():
        version = plan.versions[system]
        if version.reuses and version.changed_from:
            players.update(plan.players(system).values())
            for progress in walk.progress:
                missing.update(progress.missing)
    for label, roles in plan.custom.items():
        for role in roles:
            if label in players and _STEP_OF_ROLE.get(role) in missing:
                yield f"{label} ({role})"


def _steps_left(
    plan: Plan, estimate: StepsForecast, n_left: int, walk: DryWalk | None, run: PastUsage | None
) -> float:
    """The steps of a kind that are left, of those that `estimate` has for each instance."""
    if walk is not None:
        kind = estimate.kind
        if kind == "judge":
            kind = f"{JUDGING}{estimate.model}"
        return sum(n * progress.steps_left(kind, estimate.steps) for progress, n in walk.progress.items())
    steps = estimate.steps * n_left
    if run is not None:
        # Instances that were interrupted have made some of their steps: these are remembered.
        steps = max(0.0, steps - run.begun[estimate.kind, plan.specs[estimate.model].model])
    return steps


def _tool_calls_left(
    plan: Plan,
    work: Iterable[StepsForecast],
    n_left: Mapping[System, int],
    walks: Mapping[System, DryWalk],
    estimates: _Estimates,
) -> float:
    """The searches and visits that are left: the last turn of a search answers, all others call a tool or ask."""
    n_calls = 0.0
    for system in plan.systems:
        if system not in walks:
            n_calls += n_left[system] * estimates.tool_calls(system)
            continue
        n_searches = walks[system].n_stopped_before_answer
        steps_left: defaultdict[str, float] = defaultdict(float)
        for steps in work:
            if steps.system == system.label:
                steps_left[steps.kind] += steps.steps
        n_calls += max(0.0, steps_left["search"] - n_searches - steps_left[ASK])
    return n_calls


def _tool_work(plan: Plan, n_calls: float) -> tuple[list[EngineSpec | ReaderSpec], list[StepsForecast]]:
    """The services that so many calls of tools take, and the requests to each; then the calls of tools without one."""
    specs: list[EngineSpec | ReaderSpec] = []
    work: list[StepsForecast] = []
    # An agent of the user's own uses the tools as it likes.
    if not plan.searches or plan.roles.agent not in plan.specs or not plan.toolbox.tools:
        return specs, work
    services = {"search": plan.search.engine, "visit": plan.search.reader}
    n_calls_each = n_calls / len(plan.toolbox.tools)
    for tool in plan.toolbox.tools:
        spec = services.get(tool.service)
        if spec is None:
            work.append(StepsForecast("", "tool", tool.name, n_calls_each, Effort(1.0), 0.0, 1.0))
        elif spec in plan.search.opened:
            specs.append(spec)
            request = _request_of(spec)
            work.append(StepsForecast("", "tool", spec.name, n_calls_each, request, SENDING_S, 1.0))
    return specs, work


def _request_of(spec: EngineSpec | ReaderSpec) -> Effort:
    """The effort of one query or page."""
    usd = spec.usd_per_request
    return Effort(1.0, cost_usd=usd or 0.0, priced=usd is not None)


def manifest_forecast(plan: Plan, planned: Forecast, system: System) -> Mapping[str, Any]:
    """One system's forecast for its manifest: that of the first session, or a new one if instances were added."""
    manifest = read_manifest(plan.systems[system])
    if manifest is not None and manifest.forecast is not None:
        n_instances = manifest.forecast.get("instances") or 0
        if int(n_instances) >= plan.n_instances:
            return manifest.forecast
    forecast: dict[str, Any] = {"instances": plan.n_instances}
    forecast |= planned.of(system.label).as_json()
    forecast["time_s"] = round(planned.time_s, 1)
    return forecast


def _sample(plan: Plan, done: Mapping[System, set[str]]) -> tuple[list[Instance], dict[System, int]]:
    """An even sample of the instances, and the number of unfinished ones by system."""
    sampled_every = max(1, ceil(plan.n_instances / SAMPLE))
    sample: list[Instance] = []
    n_left = dict.fromkeys(plan.systems, 0)
    for i, instance in enumerate(plan.instances()):
        if i % sampled_every == 0:
            sample.append(instance)
        for system in plan.systems:
            if instance.id not in done.get(system, ()):
                n_left[system] += 1
    return sample, n_left


def _turns_of(plan: Plan, runs: Iterable[PastUsage]) -> float:
    """Model calls of a search: as observed, else as assumed from the number allowed."""
    searches = turns = 0
    for run in runs:
        searches += run.searches
        turns += run.turns
    if searches >= FEWEST_STEPS:
        return turns / searches
    if not plan.toolbox.tools and not plan.config.asks_during_search:
        return 1.0  # it can do nothing but answer
    allowed = plan.settings.max_turns
    return max(ceil(allowed / 2), min(allowed, FEWEST_TURNS))


def _usage_for(system: System, runs: Mapping[System, PastUsage]) -> Usages:
    """Past usage that applies to a system: kinds that depend on how it asks only from runs that ask alike."""
    usages: defaultdict[tuple[str, str], StepUsage] = defaultdict(StepUsage)
    for run_system, run in runs.items():
        # The length of a question depends on neither the Clarifier nor the number of questions.
        asks_alike = replace(run_system, clarifier=system.clarifier, k=system.k, kind=system.kind) == system
        # What was taken from other runs was as long there.
        for (kind, model), usage in chain(run.usages.items(), run.reused.items()):
            if asks_alike or kind not in BY_SCHEME:
                usages[kind, model].add(usage)
    return usages


def _with_past_usage(plan: Plan, estimate: StepsForecast, usages: Usages) -> StepsForecast:
    """The estimate with observed averages if there are enough observations."""
    spec = plan.specs[estimate.model]
    usage = usages.get((estimate.kind, spec.model))
    if usage is None or usage.steps < FEWEST_STEPS:
        return estimate
    n = usage.steps
    tokens = estimate.each.input_tokens, estimate.each.output_tokens
    parts: dict[str, float] = {}
    # Some servers name no tokens, or not in every reply.
    n_counted = n - usage.n_without_usage
    if n_counted and usage.input_tokens:
        tokens = usage.input_tokens / n_counted, usage.output_tokens / n_counted
        # In whatever tier it was: what is to come is asked in that of the plan.
        for kind, n_tokens in usage.parts.items():
            if kind in (CACHED, CACHE_WRITE):
                parts[kind] = n_tokens / n_counted
    effort = effort_of(spec, usage.calls / n, *tokens, parts)
    return replace(estimate, each=effort, latency_s=usage.latency_s / n, observed=n)


def _instance_s(work: Iterable[StepsForecast]) -> float:
    """Seconds of one instance of a system; several judges work concurrently."""
    judging_s = walk_s = 0.0
    for steps in work:
        if steps.kind == "judge":  # several judges at once: the slowest counts
            judging_s = max(judging_s, steps.latency_s)
        else:
            walk_s += steps.latency_s * steps.in_a_row
    return judging_s + walk_s


def _walks_s(each: Iterable[StepsForecast], left: Iterable[StepsForecast]) -> float:
    """Seconds of all instances of a system one after the other; steps of one instance and those that are left."""
    judging_s = walks_s = 0.0
    for one_instance, steps in zip(each, left, strict=True):
        if not one_instance.steps:
            continue
        n_instances = steps.steps / one_instance.steps
        if steps.kind == "judge":
            judging_s = max(judging_s, steps.latency_s * n_instances)
        else:
            walks_s += steps.latency_s * steps.in_a_row * n_instances
    return judging_s + walks_s


def lanes_of(
    specs: Sequence[ModelSpec] | Sequence[EngineSpec | ReaderSpec], work: Sequence[StepsForecast]
) -> Iterator[LaneForecast]:
    """The forecast of each account of models or tools; its limits are those of its first one."""
    accounts: dict[str, list[ModelSpec | EngineSpec | ReaderSpec]] = {}
    for spec in specs:
        accounts.setdefault(spec.account, []).append(spec)
    for sharing in accounts.values():
        lane, names = sharing[0], tuple(spec.name for spec in sharing)
        lane_work = [steps for steps in work if steps.model in names]
        effort = total_of(lane_work)
        # So many seconds of calls, so many calls at once (Little's law).
        seconds = sum(steps.effort.calls * steps.latency_s for steps in lane_work)
        under = {"concurrency": seconds / lane.max_concurrency}
        if lane.requests_per_min:
            under["requests/min"] = effort.calls / lane.requests_per_min * 60
        # Tools have no limit of tokens.
        if isinstance(lane, ModelSpec) and lane.tokens_per_min:
            under["tokens/min"] = effort.tokens / lane.tokens_per_min * 60
        yield LaneForecast(lane.name, names, effort, under)
