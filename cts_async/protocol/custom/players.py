"""The players of custom roles, opened for a run: functions imported, commands and endpoints connected to the gateway."""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, chdir, contextmanager, redirect_stdout, suppress
from io import TextIOBase
from threading import Thread
from typing import Any, Final, TypeVar, cast

import aiohttp
import orjson

from cts_async import __version__
from cts_async.custom import RoleName
from cts_async.engine.events import Events, Notice
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.step import RetryPolicy
from cts_async.errors import ProviderRefused, RateLimited, RejectedError, TransientError, UnusableOutput
from cts_async.foreign_json import NestedTooDeeply
from cts_async.llm.http import ENCODINGS, ConnectionPool, HttpEndpoint, encode_headers
from cts_async.llm.limit_headers import retry_after_s
from cts_async.llm.redact import SECRETS
from cts_async.protocol.custom.calls import Call, CustomPlayer, Host, Perform
from cts_async.protocol.custom.command import Command
from cts_async.protocol.custom.gateway import Gateway
from cts_async.protocol.custom.sources import CustomRole, load_function, tools_taken
from cts_async.protocol.custom.wire import View, read_reply, reply_value, view_json

T = TypeVar("T")

ONCE: Final = RetryPolicy(max_transient=0, max_rate_limited=0, patience_s=0.0)
"""A function's models have been asked again by their own steps; only an unusable reply is worth another call."""
THREAD: Final = "cts-async role"
"""The name of the threads of functions without `async`."""
MAX_CONCURRENCY: Final = 64
"""Requests that a command or an endpoint is sent at once, at most."""
Request = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@asynccontextmanager
async def open_players(
    players: Sequence[CustomRole],
    host: Host,
    environ: Mapping[str, str],
    events: Events,
    lane_of: Callable[[str, str, LaneLimits], Lane],
    *,
    models: Callable[[], list[str]],
    max_outage_s: float,
) -> AsyncIterator[Mapping[tuple[str, RoleName], CustomPlayer]]:
    """Players by label and role. What functions print goes to standard error: standard output has the results."""
    async with AsyncExitStack() as stack:
        opened: dict[tuple[str, RoleName], CustomPlayer] = {}
        requests: dict[str, Request] = {}
        """By name: a command or an endpoint that plays several roles is one process, or one session."""
        gateway = Gateway(models)
        kinds = {player.kind for player in players}
        if kinds & {"command", "endpoint"}:
            await stack.enter_async_context(gateway.serving())
        if "function" in kinds:
            stack.enter_context(chdir("."))  # where a function leaves the process does not matter at the end
            stack.enter_context(_printing_to_stderr())
            asyncio.get_running_loop().set_default_executor(_DaemonThreads())
        for player in players:
            if player.kind == "function":
                # Without a lane: a function sends nothing itself, and each of its models has its own.
                perform = function_call(load_function(player))
                opened[player.label, player.role] = CustomPlayer(player, perform, host, policy=ONCE)
                continue
            if player.name not in requests:
                requests[player.name] = await _request_function(player, environ, events, stack)
            limits = LaneLimits(
                requests_per_min=None,
                max_concurrency=MAX_CONCURRENCY,
                max_outage_s=max_outage_s,
                raisable=False,
            )
            lane = lane_of(player.name, player.label, limits)
            perform = _request_call(player, requests[player.name], gateway)
            opened[player.label, player.role] = CustomPlayer(player, perform, host, lane)
        try:
            yield opened
        finally:
            for custom in opened.values():
                notice = custom.replays.notice(custom.player.display_name)
                if notice:
                    events.emit(Notice(notice))


async def _request_function(
    player: CustomRole, environ: Mapping[str, str], events: Events, stack: AsyncExitStack
) -> Request:
    """Return what sends one request to a command or an endpoint, which is closed with the stack."""
    if player.kind == "command":
        command = Command(player, environ, events)
        stack.push_async_callback(command.close)
        return command.request
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=ConnectionPool(environ)))
    return Endpoint(player, HttpEndpoint(session, player.name)).request


def _request_call(player: CustomRole, request: Request, gateway: Gateway) -> Perform:
    """Ask a command or an endpoint, which is given the gateway's addresses for the time of the call."""

    async def perform(call: Call, view: View) -> Any:
        with gateway.lease(call, player.role) as addresses:
            fields = {"role": player.role, "view": view_json(view), **addresses}
            return reply_value(player.role, await request(fields), player.display_name)

    return perform


