"""Estimates of a system's steps before any was made: prompts rendered over real instances, and assumed replies.

Only a run can show how long replies are and how many turns a search takes: here they are constants, which
`assumptions_of` lists in the forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from statistics import fmean
from typing import Any

from cts_async.llm.catalog import ModelSpec
from cts_async.llm.messages import FIRST_PER_BYTE, PER_MESSAGE, Message, input_tokens
from cts_async.llm.model import prices_of
from cts_async.protocol.conversation import (
    QUERIES_OFFERED,
    conversation_text,
    numbered,
    offering_of,
    prompt_of,
)
from cts_async.protocol.judge import nuggets_by_call
from cts_async.protocol.past_usage import Observed
from cts_async.protocol.plan import Plan
from cts_async.protocol.roles import qa_pairs
from cts_async.protocol.systems import System
from cts_async.protocol.views import Conversation, Exchange, RewriterView
from cts_async.protocol.visit import page_tokens
from cts_async.records import Instance, language_of

SENDING_S, TOKENS_PER_S = 1.0, 50.0
"""Latency of a call without its reply, in seconds, and the tokens of its reply per second."""
FEWEST_STEPS = 3
"""Observed steps of a kind from which their averages replace the estimates."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Calls, tokens and dollars. Unless `priced`, some model's price is unknown and `cost_usd` is a lower bound."""

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
        """This effort, `n` times."""
        tokens = self.input_tokens * n, self.output_tokens * n
        return Effort(self.calls * n, *tokens, self.cost_usd * n, self.priced)

    @property
    def tokens(self) -> float:
        return self.input_tokens + self.output_tokens

    def as_json(self) -> dict[str, Any]:
        """Rounded calls and tokens; `cost_usd` is None if any price is unknown."""
        return {
            "calls": round(self.calls),
            "input_tokens": round(self.input_tokens),
            "output_tokens": round(self.output_tokens),
            "cost_usd": round(self.cost_usd, 6) if self.priced else None,
            "known_cost_usd": round(self.cost_usd, 6),
        }


def effort_of(spec: ModelSpec, calls: float, input_tokens: float, output_tokens: float) -> Effort:
    """The effort of so many calls and tokens of one model."""
    prices = prices_of(spec)
    if prices is None:
        return Effort(calls, input_tokens, output_tokens, priced=False)
    cost = input_tokens * prices.input_usd_per_mtok + output_tokens * prices.output_usd_per_mtok
    return Effort(calls, input_tokens, output_tokens, cost / 1e6)


@dataclass(frozen=True, slots=True)
class Work:
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
    """Observed steps behind these numbers; 0: estimated."""

    @property
    def effort(self) -> Effort:
        return self.each.times(self.steps)


def total_of(work: Iterable[Work]) -> Effort:
    """The sum of all efforts."""
    return sum((one.effort for one in work), Effort())


# --- Prompts as they will be sent, and texts of a given length


AROUND = 10.0
"""Tokens of the JSON syntax around a list."""


def work_of(
    plan: Plan, system: System, kind: str, model: str, inputs: Sequence[float], output: float
) -> Work:
    """One step of an instance; `inputs` are the tokens of its prompts over a sample, `output` those of its reply."""
    each = effort_of(plan.specs[model], 1.0, fmean(inputs) if inputs else 0.0, output)
    return Work(system.label, kind, model, 1.0, each, SENDING_S + output / TOKENS_PER_S, in_a_row=1.0)


def prompt_tokens(
    plan: Plan, model: str, name: str, instance: Instance, *, language_from: str = "", **fields: object
) -> float:
    """Tokens of a rendered prompt in the language of q, or of `language_from`."""
    language = language_of(language_from or instance.blurred_query)
    prompt = plan.prompts.get(name, language, plan.specs[model].prompt_size)
    messages: tuple[Message, ...] = prompt.render(**fields)
    return input_tokens(messages)


def filler(tokens: float, like: str) -> str:
    """A text of about so many tokens in the language of `like`."""
    letter = "字" if language_of(like) == "zh" else "x"
    return letter * round(tokens / per_char(like))


def per_char(like: str) -> float:
    """Tokens per character in the language of `like`."""
    return FIRST_PER_BYTE * (3 if language_of(like) == "zh" else 1)


# --- Steps before the search


QUESTION, ANSWER, REWRITE = 25.0, 10.0, 40.0
REASONING, OFFER, CHOICE = 80.0, 15.0, 8.0
"""Tokens of a reply: a question, an answer, a rewritten query; a scheme's reasoning, a reformulated query on offer, the
number of the chosen one."""


def reply_lengths(plan: Plan) -> str:
    """The assumed lengths of replies, for the user."""
    usual = f"{QUESTION:g} a question, {ANSWER:g} an answer, {REWRITE:g} a rewritten query"
    more = f"{REASONING:g} a scheme's reasoning, {OFFER:g} an offered query, {CHOICE:g} a choice"
    return f"{usual}, {more}" if any(system.converses for system in plan.systems) else usual


