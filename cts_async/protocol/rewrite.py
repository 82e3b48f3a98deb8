"""The Rewriter: one retrieval-ready sentence from q and the elicited pairs (paper, prompt C)."""

from __future__ import annotations

from cts_async.engine.runner import Context
from cts_async.llm.parsing import OneLine
from cts_async.protocol.role import Role
from cts_async.protocol.views import RewriterView
from cts_async.records import Language, language_of

_LABELS: dict[Language, tuple[str, str]] = {"en": ("Question", "Answer"), "zh": ("问题", "回答")}


async def rewrite(ctx: Context, rewriter: Role, view: RewriterView) -> str:
    """The rewritten query q-hat: one non-empty line."""
    language = language_of(view.blurred_query)
    return await rewriter.ask(
        ctx,
        "rewrite",
        "rewrite",
        language,
        OneLine(),
        blurred_query=view.blurred_query,
        qa_pairs=qa_pairs(view, language),
    )


def qa_pairs(view: RewriterView, language: Language) -> str:
    """The pairs as numbered lines of text."""
    asked, answered = _LABELS[language]
    return "\n".join(
        f"{asked} {i}: {question}\n{answered} {i}: {reply}"
        for i, (question, reply) in enumerate(view.pairs, 1)
    )
