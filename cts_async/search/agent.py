"""The WebDancer loop: think, call tools, read their responses, and end with an answer.

A turn is a step, and so is every piece of a tool call: an interrupted search resumes in mid-conversation. The
loop stops at a turn without a call; at the budget's last call, or where the conversation has no more room, the
answer is demanded, and the trace says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import ContentRefused, RejectedError, UnusableOutput
from cts_async.llm.messages import Message, input_tokens
from cts_async.llm.model import Model
from cts_async.records import Language, ToolUse, Trace, Turn
from cts_async.search.tools import AgentSettings, Lost, Toolbox
from cts_async.search.turn_format import (
    InvalidCall,
    SearchCall,
    ToolCall,
    VisitCall,
    final_answer,
    format_tool_response,
    merge_tool_responses,
    parse_turn,
    turn_grammar,
    unmarked,
)

# --- Talk


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


# --- Repeats


class Repeats:
    """Counts identical calls whose responses can still be read."""

    def __init__(self) -> None:
        self._turns: dict[SearchCall | VisitCall, list[str]] = {}

    def count(self, call: SearchCall | VisitCall, turn: str, talk: Talk) -> int:
        """Note that `call` is made in `turn`; how often it was made by now, 1 for the first time.

        A call whose response was left out since, to make room, may be made anew.
        """
        shown = [before for before in self._turns.get(call, []) if before == turn or talk.shows(before)]
        self._turns[call] = [*shown, turn]
        return len(self._turns[call])


# --- Agent


MAX_CALLS: Final = 10
"""Tool calls of one turn that are answered."""
_DEMAND: Final[dict[Language, str]] = {
    "en": "Answer with the facts above, inside <answer></answer>. No tool calls are left.",
    "zh": "请根据以上信息作答，写在<answer></answer>中。不能再调用工具。",
}
_QUESTION: Final[dict[Language, str]] = {"en": "Question: ", "zh": "问题："}


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
            before = " before the <tool_response>, which only tools may write" if turn.made_up else ""
            raise UnusableOutput(
                f"there is neither a tool call nor an <answer> outside your thoughts{before}", text=text
            )
        return text


@dataclass(frozen=True, slots=True)
class Agent:
    """A model with tools."""

    model: Model
    tools: Toolbox
    settings: AgentSettings
    takes_empty: bool = False
    """Whether a search whose last turn cannot be used ends with an empty answer; otherwise it fails."""

    async def run(
        self,
        ctx: Context,
        question: str,
        opening: Sequence[Message],
        language: Language,
        request: Mapping[str, Any],
        *,
        anew: bool = False,
    ) -> Trace:
        """Search for `question`, which the opening messages put; `request` describes them in the journal.

        `anew` tries again what the agent was once told had failed: what follows may be another conversation.
        """
        reminder = f"\n{_QUESTION[language]}{unmarked(question)}" if self.settings.repeat_question else ""
        talk = Talk(opening, request, reminder=reminder, limit=self.settings.max_input_tokens)
        search = _Search(self, ctx, talk, _DEMAND[language], anew=anew)
        for number in range(1, self.settings.max_turns + 1):
            try:
                text, forced = await search.turn(number)
            except UnusableOutput:
                if not self.takes_empty:
                    raise
                await search.gone_on()
                forced = any(turn.kind == "forced" for turn in talk.turns)
                return talk.ended("", number, forced=forced)
            await search.gone_on()
            turn = parse_turn(text)
            talk.turns.extend(Turn("think", thought) for thought in turn.thoughts)
            if turn.made_up:
                talk.turns.append(Turn("made_up", turn.made_up))
            if forced or not turn.calls:
                return talk.ended(turn.own, number, forced=forced and number > 1)
            await search.call_tools(turn.calls, turn.own, number)
        raise AssertionError("the last turn returns")


class _Search:
    """One search under way."""

    def __init__(self, agent: Agent, ctx: Context, talk: Talk, demand: str, *, anew: bool) -> None:
        self._agent, self._ctx, self._talk, self._demand, self._anew = agent, ctx, talk, demand, anew
        self._repeats = Repeats()
        self._untold: Step[Any] | None = None

    async def turn(self, number: int) -> tuple[str, bool]:
        """What the model says, and whether it had to be an answer.

        A server that finds the conversation too long is asked again with less of it.
        """
        talk, last = self._talk, number == self._agent.settings.max_turns
        while True:
            forced = (not talk.make_room() and number > 1) or last
            if forced and number > 1:
                talk.demand(self._demand)
            try:
                return await self._ask(number, must_answer=forced), forced
            except RejectedError as refused:
                if not talk.shrink(refused):
                    raise

    async def _ask(self, number: int, *, must_answer: bool) -> str:
        model, settings, talk = self._agent.model, self._agent.settings, self._talk
        grammar = None
        if model.spec.structured == "llama":
            # A tiny model would rather answer at once: its first turn is held to a call.
            grammar = turn_grammar(
                settings.think_chars,
                settings.answer_chars,
                must_answer,
                talk.links(settings.urls_offered),
                must_call=number == 1,
            )
        return await model.ask(
            self._ctx,
            f"search/turn/{number}",
            talk.messages,
            AgentTurn(must_answer, grammar),
            request=talk.news,
            key_on=talk.digest,
        )

    async def gone_on(self) -> None:
        """Record the failures that the agent was told of: only once it has gone on are they part of the talk."""
        if self._untold:
            await self._ctx.step(self._untold)
        self._untold = None

    async def call_tools(self, calls: Sequence[ToolCall], text: str, number: int) -> None:
        """Answer the calls of a turn, one after the other."""
        key = step_key("told", self._ctx.job.id, self._talk.digest, text)
        before: Mapping[str, Lost] = (None if self._anew else await self._ctx.recall(key)) or {}
        lost: dict[str, Lost] = {}
        responses = []
        for i, call in enumerate(calls[: MAX_CALLS + 1], 1):
            told, new = await self._call(call, f"{number}.{i}", before)
            responses.append(format_tool_response(told))
            lost.update(new)
        self._talk.said(text, merge_tool_responses(responses), f"search/turn/{number}")
        self._untold = _failures_told(f"search/told/{number}", key, lost) if lost else None

    async def _call(
        self, call: ToolCall, name: str, before: Mapping[str, Lost]
    ) -> tuple[str, dict[str, Lost]]:
        """What the agent reads in response; a failure is said, and not remembered as a result."""
        talk = self._talk
        turn, _, i = name.partition(".")
        if int(i) > MAX_CALLS:
            call = InvalidCall(f"it is one of more than {MAX_CALLS} in a turn; none after these was made", "")
        if isinstance(call, InvalidCall):
            text = f"Error: this tool call could not be read: {call.reason}"
            talk.turns.append(Turn("invalid", text, call.raw))
            return text, {}
        asked = _asked(call)
        times = self._repeats.count(call, f"search/turn/{turn}", talk)
        if times > 2:
            text = "This is the same call again; its result stands above. Ask something else, or answer."
            talk.turns.append(Turn("repeated", text, asked))
            return text, {}
        prefix = f"{i}/"
        own = {piece.removeprefix(prefix): of for piece, of in before.items() if piece.startswith(prefix)}
        told = await self._agent.tools.use(self._ctx, call, name, own)
        talk.used(told.use)
        note = (
            "(You made this call before; its result is the same.)\n" if times == 2 and not told.lost else ""
        )
        kind: Literal["search", "visit"] = "search" if isinstance(call, SearchCall) else "visit"
        talk.turns.append(Turn(kind, note + told.text, asked, told.sources))
        return note + told.text, {f"{prefix}{piece}": of for piece, of in told.lost.items()}


def _failures_told(name: str, key: str, lost: Mapping[str, Lost]) -> Step[Any]:
    """The record that the agent was told of failures: a resumed search must not tell it otherwise."""

    async def execute(_: UnusableOutput | None) -> Executed:
        return Executed(lost)

    return Step(name=name, key=key, execute=execute, decode=dict)


def _asked(call: SearchCall | VisitCall) -> str:
    return " | ".join(call.queries) if isinstance(call, SearchCall) else " ".join(call.urls)