def before_search(plan: Plan, system: System, sample: list[Instance]) -> list[Work]:
    """The steps before the search, per instance, averaged over the sample; none for reference points."""
    if system.kind != "clarify":
        return []
    support, k = plan.players(system)["support"], system.k
    step = partial(_step, plan, system, sample)
    clarify = _clarify(plan, system, sample)
    if system.mode == "at-once":
        answer = replace(step("answer", support, "answer", ANSWER, _question), steps=k)
        steps = [clarify, answer, step("rewrite", support, "rewrite", REWRITE, partial(_pairs, k=k))]
    elif system.mode == "respond":
        answer = step("answer", support, "respond", ANSWER, partial(_turn_question, system), turns=k)
        reformulate = step(
            "reformulate",
            support,
            "reformulate",
            REWRITE,
            lambda i, _: {"conversation": _history(system, i, k)},
        )
        steps = [_in_turns(clarify, k), _in_turns(answer, k), reformulate]
    else:
        select = step("select", support, "select_query", CHOICE, partial(_offer, system), turns=k)
        steps = [_in_turns(clarify, k), _in_turns(select, k)]
    return [work for work in steps if work.kind != "answer" or plan.config.answers is None]


Fields = dict[str, object]


def _step(
    plan: Plan,
    system: System,
    sample: list[Instance],
    kind: str,
    model: str,
    prompt: str,
    output: float,
    fields: Callable[[Instance, int], Fields],
    *,
    turns: int = 1,
) -> Work:
    """One step; `fields` gives those of its prompt for an instance and a turn (from 0), over which it is averaged."""
    prompts = []
    for instance in sample:
        for turn in range(turns):
            values = fields(instance, turn)
            # A prompt with the intent is written in its language, any other in the language of q.
            language_from = instance.fused_query if "clear_query" in values else ""
            prompts.append(
                prompt_tokens(plan, model, prompt, instance, language_from=language_from, **values)
            )
    return work_of(plan, system, kind, model, prompts, output)


def _clarify(plan: Plan, system: System, sample: list[Instance]) -> Work:
    """A turn of the Clarifier, averaged over its turns."""
    model, k, at_once = plan.players(system)["clarifier"], system.k, system.mode == "at-once"
    step = partial(_step, plan, system, sample, "clarify", model, prompt_of(system.scheme, system.mode))
    if system.scheme == "cts":
        return step(k * QUESTION + AROUND, lambda i, _: {"blurred_query": i.blurred_query, "k": k})
    n = k if at_once else QUERIES_OFFERED if system.mode == "select" else 1
    offered = n * (OFFER if system.mode == "select" else QUESTION)
    thought = REASONING * (system.scheme in ("cot", "at-cot")) + AROUND * (system.scheme == "at-cot")
    return step(
        thought + offered + AROUND,
        lambda i, turn: {
            "conversation": _history(system, i, turn),
            "blurred_query": i.blurred_query,
            "k": n,
        },
        turns=1 if at_once else k,
    )


def _question(instance: Instance, turn: int) -> Fields:
    intent = instance.fused_query
    return {"clear_query": intent, "clarification_question": filler(QUESTION, intent)}


def _turn_question(system: System, instance: Instance, turn: int) -> Fields:
    return {**_question(instance, turn), "conversation": _history(system, instance, turn)}


def _offer(system: System, instance: Instance, turn: int) -> Fields:
    return {
        "clear_query": instance.fused_query,
        "conversation": _history(system, instance, turn),
        "offered_queries": numbered((filler(OFFER, instance.blurred_query),) * QUERIES_OFFERED),
    }


def _pairs(instance: Instance, turn: int, *, k: int) -> Fields:
    query = instance.blurred_query
    pairs = ((filler(QUESTION, query), filler(ANSWER, query)),) * k
    return {"blurred_query": query, "qa_pairs": qa_pairs(RewriterView(query, pairs), language_of(query))}


def _in_turns(work: Work, k: int) -> Work:
    return replace(work, steps=k, in_a_row=k)


def _history(system: System, instance: Instance, turns: int) -> str:
    """The prompt text of a conversation with so many turns."""
    query = instance.blurred_query
    if system.mode == "select":
        exchange = Exchange((filler(OFFER, query),) * QUERIES_OFFERED, filler(OFFER, query))
    else:
        exchange = Exchange((filler(QUESTION, query),), filler(ANSWER, query))
    conversation = Conversation(query, (exchange,) * turns)
    return conversation_text(conversation, offering_of(system.mode), language_of(query))


# --- Search and judging