# --- Functions


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Standard error in place of standard output, which has the results: also for the processes that a function starts.

    Whatever a function does to it, standard output is as before at the end.
    """
    with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed or fails
        sys.stdout.flush()
    try:
        stdout_fd = os.dup(1)
    except OSError:  # closed
        stdout_fd = -1
    try:
        with redirect_stdout(cast("Any", _Stderr())):
            # The descriptor, too: `redirect_stdout` alone does not reach the processes that a function starts.
            if stdout_fd >= 0:
                os.dup2(2, 1)
            yield
    finally:
        if stdout_fd >= 0:
            os.dup2(stdout_fd, 1)
            os.close(stdout_fd)


class _Stderr(TextIOBase):
    """Standard error as it is at the time; closing it is left to its owner."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def close(self) -> None:
        """Do nothing: other functions print, too."""


def function_call(function: Callable[..., Any]) -> Perform:
    """Call a Python function with its view, and by name with what else it takes; one without `async` in a thread."""
    names = tools_taken(function)

    def perform(call: Call, view: View) -> Awaitable[Any]:
        tools = {name: getattr(call, name) for name in names}
        return cast("Awaitable[Any]", function(view, **tools))

    async def perform_in_thread(call: Call, view: View) -> Any:
        tools = {name: _from_thread(call, getattr(call, name)) for name in names}
        result = await asyncio.to_thread(function, view, **tools)
        # A partial or a callable object may wrap a coroutine function without looking like one.
        if inspect.isawaitable(result):
            return await result
        return result

    if inspect.iscoroutinefunction(function):
        return perform
    return perform_in_thread


class _DaemonThreads(ThreadPoolExecutor):
    """Runs each call in a daemon thread: one that hangs is abandoned, and does not keep the process alive.

    It is the loop's default, so that this holds for what functions give to `asyncio.to_thread`, too.
    """

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        ended: Future[T] = Future()

        def run() -> None:
            try:
                ended.set_result(work(*args, **kwargs))
            except StopIteration:  # no future takes it
                ended.set_exception(RuntimeError("raised StopIteration"))
            except BaseException as error:
                ended.set_exception(error)

        ended.set_running_or_notify_cancel()
        Thread(target=run, daemon=True, name=THREAD).start()
        return ended

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for nothing."""


def _from_thread(call: Call, tool: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """A coroutine function as an ordinary one, for functions that run in a thread."""
    loop = asyncio.get_running_loop()

    def request(*args: Any, **kwargs: Any) -> T:
        if call.ended:  # a thread cannot be stopped: this ends one that asks on and catches every Exception
            raise SystemExit("this call has ended")
        return asyncio.run_coroutine_threadsafe(tool(*args, **kwargs), loop).result()

    return request


# --- Endpoints


_HEADERS: Final = encode_headers(
    {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": ENCODINGS,
        "User-Agent": f"cts-async/{__version__}",
    }
)
_MAX_S: Final = 7 * 86_400.0
"""For one request: an endpoint may wait for models as long as a function may, and the call's own deadline ends it."""
_TRANSIENT: Final = frozenset({408, 409, 425, 500, 502, 503, 504, 529})
"""Statuses that are worth another attempt."""


class Endpoint:
    """The address of one player."""

    def __init__(self, player: CustomRole, endpoint: HttpEndpoint) -> None:
        self._name, self._endpoint = player.name, endpoint

    async def request(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send one request and return its reply. Raises StepError, ProviderRefused."""
        id = secrets.token_hex(8)
        body = orjson.dumps({"id": id, **fields})
        try:
            response = await self._endpoint.send(_HEADERS, body, _MAX_S, keep_headers=True)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._endpoint.failure(error, self._name, _MAX_S) from None
        data = response.data
        if response.status != 200:
            raise self._refusal(response.status, response.headers, SECRETS.body(data))
        try:
            reply = read_reply(data)
        except NestedTooDeeply as error:
            raise UnusableOutput(f"{self._name}: {error}") from None
        if not isinstance(reply, dict):
            problem = "is not a JSON object"
        elif reply.get("id", id) != id:  # it may leave the id out: over HTTP a reply has one request
            problem = "has another request's id"
        else:
            return reply
        text = SECRETS.body(data)[:2000].decode(errors="replace")
        raise UnusableOutput(f"{self._name}: the reply {problem}", text=text)

    def _refusal(self, status: int, headers: Mapping[str, str], data: bytes) -> Exception:
        text = f"{self._name}: HTTP {status}"
        body = " ".join(data[:300].decode(errors="replace").split())
        if body:
            text = f"{text} ({body})"
        wait_s = retry_after_s(headers, time.time())
        if status == 429:
            return RateLimited(text, status=status, retry_after_s=wait_s)
        if status in _TRANSIENT:
            return TransientError(text, status=status, retry_after_s=wait_s)
        # A key, a path or a redirection that the user has to mend: no instance would fare better.
        if status in (401, 403, 404, 405) or 300 <= status < 400:
            return ProviderRefused(f"{text}; the same command resumes")
        return RejectedError(text, status=status)
