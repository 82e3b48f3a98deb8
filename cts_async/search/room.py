"""Room in a conversation as WebDancer's demo makes it: tool responses are cut in their middle, the oldest first.

The demo shortens the conversation anew for each model call, and so does this: what is cut depends on the whole
conversation and the limit alone, and a later call may see less of a response than an earlier one did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cts_async.llm.apis import Message
from cts_async.llm.model import FIRST_PER_BYTE, input_tokens

OMITTED: Final = "omit"
"""The demo's word in the place of a tool result."""
_GAP: Final = "..."
_RESPONSE: Final = re.compile(r"(?<=<tool_response>\n).*?(?=\n</tool_response>)", re.DOTALL)
"""A tool result. Foreign text in it is escaped, so only our own tags match."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A shortened conversation, and the indices of the original's tool responses that were cut, or are gone.

    `fits` is false if even without all of them it is too long.
    """

    messages: list[Message]
    cut: tuple[int, ...]
    gone: tuple[int, ...]
    fits: bool


def shorten(messages: Sequence[Message], n_opening: int, limit: float) -> Shortened:
    """Shorten a conversation to `limit` estimated tokens.

    Behind the first `n_opening` messages steps of two follow: the agent's turn, and the tools' response to it. In this
    order: responses before the last one are cut in their middle, or replaced by "omit"; whole steps before the last one
    go; the last response is cut likewise.
    """
    shortened = list(messages)
    response_indices = range(n_opening + 1, len(messages), 2)
    removed: set[int] = set()

    def excess() -> float:
        return input_tokens([m for i, m in enumerate(shortened) if i not in removed]) - limit

    def cut(index: int) -> None:
        message = shortened[index]
        content = _cut_results(message["content"], excess())
        shortened[index] = {"role": message["role"], "content": content}

    for index in response_indices[:-1]:
        if excess() <= 0:
            break
        cut(index)
    for index in response_indices[:-1]:
        if excess() <= 0:
            break
        removed.update((index - 1, index))
    for index in response_indices[-1:]:
        if excess() > 0:
            cut(index)
    cut_indices: list[int] = []
    gone_indices: list[int] = []
    for index in response_indices:
        if index in removed or _is_omitted(shortened[index]["content"]):
            gone_indices.append(index)
        elif shortened[index] != messages[index]:
            cut_indices.append(index)
    left = [message for index, message in enumerate(shortened) if index not in removed]
    return Shortened(left, tuple(cut_indices), tuple(gone_indices), excess() <= 0)


def _is_omitted(content: str) -> bool:
    results = _RESPONSE.findall(content)
    return bool(results) and all(result == OMITTED for result in results)


def _cut_results(content: str, excess_tokens: float) -> str:
    """Shorten the tool results in a message by so many estimated tokens, one after the other."""
    excess_bytes = excess_tokens / FIRST_PER_BYTE

    def cut(result: re.Match[str]) -> str:
        nonlocal excess_bytes
        text = result[0]
        if excess_bytes <= 0:
            return text
        n_bytes = len(text.encode(errors="replace"))
        shorter = _without_middle(text, n_bytes - excess_bytes)
        excess_bytes -= n_bytes - len(shorter.encode(errors="replace"))
        return shorter

    return _RESPONSE.sub(cut, content)


def _without_middle(text: str, max_bytes: float) -> str:
    """Both ends of a text, of so many bytes in UTF-8 together; "omit" where nothing would be left of them."""
    half = int((max_bytes - len(_GAP)) / 2)
    if half < len(OMITTED):
        return OMITTED
    data = text.encode(errors="replace")
    # A character that the cut goes through is left out.
    return data[:half].decode(errors="ignore") + _GAP + data[-half:].decode(errors="ignore")
