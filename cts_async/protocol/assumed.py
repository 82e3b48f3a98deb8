"""What a forecast assumes of a system's steps before any was made: prompts rendered over real data, and replies.

How long replies are and how many turns a search takes only a run can tell: it is assumed, and `said`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil

from cts_async.llm.messages import FIRST_PER_BYTE, PER_MESSAGE, input_tokens
from cts_async.protocol.assumed_steps import AROUND, filler, per_char, prompt_tokens, work_of
from cts_async.protocol.assumed_talk import before_search, said_of_talk
from cts_async.protocol.effort import FEWEST_STEPS, SENDING_S, TOKENS_PER_S, Work
from cts_async.protocol.judge import nuggets_by_call
from cts_async.protocol.observed import Observed
from cts_async.protocol.plan import Plan
from cts_async.protocol.systems import System
from cts_async.protocol.visit import page_tokens
from cts_async.records import Instance

TURN, FINAL = 250.0, 500.0
PER_NUGGET = 12.0
"""Tokens of a reply: a thought with its tool call, the agent's answer; a nugget's label."""
PAGE, EVIDENCE = 4000.0, 350.0
"""Tokens of a page that a model reads for a goal, and of what it says about it."""
LINK_CHARS, VISIT_CHARS = 80, 300
"""Characters around a result's snippet, and around a page's evidence."""
FEWEST_TURNS = 4
"""Turns that a search takes at least, as far as it may: half of those allowed, where that is more."""


def turns_of(plan: Plan, runs: Iterable[Observed]) -> float:
    """Model calls of a search: as seen, else half of those allowed, or a few where only a few are."""
    runs = list(runs)
    searches, turns = sum(run.searches for run in runs), sum(run.turns for run in runs)
    return turns / searches if searches >= FEWEST_STEPS else _usual_turns(plan.settings.max_turns)


def _usual_turns(allowed: int) -> int:
    return max(ceil(allowed / 2), min(allowed, FEWEST_TURNS))


def assumed(plan: Plan, system: System, sample: list[Instance], turns: float) -> list[Work]:
    """The system's steps over one instance, as they are on average over the sample."""
    players = plan.players(system)
    work = before_search(plan, system, sample)
    work.append(_search(plan, system, players["agent"], sample, turns))
    if "visit" in players:
        work.append(_visits(plan, system, players["visit"], sample, turns))
    for role, name in players.items():
        if role.startswith("judge "):
            asks = [tokens for instance in sample for tokens in _judge_prompts(plan, name, instance)]
            n_nuggets = sum(len(instance.nuggets) for instance in sample)
            output = n_nuggets / max(1, len(asks)) * PER_NUGGET + AROUND
            one = work_of(plan, system, "judge", name, asks, output)
            work.append(replace(one, steps=len(asks) / max(1, len(sample))))
    return work


def _search(plan: Plan, system: System, model: str, sample: list[Instance], turns: float) -> Work:
    """A call of the agent: each reads again what all turns before it said and were given."""
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
    """Pages that a model reads: one for every other call of a tool."""
    page = min(PAGE, page_tokens(plan.specs[model]))
    asks = []
    for instance in sample:
        query = instance.blurred_query
        fields = {"goal": query, "page": filler(page, query)}
        asks.append(prompt_tokens(plan, model, "visit", instance, **fields))
    work = work_of(plan, system, "visit", model, asks, EVIDENCE)
    return replace(work, steps=visited(turns), in_a_row=visited(turns))


def visited(turns: float) -> float:
    """Pages that a search visits, and as many queries: every turn but the last calls a tool."""
    return (turns - 1) / 2


def _agent_tokens(plan: Plan) -> tuple[float, float]:
    """Tokens of a turn and of the answer; a constrained model's are bounded by its settings."""
    if plan.specs[plan.roles.agent].structured != "llama":
        return TURN, FINAL
    settings = plan.settings
    each = FIRST_PER_BYTE
    return (
        settings.think_chars * each + AROUND * 2,
        (settings.think_chars + settings.answer_chars) * each + AROUND,
    )


def _tool_chars(plan: Plan) -> float:
    """Characters that a tool gives back: half the calls search one query, the others visit one page."""
    settings = plan.settings
    found = settings.results_per_query * (settings.snippet_chars + LINK_CHARS)
    return (found + settings.page_chars + VISIT_CHARS) / 2


def _judge_prompts(plan: Plan, model: str, instance: Instance) -> list[float]:
    """Tokens of each call that one answer takes."""
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


# --- Said in words


def said(plan: Plan, sampled: int, turns: float, work: Iterable[Work]) -> Iterable[str]:
    """The assumptions in words, and what was seen in their place; `sampled` instances were rendered."""
    work = list(work)
    yield (
        f"prompts: rendered over {sampled} of {plan.n_instances} instances, {FIRST_PER_BYTE:g} tokens a byte "
        f"and {PER_MESSAGE:g} a message"
    )
    turn, final = _agent_tokens(plan)
    yield (
        f"replies in tokens: {said_of_talk(plan)}, "
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
