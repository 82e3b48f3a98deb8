"""A call of a custom role: a durable step, in which whatever it asks of models and tools is a durable step, too.

An interrupted call is begun again, and what it had asked before is answered from the journal: equal questions in the
order of their occurrence. A reply that breaks the protocol's rules is asked for again, as a model's is; what another
attempt asks of models is new, and what it asks the user is not, if it is the same.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

import anyio
import anyio.to_thread
import orjson

from cts_async import foreign_json
from cts_async.engine.journal import Journal, StepMemory
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
from cts_async.llm.json_text import loads_or_none
from cts_async.llm.model import Completion, Model, ModelCall, n_bytes
from cts_async.llm.params import params_problem, uncounted_bytes
from cts_async.llm.parsing import Clarification, Clarified, Expect, OneLine, QuestionList, ShortPhrase, YesNo
from cts_async.llm.redact import SECRETS
from cts_async.protocol.custom.sources import CustomRole, last_line
from cts_async.protocol.custom.wire import View, nuggets_json, response_of, shown_value, trace_of, view_json
from cts_async.protocol.views import (
    AnswererView,
    AskingView,
    ClarifierView,
    JudgeView,
    ReformulatorView,
    RewriterView,
    SearchView,
    TurnView,
)
from cts_async.records import (
    Answer,
    Ask,
    AskLog,
    AskRules,
    Judgment,
    Nugget,
    NuggetMemo,
    Source,
    Trace,
    Turn,
    value,
)
from cts_async.search.asking import MAX_QUESTION_CHARS, AskSession, Injection, NoQuestionsLeft, User
from cts_async.search.backends import Hit, Page
from cts_async.search.tools import Tools, host_of, read_hits, read_page, reason_of
from cts_async.search.turn_format import one_line

T = TypeVar("T")

MAX_FAILURES: Final = 50
"""Requests of one call to models, search and pages that fail in a row: code that asks again for ever is ended."""
MAX_CAUSES: Final = 100
"""Distinct causes of failed searches and visits that a call's record lists."""


MAX_REQUEST_BYTES: Final = 32 << 20
"""Of one request to a model: with its reply it has to fit into one line of the journal."""


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


