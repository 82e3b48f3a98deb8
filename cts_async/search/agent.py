"""The WebDancer loop: think, call tools, read their responses, and end with an answer.

A turn is a step, and so is every piece of a tool call: an interrupted search resumes in mid-conversation. The
loop stops at a turn without a call, unless the agent has to ask the user more before it may answer: then it is told
so. At the budget's last call, or when the conversation has no more room, the answer is demanded, and the trace says
so. What became of a turn's calls is noted in the next turn's step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import PromptTooLong, Unanswered, UnusableOutput
from cts_async.foreign_json import as_object
from cts_async.llm.apis import Message
from cts_async.llm.json_text import split_thoughts, unknown_mark_problem
from cts_async.llm.model import Model, ModelCall, input_tokens
from cts_async.records import Delivered, Language, ToolUse, Trace, Turn
from cts_async.search.asking import AskSession, Injection
from cts_async.search.confidence import is_only_confidence, with_confidence
from cts_async.search.room import OMITTED, shorten
from cts_async.search.toolbox import (
    CallEvent,
    Toolbox,
    ToolCall,
    ToolWork,
    Unrecorded,
    open_toolbox,
    total_use,
)
from cts_async.search.toolbox.ask import EARLY, REFUSED, AskCall
from cts_async.search.tools import AgentSettings, Tools
from cts_async.search.turn_format import (
    InvalidCall,
    ParsedTurn,
    RequestedCall,
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
MAX_TIMES: Final = 2
"""How often the same call is executed while its response can still be read."""
TURN_STEP: Final = "search/turn/"
TOLD_STEP: Final = "search/told/"
_DEMAND: Final[dict[Language, str]] = {
    "en": "Answer with the facts above, inside <answer></answer>. No tool calls are left.",
    "zh": "请根据以上信息作答，写在<answer></answer>中。不能再调用工具。",
}
_QUESTION: Final[dict[Language, str]] = {"en": "Question: ", "zh": "问题："}
_LEFT_OUT: Final = format_tool_response("(left out to make room; ask again if you still need it)")
_SHRINK: Final = 0.75
"""The new limit after a server refused the conversation as too long, as a share of its estimated length."""
_STRICT: Final = AgentSettings()
CountTokens = Callable[[Sequence[Message]], float]
_LINK: Final = re.compile(r"\]\((https?://[^\s)]+)\)")

# --- The conversation


class _NoRoom(Exception):
    """The conversation has no room for another turn, and no answer is demanded."""


class CallTimes:
    """Counts how often a call was made with a response that the agent can still read."""

    def __init__(self) -> None:
        self._turns: dict[ToolCall, list[str]] = {}
        """By call, the turns that made it."""

    def count(self, call: ToolCall, turn: str, dropped: Container[str]) -> int:
        """Count `call` in the step `turn`; `dropped` are the turns whose responses were left out since."""
        turns = [before for before in self._turns.get(call, ()) if before not in dropped]
        turns.append(turn)
        self._turns[call] = turns
        return len(turns)


@dataclass(slots=True)
class _Response:
    """The tool response to the turn (step) `turn`, at index `at` of the messages."""

    turn: str
    at: int
    dropped: bool = False
    cut: bool = False
    """Whether it was cut in its middle."""
    injected: str = ""
    """What follows it for good: answers that were elicited before the search."""


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
        settings: AgentSettings = _STRICT,
        count_tokens: CountTokens = input_tokens,
    ) -> None:
        """`limit` is in tokens of `count_tokens`, None for no limit; `reminder` follows every tool response."""
        self._count_tokens = count_tokens
        self.messages = list(opening)
        self.sent_messages: Sequence[Message] = self.messages
        """What of them the next model call is sent."""
        self._n_opening, self._settings = len(self.messages), settings
        self.request = request
        """How the journal describes the next turn: only what no earlier step has stored."""
        self.digest = step_key(opening)
        self.turns: list[Turn] = []
        self.uses: list[ToolUse] = []
        self._reminder, self._limit = reminder, limit
        self._links: dict[str, None] = {}
        self._responses: list[_Response] = []
        self._times = CallTimes()
        self._events: list[CallEvent] = []
        """What became of the latest turn's calls."""
        self._demand = ""
        self.delivered: Delivered | None = None
        """As in Trace."""

    @property
    def notes(self) -> dict[str, Any] | None:
        """What the next turn's step notes: what became of the calls before it; None before the first ones."""
        if not self._events:
            return None
        return {"calls": [event.as_json() for event in self._events]}

    def append(self, text: str, response: str, turn: str, events: list[CallEvent]) -> None:
        """Append the agent's turn, recorded as the step `turn`, and the response of the tools.

        `events` are what became of its calls.
        """
        self._events = events
        response += self._reminder
        self.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": response}]
        self._responses.append(_Response(turn, len(self.messages) - 1))
        self.digest = step_key(self.digest, text, response)
        self.request = {"after": turn}
        for link in _LINK.findall(response):
            # In the order in which they were first shown; a dict keeps it, a set would not from one process to the next.
            self._links.setdefault(link)

    def inject(self, text: str, number: int) -> None:
        """Append answers that were elicited before the search to the latest message, before the turn `number`."""
        injected = f"\n{escape_marks(text)}"
        latest = self.messages[-1]
        self.messages[-1] = {"role": latest["role"], "content": latest["content"] + injected}
        # Of the opening nothing is left out; a tool response that is left out leaves it standing.
        if self._responses:
            self._responses[-1].injected = injected
        self.digest = step_key(self.digest, "injected", text)
        self.request = dict(self.request) | {"injected": text}
        self.turns.append(Turn("injected", text))
        self.delivered = Delivered(number)

    def links(self, latest: int) -> list[str]:
        """Return the latest links that tools have shown."""
        return list(self._links)[-latest:]

    def count(self, call: ToolCall, turn: str) -> int:
        """Count how often `call` was made including now, in `turn`; calls with a dropped response do not count."""
        return self._times.count(
            call, turn, {response.turn for response in self._responses if response.dropped}
        )

    def make_room(self) -> bool:
        """Drop the oldest tool responses as far as needed. False if even that does not suffice.

        The latest one is dropped last. Without it the agent cannot continue, so that counts as no room either.
        """
        if self._settings.cut_in_middle:
            return self._cut_in_middle()
        if self._settings.demand_in_place:
            return self._fits()
        dropped = []
        for response in self._responses:
            if self._fits():
                break
            if not response.dropped:
                self._drop(response)
                dropped.append(response.turn)
        if dropped:
            self.digest = step_key(self.digest, "dropped", dropped)
            # Recorded with the turn, since a trace is read from the journal alone.
            dropped_before = self.request.get("dropped", [])
            self.request = dict(self.request) | {"dropped": dropped_before + dropped}
        latest_dropped = bool(self._responses) and self._responses[-1].dropped
        return self._fits() and not latest_dropped

    def _cut_in_middle(self) -> bool:
        """Shorten what is sent as the published demo does, which needs no room for the whole conversation."""
        self.sent_messages = self.messages
        if self._fits() or self._limit is None:
            return True
        shortened = shorten(self.messages, self._n_opening, self._limit)
        self.sent_messages = shortened.messages
        for response in self._responses:
            if response.injected and not _contains(self.sent_messages, response.injected):
                # The step that it followed is gone; what the user said stays.
                opening = self.sent_messages[self._n_opening - 1]
                content = opening["content"] + response.injected
                shortened.messages[self._n_opening - 1] = {"role": opening["role"], "content": content}
        dropped: list[str] = []
        cut: list[str] = []
        for response in self._responses:
            if response.at in shortened.gone and not response.dropped:
                response.dropped = True
                dropped.append(response.turn)
                self.turns.append(Turn("dropped", OMITTED, response.turn))
            elif response.at in shortened.cut and not response.cut:
                response.cut = True
                cut.append(response.turn)
                self.turns.append(Turn("cut", "", response.turn))
        # Recorded with the turn, since a trace is read from the journal alone; each at the first turn that lacks it.
        for name, turns in (("dropped", dropped), ("cut", cut)):
            if turns:
                self.request = dict(self.request) | {name: self.request.get(name, []) + turns}
        return shortened.fits

    @property
    def key(self) -> str:
        """What stands for the conversation in the key of the next turn's step."""
        if self.sent_messages is self.messages:
            return self.digest
        # What was cut depends on the limit, too, which a server may have lowered.
        return step_key(self.digest, "cut", self._limit)

    def shrink(self) -> bool:
        """Lower the limit after a server refused the conversation as too long; False if nothing can be dropped."""
        if all(response.dropped for response in self._responses):
            return False
        if self._demand and self._settings.demand_in_place:
            return False  # nothing else is left out there
        self._limit = _SHRINK * self._count_tokens(self.sent_messages)
        return True

    def demand_answer(self, text: str) -> None:
        """Append the demand `text` to the latest message, or put it in its place (`demand_in_place`), once."""
        if self._demand:
            return
        self._demand = f"\n{text}"
        if self._settings.demand_in_place:
            self._replace_latest(text)
            return
        latest = self.messages[-1]
        self.messages[-1] = {"role": latest["role"], "content": latest["content"] + self._demand}
        self.digest = step_key(self.digest, text)
        self.request = dict(self.request) | {"demand": text}
        self.turns.append(Turn("forced", text))
        if self._settings.cut_in_middle:
            self._cut_in_middle()  # the demand has to be in what is sent

    def _replace_latest(self, demand: str) -> None:
        """Put the demand in the place of the latest tool response, which is the one that there is no room for."""
        latest = self._responses[-1]
        latest.dropped = True
        self.messages[latest.at] = {"role": "user", "content": demand}
        self.digest = step_key(self.digest, "in place", demand)
        self.request = dict(self.request) | {"dropped": [latest.turn], "demand": demand}
        self.turns += [Turn("dropped", "", latest.turn), Turn("forced", demand)]

    def finish(self, text: str, model_calls: int, *, forced: bool) -> Trace:
        """Return the trace of a search that ends with the turn `text`."""
        answer, answer_from = final_answer(text, after_thoughts=self._settings.calls_after_thoughts)
        self.turns.append(Turn("answer", answer))
        use = total_use(self.uses)
        return Trace(
            tuple(self.turns), answer, answer_from, model_calls, forced, use, delivered=self.delivered
        )

    def finish_unanswered(self, model_calls: int) -> Trace:
        """Return the trace of a search that ends without an answer, since none is demanded."""
        self.turns.append(Turn("unanswered", ""))
        return Trace(
            tuple(self.turns),
            "",
            "last_turn",
            model_calls,
            forced=False,
            tools=total_use(self.uses),
            delivered=self.delivered,
        )

    def _fits(self) -> bool:
        return self._limit is None or self._count_tokens(self.messages) <= self._limit

    def _drop(self, response: _Response) -> None:
        response.dropped = True
        message = self.messages[response.at]
        latest = response is self._responses[-1]
        content = _LEFT_OUT + response.injected
        # What else stands in the latest message has to stay: the agent is to act on it.
        if latest:
            content += self._reminder + self._demand
        self.messages[response.at] = {"role": message["role"], "content": content}
        self.turns.append(Turn("dropped", _LEFT_OUT, response.turn))


