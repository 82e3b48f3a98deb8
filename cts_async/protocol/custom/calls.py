"""A call of a custom role: a durable step, in which whatever it asks of models and tools is a durable step, too.

An interrupted call is begun again, and what it had asked before is answered from the journal: equal questions in the
order of their occurrence. A reply that breaks the protocol's rules is asked for again, as a model's is; the questions of
another attempt are new ones.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from threading import Thread
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
import anyio.to_thread
import orjson

from cts_async.engine.journal import Journal
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
from cts_async.llm.parsing import Clarification, Clarified, Expect, OneLine, QuestionList, ShortPhrase
from cts_async.llm.redact import SECRETS
from cts_async.protocol.custom.sources import CustomRole, last_line, tools_taken
from cts_async.protocol.custom.wire import View, response_of, trace_of, view_json
from cts_async.protocol.views import (
    AnswererView,
    ClarifierView,
    JudgeView,
    ReformulatorView,
    RewriterView,
    SearchView,
    TurnView,
)
from cts_async.records import Answer, Judgment, Source, Trace, Turn
from cts_async.search.backends import Hit, Page
from cts_async.search.tools import Tools, read_hits, read_page

T = TypeVar("T")

THREAD: Final = "cts-async role"
"""The name of the threads of functions without `async`."""
MAX_FAILURES: Final = 50
"""Requests of one call to models, search and pages that fail in a row: code that asks again for ever is ended."""
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


class _Occurrences:
    """Numbers for equal questions. One that failed is asked again under its number, not under the next."""

    __slots__ = ("_free", "_last")

    def __init__(self) -> None:
        self._last = 0
        self._free: list[int] = []

    @contextmanager
    def next(self) -> Iterator[int]:
        """The lowest number that no question in progress or answered has."""
        if self._free:
            number = heappop(self._free)
        else:
            self._last += 1
            number = self._last
        try:
            yield number
        except BaseException:
            heappush(self._free, number)
            raise


class Call:
    """One call of a custom role in progress."""

    def __init__(self, host: Host, ctx: Context, step: str, attempt: int, timeout_s: float) -> None:
        """`attempt` counts the unusable replies before: the questions of another attempt are new ones."""
        self.ctx, self.step = ctx, step
        self.tools: list[list[str]] = []
        """Searches and visits so far: kind, query or address, and the key of the step."""
        self.model_calls = 0
        self.answered = 0
        """Those of its model calls that have a reply."""
        self.replayed = 0
        """Those that the journal answered."""
        self.stopped: RunStopped | RoleFailed | None = None
        """Why the call is over: the run ended, or the role asked for what it cannot have. Code that catches this, or
        could not be told so, must not go on."""
        self._host, self._attempt = host, attempt
        self._occurrences: dict[str, _Occurrences] = {}
        self._tool_calls = 0
        self._waiting = 0
        self._failures = 0
        self._timeout_s = timeout_s
        self._active_at = 0.0
        """When it was begun, or the run last ended working for it."""
        self._limit: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.ended = False

    async def llm(self, prompt: str | Sequence[Message], *, model: str, **params: Any) -> LlmReply:
        """Ask a model of the catalogue; `params` are request parameters. Raises StepError, RunStopped."""
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        try:
            found = await self.complete(model, messages, params)
        except RoleFailed as error:  # code that goes on without it would give other results elsewhere
            self.stop(error)
            raise
        if "refused" in found:
            raise ContentRefused(found["refused"])
        return LlmReply(found["text"], found.get("finish_reason", "stop"))

    async def complete(
        self, model: str, messages: Sequence[Message], params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Ask a model and return the response as the journal stores it, with `tool_calls` if there are any."""
        async with self._working():
            found = await self._host.model(model)
            plain = all(isinstance(message["content"], str) for message in messages)
            if found.spec.api != "openai" and ("tools" in params or not plain):
                raise RejectedError(
                    f"{model}: takes text only here (its API is {found.spec.api}'s), and no tools"
                )
            try:
                digest = step_key(found.spec.name, messages, params)
            except TypeError as error:  # nested too deeply, or no JSON
                raise RejectedError(f"{model}: the request cannot be sent: {error}") from None
            self.model_calls += 1
            name = f"{self.step}/llm/{self.model_calls}"
            occurrences = self._occurrences.setdefault(digest, _Occurrences())
            with occurrences.next() as occurrence:
                # The name is no part of the key: calls made side by side are numbered as they come.
                step = found.step(
                    self.ctx,
                    f"{self.step}/llm",
                    messages,
                    Completion(),
                    request={"messages": messages, **({"params": params} if params else {})},
                    key_on=["custom", self._attempt, occurrence, digest],
                    params=params,
                    decode=_as_recorded,
                    name=name,
                )
                replayed = self.ctx.job.journal.find(step.key) is not None
                response = await self.ctx.step(step)
            self.answered += 1
            self.replayed += replayed
            return response

    async def search(self, query: str) -> list[Hit]:
        """The run's search engine: hits, best first. Raises ToolError and other StepErrors."""
        async with self._working():
            hits, key = await self._tools().hits(self.ctx, f"{self._tool_step()}/query/1", query)
            self.tools.append(["search", query, key])
            return hits

    async def visit(self, url: str) -> Page:
        """The run's page reader: a page's readable text. Raises ToolError and other StepErrors."""
        async with self._working():
            page, key = await self._tools().page(self.ctx, f"{self._tool_step()}/page/1", url)
            self.tools.append(["visit", url, key])
            return page

    def stop(self, reason: RunStopped | RoleFailed) -> None:
        """End the call, whatever the role makes of the error that it is given."""
        self.stopped = self.stopped or reason
        if self._limit is not None and not self.ended:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def _tool_step(self) -> str:
        self._tool_calls += 1
        return f"{self.step}/tool/{self._tool_calls}"

    def _tools(self) -> Tools:
        if self._host.tools is None:
            raise RoleFailed("this command has no search")
        return self._host.tools

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        """The run works for the role: its time does not pass. RoleFailed if the call has ended."""
        if self.ended or self.stopped:
            await asyncio.sleep(0)  # a loop that asks again for ever is cancelled here
            raise RoleFailed("this call has ended")
        self._waiting += 1
        try:
            yield
            self._failures = 0
        except RunStopped as reason:
            self.stop(reason)
            raise
        except StepError as error:
            self._failures += 1
            if self._failures == MAX_FAILURES:
                self.stop(RoleFailed(f"{MAX_FAILURES} requests in a row failed (the last: {error})"))
            raise
        finally:
            self._waiting -= 1
            self._active_at = asyncio.get_running_loop().time()

    async def within_time(self, work: Callable[[], Awaitable[T]], who: str) -> T:
        """The result of `work`. Raises TimedOut when it neither ends nor asks the run for anything in time."""
        loop = asyncio.get_running_loop()
        self._active_at = loop.time()
        self._timer = loop.call_later(self._timeout_s, self._check_time)
        self._limit = limit = asyncio.timeout(None)
        try:
            async with limit:
                return await work()
        except TimeoutError:
            if not limit.expired():  # the role's own
                raise
        finally:
            self._timer.cancel()
            self.ended = True
        if self.stopped is not None:
            raise self.stopped
        raise TimedOut(f"{who}: no reply within {self._timeout_s:g} s")

    def _check_time(self) -> None:
        """End the call if it is too late, else look again when it could be.

        One timer: moving the deadline at every question would cost more. A method: a function that names itself is a
        cycle, and keeps its call and prompts in memory until Python looks for cycles.
        """
        loop = asyncio.get_running_loop()
        left_s = self._timeout_s - (0.0 if self._waiting else loop.time() - self._active_at)
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._check_time)
        elif self._limit is not None:
            self._limit.reschedule(loop.time())


