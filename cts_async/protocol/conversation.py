"""A conversation between a Clarifier and a user, in each mode (AT-CoT, SIGIR 2025, section 4.2 and figure 3).

    at-once   clarify/1: k questions -> answer/1..k, each by itself, as in CTS -> rewrite
    respond   k times: clarify/T: a question -> answer/T; then reformulate/T
    select    k times: clarify/T: 5 queries -> select/T: the one chosen is the query of the next turn

Every one of these is a durable step of that name. Nobody but the user sees q*, and what the others see of the
user is an answer to a question they asked or a choice among queries they offered (`views`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from cts_async.engine.runner import Context
from cts_async.protocol.answer import Answerer
from cts_async.protocol.reformulate import reformulate
from cts_async.protocol.rewrite import rewrite
from cts_async.protocol.role import Role
from cts_async.protocol.schemes import QUERIES_OFFERED, clarify_turn
from cts_async.protocol.select import select
from cts_async.protocol.systems import System
from cts_async.protocol.views import (
    AnswererView,
    Conversation,
    Exchange,
    ReformulatorView,
    RewriterView,
    SelectorView,
    TurnView,
)
from cts_async.records import Answer, ConversationTurn, Instance

__all__ = ["Talk", "answer_each", "converse"]


@dataclass(frozen=True, slots=True)
class Talk:
    """Who stands for the user, and who sums up what was said."""

    answerer: Answerer | None
    """Answers questions asked at once, each by itself; None: nobody does, and the questions are all there is."""
    respondent: Answerer
    """Answers a question within a conversation (mode "respond")."""
    selector: Role
    """Chooses among queries (mode "select")."""
    reformulator: Role
    """Rewrites the query from the pairs of CTS, or reformulates it from a conversation."""


async def converse(
    ctx: Context,
    talk: Talk,
    clarifier: Role,
    instance: Instance,
    system: System,
    *,
    every_turn: bool,
) -> tuple[ConversationTurn, ...]:
    """The turns of one conversation by `system`, whose `k` is the questions at once or the turns.

    The last turn's `query` is what to search ("" only where there is no answerer). `every_turn` also sums up
    the earlier turns of mode "respond", for an evaluation turn by turn; mode "select" has their queries anyway.
    """
    if system.mode == "at-once":
        return (await _at_once(ctx, talk, clarifier, instance, system),)
    if system.mode == "respond":
        return await _respond(ctx, talk, clarifier, instance, system, every_turn=every_turn)
    return await _select(ctx, talk, clarifier, instance, system)


async def answer_each(
    ctx: Context, answerer: Answerer, instance: Instance, questions: tuple[str, ...]
) -> tuple[Answer, ...]:
    """The answers to questions asked at once: each is put by itself, all side by side (CTS, section 3.2)."""
    views = [AnswererView(instance.fused_query, question) for question in questions]
    asks: list[Callable[[], Awaitable[Answer]]] = [
        partial(answerer.answer, ctx, view, turn) for turn, view in enumerate(views, 1)
    ]
    return tuple(await ctx.gather(asks))


async def _at_once(
    ctx: Context, talk: Talk, clarifier: Role, instance: Instance, system: System
) -> ConversationTurn:
    q = instance.blurred_query
    view = TurnView(q, Conversation(q), system.k)
    asked = await clarify_turn(ctx, clarifier, view, system.scheme, system.mode, 1)
    if talk.answerer is None:
        return ConversationTurn(asked.offered, asked.types, asked.reasoning)
    answers = await answer_each(ctx, talk.answerer, instance, asked.offered)
    pairs = tuple((question, reply.text) for question, reply in zip(asked.offered, answers, strict=True))
    q_hat = await rewrite(ctx, talk.reformulator, RewriterView(q, pairs))
    return ConversationTurn(asked.offered, asked.types, asked.reasoning, answers, query=q_hat)


async def _respond(
    ctx: Context, talk: Talk, clarifier: Role, instance: Instance, system: System, *, every_turn: bool
) -> tuple[ConversationTurn, ...]:
    q, turns = instance.blurred_query, list[ConversationTurn]()
    said = Conversation(q)
    for turn in range(1, system.k + 1):
        asked = await clarify_turn(ctx, clarifier, TurnView(q, said, 1), system.scheme, system.mode, turn)
        (question,) = asked.offered
        reply = await talk.respondent.answer(ctx, AnswererView(instance.fused_query, question, said), turn)
        said = Conversation(q, (*said.exchanges, Exchange(asked.offered, reply.text)))
        query = ""
        if every_turn or turn == system.k:
            query = await reformulate(ctx, talk.reformulator, ReformulatorView(said), turn)
        turns.append(ConversationTurn(asked.offered, asked.types, asked.reasoning, (reply,), query=query))
    return tuple(turns)


async def _select(
    ctx: Context, talk: Talk, clarifier: Role, instance: Instance, system: System
) -> tuple[ConversationTurn, ...]:
    query, turns = instance.blurred_query, list[ConversationTurn]()
    said = Conversation(query)
    for turn in range(1, system.k + 1):
        view = TurnView(query, said, QUERIES_OFFERED)
        offer = await clarify_turn(ctx, clarifier, view, system.scheme, system.mode, turn)
        chosen = await select(
            ctx, talk.selector, SelectorView(instance.fused_query, said, offer.offered), turn
        )
        query = offer.offered[chosen]
        said = Conversation(said.first_query, (*said.exchanges, Exchange(offer.offered, query)))
        turns.append(
            ConversationTurn(offer.offered, offer.types, offer.reasoning, chosen=chosen, query=query)
        )
    return tuple(turns)
