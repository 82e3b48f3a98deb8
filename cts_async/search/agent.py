"""The WebDancer loop: think, call tools, read their responses, and end with an answer.

A turn is a step, and so is every piece of a tool call: an interrupted search resumes in mid-conversation. The
loop stops at a turn without a call. At the budget's last call, or when the conversation has no more room, the
answer is demanded, and the trace says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import PromptTooLong, UnusableOutput
from cts_async.llm.apis import Message
from cts_async.llm.json_text import split_thoughts, unknown_mark_problem
from cts_async.llm.model import Model, ModelCall, input_tokens
from cts_async.records import Language, ToolUse, Trace, Turn
from cts_async.search.tools import AgentSettings, Tools, Unrecorded, total_use
from cts_async.search.turn_format import (
    InvalidCall,
    ParsedTurn,
    SearchCall,
    ToolCall,
    VisitCall,
    escape_marks,
    final_answer,
    format_tool_response,
    parse_turn,
    turn_grammar,
)
from cts_async.tagged_text import TAG_NAMES
from cts_async.thoughts import unknown_mark

MAX_CALLS: Final = 10
"""Tool calls of one turn that are answered."""
_DEMAND: Final[dict[Language, str]] = {
    "en": "Answer with the facts above, inside <answer></answer>. No tool calls are left.",
    "zh": "请根据以上信息作答，写在<answer></answer>中。不能再调用工具。",
}
_QUESTION: Final[dict[Language, str]] = {"en": "Question: ", "zh": "问题："}
_LEFT_OUT: Final = format_tool_response("(left out to make room; ask again if you still need it)")
_SHRINK: Final = 0.75
"""The new limit after a server refused the conversation as too long, as a share of its estimated length."""
_LINK: Final = re.compile(r"\]\((https?://[^\s)]+)\)")

# --- The conversation


@dataclass(slots=True)
class _Response:
    """The tool response to the turn (step) `turn`, at index `at` of the messages."""

    turn: str
    at: int
    dropped: bool = False


class History:
    """The conversation so far: messages, their digest, and the turns of the trace.

    When the estimated length exceeds the limit, the oldest tool responses are replaced by one line that says so.
    They stay out, and which ones depends on the conversation alone, so that a resumed search drops the same ones.
    """

    def __init__(
        self,
        opening: Sequence[Message],
        request: Mapping[str, Any],
        *,
        reminder: str = "",
        limit: float | None = None,
    ) -> None:
        """`limit` is in estimated tokens, None for no limit; `reminder` follows every tool response."""
        self.messages = list(opening)
        self.request = request
        """How the journal describes the next turn: only what no earlier step has stored."""
        self.digest = step_key(opening)
        self.turns: list[Turn] = []
        self.uses: list[ToolUse] = []
        self._reminder, self._limit = reminder, limit
        self._links: dict[str, None] = {}
        self._responses: list[_Response] = []
        self._calls: dict[SearchCall | VisitCall, list[str]] = {}
        self._demand = ""

    def append(self, text: str, response: str, turn: str) -> None:
        """Append the agent's turn, recorded as the step `turn`, and the response of the tools."""
        response += self._reminder
        self.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": response}]
        self._responses.append(_Response(turn, len(self.messages) - 1))
        self.digest = step_key(self.digest, text, response)
        self.request = {"after": turn}
        for link in _LINK.findall(response):
            self._links.setdefault(link)

    def links(self, latest: int) -> list[str]:
        """Return the latest links that tools have shown."""
        return list(self._links)[-latest:]

    def count(self, call: SearchCall | VisitCall, turn: str) -> int:
        """Count how often `call` was made including now, in `turn`; calls with a dropped response do not count."""
        dropped = {response.turn for response in self._responses if response.dropped}
        self._calls[call] = [*(before for before in self._calls.get(call, ()) if before not in dropped), turn]
        return len(self._calls[call])

    def make_room(self) -> bool:
        """Drop the oldest tool responses as far as needed. False if even that does not suffice.

        The latest one is dropped last. Without it the agent cannot continue, so that counts as no room either.
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
            self.request = {**self.request, "dropped": [*self.request.get("dropped", ()), *dropped]}
        latest_dropped = bool(self._responses) and self._responses[-1].dropped
        return self._fits() and not latest_dropped

    def shrink(self) -> bool:
        """Lower the limit after a server refused the conversation as too long; False if nothing can be dropped."""
        if all(response.dropped for response in self._responses):
            return False
        self._limit = _SHRINK * input_tokens(self.messages)
        return True

    def demand_answer(self, text: str) -> None:
        """Append the demand `text` to the latest message, once."""
        if self._demand:
            return
        self._demand = f"\n{text}"
        last = self.messages[-1]
        self.messages[-1] = {"role": last["role"], "content": last["content"] + self._demand}
        self.digest = step_key(self.digest, text)
        self.request = {**self.request, "demand": text}
        self.turns.append(Turn("forced", text))

    def finish(self, text: str, model_calls: int, *, forced: bool) -> Trace:
        """Return the trace of a search that ends with the turn `text`."""
        answer, found = final_answer(text)
        self.turns.append(Turn("answer", answer))
        return Trace(tuple(self.turns), answer, found, model_calls, forced, total_use(self.uses))

    def _fits(self) -> bool:
        return self._limit is None or input_tokens(self.messages) <= self._limit

    def _drop(self, response: _Response) -> None:
        response.dropped = True
        message = self.messages[response.at]
        latest = response is self._responses[-1]
        rest = self._reminder + self._demand if latest else ""
        self.messages[response.at] = {"role": message["role"], "content": _LEFT_OUT + rest}
        self.turns.append(Turn("dropped", _LEFT_OUT, response.turn))


# --- The loop


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """The form of a turn's reply: a readable tool call, or an answer; only an answer if `must_answer`."""

    must_answer: bool
    grammar: str | None = None
    json_schema: dict[str, Any] | None = None
    name: str = "turn"
    keeps_thoughts: ClassVar[bool] = True

    def parse(self, text: str) -> str:
        turn = parse_turn(text)
        answer, found = final_answer(text)
        tagged = bool(turn.calls) or found != "last_turn"
        # Text before a call or an answer is ignored; without their tags it would be the answer.
        mark = unknown_mark(split_thoughts(text)[1], frozenset(TAG_NAMES))
        if mark and not (tagged and mark[1:-1].isidentifier()):
            raise UnusableOutput(unknown_mark_problem(mark), text=text)
        if turn.calls and not self.must_answer:
            return text
        if not answer.strip():
            before = " before the <tool_response>, which only tools may write" if turn.made_up else ""
            raise UnusableOutput(
                f"there is neither a tool call nor an <answer> outside your thoughts{before}", text=text
            )
        return text