def _as_recorded(response: Mapping[str, Any]) -> Mapping[str, Any]:
    return response


Perform = Callable[[Call, View], Awaitable[Any]]
"""Makes one call: a function, a request to a command or to an endpoint. Returns a value for `response_of`."""


class Replays:
    """What the calls of one player that were begun again had asked before, and how much the journal answered."""

    def __init__(self) -> None:
        self.calls = self.asked = self.answered = 0
        self._recorded: dict[Path, Counter[tuple[str, str]]] = {}
        self._reading = anyio.Lock()

    async def recorded(self, ctx: Context, step: str) -> int:
        """Model calls of the role's call `step` that the journal had when this process first asked for one.

        0 on another machine than the journal's.
        """
        journal = ctx.job.journal
        if not isinstance(journal, Journal):
            return 0
        found = self._recorded.get(journal.path)
        if found is None:
            async with self._reading:
                if journal.path not in self._recorded:
                    self._recorded[journal.path] = await anyio.to_thread.run_sync(_model_calls, journal.path)
            found = self._recorded[journal.path]
        return found[ctx.job.id, step] if found else 0

    def begun_again(self, asked: int) -> None:
        """Note that a call is begun again which had asked models so often."""
        if asked:
            self.calls += 1
            self.asked += asked

    def notice(self, name: str) -> str:
        """What the user should know at the end; empty if no call was begun again."""
        if not self.asked:
            return ""
        if not self.answered:
            return (
                f"{name}: asked something else when its call was begun again: nothing could be replayed; keep the time "
                "of day and random numbers out of prompts"
            )
        calls = f"{self.calls} call{'s were' if self.calls > 1 else ' was'} begun again"
        return f"{name}: {calls}: {self.answered} of {self.asked} model calls answered from the journal"