TURN, FINAL = 250.0, 500.0
PER_NUGGET = 12.0
"""Tokens of a reply: a turn of the agent (thought and tool call), its answer; the label of a nugget."""
PAGE, EVIDENCE = 4000.0, 350.0
"""Tokens of a page that a model reads for a goal, and of its reply."""
LINK_CHARS, VISIT_CHARS = 80, 300
"""Characters of syntax around a result's snippet, and around a page's evidence."""
FEWEST_TURNS = 4
"""The assumed minimum of turns per search, if so many are allowed; half of those allowed, if that is more."""


def turns_of(plan: Plan, runs: Iterable[Observed]) -> float:
    """Model calls of a search: as observed, else as assumed from the number allowed."""
    runs = list(runs)
    searches, turns = sum(run.searches for run in runs), sum(run.turns for run in runs)
    return turns / searches if searches >= FEWEST_STEPS else _usual_turns(plan.settings.max_turns)


def _usual_turns(allowed: int) -> int:
    return max(ceil(allowed / 2), min(allowed, FEWEST_TURNS))


def estimate(plan: Plan, system: System, sample: list[Instance], turns: float) -> list[Work]:
    """All steps of a system, per instance, averaged over the sample."""
    players = plan.players(system)
    work = before_search(plan, system, sample)
    work.append(_search(plan, system, players["agent"], sample, turns))
    if "visit" in players:
        work.append(_visits(plan, system, players["visit"], sample, turns))
    for role, name in players.items():
        if role.startswith("judge "):
            prompts = [tokens for instance in sample for tokens in _judge_prompts(plan, name, instance)]
            n_nuggets = sum(len(instance.nuggets) for instance in sample)
            output = n_nuggets / max(1, len(prompts)) * PER_NUGGET + AROUND
            one = work_of(plan, system, "judge", name, prompts, output)
            work.append(replace(one, steps=len(prompts) / max(1, len(sample))))
    return work


def _search(plan: Plan, system: System, model: str, sample: list[Instance], turns: float) -> Work:
    """The agent's calls: each one reads all earlier turns and tool results again."""
    turn, final = _agent_tokens(plan)
    inputs = []
    for instance in sample:
        query = instance.blurred_query if system.kind == "orig" else instance.fused_query
        prompt = plan.prompts.agent(plan.agent_prompt, query, plan.specs[model].prompt_size)
        opening = input_tokens(prompt.render(question=query, current_date=plan.current_date))
        per_turn = turn + _tool_chars(plan) * per_char(query) + 2 * PER_MESSAGE
        inputs.append(opening + per_turn * (turns - 1) / 2)
    output = (turn * (turns - 1) + final) / turns
    work = work_of(plan, system, "search", model, inputs, output)
    return replace(work, steps=turns, in_a_row=turns)


def _visits(plan: Plan, system: System, model: str, sample: list[Instance], turns: float) -> Work:
    """Pages that a model reads: one for every second tool call."""
    page = min(PAGE, page_tokens(plan.specs[model]))
    prompts = []
    for instance in sample:
        query = instance.blurred_query
        fields = {"goal": query, "page": filler(page, query)}
        prompts.append(prompt_tokens(plan, model, "visit", instance, **fields))
    work = work_of(plan, system, "visit", model, prompts, EVIDENCE)
    return replace(work, steps=visited(turns), in_a_row=visited(turns))


def visited(turns: float) -> float:
    """Pages that a search visits, and queries: every turn but the last calls a tool, half of them each."""
    return (turns - 1) / 2


def _agent_tokens(plan: Plan) -> tuple[float, float]:
    """Tokens of a turn and of the answer; those of a grammar-constrained model are bounded by its settings."""
    if plan.specs[plan.roles.agent].structured != "llama":
        return TURN, FINAL
    settings = plan.settings
    each = FIRST_PER_BYTE
    return (
        settings.think_chars * each + AROUND * 2,
        (settings.think_chars + settings.answer_chars) * each + AROUND,
    )


def _tool_chars(plan: Plan) -> float:
    """Characters of a tool result: half of the calls search one query, the others visit one page."""
    settings = plan.settings
    found = settings.results_per_query * (settings.snippet_chars + LINK_CHARS)
    return (found + settings.page_chars + VISIT_CHARS) / 2


def _judge_prompts(plan: Plan, model: str, instance: Instance) -> list[float]:
    """Tokens of each call that judging one answer takes."""
    intent = instance.fused_query
    answer = filler(_agent_tokens(plan)[1], intent)
    return [
        prompt_tokens(
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


# --- The assumptions in words


def assumptions_of(plan: Plan, sampled: int, turns: float, work: Iterable[Work]) -> Iterable[str]:
    """The assumptions, and what was observed instead, for the user; prompts of `sampled` instances were rendered."""
    work = list(work)
    yield (
        f"prompts: rendered over {sampled} of {plan.n_instances} instances, {FIRST_PER_BYTE:g} tokens a byte "
        f"and {PER_MESSAGE:g} a message"
    )
    turn, final = _agent_tokens(plan)
    yield (
        f"replies in tokens: {reply_lengths(plan)}, "
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
