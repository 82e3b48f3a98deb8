"""The gateway: per call of a custom role an OpenAI-style endpoint, a search and a page reader on the loopback.

    POST /CALL/v1/chat/completions    any model of the catalogue, behind its lane and the journal; `stream` is one chunk
    GET  /CALL/v1/models              the names of the catalogue
    POST /CALL/search {"q"}           the run's search engine, in Serper's shape; an agent's calls only
    POST /CALL/visit {"url"}          the run's page reader: {"url", "title", "text"}; an agent's calls only
    POST /CALL/ask {"question"}       the user: {"reply", "unknown", "left"}; only of an agent that may ask

CALL is a random token for one call of one instance: it is the credential, and ends with the call. Whatever goes this way
counts towards limits and budgets, and is answered from the journal when an interrupted call is begun again. A client
that gives up while its request waits for a lane, and sends it again, is given the answer to the first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from aiohttp import ClientPayloadError, web

from cts_async import foreign_json
from cts_async.custom import RoleName
from cts_async.engine.listener import BoundedListener, connections_allowed
from cts_async.engine.processes import allow_more_files
from cts_async.errors import (
    CTSError,
    RateLimited,
    RejectedError,
    RunStopped,
    StepError,
    TransientError,
)
from cts_async.protocol.custom.calls import Call
from cts_async.protocol.custom.sources import last_line
from cts_async.search.backends import Hit

MAX_BODY_BYTES: Final = 64 << 20
MAX_CONNECTIONS: Final = 512
"""Eight for each of the calls that a command or an endpoint is sent at once: clients keep some open for later."""
BACKLOG: Final = 64
NO_PARAMETERS: Final = frozenset({"model", "messages", "stream", "stream_options", "n", "user"})
"""Fields of a request that are no parameters of the model."""
_NO_RETRY: Final = {"x-should-retry": "false"}
"""What OpenAI's clients obey: the run has retried what is worth a retry."""
_QUIET: Final = logging.getLogger("cts_async.gateway")
"""aiohttp reports broken requests here: they are the client's problem, and are answered."""
_QUIET.disabled = True

Body = Mapping[str, Any]


@dataclass(slots=True)
class _Lease:
    """A call in progress, and the answers to requests whose client had gone before they were ready."""

    call: Call
    searches: bool
    """Whether it is an agent's: no other role may search."""
    unclaimed: dict[tuple[str, bytes], list[asyncio.Task[Any]]] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """What its client may send POSTs to."""
        paths = [_CHAT]
        if self.searches:
            paths += ["search", "visit"]
        if self.call.session is not None:
            paths.append("ask")
        return paths


class _BadRequest(Exception):
    """A request that cannot be answered, and why."""


