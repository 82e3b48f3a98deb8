"""A call of a custom role: a durable step, in which whatever it asks of models and tools is a durable step, too.

An interrupted call is begun again, and what it had asked before is answered from the journal: equal questions in the
order of their occurrence. A reply that breaks the protocol's rules is asked for again, as a model's is; the questions of
another attempt are new ones.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
import orjson

from cts_async.engine.lane import Lane
from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, RetryPolicy, Step, step_key
from cts_async.errors import (
    ContentRefused,
    RejectedError,
    RoleFailed,
    RunStopped,
    StepError,
    TimedOut,
    UnusableOutput,
)
from cts_async.llm.apis import Message
from cts_async.llm.coverage import CoverageList
from cts_async.llm.model import Completion, Model
from cts_async.llm.parsing import Expect, OneLine, QuestionList, ShortPhrase
from cts_async.llm.redact import SECRETS
from cts_async.protocol.custom.sources import CustomRole, last_line, tools_taken
from cts_async.protocol.custom.wire import View, response_of, trace_of, view_json
from cts_async.protocol.views import AnswererView, ClarifierView, JudgeView, RewriterView, SearchView
from cts_async.records import Answer, Judgment, Source, Trace, Turn
from cts_async.search.backends import Hit, Page
from cts_async.search.tools import Tools, read_hits, read_page

T = TypeVar("T")

ONCE: Final = RetryPolicy(max_transient=0, max_rate_limited=0, patience_s=0.0)
"""A function's models have been asked again by their own steps; only an unusable reply is worth another call."""


@dataclass(frozen=True, slots=True)
class LlmReply:
    """What a model replied to a custom role."""

    text: str
    finish_reason: str = "stop"

    def __str__(self) -> str:
        return self.text


class Host(Protocol):
    """What custom roles may use of the run."""

    async def model(self, name: str) -> Model:
        """A model of the catalogue. Raises RoleFailed if it is unknown or lacks its key."""

    @property
    def tools(self) -> Tools | None:
        """The run's search tools; None in commands without a search."""


