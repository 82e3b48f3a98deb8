"""A conversation between a Clarifier and a user, in each mode (AT-CoT, SIGIR 2025, section 4.2 and figure 3).

    at-once   clarify/1: k questions -> answer/1..k, each by itself, as in CTS -> rewrite
    respond   k times: clarify/T: a question -> answer/T; then reformulate/T
    select    k times: clarify/T: 5 queries -> select/T: the one chosen is the query of the next turn

Each of these is a durable step of that name. Only the user sees q*; the others learn from the user no more than the
answers to questions they asked, or a choice among queries they offered (`views`).

Prompting schemes (AT-CoT, sections 3.2 and 4.4) differ in what the Clarifier is asked for at a turn:

    scheme        reasons first      is given ambiguity types    equation
    standard      -                  -                           1: p(c | D, C, q)
    at-standard   -                  yes                         2: p(c | D, A, C, q)
    cot           freely             -                           3: p(a, c | D, C, q)
    at-cot        which types apply  yes, and names them         4: p(a, c | D, A, C, q)

All are few-shot and reply in JSON; an unusable reply is asked for again up to 10 times. A question that was asked
before is discouraged by the prompts but accepted: the lost turn is the Clarifier's own, and is measured. The paper's
temperature of 0.6 belongs to the model's entry in the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, Protocol

from cts_async.engine.runner import Context
from cts_async.engine.step import RetryPolicy
from cts_async.errors import StepError
from cts_async.llm.parsing import Choice, Clarification, Clarified, Expect, OneLine, ShortPhrase, YesNo
from cts_async.protocol.roles import Rewriter, Role
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
from cts_async.records import (
    Answer,
    ConversationTurn,
    Instance,
    Language,
    Mode,
    Outcome,
    Scheme,
    language_of,
)


@dataclass(frozen=True, slots=True)
class Participants:
    """Who plays the user, and who turns the conversation into a query."""

    answerer: Answerer
    rewriter: Rewriter
    """Turns questions asked at once and their answers into a query."""
    reformulator: Reformulator
    selector: Selector
    """Chooses among the queries offered in mode "select"."""


class TurnClarifier(Protocol):
    """The Clarifier of a conversation."""

    async def offer(self, ctx: Context, view: TurnView, turn: int) -> Clarified:
        """What is offered at turn `turn` (from 1); the step is `clarify/TURN`."""


class Reformulator(Protocol):
    """Sums up a conversation as one query."""

    async def reformulate(self, ctx: Context, view: ReformulatorView, turn: int) -> str:
        """The query after turn `turn` (from 1); the step is `reformulate/TURN`."""


class Selector(Protocol):
    """Chooses in the place of the user."""

    async def select(self, ctx: Context, view: SelectorView, turn: int) -> int:
        """Index in `view.offered` of the query closest to q*; the step is `select/TURN`."""


class Answerer(Protocol):
    """Answers the Clarifier's questions in the place of the user."""

    async def answer(self, ctx: Context, view: AnswererView, step: str) -> Answer:
        """The answer to a question about the instance of `ctx`; the step is `answer/N`, or `search/ask/N`.

        In mode "respond" the view has the conversation so far, which recorded human answers do not depend on.
        """


@dataclass(frozen=True, slots=True)
class ModelAnswerer:
    """The user, played by a model that sees the intent: the User Answerer of CTS (prompt B), who sees one question and
    nothing else, or in mode "respond" AT-CoT's (table 4), who sees the conversation so far, too.
    """

    role: Role
    exact_unknown: bool = False
    """Whether only the word itself is `unknown` (`ShortPhrase.exact`)."""

    async def answer(self, ctx: Context, view: AnswererView, step: str) -> Answer:
        """A short phrase from q*, or `unknown`; of the replies "yes-no" exactly one."""
        language = language_of(view.fused_query)
        prompt, policy = "answer", None
        form: Expect[Answer] = ShortPhrase(exact=self.exact_unknown)
        fields: dict[str, Any] = {"clear_query": view.fused_query}
        if view.replies == "yes-no":
            prompt, form = "answer_yes_no", YesNo()
        if view.conversation is not None:
            prompt, policy = "respond", PATIENT
            fields["conversation"] = conversation_text(view.conversation, "questions", language)
        return await ctx.step(
            self.role.step(
                ctx,
                step,
                prompt,
                language,
                form,
                on_record=("clear_query",),  # every result has it as `fused_query`
                policy=policy,
                **fields,
                clarification_question=view.question,
            )
        )


