"""What a forecast assumes of the steps before the search: the questions, the user's replies, the query they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cts_async.protocol.assumed_steps import AROUND, filler, prompt_tokens, work_of
from cts_async.protocol.effort import Work
from cts_async.protocol.plan import Plan
from cts_async.protocol.rewrite import qa_pairs
from cts_async.protocol.schemes import QUERIES_OFFERED, offering_of, prompt_of
from cts_async.protocol.systems import System
from cts_async.protocol.told import numbered, told
from cts_async.protocol.views import Conversation, Exchange, RewriterView
from cts_async.records import Instance, language_of

QUESTION, ANSWER, REWRITE = 25.0, 10.0, 40.0
REASONING, OFFER, CHOICE = 80.0, 15.0, 8.0
"""Tokens of a reply: a question, an answer to it, a rewritten query; what a scheme thinks before it asks, a
reformulated query on offer, the number of the one that is chosen."""


def before_search(plan: Plan, system: System, sample: list[Instance]) -> list[Work]:
    """The steps over one instance of a system that clarifies, as they are on average over the sample."""
    if system.kind != "clarify":
        return []
    if system.mode == "respond":
        steps = _respond(plan, system, sample)
    elif system.mode == "select":
        steps = _select(plan, system, sample)
    else:
        steps = _at_once(plan, system, sample)
    return [work for work in steps if work.kind != "answer" or plan.config.answers is None]


def said_of_talk(plan: Plan) -> str:
    """Assumed lengths of replies, in words."""
    usual = f"{QUESTION:g} a question, {ANSWER:g} an answer, {REWRITE:g} a rewritten query"
    more = f"{REASONING:g} a scheme's reasoning, {OFFER:g} an offered query, {CHOICE:g} a choice"
    return f"{usual}, {more}" if any(system.converses for system in plan.systems) else usual


def _at_once(plan: Plan, system: System, sample: list[Instance]) -> Iterator[Work]:
    players, k = plan.players(system), system.k
    if system.scheme == "cts":
        asks = [
            prompt_tokens(plan, players["clarifier"], "clarify", i, blurred_query=i.blurred_query, k=k)
            for i in sample
        ]
        yield work_of(plan, system, "clarify", players["clarifier"], asks, k * QUESTION + AROUND)
    else:
        yield _clarifying(plan, system, sample, k * QUESTION)
    asks = [
        prompt_tokens(
            plan,
            players["support"],
            "answer",
            i,
            language_from=i.fused_query,
            clear_query=i.fused_query,
            clarification_question=filler(QUESTION, i.fused_query),
        )
        for i in sample
    ]
    yield replace(work_of(plan, system, "answer", players["support"], asks, ANSWER), steps=k)
    asks = [_rewrite_prompt(plan, players["support"], i, k) for i in sample]
    yield work_of(plan, system, "rewrite", players["support"], asks, REWRITE)


def _respond(plan: Plan, system: System, sample: list[Instance]) -> Iterator[Work]:
    support, k = plan.players(system)["support"], system.k
    yield _in_turns(_clarifying(plan, system, sample, QUESTION), k)
    asks = [
        prompt_tokens(
            plan,
            support,
            "respond",
            i,
            language_from=i.fused_query,
            clear_query=i.fused_query,
            conversation=_told(system, i.blurred_query, turn),
            clarification_question=filler(QUESTION, i.fused_query),
        )
        for i in sample
        for turn in range(k)
    ]
    yield _in_turns(work_of(plan, system, "answer", support, asks, ANSWER), k)
    asks = [
        prompt_tokens(plan, support, "reformulate", i, conversation=_told(system, i.blurred_query, k))
        for i in sample
    ]
    yield work_of(plan, system, "reformulate", support, asks, REWRITE)


def _select(plan: Plan, system: System, sample: list[Instance]) -> Iterator[Work]:
    support, k = plan.players(system)["support"], system.k
    yield _in_turns(_clarifying(plan, system, sample, QUERIES_OFFERED * OFFER), k)
    asks = [
        prompt_tokens(
            plan,
            support,
            "select_query",
            i,
            language_from=i.fused_query,
            clear_query=i.fused_query,
            conversation=_told(system, i.blurred_query, turn),
            offered_queries=numbered((filler(OFFER, i.blurred_query),) * QUERIES_OFFERED),
        )
        for i in sample
        for turn in range(k)
    ]
    yield _in_turns(work_of(plan, system, "select", support, asks, CHOICE), k)


def _clarifying(plan: Plan, system: System, sample: list[Instance], offered: float) -> Work:
    """A turn of the Clarifier by an AT-CoT scheme, on average over its turns; what it offers has `offered` tokens."""
    model, many = plan.players(system)["clarifier"], system.mode == "at-once"
    n = system.k if many else QUERIES_OFFERED if system.mode == "select" else 1
    asks = [
        prompt_tokens(
            plan,
            model,
            prompt_of(system.scheme, system.mode),
            i,
            conversation=_told(system, i.blurred_query, turn),
            blurred_query=i.blurred_query,
            k=n,
        )
        for i in sample
        for turn in range(1 if many else system.k)
    ]
    thought = REASONING * (system.scheme in ("cot", "at-cot")) + AROUND * (system.scheme == "at-cot")
    return work_of(plan, system, "clarify", model, asks, thought + offered + AROUND)


def _in_turns(work: Work, k: int) -> Work:
    return replace(work, steps=k, in_a_row=k)


def _told(system: System, query: str, turns: int) -> str:
    """A conversation of so many turns."""
    if system.mode == "select":
        exchange = Exchange((filler(OFFER, query),) * QUERIES_OFFERED, filler(OFFER, query))
    else:
        exchange = Exchange((filler(QUESTION, query),), filler(ANSWER, query))
    return told(Conversation(query, (exchange,) * turns), offering_of(system.mode), language_of(query))


def _rewrite_prompt(plan: Plan, model: str, instance: Instance, k: int) -> float:
    query = instance.blurred_query
    pairs = ((filler(QUESTION, query), filler(ANSWER, query)),) * k
    asked = qa_pairs(RewriterView(query, pairs), language_of(query))
    return prompt_tokens(plan, model, "rewrite", instance, blurred_query=query, qa_pairs=asked)