def _contains(messages: Sequence[Message], text: str) -> bool:
    return any(text in message["content"] for message in messages)


# --- The loop


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """The form of a turn's reply: a readable tool call, or an answer; only an answer if `must_answer`."""

    must_answer: bool
    grammar: str | None = None
    json_schema: dict[str, Any] | None = None
    name: str = "turn"
    keeps_thoughts: ClassVar[bool] = True
    after_thoughts: bool = False
    """As in `parse_turn`."""
    asks_confidence: bool = False
    """Whether the answer may end with a line that states a confidence, which alone is no answer."""

    def parse(self, text: str) -> str:
        turn = parse_turn(text, after_thoughts=self.after_thoughts)
        answer, answer_from = final_answer(text, after_thoughts=self.after_thoughts)
        tagged = bool(turn.calls) or answer_from != "last_turn"
        # Text before a call or an answer is ignored; without their tags it would be the answer.
        mark = unknown_mark(split_thoughts(text)[1], frozenset(TAG_NAMES))
        if mark and not (tagged and mark[1:-1].isidentifier()):
            raise UnusableOutput(unknown_mark_problem(mark), text=text)
        if turn.calls and not self.must_answer:
            return text
        if self.asks_confidence and is_only_confidence(answer):
            raise UnusableOutput("there is a confidence, but no answer before it", text=text)
        if not answer.strip():
            problem = "there is neither a tool call nor an <answer> outside your thoughts"
            if turn.made_up and not self.after_thoughts:
                problem += " before the <tool_response>, which only tools may write"
            raise UnusableOutput(problem, text=text)
        return text