class Nobody:
    """Plays the roles that a run does not have: whoever asks it for anything gets a RuntimeError."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"this run has nobody to {name}")


NOBODY: Final[Any] = Nobody()


@contextmanager
def made_before(outcome: Outcome) -> Iterator[None]:
    """A StepError of the block takes along what was made before it: stages count by themselves."""
    try:
        yield
    except StepError as error:
        # What an instance was asked and answered is known, whatever fails later; the innermost stage knows most.
        if error.reached is None:
            error.reached = outcome
        raise


async def converse(
    ctx: Context,
    participants: Participants,
    clarifier: TurnClarifier,
    instance: Instance,
    system: System,
    *,
    every_turn: bool,
) -> tuple[ConversationTurn, ...]:
    """The turns of one conversation by `system`, whose `k` is the number of questions at once, or of turns.

    The last turn's `query` is to be searched. With `every_turn` the conversation is evaluated turn by turn instead: the
    earlier turns of mode "respond" are reformulated, too, and questions asked at once remain unanswered.
    """
    if system.mode == "at-once":
        turn = await _ask_at_once(ctx, participants, clarifier, instance, system, answered=not every_turn)
        return (turn,)
    query, history, turns = instance.query, Conversation(instance.query), list[ConversationTurn]()
    n_offered = QUERIES_OFFERED if system.mode == "select" else 1
    for n in range(1, system.k + 1):
        offer = await clarifier.offer(ctx, TurnView(query, history, n_offered), n)
        turn = ConversationTurn(offer.offered, offer.types, offer.reasoning)
        if system.mode == "select":
            choices = SelectorView(instance.intent, history, offer.offered)
            chosen = await participants.selector.select(ctx, choices, n)
            # What was chosen is what the Clarifier reformulates at the next turn.
            query = reply = offer.offered[chosen]
            turn = replace(turn, chosen=chosen, query=query)
        else:
            (question,) = offer.offered
            view = AnswererView(instance.intent, question, history)
            answer = await participants.answerer.answer(ctx, view, f"answer/{n}")
            reply, turn = answer.text, replace(turn, answers=(answer,))
        history = Conversation(instance.query, (*history.exchanges, Exchange(offer.offered, reply)))
        is_final = n == system.k
        # A chosen query is the turn's query already.
        if system.mode == "respond" and (every_turn or is_final):
            # Before the last turn not all questions have been asked: that conversation is none yet.
            complete_turns = (*turns, turn) if is_final else ()
            questions, answers = answered_questions(complete_turns)
            with made_before(Outcome(instance, system.k, questions, answers, turns=complete_turns)):
                summary = await participants.reformulator.reformulate(ctx, ReformulatorView(history), n)
            turn = replace(turn, query=summary)
        turns.append(turn)
    return tuple(turns)


async def _ask_at_once(
    ctx: Context,
    participants: Participants,
    clarifier: TurnClarifier,
    instance: Instance,
    system: System,
    *,
    answered: bool,
) -> ConversationTurn:
    """The only turn of mode "at-once"; unless it is to be `answered`, questions alone."""
    query = instance.query
    offer = await clarifier.offer(ctx, TurnView(query, Conversation(query), system.k), 1)
    turn = ConversationTurn(offer.offered, offer.types, offer.reasoning)
    if not answered:  # they are compared with people's questions
        return turn
    answers = await answer_all(ctx, participants, instance, offer.offered)
    turn = replace(turn, answers=answers)
    with made_before(Outcome(instance, system.k, offer.offered, answers, turns=(turn,))):
        q_hat = await rewrite(ctx, participants, instance, offer.offered, answers)
    return replace(turn, query=q_hat)


async def answer_all(
    ctx: Context, participants: Participants, instance: Instance, questions: tuple[str, ...]
) -> tuple[Answer, ...]:
    """The answers to questions asked at once, each in a separate call, all concurrent (CTS, section 3.2)."""
    # In calls of their own: the User Answerer sees one question and no other.
    calls = []
    for n, question in enumerate(questions, 1):
        view = AnswererView(instance.intent, question)
        calls.append(partial(participants.answerer.answer, ctx, view, f"answer/{n}"))
    return tuple(await ctx.gather(calls))


async def rewrite(
    ctx: Context,
    participants: Participants,
    instance: Instance,
    questions: tuple[str, ...],
    answers: tuple[Answer, ...],
) -> str:
    """q-hat: q with what the answers to the questions add, as one query."""
    texts = [answer.text for answer in answers]
    pairs = tuple(zip(questions, texts, strict=True))
    return await participants.rewriter.rewrite(ctx, RewriterView(instance.query, pairs))


def answered_questions(
    turns: tuple[ConversationTurn, ...],
) -> tuple[tuple[str, ...], tuple[Answer, ...]]:
    """The questions that the user answered, and the answers; both are empty in mode "select"."""
    questions: list[str] = []
    answers: list[Answer] = []
    for turn in turns:
        if turn.answers:
            questions += turn.offered
            answers += turn.answers
    return tuple(questions), tuple(answers)


# --- Prompting schemes: what a Clarifier is asked for at a turn

Offering = Literal["questions", "queries"]

PATIENT: Final = RetryPolicy(max_unusable=10)
"""Retries of the conversation's steps: "maximum number of retry attempts set to 10" (section 4.4)."""
QUERIES_OFFERED: Final = 5
"""Reformulated queries at each turn of mode "select" (section 4.2)."""


