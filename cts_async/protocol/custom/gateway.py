"""The gateway: per call of a custom role an OpenAI-style endpoint, a search and a page reader on the loopback.

    POST /CALL/v1/chat/completions    any model of the catalogue, behind its lane and the journal; `stream` is one chunk
    GET  /CALL/v1/models              the names of the catalogue
    POST /CALL/search {"q"}           the run's search engine, in Serper's shape
    POST /CALL/visit {"url"}          the run's page reader: {"url", "title", "text"}

CALL is a random token for one call of one instance: it is the credential, and ends with the call. Whatever goes this way
counts towards limits and budgets, and is answered from the journal when an interrupted call is begun again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import orjson
from aiohttp import web

from cts_async.errors import (
    CTSError,
    RateLimited,
    RejectedError,
    RunStopped,
    StepError,
    TransientError,
)
from cts_async.protocol.custom.calls import Call
from cts_async.search.backends import Hit

MAX_BODY_BYTES: Final = 64 << 20
OWN_FIELDS: Final = frozenset({"model", "messages", "stream", "stream_options", "n", "user"})
"""Fields of a request that are no parameters of the model."""


class Gateway:
    """Serves the calls in progress; `lease` gives one of them its addresses."""

    def __init__(self, models: Callable[[], list[str]]) -> None:
        self._models = models
        self._calls: dict[str, Call] = {}
        self._base = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Gateway]:
        """Listen on a free loopback port."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/{call}/v1/chat/completions", self._chat)
        app.router.add_get("/{call}/v1/models", self._list_models)
        app.router.add_post("/{call}/search", self._search)
        app.router.add_post("/{call}/visit", self._visit)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self._base = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()

    @contextmanager
    def lease(self, call: Call) -> Iterator[dict[str, str]]:
        """The addresses of one call, valid until it ends."""
        token = secrets.token_urlsafe(16)
        self._calls[token] = call
        base = f"{self._base}/{token}"
        try:
            yield {"base_url": f"{base}/v1", "search_url": f"{base}/search", "visit_url": f"{base}/visit"}
        finally:
            del self._calls[token]

    # --- Requests

    async def _answer(
        self, request: web.Request, work: Callable[[Call, Mapping[str, Any]], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer a request of a call in progress; errors have OpenAI's shape."""
        call = self._calls.get(request.match_info["call"])
        if call is None:
            return _error(404, "this call has ended, or never was")
        try:
            body = orjson.loads(await request.read() or b"{}")
            if not isinstance(body, dict):
                raise TypeError
        except (ValueError, TypeError):
            return _error(400, "the body must be a JSON object")
        try:
            return await work(call, body)
        except RunStopped as stopped:
            call.stopped = stopped
            return _error(503, str(stopped))
        except CTSError as error:
            return _error(_status(error), str(error))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        async def work(call: Call, body: Mapping[str, Any]) -> web.StreamResponse:
            model, messages = body.get("model"), body.get("messages")
            if not isinstance(model, str) or not isinstance(messages, list) or not messages:
                return _error(400, "model and messages are required")
            if body.get("n") not in (None, 1):
                return _error(400, "n must be 1")
            if not all(isinstance(one, dict) and "content" in one for one in messages):
                return _error(400, "every message needs its content")
            params = {name: value for name, value in body.items() if name not in OWN_FIELDS}
            response = await call.complete(model, [_plain(one) for one in messages], params)
            completion = _completion(model, response)
            if not body.get("stream"):
                return _json(completion)
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return await _as_stream(request, completion, usage=usage)

        return await self._answer(request, work)

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["call"] not in self._calls:
            return _error(404, "this call has ended, or never was")
        data = [{"id": name, "object": "model", "owned_by": "cts_async"} for name in self._models()]
        return _json({"object": "list", "data": data})

    async def _search(self, request: web.Request) -> web.StreamResponse:
        async def work(call: Call, body: Mapping[str, Any]) -> web.StreamResponse:
            query = body.get("q")
            if not isinstance(query, str) or not query.strip():
                return _error(400, "q is required")
            hits = await call.search(query)
            return _json({"searchParameters": {"q": query}, "organic": _organic(hits, body.get("num"))})

        return await self._answer(request, work)

    async def _visit(self, request: web.Request) -> web.StreamResponse:
        async def work(call: Call, body: Mapping[str, Any]) -> web.StreamResponse:
            url = body.get("url")
            if not isinstance(url, str) or not url.strip():
                return _error(400, "url is required")
            page = await call.visit(url)
            return _json({"url": page.url, "title": page.title, "text": page.text})

        return await self._answer(request, work)


def _plain(message: Any) -> Any:
    """A message whose content is text, also where it came in parts: not every provider takes those."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list) or any(part.get("type") != "text" for part in content):
        return message
    return {**message, "content": "\n".join(str(part.get("text", "")) for part in content)}


def _organic(hits: list[Hit], num: Any) -> list[dict[str, Any]]:
    most = num if isinstance(num, int) and num > 0 else len(hits)
    return [
        {"position": n, "title": hit.title, "link": hit.url, "snippet": hit.snippet}
        | ({"date": hit.date} if hit.date else {})
        for n, hit in enumerate(hits[:most], 1)
    ]


def _completion(model: str, response: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded response as OpenAI's chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": response["text"]}
    if calls := response.get("tool_calls"):
        message |= {"tool_calls": calls, "content": response["text"] or None}
    if reasoning := response.get("reasoning"):
        message["reasoning_content"] = reasoning
    usage = response.get("usage") or {}
    prompt, completion = int(usage.get("input", 0)), int(usage.get("output", 0))
    return {
        "id": f"chatcmpl-{secrets.token_hex(8)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": response.get("finish_reason") or ("tool_calls" if calls else "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


async def _as_stream(
    request: web.Request, completion: Mapping[str, Any], *, usage: bool
) -> web.StreamResponse:
    """A completion as server-sent events: one chunk with everything, and the end."""
    choice = completion["choices"][0]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": n, **one} for n, one in enumerate(delta["tool_calls"])]
    chunk = {
        **{name: completion[name] for name in ("id", "created", "model")},
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": choice["finish_reason"]}],
    }
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await stream.prepare(request)
    chunks = [chunk, {**chunk, "choices": [], "usage": completion["usage"]}] if usage else [chunk]
    for one in chunks:
        await stream.write(b"data: %b\n\n" % orjson.dumps(one))
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
    return _json({"error": {"message": message, "type": "cts_async", "code": status}}, status)


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")