@dataclass(frozen=True, slots=True)
class Agent:
    """A model with tools."""

    model: Model
    tools: Tools
    settings: AgentSettings
    takes_empty: bool = False
    """End a search whose last turn is unusable with an empty answer, instead of failing it."""
    toolbox: Toolbox = field(default_factory=open_toolbox)
    count_tokens: CountTokens = input_tokens
    """Counts the tokens of a conversation: an estimate, or the model's own tokenizer."""
    asks_confidence: bool = False
    """Its prompt asks for a line that says how sure it is, which is taken off its answer."""

    async def run(
        self,
        ctx: Context,
        question: str,
        opening: Sequence[Message],
        language: Language,
        request: Mapping[str, Any],
        *,
        retry_failures: bool = False,
        session: AskSession | None = None,
        injection: Injection | None = None,
    ) -> Trace:
        """Search for `question`, which the `opening` messages contain; `request` describes them in the journal.

        With a `session` the agent may ask the user, for which it has the tool `ask`; an `injection` is given to it once
        it is due. A resumed search repeats the tool failures that the agent has seen before, so that the paid
        conversation stays the same. With `retry_failures` it tries them again, and may become another conversation.
        """
        reminder = ""
        if self.settings.repeat_question:
            reminder = f"\n{_QUESTION[language]}{escape_marks(question)}"
        history = History(
            opening,
            request,
            reminder=reminder,
            limit=self.settings.max_input_tokens,
            settings=self.settings,
            count_tokens=self.count_tokens,
        )
        if injection is not None:
            history.delivered = Delivered(None)
        trace = await self._loop(
            ctx, history, _DEMAND[language], session, injection, retry_failures=retry_failures
        )
        if session is not None:
            trace = replace(trace, asked=session.log(trace.model_calls))
        return trace

    async def _loop(
        self,
        ctx: Context,
        history: History,
        demand: str,
        session: AskSession | None,
        injection: Injection | None,
        *,
        retry_failures: bool,
    ) -> Trace:
        unrecorded: Step[Any] | None = None
        began_s = ctx.seconds
        for number in range(1, self.settings.max_turns + 1):
            if self._is_over_time(ctx.seconds - began_s):
                if unrecorded:
                    await ctx.step(unrecorded)
                return self._end_unanswered(
                    history, number - 1, f"its {self.settings.max_minutes:g} minutes are used up"
                )
            if injection is not None and injection.is_due(number - 1, self.settings.max_turns):
                history.inject(injection.text, number)
                injection = None
            text = None
            try:
                text, forced = await self._turn(ctx, history, number, demand, session)
            except _NoRoom:
                if unrecorded:
                    await ctx.step(unrecorded)
                return self._end_unanswered(history, number - 1, "its conversation has no more room")
            except UnusableOutput:
                if not self.takes_empty:
                    raise
                # No turn was returned that says so.
                forced = any(turn.kind == "forced" for turn in history.turns)
            if unrecorded:
                # The agent has continued from these failures: from now on a resumed search must repeat them.
                await ctx.step(unrecorded)
                unrecorded = None
            if text is None:
                return history.finish("", number, forced=forced)
            turn = parse_turn(text, after_thoughts=self.settings.calls_after_thoughts)
            # Thoughts stay in the history, as in WebDancer; the trace has them apart.
            history.turns.extend(Turn("think", thought) for thought in turn.thoughts)
            if turn.made_up:
                history.turns.append(Turn("made_up", turn.made_up))
            is_last = number == self.settings.max_turns
            if session is not None and session.n_missing and not (turn.calls or forced or is_last):
                self._send_back(history, session, turn, number)
                continue
            # WebDancer stops at a turn without a call; its demo forces no answer, but the benchmark needs one to score.
            if forced or not turn.calls:
                trace = history.finish(turn.own_text, number, forced=forced and number > 1)
                if self.asks_confidence:
                    trace = with_confidence(trace, turn.own_text)
                return trace
            if is_last:
                # As published: nothing reads what these calls would bring.
                return self._end_unanswered(history, number, f"its {number} model calls are used up")
            key = step_key("told", ctx.job.id, history.digest, turn.own_text)
            earlier: Mapping[str, Unrecorded] = {}
            if not retry_failures:
                # Failures of other tools say nothing of these.
                earlier = recorded_failures(await ctx.recall(key, self._told_notes))
            failures = await self._call_tools(ctx, history, turn, number, earlier, session)
            if failures:
                unrecorded = _failures_step(f"{TOLD_STEP}{number}", key, failures, self._told_notes)
        raise AssertionError("the last turn returns")

    def _send_back(self, history: History, session: AskSession, turn: ParsedTurn, number: int) -> None:
        """Refuse an answer before the questions that have to be asked: the agent goes on."""
        session.n_early += 1
        answer, _ = final_answer(turn.own_text, after_thoughts=self.settings.calls_after_thoughts)
        history.turns.append(Turn(EARLY, answer))
        step = f"{TURN_STEP}{number}"
        response = (
            f"Ask the user at least {session.n_missing} more before you answer, with the tool {AskCall.tool}."
        )
        history.append(turn.own_text, format_tool_response(response), step, [CallEvent(EARLY, record=step)])

    def _end_unanswered(self, history: History, model_calls: int, reason: str) -> Trace:
        """End a search without an answer: a failure without a score, or with `takes_empty` an empty answer."""
        if self.takes_empty:
            return history.finish_unanswered(model_calls)
        if self.settings.free_end:
            reason += ", and none is demanded (free_end)"
        error = Unanswered(f"the search ended without an answer: {reason}")
        error.step = f"{TURN_STEP}{model_calls}"
        raise error

    def _is_over_time(self, took_s: float) -> bool:
        """Whether the calls of a search, which took so long, have used up its minutes."""
        # What the calls took, not what the clock says: a search that waits for a limit or for a provider's return, or
        # is resumed, loses no time by it, and ends at the same turn again.
        max_minutes = self.settings.max_minutes
        return max_minutes is not None and took_s > max_minutes * 60

    @property
    def _told_notes(self) -> dict[str, str]:
        """What a record of failures notes, whose key does not have it: with which tools they happened."""
        return {"tools": self.tools.identity}

    async def _turn(
        self, ctx: Context, history: History, number: int, demand: str, session: AskSession | None
    ) -> tuple[str, bool]:
        """Return the model's turn, and True if it had to be an answer.

        A server that refuses the conversation as too long is asked again with a shorter one.
        """
        while True:
            # Of the opening nothing can be left out: whether that is too long is for the server to say.
            has_no_room = not history.make_room() and number > 1
            if has_no_room and self.settings.free_end and not self.settings.demand_in_place:
                raise _NoRoom
            forced = has_no_room or (number == self.settings.max_turns and not self.settings.free_end)
            # The demand speaks of "the facts above": before the first response there are none.
            if forced and number > 1:
                history.demand_answer(demand)
            try:
                return await self._request_turn(ctx, history, number, session, must_answer=forced), forced
            except PromptTooLong:
                if not history.shrink():
                    raise

    async def _request_turn(
        self, ctx: Context, history: History, number: int, session: AskSession | None, *, must_answer: bool
    ) -> str:
        settings = self.settings
        grammar = None
        if self.model.spec.structured == "llama":
            call_rules = self.toolbox.call_rules(history.links(settings.urls_offered))
            # A tiny model prefers to answer at once, without a search: its first turn has to be a call.
            must_call = number == 1
            if session is not None:
                must_call = must_call or session.n_missing > 0
                if session.n_left <= 0:
                    call_rules.pop(AskCall.tool, None)
                elif session.n_missing >= settings.max_turns - number:
                    # It makes one call a turn, and the last turn answers: those that are left are just enough.
                    call_rules = {AskCall.tool: call_rules[AskCall.tool]}
            grammar = turn_grammar(
                settings.think_chars, settings.answer_chars, must_answer, call_rules, must_call=must_call
            )
        call = ModelCall(
            f"{TURN_STEP}{number}",
            history.sent_messages,
            AgentTurn(
                must_answer,
                grammar,
                after_thoughts=settings.calls_after_thoughts,
                asks_confidence=self.asks_confidence,
            ),
            history.request,
            key_on=history.key,
            notes=history.notes,
            repeated_chars=self._repeated_chars(history, must_answer=must_answer),
        )
        return await self.model.ask(ctx, call)

    def _repeated_chars(self, history: History, *, must_answer: bool) -> int:
        """How much of the last message the next turn repeats: all of it, or none where it would differ there."""
        # The last turn has no successor, and a reminder stands at the end of the newest message only.
        if must_answer or self.settings.repeat_question or not self.model.spec.cache_marks:
            return 0
        return len(history.sent_messages[-1]["content"])

    async def _call_tools(
        self,
        ctx: Context,
        history: History,
        turn: ParsedTurn,
        number: int,
        earlier: Mapping[str, Unrecorded],
        session: AskSession | None,
    ) -> dict[str, Unrecorded]:
        """Answer the calls of a turn, one after the other; return what no step recorded, by piece.

        `earlier` is what was returned so in an earlier session that continued from it.
        """
        failures: dict[str, Unrecorded] = {}
        responses: list[str] = []
        events: list[CallEvent] = []
        for i, requested in enumerate(answered_calls(turn, first_call=self.settings.first_call), 1):
            call = self.toolbox.read(requested)
            prefix = f"{i}/"
            if isinstance(call, InvalidCall):
                response = f"Error: this tool call could not be read: {call.reason}"
                events.append(invalid_event(call))
                history.turns.append(Turn("invalid", response, call.raw))
            elif (times := history.count(call, f"{TURN_STEP}{number}")) > MAX_TIMES:
                response = (
                    "This is the same call again; its result stands above. Ask something else, or answer."
                )
                events.append(CallEvent("repeated", call.request))
                history.turns.append(Turn("repeated", response, call.request))
            else:
                seen = {
                    name.removeprefix(prefix): why for name, why in earlier.items() if name.startswith(prefix)
                }
                version = self.toolbox.identity[call.tool]
                work = ToolWork(ctx, self.tools, f"{number}.{i}", version, seen, session)
                result = await call.execute(work)
                response = result.text
                # A failure is no result: made again, such a call is tried again, and may bring another.
                if times > 1 and not result.unrecorded:
                    response = f"(You made this call before; its result is the same.)\n{response}"
                events += result.events
                history.uses.append(result.use)
                kind = call.tool
                if any(event.kind == REFUSED for event in result.events):
                    kind = REFUSED  # the user never saw it: it is no question of this search
                history.turns.append(Turn(kind, response, call.request, result.sources))
                for piece, why in result.unrecorded.items():
                    failures[f"{prefix}{piece}"] = why
            responses.append(format_tool_response(response))
        history.append(turn.own_text, "\n".join(responses), f"{TURN_STEP}{number}", events)
        return failures