def offering_of(mode: Mode) -> Offering:
    """What a Clarifier offers in a mode."""
    return "queries" if mode == "select" else "questions"


def prompt_of(scheme: Scheme, mode: Mode) -> str:
    """The name of the Clarifier's prompt; "clarify" for the benchmark's own scheme, which asks at once only."""
    if scheme == "cts":
        return "clarify"
    name = scheme.replace("-", "_")
    if mode == "select":
        name += "_queries"
    return name


def prompts_of(system: System) -> list[str]:
    """Names of the prompts that a system's asking may use; none for the reference points."""
    asked_prompts = []
    if system.asks is not None:
        asked_prompts.append("answer_yes_no" if system.asks.replies == "yes-no" else "answer")
    if system.kind != "clarify":
        return asked_prompts
    if system.inject_at is not None:
        return [prompt_of(system.scheme, system.mode), "answer"]  # nobody rewrites
    user_prompts = {
        "at-once": ["answer", "rewrite"],
        "respond": ["respond", "reformulate"],
        "select": ["select_query"],
    }
    prompts = [prompt_of(system.scheme, system.mode), *user_prompts[system.mode], *asked_prompts]
    return list(dict.fromkeys(prompts))


def form_of(scheme: Scheme, mode: Mode, k: int) -> Clarification:
    """The form of a reply with `k` questions or queries."""
    return Clarification(
        k, offering_of(mode), reasoning=scheme in ("cot", "at-cot"), types=scheme == "at-cot"
    )


@dataclass(frozen=True, slots=True)
class ModelTurnClarifier:
    """A model that is prompted by the system's scheme."""

    role: Role
    system: System

    async def offer(self, ctx: Context, view: TurnView, turn: int) -> Clarified:
        language = language_of(view.conversation.first_query)
        scheme, mode = self.system.scheme, self.system.mode
        return await ctx.step(
            self.role.step(
                ctx,
                f"clarify/{turn}",
                prompt_of(scheme, mode),
                language,
                form_of(scheme, mode, view.k),
                policy=PATIENT,
                conversation=conversation_text(view.conversation, offering_of(mode), language),
                blurred_query=view.blurred_query,
                k=view.k,
            )
        )


# --- The conversation in prompts, the reformulator and the selecting user (AT-CoT, table 4)

_LABELS: Final[dict[Language, tuple[str, str, str, str, str]]] = {
    "en": ("Query", "Question", "Answer", "Offered", "Chosen"),
    "zh": ("查询", "问题", "回答", "候选", "选择"),
}


def conversation_text(
    conversation: Conversation, offering: Literal["questions", "queries"], language: Language
) -> str:
    """A conversation as prompts show it: the first query, then two lines a turn, what was offered and the reply.

    Query: q                                    Query: q
    Question 1: ...                             Offered 1: ... | ... | ...
    Answer 1: ...                               Chosen 1: ...
    """
    query, question, answer, offered, chosen = _LABELS[language]
    offer_label, reply_label = offered, chosen
    if offering == "questions":
        offer_label, reply_label = question, answer
    lines = [f"{query}: {conversation.first_query}"]
    for turn, exchange in enumerate(conversation.exchanges, 1):
        lines.append(f"{offer_label} {turn}: {' | '.join(exchange.offered)}")
        lines.append(f"{reply_label} {turn}: {exchange.reply}")
    return "\n".join(lines)


def numbered_queries(offered: tuple[str, ...]) -> str:
    """Queries to choose from, one a line, with numbers from 1."""
    return "\n".join(f"{n}. {query}" for n, query in enumerate(offered, 1))


@dataclass(frozen=True, slots=True)
class SupportModel:
    """The model that reformulates a conversation, and chooses among offered queries in the place of the user."""

    role: Role

    async def reformulate(self, ctx: Context, view: ReformulatorView, turn: int) -> str:
        language = language_of(view.conversation.first_query)
        return await ctx.step(
            self.role.step(
                ctx,
                f"reformulate/{turn}",
                "reformulate",
                language,
                OneLine(),
                policy=PATIENT,
                conversation=conversation_text(view.conversation, "questions", language),
            )
        )

    async def select(self, ctx: Context, view: SelectorView, turn: int) -> int:
        language = language_of(view.fused_query)
        return await ctx.step(
            self.role.step(
                ctx,
                f"select/{turn}",
                "select_query",
                language,
                Choice(view.offered),
                on_record=("clear_query",),
                policy=PATIENT,
                clear_query=view.fused_query,
                conversation=conversation_text(view.conversation, "queries", language),
                offered_queries=numbered_queries(view.offered),
            )
        )
