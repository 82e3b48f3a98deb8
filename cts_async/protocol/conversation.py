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
from typing import Final, Literal

from cts_async.engine.runner import Context
from cts_async.engine.step import RetryPolicy
from cts_async.llm.parsing import OneLine, ShortPhrase
from cts_async.llm.scheme_forms import Choice, Clarification, Clarified
from cts_async.protocol.roles import Answerer, Role, rewrite
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
from cts_async.records import Answer, ConversationTurn, Instance, Language, Mode, Scheme, language_of


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


@dataclass(frozen=True, slots=True)
class ModelRespondent:
    """The user of mode "respond" (AT-CoT, table 4): a model that knows the intent and the conversation so far."""

    role: Role

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """A short phrase from q*, or `unknown`. `view.conversation` has to be there (ValueError)."""
        if view.conversation is None:
            raise ValueError("a respondent answers within a conversation")
        language = language_of(view.fused_query)
        return await self.role.ask(
            ctx,
            f"answer/{turn}",
            "respond",
            language,
            ShortPhrase(),
            on_record=("clear_query",),
            policy=PATIENT,
            clear_query=view.fused_query,
            conversation=told(view.conversation, "questions", language),
            clarification_question=view.question,
        )


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


# --- The prompting schemes of AT-CoT (SIGIR 2025, sections 3.2 and 4.4): what a Clarifier is asked for at a turn.
#
#     scheme        thinks before    is told of ambiguity types    equation
#     standard      -                -                             1: p(c | D, C, q)
#     at-standard   -                yes                           2: p(c | D, A, C, q)
#     cot           freely           -                             3: p(a, c | D, C, q)
#     at-cot        which apply      yes, and names them           4: p(a, c | D, A, C, q)
#
# All are few-shot and reply in JSON; one that cannot be used is asked for again up to 10 times. A question that
# was asked before is discouraged by the prompts, but taken as it is: a turn lost is the Clarifier's own, and is
# measured. The paper's temperature of 0.6 is a matter of the model's entry in the catalogue.


Offering = Literal["questions", "queries"]

PATIENT: Final = RetryPolicy(max_unusable=10)
"""The patience of the conversation's steps: "maximum number of retry attempts set to 10" (section 4.4)."""
QUERIES_OFFERED: Final = 5
"""Reformulated queries at each turn of mode "select" (section 4.2)."""


def offering_of(mode: Mode) -> Offering:
    """What a Clarifier offers in this mode."""
    return "queries" if mode == "select" else "questions"


def prompt_of(scheme: Scheme, mode: Mode) -> str:
    """The name of a Clarifier's prompt: "clarify" for the benchmark's own scheme, which asks at once only."""
    if scheme == "cts":
        return "clarify"
    return scheme.replace("-", "_") + ("_queries" if mode == "select" else "")


def prompts_of(system: System) -> list[str]:
    """The names of the prompts that a system may use before it searches; none for the reference points."""
    if system.kind != "clarify":
        return []
    said = {
        "at-once": ["answer", "rewrite"],
        "respond": ["respond", "reformulate"],
        "select": ["select_query"],
    }
    return [prompt_of(system.scheme, system.mode), *said[system.mode]]


def form_of(scheme: Scheme, mode: Mode, k: int) -> Clarification:
    """What a reply of `k` questions or queries has to hold."""
    return Clarification(
        k, offering_of(mode), reasoning=scheme in ("cot", "at-cot"), types=scheme == "at-cot"
    )


async def clarify_turn(
    ctx: Context, clarifier: Role, view: TurnView, scheme: Scheme, mode: Mode, turn: int
) -> Clarified:
    """What the Clarifier offers at turn `turn` (from 1), remembered as `clarify/TURN`."""
    language = language_of(view.conversation.first_query)
    return await clarifier.ask(
        ctx,
        f"clarify/{turn}",
        prompt_of(scheme, mode),
        language,
        form_of(scheme, mode, view.k),
        policy=PATIENT,
        conversation=told(view.conversation, offering_of(mode), language),
        blurred_query=view.blurred_query,
        k=view.k,
    )


# --- A conversation as its prompts show it: one line for each thing said, so that nobody's words run together.


_LABELS: Final[dict[Language, tuple[str, str, str, str, str]]] = {
    "en": ("Query", "Question", "Answer", "Offered", "Chosen"),
    "zh": ("查询", "问题", "回答", "候选", "选择"),
}


def told(conversation: Conversation, offering: Literal["questions", "queries"], language: Language) -> str:
    """The query that began it, then two lines a turn: what was offered and what the user said to it.

    Query: q                                    Query: q
    Question 1: ...                             Offered 1: ... | ... | ...
    Answer 1: ...                               Chosen 1: ...
    """
    query, question, answer, offered, chosen = _LABELS[language]
    asked, said = (question, answer) if offering == "questions" else (offered, chosen)
    lines = [f"{query}: {conversation.first_query}"]
    for turn, exchange in enumerate(conversation.exchanges, 1):
        lines += [f"{asked} {turn}: {' | '.join(exchange.offered)}", f"{said} {turn}: {exchange.reply}"]
    return "\n".join(lines)


def numbered(offered: tuple[str, ...]) -> str:
    """Queries to choose from, one a line, with numbers from 1."""
    return "\n".join(f"{n}. {query}" for n, query in enumerate(offered, 1))


# --- The reformulator: a conversation summed up as one query (AT-CoT, table 4; there is none in mode "select").


async def reformulate(ctx: Context, reformulator: Role, view: ReformulatorView, turn: int) -> str:
    """The query after turn `turn` (from 1), one non-empty line; remembered as `reformulate/TURN`."""
    language = language_of(view.conversation.first_query)
    return await reformulator.ask(
        ctx,
        f"reformulate/{turn}",
        "reformulate",
        language,
        OneLine(),
        policy=PATIENT,
        conversation=told(view.conversation, "questions", language),
    )


# --- The selecting user: which of the queries offered comes closest to q* (AT-CoT, table 4, scenario select).


async def select(ctx: Context, selector: Role, view: SelectorView, turn: int) -> int:
    """The place in `view.offered`, from 0, of the query that the user chooses; remembered as `select/TURN`."""
    language = language_of(view.fused_query)
    return await selector.ask(
        ctx,
        f"select/{turn}",
        "select_query",
        language,
        Choice(view.offered),
        on_record=("clear_query",),
        policy=PATIENT,
        clear_query=view.fused_query,
        conversation=told(view.conversation, "queries", language),
        offered_queries=numbered(view.offered),
    )