class Gateway:
    """Serves the calls in progress; `lease` gives one of them its addresses."""

    def __init__(self, models: Callable[[], list[str]]) -> None:
        self._models = models
        self._leases: dict[str, _Lease] = {}
        self._work: set[asyncio.Task[Any]] = set()
        self._base = ""
        self._listener = BoundedListener(connections_allowed(MAX_CONNECTIONS))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Gateway]:
        """Listen on a free loopback port."""
        loop = asyncio.get_running_loop()
        allow_more_files(self._listener.limit)

        # Of its own, for the size: aiohttp refuses bodies of more than 1 MiB, and a conversation with pages has more.
        def request(
            message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]
        ) -> web.BaseRequest:
            return web.BaseRequest(
                message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
            )

        # With `handler_cancellation` a handler learns that its client has gone (`_answered`).
        server = web.Server(
            self._serve, request_factory=request, handler_cancellation=True, access_log=None, logger=_QUIET
        )
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        try:
            sock = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
            self._base = f"http://127.0.0.1:{sock.getsockname()[1]}"
            async with self._listener.serving(sock, server):
                yield self
        finally:
            await runner.cleanup()
            for task in self._work:
                task.cancel()
            await asyncio.gather(*self._work, return_exceptions=True)

    @contextmanager
    def lease(self, call: Call, role: RoleName) -> Iterator[dict[str, str]]:
        """The addresses of one call, valid until it ends: those of search and pages for an agent only, that of the
        user for an agent that may ask.
        """
        token = secrets.token_urlsafe(16)
        searches = role == "agent"
        self._leases[token] = _Lease(call, searches)
        base = f"{self._base}/{token}"
        addresses = {"base_url": f"{base}/v1"}
        if searches:
            addresses |= {"search_url": f"{base}/search", "visit_url": f"{base}/visit"}
        if call.session is not None:
            addresses["ask_url"] = f"{base}/ask"
        try:
            yield addresses
        finally:
            del self._leases[token]

    # --- Requests

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; errors have OpenAI's shape. Without the token of a call in progress nothing is told."""
        address = request.raw_path.partition("?")[0]
        token, _, path = address.removeprefix("/").partition("/")
        lease = self._leases.get(token)
        if lease is None:
            return _error(404, "this call has ended or does not exist")
        with self._listener.answering(request.transport):
            return await self._serve_call(request, lease, path)

    async def _serve_call(self, request: web.BaseRequest, lease: _Lease, path: str) -> web.StreamResponse:
        """Answer a request of a call in progress."""
        if path == "v1/models":
            if request.method != "GET":
                return _error(405, "only GET is served here")
            return self._list_models()
        work = _WORK.get(path)
        if work is None:
            return _error(
                404, f"nothing is served here; this call has {', '.join(lease.paths)} and v1/models"
            )
        if path != _CHAT and not lease.searches:
            return _error(403, "only the agent may search, visit pages and ask the user")
        if request.method != "POST":
            return _error(405, "only POST is served here")
        try:
            data = await request.read()
            body = foreign_json.loads(data or b"{}")
            if not isinstance(body, dict):
                raise TypeError
        except web.HTTPRequestEntityTooLarge:
            return _error(413, f"the body has more than {MAX_BODY_BYTES >> 20} MiB")
        except (ValueError, TypeError, ClientPayloadError):
            return _error(400, "the body must be a JSON object")
        try:
            answer = await self._answered(lease, path, data, work, body)
        except _BadRequest as error:
            return _error(400, str(error))
        except RunStopped as stopped:
            return _error(503, str(stopped))
        except CTSError as error:
            return _error(_status(error), str(error))
        except Exception as error:  # a request that nobody thought of harms its own call only
            return _error(500, last_line(error))
        if path == _CHAT and body.get("stream"):
            options = body.get("stream_options")
            with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
            return await _as_stream(request, answer, with_usage=with_usage)
        return _json(answer)

    async def _answered(
        self, lease: _Lease, path: str, data: bytes, work: Callable[[Call, Body], Awaitable[Any]], body: Body
    ) -> Any:
        """The answer to a request. It is paid for: where the client goes, it is kept for the same request."""
        request = path, data
        unclaimed = lease.unclaimed.get(request)
        if unclaimed:
            task = unclaimed.pop()
        else:
            task = asyncio.ensure_future(work(lease.call, body))
            self._work.add(task)
            task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The client has gone; the work goes on. Where the work itself was cancelled the run has ended.
            if not task.cancelled():
                lease.unclaimed.setdefault(request, []).append(task)
            raise

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # seen, also where its client has gone

    def _list_models(self) -> web.Response:
        data = [{"id": name, "object": "model", "owned_by": "cts_async"} for name in self._models()]
        return _json({"object": "list", "data": data})


async def _chat(call: Call, body: Body) -> dict[str, Any]:
    model, messages = body.get("model"), body.get("messages")
    if not isinstance(model, str) or not isinstance(messages, list) or not messages:
        raise _BadRequest("model and messages are required")
    if body.get("n") not in (None, 1):
        raise _BadRequest("n must be 1")
    params = {name: value for name, value in body.items() if name not in NO_PARAMETERS}
    plain_messages = [_plain(message) for message in messages]
    return _completion(model, await call.complete(model, plain_messages, params))


async def _search(call: Call, body: Body) -> dict[str, Any]:
    query = body.get("q")
    if not isinstance(query, str) or not query.strip():
        raise _BadRequest("q is required")
    hits = await call.search(query)
    limit = body.get("num")
    # The run's engine is asked for the run's number of hits, whatever the client asks for: the search is a step.
    if isinstance(limit, int) and limit > 0:
        hits = hits[:limit]
    return {"searchParameters": {"q": query}, "organic": _organic(hits)}