class Call:
    """One call of a custom role in progress."""

    def __init__(self, host: Host, ctx: Context, step: str, attempt: int, timeout_s: float) -> None:
        """`attempt` counts the unusable replies before: the questions of another attempt are new ones."""
        self.ctx, self.step = ctx, step
        self.tools: list[list[str]] = []
        """Searches and visits so far: kind, query or address, and the key of the step."""
        self.model_calls = 0
        self.replayed = 0
        """Those of its model calls that the journal answered."""
        self.stopped: RunStopped | None = None
        """Why the run ended while code that could not be told so was at work."""
        self._host, self._attempt = host, attempt
        self._seen: Counter[str] = Counter()
        self._waiting = 0
        self._timeout_s = timeout_s
        self._scope: anyio.CancelScope | None = None
        self._ended = False

    async def llm(self, prompt: str | Sequence[Message], *, model: str, **params: Any) -> LlmReply:
        """Ask a model of the catalogue; `params` are request parameters. Raises StepError, RunStopped."""
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        found = await self.complete(model, messages, params)
        if "refused" in found:
            raise ContentRefused(found["refused"])
        return LlmReply(found["text"], found.get("finish_reason", "stop"))

    async def complete(
        self, model: str, messages: Sequence[Message], params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Ask a model and return the response as the journal stores it, with `tool_calls` if there are any."""
        async with self._busy():
            found = await self._host.model(model)
            plain = all(isinstance(message["content"], str) for message in messages)
            if found.spec.api != "openai" and ("tools" in params or not plain):
                raise RejectedError(
                    f"{model}: takes text only here (its API is {found.spec.api}'s), and no tools"
                )
            digest = step_key(found.spec.name, messages, params)
            self._seen[digest] += 1
            self.model_calls += 1
            step = found.step(
                self.ctx,
                f"{self.step}/llm/{self.model_calls}",
                messages,
                Completion(),
                request={"messages": messages, **({"params": params} if params else {})},
                key_on=["custom", self.step, self._attempt, self._seen[digest], messages],
                params=params,
                decode=_as_recorded,
            )
            self.replayed += self.ctx.job.journal.find(step.key) is not None
            return await self.ctx.step(step)

    async def search(self, query: str) -> list[Hit]:
        """The run's search engine: hits, best first. Raises ToolError and other StepErrors."""
        async with self._busy():
            tools = self._tools()
            step = f"{self.step}/tool/{len(self.tools) + 1}/query/1"
            hits, key = await tools.hits(self.ctx, step, query)
            self.tools.append(["search", query, key])
            return hits

    async def visit(self, url: str) -> Page:
        """The run's page reader: a page's readable text. Raises ToolError and other StepErrors."""
        async with self._busy():
            tools = self._tools()
            step = f"{self.step}/tool/{len(self.tools) + 1}/page/1"
            page, key = await tools.page(self.ctx, step, url)
            self.tools.append(["visit", url, key])
            return page

    def _tools(self) -> Tools:
        if self._host.tools is None:
            raise RoleFailed("this command has no search")
        return self._host.tools

    @asynccontextmanager
    async def _busy(self) -> AsyncIterator[None]:
        """While the run works for the role, its time does not pass. RoleFailed where the call has ended by now."""
        if self._ended:  # a thread cannot be stopped, and goes on
            raise RoleFailed("this call has ended")
        self._waiting += 1
        self._set_deadline()
        try:
            yield
        finally:
            self._waiting -= 1
            self._set_deadline()

    def _set_deadline(self) -> None:
        if self._scope is not None:
            hurry = not self._waiting
            self._scope.deadline = anyio.current_time() + self._timeout_s if hurry else math.inf

    async def within_time(self, work: Callable[[], Awaitable[T]], who: str) -> T:
        """The result of `work`. Raises TimedOut when it neither ends nor asks the run for anything in time."""
        try:
            with anyio.move_on_after(self._timeout_s) as self._scope:
                return await work()
        finally:
            self._ended = True
        raise TimedOut(f"{who}: no reply within {self._timeout_s:g} s")


def _as_recorded(response: Mapping[str, Any]) -> Mapping[str, Any]:
    return response


Perform = Callable[[Call, View], Awaitable[Any]]
"""Makes one call: a function, a request to a command or to an endpoint. Returns a value for `response_of`."""


@dataclass(frozen=True, slots=True)
class CustomPlayer:
    """An opened custom role: plays what it is, wherever a model could."""

    player: CustomRole
    perform: Perform
    host: Host
    lane: Lane | None = None
    policy: RetryPolicy | None = None

    @property
    def name(self) -> str:
        """The name that verdicts of a custom judge bear."""
        return self.player.label

    async def clarify(self, ctx: Context, view: ClarifierView) -> tuple[str, ...]:
        """Exactly `view.k` questions."""
        return await self._ask(ctx, "clarify", view, QuestionList(view.k))

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """The user's answer to one question."""
        return await self._ask(ctx, f"answer/{turn}", view, ShortPhrase(), on_record=("fused_query",))

    async def rewrite(self, ctx: Context, view: RewriterView) -> str:
        """The rewritten query."""
        return await self._ask(ctx, "rewrite", view, OneLine())

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        """The label of every nugget."""
        expect = CoverageList(tuple(nugget.id for nugget in view.nuggets))
        on_record = ("query", "nuggets", "candidate_answer")
        labels = await self._ask(ctx, f"judge/{self.name}", view, expect, on_record=on_record, shared=True)
        return Judgment(self.name, labels)

    async def search(self, ctx: Context, view: SearchView, *, retry_failures: bool = False) -> Trace:
        """The answer of a foreign agent, with the searches and visits that it made through the run."""
        response = await ctx.step(self._step(ctx, "search", view, _checked_answer))
        turns = [await _recalled(ctx, *used) for used in response.get("tools", ())]
        return trace_of(response, turns, int(response.get("model_calls", 0)))

    async def _ask(
        self,
        ctx: Context,
        step: str,
        view: View,
        expect: Expect[T],
        *,
        on_record: Sequence[str] = (),
        shared: bool = False,
    ) -> T:
        def decode(response: Mapping[str, Any]) -> T:
            return expect.parse(response["text"])

        return await ctx.step(self._step(ctx, step, view, decode, on_record=on_record, shared=shared))

    def _step(
        self,
        ctx: Context,
        step: str,
        view: View,
        decode: Callable[[Mapping[str, Any]], T],
        *,
        on_record: Sequence[str] = (),
        shared: bool = False,
    ) -> Step[T]:
        seen = view_json(view)
        unusable: list[UnusableOutput] = []

        async def execute(latest: UnusableOutput | None) -> Executed:
            if latest is not None and latest not in unusable:
                unusable.append(latest)
            call = Call(self.host, ctx, step, len(unusable), self.player.timeout_s)
            try:
                value = await call.within_time(partial(self.perform, call, view), self.player.name)
            except (StepError, RunStopped):
                if call.stopped:
                    raise call.stopped from None
                raise
            except (Exception, SystemExit) as error:
                raise RoleFailed(SECRETS.text(f"{self.player.name}: {last_line(error)}")) from None
            if call.stopped:
                raise call.stopped
            response = _without_keys(response_of(self.player.role, value))
            if call.model_calls:
                response["model_calls"] = call.model_calls
            if call.tools:
                response["tools"] = call.tools
            return Executed(response)

        return Step(
            name=step,
            key=step_key(step, None if shared else ctx.job.id, self.player.identity, seen),
            execute=execute,
            decode=decode,
            request=self._request(seen, on_record),
            lane=self.lane,
            policy=self.policy,
        )

    def _request(self, view: Mapping[str, Any], on_record: Sequence[str]) -> dict[str, Any]:
        """The request as the journal stores it: texts that the run's data have already are left to their digest."""
        request: dict[str, Any] = {"custom": self.player.label}
        new = {name: value for name, value in view.items() if name not in on_record}
        if new:
            request["view"] = new
        if on_record:
            request["on_record"] = step_key({name: view[name] for name in on_record})[:16]
        return request


def _without_keys(response: dict[str, Any]) -> dict[str, Any]:
    """What is recorded never has a key in it, whatever the code of the user's returns."""
    data = orjson.dumps(response)
    clean = SECRETS.body(data, good=True)
    return response if clean is data else orjson.loads(clean)


def _checked_answer(response: Mapping[str, Any]) -> Mapping[str, Any]:
    if not response["text"].strip():
        raise UnusableOutput("the answer is empty")
    return response


async def _recalled(ctx: Context, kind: str, request: str, key: str) -> Turn:
    """A search or visit of an agent as the journal has it."""
    response = await ctx.recall(key)
    if kind == "visit":
        page = read_page(response)
        return Turn("visit", "", request, (Source(page.url, page.title, page.text, "page"),))
    return Turn(
        "search",
        "",
        request,
        tuple(Source(h.url, h.title, h.snippet, "snippet") for h in read_hits(response)),
    )


# --- Functions


def function_call(function: Callable[..., Any]) -> Perform:
    """Call a Python function with its view, and by name with what else it takes; one without `async` in a thread."""
    taken, is_async = tools_taken(function), inspect.iscoroutinefunction(function)

    async def perform(call: Call, view: View) -> Any:
        offered: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
            "llm": call.llm,
            "search": call.search,
            "visit": call.visit,
        }
        tools = {name: offered[name] for name in taken}
        if is_async:
            return await function(view, **tools)
        threaded = {name: _from_thread(tool) for name, tool in tools.items()}
        result = await anyio.to_thread.run_sync(partial(function, view, **threaded), abandon_on_cancel=True)
        return await result if inspect.isawaitable(result) else result

    return perform


def _from_thread(tool: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """A coroutine function as an ordinary one, for functions that run in a thread."""

    def call(*args: Any, **kwargs: Any) -> T:
        return anyio.from_thread.run(partial(tool, *args, **kwargs))

    return call
