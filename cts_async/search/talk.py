"""A conversation of the agent: what was said, its digest, and the room that is left for more.

Where the estimate of its length exceeds the limit, the oldest tool responses make room: each is replaced by one
line that says so. What is left out stays out, and depends on nothing but the conversation itself, so that a
resumed search leaves out the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cts_async.engine.step import step_key
from cts_async.errors import ContentRefused, RejectedError
from cts_async.llm.messages import Message, input_tokens
from cts_async.records import ToolUse, Trace, Turn
from cts_async.search.tags import final_answer, format_tool_response

LEFT_OUT: Final = format_tool_response("(left out to make room; ask again if you still need it)")
SHRINK: Final = 0.75
"""Where a server finds the conversation too long, it may have so much of its estimated length."""
_LINK: Final = re.compile(r"\]\((https?://[^\s)]+)\)")
_TOO_LONG: Final = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|(?:prompt|input|messages?)[^.]{0,40}too long"
    r"|too many (?:input )?tokens|range of input length|(?:model )?token limit|input length|max_prompt_tokens",
    re.IGNORECASE,
)
"""How servers say that a conversation is too long: OpenAI, vLLM, sglang, llama.cpp, Anthropic, DashScope, Moonshot."""


@dataclass(slots=True)
class _Response:
    """Where the tool response to a turn stands, unless it was left out."""

    turn: str
    at: int
    dropped: bool = False


class Talk:
    """Messages with their digest; `news` is what of them no earlier step has stored.

    `limit` is in estimated tokens, None where there is none; `reminder` follows every tool response.
    """

    def __init__(
        self,
        opening: Sequence[Message],
        news: Mapping[str, Any],
        *,
        reminder: str = "",
        limit: float | None = None,
    ) -> None:
        self.messages, self.news = list(opening), news
        self.digest = step_key(opening)
        self.turns: list[Turn] = []
        self.use = ToolUse()
        self._reminder, self._limit = reminder, limit
        self._links: list[str] = []
        self._responses: list[_Response] = []
        self._demand = ""

    def said(self, text: str, response: str, turn: str) -> None:
        """The agent's turn, a step of that name, and what the tools gave back; the journal has both already."""
        response += self._reminder
        self.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": response}]
        self._responses.append(_Response(turn, len(self.messages) - 1))
        self.digest = step_key(self.digest, text, response)
        self.news = {"after": turn}
        for link in _LINK.findall(response):
            if link not in self._links:
                self._links.append(link)

    def used(self, use: ToolUse) -> None:
        """Add up what was asked of the tools."""
        mine = self.use
        self.use = ToolUse(
            mine.searches + use.searches,
            mine.visits + use.visits,
            mine.failures + use.failures,
            mine.lexical + use.lexical,
        )

    def links(self, latest: int) -> list[str]:
        """The latest links that tools have shown."""
        return self._links[-latest:]

    def shows(self, turn: str) -> bool:
        """Whether the tool response to `turn` is still there to be read."""
        return any(response.turn == turn and not response.dropped for response in self._responses)

    def make_room(self) -> bool:
        """Leave out the oldest tool responses as far as needed. False if even that does not suffice.

        The latest one is the last to go, and without it the agent cannot go on: then it is to answer.
        """
        dropped = []
        for response in self._responses:
            if self._fits():
                break
            if not response.dropped:
                self._drop(response)
                dropped.append(response.turn)
        if dropped:
            self.digest = step_key(self.digest, "dropped", dropped)
            self.news = {**self.news, "dropped": [*self.news.get("dropped", ()), *dropped]}
        latest_gone = bool(self._responses) and self._responses[-1].dropped
        return self._fits() and not latest_gone

    def shrink(self, refused: RejectedError) -> bool:
        """Set a lower limit if a server `refused` for the conversation's length; False if nothing can go."""
        if isinstance(refused, ContentRefused):
            return False
        if not _TOO_LONG.search(str(refused)) or all(response.dropped for response in self._responses):
            return False
        self._limit = SHRINK * input_tokens(self.messages)
        return True

    def demand(self, text: str) -> None:
        """Tell the agent, once, to answer now, at the end of the latest message."""
        if self._demand:
            return
        self._demand = f"\n{text}"
        last = self.messages[-1]
        self.messages[-1] = {"role": last["role"], "content": last["content"] + self._demand}
        self.digest = step_key(self.digest, text)
        self.news = {**self.news, "demand": text}
        self.turns.append(Turn("forced", text))

    def ended(self, text: str, calls: int, *, forced: bool) -> Trace:
        """The trace of a search that ends with the turn `text`."""
        answer, found = final_answer(text)
        self.turns.append(Turn("answer", answer))
        return Trace(tuple(self.turns), answer, found, calls, forced, self.use)

    def _fits(self) -> bool:
        return self._limit is None or input_tokens(self.messages) <= self._limit

    def _drop(self, response: _Response) -> None:
        response.dropped = True
        before = self.messages[response.at]
        latest = response is self._responses[-1]
        left = LEFT_OUT + (self._reminder + self._demand if latest else "")
        self.messages[response.at] = {"role": before["role"], "content": left}
        self.turns.append(Turn("dropped", LEFT_OUT, response.turn))
