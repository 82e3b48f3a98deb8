"""The User Answerer: one short phrase from q* for one question, or `unknown` (paper, prompt B)."""

from __future__ import annotations

from cts_async.engine.runner import Context
from cts_async.llm.structured import ShortPhrase
from cts_async.protocol.role import Role
from cts_async.protocol.views import AnswererView
from cts_async.records import Answer, language_of


async def answer(ctx: Context, answerer: Role, view: AnswererView, turn: int) -> Answer:
    """The answer to question number `turn` (from 1)."""
    return await answerer.ask(
        ctx,
        f"answer/{turn}",
        "answer",
        language_of(view.fused_query),
        ShortPhrase(),
        on_record=("clear_query",),
        clear_query=view.fused_query,
        clarification_question=view.question,
    )