def _model_calls(journal: Path) -> Counter[tuple[str, str]]:
    """The finished model calls of custom roles, by instance and the role's step."""
    found: Counter[tuple[str, str]] = Counter()
    with journal.open("rb") as file:
        for line in file:
            if b"/llm/" in line and line.endswith(b"\n"):
                with suppress(ValueError, KeyError, TypeError, AttributeError):
                    record = orjson.loads(line)
                    step, asked, _ = record["step"].rpartition("/llm/")
                    if asked and record["ok"]:
                        found[record["instance"], step] += 1
    return found


@dataclass(frozen=True, slots=True)
class CustomPlayer:
    """An opened custom role: plays what it is, wherever a model could."""

    player: CustomRole
    perform: Perform
    host: Host
    lane: Lane | None = None
    policy: RetryPolicy | None = None
    replays: Replays = field(default_factory=Replays)

    @property
    def name(self) -> str:
        """The name that verdicts of a custom judge bear."""
        return self.player.label

    async def clarify(self, ctx: Context, view: ClarifierView) -> tuple[str, ...]:
        """Exactly `view.k` questions."""
        return await self._ask(ctx, "clarify", view, QuestionList(view.k))

    async def offer(self, ctx: Context, view: TurnView, turn: int) -> Clarified:
        """The questions of one turn of a conversation: it has no scheme, and names no types."""
        seen = ClarifierView(view.blurred_query, view.k, view.conversation.pairs)
        return await self._ask(ctx, f"clarify/{turn}", seen, Clarification(view.k))

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """The user's answer to one question."""
        return await self._ask(ctx, f"answer/{turn}", view, ShortPhrase(), on_record=("fused_query",))

    async def rewrite(self, ctx: Context, view: RewriterView) -> str:
        """The rewritten query."""
        return await self._ask(ctx, "rewrite", view, OneLine())

    async def reformulate(self, ctx: Context, view: ReformulatorView, turn: int) -> str:
        """The query after so many turns of a conversation."""
        seen = RewriterView(view.conversation.first_query, view.conversation.pairs)
        return await self._ask(ctx, f"reformulate/{turn}", seen, OneLine())

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
        earlier: Call | None = None

        async def execute(latest: UnusableOutput | None) -> Executed:
            nonlocal earlier
            if earlier is None:
                self.replays.begun_again(await self.replays.recorded(ctx, step))
            if latest is not None and latest not in unusable:
                unusable.append(latest)
            elif earlier is not None:
                self.replays.begun_again(earlier.answered)
            earlier = call = Call(self.host, ctx, step, len(unusable), self.player.timeout_s)
            try:
                value = await call.within_time(partial(self.perform, call, view), self.player.name)
            except (StepError, RunStopped):
                if call.stopped:
                    raise call.stopped from None
                raise
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                    raise  # ours; any other is the code's own, of a task that it has cancelled
                raise RoleFailed(SECRETS.text(f"{self.player.name}: {last_line(error)}")) from None
            finally:
                self.replays.answered += call.replayed
            if call.stopped:
                raise call.stopped
            response = _without_keys(response_of(self.player.role, value))
            if call.model_calls:
                response["model_calls"] = call.model_calls
            if call.replayed:
                response["replayed"] = call.replayed
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
        loop = asyncio.get_running_loop()
        threaded = {name: _from_thread(call, tool, loop) for name, tool in tools.items()}
        result = await _in_thread(partial(function, view, **threaded))
        return await result if inspect.isawaitable(result) else result

    return perform


async def _in_thread(work: Callable[[], T]) -> T:
    """The result of `work` in a daemon thread: one that hangs is abandoned, and does not keep the process alive."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def settle(error: BaseException | None, result: T | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(cast(T, result))
        else:
            # A future refuses StopIteration, and so does a coroutine.
            stop = isinstance(error, StopIteration)
            ended.set_exception(RuntimeError("raised StopIteration") if stop else error)

    def run() -> None:
        outcome: tuple[BaseException | None, T | None]
        try:
            outcome = (None, work())
        except BaseException as error:
            outcome = (error, None)
        with suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(settle, *outcome)

    Thread(target=copy_context().run, args=(run,), daemon=True, name=THREAD).start()
    return await ended


def _from_thread(
    call: Call, tool: Callable[..., Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop
) -> Callable[..., T]:
    """A coroutine function as an ordinary one, for functions that run in a thread."""

    def request(*args: Any, **kwargs: Any) -> T:
        if call.ended:  # a thread cannot be stopped: this ends one that asks on and catches every Exception
            raise SystemExit("this call has ended")
        return asyncio.run_coroutine_threadsafe(tool(*args, **kwargs), loop).result()

    return request
