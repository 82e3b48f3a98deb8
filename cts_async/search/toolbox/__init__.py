"""The tools that a deep-search agent may call: one file each, `NAME.py` with a `TOOL`, or a plug-in.

A file holds all there is to its tool: how prompts describe it, how a call of it is read and executed, how it is counted
and forecast, and what it is called where people see a search. A plug-in of another package is an entry point of the
group `cts_async.tools` that names such a `TOOL`. Which tools an agent has is the option `--tools`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import CTSError, StepError, ToolError, UnusableOutput, UsageError, closest
from cts_async.plugins import TOOLS, load, load_all
from cts_async.records import DEFAULT_TOOLS, Source, ToolFailure, ToolUse
from cts_async.search.asking import AskSession
from cts_async.search.tools import AgentSettings, Tools, reason_of, recorded_texts
from cts_async.search.turn_format import (
    SEPARATOR,
    InvalidCall,
    RequestedCall,
    format_failure,
    one_line,
)

TOOL_STEP: Final = "search/tool/"
"""The steps of tools are named search/tool/TURN.CALL, and perhaps /PIECE."""
MISSING: Final = "not in the journal"
NO_TOOLS: Final = "none"
"""What `--tools` has in the place of names for an agent without any."""

# --- What became of a call


@dataclass(frozen=True, slots=True)
class CallEvent:
    """What became of a call, or of a piece of it: what the agent notes in the journal, and a trace shows.

    `kind` is a key of the tool's `labels`, or "invalid" or "repeated".
    """

    kind: str
    request: str = ""
    record: str = ""
    """The step that has its text: the step's key, or its name where that is part of the key."""
    failed: str = ""
    limit: int = 0
    """Characters that were chosen from that text; 0: all of it, or those that a model chose."""

    def as_json(self) -> dict[str, Any]:
        """The fields that are not empty."""
        fields = {"kind": self.kind, "request": self.request, "record": self.record, "failed": self.failed}
        event: dict[str, Any] = {name: text for name, text in fields.items() if text}
        if self.limit:
            event["limit"] = self.limit
        return event


Unrecorded = Mapping[str, str]
"""Why a piece has no recorded result: `error`, `reason` and `host`, or `lexical` (why no model read a page)."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call, or of one piece of it: the text for the agent, and the same as data.

    `unrecorded` is by piece ("query/1", "page/2", "extract/2").
    """

    text: str
    sources: tuple[Source, ...] = ()
    use: ToolUse = field(default_factory=ToolUse)
    unrecorded: Mapping[str, Unrecorded] = field(default_factory=dict)
    events: tuple[CallEvent, ...] = ()


def total_use(uses: Iterable[ToolUse]) -> ToolUse:
    """Add up what was asked of the tools."""
    requests: Counter[str] = Counter()
    failures: list[ToolFailure] = []
    lexical = empty = 0
    for use in uses:
        requests.update(use.requests)
        failures += use.failures
        lexical += use.lexical
        empty += use.empty
    return ToolUse(dict(requests), tuple(failures), lexical, empty)


def _join_results(pieces: Sequence[ToolResult]) -> ToolResult:
    texts: list[str] = []
    sources: list[Source] = []
    unrecorded: dict[str, Unrecorded] = {}
    events: list[CallEvent] = []
    for piece in pieces:
        texts.append(piece.text)
        sources += piece.sources
        unrecorded.update(piece.unrecorded)
        events += piece.events
    use = total_use(piece.use for piece in pieces)
    return ToolResult(SEPARATOR.join(texts), tuple(sources), use, unrecorded, tuple(events))


# --- Executing a call


class Piece(NamedTuple):
    """One of the requests that a call consists of; pieces run concurrently."""

    name: str
    """Within the call: "query/1"; "" for a call of one piece."""
    tool: str
    request: str
    """As the trace shows it."""
    subject: str
    """For the agent, where it fails: "the visit to https://x"."""
    host: str = ""
    """Whom to name for a failure that does not say it itself."""


