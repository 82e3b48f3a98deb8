"""The Clarifier: k short questions from q alone, best first (paper, prompt A)."""

from __future__ import annotations

from cts_async.engine.runner import Context
from cts_async.llm.parsing import QuestionList
from cts_async.protocol.role import Role
from cts_async.protocol.views import ClarifierView
from cts_async.records import language_of


async def clarify(ctx: Context, clarifier: Role, view: ClarifierView) -> tuple[str, ...]:
    """Exactly `view.k` non-empty, distinct questions."""
    return await clarifier.ask(
        ctx,
        "clarify",
        "clarify",
        language_of(view.blurred_query),
        QuestionList(view.k),
        blurred_query=view.blurred_query,
        k=view.k,
    )