@dataclass(frozen=True, slots=True)
class Agent:
    """A model with tools."""

    model: Model
    tools: Tools
    settings: AgentSettings
    takes_empty: bool = False
    """End a search whose last turn is unusable with an empty answer, instead of failing it."""

    async def run(
        self,
        ctx: Context,
        question: str,
        opening: Sequence[Message],
        language: Language,
        request: Mapping[str, Any],
        *,
        retry_failures: bool = False,
    ) -> Trace:
        """Search for `question`, which the `opening` messages contain; `request` describes them in the journal.

        A resumed search repeats the tool failures that the agent has seen before, so that the paid conversation
        stays the same. With `retry_failures` it tries them again, and may become another conversation.
        """
        reminder = f"\n{_QUESTION[language]}{escape_marks(question)}" if self.settings.repeat_question else ""
        history = History(opening, request, reminder=reminder, limit=self.settings.max_input_tokens)
        unrecorded: Step[Any] | None = None
        for number in range(1, self.settings.max_turns + 1):
            text = None
            try:
                text, forced = await self._turn(ctx, history, number, _DEMAND[language])
            except UnusableOutput:
                if not self.takes_empty:
                    raise
                forced = any(turn.kind == "forced" for turn in history.turns)
            if unrecorded:
                # The agent has continued from these failures: from now on a resumed search must repeat them.
                await ctx.step(unrecorded)
            if text is None:
                return history.finish("", number, forced=forced)
            turn = parse_turn(text)
            history.turns.extend(Turn("think", thought) for thought in turn.thoughts)
            if turn.made_up:
                history.turns.append(Turn("made_up", turn.made_up))
            if forced or not turn.calls:
                return history.finish(turn.own, number, forced=forced and number > 1)
            key = step_key("told", ctx.job.id, history.digest, turn.own)
            before = None if retry_failures else await ctx.recall(key)
            failures = await self._call_tools(ctx, history, turn, number, before or {})
            unrecorded = _failures_step(f"search/told/{number}", key, failures) if failures else None
        raise AssertionError("the last turn returns")

    async def _turn(self, ctx: Context, history: History, number: int, demand: str) -> tuple[str, bool]:
        """Return the model's turn, and True if it had to be an answer.

        A server that refuses the conversation as too long is asked again with a shorter one.
        """
        while True:
            forced = (not history.make_room() and number > 1) or number == self.settings.max_turns
            if forced and number > 1:
                history.demand_answer(demand)
            try:
                return await self._ask(ctx, history, number, must_answer=forced), forced
            except PromptTooLong:
                if not history.shrink():
                    raise

    async def _ask(self, ctx: Context, history: History, number: int, *, must_answer: bool) -> str:
        settings = self.settings
        grammar = None
        if self.model.spec.structured == "llama":
            # A tiny model prefers to answer at once, without a search: its first turn has to be a call.
            grammar = turn_grammar(
                settings.think_chars,
                settings.answer_chars,
                must_answer,
                history.links(settings.urls_offered),
                must_call=number == 1,
            )
        call = ModelCall(
            f"search/turn/{number}",
            history.messages,
            AgentTurn(must_answer, grammar),
            history.request,
            key_on=history.digest,
        )
        return await self.model.ask(ctx, call)

    async def _call_tools(
        self, ctx: Context, history: History, turn: ParsedTurn, number: int, before: Mapping[str, Unrecorded]
    ) -> dict[str, Unrecorded]:
        """Answer the calls of a turn, one after the other; return what no step recorded, by piece."""
        failures: dict[str, Unrecorded] = {}
        responses = []
        for i, call in enumerate(turn.calls[: MAX_CALLS + 1], 1):
            response, new = await self._call(ctx, history, call, number, i, before)
            responses.append(format_tool_response(response))
            failures.update(new)
        history.append(turn.own, "\n".join(responses), f"search/turn/{number}")
        return failures

    async def _call(
        self,
        ctx: Context,
        history: History,
        call: ToolCall,
        number: int,
        i: int,
        before: Mapping[str, Unrecorded],
    ) -> tuple[str, dict[str, Unrecorded]]:
        """Answer call `i` of turn `number`: the response, and what no step recorded, by piece."""
        if i > MAX_CALLS:
            call = InvalidCall(f"it is one of more than {MAX_CALLS} in a turn; none after these was made", "")
        if isinstance(call, InvalidCall):
            text = f"Error: this tool call could not be read: {call.reason}"
            history.turns.append(Turn("invalid", text, call.raw))
            return text, {}
        kind: Literal["search", "visit"] = "search" if isinstance(call, SearchCall) else "visit"
        request = " | ".join(call.queries) if isinstance(call, SearchCall) else " ".join(call.urls)
        times = history.count(call, f"search/turn/{number}")
        if times > 2:
            text = "This is the same call again; its result stands above. Ask something else, or answer."
            history.turns.append(Turn("repeated", text, request))
            return text, {}
        prefix = f"{i}/"
        own = {piece.removeprefix(prefix): why for piece, why in before.items() if piece.startswith(prefix)}
        result = await self.tools.use(ctx, call, f"{number}.{i}", own)
        history.uses.append(result.use)
        text = result.text
        if times == 2 and not result.unrecorded:
            text = f"(You made this call before; its result is the same.)\n{text}"
        history.turns.append(Turn(kind, text, request, result.sources))
        return text, {f"{prefix}{piece}": why for piece, why in result.unrecorded.items()}


def _failures_step(name: str, key: str, failures: Mapping[str, Unrecorded]) -> Step[Any]:
    """The step that records the tool failures of a turn; it calls nothing."""

    async def execute(_: UnusableOutput | None) -> Executed:
        return Executed(failures)

    return Step(name=name, key=key, execute=execute, decode=dict)