class UserFailed(RoleFailed):
    """The user gave no reply to an agent's question.

    The question has been asked again as often as it is worth: the agent's call, which may be as good as ever, is not
    made again, and its command or endpoint is not what is down.
    """

    def __init__(self, reason: StepError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Call:
    """One call of a custom role in progress. As a context manager it is the time in which the run works for it."""

    def __init__(
        self, host: Host, ctx: Context, step: str, attempt: int, session: AskSession | None = None
    ) -> None:
        """Begin a call in this task. `attempt` counts the unusable replies before: its questions are new ones.

        `session` has the questions to the user, of an agent that may ask.
        """
        self.ctx, self.step, self.session = ctx, step, session
        self.n_actions = 0
        """Requests to models, searches, visits and questions so far: the turns of an agent."""
        self.tools: list[list[str]] = []
        """Searches and visits so far: kind, query or address, and the key of the step."""
        self.failed_tools: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        """Searches and visits that failed: tool, host and reason."""
        self.model_calls = 0
        self.answered = 0
        """Those of its model calls that have a reply."""
        self.replayed = 0
        """Those that the journal answered."""
        self.stopped: RunStopped | StepError | None = None
        """Why the call is over: the run ended, it took too long, the role asked for what it cannot have, or the user's
        reply failed. Code that catches this, or could not be told so, must not go on."""
        self.ended = False
        self._host, self._attempt = host, attempt
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)
        assert task is not None, "calls are begun in tasks"
        self.task: asyncio.Task[Any] = task
        self._asked: dict[str, set[int]] = {}
        """Numbers of equal questions in progress or answered: one that failed is asked again under its own."""
        self._tool_calls = self._waiting = self._failures = 0
        self._active_at = self._loop.time()
        """When it was begun, or the run last ended working for it."""

    async def llm(self, prompt: str | Sequence[Message], *, model: str, **params: Any) -> LlmReply:
        """Ask a model of the catalogue; `params` are request parameters. Raises StepError, RunStopped."""
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        try:
            response = await self.complete(model, messages, params)
        except RoleFailed as error:  # code that goes on without it would give other results elsewhere
            self.stop(error)
            raise
        if "refused" in response:
            raise ContentRefused(response["refused"])
        return LlmReply(response["text"], response.get("finish_reason", "stop"))

    async def complete(
        self, model: str, messages: Sequence[Message], params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Ask a model and return the response as the journal stores it, with `tool_calls` if there are any."""
        if self.ended or self.stopped is not None:  # `over`, without a call on the way of every one
            # A call that is over is cancelled by a callback of the loop: give it the chance to run.
            await asyncio.sleep(0)
        with self:
            opened = await self._host.model(model)
            digest = _request_digest(opened, model, messages, params)
            self.model_calls += 1
            self.n_actions += 1
            occurrence, n_executed = 1, len(self.ctx.executed)
            occurrences = self._asked.get(digest)
            if occurrences is None:
                occurrences = self._asked[digest] = {1}
            else:
                while occurrence in occurrences:
                    occurrence += 1
                occurrences.add(occurrence)
            request: dict[str, Any] = {"messages": messages}
            if params:
                request["params"] = params
            try:
                # The name is no part of the key: calls made side by side are numbered as they come.
                call: ModelCall[Mapping[str, Any]] = ModelCall(
                    f"{self.step}/llm",
                    messages,
                    _COMPLETION,
                    request,
                    key_on=["custom", self._attempt, occurrence, digest],
                    # No parameters are the same for each call, and what they determine is made once.
                    params=params or None,
                    name=f"{self.step}/llm/{self.model_calls}",
                    as_recorded=True,
                )
                step = opened.step(self.ctx, call)
                response = await self.ctx.step(step)
            except BaseException:
                occurrences.discard(occurrence)
                raise
            self.answered += 1
            # What was executed meanwhile is new; any other step the journal has answered.
            self.replayed += step.key not in self.ctx.executed[n_executed:]
            return response

    async def search(self, query: str) -> list[Hit]:
        """The run's search engine: hits, best first. Raises ToolError and other StepErrors."""
        if self.over:
            await asyncio.sleep(0)
        self.n_actions += 1
        with self, self._counting_failure("search", ""):
            hits, key = await self._tools().hits(self.ctx, f"{self._tool_step()}/query/1", query)
            self.tools.append(["search", query, key])
            return hits

    async def visit(self, url: str) -> Page:
        """The run's page reader: a page's readable text. Raises ToolError and other StepErrors."""
        if self.over:
            await asyncio.sleep(0)
        self.n_actions += 1
        with self, self._counting_failure("visit", host_of(url)):
            page, key = await self._tools().page(self.ctx, f"{self._tool_step()}/page/1", url)
            self.tools.append(["visit", url, key])
            return page

    async def ask(self, question: str) -> Ask:
        """Ask the user, where the agent may. Raises RejectedError where no question is left, StepError, RunStopped."""
        if self.over:
            await asyncio.sleep(0)
        with self:
            if self.session is None:
                raise RejectedError("this agent may not ask the user: --ask during, or both, allows it")
            if not isinstance(question, str):
                raise RejectedError(f"the question has to be a text, not {type(question).__name__}")
            text = one_line(question)[:MAX_QUESTION_CHARS]
            if not text:
                raise RejectedError("the question is empty")
            self.n_actions += 1
            try:
                ask, _ = await self.session.ask(self.ctx, text, self.n_actions)
            except NoQuestionsLeft:
                most = self.session.rules.max_asks
                raise RejectedError(f"no question is left: {most} may be asked") from None
            except StepError as error:  # code that goes on without the reply would make one up
                self.stop(UserFailed(error))
                raise
            return ask

    @property
    def asks_left(self) -> int:
        """Number of questions that may still be asked; 0 for an agent that may not ask."""
        if self.session is None:
            return 0
        return self.session.n_left

    @contextmanager
    def _counting_failure(self, tool: str, host: str) -> Iterator[None]:
        """Count a search or visit that fails: the role may go on without it, and its answer must not hide that."""
        try:
            yield
        except StepError as error:
            # RoleFailed is no failed search: the call is over, or the command has no search.
            if not isinstance(error, RoleFailed):
                host = getattr(error, "host", "") or host or self._tools().engine.name
                self.failed_tools[tool, host[:100], reason_of(error)[:60]] += 1
            raise

    @property
    def over(self) -> bool:
        """True if it can ask for nothing more. Code that asks on is cancelled at its next chance: give it one."""
        return self.ended or self.stopped is not None

    def stop(self, reason: RunStopped | StepError) -> None:
        """End the call, whatever the role makes of the error that it is given."""
        self.stopped = self.stopped or reason
        # Not at once: a task that cancels itself, and then ends, cancels its caller.
        self._loop.call_soon(self._cancel)

    def _cancel(self) -> None:
        if not self.ended:
            self.task.cancel()

    def silent_s(self, now: float) -> float:
        """Seconds since the role was last heard of; 0 while the run works for it."""
        if self._waiting:
            return 0.0
        return now - self._active_at

    def __enter__(self) -> None:
        """The run works for the role: its time does not pass. RoleFailed if the call is over."""
        if self.ended or self.stopped is not None:
            raise RoleFailed("this call has ended")
        self._waiting += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting -= 1
        self._active_at = self._loop.time()
        if error is None:
            self._failures = 0
        elif isinstance(error, RunStopped):
            self.stop(error)
        elif isinstance(error, StepError):
            self._failures += 1
            if self._failures == MAX_FAILURES:
                self.stop(RoleFailed(f"{MAX_FAILURES} requests in a row failed (the last: {error})"))

    def _tool_step(self) -> str:
        self._tool_calls += 1
        return f"{self.step}/tool/{self._tool_calls}"

    def _tools(self) -> Tools:
        if self._host.tools is None:
            raise RoleFailed("this command has no search")
        return self._host.tools


_COMPLETION: Final = Completion()
_STEP_KEY: Final = re.compile(r"[0-9a-f]{32}")


def _request_digest(opened: Model, name: str, messages: Sequence[Message], params: Mapping[str, Any]) -> str:
    """Return what tells a request from others. Raises RejectedError for one that cannot be sent to this model."""
    api = opened.spec.api
    # Parts of a content, and tools, are passed on as they are: other wire formats would need a translation.
    if api != "openai":
        is_text = all(isinstance(message["content"], str) for message in messages)
        if "tools" in params or not is_text:
            raise RejectedError(f"{name}: takes text only here (its API is {api}'s), and no tools")
    if params:
        fault = params_problem(params)
        if fault:
            parameter, problem = fault
            raise RejectedError(f"{name}: the request cannot be sent: {parameter} {problem}")
    try:
        digest = step_key(opened.spec.name, messages, params)
    except TypeError as error:  # nested too deeply, or no JSON
        raise RejectedError(f"{name}: the request cannot be sent: {error}") from None
    size = n_bytes(messages)
    if params:
        size += uncounted_bytes(params)
    if size > MAX_REQUEST_BYTES:
        raise RejectedError(f"{name}: the request has {size:,} bytes, of at most {MAX_REQUEST_BYTES:,}")
    return digest


class Deadlines:
    """Ends the calls of one player that neither end nor ask the run for anything in time.

    One timer for all of them: a timer and a scope for each would cost as much as all else that is noted of a call.
    """

    def __init__(self, player: str, timeout_s: float) -> None:
        self._player, self._timeout_s = player, timeout_s
        self._calls: set[Call] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Call) -> None:
        """Watch a call."""
        self._calls.add(call)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._check)

    def discard(self, call: Call) -> None:
        """Watch a call no more: it has ended."""
        self._calls.discard(call)

    def _check(self) -> None:
        """End what is late, and look again when another call could be; one that catches it is cancelled again then."""
        loop, next_s = asyncio.get_running_loop(), self._timeout_s
        for call in self._calls:
            remaining_s = self._timeout_s - call.silent_s(loop.time())
            if remaining_s > 0:
                next_s = min(next_s, remaining_s)
            else:
                call.stop(TimedOut(f"{self._player}: no reply within {self._timeout_s:g} s"))
        self._timer = None
        if self._calls:
            self._timer = loop.call_later(next_s, self._check)


