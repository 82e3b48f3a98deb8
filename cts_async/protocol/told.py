"""A conversation as its prompts show it: one line for each thing said, so that nobody's words run together."""

from __future__ import annotations

from typing import Final, Literal

from cts_async.protocol.views import Conversation
from cts_async.records import Language

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
