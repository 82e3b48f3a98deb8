"""The WebDancer loop: think, call tools, read their responses, and end with an answer.

A turn is a step, and so is each tool call: an interrupted search resumes in mid-conversation. The loop
stops at a turn without a call; at the budget's last call the answer is demanded, and the trace says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cts_async.engine.lane import Lane
from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import ToolError, UnusableOutput
from cts_async.llm.messages import Message
from cts_async.llm.model import Model
from cts_async.records import Language, Trace, Turn
from cts_async.search.backends import Backend
from cts_async.search.tags import (
    InvalidCall,
    ParsedTurn,
    SearchCall,
    VisitCall,
    final_answer,
    format_tool_response,
    merge_tool_responses,
    parse_turn,
    turn_grammar,
)
from cts_async.search.tools import ToolResult, run_search, run_visit

_DEMAND: Final[dict[Language, str]] = {
    "en": "Answer with the facts above, inside <answer></answer>. No tool calls are left.",
    "zh": "请根据以上信息作答，写在<answer></answer>中。不能再调用工具。",
}
_QUESTION: Final[dict[Language, str]] = {"en": "Question: ", "zh": "问题："}
_LINK: Final = re.compile(r"\]\((https?://[^\s)]+)\)")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Budgets of one search. WebDancer's demo allows 20 model calls and shows 10 results a query."""

    max_turns: int = 20
    results_per_query: int = 10
    snippet_chars: int = 240
    page_chars: int = 4000
    """Characters of a page that a visit gives back at most."""
    think_chars: int = 200
    answer_chars: int = 600
    """Bounds for a constrained model's thoughts and answers; free models have none."""
    urls_offered: int = 6
    """How many of the latest links a constrained model may choose from."""
    repeat_question: bool = False
    """Repeat the question after every tool response: a tiny model has lost it by then."""


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """What a turn must be: a readable call, or an answer to take."""

    must_answer: bool
    grammar: str | None = None
    json_schema: dict[str, Any] | None = None
    name: str = "turn"
    keeps_thoughts: ClassVar[bool] = True

    def parse(self, text: str) -> str:
        turn = parse_turn(text)
        if turn.calls and not self.must_answer:
            return text
        if not final_answer(text)[0].strip():
            raise UnusableOutput(
                "there is neither a tool call nor an <answer> outside your thoughts", text=text
            )
        return text