def answered_calls(turn: ParsedTurn, *, first_call: bool = False) -> list[RequestedCall | InvalidCall]:
    """The calls of a turn that are answered: the first MAX_CALLS, and an invalid one in the place of all others.

    With `first_call` the first one alone.
    """
    if first_call:
        return list(turn.calls[:1])
    calls = list(turn.calls[:MAX_CALLS])
    if len(turn.calls) > MAX_CALLS:
        reason = f"it is one of more than {MAX_CALLS} in a turn; none after these was made"
        calls.append(InvalidCall(reason, ""))
    return calls


def invalid_event(call: InvalidCall) -> CallEvent:
    """What became of a call that cannot be made."""
    return CallEvent("invalid", call.raw, failed=call.reason)


def recorded_failures(response: Any) -> dict[str, Unrecorded]:
    """The failures that a recorded `search/told/N` has by piece; one of another form is left out, and tried again."""
    failures: dict[str, Unrecorded] = {}
    for name, why in as_object(response).items():
        fields: tuple[str, ...] = ("error", "reason", "host")
        if "extract/" in name:  # a page that was read by its words
            fields = ("lexical",)
        if isinstance(why, dict) and all(isinstance(why.get(field), str) for field in fields):
            failures[name] = why
    return failures


def _failures_step(
    name: str, key: str, failures: Mapping[str, Unrecorded], notes: Mapping[str, str]
) -> Step[Any]:
    """The step that records the tool failures of a turn; it calls nothing."""

    async def execute(_: UnusableOutput | None) -> Executed:
        return Executed(failures)

    return Step(name=name, key=key, execute=execute, decode=dict, notes=notes)
