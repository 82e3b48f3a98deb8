"""The User Answerer: one short phrase from q* for one question, or `unknown` (paper, prompt B)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cts_async.engine.runner import Context
from cts_async.llm.structured import ShortPhrase
from cts_async.protocol.role import Role
from cts_async.protocol.views import AnswererView
from cts_async.records import Answer, language_of


class Answerer(Protocol):
    """Who answers the Clarifier's questions in the place of the user."""

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """The answer to question number `turn` (from 1) of the instance that `ctx` works on."""


@dataclass(frozen=True, slots=True)
class ModelAnswerer:
    """The User Answerer as the paper has it: a model that knows the intent."""

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
