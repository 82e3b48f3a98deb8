"""The user who answers: one short phrase from q* for one question, or `unknown`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cts_async.engine.runner import Context
from cts_async.llm.parsing import ShortPhrase
from cts_async.protocol.role import Role
from cts_async.protocol.schemes import PATIENT
from cts_async.protocol.told import told
from cts_async.protocol.views import AnswererView
from cts_async.records import Answer, language_of


class Answerer(Protocol):
    """Who answers the Clarifier's questions in the place of the user."""

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """The answer to question number `turn` (from 1) of the instance that `ctx` works on.

        In mode "respond" the view has the conversation so far; who answers from a list need not look at it.
        """


@dataclass(frozen=True, slots=True)
class ModelAnswerer:
    """The User Answerer as CTS has it (prompt B): a model that knows the intent, and of the rest one question."""

    role: Role

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """A short phrase from q*, or `unknown`."""
        return await self.role.ask(
            ctx,
            f"answer/{turn}",
            "answer",
            language_of(view.fused_query),
            ShortPhrase(),
            on_record=("clear_query",),
            clear_query=view.fused_query,
            clarification_question=view.question,
        )


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