Perform = Callable[[Call, View], Awaitable[Any]]
"""Makes one call: a function, a request to a command or to an endpoint. Returns a value for `response_of`."""


class Replays:
    """What the calls of one player that were begun again had asked before, and how much the journal answered."""

    def __init__(self) -> None:
        self.n_calls = self.n_asked = self.n_answered = 0
        """Calls that were begun again, the model calls that they had made, and those that the journal answered."""
        self.recorded: dict[StepMemory, Counter[tuple[str, str]]] = {}
        """Model calls that each journal had when this process first asked, by instance and the role's step."""
        self._reading = anyio.Lock()

    async def read(self, journal: StepMemory) -> None:
        """Fill `recorded` for a journal: with nothing on another machine than the journal's."""
        async with self._reading:
            if journal not in self.recorded:
                model_calls = Counter[tuple[str, str]]()
                if isinstance(journal, Journal):
                    # In a thread: the run goes on while a large journal is read.
                    model_calls = await anyio.to_thread.run_sync(_model_calls, journal.place)
                self.recorded[journal] = model_calls

    def begun_again(self, n_model_calls: int) -> None:
        """Note that a call is begun again which had asked models so often."""
        if n_model_calls:
            self.n_calls += 1
            self.n_asked += n_model_calls

    def notice(self, name: str) -> str:
        """What the user should know at the end; empty if no call was begun again."""
        if not self.n_asked:
            return ""
        if not self.n_answered:
            return (
                f"{name}: asked something else when its call was begun again: nothing could be replayed; keep the time "
                "of day and random numbers out of prompts"
            )
        calls = "1 call was" if self.n_calls == 1 else f"{self.n_calls} calls were"
        answered = f"{self.n_answered} of {self.n_asked} model calls"
        return f"{name}: {calls} begun again: {answered} answered from the journal"