@dataclass(frozen=True, slots=True)
class ToolWork:
    """What the execution of a call may use: the job's durable steps, and what the run has for tools.

    `ctx.job.id` is the instance. Never let a tool tell the agent what the protocol hides from it.
    """

    ctx: Context
    tools: Tools
    name: str
    """Turn and call: "3.1"."""
    version: str = "1"
    """The tool's."""
    earlier: Mapping[str, Unrecorded] = field(default_factory=dict)
    """Failures by piece that the agent saw in an earlier session and continued from: repeated, not tried again."""
    session: AskSession | None = None
    """The questions to the user; None where the agent may not ask."""

    @property
    def turn(self) -> int:
        """The turn of the agent, from 1."""
        return int(self.name.partition(".")[0])

    async def gather(self, pieces: Iterable[Callable[[], Awaitable[ToolResult]]]) -> ToolResult:
        """Run the pieces concurrently; their texts are joined in the order asked."""
        # Not in order of completion, as in WebDancer's demo: a resumed search has to read the same conversation.
        return _join_results(await self.ctx.gather(list(pieces)))

    async def attempt(self, piece: Piece, work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Return the result of `work`, or its failure as one: the agent reads of it and goes on. RunStopped passes."""
        # The agent has continued from that failure: another result would make its paid turns another conversation.
        why = self.earlier.get(piece.name)
        if why is None:
            try:
                return await work()
            except StepError as error:
                host = getattr(error, "host", "") or piece.host
                why = {"error": str(error), "reason": reason_of(error), "host": host}
        return ToolResult(
            format_failure(piece.subject, why["error"]),
            use=ToolUse({piece.tool: 1}, (ToolFailure(piece.tool, why["host"], why["reason"]),)),
            unrecorded={piece.name: why},
            events=(CallEvent(piece.tool, piece.request, failed=why["error"]),),
        )

    async def answer(
        self, call: ToolCall, arguments: Mapping[str, Any], compute: Callable[[], Awaitable[str]]
    ) -> ToolResult:
        """Execute a call of one piece: the text that `compute` returns for the arguments, as a durable step.

        A StepError of `compute`, best a ToolError, is reported to the agent and counted as a failure of the tool.
        """
        piece = Piece("", call.tool, call.request, f"{call.tool} {call.request!r}")
        return await self.attempt(piece, partial(self._answered, call, arguments, compute))

    async def _answered(
        self, call: ToolCall, arguments: Mapping[str, Any], compute: Callable[[], Awaitable[str]]
    ) -> ToolResult:
        # Without the turn: the same call again has the result that is recorded.
        key = step_key(call.tool, self.ctx.job.id, self.version, arguments)

        async def execute(_: UnusableOutput | None) -> Executed:
            try:
                return Executed({"text": await compute()})
            except CTSError:
                raise
            except Exception as error:  # whatever a tool of somebody else's does, it ends no run
                raise ToolError(f"{type(error).__name__}: {error}", reason="broken tool") from error

        step = Step(
            name=f"{TOOL_STEP}{self.name}",
            key=key,
            execute=execute,
            decode=lambda response: recorded_texts(response, ("text",), "result")[0],
            request=dict(arguments),
        )
        text = await self.ctx.step(step)
        event = CallEvent(call.tool, call.request, key)
        return ToolResult(text, use=ToolUse({call.tool: 1}), events=(event,))


class CallRecords(Protocol):
    """What the journal has of one call whose agent did not note what became of it."""

    @property
    def page_chars(self) -> int:
        """As in AgentSettings."""

    def failure(self, piece: str) -> Mapping[str, Any] | None:
        """The failure of a piece that the agent continued from."""

    def record(self, piece: str, name: str = "", value: str = "") -> str:
        """The key of a piece's step, else of an earlier one whose request has `value` under `name`; "" without one."""

    def response(self, record: str) -> Mapping[str, Any]:
        """The response of the step with a key or a name, without long texts; empty if there is none."""

    def reading(self, number: int) -> str:
        """The name of the step in which a model read page `number`; "" if there is none."""


class ToolCall(ABC):
    """A call that can be made. Equal ones are the same call again, so a call is a frozen dataclass of its arguments."""

    __slots__ = ()
    tool: ClassVar[str]
    """The tool's name."""

    @property
    @abstractmethod
    def request(self) -> str:
        """What is asked, as a trace shows it."""

    @abstractmethod
    async def execute(self, work: ToolWork) -> ToolResult:
        """Execute the call. What fails is a result that says so (`ToolWork.attempt`); a StepError ends the search."""

    def replayed(self, records: CallRecords) -> Iterator[CallEvent]:
        """Yield what became of the call, told from the records of its steps."""
        failure = records.failure("")
        if failure is not None:
            yield CallEvent(self.tool, self.request, failed=failure_text(failure))
            return
        record = records.record("")
        if record:
            yield CallEvent(self.tool, self.request, record)
        else:
            yield CallEvent(self.tool, self.request, failed=MISSING)


def failure_text(failure: Mapping[str, Any] | None, name: str = "error") -> str:
    """The words of a recorded failure, from a file that anybody may have changed."""
    if failure is None:
        return MISSING
    text = failure.get(name)
    if not isinstance(text, str) or not text:
        return "failed"
    return text


# --- A tool


class TraceLabel(NamedTuple):
    """What one kind of event is called where people see a search, in the languages of the viewer."""

    symbol: str
    en: str
    zh: str


class Wording(NamedTuple):
    """How a prompt describes a tool, and each of its parameters."""

    description: str
    parameters: Mapping[str, str]


class InvalidArguments(ValueError):
    """Arguments that make no call; the message is for the agent."""


class Tool(ABC):
    """What an agent may call: one object, `TOOL`, of the tool's file."""

    name: ClassVar[str]
    """As the agent writes it; also the kind of its events, and of its counts in results."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names that models call it by."""
    requests: ClassVar[str]
    """What it is asked for, in the plural: "searches"."""
    version: ClassVar[str] = "1"
    """Another one where the same call has another result; part of the run's identity and of the steps' keys."""
    service: ClassVar[str] = ""
    """The table of cts.toml that says who answers it, "search" or "visit"; "" if it needs no service."""
    labels: ClassVar[Mapping[str, TraceLabel]]
    """By kind of event; its own name, at least."""
    parameters: ClassVar[Mapping[str, Mapping[str, Any]]]
    """The JSON schema of each parameter, without descriptions; all are required."""
    wording: ClassVar[Mapping[str, Wording]]
    """By prompt: "en", "zh", and "native" (WebDancer's training format) where it differs from English."""
    example: ClassVar[Mapping[str, Any]]
    """Arguments that stand for themselves, for the short prompts of small models."""

    @abstractmethod
    def read(self, arguments: Mapping[str, Any]) -> ToolCall:
        """Read the arguments that a model wrote, leniently. Raises InvalidArguments.

        What is no object stands under the name of the first parameter.
        """

    @abstractmethod
    def response_chars(self, settings: AgentSettings) -> float:
        """Estimate the characters of an average response, for forecasts."""

    def grammar(self, links: Sequence[str]) -> str:
        """GBNF rules (llama.cpp) of a call, the first of which has the tool's name; "" while none can be made.

        `links` are the latest that tools have shown. The rule `string` is a JSON string of up to 120 characters.
        """
        return ""

    def text_of(self, event: CallEvent, record: Mapping[str, Any]) -> str:
        """The text of an event, from the record that it names. Raises UnusableOutput for a damaged one."""
        return recorded_texts(record.get("response"), ("text",), "result")[0]

    def wording_for(self, prompt: str) -> Wording:
        """How a prompt, "agent.en" or "agent.native", describes the tool."""
        return self.wording.get(prompt.rpartition(".")[2]) or self.wording["en"]

    def prompt_line(self, prompt: str) -> str:
        """The line that describes the tool in a prompt: "agent.en", "agent.native", "agent.small.zh"."""
        if ".small." in prompt:
            return json.dumps({"name": self.name, "arguments": self.example}, ensure_ascii=False)
        wording = self.wording_for(prompt)
        properties: dict[str, Any] = {}
        for name, schema in self.parameters.items():
            properties[name] = dict(schema) | {"description": wording.parameters[name]}
        parameters = {"type": "object", "properties": properties, "required": list(self.parameters)}
        function = {"name": self.name, "description": wording.description, "parameters": parameters}
        return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


# --- The tools of an agent


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of an agent, in the order in which its prompt describes them."""

    tools: tuple[Tool, ...]
    """None where the agent answers from what it knows."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)

    @property
    def is_default(self) -> bool:
        """Whether these are the tools of WebDancer: then nothing that is recorded names them."""
        return self.names == DEFAULT_TOOLS

    @property
    def identity(self) -> dict[str, str]:
        """The version of each tool by its name."""
        return {tool.name: tool.version for tool in self.tools}

    def uses(self, service: str) -> bool:
        """Whether a tool asks what cts.toml has in the tables of this name."""
        return any(tool.service == service for tool in self.tools)

    def share(self, service: str) -> float:
        """The share of calls that go there, for forecasts: each tool is assumed to be called as often as the others."""
        if not self.tools:
            return 0.0
        return sum(tool.service == service for tool in self.tools) / len(self.tools)

    def response_chars(self, settings: AgentSettings) -> float:
        """Estimate the characters of an average response."""
        if not self.tools:
            return 0.0
        return sum(tool.response_chars(settings) for tool in self.tools) / len(self.tools)

    def prompt_lines(self, prompt: str, own_lines: Mapping[str, str]) -> str:
        """The lines that describe the tools in a prompt; `own_lines` of the user's, by tool, go before ours."""
        lines: list[str] = []
        for tool in self.tools:
            line = tool.prompt_line(prompt)
            # Small prompts show examples of calls there, not descriptions.
            if tool.name in own_lines and ".small." not in prompt:
                line = own_lines[tool.name]
            lines.append(line)
        return "\n".join(lines)

    def read(self, requested: RequestedCall | InvalidCall) -> ToolCall | InvalidCall:
        """Read a call by its tool."""
        if isinstance(requested, InvalidCall):
            return requested
        for tool in self.tools:
            if requested.tool == tool.name or requested.tool in tool.aliases:
                arguments = requested.arguments
                if not isinstance(arguments, dict):
                    # Models leave the name out where they know of one argument only.
                    arguments = {next(iter(tool.parameters)): arguments}
                try:
                    return tool.read(arguments)
                except InvalidArguments as error:
                    return InvalidCall(str(error), requested.raw)
        names = "there are no tools; answer"
        if len(self.names) == 1:
            names = f"the only tool is {self.names[0]}"
        elif self.names:
            names = f"the tools are {', '.join(self.names[:-1])} and {self.names[-1]}"
        return InvalidCall(f"there is no tool {one_line(requested.tool)[:40]!r}; {names}", requested.raw)

    def call_rules(self, links: Sequence[str]) -> dict[str, str]:
        """The grammar rules of the calls that can be made now, by tool."""
        rules = {tool.name: tool.grammar(links) for tool in self.tools}
        return {name: rule for name, rule in rules.items() if rule}

    def tool_of(self, kind: str) -> Tool | None:
        """The tool whose events are of this kind."""
        for tool in self.tools:
            if kind in tool.labels:
                return tool
        return None

    def labels(self) -> dict[str, TraceLabel]:
        """What the events of the tools are called, by kind."""
        labels: dict[str, TraceLabel] = {}
        for tool in self.tools:
            labels.update(tool.labels)
        return labels


def open_toolbox(names: Sequence[str] = DEFAULT_TOOLS) -> Toolbox:
    """Load the tools of these names, or no tools for "none".

    Raises UsageError for an unknown one, or a broken plug-in.
    """
    if list(names) == [NO_TOOLS]:
        return Toolbox(())
    if NO_TOOLS in names:
        raise UsageError(f"--tools: {NO_TOOLS} is for an agent without tools; name it alone, or leave it out")
    tools: list[Tool] = []
    for name in names:
        if name in names[: len(tools)]:
            raise UsageError(f"--tools: {name} is named twice")
        if name == "ask":
            raise UsageError("--tools: whether the agent may ask is said with --ask during, or --ask both")
        try:
            tools.append(load(TOOLS, name))
        except LookupError:
            every_name = every_tool().names
            near = closest(name, every_name)
            hint = f"; there are {', '.join(every_name)}"
            if near:
                hint = f"; did you mean {near!r}?"
            raise UsageError(f"--tools: no tool is called {name!r}{hint}") from None
    if not tools:
        raise UsageError(f"--tools: name one tool at least, or {NO_TOOLS}")
    return Toolbox(tuple(tools))


def every_tool() -> Toolbox:
    """All tools that are installed, for what reads finished runs: which of them a run had does not matter there."""
    return Toolbox(tuple(tool for _, tool in load_all(TOOLS)))
