"""A reply's thoughts apart from its answer, where a server leaves both in one text.

Only thoughts at the very beginning are told apart: further on, a tag may be quoted from a page or a candidate.
"""

from __future__ import annotations

import re
from typing import Final

THOUGHT_TAGS: Final = frozenset({"think", "thinking", "thought"})
_NAMES: Final = "|".join(sorted(THOUGHT_TAGS))
_OPENED: Final = re.compile(rf"\s*<({_NAMES})>", re.IGNORECASE)
_CLOSED_ONLY: Final = re.compile(rf"\n</({_NAMES})>[ \t]*(?:\n|\Z)", re.IGNORECASE)
"""Where the template of the chat opened the thought: its end stands on a line of its own."""


def split_thoughts(text: str) -> tuple[str, str]:
    """Give (thoughts, answer); without thoughts the answer is `text` as it is.

    A thought that is never closed leaves no answer: it was cut off.
    """
    if "<" not in text:
        return "", text
    if opened := _OPENED.match(text):
        closing = re.compile(rf"</{opened[1]}>", re.IGNORECASE).search(text, opened.end())
        if closing is None:
            return text[opened.end() :].strip(), ""
        return text[opened.end() : closing.start()].strip(), text[closing.end() :].lstrip()
    closed = _CLOSED_ONLY.search(text)
    if closed is None or re.search(rf"<{closed[1]}>", text[: closed.start()], re.IGNORECASE):
        return "", text
    return text[: closed.start()].strip(), text[closed.end() :].lstrip()