def _model_calls(journal: Path) -> Counter[tuple[str, str]]:
    """The finished model calls of custom roles, by instance and the role's step."""
    model_calls: Counter[tuple[str, str]] = Counter()
    with journal.open("rb") as file:
        for line in file:
            # Most lines are other steps: they are not parsed.
            if b"/llm/" not in line or not line.endswith(b"\n"):
                continue
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                record = foreign_json.loads(line)
                step, separator, _ = record["step"].rpartition("/llm/")
                if separator and record["ok"]:
                    model_calls[record["instance"], step] += 1
    return model_calls


class CustomPlayer:
    """An opened custom role: plays what it is, wherever a model could."""

    def __init__(
        self,
        player: CustomRole,
        perform: Perform,
        host: Host,
        lane: Lane | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        self.player, self.replays = player, Replays()
        self._perform, self._host, self._lane, self._policy = perform, host, lane, policy
        self._identity = _sorted_json(player.identity)
        self._pid = os.getpid()
        self._folder: str | None = None
        """Where this process is at home, for a function, which may change its working directory."""
        if player.kind == "function":
            self._folder = os.getcwd()
        self._deadlines = Deadlines(player.display_name, player.timeout_s)
        self._briefs = NuggetMemo(_brief_of)
        self.exact_unknown = False
        """Whether only the word itself is `unknown`, as in a run as published."""

    @property
    def name(self) -> str:
        """The name that verdicts of a custom judge bear."""
        return self.player.label

    async def clarify(self, ctx: Context, view: ClarifierView) -> tuple[str, ...]:
        """Exactly `view.k` questions."""
        return await self._ask(ctx, "clarify", view, QuestionList(view.k))

    async def offer(self, ctx: Context, view: TurnView, turn: int) -> Clarified:
        """The questions of one turn of a conversation: it has no scheme, and names no types."""
        clarifier_view = ClarifierView(view.blurred_query, view.k, view.conversation.pairs)
        return await self._ask(ctx, f"clarify/{turn}", clarifier_view, Clarification(view.k))

    async def answer(self, ctx: Context, view: AnswererView, step: str) -> Answer:
        """The user's answer to one question."""
        form: Expect[Answer] = ShortPhrase(exact=self.exact_unknown)
        if view.replies == "yes-no":
            form = YesNo()
        return await self._ask(ctx, step, view, form, on_record="fused_query")

    async def rewrite(self, ctx: Context, view: RewriterView) -> str:
        """The rewritten query."""
        return await self._ask(ctx, "rewrite", view, OneLine())

    async def reformulate(self, ctx: Context, view: ReformulatorView, turn: int) -> str:
        """The query after so many turns of a conversation."""
        rewriter_view = RewriterView(view.conversation.first_query, view.conversation.pairs)
        return await self._ask(ctx, f"reformulate/{turn}", rewriter_view, OneLine())

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        """The label of every nugget."""
        brief = self._briefs.get(view.nuggets)
        # Sorted by name, as `step_key` writes them.
        fields = {"candidate_answer": view.candidate_answer, "nuggets": brief.data, "query": view.query}
        data = orjson.Fragment(orjson.dumps(fields))
        label = self.player.label
        name = f"judge/{label}"
        # The run's data and results have all these texts; which of them were judged is proved by the step's key.
        request = {"custom": label}
        decode = self._decoder(ctx, name, brief.expect)
        labels = await ctx.step(self._step(ctx, name, view, data, request, decode, shared=True))
        return Judgment(label, labels)

    async def search(
        self,
        ctx: Context,
        view: SearchView,
        *,
        retry_failures: bool = False,
        user: User | None = None,
        injection: Injection | None = None,
    ) -> Trace:
        """The answer of a foreign agent, with the searches, visits and questions that it made through the run.

        `injection` is never given: such code takes nothing between its turns.
        """
        new_session: Callable[[], AskSession] | None = None
        if isinstance(view, AskingView) and user is not None:
            new_session = partial(AskSession, user, AskRules(view.max_asks, view.min_asks, view.replies))
        fields = view_json(view)
        request = {"custom": self.player.label, "view": fields}
        decode = partial(_checked_answer, view)
        step = self._step(ctx, "search", view, _sorted_json(fields), request, decode, new_session=new_session)
        try:
            response = await ctx.step(step)
        except UserFailed as failed:
            raise failed.reason from None  # with the name of the step that has failed
        if "further" in response:
            ctx.further["search"] = response["further"]
        turns = [await _recalled_turn(ctx, *tool_call) for tool_call in response.get("tools", ())]
        asked = None
        if new_session is not None:
            asked = _recorded_asks(response)
            turns += [Turn("ask", ask.reply, ask.question) for ask in asked.asks]
        return trace_of(response, turns, int(response.get("model_calls", 0)), asked)

    def _ask(
        self, ctx: Context, step: str, view: View, expect: Expect[T], *, on_record: str = ""
    ) -> Coroutine[Any, Any, T]:
        """Call the role with a view; of its field `on_record`, which the run's data have, a digest is recorded."""
        fields = view_json(view)
        data = _sorted_json(fields)
        request: dict[str, Any] = {"custom": self.player.label, "view": fields}
        if on_record:
            request["on_record"] = step_key({on_record: fields.pop(on_record)})[:16]
        return ctx.step(self._step(ctx, step, view, data, request, self._decoder(ctx, step, expect)))

    def _decoder(self, ctx: Context, step: str, expect: Expect[T]) -> Callable[[Mapping[str, Any]], T]:
        """Return what reads a recorded response of this form."""

        def decode(response: Mapping[str, Any]) -> T:
            text = response["text"]
            try:
                parsed = expect.parse(text)
            except UnusableOutput as error:
                # A person reads this, who wrote the code: say what it gave, which the journal has as text.
                returned = shown_value(loads_or_none(text) or text)
                raise UnusableOutput(
                    f"{error.problem}; {self.player.display_name} returned {returned}", text=text
                ) from None
            if "further" in response:
                ctx.further[step] = response["further"]
            return parsed

        return decode

    def _step(
        self,
        ctx: Context,
        step: str,
        view: View,
        data: orjson.Fragment,
        request: Mapping[str, Any],
        decode: Callable[[Mapping[str, Any]], T],
        *,
        shared: bool = False,
        new_session: Callable[[], AskSession] | None = None,
    ) -> Step[T]:
        """The durable step of one call; `data` is the view as JSON, which determines it, sorted by name."""
        unusable: list[UnusableOutput] = []
        earlier: Call | None = None

        async def execute(latest: UnusableOutput | None) -> Executed:
            nonlocal earlier
            if earlier is None:
                # What the call asked in an earlier process, before that was interrupted.
                journal = ctx.job.journal
                if journal not in self.replays.recorded:
                    await self.replays.read(journal)
                n_recorded = self.replays.recorded[journal].get((ctx.job.id, step))
                if n_recorded:
                    self.replays.begun_again(n_recorded)
            if latest is not None and latest not in unusable:
                unusable.append(latest)
            elif earlier is not None:
                # No reply at all: the same attempt again, whose questions the journal answers.
                self.replays.begun_again(earlier.answered)
            session = new_session() if new_session else None
            earlier = call = Call(self._host, ctx, step, len(unusable), session)
            return Executed(await self._response(call, view))

        # Equal questions to a judge are asked once, whatever the instance (`shared`).
        instance = None if shared else ctx.job.id
        return Step(
            name=step,
            key=step_key(step, instance, self._identity, data),
            execute=execute,
            decode=decode,
            request=request,
            lane=self._lane,
            policy=self._policy,
        )

    async def _response(self, call: Call, view: View) -> dict[str, Any]:
        """What the journal stores of one call. Raises StepError and RunStopped only, whatever the role does."""
        task, n_cancellations = call.task, call.task.cancelling()
        self._deadlines.add(call)
        try:
            response = response_of(self.player.role, await self._perform(call, view))
            if task.cancelling() > n_cancellations:  # it has cancelled its task, or has caught that we did
                await asyncio.sleep(0)
        except (StepError, RunStopped) as error:
            raise call.stopped or error from None
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and anyio.current_effective_deadline() == -math.inf:
                raise  # the run has ended; any other cancellation is the code's own
            failed = RoleFailed(SECRETS.text(f"{self.player.display_name}: {last_line(error)}"))
            raise call.stopped or failed from None
        finally:
            if os.getpid() != self._pid:  # a child that came back from os.fork(): the run is its parent's
                os._exit(1)
            if self._folder is not None:  # paths of the run are relative to it
                # A context manager would be three calls more, for every call of a role.
                try:  # noqa: SIM105
                    os.chdir(self._folder)
                except OSError:
                    pass
            call.ended = True
            self._deadlines.discard(call)
            self.replays.n_answered += call.replayed
            # The code's own cancellations end here: the next step of this task must not meet them.
            while task.cancelling() > n_cancellations and anyio.current_effective_deadline() > -math.inf:
                task.uncancel()
        if call.stopped:
            raise call.stopped
        if call.model_calls:
            response["model_calls"] = call.model_calls
        if call.replayed:
            response["replayed"] = call.replayed
        if call.tools:
            response["tools"] = call.tools
        if call.session is not None:
            response["asks"] = [[ask.question, ask.reply, ask.turn] for ask in call.session.asks]
            response["asks_refused"] = call.session.n_refused
            response["turns"] = call.n_actions + 1
        if call.failed_tools:
            causes = Counter(call.failed_tools).most_common(MAX_CAUSES)
            response["failed_tools"] = [[*cause, n] for cause, n in causes]
        return response


def _sorted_json(json_value: Any) -> orjson.Fragment:
    """A value as JSON as `step_key` writes it."""
    return orjson.Fragment(orjson.dumps(json_value, option=orjson.OPT_SORT_KEYS))


@value
class _Brief:
    """Nuggets as a judge's view has them, as JSON, and the form of its reply."""

    data: orjson.Fragment
    expect: CoverageList


def _brief_of(nuggets: tuple[Nugget, ...]) -> _Brief:
    ids = tuple([nugget.id for nugget in nuggets])
    return _Brief(_sorted_json(nuggets_json(nuggets)), CoverageList(ids))


def _recorded_asks(response: Mapping[str, Any]) -> AskLog:
    """What an agent asked, from the recorded response of its call."""
    asks = [Ask(str(question), str(reply), int(turn)) for question, reply, turn in response.get("asks", ())]
    return AskLog(tuple(asks), int(response.get("turns", 1)), int(response.get("asks_refused", 0)))


def _checked_answer(view: SearchView, response: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(view, AskingView):
        n_asked = len(_recorded_asks(response).asks)
        if n_asked < view.min_asks:
            raise UnusableOutput(f"it answered after {n_asked} of at least {view.min_asks} questions")
    if not response["text"].strip():
        raise UnusableOutput("the answer is empty")
    # Of another run's journal nothing is certain; these steps are looked up.
    for kind, _, key in response.get("tools", ()):
        if kind not in ("search", "visit") or not _STEP_KEY.fullmatch(key):
            raise UnusableOutput("a search or visit of another form")
    return response


async def _recalled_turn(ctx: Context, kind: str, request: str, key: str) -> Turn:
    """A search or visit of an agent as the journal has it."""
    response = await ctx.recall(key)
    if kind == "visit":
        page = read_page(response)
        return Turn("visit", "", request, (Source(page.url, page.title, page.text, "page"),))
    hits = read_hits(response)
    sources = tuple(Source(hit.url, hit.title, hit.snippet, "snippet") for hit in hits)
    return Turn("search", "", request, sources)