async def _visit(call: Call, body: Body) -> dict[str, Any]:
    url = body.get("url")
    if not isinstance(url, str) or not url.strip():
        raise _BadRequest("url is required")
    page = await call.visit(url)
    return {"url": page.url, "title": page.title, "text": page.text}


async def _ask(call: Call, body: Body) -> dict[str, Any]:
    question = body.get("question")
    if not isinstance(question, str) or not question.strip():
        raise _BadRequest("question is required")
    ask = await call.ask(question)
    return {"reply": ask.reply, "unknown": ask.unknown, "left": call.asks_left}


_CHAT: Final = "v1/chat/completions"
_WORK: Final[Mapping[str, Callable[[Call, Body], Awaitable[dict[str, Any]]]]] = {
    _CHAT: _chat,
    "search": _search,
    "visit": _visit,
    "ask": _ask,
}


def _plain(message: Any) -> dict[str, Any]:
    """A message whose content is text, also where it came in parts: not every provider takes those.

    A message that calls tools may come without content. Raises _BadRequest.
    """
    if not isinstance(message, dict):
        raise _BadRequest("every message must be an object")
    content = message.get("content")
    if isinstance(content, str):
        return message
    if content is None:
        if not message.get("tool_calls"):
            raise _BadRequest("every message needs its content")
        return {**message, "content": None}
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise _BadRequest("the content of a message must be a text or a list of parts")
    if any(part.get("type") != "text" for part in content):
        return message  # images, say: `Call.complete` refuses them where the provider's format is another
    return {**message, "content": "\n".join(str(part.get("text", "")) for part in content)}


def _organic(hits: list[Hit]) -> list[dict[str, Any]]:
    """Return hits as Serper's organic results."""
    results = []
    for position, hit in enumerate(hits, 1):
        result = {"position": position, "title": hit.title, "link": hit.url, "snippet": hit.snippet}
        if hit.date:
            result["date"] = hit.date
        results.append(result)
    return results


def _completion(model: str, response: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded response as OpenAI's chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": response["text"]}
    finish_reason = response.get("finish_reason")
    tool_calls = response.get("tool_calls")
    if tool_calls:
        message["tool_calls"] = tool_calls
        message["content"] = response["text"] or None
    if response.get("reasoning"):
        # Not in OpenAI's own format: the field that DeepSeek's and other compatible servers use.
        message["reasoning_content"] = response["reasoning"]
    if not finish_reason:
        finish_reason = "tool_calls" if tool_calls else "stop"
    usage = response.get("usage") or {}
    prompt_tokens, completion_tokens = int(usage.get("input", 0)), int(usage.get("output", 0))
    return {
        "id": f"chatcmpl-{secrets.token_hex(8)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


async def _as_stream(
    request: web.BaseRequest, completion: Mapping[str, Any], *, with_usage: bool
) -> web.StreamResponse:
    """A completion as server-sent events: one chunk with everything, and the end."""
    choice = completion["choices"][0]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        # Clients put the parts of streamed tool calls together by this number.
        delta["tool_calls"] = [{"index": n, **tool_call} for n, tool_call in enumerate(delta["tool_calls"])]
    chunk = {
        "id": completion["id"],
        "created": completion["created"],
        "model": completion["model"],
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": choice["finish_reason"]}],
    }
    chunks = [chunk]
    if with_usage:
        # OpenAI sends it in a last chunk without choices.
        chunks.append({**chunk, "choices": [], "usage": completion["usage"]})
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await stream.prepare(request)
    for event in chunks:
        await stream.write(b"data: %b\n\n" % orjson.dumps(event))
    await stream.write(b"data: [DONE]\n\n")
    await stream.write_eof()
    return stream


def _status(error: CTSError) -> int:
    """The HTTP status that tells a client's library what to do: the run has retried what is worth a retry."""
    if isinstance(error, RateLimited):
        return 429
    if isinstance(error, RejectedError | StepError) and not isinstance(error, TransientError):
        return 400
    return 502


def _error(status: int, message: str) -> web.Response:
    text = " ".join(message.split())
    return _json({"error": {"message": text, "type": "cts_async", "code": status}}, status, _NO_RETRY)


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(value), status=status, headers=headers, content_type="application/json"
    )