@dataclass(frozen=True, slots=True)
class Agent:
    """A model with tools. `tool_lane` paces the tools where the backend needs it."""

    model: Model
    backend: Backend
    documents: str
    """What the backend searches, as a digest: other documents make other steps."""
    settings: AgentSettings
    tool_lane: Lane | None = None

    async def run(
        self,
        ctx: Context,
        question: str,
        opening: Sequence[Message],
        language: Language,
        request: Mapping[str, Any],
    ) -> Trace:
        """Search for `question`, which the opening messages put; `request` describes them in the journal."""
        reminder = f"\n{_QUESTION[language]}{question}" if self.settings.repeat_question else ""
        talk = _Talk(list(opening), step_key(opening), request, reminder)
        budget = self.settings.max_turns
        for number in range(1, budget + 1):
            forced = number == budget
            if forced and number > 1:
                talk.demand(_DEMAND[language])
            text = await self._turn(ctx, talk, number, must_answer=forced)
            turn = parse_turn(text)
            talk.turns.extend(Turn("think", thought) for thought in turn.thoughts)
            if forced or not turn.calls:
                return talk.ended(text, number, forced=forced and number > 1)
            await self._call_tools(ctx, talk, turn, text, number)
        raise AssertionError("the last turn returns")

    async def _turn(self, ctx: Context, talk: _Talk, number: int, *, must_answer: bool) -> str:
        settings = self.settings
        grammar = None
        if self.model.spec.structured == "llama":
            # A tiny model would rather answer at once: its first turn is held to a call.
            grammar = turn_grammar(
                settings.think_chars,
                settings.answer_chars,
                must_answer,
                talk.links(settings.urls_offered),
                must_call=number == 1,
            )
        return await self.model.ask(
            ctx,
            f"search/turn/{number}",
            talk.messages,
            AgentTurn(must_answer, grammar),
            request=talk.news,
            key_on=talk.digest,
        )

    async def _call_tools(self, ctx: Context, talk: _Talk, turn: ParsedTurn, text: str, number: int) -> None:
        responses = []
        for i, call in enumerate(turn.calls, 1):
            result = await self._tool(ctx, call, f"search/tool/{number}.{i}")
            responses.append(format_tool_response(result))
            talk.turns.append(_told(call, result))
        talk.said(text, merge_tool_responses(responses), f"search/turn/{number}")

    async def _tool(self, ctx: Context, call: SearchCall | VisitCall | InvalidCall, name: str) -> str:
        """What the agent reads in response; a failure is said, and not remembered as a result."""
        if isinstance(call, InvalidCall):
            return f"Error: this tool call could not be read: {call.reason}"
        asked = _asked(call)

        async def execute(_: UnusableOutput | None) -> Executed:
            result = await self._perform(call)
            return Executed({"text": result.text, "failures": result.failures})

        step = Step(
            name=name,
            key=step_key("tool", ctx.job.id, self.documents, self._bounds(), asked),
            execute=execute,
            decode=lambda response: str(response["text"]),
            request=asked,
            lane=self.tool_lane,
        )
        try:
            return await ctx.step(step)
        except ToolError as error:
            return f"Error: {error}"

    async def _perform(self, call: SearchCall | VisitCall) -> ToolResult:
        if isinstance(call, SearchCall):
            return await run_search(self.backend, call, self.settings.results_per_query)
        return await run_visit(self.backend, call, self.settings.page_chars)

    def _bounds(self) -> tuple[int, int, int]:
        settings = self.settings
        return settings.results_per_query, settings.snippet_chars, settings.page_chars


class _Talk:
    """The conversation so far, its digest, and what of it no earlier step has stored."""

    def __init__(self, messages: list[Message], digest: str, news: Mapping[str, Any], reminder: str) -> None:
        self.messages, self.digest, self.news = messages, digest, news
        self._reminder = reminder
        self.turns: list[Turn] = []
        self._links: list[str] = []

    def said(self, text: str, response: str, step: str) -> None:
        """The agent's turn and what the tools gave back; both stand in the journal already."""
        response += self._reminder
        self.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": response}]
        self.digest = step_key(self.digest, text, response)
        self.news = {"after": step}
        for link in _LINK.findall(response):
            if link not in self._links:
                self._links.append(link)

    def demand(self, text: str) -> None:
        """Tell the agent to answer now, at the end of the latest tool response."""
        last = self.messages[-1]
        self.messages[-1] = {"role": last["role"], "content": f"{last['content']}\n{text}"}
        self.digest = step_key(self.digest, text)
        self.news = {**self.news, "demand": text}
        self.turns.append(Turn("forced", text))

    def links(self, latest: int) -> list[str]:
        return self._links[-latest:]

    def ended(self, text: str, calls: int, *, forced: bool) -> Trace:
        answer, found = final_answer(text)
        self.turns.append(Turn("answer", answer))
        return Trace(tuple(self.turns), answer, found, calls, forced)


def _asked(call: SearchCall | VisitCall) -> dict[str, Any]:
    if isinstance(call, SearchCall):
        return {"tool": "search", "query": call.queries}
    return {"tool": "visit", "url": call.urls, "goal": call.goal}


def _told(call: SearchCall | VisitCall | InvalidCall, result: str) -> Turn:
    if isinstance(call, SearchCall):
        return Turn("search", result, " | ".join(call.queries))
    if isinstance(call, VisitCall):
        return Turn("visit", result, " ".join(call.urls))
    return Turn("invalid", result, call.raw)
